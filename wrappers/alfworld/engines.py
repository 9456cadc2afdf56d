"""ALFWorld's two engines by name.

"fast" is a compiled game (`fast/`). "textworld" is the unmodified engine of TextWorld and ALFWorld (`reference.py`),
some thousand times slower. Both give the same answers, byte for byte; tests play them side by side.
"""

from __future__ import annotations

from collections.abc import Callable

from align_echo.errors import UsageError
from align_echo.wrappers.alfworld import upstream
from align_echo.wrappers.alfworld.engine import GameEngine


def _fast() -> GameEngine:
    from align_echo.wrappers.alfworld.fast.engine import FastEngine

    return FastEngine()


def _textworld() -> GameEngine:
    upstream.require_packages("ALFWorld's engine textworld")
    from align_echo.wrappers.alfworld.reference import ReferenceEngine

    return ReferenceEngine()


_ENGINES: dict[str, Callable[[], GameEngine]] = {"fast": _fast, "textworld": _textworld}


def make_engine(name: str) -> GameEngine:
    """Make an engine by name. Raises `UsageError` for an unknown name, and `MissingExtraError`."""
    if name not in _ENGINES:
        raise UsageError(f"ALFWorld has no engine {name!r}; it has {', '.join(_ENGINES)}")
    return _ENGINES[name]()
