"""ScienceWorld as a `TextEnv`: the real simulator's text, its score mapped to [0, 1], its gold path as oracle.

The score is the engine's 0 to 100 divided by 100. `raw_score` keeps the engine's own, which is -100 after a wrong focus
(the episode is over and its score 0). A state cannot be copied, so `restore` replays the actions.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence

from align_echo.base.files import cache_folder
from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.java import JavaProcess, as_java, java_pool
from align_echo.wrappers.scienceworld.spec import CONTRACT, STEP_LIMIT, as_read, is_invalid
from align_echo.wrappers.scienceworld.tasks import LabTask, read_task, task_ids
from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv

# ---------------------------------------------------------------- the Java process


class JavaSimulator(JavaProcess):
    """ScienceWorld simulator. Each call raises `EngineError`."""

    def __init__(self) -> None:
        """Start the simulator. Raises `MissingExtraError`, `EngineError`."""
        super().__init__(
            *("ScienceWorld", "scienceworld", "scienceworld", "scienceworld.jar"),
            entry="scienceworld.runtime.pythonapi.PythonInterface",
            folder=_folder(),
        )
        self._loaded: tuple[str, int, str, bool] | None = None

    def load(self, task: str, variation: int, simplifications: str, *, gold: bool = False) -> None:
        """Choose the task for the next `reset`; with `gold`, plan its gold path instead (seconds, up to a minute)."""
        wanted = (task, variation, simplifications, gold)
        if wanted != self._loaded:
            self._loaded = None
            self.ask("load", *wanted)
            self.ask("goldPathGenerationEnabled_$eq", False)  # otherwise every later reset plans it again
            self._loaded = wanted

    def reset(self) -> None:
        """Return to the start of the loaded task."""
        self.ask("reset")

    def step(self, action: str) -> str:
        """Carry out an action and return the observation."""
        return str(self.ask("step", as_java(action)))

    def raw_score(self) -> int:
        """Return the score, 0 to 100, or -100 after focusing on the wrong object."""
        return round(100 * float(self.ask("getScore")))

    def completed(self) -> bool:
        """Check if the engine considers the task over."""
        return bool(self.ask("getCompleted"))

    def look(self) -> str:
        """Return the text of `look around`, without a move."""
        return str(self.ask("freeActionLook"))

    def inventory(self) -> str:
        """Return the text of `inventory`, without a move."""
        return str(self.ask("freeActionInventory"))

    def task(self) -> str:
        """Return the text of `task`, without a move."""
        return str(self.ask("freeActionTaskDesc"))

    def goal(self) -> str:
        """Return the task description."""
        return str(self.ask("getTaskDescription"))

    def templates(self) -> list[str]:
        """Return the forms of actions, with OBJ for an object."""
        return self.listed("getPossibleActions")

    def objects(self) -> list[str]:
        """Return the names of objects that can be referred to now."""
        return self.listed("getPossibleObjects")

    def gold_path(self) -> list[str]:
        """Return the gold path of a task loaded with `gold`."""
        return self.listed("getGoldActionSequence")

    def tasks(self) -> list[str]:
        """Return the names of the engine's tasks."""
        return self.listed("getTaskNames")

    def variations(self) -> dict[str, list[int]]:
        """Return the loaded task's variations by split."""
        calls = {"train": "getVariationsTrain", "dev": "getVariationsDev", "test": "getVariationsTest"}
        return {split: [int(number) for number in self.listed(call)] for split, call in calls.items()}


def _folder() -> str:
    """Return a working folder for simulators. Raises `EngineError`.

    The engine writes an unused table to its working folder. Here the table is a link to the null device, so all
    simulators share the folder and a killed process leaves no file.
    """
    folder = cache_folder() / "scienceworld"
    table = folder / "object_type_ids.tsv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not table.is_symlink():
            table.symlink_to(os.devnull)
    except FileExistsError:  # another process was faster
        pass
    except OSError as error:
        raise EngineError(
            f"the simulator needs a folder to run in, and {folder} cannot be made ({error.strerror}): "
            "set ALIGN_ECHO_CACHE to a folder that can be written"
        ) from error
    return str(folder)


# ---------------------------------------------------------------- ways to the goal

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


# ---------------------------------------------------------------- ground truth about a running episode


class LabOracle:
    """Oracle for one moment of an episode. The gold path is planned on first use (seconds)."""

    def __init__(self, task: LabTask, history: Sequence[str], played: Sequence[str], *, done: bool, won: bool) -> None:
        """Start with a moment. `history` are all actions of the episode, `played` the accepted ones."""
        self._task = task
        self._history = tuple(history)
        self._played = tuple(played)
        self._done = done
        self._won = won

    def expert_action(self) -> str | None:
        """Return the gold path's next action; None once the episode is over or has left the gold path."""
        rest = self._rest()
        return rest[0] if rest else None

    def distance(self) -> int | None:
        """Return the actions left on the gold path, an upper bound; 0 once won, None off the gold path."""
        if self._won:
            return 0
        rest = self._rest()
        return len(rest) if rest else None

    def costs_at_most(self, action: str, allowance: int) -> bool | None:
        """Check if `action` costs at most `allowance` extra turns on the way to the full score, itself included.

        The way is the rest of the gold path. None if it does not lead to the full score from this moment. Raises
        `EngineError`.
        """
        if self._done:
            return None
        return costs_at_most(self._task, gold_path(self._task), self._played, action, allowance)

    def _rest(self) -> tuple[str, ...]:
        if self._done:
            return ()
        gold = gold_path(self._task)
        steps = len(self._history)
        return gold[steps:] if gold[:steps] == self._history else ()


@functools.lru_cache(maxsize=256)
def gold_path(task: LabTask) -> tuple[str, ...]:
    """Plan the gold path of a task in a separate simulator. Raises `EngineError`."""
    with java_pool(JavaSimulator).borrowed() as simulator:
        simulator.load(task.name, task.variation, task.simplifications, gold=True)
        return tuple(simulator.gold_path())


# ---------------------------------------------------------------- ScienceWorld as a `TextEnv`

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
