"""What pydantic-monty looks for in vain: it imports `opentelemetry` for each snippet and each piece of output.

Where that is not installed, the import fails anew each time, after a search of the whole path: as long as a small turn
takes. Here it fails at once, in the threads that are inside the interpreter and for that time alone. Everybody else's
imports are left alone, and so is a module that is there: one that was imported is found before anything is searched.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAME = "opentelemetry"


class _Thread(threading.local):
    """`inside`: this thread runs the interpreter, and nothing of its own."""

    inside = False


thread = _Thread()


class AbsentModule:
    """A finder that ends the search for the module before it begins."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every search but that one. Raises `ModuleNotFoundError`."""
        if name == _NAME and thread.inside:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def stop_vain_searches() -> None:
    """Put the finder in place, unless the module is installed."""
    if importlib.util.find_spec(_NAME) is None and not any(isinstance(each, AbsentModule) for each in sys.meta_path):
        sys.meta_path.insert(0, AbsentModule())
