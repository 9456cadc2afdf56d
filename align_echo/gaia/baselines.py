"""Baselines without reading comprehension, to compare a critic with.

Three of them: a constant answer; a table of actions without their numbers, which ignores the conversation; and a
threshold on the agent's own log-probability. Table and threshold are fitted on the critic's training examples, with
equal total weight for correct and wrong actions, and tested on its test examples. Pure functions. Not here: the critic
(`fit`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from align_echo.critic.labels import Rule
from align_echo.critic.verdict import VERDICTS, Verdict
from align_echo.gaia.examples import ActionExample
from align_echo.intervals import Floats, Percent, Points, bootstrap, clustered_rate
from align_echo.types import Frozen

CONSTANT, TABLE, LOGPROB = "the better constant answer", "a table of actions without numbers", "the agent's own logprob"
Judge = Callable[[ActionExample], Verdict]


class BaselineComparison(Frozen):
    """A baseline on the critic's held-out actions: its accuracy in percent, and the critic's lead in points. Intervals
    are over tasks.
    """

    accuracy: Percent
    lead: Points


def compare_baselines(
    learned: Sequence[ActionExample],
    tested: Sequence[ActionExample],
    verdicts: Sequence[Verdict | None],
    rule: Rule,
    *,
    seed: int = 0,
) -> dict[str, BaselineComparison]:
    """Compare the critic with every baseline, by name. `verdicts` are the critic's on `tested`. Empty without test
    examples.
    """
    if not tested:
        return {}
    truth = [example.label(rule) for example in tested]
    tasks = [example.task_id for example in tested]
    critic_hits = [verdict == label for verdict, label in zip(verdicts, truth, strict=True)]
    by_judge = {}
    for name, judge in build_baselines(learned, tested, rule).items():
        baseline_hits = [judge(example) == label for example, label in zip(tested, truth, strict=True)]
        by_judge[name] = _compared(critic_hits, baseline_hits, tasks, seed)
    return by_judge


def build_baselines(learned: Sequence[ActionExample], tested: Sequence[ActionExample], rule: Rule) -> dict[str, Judge]:
    """Build the baselines by name. The log-probability baseline needs a log-probability for every action."""
    known = [(example, label) for example in learned if (label := example.label(rule)) is not None]
    count = Counter(label for _, label in known)
    weighted = [(example, label, 1 / count[label]) for example, label in known]
    constant = max(VERDICTS, key=Counter(example.label(rule) for example in tested).__getitem__)
    by_name: dict[str, Judge] = {CONSTANT: lambda proposed: constant, TABLE: build_table_judge(weighted)}
    if all(example.logprob is not None for example in (*learned, *tested)):
        least = threshold([(example.logprob or 0.0, label, weight) for example, label, weight in weighted])
        by_name[LOGPROB] = lambda proposed: "correct" if (proposed.logprob or 0.0) >= least else "wrong"
    return by_name


def without_numbers(action: str) -> str:
    """Replace all numbers in an action by "#"."""
    return re.sub(r"\d+", "#", action.lower())


def build_table_judge(weighted: Sequence[tuple[ActionExample, Verdict, float]]) -> Judge:
    """Build the table baseline: the verdict with more weight for an action without numbers; "wrong" for an unknown
    action.
    """
    sums: dict[str, dict[Verdict, float]] = defaultdict(lambda: dict.fromkeys(VERDICTS, 0.0))
    for example, label, weight in weighted:
        sums[without_numbers(example.action)][label] += weight
    table: Mapping[str, Verdict] = {action: max(VERDICTS, key=of.__getitem__) for action, of in sums.items()}
    return lambda proposed: table.get(without_numbers(proposed.action), "wrong")


def threshold(weighted: Sequence[tuple[float, Verdict, float]]) -> float:
    """Find the threshold with the most weight of correctly judged values; the lowest if several are equal.

    Infinite if it is best to call nothing correct.
    """
    ranked = sorted(weighted, key=lambda row: -row[0])
    best, most, gained = np.inf, 0.0, 0.0
    for index, (value, label, weight) in enumerate(ranked):
        gained += weight if label == "correct" else -weight
        last = index + 1 == len(ranked) or ranked[index + 1][0] < value
        if last and gained >= most:
            best, most = value, gained
    return float(best)


def _compared(
    critic_hits: Sequence[bool], baseline_hits: Sequence[bool], tasks: Sequence[str], seed: int
) -> BaselineComparison:
    indices = {task: index for index, task in enumerate(dict.fromkeys(tasks))}
    task_M = np.asarray([indices[task] for task in tasks])

    def by_task(values: Sequence[bool]) -> Floats:
        return np.bincount(task_M, weights=np.asarray(values, dtype=np.float64), minlength=len(indices)).astype(float)

    sums = {"critic": by_task(critic_hits), "baseline": by_task(baseline_hits), "actions": by_task([True] * len(tasks))}
    lead = bootstrap(
        sums, lambda of: 100 * (of["critic"] - of["baseline"]) / of["actions"], seed=seed, bounds=(-100, 100)
    )
    accuracy = clustered_rate(sums["baseline"].astype(int).tolist(), sums["actions"].astype(int).tolist())
    return BaselineComparison(accuracy=accuracy, lead=lead)
