"""What agents mean by a wording that is not understood: what is possible where they say it.

A wording means a form if, where agents said it, that form is possible with the same names at once or after one action,
in enough of these states and clearly more often than any other form with those names. Where several are possible just
as often, it cannot be told.
"""

from __future__ import annotations

import re
from collections import Counter
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

MIN_NEARNESS, MARGIN = 0.3, 1.25
"""How often the form must be possible there (1 at once, 0.5 after one action), and by how much more than any other."""

LOOKED_AHEAD = 40


def meant(
    judge: Judge, instead: Instead, failed: Sequence[Trajectory]
) -> tuple[Meaning, tuple[str, str, str]]:
    """Whether agents mean the right wording by the wrong one; with a task, an action and why if they do not."""
    states = _said(judge, instead.wrong, failed)
    if len(states) < MIN_SAID:
        return "cannot be told", ("", "", "")
    nearness: Counter[str] = Counter()
    for state, names in states:
        for form, near in _near(judge, state, names, instead.right).items():
            nearness[form] += near  # type: ignore[assignment]
    own = nearness.pop(instead.right, 0)
    rival, best = max(nearness.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
    example = states[0][0].task_id, filled_form(instead.wrong, states[0][1])
    if own < MIN_NEARNESS * len(states):
        return "not meant", (*example, f"`{instead.right}` is seldom possible where agents say so")
    if best > own * MARGIN:
        return "not meant", (*example, f"`{rival}` is possible more often where agents say so")
    return ("meant" if own >= MARGIN * best else "cannot be told"), ("", "", "")


def _said(judge: Judge, form: str, failed: Sequence[Trajectory]) -> list[tuple[LabState, dict[str, str]]]:
    """The states in which agents said an action of a form and the engine did not take it, with its names."""
    states: list[tuple[LabState, dict[str, str]]] = []
    for trajectory in failed:
        state, count = judge.lab.start(trajectory.task_id), 0
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or state.over:
                continue
            names = bound_names(form, step.action)
            if names is not None and count < PER_EPISODE and not judge.taken(state, step.action):
                states.append((state, names))
                count += 1
            state = judge.lab.after(state, step.action)
            if len(states) == MOST_SAID:
                return states
    return states


def _near(judge: Judge, state: LabState, names: dict[str, str], right: str) -> dict[str, float]:
    """How near each form with these names is: 1 if it is possible now, 0.5 if it is after some action."""
    wanted = filled_form(right, names)
    if not judge.lab.lists:
        return {right: 1.0} if judge.possible(state, wanted) else {}
    used = {slot: names[slot] for slot in slots_of(right)}
    near: dict[str, float] = {}
    for option in sorted(state.admissible)[:LOOKED_AHEAD]:
        child = judge.lab.after(state, option)
        if not child.over:
            near.update(dict.fromkeys(_forms_with(used, child.admissible), 0.5))
    near.update(dict.fromkeys(_forms_with(used, state.admissible), 1.0))
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
