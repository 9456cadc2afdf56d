"""What agents mean by a wording that is not understood: what is possible where they say it.

A wording means a form if, where agents said it, that form is possible with the same names at once or after a few
actions that have to do with them, and clearly sooner than any other form with those names. Forms that agents say as a
habit are weaker rivals: who knows a form seldom means it by other words. A form that they say themselves can only be
meant if it is much nearer than those that they do not, and if they say it of the same names, as one says two words for
one thing, and not once more after it worked. Where several forms are possible just as soon, it cannot be told; nor
where agents are stuck at a form that this one opens the way to, since then they leave this one out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from align_echo.align.hybrid.answers import Judge
from align_echo.align.hybrid.hypotheses import Instead
from align_echo.align.hybrid.runtime import bound_names, filled_form, slots_of
from align_echo.align.probe.lab import LabState
from align_echo.types import Trajectory

Meaning = Literal["meant", "not meant", "cannot be told"]

MIN_SAID = 3
PER_EPISODE = 3
MOST_SAID = 12
"""States in which the wording was said: so many are needed, taken from an episode, and taken at all."""

MARGIN, MUCH = 1.25, 2.0
"""By how much a form must be nearer than others (1 possible at once, 1 / (1 + n) after n actions), and what is much."""

COMMON = 0.3
"""How near a form that agents say themselves must be in all states where they say the wrong wording."""

NEAR = 0.5
"""A form that is never near is not meant where another one is as near as this."""

LUCK = 4
"""What agents say less than a quarter as often as the wrong wording may be luck."""

DEPTH, NODES = 4, 120
"""Actions that may be missing, and states looked at to find them."""


class Followed(NamedTuple):
    """One action of an agent, the state in which it was said, and whether the engine took it."""

    state: LabState
    action: str
    accepted: bool


def meant(
    judge: Judge, instead: Instead, failed: Sequence[Trajectory]
) -> tuple[Meaning, tuple[str, str, str]]:
    """Whether agents mean the right wording by the wrong one; with a task, an action and why if they do not."""
    episodes = [_followed(judge, trajectory) for trajectory in failed]
    states = _said(episodes, instead.wrong)
    seen = [_near(judge, state, names, instead.right) for state, names in states]
    nearest = [near for near, _ in seen if near]
    if len(nearest) < MIN_SAID:
        return "cannot be told", ("", "", "")
    nearness: defaultdict[str, float] = defaultdict(float)
    for near in nearest:
        for form, value in near.items():
            nearness[form] += value
    own = nearness.pop(instead.right, 0.0)
    if not own and max(nearness.values()) >= NEAR * len(nearest):
        example = filled_form(instead.wrong, states[0][1])
        return "not meant", (states[0][0].task_id, example, f"`{instead.right}` is never near where agents say so")
    habits = _habits(episodes, instead.wrong, list(nearness))
    strange = {form: value for form, value in nearness.items() if form not in habits}
    stuck = _stuck_behind(episodes, instead.wrong, [forms & habits for _, forms in seen])
    known = LUCK * _times(episodes, instead.right) >= _times(episodes, instead.wrong)
    worked = bool(_times(episodes, instead.right, accepted=True))
    habitual = max((nearness[form] for form in habits), default=0.0)
    clear = own > 0 and own >= (MUCH if known else MARGIN) * max(strange.values(), default=0.0)
    clear = clear and (own >= MARGIN * habitual if worked else MARGIN * own >= habitual)
    clear = clear and (own >= COMMON * len(states) if known else not stuck)
    return ("meant" if clear and _may_be_meant(episodes, instead, known=known) else "cannot be told"), ("", "", "")


def _followed(judge: Judge, trajectory: Trajectory) -> list[Followed]:
    """An episode as the laboratory plays it again."""
    state, actions = judge.lab.start(trajectory.task_id), list[Followed]()
    for step in trajectory.steps:
        if step.action is not None and step.raw_observation is not None and not state.over:
            actions.append(Followed(state, step.action, judge.taken(state, step.action)))
            state = judge.lab.after(state, step.action)
    return actions


def _said(episodes: Sequence[Sequence[Followed]], form: str) -> list[tuple[LabState, dict[str, str]]]:
    """The states in which agents said an action of a form and the engine did not take it, with its names."""
    states: list[tuple[LabState, dict[str, str]]] = []
    for episode in episodes:
        refused = [(said.state, bound_names(form, said.action)) for said in episode if not said.accepted]
        states += [(state, names) for state, names in refused if names is not None][:PER_EPISODE]
    return states[:MOST_SAID]


def _times(episodes: Sequence[Sequence[Followed]], form: str, *, accepted: bool = False) -> int:
    """How often agents say a form; with `accepted`, how often the engine took it."""
    actions = [said.action for episode in episodes for said in episode if said.accepted or not accepted]
    return sum(bound_names(form, action) is not None for action in actions)


def _habits(episodes: Sequence[Sequence[Followed]], wrong: str, forms: Sequence[str]) -> set[str]:
    """The forms that worked for agents, or that they say at least half as often as the wrong wording."""
    times = _times(episodes, wrong)
    return {
        form for form in forms if _times(episodes, form, accepted=True) or 2 * _times(episodes, form) >= times
    }


def _stuck_behind(episodes: Sequence[Sequence[Followed]], wrong: str, behind: Sequence[set[str]]) -> bool:
    """Whether agents say a form that comes into reach by the right one more often than the wrong wording: then they
    leave the right one out as a habit, and mean something later by the wrong wording."""
    counts = Counter(form for forms in behind for form in forms)
    times = _times(episodes, wrong)
    return any(2 * count >= len(behind) and _times(episodes, form) > times for form, count in counts.items())


def _may_be_meant(episodes: Sequence[Sequence[Followed]], instead: Instead, *, known: bool) -> bool:
    """Whether agents do not say the right wording, or mostly of names of which they say the wrong one too in the
    episode; and, where they say it often, mostly not the wrong one once more after the right one worked."""
    pairs, again = list[bool](), list[bool]()
    for episode in episodes:
        wrong = [
            (number, filled_form(instead.right, names).lower())
            for number, said in enumerate(episode)
            if (names := bound_names(instead.wrong, said.action)) is not None
        ]
        for number, said in enumerate(episode):
            if bound_names(instead.right, said.action) is None:
                continue
            right = " ".join(said.action.lower().split())
            pairs.append(any(meaning == right for _, meaning in wrong))
            if said.accepted:
                again.append(any(meaning == right and later > number for later, meaning in wrong))
    return 2 * sum(pairs) >= len(pairs) and (not known or 2 * sum(again) <= len(again))


def _near(
    judge: Judge, state: LabState, names: dict[str, str], right: str
) -> tuple[dict[str, float], set[str]]:
    """How near each form with these names is: 1 if it is possible now, 1 / (1 + n) if it is after n actions. With the
    forms that come into reach by the right one."""
    wanted = filled_form(right, names)
    if not judge.lab.lists:
        return ({right: 1.0} if judge.possible(state, wanted) else {}), set()
    used = {slot: names[slot] for slot in slots_of(right)}
    near: dict[str, float] = {}
    behind: set[str] = set()
    reached, looked_at = [(state, False)], 0
    for depth in range(DEPTH + 1):
        following: list[tuple[LabState, bool]] = []
        for node, after in reached:
            looked_at += 1
            for form in _forms_with(used, node.admissible):
                behind |= {form} if form not in near and after else set()
                near.setdefault(form, 1 / (1 + depth))
            related = [action for action in sorted(node.admissible) if _form_of(used, action) != action]
            if depth < DEPTH and looked_at < NODES:
                following += [(judge.lab.after(node, action), after or action == wanted) for action in related]
        reached = [(child, after) for child, after in following if not child.over]
    own = near.pop(_form_of(used, wanted), 0.0)
    return ({**near, right: own} if own else near), behind


def _forms_with(names: dict[str, str], actions: Iterable[str]) -> set[str]:
    """The forms of the actions that hold all names."""
    forms = {_form_of(names, action) for action in actions}
    return {form for form in forms if all("{" + slot + "}" in form for slot in names)}


def _form_of(names: dict[str, str], action: str) -> str:
    for slot, name in sorted(names.items(), key=lambda pair: -len(pair[1])):
        action = re.sub(r"(?<!\w)" + re.escape(name) + r"(?!\w)", "{" + slot + "}", action, flags=re.IGNORECASE)
    return action
