"""Modules of ALFWorld's own package, an extra: its expert, its engine, and the compiler's requirements.

On import the package creates `~/.cache/alfworld` and sets `$ALFWORLD_DATA`; both would change the data read here.
Import it only through `load()`, which restores the environment. Its tables and texts are part of this package
(`tables.py`).
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
"""Packages of the extra, by their import names."""

TOOLS = "it builds a planner from source: have a C++ compiler and cmake; for CMake 4, CMAKE_POLICY_VERSION_MINIMUM=3.5"
"""Requirements for installing the extra: the planner has no wheels."""

_LOCK = threading.RLock()
_VARIABLE = "ALFWORLD_DATA"


def require_packages(feature: str) -> None:
    """Check that ALFWorld, TextWorld and their planner are installed. Raises `MissingExtraError` naming the feature."""
    require(feature, EXTRA, PACKAGES, TOOLS)


def load(module: str) -> ModuleType:
    """Import a module of ALFWorld without its side effects. Raises `EngineError` if the import fails."""
    with _LOCK:  # also for the lookup: `sys.modules` lists modules that another thread has half imported
        if module in sys.modules:
            return sys.modules[module]
        with _own_environment():
            try:
                return importlib.import_module(module)
            except ImportError as error:
                raise EngineError(f"ALFWorld does not import ({error}): {install_line(EXTRA)}") from error


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """Point ALFWorld's import at a temporary folder, then restore the variable."""
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
    """Return `$ALFWORLD_DATA` as the user set it, also while another thread imports ALFWorld."""
    with _LOCK:
        return os.environ.get(_VARIABLE)
