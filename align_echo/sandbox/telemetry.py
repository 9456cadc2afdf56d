"""Stop pydantic-monty's vain searches: it imports `opentelemetry` for each snippet and each piece of output.

If that is not installed, the import fails each time after a search of the whole path, which takes as long as a small
turn. Here it fails at once, only in threads that are inside the interpreter and only while they are. All other imports
are unaffected, and so is an imported module: it is used before anything is searched.
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
    """`inside`: this thread is running the interpreter."""

    inside = False


thread = _Thread()


class AbsentModule:
    """A finder that ends the search for the module before it begins."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None for every other search. Raises `ModuleNotFoundError`."""
        if name == _NAME and thread.inside:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def stop_vain_searches() -> None:
    """Install the finder, unless the module is installed."""
    if importlib.util.find_spec(_NAME) is None and not any(isinstance(each, AbsentModule) for each in sys.meta_path):
        sys.meta_path.insert(0, AbsentModule())
