"""One agent on the same tasks under several variants of an interface: none, its placebo, rules, feedback, full.

Runs the episodes, measures each variant, and pairs variants task by task. Leaves out writing (`folder.py`) and
printing (`tables.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt

from align_echo.errors import UsageError
from align_echo.evaluate.metrics import mean_length, share_estimate, share_of_replies
from align_echo.faults import fault_text, faults_by_source
from align_echo.hints import HintCount, count_hints
from align_echo.interface import Interface
from align_echo.intervals import (
    Floats,
    Percent,
    Points,
    Reduction,
    Score,
    ScoreChange,
    SharePoints,
    bootstrap,
    by_task,
    mean_score,
    safe_ratio,
    scored,
    success_rate,
)
from align_echo.invalid import steps_in_runs
from align_echo.progress import SILENT, Progress
from align_echo.refusals import ActionOutcomes, AnswerShares, Flags, Known, RefusalJudge
from align_echo.session import Episode
from align_echo.trouble import Conduct, conduct_of
from align_echo.types import Agent, ChoiceCounts, Frozen, Trajectory, Usage
from align_echo.workers.choice import ONE_THREAD, Workers, play_tasks
from align_echo.wrappers.environment import EnvironmentSpec

BASELINE = "none"
PLACEBO = "placebo"
VARIANTS = (BASELINE, PLACEBO, "rules", "feedback", "full")
"""Names of the variants: no interface, both halves with neutral words in place of theirs, InferRules only, WrapStep
only, both. What an interface is worth is what it adds to its placebo."""


class VariantResult(Frozen):
    """What one variant measured. Rates and shares in percent, scores in [0, 1]; faults are in none of the figures:
    `faults_by_source` counts those of the environment, the model and the agent's own code, `first_fault` tells one.

    `consecutive_invalid` replays the agent's own actions in the plain environment (the ALIGN paper's metric);
    `consecutive_invalid_shown` judges what the agent was shown; each is None where nothing tells which actions were
    refused (`align_echo.refusals`), and where no turn was played. `refusals` tells how that is known, "" where nothing
    does, and `answers` what can be said of them where it is not known of all that count; else it is None.
    `interface_fallbacks` counts turns on which the interface failed and the raw observation was shown; `violations`
    engine calls that were refused to it; `forged` turns on which it claimed what the environment did not give.
    `conduct` tells them by kind: where it says
    that the interface does not work, the figures are those of the raw environment. `hints` tells by rule how often what
    it said to do was shown, followed and came true; a placebo's were not shown, and followed by chance alone.
    `unparsed` and `cut_off` are percent of the agent's replies, None without any: those that held no action, and those
    that the model's limit of tokens ended. `context_overflows` counts episodes that ended because the model's context
    was full, `unplayed` those of them in which it was so before the first turn; `ended_by_repeats` those that ended
    because one action was sent too often in a row.
    `replies` counts the agent's replies, `residue` by sign those that end tokens and other signs were taken off before
    they were read, `with_residue` all of these; None in summaries of older versions.
    `choices` counts candidates and verdicts of best-of-N, over all turns; None where there were none.
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
    conduct: Conduct = Conduct()
    hints: tuple[HintCount, ...] = ()
    usage: Usage
    choices: ChoiceCounts | None = None
    success_by_type: dict[str, Percent]


class Difference(Frozen):
    """A variant minus another on the tasks that both finished; intervals by a bootstrap over those tasks.

    `success_points` and `invalid_points` are percentage points; `invalid_reduction` is the percent by which the share
    of consecutive invalid actions falls (negative: it grew; None: the other has none). Where the metric is not
    defined, and where no turn of either was played, both are None.
    """

    tasks: NonNegativeInt
    success_points: Points
    score: ScoreChange
    invalid_points: SharePoints | None
    invalid_reduction: Reduction | None


class Comparison(Frozen):
    """Every variant on the same tasks. `differences` holds each variant but the baseline against the baseline,
    `over_placebo` each half and the whole of the interface against its placebo, where that was played. `refusals` tells
    how it is known what a refused action is; "" where nothing tells, and where it is known in different ways.
    """

    environment: str
    split: str
    agent: str
    seed: int
    games: str = ""
    refusals: Known | Literal[""] = ""
    tasks: tuple[str, ...]
    variants: dict[str, VariantResult]
    differences: dict[str, Difference]
    over_placebo: dict[str, Difference] = Field(default_factory=dict)


def variants_of(interface: Interface) -> dict[str, Interface | None]:
    """The variants of an interface by name, in the order of `VARIANTS`."""
    return {
        BASELINE: None,
        PLACEBO: interface.model_copy(update={"placebo": True}),
        "rules": interface.model_copy(update={"use_feedback": False}),
        "feedback": interface.model_copy(update={"use_rules": False}),
        "full": interface,
    }


def run_variant(
    spec: EnvironmentSpec,
    agent: Agent,
    interface: Interface | None,
    episodes: Sequence[Episode],
    *,
    split: str,
    seed: int = 0,
    workers: Workers = ONE_THREAD,
    data_root: str | Path | None = None,
    finished: Sequence[Trajectory] = (),
    on_trajectory: Callable[[Trajectory], None] | None = None,
    progress: Progress = SILENT,
) -> list[Trajectory]:
    """Play episodes under one variant; those in `finished` (by task and sample) are kept and not played again.

    Trajectories come in the order of `episodes`. `progress` is told of workers that were lost.
    """
    known = {(trajectory.task_id, trajectory.sample): trajectory for trajectory in finished}
    missing = [episode for episode in episodes if (episode.task_id, episode.sample) not in known]
    played = play_tasks(
        workers,
        lambda: spec.make(split, interface=interface, data_root=data_root),
        agent,
        missing,
        split=split,
        action_format=spec.action_format,
        seed=seed,
        on_trajectory=on_trajectory,
        say=progress.say,
    )
    known |= {(trajectory.task_id, trajectory.sample): trajectory for trajectory in played}
    return [known[episode.task_id, episode.sample] for episode in episodes]


def compare(
    spec: EnvironmentSpec,
    trajectories: Mapping[str, Sequence[Trajectory]],
    *,
    seed: int = 0,
    data_root: str | Path | None = None,
) -> Comparison:
    """Measure every variant and pair each with the baseline and the placebo (where there is one) task by task.

    Raises `UsageError` if a variant has no episode without a fault.
    """
    for name, played in trajectories.items():
        if not scored(played):
            raise UsageError(f"no episode of variant {name!r} finished without a fault; {_first_fault(played)}")
    done = {name: scored(played) for name, played in trajectories.items()}
    judge = RefusalJudge(spec, [each.task_id for played in done.values() for each in played], data_root)
    judged = {name: judge.judge(played) for name, played in done.items()}
    results = {name: _measure(played, done[name], judged[name], seed) for name, played in trajectories.items()}

    def against(other: str, names: Sequence[str]) -> dict[str, Difference]:
        return {
            name: _difference(done[other], judged[other].refused, done[name], judged[name].refused, seed)
            for name in names
            if other in done and _common(done[other], done[name])
        }

    first = next(iter(done.values()))[0]
    known = {each.known for each in judged.values() if each.is_asked}
    return Comparison(
        environment=spec.name,
        split=first.split,
        agent=first.agent,
        seed=first.seed,
        games=spec.games(data_root),
        refusals=known.pop() if len(known) == 1 else "",
        tasks=tuple(dict.fromkeys(trajectory.task_id for played in trajectories.values() for trajectory in played)),
        variants=results,
        differences=against(BASELINE, [name for name in done if name != BASELINE]),
        over_placebo=against(PLACEBO, [name for name in done if name not in (BASELINE, PLACEBO)]),
    )


def _measure(
    played: Sequence[Trajectory], done: Sequence[Trajectory], judged: ActionOutcomes, seed: int
) -> VariantResult:
    steps = [step for trajectory in done for step in trajectory.steps]
    types = sorted({trajectory.task_type for trajectory in done})
    choices = [step.choice.counts for step in steps if step.choice is not None]
    return VariantResult(
        interface=done[0].interface,
        episodes=len(done),
        faults=len(played) - len(done),
        faults_by_source=faults_by_source(played),
        first_fault=next((fault_text(trajectory.fault) for trajectory in played if trajectory.fault is not None), ""),
        success_rate=success_rate(done),
        mean_score=mean_score(done, seed=seed),
        consecutive_invalid=share_estimate(done, judged.refused, seed=seed),
        consecutive_invalid_shown=share_estimate(done, judged.shown_refused, seed=seed),
        refusals=judged.known,
        answers=judged.shares,
        unparsed=share_of_replies(done, lambda step: step.action is None, seed=seed),
        cut_off=share_of_replies(done, lambda step: step.cut_off, seed=seed),
        context_overflows=sum(trajectory.context_overflow for trajectory in done),
        unplayed=sum(trajectory.context_overflow and not trajectory.steps for trajectory in done),
        ended_by_repeats=sum(trajectory.ended_by_repeats for trajectory in done),
        replies=len(steps),
        with_residue=sum(bool(step.residue) for step in steps),
        residue=dict(Counter(sign for step in steps for sign in step.residue).most_common()),
        mean_turns=mean_length(done),
        engine_calls=sum(step.engine_calls for step in steps),
        interface_fallbacks=sum(bool(step.interface_error) for step in steps)
        + sum(bool(trajectory.reset_error) for trajectory in done),
        violations=sum(len(step.violations) for step in steps),
        forged=sum(bool(step.forged) for step in steps),
        conduct=conduct_of(done),
        hints=count_hints(done),
        usage=sum((trajectory.usage for trajectory in played), Usage()),
        choices=sum(choices, ChoiceCounts()) if choices else None,
        success_by_type={
            kind: success_rate([trajectory for trajectory in done if trajectory.task_type == kind]) for kind in types
        },
    )


def _difference(
    before: Sequence[Trajectory],
    before_refused: Flags | None,
    after: Sequence[Trajectory],
    after_refused: Flags | None,
    seed: int,
) -> Difference:
    tasks = _common(before, after)
    sums = _columns("old", tasks, before, before_refused) | _columns("new", tasks, after, after_refused)
    known = before_refused is not None and after_refused is not None
    n, both_known = len(tasks), known and bool(sums["old_steps"].any() and sums["new_steps"].any())

    def points(s: Mapping[str, Floats]) -> Floats:
        return share(s, "new") - share(s, "old")

    def share(s: Mapping[str, Floats], side: str) -> Floats:
        return 100 * safe_ratio(s[f"{side}_bad"], s[f"{side}_steps"])

    def reduction(s: Mapping[str, Floats]) -> Floats:
        old = share(s, "old")
        return 100 * (1 - share(s, "new") / np.where(old == 0, np.nan, old))

    return Difference(
        tasks=n,
        success_points=bootstrap(
            sums, lambda s: 100 * (s["new_won"] - s["old_won"]) / n, seed=seed, bounds=(-100, 100)
        ),
        score=bootstrap(sums, lambda s: (s["new_score"] - s["old_score"]) / n, seed=seed, bounds=(-1, 1)),
        invalid_points=bootstrap(sums, points, seed=seed, bounds=(-100, 100)) if both_known else None,
        invalid_reduction=bootstrap(sums, reduction, seed=seed) if both_known and sums["old_bad"].any() else None,
    )


def _common(before: Sequence[Trajectory], after: Sequence[Trajectory]) -> list[tuple[str, str, str]]:
    return [task for task in by_task(before) if task in by_task(after)]


def _columns(
    side: str, tasks: Sequence[tuple[str, str, str]], trajectories: Sequence[Trajectory], refused: Flags | None
) -> dict[str, Floats]:
    flags = [[False] * len(trajectory.steps) for trajectory in trajectories] if refused is None else refused
    flags_of = {id(trajectory): steps for trajectory, steps in zip(trajectories, flags, strict=True)}
    groups = by_task(trajectories)
    rows = [groups[task] for task in tasks]
    columns = {
        "won": [fmean(episode.won for episode in row) for row in rows],
        "score": [fmean(episode.score for episode in row) for row in rows],
        "bad": [sum(steps_in_runs(flags_of[id(episode)]) for episode in row) for row in rows],
        "steps": [sum(len(episode.steps) for episode in row) for row in rows],
    }
    return {f"{side}_{name}": np.asarray(values, dtype=float) for name, values in columns.items()}


def _first_fault(played: Sequence[Trajectory]) -> str:
    fault = next((trajectory.fault for trajectory in played if trajectory.fault is not None), None)
    return f"the first: {fault_text(fault)}" if fault else "no task was played"
