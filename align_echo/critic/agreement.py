"""Agreement of two label rules, overall, for exploring steps, and by action type.

A pure function of rows, one per action labelled by both rules. The share alone says little if most actions are wrong by
either rule, so the counts of every pair of labels are reported too. Not here: the labels themselves (`labels.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from align_echo.critic.labels import Rule
from align_echo.critic.verdict import Verdict
from align_echo.intervals import Estimate, clustered_rate
from align_echo.types import Frozen

ANSWERS = ("correct", "wrong", "none")


class LabelPair(Frozen):
    """An action in a state of a task, with its label by two rules; None if a rule cannot decide.

    `explores`: it looks into new furniture while an object needed for the task is still unseen
    (`labels.explores_here`).
    """

    environment: str
    task_id: str
    action_type: str
    first: Verdict | None
    second: Verdict | None
    explores: bool = False


class RuleAgreement(Frozen):
    """Agreement over some of the rows.

    `n`: rows with a label from both rules. `agree`: percent of these with equal labels, with its 95% interval over
    tasks (`agree.n` tasks). `by_chance`: expected percent for independent rules with the same rates of correct (Cohen,
    Educ. Psychol. Meas. 20(1), 1960). Both are None if n is 0. `counts`: rows by both labels, all nine combinations,
    e.g. "correct/wrong" for correct by the first rule and wrong by the second; "none" if a rule could not decide.
    """

    n: int
    agree: Estimate | None
    by_chance: float | None
    counts: dict[str, int]


class EnvironmentAgreement(Frozen):
    """Agreement of two rules in one environment: over all rows, over exploring steps and the others, and by action
    type.
    """

    environment: str
    rules: tuple[Rule, Rule]
    all: RuleAgreement
    exploring: RuleAgreement
    other: RuleAgreement
    by_action_type: dict[str, RuleAgreement]


def agreement(rows: Iterable[LabelPair], rules: tuple[Rule, Rule]) -> list[EnvironmentAgreement]:
    """Compute the agreement of two rules per environment, in order of first appearance; action types sorted by name.

    `rules` names the rules of `first` and `second`.
    """
    groups: dict[str, list[LabelPair]] = {}
    for row in rows:
        groups.setdefault(row.environment, []).append(row)
    return [_environment_agreement(name, group, rules) for name, group in groups.items()]


def _environment_agreement(name: str, rows: Sequence[LabelPair], rules: tuple[Rule, Rule]) -> EnvironmentAgreement:
    types = sorted({row.action_type for row in rows})
    return EnvironmentAgreement(
        environment=name,
        rules=rules,
        all=_summarize(rows),
        exploring=_summarize([row for row in rows if row.explores]),
        other=_summarize([row for row in rows if not row.explores]),
        by_action_type={kind: _summarize([row for row in rows if row.action_type == kind]) for kind in types},
    )


def _summarize(rows: Sequence[LabelPair]) -> RuleAgreement:
    both = [row for row in rows if row.first is not None and row.second is not None]
    matches_by_task: dict[str, list[bool]] = {}
    for row in both:
        matches_by_task.setdefault(row.task_id, []).append(row.first == row.second)
    hits = [sum(matches) for matches in matches_by_task.values()]
    sizes = [len(matches) for matches in matches_by_task.values()]
    pairs = Counter(f"{row.first or 'none'}/{row.second or 'none'}" for row in rows)
    return RuleAgreement(
        n=len(both),
        agree=clustered_rate(hits, sizes) if both else None,
        by_chance=_by_chance(both) if both else None,
        counts={f"{first}/{second}": pairs[f"{first}/{second}"] for first in ANSWERS for second in ANSWERS},
    )


def _by_chance(rows: Sequence[LabelPair]) -> float:
    first = sum(row.first == "correct" for row in rows) / len(rows)
    second = sum(row.second == "correct" for row in rows) / len(rows)
    return 100 * (first * second + (1 - first) * (1 - second))
