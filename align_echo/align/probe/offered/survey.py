"""What there is to say and where one can go, found by trying: views, places, the ways between them, names.

A survey plays one task at a time. Everything is judged by what the contract's read-only actions show before and after
an action, and by the engine's refusals; nothing is known of the words.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from align_echo.align.probe.lab import Lab, State
from align_echo.align.probe.offered import runtime
from align_echo.wrappers.text_env import Offered

NAMES_PER_TEMPLATE = 10
MIN_MOVES = 3
MIN_TRAVEL = 0.95
ROUNDS = 4
"""How often a task is searched for places from the places that were found."""


@dataclass
class Survey:
    """What was learned of an environment's vocabulary and places; grows with every task."""

    uninformative: Sequence[str]
    templates: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    views: Counter[str] = field(default_factory=Counter)
    naming: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    """By mover: how often it was tried with a known place, and how often (`moves`) it led there."""

    def refused(self, state: State) -> bool:
        """Whether the engine's last answer was an uninformative one."""
        return state.observation.strip() in self.uninformative

    def movers(self) -> list[str]:
        """Templates that lead somewhere."""
        return sorted(template for template, count in self.moves.items() if count >= MIN_MOVES)

    def travel(self) -> str:
        """The template that leads to any place from any other; "" if there is none."""
        sure = [one for one in self.movers() if self.moves[one] >= MIN_TRAVEL * self.tried[one]]
        return min(sure, key=lambda one: (-self.moves[one], one), default="")

    def looks(self) -> list[str]:
        """Read-only actions whose text changes, the one that names places first."""
        changing = [view for view, count in self.views.items() if count]
        return sorted(changing, key=lambda view: (-self.naming[view], view))


def offered(lab: Lab, state: State) -> Offered:
    """What the engine offers in a state."""
    lab.visit(state)
    found = lab.env.offered()
    return found if found is not None else Offered((), ())


def view_texts(lab: Lab, state: State, views: Iterable[str]) -> list[str]:
    """The texts of read-only actions in a state; kept on the state."""
    return [lab.look(state, view) for view in views]


def plain_views(lab: Lab) -> list[str]:
    """The contract's read-only actions that name no object."""
    return [action for action in lab.env.contract.read_only_actions if "{}" not in action]


def survey_task(lab: Lab, survey: Survey, task_id: str, rng: random.Random, *, thorough: bool) -> list[State]:
    """Look for places in a task; the states found, one a place. `thorough`: try every template, not only movers."""
    start = lab.start(task_id)
    found = {headline(lab, start): start}
    _learn_names(lab, survey, start)
    frontier = [start]
    for _ in range(ROUNDS):
        following: list[State] = []
        for state in frontier:
            for after, name in _moves_from(lab, survey, state, rng, thorough and state is start):
                survey.places.add(name)
                if headline(lab, after) not in found:
                    found[headline(lab, after)] = after
                    _learn_names(lab, survey, after)
                    following.append(after)
        frontier = following
    _count_travel(lab, survey, list(found.values()), rng)
    return list(found.values())


def headline(lab: Lab, state: State) -> tuple[str, ...]:
    """What the views begin with: up to the first mark of punctuation."""
    return tuple(lead(text) for text in view_texts(lab, state, plain_views(lab)))


def lead(text: str) -> str:
    """The first few words of a text, lower-case, up to its first mark of punctuation."""
    line = text.lower().strip().split("\n")[0]
    return min((line.split(mark)[0] for mark in ".:,;"), key=len)


def _learn_names(lab: Lab, survey: Survey, state: State) -> None:
    here = offered(lab, state)
    survey.templates.update(here.templates)
    survey.names.update(name.lower() for name in here.names)


def _moves_from(
    lab: Lab, survey: Survey, state: State, rng: random.Random, thorough: bool
) -> Iterable[tuple[State, str]]:
    """(state, place) for actions that led to a view which begins otherwise, with the place's name in that beginning."""
    here = offered(lab, state)
    templates = sorted(survey.templates) if thorough else survey.movers()
    for template in templates:
        if template.count("{") != 1:
            continue
        names = sorted({name.lower() for name in here.names})
        rng.shuffle(names)
        names = sorted(names, key=lambda name: name not in survey.places)
        for name in names[:NAMES_PER_TEMPLATE] if not survey.moves[template] else names:
            after = lab.after(state, runtime.fill(template, [name]))
            if after.over or survey.refused(after):
                continue
            if _led_to(lab, survey, state, after, name):
                survey.moves[template] += 1
                survey.tried[template] += 1
                yield after, name


def _led_to(lab: Lab, survey: Survey, before: State, after: State, name: str) -> bool:
    led = False
    for view in plain_views(lab):
        old, new = lab.look(before, view), lab.look(after, view)
        survey.views[view] += old != new
        if lead(old) != lead(new) and runtime.mentions(lead(new), name) and not runtime.mentions(lead(old), name):
            survey.naming[view] += 1
            led = True
    return led


def _count_travel(lab: Lab, survey: Survey, states: Sequence[State], rng: random.Random) -> None:
    """Hold the movers against pairs of places, near and far."""
    for mover in survey.movers():
        for state in states:
            for place in rng.sample(sorted(survey.places), min(2, len(survey.places))):
                if any(runtime.mentions(lead(text), place) for text in view_texts(lab, state, plain_views(lab))):
                    continue
                after = lab.after(state, runtime.fill(mover, [place]))
                survey.tried[mover] += 1
                survey.moves[mover] += not survey.refused(after) and _led_to(lab, survey, state, after, place)
