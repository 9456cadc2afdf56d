"""M3ToolEval as a `TextEnv`: a task's tools, parsing of turns, the check of the answer, and the oracle.

An episode is its list of calls. A moment is restored by repeating them, which is cheap and works for upstream's tools
as well. The other files here hold the tools and generate the tasks.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from align_echo.base.plain_yaml import parse_json
from align_echo.errors import UsageError
from align_echo.interface.contract import parse_source
from align_echo.wrappers.align_wrapper import clean
from align_echo.wrappers.m3tooleval.site import SiteSession, route
from align_echo.wrappers.m3tooleval.spec import (
    CONTRACT,
    ENGINES,
    FAILED,
    FAMILIES,
    LONGEST_OUTPUT,
    NO_TOOL,
    NO_TURN,
    STEP_LIMIT,
    is_invalid,
    task_type,
)
from align_echo.wrappers.m3tooleval.tools import ToolCall, Tools, to_number
from align_echo.wrappers.m3tooleval.upstream import ToolTask
from align_echo.wrappers.text_env import EngineState, TextEnv

# ---------------------------------------------------------------- parse an agent's turn as the engine reads it

ACTION, ANSWER, END = "Action:", "Answer:", "End Action"

TEXT_FORM = """\
To call a tool, write its name and its arguments between `Action:` and `End Action`, with commas between them:
Action: tool_name, first_argument, second_argument End Action
The arguments are split at commas, so none may hold one."""

JSON_FORM = """\
To call a tool, write a JSON object with its name and the list of its arguments between `Action:` and `End Action`:
Action: {"tool": "tool_name", "args": ["first_argument", 2]} End Action"""

ENDING = """\
Call one tool a turn. When you know the result, write `Answer:` and the result alone; this ends the task.
A turn holds either `Action:` or `Answer:`, never both."""


class ParsedTurn(NamedTuple):
    """Parsed turn: a "call" (`text` is the tool's name), an "answer" (`text` is the answer) or "refused" (`text` is the
    reason). `reminder` is an extra note for the agent."""

    kind: str
    text: str = ""
    arguments: tuple[object, ...] = ()
    reminder: str = ""

    def canonical(self, *, as_json: bool) -> str:
        """Write the turn with single spaces, its call in the JSON form or in the text form; "" if it is no turn.

        In the JSON form a number equals its text, as for the tools. A bare name has the text form in both, because the
        only look is written so.
        """
        if self.kind == "call":
            if as_json and not (self.text.isidentifier() and not self.arguments):
                fields = {"tool": self.text, "args": [_as_text(value) for value in self.arguments]}
                return f"{ACTION} {json.dumps(fields, sort_keys=True)} {END}"
            return format_call((self.text, *map(str, self.arguments)), as_json=False)
        return f"{ANSWER} {self.text}" if self.kind == "answer" else ""


def read_turn(action: str, *, as_json: bool) -> ParsedTurn:
    """Parse a turn, with its call in the JSON form or in the text form."""
    if ACTION in action and ANSWER in action:
        return ParsedTurn("refused", f"{NO_TURN}it holds both `Action:` and `Answer:`. Send one of them.")
    if ANSWER in action:
        _, answer, *more = action.split(ANSWER)
        return ParsedTurn("answer", answer.strip(), reminder=_reminder("answer", more))
    if ACTION not in action:
        return ParsedTurn("refused", f"{NO_TURN}it holds neither `Action:` nor `Answer:`.")
    _, call, *more = action.split(ACTION)
    call = call.partition(END)[0].strip()
    reminder = _reminder("action", more)
    if not as_json:
        name, *arguments = (part.strip() for part in call.split(","))
        return ParsedTurn("call", name, tuple(arguments), reminder)
    try:
        fields = parse_json(call)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not isinstance(fields.get("tool"), str):
        return ParsedTurn("refused", f'{NO_TURN}a call is a JSON object with "tool", a name, and "args", a list.')
    values = fields.get("args", [])
    listed = tuple(values) if isinstance(values, list) else (values,)
    return ParsedTurn("call", fields["tool"].strip(), listed, reminder)


def format_call(call: tuple[str, ...], *, as_json: bool) -> str:
    """Write a call as an agent does."""
    written = json.dumps({"tool": call[0], "args": list(call[1:])}) if as_json else ", ".join(call)
    return f"{ACTION} {written} {END}"


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _reminder(kind: str, more: list[str]) -> str:
    return f"Note: you sent more than one {kind}, and only the first was used." if more else ""


# ---------------------------------------------------------------- check answers in two ways

LONGEST = 4_000
"""Longest right answer, in characters."""

LARGEST = 1e30
"""Numbers of this size and above are never right."""

ROUNDING = 1e-12
"""Relative error allowed for a whole number from a sum of floats: 11.999999999999998 is 12."""

_NUMBER = re.compile(r"[-+]?[$]?\d{1,30}(?:,\d{3})*(?:\.\d{0,30})?(?:[eE][-+]?\d{1,2})?")
_YES, _NO = ("true", "yes"), ("false", "no")
_NONE = object()


def is_right(answer: str, expected: object, digits: int | None = None) -> bool:
    """Check if an answer means the expected value. `digits` is the number of digits after the point in the task."""
    answer = _strip_quotes(answer)
    if len(answer) > LONGEST:
        return False
    if _equals(answer, expected, digits):
        return True
    value = _literal(answer)
    if value is _NONE and isinstance(expected, list | tuple):
        value = [part.strip() for part in answer.strip("[]()").split(",")]
    return value is not _NONE and _equals(value, expected, digits)


def is_same_text(answer: str, expected: object) -> bool:
    """Apply upstream's check: equal, equal after converting both to int or float, or equal to Python's notation."""
    if len(answer) > LONGEST:
        return False
    if answer == expected:
        return True
    if not isinstance(expected, str | int | float):
        return answer == str(expected)
    if _to_number(answer) == _to_number(expected):
        return True
    value = _literal(answer, json_too=False)
    return str(answer if value is _NONE else value) == str(expected)


def _equals(value: object, expected: object, digits: int | None) -> bool:
    if isinstance(expected, bool):
        text = str(value).casefold()
        return isinstance(value, bool | str) and text in (_YES if expected else _NO)
    if isinstance(expected, int | float):
        number = _number(value)
        return number is not None and _close(number, expected, digits)
    if isinstance(expected, str):
        return isinstance(value, str | int | float) and _strip_quotes(str(value)) == _strip_quotes(expected)
    if isinstance(expected, list | tuple):
        parts = value if isinstance(value, list | tuple) else None
        return (
            parts is not None
            and len(parts) == len(expected)
            and all(_equals(part, wanted, digits) for part, wanted in zip(parts, expected, strict=True))
        )
    if isinstance(expected, dict) and isinstance(value, dict) and len(value) == len(expected):
        by_name = {_strip_quotes(str(key)): part for key, part in value.items()}
        return all(_equals(by_name.get(_strip_quotes(str(key)), _NONE), part, digits) for key, part in expected.items())
    return False


def _close(number: int | float, expected: int | float, digits: int | None) -> bool:
    """Check if a number is the expected one: to a millionth of its size, or to the last digit if it is whole."""
    allowed = (ROUNDING if expected == int(expected) else 1e-6) * abs(expected)
    if digits is not None:
        allowed = max(allowed, 0.5 * 10**-digits * (1 + 1e-9))
    if number == int(number):
        number = int(number)  # exact also for sizes at which neighbouring integers are the same float
        return number == expected or (expected != int(expected) and abs(number - expected) <= allowed)
    return abs(number - expected) <= allowed


def _number(value: object) -> int | float | None:
    """Return a number, or the number a text spells; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = _strip_quotes(value)
        if _NUMBER.fullmatch(text) is None:
            return None
        plain = re.sub(r"[$,]", "", text)
        value = int(plain) if re.fullmatch(r"[-+]?\d+", plain) else float(plain)
    return value if isinstance(value, int | float) and -LARGEST < value < LARGEST else None


def _strip_quotes(text: str) -> str:
    """Strip quotes, backticks and a final full stop from a text, and collapse spaces."""
    text = " ".join(text.split())
    if len(text) > 1 and text[-1] == "." and text[-2] != ".":
        text = text[:-1]
    while len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        text = text[1:-1].strip()
    return text


def _literal(text: str, *, json_too: bool = True) -> object:
    """Parse a Python (or JSON) literal; `_NONE` for anything else, and for a value too long for Python to write."""
    for read in (_python_literal, parse_json) if json_too else (_python_literal,):
        try:
            value = read(text)
            str(value)  # raises ValueError for more digits than Python writes
        except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
            continue
        return value
    return _NONE


def _python_literal(text: str) -> object:
    statements = parse_source(text).body
    if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
        raise ValueError("that is no literal")
    return ast.literal_eval(statements[0].value)


def _to_number(value: str | int | float) -> object:
    """Convert to an int or else a float if possible; otherwise return the value."""
    for kind in (int, float):
        try:
            return kind(value)
        except (ValueError, OverflowError):
            continue
    return value


# ---------------------------------------------------------------- M3ToolEval as a `TextEnv`

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
