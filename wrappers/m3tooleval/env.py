"""M3ToolEval as a `TextEnv`: the tools of a task, turns as they are read, the check of the answer, and the oracle.

An episode is its calls: a moment is come back to by making them again, which costs little and holds for upstream's
tools as well. Left out: what the tools do, and how tasks are made (the other files here).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from align_echo.errors import UsageError
from align_echo.wrappers.align_wrapper import clean
from align_echo.wrappers.m3tooleval.answers import is_right, is_same_text
from align_echo.wrappers.m3tooleval.site import Visit, route
from align_echo.wrappers.m3tooleval.spec import (
    CONTRACT,
    ENGINES,
    FAILED,
    FAMILIES,
    LONGEST_OUTPUT,
    NO_TOOL,
    STEP_LIMIT,
    is_invalid,
    task_type,
)
from align_echo.wrappers.m3tooleval.task import ToolTask
from align_echo.wrappers.m3tooleval.tools import ToolCall, Tools, converted
from align_echo.wrappers.m3tooleval.turns import ANSWER, ENDING, JSON_FORM, TEXT_FORM, ReadTurn, read_turn, spelled
from align_echo.wrappers.text_env import EngineState, TextEnv

RIGHT, WRONG = "The answer is right.", "The answer is wrong."
CUT = "\n[the output was longer, and is cut here]"
SHOWN = 200
"""Characters of what an agent wrote that a refusal shows again."""


class ToolOracle:
    """The calls that a task's known way still needs, and its answer. It knows one way, and no other."""

    def __init__(
        self, task: ToolTask, state: EngineState, calls: list[ToolCall], visit: Visit | None, *, as_json: bool
    ) -> None:
        self._task, self._state, self._calls, self._visit = task, state, calls, visit
        self._as_json = as_json

    def way(self) -> list[str] | None:
        """The actions from here to the right answer; none after it, and None where no way is known or left."""
        if self._state.done:
            return [] if self._state.won else None
        if not self._task.has_plan:
            return None
        way: list[ToolCall] = []
        if self._visit is not None:
            way += route(self._visit.site, self._visit.view, set(self._task.facts) - self._visit.seen)
        way += [call for call in self._task.plan if call not in self._calls]
        return [*(spelled(call, as_json=self._as_json) for call in way), f"{ANSWER} {self._task.expected}"]

    def expert_action(self) -> str | None:
        """The first action of the way."""
        way = self.way()
        return way[0] if way else None

    def distance(self) -> int | None:
        """How many actions the way has."""
        way = self.way()
        return None if way is None else len(way)


class ToolEnv(TextEnv):
    """One split of tasks. `find` gives the task of an id; `engine` is one of `ENGINES`. For one thread at a time."""

    def __init__(
        self,
        task_ids: list[str],
        find: Callable[[str], ToolTask],
        step_limit: int | None = None,
        engine: str | None = None,
    ) -> None:
        """Raises `UsageError` for another engine or a step limit below 1."""
        engine = engine or ENGINES[0]
        if engine not in ENGINES:
            raise UsageError(f"m3tooleval has the engines {', '.join(ENGINES)}, not {engine!r}")
        super().__init__(tuple(task_ids), CONTRACT, STEP_LIMIT if step_limit is None else step_limit)
        self._find = find
        self._in_split = frozenset(task_ids)
        self._json = engine.startswith("json")
        self._strict = engine.endswith("strict")
        self._task: ToolTask | None = None
        self._tools: Tools = {}
        self._visit: Visit | None = None
        self._calls: list[tuple[Any, ...]] = []

    @property
    def task(self) -> ToolTask:
        """The present task. Raises `UsageError` before a reset."""
        if self._task is None:
            raise UsageError("call reset() first")
        return self._task

    @property
    def goal(self) -> str:
        return clean(self.task.instruction)

    @property
    def task_type(self) -> str:
        return task_type(self._task_id)

    def oracle(self) -> ToolOracle:
        """Raises `UsageError` before a reset."""
        calls = [tuple(map(str, call)) for call in self._calls]
        return ToolOracle(self.task, self.state, calls, self._visit, as_json=self._json)

    def as_read(self, action: str) -> str:
        """A call or an answer in the engine's form with single spaces; "" for what is neither."""
        return self._read(action).canonical(as_json=self._json)

    def refuses(self, observation: str) -> bool:
        """Whether the engine says that an action was no turn, named no tool, or could not be carried out."""
        return is_invalid(observation)

    def further_arguments(self) -> dict[str, str | int]:
        """What ALIGN's interfaces for this benchmark are told: the task's name, its family's index, the instruction."""
        index = list(FAMILIES).index(self.task_type) if self.task_type in FAMILIES else -1
        return {"task_name": self._task_id, "task_type_idx": index, "instruction": self.goal}

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        self._open(task_id)
        lines = [f"{tool.signature}\n    {tool.about}" for tool in self._tools.values()]
        form = JSON_FORM if self._json else TEXT_FORM
        return EngineState(clean("\n".join(("You have these tools:", *lines, "", form, ENDING))))

    def _open(self, task_id: str) -> None:
        if task_id not in self._in_split:
            raise UsageError(f"there is no task {task_id[:80]!r} in this split; see tasks() for the ids")
        self._task = self._find(task_id)
        self._visit = None if self._task.site is None else Visit(self._task.site)
        self._tools = self._task.make_tools() if self._visit is None else self._visit.tools()
        self._calls = []

    def _act(self, action: str) -> EngineState:
        turn = self._read(action)
        if turn.kind == "answer":
            check = is_same_text(turn.text, self.task.expected) if self._strict else None
            right = is_right(turn.text, self.task.expected, self.task.digits) if check is None else check
            return EngineState(_reminded(RIGHT if right else WRONG, turn), float(right), right, done=True)
        text = turn.text if turn.kind == "refused" else self._call(turn.text, turn.arguments)
        return EngineState(_reminded(text, turn))

    def _read(self, action: str) -> ReadTurn:
        return read_turn(action, as_json=self._json)

    def _call(self, name: str, arguments: tuple[object, ...]) -> str:
        """Call a tool: what it answers. What it raises is the agent's fault, and is its answer."""
        tool = self._tools.get(name)
        if tool is None:
            return clean(f"{NO_TOOL}{name[:SHOWN]!r}. The tools are: {', '.join(self._tools)}.")
        self._calls.append((name, *arguments))
        given = tuple(map(converted, arguments)) if self.task.converts else arguments
        try:
            output = str(tool.call(*given))
        except Exception as error:
            reason = " ".join(str(error).split())[:SHOWN]
            return clean(
                f"{FAILED}{name} cannot take {', '.join(map(str, arguments))[:SHOWN] or 'no argument'}: {reason}"
            )
        return clean(output[:LONGEST_OUTPUT]) + (CUT if len(output) > LONGEST_OUTPUT else "")

    def _probe(self, action: str) -> str:
        """What the one look shows: the page in view, which it leaves as it is."""
        turn = read_turn(action, as_json=False)
        before = list(self._calls)
        text = self._call(turn.text, ())
        self._open_again(before)
        return text

    def _open_again(self, calls: list[tuple[Any, ...]]) -> None:
        """Start the task anew and make these calls."""
        self._open(self._task_id)
        for name, *arguments in calls:
            self._call(name, tuple(arguments))

    def _save(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(self._calls)

    def _restore(self, task_id: str, saved: tuple[tuple[Any, ...], ...]) -> None:
        if (task_id, list(saved)) != (self._task_id, self._calls):
            self._task_id = task_id
            self._open_again(list(saved))


def _reminded(text: str, turn: ReadTurn) -> str:
    return f"{text}\n{turn.reminder}" if turn.reminder else text
