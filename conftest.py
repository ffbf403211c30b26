"""Leave out the tests of torch where it is not installed."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["tests/torch", "src/outvote/torch"]
