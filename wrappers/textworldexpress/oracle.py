"""The gold path of a game, and the way back to it from beside it.

The engine plans one way from the start, which wins and need not be the shortest. Beside it a few plans are tried in a
simulator of its own: what is left of the gold path, with the walks that led away from it undone first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from align_echo.wrappers.java import java_pool
from align_echo.wrappers.textworldexpress.engine import ExpressSimulator
from align_echo.wrappers.textworldexpress.spec import LOOKS, is_invalid

Plan = tuple[str, ...]

FREE = (*LOOKS, "task")
"""Actions of the gold path that change nothing: it does without them."""

BACK = {
    **{"move north": "move south", "move south": "move north"},
    **{"move east": "move west", "move west": "move east"},
}
"""What undoes a walk."""


class ExpressOracle:
    """One moment of an episode: `played` are the actions so far that were not refused."""

    def __init__(self, game: str, seed: int, played: Iterable[str], *, done: bool, won: bool) -> None:
        self._game = game
        self._seed = seed
        self._played = tuple(played)
        self._done = done
        self._won = won

    def expert_action(self) -> str | None:
        """The first action of a plan that wins from here; None once the episode is over or where none is known."""
        plan = None if self._done else plan_from(self._game, self._seed, self._played)
        return plan[0] if plan else None

    def distance(self) -> int | None:
        """Actions of a plan that wins from here, an upper bound; 0 once won, None where none is known."""
        if self._won:
            return 0
        plan = None if self._done else plan_from(self._game, self._seed, self._played)
        return len(plan) if plan else None


@functools.lru_cache(maxsize=1024)
def gold_path(game: str, seed: int) -> Plan:
    """The gold path of a game, up to where it wins, without refused actions and without walks in a circle.

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
    """A path without walks that lead back to where they began with nothing done on the way: the engine's own planner
    tries such walks before it goes on.

    `looks[i]` is what is seen before `path[i]`; the last is what is seen at the end.
    """
    kept, seen = list[str](), [looks[0]]  # `seen[i]`: before `kept[i]`
    for action, look in zip(path, looks[1:], strict=True):
        kept.append(action)
        seen.append(look)
        if action in BACK:
            begin = len(kept)
            while begin and kept[begin - 1] in BACK:
                begin -= 1
            same = seen.index(look, begin)
            del kept[same:], seen[same + 1 :]
    return tuple(kept)


@functools.lru_cache(maxsize=4096)
def plan_from(game: str, seed: int, played: Plan) -> Plan | None:
    """A plan that wins after these actions; None if none of those that are tried does. Raises `EngineError`."""
    gold = gold_path(game, seed)
    if gold[: len(played)] == played:
        return gold[len(played) :]
    for plan in plans(gold, played):
        turns = turns_to_win(game, seed, played, plan)
        if turns is not None:
            return plan[:turns]
    return None


def plans(gold: Plan, played: Plan) -> list[Plan]:
    """What may be left to do: the gold path from after the last of its actions that were played in order, with the
    other walks undone first or not, and all of its actions that were not played."""
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
    """After how many actions of a plan the game is won; None if it never is. Raises `EngineError`."""
    with java_pool(ExpressSimulator).borrowed() as simulator:
        answer = simulator.start(game, seed)
        for action in played:
            answer = simulator.step(action)
        for turns, action in enumerate(plan):
            if answer["tasksuccess"] or answer["taskfailure"]:
                return turns if answer["tasksuccess"] else None
            answer = simulator.step(action)
    return len(plan) if answer["tasksuccess"] else None
