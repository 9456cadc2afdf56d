"""The wordings of the corpus, which stand in `wordings.yaml` by module and name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


def wordings(module: str) -> list[Any]:
    """Return what a module says, in the order of the file; lists are tuples."""
    return list(_all()[module].values())


@cache
def _all() -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = _frozen(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8")))
    return read


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
