"""Leave out the tests of torch and of Spark where these are not installed."""

from __future__ import annotations

import importlib.util

#: What needs a package that `make test` does without.
_NEEDS = {"torch": ["tests/torch", "src/outvote/torch"], "pyspark": ["tests/spark"]}

collect_ignore = [path for name, paths in _NEEDS.items() if not importlib.util.find_spec(name) for path in paths]
