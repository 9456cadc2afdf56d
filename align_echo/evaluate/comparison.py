"""Compare an agent on the same tasks under variants of an interface: none, its placebo, rules, feedback, full.

Measures the episodes of each variant, and pairs variants task by task. Not here: playing (`playing.py`), writing
(`folder.py`) and printing (`tables.py`).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt

from align_echo.errors import UsageError
from align_echo.interface.contract import Interface
from align_echo.interface.hints import HintCount, count_hints, merged
from align_echo.intervals import (
    Estimate,
    Floats,
    Percent,
    Points,
    Reduction,
    Score,
    ScoreChange,
    SharePoints,
    TaskKey,
    bootstrap,
    clustered_rate,
    mean_over_tasks,
    safe_ratio,
    task_key,
)
from align_echo.models.spending import RoleSpending
from align_echo.rollout.faults import InterfaceConduct, fault_text, summarize_conduct
from align_echo.rollout.refusals import AnswerShares, Known, RefusalCounts, RefusalJudge, pooled_percent
from align_echo.types import ChoiceCounts, Frozen, Step, Trajectory, Usage
from align_echo.wrappers.environment import EnvironmentSpec

BASELINE = "none"
PLACEBO = "placebo"
VARIANTS = (BASELINE, PLACEBO, "rules", "feedback", "full")
"""Names of the variants: no interface, both halves with neutral texts, InferRules only, WrapStep only, both. The effect
of an interface is its gain over its placebo."""


class VariantResult(Frozen):
    """Figures of one variant. Rates and shares in percent, scores in [0, 1]. Episodes with faults are in no figure:
    `faults_by_source` counts those of the environment, the model and the agent's own code, `first_fault` describes the
    first.

    `consecutive_invalid` replays the agent's own actions in the plain environment (the ALIGN paper's metric);
    `consecutive_invalid_shown` uses the observations shown to the agent. Each is None if refused actions are unknown
    (`align_echo.rollout.refusals`), and without any turn. `refusals` says how they are known ("" if they are not), and
    `answers` gives partial counts if some are unknown, else None.

    `interface_fallbacks` counts turns on which the interface failed and the raw observation was shown; `violations`
    counts engine calls refused to it; `forged` counts turns on which it claimed results the environment did not give.
    `conduct` has these by kind; if it says that the interface does not work, the figures are those of the raw
    environment. `hints` counts by rule how often its hint was shown, followed and came true; a placebo's were not
    shown, and were followed by chance alone.

    `unparsed` and `cut_off` are percent of the agent's replies, None without any: replies without an action, and
    replies ended by the token limit. `context_overflows` counts episodes ended by a full model context, `unplayed`
    those of them without any turn; `ended_by_repeats` counts episodes ended by an action repeated too often in a row.
    `replies` counts the agent's replies, `residue` by sign those with end tokens and other signs removed before
    parsing, `with_residue` all of these; None in summaries of older versions. `choices` counts candidates and verdicts
    of best-of-N, over all turns; None without any.
    """

    interface: str
    episodes: NonNegativeInt
    faults: NonNegativeInt
    faults_by_source: dict[str, NonNegativeInt] = Field(default_factory=dict)
    first_fault: str = ""
    success_rate: Percent
    mean_score: Score
    consecutive_invalid: Percent | None
    consecutive_invalid_shown: Percent | None
    refusals: Known | Literal[""] = ""
    answers: AnswerShares | None = None
    unparsed: Percent | None
    cut_off: Percent | None
    context_overflows: NonNegativeInt
    unplayed: NonNegativeInt = 0
    ended_by_repeats: NonNegativeInt = 0
    replies: NonNegativeInt | None = None
    with_residue: NonNegativeInt | None = None
    residue: dict[str, NonNegativeInt] = Field(default_factory=dict)
    mean_turns: NonNegativeFloat = Field(allow_inf_nan=False)
    engine_calls: NonNegativeInt
    interface_fallbacks: NonNegativeInt
    violations: NonNegativeInt
    forged: NonNegativeInt = 0
    conduct: InterfaceConduct = InterfaceConduct()
    hints: tuple[HintCount, ...] = ()
    usage: Usage
    choices: ChoiceCounts | None = None
    success_by_type: dict[str, Percent]


class VariantDifference(Frozen):
    """A variant minus another on the tasks finished by both; intervals by a bootstrap over those tasks.

    `success_points` and `invalid_points` are percentage points; `invalid_reduction` is the percent by which the share
    of consecutive invalid actions falls (negative: it grew; None: the other has none). Both are None if the metric is
    undefined, and without any turn of either.
    """

    tasks: NonNegativeInt
    success_points: Points
    score: ScoreChange
    invalid_points: SharePoints | None
    invalid_reduction: Reduction | None


class VariantComparison(Frozen):
    """All variants on the same tasks. `differences` compares each other variant with the baseline, `over_placebo` each
    half and the complete interface with its placebo, if that was played. `refusals` says how refused actions are known;
    "" if they are not, or in different ways. `at_endpoints` is what each role asked for in all sessions.
    """

    environment: str
    split: str
    agent: str
    seed: int
    games: str = ""
    refusals: Known | Literal[""] = ""
    tasks: tuple[str, ...]
    variants: dict[str, VariantResult]
    differences: dict[str, VariantDifference]
    over_placebo: dict[str, VariantDifference] = Field(default_factory=dict)
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """What all variants spent."""
        return sum((variant.usage for variant in self.variants.values()), Usage())


def build_variants(interface: Interface) -> dict[str, Interface | None]:
    """Build the variants of an interface by name, in the order of `VARIANTS`."""
    return {
        BASELINE: None,
        PLACEBO: interface.model_copy(update={"placebo": True}),
        "rules": interface.model_copy(update={"use_feedback": False}),
        "feedback": interface.model_copy(update={"use_rules": False}),
        "full": interface,
    }


def compare(
    spec: EnvironmentSpec,
    trajectories: Mapping[str, Sequence[Trajectory]],
    *,
    seed: int = 0,
    data_root: str | Path | None = None,
) -> VariantComparison:
    """Measure every variant and pair each with the baseline and the placebo (if there is one) task by task.

    Episodes are read one at a time, without keeping them in memory. Raises `UsageError` if a variant has no episode
    without a fault.
    """
    for name, played in trajectories.items():
        if all(episode.fault is not None for episode in played):
            what = f"no episode of variant {name!r} finished without a fault"
            raise UsageError(f"{what}; {_first_fault(played)}; --resume plays them again")
    sums = {name: VariantSums() for name in trajectories}
    counted = {name: map(sums[name].add, played) for name, played in trajectories.items()}
    refusals = RefusalJudge(spec, data_root=data_root).judge(counted)

    def against(reference: str, names: Sequence[str]) -> dict[str, VariantDifference]:
        return {
            name: _difference(sums[reference], refusals[reference], sums[name], refusals[name], seed)
            for name in names
            if reference in sums and _common(sums[reference], sums[name])
        }

    first = next(iter(sums.values()))
    known = {variant_refusals.known for variant_refusals in refusals.values() if variant_refusals.is_asked}
    return VariantComparison(
        environment=spec.name,
        split=first.split,
        agent=first.agent,
        seed=first.seed,
        games=spec.games(data_root),
        refusals=known.pop() if len(known) == 1 else "",
        tasks=tuple(dict.fromkeys(task for variant in sums.values() for task in variant.task_ids)),
        variants={name: _measure(variant, refusals[name], seed) for name, variant in sums.items()},
        differences=against(BASELINE, [name for name in sums if name != BASELINE]),
        over_placebo=against(PLACEBO, [name for name in sums if name not in (BASELINE, PLACEBO)]),
    )


@dataclass
class TaskSums:
    """Sums over the episodes of one task; `scores` has the score of each."""

    kind: str
    scores: array[float] = field(default_factory=lambda: array("d"))
    won: int = 0
    turns: int = 0
    unparsed: int = 0
    cut_off: int = 0


class VariantSums:
    """Sums over the episodes of a variant, by task and in total. Episodes with a fault are only counted as faults, and
    in `usage`.
    """

    def __init__(self) -> None:
        self.task_ids: dict[str, None] = {}
        self.tasks: dict[TaskKey, TaskSums] = {}
        self.interface = self.split = self.agent = self.first_fault = ""
        self.seed = self.episodes = 0
        self.faults: Counter[str] = Counter()
        self.overflows = self.unplayed = self.repeats = 0
        self.with_residue = self.engine_calls = self.fallbacks = self.violations = self.forged = 0
        self.residue: Counter[str] = Counter()
        self.conduct = InterfaceConduct()
        self.hints: tuple[HintCount, ...] = ()
        self.usage = Usage()
        self.choices: ChoiceCounts | None = None

    @property
    def turns(self) -> int:
        """Return the number of the agent's turns, each with a reply."""
        return sum(task.turns for task in self.tasks.values())

    def add(self, episode: Trajectory) -> Trajectory:
        """Count an episode, and return it."""
        self.task_ids[episode.task_id] = None
        self.usage += episode.usage
        if episode.fault is None:
            self._add(episode)
        else:
            self.first_fault = self.first_fault or fault_text(episode.fault)
            self.faults[episode.fault.source] += 1
        return episode

    def _add(self, episode: Trajectory) -> None:
        if not self.episodes:
            self.interface, self.split = episode.interface, episode.split
            self.agent, self.seed = episode.agent, episode.seed
        self.episodes += 1
        task = self.tasks.setdefault(task_key(episode), TaskSums(episode.task_type))
        task.scores.append(episode.score)
        task.won += episode.won
        task.turns += len(episode.steps)
        self.overflows += episode.context_overflow
        self.unplayed += episode.context_overflow and not episode.steps
        self.repeats += episode.ended_by_repeats
        self.fallbacks += bool(episode.reset_error)
        self.conduct += summarize_conduct([episode])
        if hints := count_hints([episode]):
            self.hints = merged(self.hints, hints)
        for step in episode.steps:
            self._add_step(task, step)

    def _add_step(self, task: TaskSums, step: Step) -> None:
        task.unparsed += step.action is None
        task.cut_off += step.cut_off
        self.with_residue += bool(step.residue)
        self.residue.update(step.residue)
        self.engine_calls += step.engine_calls
        self.fallbacks += bool(step.interface_error)
        self.violations += len(step.violations)
        self.forged += bool(step.forged)
        if step.choice is not None:
            self.choices = (self.choices or ChoiceCounts()) + step.choice.counts


def _measure(variant: VariantSums, refusals: RefusalCounts, seed: int) -> VariantResult:
    tasks = list(variant.tasks.values())
    types = sorted({task.kind for task in tasks})

    def percent(counts: Sequence[int] | None) -> Estimate | None:
        return None if counts is None else pooled_percent(counts, [task.turns for task in tasks], seed=seed)

    return VariantResult(
        interface=variant.interface,
        episodes=variant.episodes,
        faults=variant.faults.total(),
        faults_by_source=dict(variant.faults),
        first_fault=variant.first_fault,
        success_rate=_success_rate(tasks),
        mean_score=mean_over_tasks([task.scores for task in tasks], seed=seed),
        consecutive_invalid=percent(refusals.in_runs),
        consecutive_invalid_shown=percent(refusals.shown_in_runs),
        refusals=refusals.known,
        answers=refusals.shares,
        unparsed=percent([task.unparsed for task in tasks]),
        cut_off=percent([task.cut_off for task in tasks]),
        context_overflows=variant.overflows,
        unplayed=variant.unplayed,
        ended_by_repeats=variant.repeats,
        replies=variant.turns,
        with_residue=variant.with_residue,
        residue=dict(variant.residue.most_common()),
        mean_turns=variant.turns / variant.episodes,
        engine_calls=variant.engine_calls,
        interface_fallbacks=variant.fallbacks,
        violations=variant.violations,
        forged=variant.forged,
        conduct=variant.conduct,
        hints=variant.hints,
        usage=variant.usage,
        choices=variant.choices,
        success_by_type={kind: _success_rate([task for task in tasks if task.kind == kind]) for kind in types},
    )


def _success_rate(tasks: Sequence[TaskSums]) -> Estimate:
    return clustered_rate([task.won for task in tasks], [len(task.scores) for task in tasks])


def _difference(
    before: VariantSums, before_refusals: RefusalCounts, after: VariantSums, after_refusals: RefusalCounts, seed: int
) -> VariantDifference:
    tasks = _common(before, after)
    sums = _columns("old", tasks, before, before_refusals) | _columns("new", tasks, after, after_refusals)
    known = before_refusals.in_runs is not None and after_refusals.in_runs is not None
    n, both_known = len(tasks), known and bool(sums["old_steps"].any() and sums["new_steps"].any())

    def points(s: Mapping[str, Floats]) -> Floats:
        return share(s, "new") - share(s, "old")

    def share(s: Mapping[str, Floats], side: str) -> Floats:
        return 100 * safe_ratio(s[f"{side}_bad"], s[f"{side}_steps"])

    def reduction(s: Mapping[str, Floats]) -> Floats:
        old = share(s, "old")
        return 100 * (1 - share(s, "new") / np.where(old == 0, np.nan, old))

    return VariantDifference(
        tasks=n,
        success_points=bootstrap(
            sums, lambda s: 100 * (s["new_won"] - s["old_won"]) / n, seed=seed, bounds=(-100, 100)
        ),
        score=bootstrap(sums, lambda s: (s["new_score"] - s["old_score"]) / n, seed=seed, bounds=(-1, 1)),
        invalid_points=bootstrap(sums, points, seed=seed, bounds=(-100, 100)) if both_known else None,
        invalid_reduction=bootstrap(sums, reduction, seed=seed) if both_known and sums["old_bad"].any() else None,
    )


def _common(before: VariantSums, after: VariantSums) -> list[TaskKey]:
    return [task for task in before.tasks if task in after.tasks]


def _columns(side: str, tasks: Sequence[TaskKey], variant: VariantSums, refusals: RefusalCounts) -> dict[str, Floats]:
    refused = dict(zip(variant.tasks, refusals.in_runs or [0] * len(variant.tasks), strict=True))
    rows = [variant.tasks[task] for task in tasks]
    columns = {
        "won": [row.won / len(row.scores) for row in rows],
        "score": [fmean(row.scores) for row in rows],
        "bad": [refused[task] for task in tasks],
        "steps": [row.turns for row in rows],
    }
    return {f"{side}_{name}": np.asarray(values, dtype=float) for name, values in columns.items()}


def _first_fault(played: Iterable[Trajectory]) -> str:
    fault = next((trajectory.fault for trajectory in played if trajectory.fault is not None), None)
    return f"the first: {fault_text(fault)}" if fault else "no task was played"
