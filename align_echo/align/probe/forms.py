"""Near misses: things agents say that the engine never understands, and what it understands instead.

A form that is in no template (`lay {0} in {1}`) is matched with the template of the same number of names whose filled
version is possible, or nearly so, in the states where agents said it. How near is measured, not read off the words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.cases import history_of, try_case
from align_echo.align.probe.lab import Lab, LabState
from align_echo.types import Evidence

MIN_SUPPORT = 2
MIN_NEARNESS = 0.3
MARGIN = 1.25


@dataclass(frozen=True)
class Utterance:
    """One utterance that fits no template: its skeleton, and how near each candidate template was (0 to 1)."""

    task_id: str
    action: str
    skeleton: str
    nearness: dict[str, float]


def try_form(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> Utterance | None:
    """Measure what an utterance may have meant; None if it names nothing, or is a known form after completion."""
    history = history_of(spec, state)
    skeleton, names, _ = runtime.parse(spec, history, action)
    skeleton = " ".join(skeleton.split())
    if not names or skeleton in spec["templates"]:
        return None
    candidates = [template for template in spec["templates"] if template.count("{") == len(names)]
    nearness = {template: _nearness(lab, spec, state, runtime.write(template, names)) for template in candidates}
    return Utterance(state.task_id, action, skeleton, nearness)


def _nearness(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> float:
    """1 for an action that is possible here, 1/(1 + n) if n steps make it so, 0 if it is in effect or out of reach."""
    if action in state.admissible:
        return 1.0
    case = try_case(lab, spec, state, action)
    return 0.0 if case.already or not case.steps else 1 / (1 + case.depth)


def learn_forms(utterances: Iterable[Utterance]) -> dict[str, tuple[str, Evidence, Utterance]]:
    """skeleton -> (template, evidence, an example) where one template is clearly the nearest."""
    groups: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        groups[utterance.skeleton].append(utterance)
    learned: dict[str, tuple[str, Evidence, Utterance]] = {}
    for form, group in sorted(groups.items()):
        totals: dict[str, float] = defaultdict(float)
        for utterance in group:
            for template, nearness in utterance.nearness.items():
                totals[template] += nearness / len(group)
        ranked = sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))
        if len(group) < MIN_SUPPORT or not ranked or ranked[0][1] < MIN_NEARNESS:
            continue
        if len(ranked) > 1 and ranked[0][1] < MARGIN * ranked[1][1]:
            continue
        best = ranked[0][0]
        support = sum(utterance.nearness[best] > 0 for utterance in group)
        tasks = len({utterance.task_id for utterance in group})
        learned[form] = (best, Evidence(support=support, refuted=len(group) - support, tasks=tasks), group[0])
    return learned
