"""Walks through pages: what separates their parts, and which parts each form takes, found by trying.

An action was taken if the page changed, or if some later page is otherwise than it would have been without it: what was
chosen need not be shown before the end. A page is only looked at in states that no hidden choice led to.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, permutations
from typing import Any

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.offered.pages import runtime
from align_echo.align.probe.runtime import write
from align_echo.types import Trajectory

Spec = dict[str, Any]

LONGEST_BREAK = 40
MIN_BREAKS = 0.05
"""A text separates parts if it stands between two names this often, of all texts that do."""

MIN_SHOWN = 0.95
"""So many of the names that are offered are shown on the page, if the engine shows pages."""

MIN_NAMES = 10
MOST_FIRST = 200
"""So many actions are said at the start of a task at most."""

TOUR = 12
"""Steps of a walk through one task."""

LATER = 12
"""Actions after which it is looked for what an action without a visible effect changed."""

MOST_PARTS = 300
"""A page of more parts is not tried out: that would take too long."""

STRANGE = 10
MIN_FREE = 2
"""A form takes any words if it took so many of `STRANGE` made-up ones, each on another page."""


@dataclass(frozen=True, eq=False)
class PageSeen:
    """One page of a task. `taken` holds, by form, the indices of the parts that it takes here; `offered` are the names
    that the engine offers here, in small letters, and `moving` the texts with which some form leads to another page."""

    state: LabState
    parts: tuple[str, ...]
    taken: dict[str, frozenset[int]]
    offered: frozenset[str]
    moving: frozenset[str]

    @property
    def task_id(self) -> str:
        """The task that the page is of."""
        return self.state.task_id


@dataclass
class Walks:
    """What was met on all walks: how often each kind of action was taken, and the pages by task and text."""

    done: Counter[str] = field(default_factory=Counter)
    pages: list[PageSeen] = field(default_factory=list)
    texts: set[tuple[str, str]] = field(default_factory=set)


def replayed(lab: Lab, failed: Sequence[Trajectory]) -> Iterator[LabState]:
    """The states that the agents came to, ends left out. What changed no page is not done: nothing tells whether it
    was taken."""
    for trajectory in sorted(failed, key=lambda trajectory: trajectory.task_id):
        state = lab.start(trajectory.task_id)
        yield state
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or state.over:
                continue
            after = lab.after(state, step.action)
            if after.observation != state.observation:
                state = after
                if not state.over:
                    yield state


def one_step_on(lab: Lab, task_id: str) -> Iterator[LabState]:
    """The states that one action leads to from the start, if its answer is another: all offered forms are said of all
    offered names, `MOST_FIRST` actions at most."""
    start = lab.start(task_id)
    offered = lab.offered(start)
    spoken = (
        write(template, list(names))
        for template in offered.templates
        for names in permutations(offered.names, template.count("{"))
    )
    for action in islice(spoken, MOST_FIRST):
        state = lab.after(start, action)
        if state.observation != start.observation and not state.over:
            yield state


def shows_pages(lab: Lab, states: Iterable[LabState]) -> bool:
    """Whether what the engine offers can be read off its last answer, in nearly all cases."""
    shown = count = 0
    for state in states:
        text = state.observation.lower()
        names = lab.offered(state).names
        count += len(names)
        shown += sum(name.lower() in text for name in names)
    return count >= MIN_NAMES and shown >= MIN_SHOWN * count


def breaks_between(lab: Lab, states: Iterable[LabState]) -> list[str]:
    """The texts between the parts of pages, most frequent first; none holds another."""
    between: Counter[str] = Counter()
    for state in states:
        text = state.observation.lower()
        spans = _spans(text, lab.offered(state).names)
        for (_, end), (start, _) in pairwise(spans):
            if 0 < start - end <= LONGEST_BREAK and len(text) == len(state.observation):
                between[state.observation[end:start]] += 1
    breaks: list[str] = []
    for mark, count in between.most_common():
        if count >= MIN_BREAKS * between.total() and not any(known in mark or mark in known for known in breaks):
            breaks.append(mark)
    return breaks


def _spans(text: str, names: Sequence[str]) -> list[tuple[int, int]]:
    """Where names stand in a text, in order; the longest first, none over another."""
    longest = sorted({name.lower() for name in names if name}, key=lambda name: (-len(name), name))
    if not longest:
        return []
    pattern = r"(?<!\w)(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)"
    return [match.span() for match in re.finditer(pattern, text)]


def forms_by_kind(lab: Lab, states: Sequence[LabState], rng: random.Random) -> tuple[list[str], list[str]]:
    """(forms that take any words somewhere, forms that take what is shown), of those with one place."""
    forms = {form for state in states for form in lab.offered(state).templates if form.count("{") == 1}
    free: list[str] = []
    closed: list[str] = []
    for form in sorted(forms):
        chosen = rng.sample(list(states), min(STRANGE, len(states)))
        taken = sum(changes(lab, state, runtime.fill(form, strange(rng))) for state in chosen)
        (free if taken >= MIN_FREE else closed).append(form)
    return free, closed


def strange(rng: random.Random) -> str:
    """A word that nobody has."""
    return "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(9))


def changes(lab: Lab, state: LabState, action: str) -> bool:
    """Whether an action leads to another page."""
    return lab.after(state, action).observation != state.observation


# ---------------------------------------------------------------- walking


def tour(lab: Lab, spec: Spec, task_id: str, walks: Walks, rng: random.Random) -> None:
    """Walk through a task, doing what was done least; every page that is new joins the walks, tried out."""
    state = lab.start(task_id)
    for _ in range(TOUR):
        keep(lab, spec, state, walks)
        actions = sorted(_open_ways(lab, spec, state, rng), key=lambda way: walks.done[way[0]])
        for kind, action in actions:
            after = lab.after(state, action)
            walks.done[kind] += 1
            if not after.over and after.observation != state.observation:
                state = after
                break
        else:
            return


def _open_ways(lab: Lab, spec: Spec, state: LabState, rng: random.Random) -> list[tuple[str, str]]:
    """(kind, action) for what can be said, in random order: names that pages share are kinds of their own."""
    ways = []
    for name in lab.offered(state).names:
        kind = name if name in spec["frame"] else runtime.shape_of(name)
        ways += [(f"{form} {kind}", runtime.fill(form, name)) for form in spec["closed"]]
    words = re.findall(r"\w+", state.opening or lab.start(state.task_id).opening)
    for form in spec["free"]:
        start = rng.randrange(max(1, len(words) - 4))
        ways.append((form, runtime.fill(form, " ".join(words[start : start + rng.randint(2, 5)]))))
    rng.shuffle(ways)
    return ways


def keep(lab: Lab, spec: Spec, state: LabState, walks: Walks) -> None:
    """Try out the parts of a page that is new in its task."""
    if state.over or (state.task_id, state.observation) in walks.texts:
        return
    walks.texts.add((state.task_id, state.observation))
    parts = runtime.parts_of(spec, state.observation)
    if len(parts) > MOST_PARTS:
        return
    offered = frozenset(name.lower() for name in lab.offered(state).names)
    taken = {
        form: frozenset(
            index for index, part in enumerate(parts) if is_taken(lab, state, form, part, part.lower() in offered)
        )
        for form in spec["closed"]
    }
    moving = {
        parts[index].lower()
        for form, indices in taken.items()
        for index in indices
        if changes(lab, state, runtime.fill(form, parts[index]))
    }
    walks.pages.append(PageSeen(state, tuple(parts), taken, offered, frozenset(moving)))


def is_taken(lab: Lab, state: LabState, form: str, part: str, is_offered: bool) -> bool:
    """Whether a form takes a part of a page: at once to be seen or, if it is offered, by what comes later."""
    after = lab.after(state, runtime.fill(form, part))
    if after.over or after.observation != state.observation:
        return True
    if not is_offered:
        return False
    others = [runtime.fill(form, name) for name in lab.offered(state).names[:LATER]]
    return any(lab.after(after, other).observation != lab.after(state, other).observation for other in others)


def takes_any_case(lab: Lab, pages: Sequence[PageSeen]) -> bool:
    """Whether names are taken in other letters: in all of up to `STRANGE` pages where that shows."""
    verdicts: list[bool] = []
    for page in pages:
        for form, indices in page.taken.items():
            for index in sorted(indices):
                part = page.parts[index]
                shown = changes(lab, page.state, runtime.fill(form, part))
                if shown and part.swapcase() != part and len(verdicts) < STRANGE:
                    verdicts.append(changes(lab, page.state, runtime.fill(form, part.swapcase())))
                    break
    return bool(verdicts) and all(verdicts)
