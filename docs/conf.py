"""How Sphinx builds the documentation (`make docs`). Nothing is fetched: no intersphinx, no fonts, no scripts."""

from __future__ import annotations

import os
import re
from typing import Any

import outvote

os.environ.setdefault("MPLBACKEND", "agg")

project = "outvote"
author = "The outvote developers"
copyright = author
version = release = outvote.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "_templates"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
highlight_language = "none"  # a fence without a language holds output
default_role = "literal"  # `x` in a docstring is a name

myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say them in words
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template of a class lists them

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # timings change from build to build
    "write_computation_times": False,
    "copyfile_regex": "",
}

html_theme = "pydata_sphinx_theme"
html_title = "outvote"
html_static_path = ["_static"]
html_css_files = ["outvote.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "start": []}


def _escape_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Let |x| in a docstring be an absolute value, not a substitution; code stays as it is."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            lines[number] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def _skip_routing(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator to route metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Any) -> None:
    """Register what is above."""
    app.connect("autodoc-process-docstring", _escape_bars, priority=900)
    app.connect("autodoc-skip-member", _skip_routing)
