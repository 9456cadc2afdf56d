"""Gold path of a game, and the way back to it.

The engine plans one route from the start, which wins but need not be the shortest. Off the route, a few plans are tried
in a separate simulator: the remaining gold path, with the walks away from it undone first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from align_echo.wrappers.java import java_pool
from align_echo.wrappers.textworldexpress.engine import ExpressSimulator
from align_echo.wrappers.textworldexpress.spec import LOOKS, is_invalid

Plan = tuple[str, ...]

FREE = (*LOOKS, "task")
"""Actions of the gold path without effect; they can be dropped."""

BACK = {
    **{"move north": "move south", "move south": "move north"},
    **{"move east": "move west", "move west": "move east"},
}
"""Inverse of each walk."""


class ExpressOracle:
    """Oracle for one moment of an episode: `played` are the accepted actions so far."""

    def __init__(self, game: str, seed: int, played: Iterable[str], *, done: bool, won: bool) -> None:
        self._game = game
        self._seed = seed
        self._played = tuple(played)
        self._done = done
        self._won = won

    def expert_action(self) -> str | None:
        """Return the first action of a winning plan; None once the episode is over, or without a known plan."""
        plan = None if self._done else plan_from(self._game, self._seed, self._played)
        return plan[0] if plan else None

    def distance(self) -> int | None:
        """Count the actions of a winning plan, an upper bound; 0 once won, None without a known plan."""
        if self._won:
            return 0
        plan = None if self._done else plan_from(self._game, self._seed, self._played)
        return len(plan) if plan else None


@functools.lru_cache(maxsize=1024)
def gold_path(game: str, seed: int) -> Plan:
    """Return the gold path of a game, up to its win, without refused actions and without walks in a circle.

    Raises `EngineError`.
    """
    with java_pool(ExpressSimulator).borrowed() as simulator:
        simulator.start(game, seed, gold=True)
        gold = simulator.gold_path()
        answer = simulator.start(game, seed)
        path, looks = list[str](), [str(answer["look"])]
        for action in gold:
            if answer["tasksuccess"] or answer["taskfailure"]:
                break
            answer = simulator.step(action)
            if not is_invalid(answer["observation"]):
                path.append(action)
                looks.append(str(answer["look"]))
    straight = without_circles(path, looks)
    return straight if turns_to_win(game, seed, (), straight) else tuple(path)


def without_circles(path: Sequence[str], looks: Sequence[str]) -> Plan:
    """Remove walks that lead back to their start without doing anything; the engine's own planner tries such walks.

    `looks[i]` is the view before `path[i]`; the last is the view at the end.
    """
    retained, seen = list[str](), [looks[0]]  # `seen[i]`: before `retained[i]`
    for action, look in zip(path, looks[1:], strict=True):
        retained.append(action)
        seen.append(look)
        if action in BACK:
            begin = len(retained)
            while begin and retained[begin - 1] in BACK:
                begin -= 1
            same = seen.index(look, begin)
            del retained[same:], seen[same + 1 :]
    return tuple(retained)


@functools.lru_cache(maxsize=4096)
def plan_from(game: str, seed: int, played: Plan) -> Plan | None:
    """Find a plan that wins after these actions; None if no tried plan does. Raises `EngineError`."""
    gold = gold_path(game, seed)
    if gold[: len(played)] == played:
        return gold[len(played) :]
    for plan in plans(gold, played):
        turns = turns_to_win(game, seed, played, plan)
        if turns is not None:
            return plan[:turns]
    return None


def plans(gold: Plan, played: Plan) -> list[Plan]:
    """List candidate plans: the gold path after its last action played in order, with other walks undone first or not,
    and all of its unplayed actions."""
    needed = tuple(action for action in gold if action not in FREE)
    followed, back = 0, list[str]()
    for action in played:
        undone = BACK.get(action)
        if back and action == back[0]:
            del back[0]
        elif followed < len(needed) and action == needed[followed] and not (undone and back):
            followed += 1
        elif undone:
            back.insert(0, undone)
    left = list(needed)
    for action in played:
        if action in left:
            left.remove(action)
    tried = [(*back, *needed[followed:]), needed[followed:], (*back, *left), tuple(left)]
    return list(dict.fromkeys(plan for plan in tried if plan))


def turns_to_win(game: str, seed: int, played: Plan, plan: Plan) -> int | None:
    """Count the actions of a plan until the game is won; None if it never is. Raises `EngineError`."""
    with java_pool(ExpressSimulator).borrowed() as simulator:
        answer = simulator.start(game, seed)
        for action in played:
            answer = simulator.step(action)
        for turns, action in enumerate(plan):
            if answer["tasksuccess"] or answer["taskfailure"]:
                return turns if answer["tasksuccess"] else None
            answer = simulator.step(action)
    return len(plan) if answer["tasksuccess"] else None
