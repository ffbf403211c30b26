"""Without torch, what needs it is left out."""

from __future__ import annotations

import importlib.util

found = importlib.util.find_spec("torch")
# A folder tests/torch on the path is found as an empty package, without an origin.
collect_ignore = [] if found and found.origin else ["tests/torch", "src/outvote/torch"]
if not importlib.util.find_spec("triton"):
    collect_ignore.append("src/outvote/torch/device/lines.py")
