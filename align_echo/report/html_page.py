"""Self-contained HTML pages (`view`, `report`): a template with its style and script inside, and no outside content.

The page's policy allows its one style and script, by their hashes. Values are escaped by Jinja, and texts of runs lose
control characters and direction marks. Not here: keys and passwords: callers redact what they pass
(`errors.without_secrets`).
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources.abc import Traversable
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from align_echo.errors import UsageError, printable


def check_html_file(file: Path) -> None:
    """Raise `UsageError` unless `file` names an .html file in a folder that exists."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out names an .html file, not {file}")
    if file.is_dir():
        raise UsageError(f"{file} is a folder: name another file with --out")
    if not file.parent.is_dir():
        raise UsageError(f"there is no folder {file.parent} for {file.name}: make it, or name another --out")


def fill_page(folder: Traversable, style_file: str, *, script: str = "", **values: object) -> str:
    """Fill `template.html` of a folder with its style, a script, the policy and the values.

    Values are escaped, unless they are `Markup`.
    """
    style, template = (folder.joinpath(name).read_text(encoding="utf-8") for name in (style_file, "template.html"))
    scripts = f"script-src {_csp_hash(script)}; " if script else ""
    policy = f"default-src 'none'; {scripts}style-src {_csp_hash(style)}; img-src data:; base-uri 'none'; "
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_clean
    )
    page = {"policy": f"{policy}form-action 'none'", "style": Markup(style), "script": Markup(script)}
    return environment.from_string(template).render(**page, **values)


def _csp_hash(text: str) -> str:
    """Return the name of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _clean(value: object) -> object:
    """Remove control characters from a text of a run."""
    return printable(value) if type(value) is str else value
