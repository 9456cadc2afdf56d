"""Remaining part of the gold path from any moment of an episode, found by trying it in a separate simulator.

The engine plans one route from the start and none beside it. From a moment beside the route, a few remainders of it are
tried. The shortest that reaches the full score gives an upper bound of the distance to the goal. A state cannot be
copied, so each try replays the episode from its beginning: some 10 ms for each earlier action and each of the
remainder, 150 ms in the genetics tasks. Routes unknown to the gold path, and new plans from the present state, are not
considered.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld.jvm import JavaSimulator
from align_echo.wrappers.scienceworld.spec import as_read
from align_echo.wrappers.scienceworld.tasks import LabTask

Plan = tuple[str, ...]

LOOK = "look around"
"""Takes no move. If the engine has asked which of several objects was meant, it ends the question."""

TELEPORT = "teleport to "

SKIPPED = 2
"""Number of first actions of a remainder that may be skipped: they may have been done in other words (go to, for
teleport to). Not more, since a remainder that only finds out the answer could be skipped entirely."""


def costs_at_most(task: LabTask, gold: Plan, played: Plan, action: str, allowance: int) -> bool | None:
    """Check if the full score is reached from after `action` with at most `allowance` turns more than without it.

    `played` are the actions so far. The turn of the action itself counts. The action gets no credit for a remainder
    that works as well without it: an idle action costs 1. None if no tried remainder reaches the full score from this
    moment. Raises `EngineError`.
    """
    route = shorten_path(task, gold)
    shortest = shortest_remainder(task, route, played)
    if shortest is None:
        return None
    before = len(shortest)
    most = before - 1 + allowance
    after = (*played, action)
    plans = {plan[max(len(plan) - most, 0) :] for plan in list_remainders(route, after)}
    plans |= {shortest} if before <= most else set()
    for plan in sorted(plans, key=len):
        turns = turns_to_win(task, after, plan)
        without = None if turns is None else turns_to_win(task, played, plan)
        if turns is not None and 1 + turns - min(before, before if without is None else without) <= allowance:
            return True
    return False


@functools.lru_cache(maxsize=256)
def shorten_path(task: LabTask, gold: Plan) -> Plan:
    """Shorten the gold path up to the full score: drop dispensable looks and doors, and take the shortest way from room
    to room if the task allows it."""
    route = gold[: turns_to_win(task, (), gold)]
    for kind in (LOOK, "open door "):
        route = _first_if_winning(task, tuple(action for action in route if not action.startswith(kind)), route)
    moved: list[str] = []
    for action in map(_as_teleport, route):
        if moved and action.startswith(TELEPORT) and moved[-1].startswith(TELEPORT):
            moved.pop()
        moved.append(action)
    return _first_if_winning(task, tuple(moved), route)


def _first_if_winning(task: LabTask, plan: Plan, fallback: Plan) -> Plan:
    return plan if turns_to_win(task, (), plan) is not None else fallback


def _as_teleport(action: str) -> str:
    return TELEPORT + action.removeprefix("go to ") if action.startswith("go to ") else action


def shortest_remainder(task: LabTask, route: Plan, played: Plan) -> Plan | None:
    """Return the actions up to the full score by the first kind of remainder that reaches it, with or without its first
    actions; None if none does. Raises `EngineError`."""
    after, unplayed, *alternatives = list_remainders(route, played)
    skipped = range(SKIPPED + 1)
    for kind in ([after[n:] for n in skipped], [unplayed[n:] for n in skipped], *([plan] for plan in alternatives)):
        winning: list[Plan] = []
        for plan in kind:
            turns = turns_to_win(task, played, plan)
            if turns is not None:
                winning.append(plan[:turns])
            elif winning:
                break
        if winning:
            return min(winning, key=len)
    return None


def list_remainders(route: Plan, played: Sequence[str]) -> list[Plan]:
    """List candidate remainders of a route: after the last played action; all unplayed actions; the same after a look,
    or back in the room of the last action before; all from the first unplayed action; the full route.

    A played action matches the first equal action on the route that is not matched yet; going counts as teleporting.
    """
    left = {at: _as_teleport(as_read(action)) for at, action in enumerate(route)}
    last = -1
    for action_read in (_as_teleport(as_read(action)) for action in played):
        at = next((at for at, action in left.items() if action == action_read), None)
        if at is not None:
            del left[at]
            last = max(last, at)
    unplayed = tuple(route[at] for at in left)
    first = min(left, default=len(route))
    back = [action for action in route[:first] if action.startswith(TELEPORT)][-1:]
    return [route[last + 1 :], unplayed, (LOOK, *unplayed), (*back, *unplayed), route[first:], route]


@functools.lru_cache(maxsize=4096)
def turns_to_win(task: LabTask, played: Plan, plan: Plan) -> int | None:
    """Count the actions of a plan until the score is full, None if it never is. Raises `EngineError`."""
    with java_pool(JavaSimulator).borrowed() as simulator:
        simulator.load(task.name, task.variation, task.simplifications)
        simulator.reset()
        for action in (LOOK, *played):  # an episode begins with a look around
            simulator.step(action)
        for turns in range(len(plan) + 1):
            raw = simulator.raw_score()
            if raw < 0 or simulator.completed():
                return turns if raw >= 100 else None
            if turns < len(plan):
                simulator.step(plan[turns])
    return None
