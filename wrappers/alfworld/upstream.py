"""Modules of ALFWorld's own package, which is an extra: its expert, its engine, and what compiling a game takes.

The package creates `~/.cache/alfworld` and sets `$ALFWORLD_DATA` when it is imported; both would change what is read
here, so every import of it goes through `load()`, which puts the environment back. Left out: its tables and texts,
which ship with this package (`tables.py`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import ModuleType

from align_echo.errors import EngineError, install_line, require

EXTRA = "alfworld"
PACKAGES = ("alfworld", "textworld", "fast_downward")
"""What the extra brings, by the names that are imported."""

TOOLS = "it builds a planner from source: have a C++ compiler and cmake; for CMake 4, CMAKE_POLICY_VERSION_MINIMUM=3.5"
"""What installing the extra takes: of the planner there are no wheels."""

_LOCK = threading.RLock()
_VARIABLE = "ALFWORLD_DATA"


def require_packages(feature: str) -> None:
    """Raises `MissingExtraError` for a feature where ALFWorld, TextWorld or their planner is not installed."""
    require(feature, EXTRA, PACKAGES, TOOLS)


def load(module: str) -> ModuleType:
    """Import a module of ALFWorld without its side effects. Raises `EngineError` where it does not import."""
    with _LOCK:  # also to look: a module that another thread is still importing is listed, and half there
        if module in sys.modules:
            return sys.modules[module]
        with _own_environment():
            try:
                return importlib.import_module(module)
            except ImportError as error:
                raise EngineError(f"ALFWorld does not import ({error}): {install_line(EXTRA)}") from error


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
