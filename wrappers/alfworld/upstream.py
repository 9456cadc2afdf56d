"""What is taken from the ALFWorld wheel: tables, floor plans, domain and grammar. Nothing is changed there.

ALFWorld's package creates `~/.cache/alfworld` and sets `$ALFWORLD_DATA` when it is imported; both would change what
this package reads, so every import of it goes through `load()`, which puts the environment back.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from align_echo.errors import EngineError

_LOCK = threading.RLock()
_VARIABLE = "ALFWORLD_DATA"


def load(module: str) -> ModuleType:
    """Import a module of ALFWorld without its side effects. Raises `EngineError` if it is not installed."""
    with _LOCK:  # also to look: a module that another thread is still importing is listed, and half there
        if module in sys.modules:
            return sys.modules[module]
        with _own_environment():
            try:
                return importlib.import_module(module)
            except ImportError as error:
                raise EngineError(f"ALFWorld does not import ({error}): pip install 'alfworld==0.4.2'") from error


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """Point ALFWorld's import at a throw-away folder, then restore the variable."""
    before = os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = before


def configured_data() -> str | None:
    """`$ALFWORLD_DATA` as the user set it, also while another thread imports ALFWorld."""
    with _LOCK:
        return os.environ.get(_VARIABLE)


@functools.cache
def package_folder() -> Path:
    """Where the wheel is installed. Raises `EngineError` if it is not."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise EngineError("ALFWorld is not installed: pip install 'alfworld==0.4.2'")
    return Path(spec.origin).parent


@functools.cache
def domain_text() -> str:
    """The PDDL domain."""
    return (package_folder() / "data" / "alfred.pddl").read_text(encoding="utf-8")


@functools.cache
def grammar_text() -> str:
    """The text grammar, with `UNKNOWN GOAL` where a game states its goal."""
    return (package_folder() / "data" / "alfred.twl2").read_text(encoding="utf-8")


def layouts_folder() -> Path:
    """The folder of `FloorPlan<n>-objects.json` and `-openable.json`."""
    return package_folder() / "gen" / "layouts"


def constants() -> ModuleType:
    """Which object goes where, and what can be opened, cleaned, heated, cooled, sliced, toggled."""
    return load("alfworld.gen.constants")


def goal_library() -> dict[str, dict[str, str | list[str]]]:
    """Goal in PDDL and goal sentences, by task type."""
    library: dict[str, dict[str, str | list[str]]] = load("alfworld.gen.goal_library").gdict
    return library
