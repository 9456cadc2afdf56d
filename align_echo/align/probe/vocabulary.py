"""What can be said to an environment, learned from what it allows: action templates, refusals, and undo pairs."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import NUMBERED, skeleton
from align_echo.align.probe.runtime import SAME

_MIN_PAIRS = 3
_MOST_ENABLED = 3
"""So many actions of a task are kept that another made possible, by template."""

Need = tuple[str, str, tuple[int, ...]]
"""The template of an action, that of a step which made it possible, and which of the action's names each name of the
step is (-1: none)."""

_MOST_RIVALS = 4
"""So many actions of a form are tried on whether they take back what was done."""


def try_spelling(lab: Lab, states: Iterable[LabState], rng: random.Random) -> list[tuple[str, bool]]:
    """Say one allowed action of each state with capitals ("case"), and without the numbers of its names ("number").

    Returned is for each try which of the two it was, and whether the engine refused it.
    """
    tries: list[tuple[str, bool]] = []
    for state in states:
        options = sorted(action for action in state.admissible if re.search(lab.name, action))
        if not options:
            continue
        action = rng.choice(options)
        numberless = re.sub(lab.name, lambda match: runtime.stem(match.group(0)), action)
        for part, variant in (("case", action.title()), ("number", numberless)):
            if variant != action and not state.over:
                tries.append((part, lab.refused(state, variant, lab.after(state, variant).observation)))
    return tries


def spelling_needed(tries: Sequence[tuple[str, bool]]) -> dict[str, bool]:
    """What has to be written exactly, "case" or "number": every try of it was refused, and there was one."""
    refused = {part: [refused for tried, refused in tries if tried == part] for part in ("case", "number")}
    return {part: bool(answers) and all(answers) for part, answers in refused.items()}


def _may_have_been_taken(lab: Lab, before: LabState, child: LabState) -> bool:
    """Whether an action that seemed to be refused in one state may have been taken there: what it is answered where it
    is possible (`child`) is what that state had just said, and that is how a silent engine refuses."""
    return not lab.lists and SAME in lab.refusals and child.observation.strip() == before.observation.strip()


def general(templates: Iterable[str]) -> list[str]:
    """Templates without those that are another one with a name in its place: a name that was met too late to be known
    as one. In alphabetical order."""
    patterns = {template: "(.+)".join(map(re.escape, re.split(r"\{\d\}", template))) for template in templates}
    return sorted(
        template
        for template in patterns
        if not any(
            other.count("{") > template.count("{") and re.fullmatch(pattern, template)
            for other, pattern in patterns.items()
        )
    )


class Vocabulary:
    """Templates with examples, and the pairs of templates that undo each other, gathered from states as they come."""

    def __init__(self, name: str = NUMBERED) -> None:
        self.name = name
        self.templates: Counter[str] = Counter()
        self.arguments: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.shown: dict[str, set[str]] = defaultdict(set)
        self.enabled: dict[Need, set[tuple[str, str]]] = defaultdict(set)
        self._undone: Counter[tuple[str, str]] = Counter()
        self._tried: Counter[tuple[str, str]] = Counter()
        self._orders: dict[tuple[str, str], Counter[tuple[int, ...]]] = defaultdict(Counter)
        self._changes: Counter[str] = Counter()
        self._seen_at: dict[str, dict[str, int]] = defaultdict(dict)

    def see(self, state: LabState) -> None:
        """Learn the templates of all that a state allows, and what its text names."""
        self.shown[state.task_id].update(re.findall(self.name, state.observation))
        for action in state.admissible:
            template, _ = skeleton(action, self.name)
            self.templates[template] += 1
            self.arguments[state.task_id][template].add(action)
            seen = self._seen_at[state.task_id]
            seen[template] = min(seen.get(template, len(state.actions)), len(state.actions))

    def form(self, action: str) -> str:
        """The template of an action."""
        return skeleton(action, self.name)[0]

    def names(self, action: str) -> tuple[str, ...]:
        """The names in an action."""
        return skeleton(action, self.name)[1]

    def actions(self, task_id: str) -> dict[str, set[str]]:
        """Every ground action that a task was seen to allow, by template."""
        return self.arguments[task_id]

    def try_undo(self, lab: Lab, before: LabState, action: str, after: LabState) -> None:
        """If the action changed what is allowed, look for one on some of its names that restores it."""
        if lab.key(before) == lab.key(after) or after.over:
            return
        template, names = skeleton(action, self.name)
        self._changes[template] += bool(names)
        rivals: dict[str, list[str]] = defaultdict(list)
        for other in sorted(after.admissible - before.admissible):
            form, others = skeleton(other, self.name)
            if form != template and not set(others).isdisjoint(names):
                rivals[form].append(other)
        for form, actions in rivals.items():
            pair = (template, form)
            if self._tried[pair] >= 4 * _MIN_PAIRS:
                continue
            self._tried[pair] += 1
            actions.sort(key=lambda other: len({*names} ^ {*skeleton(other, self.name)[1]}))
            near = actions[:_MOST_RIVALS]
            undo = next((other for other in near if lab.key(lab.after(after, other)) == lab.key(before)), "")
            if undo:
                self._undone[pair] += 1
                others = skeleton(undo, self.name)[1]
                self._orders[pair][tuple(others.index(name) if name in others else -1 for name in names)] += 1

    def see_enabled(self, lab: Lab, before: LabState, action: str, after: LabState) -> None:
        """Take in what an action made possible that was refused before it and does not only take it back."""
        template, names = skeleton(action, self.name)
        for other in sorted(after.admissible - before.admissible) if names and not after.over else ():
            form, others = skeleton(other, self.name)
            need = (form, template, tuple(others.index(name) if name in others else -1 for name in names))
            known = self.enabled[need]
            few = sum(task_id == before.task_id for task_id, _ in known) < _MOST_ENABLED
            if not others or not few:
                continue
            child = lab.after(after, other)
            if lab.key(child) != lab.key(before) and not _may_have_been_taken(lab, before, child):
                known.add((before.task_id, other))

    def pairs(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """(do, undo, where undo has each name of do, -1 for nowhere), the one that is possible first leading."""
        return sorted(
            (*pair, self._orders[pair].most_common(1)[0][0])
            for pair, count in self._undone.items()
            if count >= _MIN_PAIRS and count >= 0.8 * self._tried[pair] and self._leads(pair)
        )

    def movers(self) -> list[str]:
        """Templates that change what is allowed and have no undo: going somewhere, choosing, turning to."""
        paired = {template for pair in self.pairs() for template in pair[:2]}
        return sorted(template for template in self._changes if self._changes[template] and template not in paired)

    def _leads(self, pair: tuple[str, str]) -> bool:
        """Whether the first of a pair is possible sooner, in most tasks."""
        sooner = [
            seen[pair[0]] < seen[pair[1]]
            for seen in self._seen_at.values()
            if pair[0] in seen and pair[1] in seen and seen[pair[0]] != seen[pair[1]]
        ]
        return 2 * sum(sooner) >= len(sooner) if sooner else pair[0] < pair[1]

    def slots(self) -> dict[str, list[list[str]]]:
        """For every template, the kinds of things seen in each of its places, over all tasks."""
        return {template: self._kinds_in(template) for template in sorted(self.templates) if "{" in template}

    def _kinds_in(self, template: str) -> list[list[str]]:
        actions = [action for known in self.arguments.values() for action in known.get(template, ())]
        places = zip(*(skeleton(action, self.name)[1] for action in actions), strict=True)
        return [sorted({runtime.stem(name) for name in names}) for names in places]

    def _combined(self, template: str) -> list[str]:
        actions = [action for known in self.arguments.values() for action in known.get(template, ())]
        return sorted({" ".join(runtime.stem(name) for name in skeleton(action, self.name)[1]) for action in actions})

    def spec(self, uninformative: Iterable[str], views: Iterable[str]) -> dict[str, Any]:
        """The start of a `runtime` spec: no rules yet. `views` are the contract's read-only actions."""
        templates = general(self.templates)
        return {
            "name": self.name,
            "templates": {template: [] for template in templates},
            "pairs": [[do, undo, list(at)] for do, undo, at in self.pairs() if {do, undo} <= {*templates}],
            "needs": {template: [] for template in templates},
            "movers": [template for template in self.movers() if template in templates],
            "now": {template: [] for template in templates},
            "kinds": {template: kinds for template, kinds in self.slots().items() if template in templates},
            "combined": {template: self._combined(template) for template in templates if "{1}" in template},
            "views": list(views),
            "uninformative": sorted(uninformative),
            "forms": {},
        }
