"""What a turn uses up of the limits that the interpreter does not watch itself.

The interpreter counts its own seconds between two requests, and its memory (`pool.py`). Here is what is counted over a
whole turn, on this side: requests, engine calls, seconds with this process's own work for them, and characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from align_echo.errors import InterfaceError

_REQUESTS_A_TURN = 1_000
_TEXT = (str, bytes)


class Limits(Protocol):
    """The limits of a turn (`Sandbox`): seconds, engine calls, and characters that pass in and out."""

    @property
    def seconds(self) -> float: ...

    @property
    def engine_calls(self) -> int: ...

    @property
    def crossing(self) -> int: ...


class Spending:
    """What one turn used up so far. Each method raises `InterfaceError` once it is too much."""

    def __init__(self, limits: Limits, logged: Callable[[], int]) -> None:
        """`logged` tells how many characters are logged by now: they pass too."""
        self._limits = limits
        self._logged = logged
        self._requests = self._engine_calls = 0
        self._characters = -logged()
        self._began = monotonic()
        self._elsewhere = 0.0

    def one_more_request(self) -> None:
        """The interpreter waits for an answer."""
        self._requests += 1
        if self._requests > _REQUESTS_A_TURN:
            raise InterfaceError("the interface asked for what does not exist too often in one turn")
        if monotonic() - self._began - self._elsewhere > self._limits.seconds:
            raise InterfaceError(f"the interface took too long (over {self._limits.seconds:g} s, its calls included)")

    def passing(self, *values: object) -> None:
        """These values pass into or out of the interpreter. What holds no text itself is left to the clock."""
        for value in values:
            if isinstance(value, _TEXT):
                self._characters += len(value)
        if self._characters + self._logged() > self._limits.crossing:
            raise InterfaceError(
                f"more than {self._limits.crossing} characters passed into and out of the interface in one turn"
            )

    def one_more_engine_call(self) -> None:
        """The environment is asked."""
        self._engine_calls += 1
        if self._engine_calls > self._limits.engine_calls:
            raise InterfaceError(f"more than {self._limits.engine_calls} calls of env.step in one turn")

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Leave the time that passes in this block out of the interface's seconds: the environment answers."""
        began = monotonic()
        try:
            yield
        finally:
            self._elsewhere += monotonic() - began
