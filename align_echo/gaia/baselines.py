"""What judges actions without having learned to read: what a critic has to beat before it may be called one.

Three of them: one answer for all; a table of actions without their numbers, which reads no conversation; and the
agent's own log-probability, above a threshold or below. Table and threshold are found on what the critic learned from,
where right and wrong actions count the same in sum; all are tested on what it is tested on. Pure functions. Left out:
the critic (`fit`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from align_echo.critic.labels import Rule
from align_echo.critic.verdict import VERDICTS, Verdict
from align_echo.gaia.examples import Example
from align_echo.intervals import Floats, Percent, Points, bootstrap, clustered_rate
from align_echo.types import Frozen

CONSTANT, TABLE, LOGPROB = "the better constant answer", "a table of actions without numbers", "the agent's own logprob"
Judge = Callable[[Example], Verdict]


class Compared(Frozen):
    """One baseline beside the critic on the same held-out actions: its accuracy in percent, and by how many points the
    critic's is higher. Intervals are over tasks.
    """

    accuracy: Percent
    lead: Points


def compared(
    learned: Sequence[Example],
    tested: Sequence[Example],
    verdicts: Sequence[Verdict | None],
    rule: Rule,
    *,
    seed: int = 0,
) -> dict[str, Compared]:
    """Every baseline by name; `verdicts` are the critic's on the `tested` examples. Empty where nothing is tested."""
    if not tested:
        return {}
    truth = [example.label(rule) for example in tested]
    tasks = [example.task_id for example in tested]
    right = [verdict == label for verdict, label in zip(verdicts, truth, strict=True)]
    by_judge = {}
    for name, judge in judges(learned, tested, rule).items():
        guessed = [judge(example) == label for example, label in zip(tested, truth, strict=True)]
        by_judge[name] = _compared(right, guessed, tasks, seed)
    return by_judge


def judges(learned: Sequence[Example], tested: Sequence[Example], rule: Rule) -> dict[str, Judge]:
    """The baselines by name. The log-probability is one only where the agent's model told it of every action."""
    known = [(example, label) for example in learned if (label := example.label(rule)) is not None]
    count = Counter(label for _, label in known)
    weighed = [(example, label, 1 / count[label]) for example, label in known]
    constant = max(VERDICTS, key=Counter(example.label(rule) for example in tested).__getitem__)
    by_name: dict[str, Judge] = {CONSTANT: lambda proposed: constant, TABLE: by_table(weighed)}
    if all(example.logprob is not None for example in (*learned, *tested)):
        least = threshold([(example.logprob or 0.0, label, weight) for example, label, weight in weighed])
        by_name[LOGPROB] = lambda proposed: "correct" if (proposed.logprob or 0.0) >= least else "wrong"
    return by_name


def without_numbers(action: str) -> str:
    """An action whose numbers are all alike."""
    return re.sub(r"\d+", "#", action.lower())


def by_table(weighed: Sequence[tuple[Example, Verdict, float]]) -> Judge:
    """The verdict that weighs more for an action without numbers; "wrong" for one that was not learned from."""
    sums: dict[str, dict[Verdict, float]] = defaultdict(lambda: dict.fromkeys(VERDICTS, 0.0))
    for example, label, weight in weighed:
        sums[without_numbers(example.action)][label] += weight
    table: Mapping[str, Verdict] = {action: max(VERDICTS, key=of.__getitem__) for action, of in sums.items()}
    return lambda proposed: table.get(without_numbers(proposed.action), "wrong")


def threshold(weighed: Sequence[tuple[float, Verdict, float]]) -> float:
    """The least value that is called correct so that the weights of those called right are the most; the lowest of
    several. Infinite where nothing is best called correct.
    """
    ranked = sorted(weighed, key=lambda row: -row[0])
    best, most, gained = np.inf, 0.0, 0.0
    for index, (value, label, weight) in enumerate(ranked):
        gained += weight if label == "correct" else -weight
        last = index + 1 == len(ranked) or ranked[index + 1][0] < value
        if last and gained >= most:
            best, most = value, gained
    return float(best)


def _compared(right: Sequence[bool], guessed: Sequence[bool], tasks: Sequence[str], seed: int) -> Compared:
    places = {task: index for index, task in enumerate(dict.fromkeys(tasks))}
    task_M = np.asarray([places[task] for task in tasks])

    def by_task(values: Sequence[bool]) -> Floats:
        return np.bincount(task_M, weights=np.asarray(values, dtype=np.float64), minlength=len(places)).astype(float)

    sums = {"critic": by_task(right), "baseline": by_task(guessed), "actions": by_task([True] * len(tasks))}
    lead = bootstrap(
        sums, lambda of: 100 * (of["critic"] - of["baseline"]) / of["actions"], seed=seed, bounds=(-100, 100)
    )
    accuracy = clustered_rate(sums["baseline"].astype(int).tolist(), sums["actions"].astype(int).tolist())
    return Compared(accuracy=accuracy, lead=lead)
