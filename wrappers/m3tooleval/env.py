"""M3ToolEval as a `TextEnv`: a task's tools, parsing of turns, the check of the answer, and the oracle.

An episode is its list of calls. A moment is restored by repeating them, which is cheap and works for upstream's tools
as well. The other files here hold the tools and generate the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from align_echo.errors import UsageError
from align_echo.wrappers.align_wrapper import clean
from align_echo.wrappers.m3tooleval.answers import is_right, is_same_text
from align_echo.wrappers.m3tooleval.site import SiteSession, route
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
from align_echo.wrappers.m3tooleval.tools import ToolCall, Tools, to_number
from align_echo.wrappers.m3tooleval.turns import (
    ANSWER,
    ENDING,
    JSON_FORM,
    TEXT_FORM,
    ParsedTurn,
    format_call,
    read_turn,
)
from align_echo.wrappers.text_env import EngineState, TextEnv

RIGHT, WRONG = "The answer is right.", "The answer is wrong."
CUT = "\n[the output was longer, and is cut here]"
SHOWN = 200
"""Characters of an agent's text that a refusal repeats."""


class ToolOracle:
    """Remaining calls of a task's known solution, and its answer. Only this solution is known."""

    def __init__(
        self, task: ToolTask, state: EngineState, calls: list[ToolCall], visit: SiteSession | None, *, as_json: bool
    ) -> None:
        self._task, self._state, self._calls, self._visit = task, state, calls, visit
        self._as_json = as_json

    def route(self) -> list[str] | None:
        """Return the actions to the right answer; [] after it, None if no solution is known or left."""
        if self._state.done:
            return [] if self._state.won else None
        if not self._task.has_plan:
            return None
        remaining: list[ToolCall] = []
        if self._visit is not None:
            remaining += route(self._visit.site, self._visit.view, set(self._task.facts) - self._visit.seen)
        remaining += [call for call in self._task.plan if call not in self._calls]
        return [*(format_call(call, as_json=self._as_json) for call in remaining), f"{ANSWER} {self._task.expected}"]

    def expert_action(self) -> str | None:
        """Return the first action of the solution."""
        actions = self.route()
        return actions[0] if actions else None

    def distance(self) -> int | None:
        """Return the number of remaining actions."""
        actions = self.route()
        return None if actions is None else len(actions)


class ToolEnv(TextEnv):
    """Environment over one split. `find` returns the task of an id; `engine` is one of `ENGINES`. For one thread at a
    time."""

    def __init__(
        self,
        task_ids: list[str],
        find: Callable[[str], ToolTask],
        step_limit: int | None = None,
        engine: str | None = None,
    ) -> None:
        """Open a split. Raises `UsageError` for another engine or a step limit below 1."""
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
        self._visit: SiteSession | None = None
        self._calls: list[tuple[Any, ...]] = []

    @property
    def task(self) -> ToolTask:
        """Present task. Raises `UsageError` before a reset."""
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
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        calls = [tuple(map(str, call)) for call in self._calls]
        return ToolOracle(self.task, self.state, calls, self._visit, as_json=self._json)

    def as_read(self, action: str) -> str:
        """Normalize a call or an answer to the engine's form with single spaces; "" for anything else."""
        return self._read(action).canonical(as_json=self._json)

    def refuses(self, observation: str) -> bool:
        """Check if the engine reports a malformed turn, an unknown tool or a failed call."""
        return is_invalid(observation)

    def extra_arguments(self) -> dict[str, str | int]:
        """Return the extra inputs of ALIGN's interfaces for this benchmark: task name, family index and instruction."""
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
        self._visit = None if self._task.site is None else SiteSession(self._task.site)
        self._tools = self._task.make_tools() if self._visit is None else self._visit.tools()
        self._calls = []

    def _act(self, action: str) -> EngineState:
        turn = self._read(action)
        if turn.kind == "answer":
            check = is_same_text(turn.text, self.task.expected) if self._strict else None
            right = is_right(turn.text, self.task.expected, self.task.digits) if check is None else check
            return EngineState(_add_reminder(RIGHT if right else WRONG, turn), float(right), right, done=True)
        text = turn.text if turn.kind == "refused" else self._call(turn.text, turn.arguments)
        return EngineState(_add_reminder(text, turn))

    def _read(self, action: str) -> ParsedTurn:
        return read_turn(action, as_json=self._json)

    def _call(self, name: str, arguments: tuple[object, ...]) -> str:
        """Call a tool and return its answer. Errors of a tool are the agent's fault and become its answer."""
        tool = self._tools.get(name)
        if tool is None:
            return clean(f"{NO_TOOL}{name[:SHOWN]!r}. The tools are: {', '.join(self._tools)}.")
        self._calls.append((name, *arguments))
        values = tuple(map(to_number, arguments)) if self.task.converts else arguments
        try:
            output = str(tool.call(*values))
        except Exception as error:
            reason = " ".join(str(error).split())[:SHOWN]
            return clean(
                f"{FAILED}{name} cannot take {', '.join(map(str, arguments))[:SHOWN] or 'no argument'}: {reason}"
            )
        return clean(output[:LONGEST_OUTPUT]) + (CUT if len(output) > LONGEST_OUTPUT else "")

    def _probe(self, action: str) -> str:
        """Return the page in view, for the only look there is, and leave it unchanged."""
        turn = read_turn(action, as_json=False)
        before = list(self._calls)
        text = self._call(turn.text, ())
        self._replay(before)
        return text

    def _replay(self, calls: list[tuple[Any, ...]]) -> None:
        """Restart the task and repeat these calls."""
        self._open(self._task_id)
        for name, *arguments in calls:
            self._call(name, tuple(arguments))

    def _save(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(self._calls)

    def _restore(self, task_id: str, saved: tuple[tuple[Any, ...], ...]) -> None:
        if (task_id, list(saved)) != (self._task_id, self._calls):
            self._task_id = task_id
            self._replay(list(saved))


def _add_reminder(text: str, turn: ParsedTurn) -> str:
    return f"{text}\n{turn.reminder}" if turn.reminder else text
