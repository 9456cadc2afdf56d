"""What a turn uses up of the limits that the interpreter does not watch itself.

The interpreter counts its own seconds between two requests, and its memory (`pool.py`). Here is what is counted over a
whole turn, on this side: requests, engine calls, seconds with this process's own work for them, and characters.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol

from align_echo.errors import InterfaceError

_REQUESTS_A_TURN = 1_000
_SHARE = 0.95
"""The part of a turn's seconds after which a turn is given up: what is left is for the way back to the agent."""
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
        self._seconds = 0.0
        self._since: float | None = None

    def go_on(self) -> None:
        """From now on the seconds are the interface's."""
        self._since = monotonic()

    def rest(self) -> None:
        """From now on they are somebody else's: the environment's, which was asked, or the agent's."""
        self._seconds, self._since = self._spent(), None

    def seconds_left(self) -> float:
        """How many seconds are left until the turn is given up; below 0 if it took more."""
        return _SHARE * self._limits.seconds - self._spent()

    def _spent(self) -> float:
        return self._seconds + (0.0 if self._since is None else monotonic() - self._since)

    def one_more_request(self) -> None:
        """The interpreter waits for an answer."""
        self._requests += 1
        if self._requests > _REQUESTS_A_TURN:
            raise InterfaceError("the interface asked for what does not exist too often in one turn")
        if self.seconds_left() < 0:
            raise InterfaceError(took_too_long(self._limits.seconds))

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


def took_too_long(seconds: float) -> str:
    """What is said of an interface that used up a turn's seconds."""
    return f"the interface took too long (a turn has {seconds:g} s, its calls included)"
