"""Without torch, what needs it is left out."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["tests/torch", "src/outvote/torch"]
