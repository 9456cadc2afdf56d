"""Cases: refused actions in real states, with the steps that help, found by trying.

Cases come from the agent's failures or from walks. The label is the set of first steps of the shortest paths (at most
`DEPTH` actions) after which the action is allowed; "already" if the action, once possible again, leads back to the
state of its refusal; or "now" for an allowed action.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import skeleton
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.model import MissingStep
from align_echo.interface.rules.situations import IsMentioned, IsTold, PlainCondition, Situation, StateCondition
from align_echo.interface.rules.vocabulary import MOST_READ, NUMBERED, UndoPair, Vocabulary, kind_of
from align_echo.types import Trajectory

DEPTH = 5
MAX_NODES = 300
WALK_LENGTH = 80
SHORTEST_WALK = 15
RECENT = 4
PUT_OFF = 3
"""Maximum candidates for a walk's next step to postpone because they lead back."""

AIMLESS = 0.25
"""Share of arbitrary actions in a walk."""

CYCLES = 3
TASKS_PER_ROUND = 10
MIN_WALKS = 12
PASSES = 3
"""Rounds of learning and examination, tasks of a round, walks of an examination, and passes of one that are usual."""


def count_walks(tasks: int, fresh: int) -> int:
    """Return the usual number of walks through so many tasks with failures and fresh ones."""
    return 2 * tasks + fresh + CYCLES * (min(TASKS_PER_ROUND, fresh) + PASSES * MIN_WALKS)


Slots = dict[str, list[list[str]]]
"""Kinds of names seen in each slot, by template."""


@dataclass(frozen=True, eq=False)
class Case:
    """Refused action, or allowed one (`now`), in the state after the actions of `prefix`.

    `steps` are the first steps of the shortest paths that enable it, of length `depth`; empty if nothing within reach
    helps. `already` is True if the action was in effect.
    """

    task_id: str
    prefix: tuple[str, ...]
    action: str
    template: str
    names: tuple[str, ...]
    situation: Situation
    steps: frozenset[str]
    already: bool
    depth: int
    now: bool = False
    name: str = NUMBERED
    """Pattern for names in actions."""

    memo: dict[StateCondition, bool] = field(default_factory=dict, repr=False)
    """Cache of conditions."""

    mentioned: list[PlainCondition] = field(default_factory=list, repr=False)

    right: list[frozenset[MissingStep | str]] = field(default_factory=list, repr=False)
    """Cache of all correct conclusions (`rules.conclusions`)."""

    @cached_property
    def about(self) -> list[str]:
        """Return the names conditions may refer to."""
        return self.situation.about(self.names)

    def holds(self, condition: StateCondition) -> bool:
        """Check if a condition holds; cached."""
        if condition not in self.memo:
            self.memo[condition] = condition.holds(self.situation, self.about)
        return self.memo[condition]

    def mentions(self, vocabulary: Vocabulary) -> list[PlainCondition]:
        """Return conditions on the last mentions of names and on views of them; cached."""
        if not self.mentioned:
            for slot, name in enumerate(self.about):
                self.mentioned.append(IsMentioned("shape", slot, self.situation.mentions.get(name, "")))
                for view in vocabulary.views:
                    if "{}" in view:
                        text = vocabulary.first_mention(self.situation.view(view, name), name)
                        self.mentioned.append(IsTold("told", view, slot, text))
        return self.mentioned

    @property
    def outcome(self) -> str:
        """Return the kind of help, for quotas: "now", "already", the first steps' templates, or "nothing"."""
        if self.now:
            return "now"
        if self.already:
            return "already"
        return " | ".join(sorted({skeleton(step, self.name)[0] for step in self.steps})) or "nothing"

    def agrees(self, step: str) -> bool:
        """Check if a rule's conclusion is correct here."""
        if step == "now":
            return self.now
        return self.already if step == "already" else step in self.steps


def build_history(vocabulary: Vocabulary, state: LabState) -> Situation:
    """Return what an episode has shown up to a state, without views; cached on the state."""
    if state.history is None:
        if state.parent is None:
            state.history = Situation.begin(vocabulary, state.opening, state.observation)
        else:
            state.history = build_history(vocabulary, state.parent).branch()
            state.history.record(state.actions[-1], state.observation)
    return state.history


def situate(lab: Lab, lists: DecisionLists, state: LabState, action: str) -> Situation:
    """Return a state's situation with its current views, as an interface sees it on a refusal; cached on the state."""
    cached = state.read_by(lists)
    if action not in cached:
        known = build_history(lists.vocabulary, state)
        cached[action] = known.with_views({view: lab.look(state, view) for view in lists.views(known, action)})
    situated: Situation = cached[action]
    return situated


def try_case(lab: Lab, lists: DecisionLists, state: LabState, action: str) -> Case:
    """Find by experiment the steps that enable an action.

    Cached on the state, unless actions must be tried: results then depend on other states.
    """
    if not lab.lists:
        return _try_case(lab, lists, state, action)
    cached = state.read_by(lists)
    if ("case", action) not in cached:
        cached["case", action] = _try_case(lab, lists, state, action)
    case: Case = cached["case", action]
    return case


def _try_case(lab: Lab, lists: DecisionLists, state: LabState, action: str) -> Case:
    template, names = skeleton(action, lab.name)
    situation = situate(lab, lists, state, action)
    allowed = lab.takes(state, action)
    steps, already, depth = (
        (frozenset[str](), False, 0) if allowed else _search(lab, state, action, _related(situation, names))
    )
    return Case(
        state.task_id, state.actions, action, template, names, situation, steps, already, depth, allowed, lab.name
    )


def is_so(lab: Lab, state: LabState, action: str) -> bool:
    """Check if a refused action is in effect: after some step it is allowed and leads back here.

    Cached on the state.
    """
    state.so = {} if state.so is None else state.so
    if action not in state.so:
        state.so[action] = _leads_back(lab, state, action)
    return state.so[action]


def _leads_back(lab: Lab, state: LabState, action: str) -> bool:
    for child in (lab.after(state, step) for step in sorted(state.admissible)):
        if child.over or not lab.takes(child, action):
            continue
        again = lab.after(child, action)
        if may_have_been_taken(lab, state, child, again):
            return False
        if lab.key(again) == lab.key(state):
            return True
    return False


def _related(situation: Situation, names: Sequence[str]) -> set[str]:
    """Find names related to an action: its own, those seen with them, and those of the last action."""
    related = set(names)
    for name in names:
        related.update((situation.near.get(name, ""), situation.shown_with.get(name, "")))
        related.update(situation.at.get(name, {}).values())
    related.update(name for active in situation.active.values() for name in active[-1:])
    related.update(latest[0] for latest in situation.last.values() if latest)
    return related - {""}


def _search(lab: Lab, start: LabState, action: str, related: set[str]) -> tuple[frozenset[str], bool, int]:
    """Search breadth first: (first steps of all shortest paths, whether in effect, path length).

    Skips paths whose last step the action merely reverts: its goal held before that step.
    """
    seen = {lab.key(start)}
    frontier: list[tuple[LabState, str]] = [(start, "")]
    nodes = 0
    for depth in range(1, DEPTH + 1):
        helpful: set[str] = set()
        already = False
        following: list[tuple[LabState, str]] = []
        for state, first in frontier:
            for step in _relevant(lab, state, related) if depth > 1 else _wide(lab, state, related):
                if nodes >= MAX_NODES and depth > 1:
                    return frozenset(helpful), already, depth if helpful else 0
                child = lab.after(state, step)
                nodes += 1
                if child.over:
                    continue
                if lab.takes(child, action):
                    again = lab.after(child, action)
                    if may_have_been_taken(lab, start, child, again):
                        return frozenset(), False, 0
                    if not lab.same(again, state):
                        helpful.add(first or step)
                    else:
                        already = already or depth == 1
                elif lab.key(child) not in seen:
                    seen.add(lab.key(child))
                    following.append((child, first or step))
        if helpful or already:
            return frozenset(helpful), already, depth
        frontier = following
    return frozenset(), False, 0


def _relevant(lab: Lab, state: LabState, related: set[str]) -> list[str]:
    """List actions with only related names, own names first, in a fixed order."""
    return [
        action
        for action in lab.possible(state, related)
        if (names := skeleton(action, lab.name)[1]) and related.issuperset(names)
    ]


def _wide(lab: Lab, state: LabState, related: set[str]) -> list[str]:
    """List related actions and two others per template, since a detour may be necessary."""
    first = _relevant(lab, state, related)
    counts: Counter[str] = Counter()
    for action in sorted(state.admissible.difference(first)):
        template, names = skeleton(action, lab.name)
        counts[template] += 1
        if names and counts[template] <= 2:
            first.append(action)
    return first


def walk(
    lab: Lab, vocabulary: ActionVocabulary, task_id: str, rng: random.Random, length: int | None = None
) -> list[LabState]:
    """Walk by preferring the rarest kind of action, then kinds of names, then names.

    Actions that lead back are postponed, `PUT_OFF` times at most: a walk that puts things down at once would never see
    other places with them in hand. Some actions are arbitrary, so that the walk also leaves things undone.
    """
    done: Counter[str] = Counter()
    state = lab.start(task_id)
    states = [state]
    vocabulary.see(state)
    been = {lab.key(state)}
    for _ in range(length or max(SHORTEST_WALK, round(lab.pace * WALK_LENGTH))):
        options = sorted(state.admissible)
        if not options:
            break
        rng.shuffle(options)

        def novelty(action: str) -> tuple[int, int, int]:
            forms = skeleton(action, lab.name)[0], _kinds(lab.name, action)
            return done.get(forms[0], 0), done.get(forms[1], 0), done.get(action, 0)

        action = options[0]
        if rng.random() >= AIMLESS:
            options = sorted(options, key=novelty)[: 1 + PUT_OFF]
            leading_on = (action for action in options if lab.key(lab.after(state, action)) not in been)
            action = next(leading_on, options[0])
        done.update((skeleton(action, lab.name)[0], _kinds(lab.name, action), action))
        following = lab.after(state, action)
        if following.over:
            break
        vocabulary.see(following)
        vocabulary.try_undo(lab, state, action, following)
        vocabulary.see_enabled(lab, state, action, following)
        been.add(lab.key(following))
        states.append(following)
        state = following
    return states


def random_walk(lab: Lab, task_id: str, rng: random.Random, length: int = WALK_LENGTH) -> Iterator[LabState]:
    """Yield the states of a random walk."""
    state = lab.start(task_id)
    yield state
    for _ in range(length):
        if state.over or not state.admissible:
            return
        state = lab.after(state, rng.choice(sorted(state.admissible)))
        yield state


@lru_cache(maxsize=MOST_READ)
def _kinds(name: str, action: str) -> str:
    """Remove numbers from the names in an action; `name` matches names."""
    template, names = skeleton(action, name)
    return fill(template, [kind_of(name) for name in names])


def proposals(
    states: Sequence[LabState], vocabulary: ActionVocabulary, slots: Slots, rng: random.Random
) -> Iterator[tuple[str, LabState, str]]:
    """Yield refused actions worth studying along a walk, as (reason, state, action).

    Reasons: the kind of step that enables it next; "done" (just done); "recent" (related to the last actions); "known"
    (seen in the task); "fitting" (recent and known names in templates for such kinds, by `slots`); "shown" (names in
    texts of the task, in forms for such names in other tasks).
    """
    known = [(form, sorted(actions)) for form, actions in sorted(vocabulary.actions(states[0].task_id).items())]
    named = {action: vocabulary.names(action) for _, actions in known for action in actions}
    known_names = sorted({name for names in named.values() for name in names})
    fits = _fits(slots, {name: kind_of(name) for name in known_names})
    # Where names have numbers, what a text names can be named in an action: then `shown` tells nothing new.
    text_names = set() if vocabulary.name == NUMBERED else vocabulary.shown[states[0].task_id]
    fits_shown = _fits(slots, {name: name for name in sorted(text_names)}) if text_names else []
    for before, after in pairwise(states):
        step = vocabulary.form(after.actions[-1])
        enabled: dict[str, list[str]] = {}
        for action in sorted(after.admissible - before.admissible):
            enabled.setdefault(vocabulary.form(action), []).append(action)
        for actions in enabled.values():
            yield f"after {step}", before, rng.choice(actions)
        if after.actions[-1] not in after.admissible:
            yield "done", after, after.actions[-1]
        recent = {name for action in after.actions[-RECENT:] for name in vocabulary.names(action)}
        for _, possible in known:
            refused = [action for action in possible if action not in after.admissible]
            related = [action for action in refused if not recent.isdisjoint(named[action])]
            if related:
                yield "recent", after, rng.choice(related)
            if refused:
                yield "known", after, rng.choice(refused)
        for why, fitting, wanted in (("fitting", fits, recent), ("shown", fits_shown, text_names)):
            for template, places in fitting:
                action = _filled(template, places, wanted, rng)
                if action and action not in after.admissible:
                    yield why, after, action


def _fits(slots: Slots, stems: Mapping[str, str]) -> list[tuple[str, list[list[str]]]]:
    """List fitting names for each slot, by template. `stems` maps ordered names to their stems."""
    return [
        (template, [[name for name, stem in stems.items() if stem in kind] for kind in kinds])
        for template, kinds in sorted(slots.items())
    ]


def _filled(template: str, fits: Sequence[Sequence[str]], recent: set[str], rng: random.Random) -> str:
    """Fill a template with fitting names, at least one recent; "" if there are none."""
    indices = [index for index, names in enumerate(fits) if not recent.isdisjoint(names)]
    if not indices or not all(fits):
        return ""
    chosen = [rng.choice(names) for names in fits]
    index = rng.choice(indices)
    chosen[index] = rng.choice([name for name in fits[index] if name in recent])
    return fill(template, chosen)


def replay_actions(lab: Lab, trajectories: Iterable[Trajectory]) -> Iterator[tuple[LabState, str, bool]]:
    """Replay the agent's actions, each with its state and whether it was refused.

    A refused action counts once per episode.
    """
    for trajectory in sorted(trajectories, key=lambda trajectory: trajectory.task_id):
        state = lab.start(trajectory.task_id)
        refused: set[str] = set()
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or state.over:
                continue
            if not lab.refused(state, step.action, step.raw_observation):
                yield state, step.action, False
                state = lab.after(state, step.action)
            elif step.action not in refused:
                refused.add(step.action)
                yield state, step.action, True


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


def may_have_been_taken(lab: Lab, start: LabState, before: LabState, after: LabState) -> bool:
    """Check if an action that looked refused in `start` may have been accepted, as its step from `before` to `after`
    shows.

    Silence refuses: it was accepted if an equal state accepts it. It may have been if its answer is the text of
    `start`, unless it leads there, so that it is in effect already.
    """
    if lab.lists or SAME not in lab.refusals:
        return False
    if lab.key(before) == lab.key(start):
        return True
    return after.observation.strip() == start.observation.strip() and lab.key(after) != lab.key(start)


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
            if lab.key(child) != lab.key(before) and not may_have_been_taken(lab, before, after, child):
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

    def slots(self) -> Slots:
        """Return the kinds seen in each slot of every template, over all tasks."""
        slots: Slots = {}
        for template in (template for template in sorted(self.templates) if "{" in template):
            slots[template] = [sorted({*kinds}) for kinds in zip(*self._kinds_of(template), strict=True)]
        return slots

    def _kinds_of(self, template: str) -> Iterator[list[str]]:
        """Yield the kinds of names in each action of a template."""
        for action in (action for known in self.arguments.values() for action in known.get(template, ())):
            yield [*map(kind_of, skeleton(action, self.name)[1])]

    def _together(self, template: str) -> dict[str, tuple[str, ...]]:
        groups: dict[str, set[str]] = defaultdict(set)
        for first, *rest in self._kinds_of(template):
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
