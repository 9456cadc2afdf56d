"""Times the steps of any `transformers.Trainer`: from `on_step_begin` to `on_step_end`, by the clock and by the CPU."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from transformers import TrainerCallback


@dataclass(frozen=True)
class Spent:
    """Seconds and CPU seconds of one step, the norm of its gradient before clipping, and seconds of named phases in it.
    """

    seconds: float
    cpu: float
    gradient: float
    phases: Counter[str] = field(default_factory=Counter)


class Stopwatch(TrainerCallback):
    """Times every step; `paused` takes out of it what a function takes, `phase` names a part of it."""

    def __init__(self) -> None:
        self.steps: list[Spent] = []
        self._begun = self._out = self._spent = (0.0, 0.0)
        self._phases: Counter[str] = Counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._begun, self._out, self._phases = _now(), (0.0, 0.0), Counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spent = _less(_less(_now(), self._begun), self._out)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "grad_norm" in (logs or {}):
            self.steps.append(Spent(*self._spent, float(logs["grad_norm"]), self._phases))

    def paused(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function, not timed."""

        def untimed(argument: Any) -> Any:
            begun = _now()
            found = call(argument)
            self._out = _less(self._out, _less(begun, _now()))
            return found

        return untimed

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What is done meanwhile is part of that phase."""
        begun = time.perf_counter()
        yield
        self._phases[name] += time.perf_counter() - begun  # type: ignore[assignment]


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _less(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] - other[0], one[1] - other[1]
