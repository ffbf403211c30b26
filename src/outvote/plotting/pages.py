"""What pages share: one file with its style sheet and script, a policy that forbids all others, and data in it."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from string import Template
from typing import Any


def fill(package: str, **fields: str) -> str:
    """Fill the template ``page.html`` of a package, with ``page.css`` and ``page.js`` in it.

    The policy lets the page use these two and pictures inside it, and nothing else. Fields must be escaped already.
    """
    folder = files(package)
    style, script, template = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js", "html"))
    policy = f"default-src 'none'; img-src data:; style-src {_allowed(style)}; script-src {_allowed(script)}"
    return Template(template).substitute(policy=policy, style=style, script=script, **fields)


def _allowed(text: str) -> str:
    """Name a style sheet or script in the page's policy, which forbids all others."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    r"""Write data as JSON that can stand in a script element: nothing in it ends the element.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
