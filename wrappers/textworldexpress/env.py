"""TextWorldExpress as a `TextEnv`: the real simulator's text, its partial scores, its valid actions.

The engine's score is -1 if a game is lost by a wrong action, which counts as 0; `raw_score` keeps it. A state cannot be
copied, so `restore` replays the actions.
"""

from __future__ import annotations

from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.java import java_pool
from align_echo.wrappers.text_env import EngineState, TextEnv
from align_echo.wrappers.textworldexpress.engine import Answer, ExpressSimulator
from align_echo.wrappers.textworldexpress.oracle import ExpressOracle
from align_echo.wrappers.textworldexpress.spec import CONTRACT, REFUSAL, STEP_LIMIT, is_invalid, read_task, task_ids


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
