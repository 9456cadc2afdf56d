"""Cases: a refused action in a real state, and what would have helped, found by trying.

A case comes from an agent's own failures or from walks through the environment. Its label is the set of first steps of
the shortest ways (at most `DEPTH` actions) after which the same action is allowed, or "already" when the action, once
made possible again, leads back to the very state it was refused in, or "now" for an action that is allowed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import NUMBERED, skeleton
from align_echo.align.probe.spec import MOST
from align_echo.align.probe.vocabulary import Vocabulary
from align_echo.types import Trajectory

DEPTH = 5
MAX_NODES = 300
WALK_LENGTH = 80
RECENT = 4
PUT_OFF = 3
"""So many actions of a walk's next step may be put off since they lead back to where it was."""

AIMLESS = 0.25
"""Share of a walk's steps that are any allowed action."""


Slots = dict[str, list[list[str]]]
"""For each template, the kinds of things seen in each of its places."""


@dataclass(frozen=True, eq=False)
class Case:
    """A refused action, or an allowed one (`now`), in the state after the actions of `prefix`.

    `steps` are the first steps of the shortest ways to make it possible, `depth` the length of these; there are none
    where nothing within reach helps. `already` is True where the action was in effect.
    """

    task_id: str
    prefix: tuple[str, ...]
    action: str
    template: str
    names: tuple[str, ...]
    history: dict[str, Any]
    steps: frozenset[str]
    already: bool
    depth: int
    now: bool = False
    name: str = NUMBERED
    """What finds names in actions."""

    memo: dict[str, bool] = field(default_factory=dict, repr=False)
    """Which conditions hold, by the condition as text."""

    literals: list[tuple[Any, ...]] = field(default_factory=list, repr=False)

    right: list[frozenset[str]] = field(default_factory=list, repr=False)
    """Every right-hand side that is right in it, once they were asked for (`rules.conclusions`)."""

    @cached_property
    def about(self) -> list[str]:
        """The names that conditions may speak of."""
        return runtime.about(self.history, list(self.names))

    def shapes(self, spec: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Conditions on how its names were last spoken of and how the views speak of them; kept on the case."""
        if not self.literals:
            for index, name in enumerate(self.about):
                self.literals.append(("shape", index, self.history["shape"].get(name, "")))
                for view in spec["views"]:
                    if "{}" in view:
                        text = runtime.told(spec, runtime.view_of(self.history, view, name), name)
                        self.literals.append(("told", view, index, text))
        return self.literals

    @property
    def outcome(self) -> str:
        """The kind of help, for quotas: "now", "already", the templates of the first steps, or "nothing"."""
        if self.now:
            return "now"
        if self.already:
            return "already"
        return " | ".join(sorted({skeleton(step, self.name)[0] for step in self.steps})) or "nothing"

    def agrees(self, step: str) -> bool:
        """Whether a rule's conclusion is right here."""
        if step == "now":
            return self.now
        return self.already if step == "already" else step in self.steps


def history_of(spec: dict[str, Any], state: LabState) -> dict[str, Any]:
    """The run-time history of a state, from its own actions and the engine's answers; kept on the state."""
    if state.history is None:
        if state.parent is None:
            state.history = runtime.new_history(spec, state.opening, state.observation)
        else:
            before = history_of(spec, state.parent)
            state.history = {part: dict(known) if isinstance(known, dict) else known for part, known in before.items()}
            runtime.record(spec, state.history, state.actions[-1], state.observation)
    return state.history


def situation(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> dict[str, Any]:
    """The history of a state with what the views show there now, as an interface has it when an action is refused;
    kept on the state."""
    kept = state.read_by(spec)
    if action not in kept:
        known = history_of(spec, state)
        views = runtime.views_for(spec, known, action)
        kept[action] = {**known, "views": {view: lab.look(state, view) for view in views}}
    situated: dict[str, Any] = kept[action]
    return situated


def try_case(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> Case:
    """Find by experiment what would make an action possible. Kept on the state, except where actions have to be tried:
    there it depends on what was taken elsewhere meanwhile."""
    if not lab.lists:
        return _try_case(lab, spec, state, action)
    kept = state.read_by(spec)
    if ("case", action) not in kept:
        kept["case", action] = _try_case(lab, spec, state, action)
    case: Case = kept["case", action]
    return case


def _try_case(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> Case:
    template, names = skeleton(action, lab.name)
    history = situation(lab, spec, state, action)
    now = lab.takes(state, action)
    steps, already, depth = (
        (frozenset[str](), False, 0) if now else _search(lab, state, action, _related(history, names))
    )
    return Case(state.task_id, state.actions, action, template, names, history, steps, already, depth, now, lab.name)


def is_so(lab: Lab, state: LabState, action: str) -> bool:
    """Whether a refused action is in effect: something can be done after which it is allowed and leads back here.
    Kept on the state."""
    state.so = {} if state.so is None else state.so
    if action not in state.so:
        state.so[action] = _is_undone(lab, state, action)
    return state.so[action]


def _is_undone(lab: Lab, state: LabState, action: str) -> bool:
    for step in sorted(state.admissible):
        child = lab.after(state, step)
        allowed = not child.over and lab.takes(child, action)
        if allowed and lab.key(lab.after(child, action)) == lab.key(state):
            return True
    return False


def _related(history: dict[str, Any], names: Sequence[str]) -> set[str]:
    """Names that may have to do with an action: its own, what they were seen with, what was done last."""
    related = set(names)
    for name in names:
        related.update((history["near"].get(name, ""), history["with"].get(name, "")))
        related.update(history["at"].get(name, {}).values())
    related.update(name for active in history["active"].values() for name in active[-1:])
    related.update(arguments[0] for arguments in history["last"].values() if arguments)
    return related - {""}


def _search(lab: Lab, start: LabState, action: str, related: set[str]) -> tuple[frozenset[str], bool, int]:
    """Breadth first: (first steps of all shortest ways, whether it is already so, length of the ways).

    A way whose last step the action only takes back is none: what the action asks for was so before that step.
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
                    if not lab.same(lab.after(child, action), state):
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
    """Actions all of whose names are related, own names first, in a fixed order."""
    return [
        action
        for action in lab.possible(state, related)
        if (names := skeleton(action, lab.name)[1]) and related.issuperset(names)
    ]


def _wide(lab: Lab, state: LabState, related: set[str]) -> list[str]:
    """The related actions, and two others of each template: doing something else first may be what it takes."""
    first = _relevant(lab, state, related)
    counts: Counter[str] = Counter()
    for action in sorted(state.admissible.difference(first)):
        template, names = skeleton(action, lab.name)
        counts[template] += 1
        if names and counts[template] <= 2:
            first.append(action)
    return first


def walk(
    lab: Lab, vocabulary: Vocabulary, task_id: str, rng: random.Random, length: int = WALK_LENGTH
) -> list[LabState]:
    """A walk that prefers what it did least: first the kind of action, then the kinds of things, then the things.

    An action that leads back to where the walk has been is put off for another, `PUT_OFF` times at most: a walk that
    puts down at once what it took never sees how things are elsewhere with that thing in its hand. Now and then it does
    anything: one that always does what is new never leaves a thing undone, and what holds after that is not seen.
    """
    done: Counter[str] = Counter()
    state = lab.start(task_id)
    states = [state]
    vocabulary.see(state)
    been = {lab.key(state)}
    for _ in range(length):
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


def strolled(lab: Lab, task_id: str, rng: random.Random, length: int = WALK_LENGTH) -> Iterator[LabState]:
    """The states of a walk of any actions."""
    state = lab.start(task_id)
    yield state
    for _ in range(length):
        if state.over or not state.admissible:
            return
        state = lab.after(state, rng.choice(sorted(state.admissible)))
        yield state


@lru_cache(maxsize=MOST)
def _kinds(name: str, action: str) -> str:
    """An action with its numbers taken out; `name` finds the names."""
    template, names = skeleton(action, name)
    return runtime.write(template, [runtime.stem(name) for name in names])


def proposals(
    states: Sequence[LabState], vocabulary: Vocabulary, slots: Slots, rng: random.Random
) -> Iterator[tuple[str, LabState, str]]:
    """Refused actions worth a look along a walk, as (why, state, action).

    Why: which kind of step made it possible next, "done" for what was just done, "recent" for what has to do with the
    last few actions, "known" for anything seen in the task, "fitting" for recent and known things filled into a
    template that takes such things (`slots`: the kinds seen in each place of each template), "shown" for names that
    texts of the task hold, in forms that take them in other tasks.
    """
    known = [(form, sorted(actions)) for form, actions in sorted(vocabulary.actions(states[0].task_id).items())]
    named = {action: vocabulary.names(action) for _, actions in known for action in actions}
    met = sorted({name for names in named.values() for name in names})
    fits = _fits(slots, {name: runtime.stem(name) for name in met})
    # Where names have numbers, what a text names can be named in an action: then `shown` tells nothing new.
    shown = set() if vocabulary.name == NUMBERED else vocabulary.shown[states[0].task_id]
    fits_shown = _fits(slots, {name: name for name in sorted(shown)}) if shown else []
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
        for why, fitting, wanted in (("fitting", fits, recent), ("shown", fits_shown, shown)):
            for template, places in fitting:
                action = _filled(template, places, wanted, rng)
                if action and action not in after.admissible:
                    yield why, after, action


def _fits(slots: Slots, stems: Mapping[str, str]) -> list[tuple[str, list[list[str]]]]:
    """By template, the names of the right kinds for each place. `stems` are the names, in order, each with its stem."""
    return [
        (template, [[name for name, stem in stems.items() if stem in kind] for kind in kinds])
        for template, kinds in sorted(slots.items())
    ]


def _filled(template: str, fits: Sequence[Sequence[str]], recent: set[str], rng: random.Random) -> str:
    """A template filled with names that fit its places, one of them recent; "" if there are none."""
    indices = [index for index, names in enumerate(fits) if not recent.isdisjoint(names)]
    if not indices or not all(fits):
        return ""
    chosen = [rng.choice(names) for names in fits]
    index = rng.choice(indices)
    chosen[index] = rng.choice([name for name in fits[index] if name in recent])
    return runtime.write(template, chosen)


def replayed(lab: Lab, trajectories: Iterable[Trajectory]) -> Iterator[tuple[LabState, str, bool]]:
    """The agent's own actions, each with the state it was tried in and whether it was refused; a refused action is
    taken once an episode."""
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
