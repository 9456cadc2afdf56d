"""Times the steps of any `transformers.Trainer`: from `on_step_begin` to `on_step_end`, by the clock and by the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import TrainerCallback


@dataclass(frozen=True)
class Spent:
    """Seconds and CPU seconds of one step, the norm of its gradient before clipping, and both of named phases in it."""

    seconds: float
    cpu: float
    gradient: float
    phases: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def of(self, phase: str, clock: int) -> float:
        """Seconds of a phase (`clock` 0) or CPU seconds (1)."""
        return self.phases.get(phase, (0.0, 0.0))[clock]

    def rest(self, clock: int) -> float:
        """What was in none of the phases."""
        return (self.seconds, self.cpu)[clock] - sum(phase[clock] for phase in self.phases.values())


class Stopwatch(TrainerCallback):
    """Times every step; `paused` takes out of it what a function takes, `phase` names a part of it."""

    def __init__(self) -> None:
        self.steps: list[Spent] = []
        self._begun = self._out = self._spent = (0.0, 0.0)
        self._phases: dict[str, tuple[float, float]] = {}

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._begun, self._out, self._phases = _now(), (0.0, 0.0), {}

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spent = _less(_less(_now(), self._begun), self._out)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "grad_norm" in (logs or {}):
            self.steps.append(Spent(*self._spent, float(logs["grad_norm"]), self._phases))

    def paused(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function, not timed."""

        def untimed(argument: Any) -> Any:
            begun = _now()
            result = call(argument)
            self._out = _less(self._out, _less(begun, _now()))
            return result

        return untimed

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What is done meanwhile is part of that phase."""
        begun = _now()
        yield
        self._phases[name] = _less(self._phases.get(name, (0.0, 0.0)), _less(begun, _now()))


def _now() -> tuple[float, float]:
    """Once the GPU, where there is one, has done all it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


def _less(total: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return total[0] - other[0], total[1] - other[1]
