"""LoRA adapters of a running vLLM. Each publication is a version with its own name and number.

vLLM caches contexts by the adapter's name and number and may reread its folder at any time, so neither is ever reused
for other weights. A replaced version is unloaded once its requests are answered.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from align_echo.errors import UsageError


@dataclass(frozen=True)
class AdapterVersion:
    """One published version. `served` is its name in vLLM; `folder` holds it as saved by PEFT."""

    name: str
    number: int
    folder: str

    @property
    def served(self) -> str:
        return f"{self.name}-{self.number}" if self.number else self.name


class PublishedAdapters:
    """The current version of each adapter. Thread-safe.

    `load` and `unload` notify vLLM; `unload` neither fails nor waits. `known` are adapters already in vLLM, under
    their own names and never unloaded.
    """

    def __init__(
        self,
        load: Callable[[AdapterVersion], None],
        unload: Callable[[AdapterVersion], None],
        known: Collection[str] = (),
    ) -> None:
        self._load = load
        self._unload = unload
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._current = {name: AdapterVersion(name, 0, "") for name in known}
        self._in_use: Counter[AdapterVersion] = Counter()
        self._replaced: set[AdapterVersion] = set()
        self._number = 0

    def publish(self, name: str, folder: str, in_use: Collection[str] = ()) -> AdapterVersion:
        """Load the folder's adapter as the next version, for all requests from now on.

        `in_use` are names in vLLM. `folder` is a full path; it must not change while the version is loaded. Raises
        `UsageError` if another loaded version was published from it.
        """
        with self._publishing:
            version = self._next(name, folder, in_use)
            self._load(version)
            with self._lock:
                previous = self._current.get(name)
                self._current[name] = version
                if previous is not None and previous.number:
                    self._replaced.add(previous)
            self._unload_unused()
        return version

    def _next(self, name: str, folder: str, in_use: Collection[str]) -> AdapterVersion:
        if not name:
            raise UsageError("an adapter needs a name")
        with self._lock:
            if any(version_served.folder == folder for version_served in (*self._current.values(), *self._replaced)):
                raise UsageError(f"{folder} was published already: save every version to a folder of its own")
            self._number += 1
            while f"{name}-{self._number}" in in_use:
                self._number += 1
            return AdapterVersion(name, self._number, folder)

    def require(self, name: str) -> None:
        """Raise `UsageError` unless this adapter is loaded; "" (the model itself) always passes."""
        with self._lock:
            if name and name not in self._current:
                loaded = ", ".join(sorted(self._current)) or "none"
                raise UsageError(f"no adapter {name} is loaded (there is: {loaded}): load it first")

    @contextmanager
    def using(self, name: str) -> Iterator[AdapterVersion | None]:
        """Hold the version used by a request until it is answered; None for the model itself ("")."""
        if not name:
            yield None
            return
        self.require(name)
        with self._lock:
            version = self._current[name]
            self._in_use[version] += 1
        try:
            yield version
        finally:
            with self._lock:
                self._in_use[version] -= 1
            self._unload_unused()

    def _unload_unused(self) -> None:
        with self._lock:
            unused = {version for version in self._replaced if not self._in_use[version]}
            self._replaced -= unused
        for version in sorted(unused, key=lambda adapter: adapter.number):
            self._unload(version)

    def unload_all(self) -> None:
        """Unload every version published here."""
        with self._lock:
            published = {version for version in self._current.values() if version.number} | self._replaced
            self._current = {name: version for name, version in self._current.items() if not version.number}
            self._replaced = set()
        for version in sorted(published, key=lambda adapter: adapter.number):
            self._unload(version)
