"""What is told of critics and episodes of several seeds: a table a page, and one JSON object. Pure functions.

Accuracy and the area under the ROC curve are the means of the critics; intervals take tasks as clusters, seeds of a
task together. Left out: measuring (`learn.py`, `play.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from align_echo.critic.calibration import LabelledVerdict, area_under_roc, shift_to_share
from align_echo.critic.verdict import VERDICTS
from align_echo.errors import UsageError
from align_echo.intervals import Estimate, bootstrap, clustered_rate
from align_echo.types import Frozen
from benchmarks.miniwob_critic.play import Played, success

ALL = "all"
NOVICE, CRITIC, PASS = "novice", "critic", "pass"


GROUPS: dict[str, Callable[[LabelledVerdict], Hashable]] = {
    "one for all": lambda _: None,
    "one a page": lambda one: page_of(one.task),
    "one a page and type": lambda one: (page_of(one.task), one.action_type),
}
"""Answers that look at nothing: which actions have the same."""


class Seen(Frozen):
    """Critics on the actions of a page: `accuracy` in percent, of all seeds together; the areas of each seed;
    `constants`, the trivial answers by name; `gain`, accuracy over the best of them, in points."""

    actions: int
    accuracy: Estimate
    accuracies: tuple[float, ...]
    auroc: tuple[float | None, ...]
    constants: dict[str, float]
    gain: Estimate


class Won(Frozen):
    """Success in percent by arm, within so many actions as the expert takes (`at_once`) and within all turns, and what
    the critic gains over the novice in points."""

    episodes: int
    at_once: dict[str, Estimate]
    in_turns: dict[str, Estimate]
    gain_at_once: Estimate
    gain_in_turns: Estimate


def page_of(task: str) -> str:
    """The page of a task or episode."""
    return task.partition("/")[0]


def seen(rows: Mapping[int, Sequence[LabelledVerdict]]) -> Seen:
    """`rows` are the verdicts of the critic of each seed on the same actions."""
    together = [one for said in rows.values() for one in said]
    trivial = {name: constant(together, group) for name, group in GROUPS.items()}
    best = trivial[max(trivial, key=lambda name: sum(trivial[name]))]
    tasks = list(dict.fromkeys(verdict.task for verdict in together))
    sums = {name: np.zeros(len(tasks)) for name in ("right", "trivial", "all")}
    for one, easy in zip(together, best, strict=True):
        place = tasks.index(one.task)
        sums["right"][place] += one.verdict == one.label
        sums["trivial"][place] += easy
        sums["all"][place] += 1
    right, sizes = ([int(count) for count in sums[name]] for name in ("right", "all"))
    return Seen(
        actions=len(together) // len(rows),
        accuracy=clustered_rate(right, sizes),
        accuracies=tuple(100 * sum(o.verdict == o.label for o in said) / len(said) for said in rows.values()),
        auroc=tuple(_area(said) for said in rows.values()),
        constants={name: 100 * sum(answers) / len(together) for name, answers in trivial.items()},
        gain=bootstrap(sums, lambda of: 100 * (of["right"] - of["trivial"]) / of["all"]),
    )


def at_shares(
    rows: Sequence[LabelledVerdict], temperature: float, share_of: Mapping[str, float]
) -> list[LabelledVerdict]:
    """The verdicts of a critic that is told how often the actions of each page are right."""
    told = []
    for row in rows:
        if row.logit is None:
            raise UsageError(f"no logit for an action of {row.task}")
        logit = float(shift_to_share([row.logit / temperature], share_of[page_of(row.task)])[0])
        told.append(replace(row, verdict="correct" if logit > 0 else "wrong", logit=logit))
    return told


def constant(rows: Sequence[LabelledVerdict], group: Callable[[LabelledVerdict], Hashable]) -> list[bool]:
    """Where the answer is right that is the same for all actions of a group, the better one, chosen on these rows."""
    counts = Counter((group(row), row.label) for row in rows)
    answers = {name: max(VERDICTS, key=lambda label: counts[name, label]) for name, _ in counts}
    return [answers[group(row)] == row.label for row in rows]


def _area(rows: Sequence[LabelledVerdict]) -> float | None:
    found = area_under_roc(
        [row.logit or 0.0 for row in rows],
        [float(row.label == "correct") for row in rows],
        [row.task for row in rows],
        resamples=1,
    )
    return None if found is None else found.value


def won(played: Sequence[Played]) -> Won:
    """The arms on the same tasks and seeds."""
    arms = {arm: [trajectory for trajectory in played if trajectory.arm == arm] for arm in (NOVICE, CRITIC, PASS)}
    return Won(
        episodes=len(arms[NOVICE]),
        at_once={arm: success(some, at_once=True) for arm, some in arms.items()},
        in_turns={arm: success(some, at_once=False) for arm, some in arms.items()},
        gain_at_once=_gain(arms, at_once=True),
        gain_in_turns=_gain(arms, at_once=False),
    )


def _gain(arms: Mapping[str, Sequence[Played]], *, at_once: bool) -> Estimate:
    """Points of success of the critic's arm over the novice's; tasks are resampled whole."""
    tasks = sorted({play.task for play in arms[NOVICE]})

    def by_task(arm: str) -> Any:
        return np.asarray(
            [
                sum(play.at_once if at_once else play.won_after is not None for play in arms[arm] if play.task == task)
                for task in tasks
            ],
            dtype=float,
        )

    sums = {arm: by_task(arm) for arm in (NOVICE, CRITIC)}
    sums["all"] = np.asarray([sum(play.task == task for play in arms[NOVICE]) for task in tasks], dtype=float)
    return bootstrap(sums, lambda of: 100 * (of[CRITIC] - of[NOVICE]) / of["all"])


def learnable(one: Seen) -> bool:
    """Whether critics are above the best trivial answer, with the whole interval."""
    return one.gain.sign > 0


def table(
    come_of: Mapping[str, Seen], shared_of: Mapping[str, Seen], evened_of: Mapping[str, Seen], won_of: Mapping[str, Won]
) -> str:
    """One line a page, the pages together first: accuracy on the actions as they come, by the critics alone, told the
    page's share of right actions, and by the best trivial answer; the same on as many right as wrong ones; whether the
    critics told are above the trivial answer (`shown`) and whether they are where evened (`learned`); and success of
    every arm."""
    lines = [
        "accuracy (best trivial answer) of actions as they come, alone and told the page's share of right ones, and "
        "evened; AUROC; success within the expert's actions",
        f"{'page':18} {'alone':>5} {'told':>20} {'':>7} {'shown':>5} {'evened':>27} {'learned':>7} {'AUROC':>5} "
        + "".join(f" {arm:>7}" for arm in (NOVICE, CRITIC, PASS)),
    ]
    for name, come in come_of.items():
        evened, told = evened_of[name], shared_of[name]
        areas = [area for area in come.auroc if area is not None]
        line = f"{name:18} {come.accuracy.value:5.1f} {_rate(told.accuracy)} ({max(told.constants.values()):5.1f})"
        line += f" {'yes' if learnable(told) else 'no':>5}"
        line += f" {_rate(evened.accuracy)} ({max(evened.constants.values()):5.1f})"
        line += f" {'yes' if learnable(evened) else 'no':>7} {sum(areas) / max(len(areas), 1):5.2f} "
        if name in won_of:
            line += "".join(f" {won_of[name].at_once[arm].value:7.1f}" for arm in (NOVICE, CRITIC, PASS))
        lines.append(line)
    return "\n".join(lines)


def _rate(rate: Estimate) -> str:
    return f"{rate.value:5.1f} {rate.interval()}"
