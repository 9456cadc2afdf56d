"""ScienceWorld as a `TextEnv`: the real simulator's text, its score mapped to [0, 1], its gold path as oracle.

The score is the engine's 0 to 100 divided by 100. `raw_score` keeps the engine's own, which is -100 after a wrong focus
(the episode is over and its score 0). A state cannot be copied, so `restore` replays the actions.
"""

from __future__ import annotations

import re

from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld.jvm import JavaSimulator
from align_echo.wrappers.scienceworld.oracle import LabOracle
from align_echo.wrappers.scienceworld.spec import CONTRACT, STEP_LIMIT, as_read, is_invalid
from align_echo.wrappers.scienceworld.tasks import LabTask, read_task, task_ids
from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv

NOT_PLAY = ("reset task",)
"""Forms in the engine's list that are no moves of an episode: this form undoes all progress."""


LOST = "Unknown action."
"""Engine's answer to an action that does not answer its question. The question is gone afterwards."""

TITLE = ("Task Description:", "Task description:")
"""Headings of the task: by the free call, and by the action itself."""


class ScienceWorldEnv(TextEnv):
    """Environment over one split. Holds a simulator from the first reset until `close`. Not shared between threads.

    `probe` looks without a trace, for experiments; `look` looks as upstream's users do, for interface code.
    """

    def __init__(self, split: str, step_limit: int | None = None) -> None:
        """Open a split. Raises `UsageError` for a step limit below 1."""
        super().__init__(task_ids(split), CONTRACT, STEP_LIMIT if step_limit is None else step_limit)
        self._split = split
        self._leased: JavaSimulator | None = None
        self._task: LabTask | None = None
        self._history: list[str] = []
        """Actions of the episode."""
        self._played: list[str] = []
        """Accepted actions: a refused action takes no time and changes nothing."""
        self._goal = ""

    @property
    def goal(self) -> str:
        return self._goal

    @property
    def task_type(self) -> str:
        return self._task.name if self._task else ""

    def oracle(self) -> LabOracle:
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        if self._task is None:
            raise UsageError("call reset() before oracle()")
        return LabOracle(self._task, self._history, self._played, done=self.state.done, won=self.state.won)

    def offered(self) -> ActionOptions:
        """Return the engine's forms of actions and names of objects. Raises `EngineError`, `UsageError` before a reset.
        """
        self._check_started()
        forms = [form for form in self._simulator.templates() if form not in NOT_PLAY]
        return ActionOptions(tuple(sorted(map(_template, forms))), tuple(sorted(self._simulator.objects())))

    def as_read(self, action: str) -> str:
        """Return the action in lower case, with one space between words and no articles."""
        return as_read(action)

    @property
    def interface_score(self) -> float:
        """Return a hundredth of the engine's own score: -1 after a wrong focus."""
        return (self.state.raw_score or 0.0) / 100

    def close(self) -> None:
        """Give the simulator back. Only `reset` starts the environment again."""
        self._over = True
        if self._leased is not None:
            java_pool(JavaSimulator).give_back(self._leased)
            self._leased = None

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        return self._start(read_task(task_id, self._split))

    def _act(self, action: str) -> EngineState:
        observation = self._simulator.step(action)
        self._history.append(action)
        if not is_invalid(observation):
            self._played.append(action)
        return self._answer(observation)

    def _probe(self, action: str) -> str:
        simulator = self._simulator
        looks = {"look around": simulator.look, "inventory": simulator.inventory, "task": simulator.task}
        return looks[action]().removesuffix("\n").replace(*TITLE, 1)

    def _answer_look(self, action: str) -> str:
        """Return the engine's answer to the action itself, as upstream's users get it.

        It takes no move, with one exception: if the engine has asked which object is meant, `look around` and
        `inventory` end the question and take a move.
        """
        observation = self._simulator.step(action)
        if observation.startswith(LOST):
            self._history.append(action)
            self._played.append(action)
        return observation

    def _start(self, task: LabTask) -> EngineState:
        """Start a task; return the observation of `look around`, as upstream's reset does. It takes no move."""
        if self._leased is None or not self._leased.alive:
            self.close()
            self._leased = java_pool(JavaSimulator).lease(self)
        simulator = self._leased
        simulator.load(task.name, task.variation, task.simplifications)
        simulator.reset()
        self._task, self._history, self._played = task, [], []
        self._goal = simulator.goal().strip()
        return self._answer(simulator.step("look around"))

    def _answer(self, observation: str) -> EngineState:
        raw = self._simulator.raw_score()
        score = min(max(raw, 0), 100) / 100
        done = raw < 0 or self._simulator.completed()
        return EngineState(observation, score, won=score == 1.0, done=done, raw_score=float(raw))

    @property
    def _simulator(self) -> JavaSimulator:
        if self._leased is None:
            raise EngineError("the environment was closed: call reset()")
        return self._leased

    def _save(self) -> tuple[list[str], list[str]]:
        return list(self._history), list(self._played)

    def _restore(self, task_id: str, saved: tuple[list[str], list[str]]) -> None:
        task = read_task(task_id, self._split)
        history, to_play = saved
        lost = self._leased is None or not self._leased.alive
        if lost or task != self._task or to_play[: len(self._played)] != self._played:
            self._start(task)
        for action in to_play[len(self._played) :]:
            self._simulator.step(action)
        self._history, self._played = list(history), list(to_play)


def _template(form: str) -> str:
    """Replace OBJ in the engine's form by {0}, {1} and so on."""
    for index in range(form.count("OBJ")):
        form = re.sub(r"\bOBJ\b", f"{{{index}}}", form, count=1)
    return form
