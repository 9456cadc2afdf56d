"""What there is to say and where one can go, found by trying: views, places, the ways between them, names.

A survey plays one task at a time. Everything is judged by what the contract's read-only actions show before and after
an action, and by the engine's refusals; nothing is known of the words.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.offered import runtime

NAMES_PER_TEMPLATE = 20
PAIRS_TRIED = 4
"""States from which each mover is held against two places of the task."""

MAX_IN_COMMON = 0.6
"""Share of the names that two places may have in common."""

MIN_CHANGES = 0.02
"""A view changes at least this often, against the one that changes most."""

MIN_SURROUNDS = 0.01
"""A word stands before names, or after them, if it does so this often: else it is a part of a name that was missed."""

MIN_MOVES = 2
MIN_TRAVEL = 0.9
ROUNDS = 12
"""How often a task is searched for places from the places that were found."""


@dataclass
class Survey:
    """What was learned of an environment's vocabulary and places; grows with every task."""

    uninformative: Sequence[str]
    tasks: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    offered: dict[str, set[str]] = field(default_factory=dict)
    """By template, the tasks that offer it, of those that were asked."""

    names: set[str] = field(default_factory=set)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    """How often which words stand before and after names in the views; "" where none does."""

    places: set[str] = field(default_factory=set)
    views: Counter[str] = field(default_factory=Counter)
    naming: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    """By mover: how often it was tried with a known place, and how often (`moves`) it led there."""

    def refused(self, state: LabState) -> bool:
        """Whether the engine's last answer was an uninformative one."""
        return state.observation.strip() in self.uninformative

    @property
    def templates(self) -> set[str]:
        """All templates that any task offers."""
        return set(self.offered)

    def always(self) -> list[str]:
        """The templates that all tasks offer whose engine was asked."""
        return sorted(template for template, tasks in self.offered.items() if tasks == self.asked)

    def movers(self) -> list[str]:
        """Templates that lead somewhere."""
        return sorted(template for template, count in self.moves.items() if count >= MIN_MOVES)

    def travel(self) -> str:
        """The template that leads to any place from any other; "" if there is none."""
        sure = [template for template in self.movers() if self.moves[template] >= MIN_TRAVEL * self.tried[template]]
        return min(sure, key=lambda template: (-self.moves[template], template), default="")

    def tester(self) -> str:
        """The template that the engine accepted most often, movers left out; "" if there is none. It tells names from
        other words: what it takes is a name.
        """
        known = [template for template in self.accepted if template not in self.movers()]
        return min(known, key=lambda template: (-self.accepted[template], template), default="")

    def looks(self) -> list[str]:
        """Read-only actions whose text changes, the one that names places first."""
        most = max(self.views.values(), default=0)
        changing = [view for view, count in self.views.items() if count > MIN_CHANGES * most]
        return sorted(changing, key=lambda view: (-self.naming[view], view))


def often(words: Counter[str]) -> set[str]:
    """The words that are at least `MIN_SURROUNDS` of all that were counted."""
    return {word for word, count in words.items() if count >= MIN_SURROUNDS * words.total()}


def names_in(lab: Lab, state: LabState) -> set[str]:
    """The names that the engine offers in a state, in lower case."""
    return {name.lower() for name in lab.offered(state).names}


def view_texts(lab: Lab, state: LabState, views: Iterable[str]) -> list[str]:
    """The texts of read-only actions in a state; kept on the state."""
    return [lab.look(state, view) for view in views]


def plain_views(lab: Lab) -> list[str]:
    """The contract's read-only actions that name no object."""
    return [action for action in lab.env.contract.read_only_actions if "{}" not in action]


def survey_task(lab: Lab, survey: Survey, task_id: str, rng: random.Random, *, thorough: bool) -> list[LabState]:
    """The states found in a task, one a place; what is met on the way joins the survey.

    `thorough`: every template is tried at the start, and movers everywhere. Otherwise the known places are visited one
    after the other by the known way of travelling.
    """
    survey.tasks.add(task_id)
    start = lab.start(task_id)
    learn_names(lab, survey, start)
    if not thorough:
        return [start, *_tour(lab, survey, start)]
    states = {headline(lab, start): start}
    reached: set[str] = set()
    frontier = [start]
    for _ in range(ROUNDS):
        following: list[LabState] = []
        for state in frontier:
            for after, name in _moves_from(lab, survey, state, reached, rng, every=state is start):
                reached.add(name)
                if headline(lab, after) not in states:
                    states[headline(lab, after)] = after
                    learn_names(lab, survey, after)
                    following.append(after)
        frontier = following
    survey.places |= reached
    _count_travel(lab, survey, list(states.values()), rng)
    return list(states.values())


def _tour(lab: Lab, survey: Survey, start: LabState) -> list[LabState]:
    """The states after travelling to each known place in turn."""
    states: list[LabState] = []
    state, travel = start, survey.travel()
    for place in sorted(survey.places) if travel else ():
        if runtime.mentions(" ".join(headline(lab, state)), place):
            continue
        after = lab.after(state, runtime.fill(travel, [place]))
        if after.over:
            break
        if _count_move(lab, survey, state, after, travel, place):
            learn_names(lab, survey, after)
            states.append(after)
            state = after
    return states


def headline(lab: Lab, state: LabState) -> tuple[str, ...]:
    """What the views begin with: up to the first mark of punctuation."""
    return tuple(lead(text) for text in view_texts(lab, state, plain_views(lab)))


def lead(text: str) -> str:
    """The first few words of a text, lower-case, up to its first mark of punctuation."""
    line = text.lower().strip().split("\n")[0]
    return min((line.split(mark)[0] for mark in ".:,;"), key=len)


def learn_names(lab: Lab, survey: Survey, state: LabState) -> None:
    """Add what the engine offers in a state."""
    survey.asked.add(state.task_id)
    for template in lab.offered(state).templates:
        survey.offered.setdefault(template, set()).add(state.task_id)
    offered = names_in(lab, state)
    survey.names.update(offered)
    for text in view_texts(lab, state, plain_views(lab)):
        learn_surroundings(survey, text.lower(), offered)


def learn_surroundings(survey: Survey, text: str, names: Iterable[str]) -> None:
    """Add the words around names in a lower-case text; of a name within a longer one, nothing is learned."""
    for name in sorted(names, key=lambda name: (-len(name), name)):
        for before, after in runtime.surroundings(text, name):
            survey.before[before] += 1
            survey.after[after] += 1
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "|", text)


def _moves_from(
    lab: Lab, survey: Survey, state: LabState, reached: set[str], rng: random.Random, *, every: bool
) -> Iterable[tuple[LabState, str]]:
    """(state, place) for actions that led to a view which begins otherwise, with the place's name in that beginning.

    `every`: each template with a few names; otherwise the movers with all names that led nowhere yet (`reached`).
    """
    names = sorted(names_in(lab, state))
    rng.shuffle(names)
    current = state
    for template in sorted(survey.templates) if every else survey.movers():
        if template.count("{") != 1:
            continue
        for name in names if template in survey.movers() else names[:NAMES_PER_TEMPLATE]:
            if name in reached and template in survey.movers():
                continue
            action = runtime.fill(template, [name])
            names_in(lab, current)  # asked before the step: to ask later would take a way back
            after = lab.after(current, action)
            if after.over or survey.refused(after):
                current = state if after.over else current
                continue
            if not _led_to(lab, survey, current, after, name):
                survey.accepted[template] += 1
                current = after if every else state
                continue
            _count_move(lab, survey, current, after, template, name)
            current = state
            yield lab.after(state, action), name


def compare_views(lab: Lab, survey: Survey, before: LabState, after: LabState) -> list[str]:
    """The views that an action changed, counted."""
    changed = [view for view in plain_views(lab) if lab.look(before, view) != lab.look(after, view)]
    survey.views.update(changed)
    return changed


def _led_to(lab: Lab, survey: Survey, before: LabState, after: LabState, name: str) -> bool:
    """Whether a view begins with the name now and did not before, and other things than before can be named."""
    led = False
    for view in compare_views(lab, survey, before, after):
        old, new = lead(lab.look(before, view)), lead(lab.look(after, view))
        if runtime.mentions(new, name) and not runtime.mentions(old, name):
            old_names, new_names = names_in(lab, before), names_in(lab, after)
            if len(old_names & new_names) < MAX_IN_COMMON * len(old_names | new_names):
                survey.naming[view] += 1
                led = True
    return led


def _count_travel(lab: Lab, survey: Survey, states: Sequence[LabState], rng: random.Random) -> None:
    """Hold the movers against pairs of places, near and far."""
    for mover in survey.movers():
        for state in rng.sample(states, min(PAIRS_TRIED, len(states))):
            heading = " ".join(headline(lab, state))
            away = [place for place in sorted(survey.places) if not runtime.mentions(heading, place)]
            for place in rng.sample(away, min(2, len(away))):
                after = lab.after(state, runtime.fill(mover, [place]))
                _count_move(lab, survey, state, after, mover, place)


def _count_move(lab: Lab, survey: Survey, before: LabState, after: LabState, mover: str, place: str) -> bool:
    """Whether a mover led to a place, counted."""
    led = not after.over and not survey.refused(after) and _led_to(lab, survey, before, after, place)
    survey.tried[mover] += 1
    survey.moves[mover] += led
    return led
