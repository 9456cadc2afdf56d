"""TextWorldExpress as a `TextEnv`: the real simulator's text, its partial scores, its valid actions.

The engine's score is -1 if a game is lost by a wrong action, which counts as 0; `raw_score` keeps it. A state cannot be
copied, so `restore` replays the actions.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.java import JavaProcess, as_java, java_pool
from align_echo.wrappers.text_env import EngineState, TextEnv
from align_echo.wrappers.textworldexpress.spec import (
    CONTRACT,
    LOOKS,
    REFUSAL,
    SEEDS,
    STEP_LIMIT,
    is_invalid,
    read_task,
    task_ids,
)

# ---------------------------------------------------------------- running simulator of TextWorldExpress

Answer = dict[str, Any]
"""The engine's JSON: `observation`, `look`, `inventory`, `validActions`, `score` (-1 to 1), `tasksuccess`,
`taskfailure`."""


class ExpressSimulator(JavaProcess):
    """TextWorldExpress simulator. Each call raises `EngineError`."""

    def __init__(self) -> None:
        """Start the simulator. Raises `MissingExtraError`, `EngineError`."""
        super().__init__(
            *("TextWorldExpress", "textworldexpress", "textworld_express", "textworld-express.jar"),
            entry="textworldexpress.runtime.PythonInterface",
        )
        self._game = ""

    def start(self, game: str, seed: int, *, gold: bool = False) -> Answer:
        """Generate a game of the default size and start it; with `gold`, plan its gold path as well."""
        if game != self._game:
            self._game = ""
            if problem := self.ask("load", game, ""):
                raise EngineError(f"the simulator cannot load {game}: {problem}")
            self._game = game
        fold = next(fold for fold, seeds in SEEDS.items() if seed in seeds)
        return self._read(self.ask("generateNewGameJSON", seed, fold, gold))

    def step(self, action: str) -> Answer:
        """Carry out an action and return the answer."""
        return self._read(self.ask("stepJSON", as_java(action)))

    def goal(self) -> str:
        """Return the task description."""
        return str(self.ask("getTaskDescription"))

    def gold_path(self) -> tuple[str, ...]:
        """Return the gold path of a game started with `gold`."""
        return tuple(self.listed("getGoldActionSequence"))

    def _read(self, answer: object) -> Answer:
        """Parse an answer. An unreadable answer ends the process."""
        try:
            read: Answer = json.loads(str(answer))
            read["observation"], read["validActions"], float(read["score"])
        except (ValueError, TypeError, KeyError) as error:
            self.close()
            raise EngineError(f"the simulator's answer cannot be read: {str(answer)[:80]!r}") from error
        return read


# ---------------------------------------------------------------- gold path of a game, and the way back to it

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


# ---------------------------------------------------------------- TextWorldExpress as a `TextEnv`


class ExpressEnv(TextEnv):
    """Environment over one split. Holds a simulator from the first reset until `close`. Not shared between threads."""

    def __init__(self, split: str, step_limit: int | None = None) -> None:
        """Open a split. Raises `UsageError` for a step limit below 1."""
        super().__init__(task_ids(split), CONTRACT, STEP_LIMIT if step_limit is None else step_limit)
        self._split = split
        self._leased: ExpressSimulator | None = None
        self._game = ("", -1)
        self._played: list[str] = []
        self._looks: dict[str, str] = {}
        self._goal = ""

    @property
    def goal(self) -> str:
        return self._goal

    @property
    def task_type(self) -> str:
        return self._game[0]

    def oracle(self) -> ExpressOracle:
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        if not self._game[0]:
            raise UsageError("call reset() before oracle()")
        return ExpressOracle(*self._game, self._played, done=self.state.done, won=self.state.won)

    def refuses(self, observation: str) -> bool:
        """Check if the engine did not know the action, or has no such action now."""
        return is_invalid(observation)

    def close(self) -> None:
        """Give the simulator back. `reset`, or `restore` of an earlier moment, starts the environment again."""
        self._over = True
        if self._leased is not None:
            java_pool(ExpressSimulator).give_back(self._leased)
            self._leased = None

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        return self._answer(self._start(task_id))

    def _act(self, action: str) -> EngineState:
        answer = self._simulator.step(action)
        if not is_invalid(answer["observation"]):
            self._played.append(action)
        return self._answer(answer)

    def _probe(self, action: str) -> str:
        return self._looks[action] or REFUSAL  # a game without rooms knows no looks

    def _start(self, task_id: str) -> Answer:
        game = read_task(task_id, self._split)
        if self._leased is None or not self._leased.alive:
            self.close()
            self._leased = java_pool(ExpressSimulator).lease(self)
        answer = self._leased.start(*game)
        self._game, self._played, self._goal = game, [], self._leased.goal().strip()
        return answer

    def _answer(self, answer: Answer) -> EngineState:
        self._looks = {"look around": str(answer["look"]), "inventory": str(answer["inventory"])}
        raw = float(answer["score"])
        return EngineState(
            str(answer["observation"]),
            score=min(max(raw, 0.0), 1.0),
            won=bool(answer["tasksuccess"]),
            done=bool(answer["tasksuccess"] or answer["taskfailure"]),
            admissible_actions=tuple(sorted(map(str, answer["validActions"]))),
            raw_score=raw,
        )

    @property
    def _simulator(self) -> ExpressSimulator:
        if self._leased is None:
            raise EngineError("the environment was closed: call reset()")
        return self._leased

    def _save(self) -> tuple[tuple[str, ...], dict[str, str]]:
        return tuple(self._played), self._looks

    def _restore(self, task_id: str, saved: tuple[tuple[str, ...], dict[str, str]]) -> None:
        wanted, looks = saved
        lost = self._leased is None or not self._leased.alive
        if lost or read_task(task_id, self._split) != self._game or list(wanted[: len(self._played)]) != self._played:
            self._start(task_id)
        for action in wanted[len(self._played) :]:
            self._simulator.step(action)
        self._played, self._looks = list(wanted), looks
