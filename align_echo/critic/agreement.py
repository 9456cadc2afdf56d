"""How often two rules for labels agree: on what share of the states, apart for exploring steps, by type of action.

A pure function of rows, one for each action that was labelled by both. A share alone says little where most actions are
wrong by either rule; the counts of every pair of labels stand beside it. Left out: the labels themselves (`labels.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from align_echo.critic.labels import Rule
from align_echo.critic.verdict import Verdict
from align_echo.intervals import Estimate, clustered_rate
from align_echo.types import Frozen

ANSWERS = ("correct", "wrong", "none")


class Labelled(Frozen):
    """An action in a state of a task, and what two rules say of it; None where a rule cannot tell.

    `explores`: it looks into new furniture while something that the task needs was never seen (`labels.explores_here`).
    """

    environment: str
    task_id: str
    action_type: str
    first: Verdict | None
    second: Verdict | None
    explores: bool = False


class Agreement(Frozen):
    """Over some of the rows.

    `n`: rows in which both rules gave a label. `agree`: percent of these in which it is the same, with its 95% interval
    over tasks (`agree.n` tasks). `by_chance`: percent in which rules that call as many actions correct as these would
    agree if they knew nothing of each other (Cohen, Educ. Psychol. Meas. 20(1), 1960). Both are None where n is 0.
    `counts`: rows by both labels, all nine, as "correct/wrong" for correct by the first rule and wrong by the second;
    "none" where a rule could not tell.
    """

    n: int
    agree: Estimate | None
    by_chance: float | None
    counts: dict[str, int]


class EnvironmentAgreement(Frozen):
    """Two rules in one environment: over all rows, over exploring steps and the others, and by type of action."""

    environment: str
    rules: tuple[Rule, Rule]
    all: Agreement
    exploring: Agreement
    other: Agreement
    by_action_type: dict[str, Agreement]


def agreement(rows: Iterable[Labelled], rules: tuple[Rule, Rule]) -> list[EnvironmentAgreement]:
    """How often two rules agree, for each environment in order of first appearance; types of actions by name.

    `rules` names the rules of `first` and `second`.
    """
    groups: dict[str, list[Labelled]] = {}
    for row in rows:
        groups.setdefault(row.environment, []).append(row)
    return [_of_environment(name, group, rules) for name, group in groups.items()]


def _of_environment(name: str, rows: Sequence[Labelled], rules: tuple[Rule, Rule]) -> EnvironmentAgreement:
    types = sorted({row.action_type for row in rows})
    return EnvironmentAgreement(
        environment=name,
        rules=rules,
        all=_over(rows),
        exploring=_over([row for row in rows if row.explores]),
        other=_over([row for row in rows if not row.explores]),
        by_action_type={kind: _over([row for row in rows if row.action_type == kind]) for kind in types},
    )


def _over(rows: Sequence[Labelled]) -> Agreement:
    both = [row for row in rows if row.first is not None and row.second is not None]
    same: dict[str, list[bool]] = {}
    for row in both:
        same.setdefault(row.task_id, []).append(row.first == row.second)
    hits, sizes = [sum(agreement) for agreement in same.values()], [len(agreement) for agreement in same.values()]
    pairs = Counter(f"{row.first or 'none'}/{row.second or 'none'}" for row in rows)
    return Agreement(
        n=len(both),
        agree=clustered_rate(hits, sizes) if both else None,
        by_chance=_by_chance(both) if both else None,
        counts={f"{first}/{second}": pairs[f"{first}/{second}"] for first in ANSWERS for second in ANSWERS},
    )


def _by_chance(rows: Sequence[Labelled]) -> float:
    first = sum(row.first == "correct" for row in rows) / len(rows)
    second = sum(row.second == "correct" for row in rows) / len(rows)
    return 100 * (first * second + (1 - first) * (1 - second))
