"""Every prompt that align-echo sends, as Jinja2 templates `<role>/<name>.j2`, and the hash of each.

A value that a template needs and does not get is an error (StrictUndefined). Values are inserted as they are: text from
an environment or a model is never read as a template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

import jinja2

from align_echo.errors import UsageError


def render(name: str, values: Mapping[str, object]) -> str:
    """The prompt `name` ("vanilla/system") with its values. Raises `UsageError` if the name or a value is missing."""
    try:
        return _environment().get_template(name).render(values).strip()
    except jinja2.UndefinedError as error:
        raise UsageError(f"the prompt {name} lacks a value: {error.message}") from error


def prompt_hash(name: str) -> str:
    """SHA-256 of a template's text, first 16 hex digits: written into run folders and interface records."""
    return hashlib.sha256(_text(name).encode()).hexdigest()[:16]


def prompt_names() -> list[str]:
    """All templates, `<role>/<name>`."""
    root = resources.files("align_echo.prompts")
    return sorted(
        f"{role.name}/{file.name.removesuffix('.j2')}"
        for role in root.iterdir()
        if role.is_dir()
        for file in role.iterdir()
        if file.name.endswith(".j2")
    )


def _text(name: str) -> str:
    if name not in prompt_names():
        raise UsageError(f"there is no prompt {name!r}; there are {', '.join(prompt_names())}")
    return resources.files("align_echo.prompts").joinpath(f"{name}.j2").read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
