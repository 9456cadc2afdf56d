"""Near misses: things agents say that the engine never understands, and what it understands instead.

A form that is in no template (`lay {0} in {1}`) is matched with the template of the same number of names whose filled
version is possible, or nearly so, in the states where agents said it. How near is measured, not read off the words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.cases import history_of, try_case
from align_echo.align.probe.lab import Lab, LabState
from align_echo.types import Evidence

MIN_SUPPORT = 2
"""So often a template must have been within reach, or nearer than all others, to be what was meant."""

MIN_SHARE = 2 / 3
"""Of the utterances of which one template is the nearest, so many must name the same."""


@dataclass(frozen=True)
class Utterance:
    """One utterance that fits no template: its skeleton, and how near each candidate template was (0 to 1). `first`: it
    was the first that was refused in its state; whoever is stuck may then say anything."""

    task_id: str
    action: str
    skeleton: str
    nearness: dict[str, float]
    first: bool = True


def try_form(lab: Lab, spec: dict[str, Any], state: LabState, action: str, *, first: bool) -> Utterance | None:
    """Measure what an utterance may have meant; None if it names nothing, or is a known form after completion."""
    history = history_of(spec, state)
    skeleton, names, _ = runtime.parse(spec, history, action)
    skeleton = " ".join(skeleton.split())
    if not names or skeleton in spec["templates"]:
        return None
    candidates = [template for template in spec["templates"] if template.count("{") == len(names)]
    nearness = {template: _nearness(lab, spec, state, runtime.write(template, names)) for template in candidates}
    return Utterance(state.task_id, action, skeleton, nearness, first)


def _nearness(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> float:
    """1 for an action that is possible here, 1/(1 + n) if n steps make it so, 0 if it is in effect or out of reach."""
    if lab.takes(state, action):
        return 1.0
    case = try_case(lab, spec, state, action)
    return 0.0 if case.already or not case.steps else 1 / (1 + case.depth)


def learn_forms(
    utterances: Iterable[Utterance], worded: Mapping[str, int], *, complete: bool = True
) -> dict[str, tuple[str, Evidence, Utterance]]:
    """skeleton -> (template, evidence, an example) where it is clear which template is meant. `worded` counts how often
    the agent said each template, refused or not: what it can say it does not say in other words, and what it says in
    words near those of the template it does not say in a third way. Unless all forms are known (`complete`), words that
    are near none of those known may be a form themselves: they are not read.
    """
    groups: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        groups[utterance.skeleton].append(utterance)
    learned: dict[str, tuple[str, Evidence, Utterance]] = {}
    alike = {form: _alike(form, group[0].nearness) for form, group in sorted(groups.items())}
    by_words = {form: _by_words(alike[form], group) for form, group in groups.items()}
    said = Counter(worded) + Counter({best: len(groups[form]) for form, best in by_words.items() if best})
    strange = {form: group for form, group in groups.items() if not alike[form]}
    by_reach = _by_reach(strange, said) if complete else {}
    for form, group in sorted(groups.items()):
        best = by_words[form] or by_reach.get(form, "")
        if best:
            support = sum(utterance.nearness[best] > 0 for utterance in group)
            tasks = len({utterance.task_id for utterance in group})
            learned[form] = (best, Evidence(support=support, refuted=len(group) - support, tasks=tasks), group[0])
    return learned


def _alike(form: str, candidates: Collection[str]) -> list[str]:
    """The templates that share words with a form that no other candidate has."""
    words = {template: {word for word in template.split() if "{" not in word} for template in candidates}
    shared: list[str] = []
    for template in candidates:
        others = set[str]().union(*(words[other] for other in candidates if other != template))
        if not {*form.split()}.isdisjoint(words[template] - others):
            shared.append(template)
    return shared


def _by_words(alike: Sequence[str], group: Sequence[Utterance]) -> str:
    """Of the templates that are like a form the one that was within reach several times."""
    near = [template for template in alike if _times(group, template) >= MIN_SUPPORT]
    return near[0] if len(near) == 1 else ""


def _by_reach(groups: Mapping[str, list[Utterance]], worded: Mapping[str, int]) -> dict[str, str]:
    """By strange form the template that it means by its nearness. Of two that would mean the same the one counts that
    alone was said before the agent was stuck; where both were, or none, neither counts."""
    first = {form: [utterance for utterance in group if utterance.first] for form, group in groups.items()}
    read = {form: _by_nearness(first[form] or group, worded) for form, group in groups.items()}
    meant = Counter(read.values())
    surely = Counter(read[form] for form in groups if first[form])
    return {form: best for form, best in read.items() if meant[best] == 1 or (surely[best] == 1 and first[form])}


def _by_nearness(group: Sequence[Utterance], worded: Mapping[str, int]) -> str:
    """The template that is nearer than all others most of the time, unless another that comes after it may be meant.

    Who leaves out one step and says the next in other words is understood as one who says the first: such a reading is
    not taken, as long as the agent was not heard to say the next step rightly.
    """
    wins: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in group:
        ranked = sorted(utterance.nearness.items(), key=lambda pair: -pair[1])
        if ranked and ranked[0][1] > 0 and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]):
            wins[ranked[0][0]].append(utterance)
    best = max(sorted(wins), key=lambda template: len(wins[template]), default="")
    won = wins[best] if best else []
    if len(won) < MIN_SUPPORT or len(won) < MIN_SHARE * sum(map(len, wins.values())):
        return ""
    often = len({utterance.task_id for utterance in group}) / 2
    rivals = [template for template in group[0].nearness if template != best and worded.get(template, 0) < often]
    doubtful = any(2 * _times(won, rival) >= len(won) for rival in rivals)
    return "" if doubtful or worded.get(best, 0) >= often else best


def _times(group: Iterable[Utterance], template: str) -> int:
    """How often a template was within reach."""
    return sum(utterance.nearness[template] > 0 for utterance in group)
