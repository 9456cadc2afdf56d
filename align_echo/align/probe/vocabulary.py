"""Learn from allowed actions what an environment understands: templates, refusals and undo pairs."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import skeleton
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.vocabulary import NUMBERED, UndoPair, Vocabulary, kind_of

_MIN_PAIRS = 3
_MOST_ENABLED = 3
"""Maximum enabled actions stored per task and template."""

Need = tuple[str, str, tuple[int, ...]]
"""Template of an action, template of an enabling step, and the action's name for each name of the step (-1: none)."""

_MOST_RIVALS = 4
"""Maximum actions of a form tried as undo."""


def try_spelling(lab: Lab, states: Iterable[LabState], rng: random.Random) -> list[tuple[str, bool]]:
    """Try an allowed action of each state in capitals ("case") and without numbers ("number").

    Returns the kind of each try and whether it was refused.
    """
    tries: list[tuple[str, bool]] = []
    for state in states:
        options = sorted(action for action in state.admissible if re.search(lab.name, action))
        if not options:
            continue
        action = rng.choice(options)
        numberless = re.sub(lab.name, lambda match: kind_of(match.group(0)), action)
        for part, variant in (("case", action.title()), ("number", numberless)):
            if variant != action and not state.over:
                tries.append((part, lab.refused(state, variant, lab.after(state, variant).observation)))
    return tries


def spelling_needed(tries: Sequence[tuple[str, bool]]) -> dict[str, bool]:
    """Return the spellings ("case", "number") that must be exact: tried, and always refused otherwise."""
    refused = {part: [refused for tried, refused in tries if tried == part] for part in ("case", "number")}
    return {part: bool(answers) and all(answers) for part, answers in refused.items()}


def _may_have_been_taken(lab: Lab, before: LabState, child: LabState) -> bool:
    """Check if a seemingly refused action may have been accepted.

    Its answer when possible (`child`) equals the state's last text, like a silent refusal.
    """
    return not lab.lists and SAME in lab.refusals and child.observation.strip() == before.observation.strip()


def general(templates: Iterable[str]) -> list[str]:
    """Drop templates equal to another with a name in a slot, from late-recognised names. Sorted."""
    patterns = {template: "(.+)".join(map(re.escape, re.split(r"\{\d\}", template))) for template in templates}
    return sorted(
        template
        for template in patterns
        if not any(
            longer.count("{") > template.count("{") and re.fullmatch(pattern, template)
            for longer, pattern in patterns.items()
        )
    )


class ActionVocabulary:
    """Templates with examples, and pairs that undo each other, collected from states."""

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
        """Learn the templates allowed in a state and the names in its text."""
        self.shown[state.task_id].update(re.findall(self.name, state.observation))
        for action in state.admissible:
            template, _ = skeleton(action, self.name)
            self.templates[template] += 1
            self.arguments[state.task_id][template].add(action)
            seen = self._seen_at[state.task_id]
            seen[template] = min(seen.get(template, len(state.actions)), len(state.actions))

    def form(self, action: str) -> str:
        """Return an action's template."""
        return skeleton(action, self.name)[0]

    def names(self, action: str) -> tuple[str, ...]:
        """Return an action's names."""
        return skeleton(action, self.name)[1]

    def actions(self, task_id: str) -> dict[str, set[str]]:
        """Return the actions seen allowed in a task, by template."""
        return self.arguments[task_id]

    def try_undo(self, lab: Lab, before: LabState, action: str, after: LabState) -> None:
        """Search for an action on some of the same names that restores the allowed actions."""
        if lab.key(before) == lab.key(after) or after.over:
            return
        template, names = skeleton(action, self.name)
        self._changes[template] += bool(names)
        rivals: dict[str, list[str]] = defaultdict(list)
        for candidate in sorted(after.admissible - before.admissible):
            form, used = skeleton(candidate, self.name)
            if form != template and not set(used).isdisjoint(names):
                rivals[form].append(candidate)
        for form, actions in rivals.items():
            pair = (template, form)
            if self._tried[pair] >= 4 * _MIN_PAIRS:
                continue
            self._tried[pair] += 1
            actions.sort(key=lambda candidate: len({*names} ^ {*skeleton(candidate, self.name)[1]}))
            near = actions[:_MOST_RIVALS]
            undo = next((action for action in near if lab.key(lab.after(after, action)) == lab.key(before)), "")
            if undo:
                self._undone[pair] += 1
                used = skeleton(undo, self.name)[1]
                self._orders[pair][tuple(used.index(name) if name in used else -1 for name in names)] += 1

    def see_enabled(self, lab: Lab, before: LabState, action: str, after: LabState) -> None:
        """Record newly possible actions that do more than revert the last action."""
        template, names = skeleton(action, self.name)
        for candidate in sorted(after.admissible - before.admissible) if names and not after.over else ():
            form, used = skeleton(candidate, self.name)
            need = (form, template, tuple(used.index(name) if name in used else -1 for name in names))
            known = self.enabled[need]
            has_room = sum(task_id == before.task_id for task_id, _ in known) < _MOST_ENABLED
            if not used or not has_room:
                continue
            child = lab.after(after, candidate)
            if lab.key(child) != lab.key(before) and not _may_have_been_taken(lab, before, child):
                known.add((before.task_id, candidate))

    def pairs(self) -> list[UndoPair]:
        """List pairs of forms of which the second undoes the first, the earlier possible action first."""
        return sorted(
            UndoPair(*pair, self._orders[pair].most_common(1)[0][0])
            for pair, count in self._undone.items()
            if count >= _MIN_PAIRS and count >= 0.8 * self._tried[pair] and self._leads(pair)
        )

    def movers(self) -> list[str]:
        """List templates that change allowed actions without undo: going somewhere, choosing, turning to."""
        paired = {template for pair in self.pairs() for template in pair[:2]}
        return sorted(template for template in self._changes if self._changes[template] and template not in paired)

    def _leads(self, pair: tuple[str, str]) -> bool:
        """Check if the first of a pair becomes possible sooner in most tasks."""
        sooner = [
            seen[pair[0]] < seen[pair[1]]
            for seen in self._seen_at.values()
            if pair[0] in seen and pair[1] in seen and seen[pair[0]] != seen[pair[1]]
        ]
        return 2 * sum(sooner) >= len(sooner) if sooner else pair[0] < pair[1]

    def slots(self) -> dict[str, list[list[str]]]:
        """Return the kinds seen in each slot of every template, over all tasks."""
        return {template: self._kinds_in(template) for template in sorted(self.templates) if "{" in template}

    def _kinds_in(self, template: str) -> list[list[str]]:
        actions = [action for known in self.arguments.values() for action in known.get(template, ())]
        places = zip(*(skeleton(action, self.name)[1] for action in actions), strict=True)
        return [sorted({kind_of(name) for name in names}) for names in places]

    def _together(self, template: str) -> dict[str, tuple[str, ...]]:
        groups: dict[str, set[str]] = defaultdict(set)
        for action in (action for known in self.arguments.values() for action in known.get(template, ())):
            first, *rest = map(kind_of, skeleton(action, self.name)[1])
            groups[first].add(" ".join(rest))
        return {first: tuple(sorted(rests)) for first, rests in sorted(groups.items())}

    def build(
        self, names: tuple[str, ...] | None, refusals: Iterable[str], views: Iterable[str], spelling: Mapping[str, bool]
    ) -> Vocabulary:
        """Build a vocabulary. `views` are the contract's read-only actions."""
        forms = general(self.templates)
        kinds = {form: tuple(map(tuple, slots)) for form, slots in self.slots().items() if form in forms}
        return Vocabulary(
            names=names,
            forms=tuple(forms),
            refusals=tuple(sorted(refusals)),
            kinds=kinds,
            together={form: self._together(form) for form in forms if "{1}" in form},
            pairs=tuple(pair for pair in self.pairs() if {pair.do, pair.undo} <= {*forms}),
            movers=tuple(form for form in self.movers() if form in forms),
            views=tuple(views),
            case=spelling["case"],
            number=spelling["number"],
        )
