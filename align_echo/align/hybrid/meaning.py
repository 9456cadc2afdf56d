"""What agents mean by a wording that is not understood: what is possible where they say it.

A wording means a form if, where agents said it, that form is possible with the same names at once or after a few
actions that have to do with them, and clearly sooner than any other form with those names. Forms that agents say
themselves are no rivals: who knows a form does not mean it by other words. So a form that they do say has to be much
nearer than those that they never say. Where several are possible just as soon, it cannot be told.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from align_echo.align.hybrid.answers import Judge
from align_echo.align.hybrid.hypotheses import Instead
from align_echo.align.hybrid.runtime import bound_names, filled_form, slots_of
from align_echo.align.probe.lab import LabState
from align_echo.types import Trajectory

Meaning = Literal["meant", "not meant", "cannot be told"]

MIN_SAID = 2
PER_EPISODE = 3
MOST_SAID = 12
"""States in which the wording was said: so many are needed, taken from an episode, and taken at all."""

MARGIN, KNOWN_MARGIN = 1.25, 2.0
"""By how much a form must be nearer than others (1 possible at once, 1 / (1 + n) after n actions); the second is for
one that agents say themselves."""

DEPTH, NODES = 4, 120
"""Actions that may be missing, and states looked at to find them."""


def meant(
    judge: Judge, instead: Instead, failed: Sequence[Trajectory]
) -> tuple[Meaning, tuple[str, str, str]]:
    """Whether agents mean the right wording by the wrong one; with a task, an action and why if they do not."""
    states = _said(judge, instead.wrong, failed)
    nearest = [near for state, names in states if (near := _near(judge, state, names, instead.right))]
    if len(nearest) < MIN_SAID:
        return "cannot be told", ("", "", "")
    nearness: defaultdict[str, float] = defaultdict(float)
    for near in nearest:
        for form, value in near.items():
            nearness[form] += value
    own = nearness.pop(instead.right, 0.0)
    if not own:
        example = filled_form(instead.wrong, states[0][1])
        return "not meant", (states[0][0].task_id, example, f"`{instead.right}` is never near where agents say so")
    actions = {" ".join(step.action.split()) for episode in failed for step in episode.steps if step.action is not None}
    known = {form for form in (*nearness, instead.right) if any(bound_names(form, action) for action in actions)}
    strange = max((nearness[form] for form in nearness if form not in known), default=0.0)
    margin = KNOWN_MARGIN if instead.right in known else MARGIN
    clear = own >= margin * strange
    if instead.right in known:
        clear = clear and own >= MARGIN * max((nearness[form] for form in nearness if form in known), default=0.0)
    return ("meant" if clear else "cannot be told"), ("", "", "")


def _said(judge: Judge, form: str, failed: Sequence[Trajectory]) -> list[tuple[LabState, dict[str, str]]]:
    """The states in which agents said an action of a form and the engine did not take it, with its names."""
    states: list[tuple[LabState, dict[str, str]]] = []
    for trajectory in failed:
        state, count = judge.lab.start(trajectory.task_id), 0
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or state.over:
                continue
            names = bound_names(form, step.action)
            accepted = judge.taken(state, step.action)
            if names is not None and count < PER_EPISODE and not accepted:
                states.append((state, names))
                count += 1
            state = judge.lab.after(state, step.action)
            if len(states) == MOST_SAID:
                return states
    return states


def _near(judge: Judge, state: LabState, names: dict[str, str], right: str) -> dict[str, float]:
    """How near each form with these names is: 1 if it is possible now, 1 / (1 + n) if it is after n actions."""
    wanted = filled_form(right, names)
    if not judge.lab.lists:
        return {right: 1.0} if judge.possible(state, wanted) else {}
    used = {slot: names[slot] for slot in slots_of(right)}
    near: dict[str, float] = {}
    reached, looked_at = [state], 0
    for depth in range(DEPTH + 1):
        following: list[LabState] = []
        for node in reached:
            looked_at += 1
            for form in _forms_with(used, node.admissible):
                near.setdefault(form, 1 / (1 + depth))
            related = [action for action in sorted(node.admissible) if _form_of(used, action) != action]
            if depth < DEPTH and looked_at < NODES:
                following += [judge.lab.after(node, action) for action in related]
        reached = [child for child in following if not child.over]
    own = near.pop(_form_of(used, wanted), 0.0)
    return {**near, right: own} if own else near


def _forms_with(names: dict[str, str], actions: Iterable[str]) -> set[str]:
    """The forms of the actions that hold all names."""
    forms = {_form_of(names, action) for action in actions}
    return {form for form in forms if all("{" + slot + "}" in form for slot in names)}


def _form_of(names: dict[str, str], action: str) -> str:
    for slot, name in sorted(names.items(), key=lambda pair: -len(pair[1])):
        action = re.sub(r"(?<!\w)" + re.escape(name) + r"(?!\w)", "{" + slot + "}", action, flags=re.IGNORECASE)
    return action
