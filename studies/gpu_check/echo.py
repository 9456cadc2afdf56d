"""A step of ECHO beside one of GRPO, and its shares: playing, learning, and within playing the model and the host.

Steps are those of `training.py`, played in bfloat16. Arms, each with whole models and with adapters on one model:

    grpo              episodes of the policy; a critic is loaded, but not asked
    echo, overlapped  tasks in parts that do not wait for each other: some are criticised while others are played
    echo, waiting     first attempts, then critiques, then refined attempts: what a run does on a GPU

Each round has tasks of its own and takes the arms in turns. A visit to an arm loads its models and takes `STEPS` steps,
of which the last counts; it begins only if it would still fit, as long as the arm took last or, at first, as the
longest visit to this shape. GRPO draws fewer tokens: it has no critiques and no first attempts.

Seconds of playing are divided by what the engines did, the first of these that any of them did at a moment:

    graphs_recorded   a step was recorded as a CUDA graph (again after each change of weights)
    model             a step was computed, until its logits were there
    drawing           tokens were drawn from logits
    bookkeeping       anything else in an engine's thread with requests under way
    engines_idle      no request was under way: environments, prompts, tokenizers
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch

from align_echo.models.local import transformers_engine
from align_echo.models.local.engine import ModelEngine
from align_echo.train.stage import PARTS
from studies.gpu_check.shapes import Row, Work, peak_memory
from studies.gpu_check.training import (
    ADAPTERS,
    HALF,
    LEARN,
    PLAYING,
    SYNC,
    Measured,
    WatchedRun,
    config_of,
)

PART = "echo"
GRPO, OVERLAPPED, WAITING = "grpo", "echo, overlapped", "echo, waiting"
WEIGHTS: dict[str, dict[str, Any]] = {"models": {}, "adapters": ADAPTERS}
ROUNDS = 3
OVER = "not measured: the seconds were over"

RECORDED, MODEL, DRAWING, BOOKKEEPING, IDLE = KINDS = (
    *("graphs_recorded", "model", "drawing", "bookkeeping", "engines_idle"),
)

Span = tuple[float, float]


@dataclass(frozen=True)
class Arm:
    """What learns, and how its batches are played."""

    weights: str
    name: str

    @property
    def key(self) -> dict[str, str]:
        """As it stands in a row."""
        return {"weights": self.weights, "arm": self.name}


ARMS = tuple(Arm(weights, name) for weights, name in product(WEIGHTS, (GRPO, OVERLAPPED, WAITING)))

# ---------------------------------------------------------------- what engines do


@dataclass
class EngineWatch:
    """When engines did what, by kind, and how many steps they computed: replayed or not."""

    spans: dict[str, list[Span]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    replayed: list[Span] = field(default_factory=list)

    def follow(self, engine: ModelEngine) -> None:
        """Time the engine's own functions from now on."""
        watched: Any = engine
        logits, graphs = watched._logits, watched._graphs

        def timed_logits(parts: Any, places: Any) -> Any:
            replays, begun = bool(graphs and graphs.fits(parts)), time.perf_counter()
            result = logits(parts, places)
            if result.is_cuda:
                torch.cuda.current_stream().synchronize()  # drawing would wait for it
            span = (begun, time.perf_counter())
            self.spans[MODEL].append(span)
            if replays:
                self.replayed.append(span)
            return result

        watched._logits = timed_logits
        watched._step = self._timed(BOOKKEEPING, watched._step)
        watched._admit = self._timed(BOOKKEEPING, watched._admit)
        if graphs:
            graphs._record = self._timed(RECORDED, graphs._record)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Within, engines' draws are timed too."""
        module: Any = transformers_engine
        plain = module.draw_tokens
        module.draw_tokens = self._timed(DRAWING, plain)
        try:
            yield
        finally:
            module.draw_tokens = plain

    def _timed(self, kind: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            begun = time.perf_counter()
            try:
                return act(*given)
            finally:
                self.spans[kind].append((begun, time.perf_counter()))

        return timed

    def seconds(self, windows: Sequence[Span]) -> dict[str, float]:
        """Divide the windows' seconds by kind."""
        taken: list[Span] = []
        seconds, before = {}, 0.0
        for kind in KINDS:
            more = windows if kind == IDLE else within(self.spans[kind], windows)
            taken = united([*taken, *more])
            now = sum(end - begun for begun, end in taken)
            seconds[kind], before = now - before, now
        return seconds

    def steps(self, windows: Sequence[Span]) -> dict[str, int]:
        """Count the steps within the windows."""
        return {
            "engine_steps": len(within(self.spans[MODEL], windows)),
            "replayed_steps": len(within(self.replayed, windows)),
        }


def within(spans: Iterable[Span], windows: Sequence[Span]) -> list[Span]:
    """Return what of the spans is in the windows."""
    cut = ((max(begun, first), min(end, last)) for (begun, end), (first, last) in product(spans, windows))
    return [(begun, end) for begun, end in cut if begun < end]


def united(spans: Iterable[Span]) -> list[Span]:
    """Return the same moments as spans that do not overlap."""
    result: list[Span] = []
    for begun, end in sorted(spans):
        if result and begun <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begun, end))
    return result


# ---------------------------------------------------------------- visits


def visit(folder: Path, name: str, arm: Arm, number: int, work: Work) -> Iterator[Row]:
    """One arm in one round, on the model in `folder`."""
    begun, watch = time.perf_counter(), EngineWatch()
    changes = {**HALF, **WEIGHTS[arm.weights], "seed": number}
    config = config_of(folder, "grpo" if arm.name == GRPO else "echo", changes, work)
    parts = PARTS if arm.name == OVERLAPPED else 1
    with peak_memory() as memory, tempfile.TemporaryDirectory() as run_folder, watch.drawing():
        step = WatchedRun(config, Path(run_folder), parts, watch.follow).measured()
    figures = {**figures_of(step, watch), "memory_gib": memory.gib, "visit_seconds": time.perf_counter() - begun}
    yield Row({"part": PART, "model": name, **arm.key, "round": number + 1}, figures)


def figures_of(step: Measured, watch: EngineWatch) -> dict[str, Any]:
    """Return a step's seconds, shares and counts."""
    seconds, phases = step.spent.seconds, step.spent.phases
    windows = united((begun, end) for name, begun, end in step.spans if name in PLAYING)
    playing = sum(end - begun for begun, end in windows)
    learning = sum((spent for name, spent in phases.items() if name.startswith(LEARN)), 0.0)
    publishing = phases.get(SYNC, 0.0)
    engines = watch.seconds(windows)
    return {
        **{"seconds": seconds, "playing": playing, "learning": learning, "publishing": publishing},
        **{"rest": seconds - playing - learning - publishing},
        **{"playing_share": playing / seconds, "learning_share": learning / seconds},
        **engines,
        "model_share_of_playing": engines[MODEL] / playing,
        **watch.steps(windows),
        **{"turns": step.counts["turns"], "tokens_sampled": step.counts["sampled"]},
        **{"tokens_learned": step.counts["trained"], "tokens_a_second": step.counts["sampled"] / playing},
    }


# ---------------------------------------------------------------- what comes of all visits


@dataclass
class Visits:
    """Rows of visits, and when the last has to end."""

    ends: float
    rows: list[Row] = field(default_factory=list)

    def fits(self, name: str, arm: Arm) -> bool:
        """Return True if there is time for another visit to the arm."""
        of_arm = [row.figures["visit_seconds"] for row in self._of({"model": name, **arm.key})]
        of_shape = [row.figures["visit_seconds"] for row in self._of({"model": name})]
        return time.monotonic() + (of_arm[-1] if of_arm else max(of_shape, default=0.0)) < self.ends

    def summary(self, name: str, arm: Arm) -> Row:
        """Return an arm's seconds a step over its rounds, and by those of GRPO in the same rounds."""
        key = {"part": f"{PART}, all rounds", "model": name, **arm.key}
        seconds = self._seconds(name, arm)
        if not seconds:
            return Row(key, {"skipped": OVER})
        grpo = self._seconds(name, Arm(arm.weights, GRPO))
        ratios = [value / grpo[number] for number, value in seconds.items() if number in grpo]
        values = list(seconds.values())
        spread = {"seconds": statistics.mean(values), "lowest": min(values), "highest": max(values), "n": len(values)}
        by_grpo = {"by_grpo": statistics.mean(ratios), "by_grpo_each": ratios} if ratios else {}
        return Row(key, {**spread, **by_grpo})

    def _seconds(self, name: str, arm: Arm) -> Mapping[int, float]:
        return {row.key["round"]: row.figures["seconds"] for row in self._of({"model": name, **arm.key})}

    def _of(self, key: Mapping[str, Any]) -> list[Row]:
        return [row for row in self.rows if key.items() <= row.key.items()]


def in_turns(number: int) -> tuple[Arm, ...]:
    """Return the arms in the order of a round."""
    first = number % len(ARMS)
    return ARMS[first:] + ARMS[:first]
