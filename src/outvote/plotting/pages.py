"""Build HTML pages as single files: style sheet, script and data inside, and a policy that forbids everything else."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from string import Template
from typing import Any


def fill(package: str, **fields: str) -> str:
    """Return the template ``page.html`` of a package, filled with its ``page.css``, its ``page.js`` and the fields.

    The policy allows these two and embedded pictures, and nothing else. The fields must be escaped already.
    """
    folder = files(package)
    style, script, template = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js", "html"))
    policy = f"default-src 'none'; img-src data:; style-src {_allowed(style)}; script-src {_allowed(script)}"
    return Template(template).substitute(policy=policy, style=style, script=script, **fields)


def _allowed(text: str) -> str:
    """Return the entry of the page's policy that allows this style sheet or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    r"""Return data as JSON for a script element; nothing in it can end the element.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
