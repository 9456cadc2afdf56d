"""Which collection of games an environment plays, in words, for the records of runs. Leaves out where it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from align_echo.wrappers.catalogue import EnvironmentSpec


@runtime_checkable
class Sourced(Protocol):
    """An environment's package that has several collections of games to play."""

    def data_source(self, *, data_root: Path | None) -> str: ...


def games_of(spec: EnvironmentSpec, data_root: str | Path | None) -> str:
    """The games that an environment plays; "" for one that has only its own. Raises `MissingDataError`."""
    module = spec.module()
    if not isinstance(module, Sourced):
        return ""
    return module.data_source(data_root=None if data_root is None else Path(data_root))
