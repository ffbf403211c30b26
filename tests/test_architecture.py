"""The source keeps to its architecture: imports go one way, private names stay home."""

from __future__ import annotations

import ast
from pathlib import Path

import outvote

ROOT = Path(outvote.__file__).parent
#: Packages from the bottom to the top: each imports only those before it (docs/architecture.md).
LAYERS = (
    "_numba", "data", "contamination", "assumptions", "votes", "certificate", "paper", "blocks", "kernels", "estimate",
    "plotting", "tables", "metrics", "datasets", "learning", "torch", "paper.experiments", "cli",
)  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module):
    """Return the layer of a module, named without its leading "outvote."; None for the package itself."""
    names = [layer for layer in LAYERS if module == layer or module.startswith(layer + ".")]
    return max(names, key=len, default=None)


def imports(node):
    """Yield the modules of outvote, and the names from them, that statements anywhere below a node import."""
    for one in ast.walk(node):
        if isinstance(one, ast.ImportFrom) and (one.module or "").partition(".")[0] == "outvote":
            module = one.module.partition(".")[2]
            for alias in one.names:
                yield (alias.name, "") if not module else (module, alias.name)


def test_every_module_belongs_to_a_layer():
    assert {module_of(path) for path in FILES if layer_of(module_of(path)) is None} == {"__init__", "__main__"}


def test_imports_go_down():
    for path in FILES:
        if not layer_of(module_of(path)):
            continue
        mine = LAYERS.index(layer_of(module_of(path)))
        top = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if not isinstance(node, ast.If)]
        for module, _ in imports(ast.Module(body=[node for node in top if isinstance(node, ast.ImportFrom)])):
            if layer_of(module) is not None:
                assert LAYERS.index(layer_of(module)) <= mine, f"{module_of(path)} imports {module}, which lies above"


def test_private_names_stay_in_their_module():
    for path in FILES:
        private = [f"{module}.{name}" for module, name in imports(ast.parse(path.read_text(encoding="utf-8")))
                   if name.startswith("_") and not name.startswith("__")]  # fmt: skip
        assert private == [], f"{module_of(path)} imports {private}"
