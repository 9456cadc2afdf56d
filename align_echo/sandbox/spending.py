"""Usage of a turn against the limits not checked by the interpreter itself.

The interpreter checks its own seconds between two requests, and its memory (`pool.py`). This module counts over a
whole turn: requests, engine calls, seconds including this process's work, and characters.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol

from align_echo.errors import InterfaceError

_REQUESTS_A_TURN = 1_000
_SHARE = 0.95
"""Share of a turn's seconds after which the turn is given up; the rest is for returning to the agent."""
_TEXT = (str, bytes)


class TurnLimits(Protocol):
    """Limits of a turn (`Sandbox`): seconds, engine calls, and characters passed in and out."""

    @property
    def seconds(self) -> float: ...

    @property
    def engine_calls(self) -> int: ...

    @property
    def crossing(self) -> int: ...


class TurnUsage:
    """Usage of one turn so far. Each method raises `InterfaceError` when a limit is exceeded."""

    def __init__(self, limits: TurnLimits, logged: Callable[[], int]) -> None:
        """Start counting. `logged` returns the number of characters logged so far, which count too."""
        self._limits = limits
        self._logged = logged
        self._requests = self._engine_calls = 0
        self._characters = -logged()
        self._seconds = 0.0
        self._since: float | None = None

    def go_on(self) -> None:
        """Resume the clock: time counts against the interface."""
        self._since = monotonic()

    def rest(self) -> None:
        """Stop the clock: time belongs to the environment or the agent."""
        self._seconds, self._since = self._spent(), None

    def seconds_left(self) -> float:
        """Return the seconds left in the turn; negative if it took more."""
        return _SHARE * self._limits.seconds - self._spent()

    def _spent(self) -> float:
        return self._seconds + (0.0 if self._since is None else monotonic() - self._since)

    def one_more_request(self) -> None:
        """Count a request of the interpreter."""
        self._requests += 1
        if self._requests > _REQUESTS_A_TURN:
            raise InterfaceError("the interface asked for what does not exist too often in one turn")
        if self.seconds_left() < 0:
            raise InterfaceError(took_too_long(self._limits.seconds))

    def passing(self, *values: object) -> None:
        """Count text passed into or out of the interpreter. Values without text are limited by time only."""
        for value in values:
            if isinstance(value, _TEXT):
                self._characters += len(value)
        if self._characters + self._logged() > self._limits.crossing:
            raise InterfaceError(
                f"more than {self._limits.crossing} characters passed into and out of the interface in one turn"
            )

    def one_more_engine_call(self) -> None:
        """Count an engine call."""
        self._engine_calls += 1
        if self._engine_calls > self._limits.engine_calls:
            raise InterfaceError(f"more than {self._limits.engine_calls} calls of env.step in one turn")


def took_too_long(seconds: float) -> str:
    """Return the message for an interface that exceeded a turn's seconds."""
    return f"the interface took too long (a turn has {seconds:g} s, its calls included)"
