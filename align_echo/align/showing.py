"""What a model reads of an environment and of failed episodes: tools, and answers that came again and again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import JsonValue

from align_echo.registry import quantity
from align_echo.rollout.answers import EnvReply
from align_echo.types import Trajectory
from align_echo.wrappers.environment import EnvironmentSpec

# ---------------------------------------------------------------- actions and tools

TOOLS_CHARACTERS = 8000
"""Characters of all tools; the tools beyond it are only named."""

LONGEST_DESCRIPTION = 200
"""Characters of a description, and of the values of an enumeration."""


def describe_actions(spec: EnvironmentSpec) -> str:
    """Return the action format of an environment, with its tools if it declares any."""
    tools = f"Its tools, with the type of each parameter:\n{tools_text(spec.tools)}"
    return f"{spec.action_format}\n\n{tools}" if spec.tools else spec.action_format


def tools_text(tools: Sequence[Mapping[str, JsonValue]], limit: int = TOOLS_CHARACTERS) -> str:
    """List JSON schemas of tools, a line per tool and per parameter; "" for none.

    A schema is the tool itself or, as in OpenAI's API, stands under "function".
    """
    texts = [_tool_text(_mapping(tool.get("function")) or tool) for tool in tools]
    shown: list[str] = []
    for number, text in enumerate(texts):
        if sum(map(len, shown)) + len(text) > limit:
            names = ", ".join(text.partition("(")[0].removeprefix("- ") for text in texts[number:])
            left = quantity(len(texts) - number, "more tool")
            return "\n".join([*shown, f"- {left}, named only, since {limit} characters are shown: {names}"])
        shown.append(text)
    return "\n".join(shown)


def _tool_text(tool: Mapping[str, JsonValue]) -> str:
    schema = _mapping(tool.get("parameters")) or _mapping(tool.get("input_schema"))
    parameters, required = _mapping(schema.get("properties")), schema.get("required")
    needed = required if isinstance(required, list) else []
    names = [name if name in needed else f"[{name}]" for name in parameters]
    lines = [f"- {tool.get('name')}({', '.join(names)}){_described(tool)}"]
    for name, value in parameters.items():
        parameter, need = _mapping(value), "required" if name in needed else "optional"
        lines.append(f"  - {name}: {_type(parameter)}, {need}{_described(parameter)}")
    return "\n".join(lines)


def _type(schema: Mapping[str, JsonValue]) -> str:
    """Name the type of a parameter, with the values of an enumeration."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        return f"one of {_short(', '.join(map(json.dumps, choices)))}"
    several = schema.get("anyOf")
    if isinstance(several, list):
        return " or ".join(_type(_mapping(one)) for one in several)
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(_mapping(schema.get('items')))}"
    inner = _mapping(schema.get("properties"))
    if inner:
        return f"object with {', '.join(f'{name} ({_type(_mapping(value))})' for name, value in inner.items())}"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind or "any")


def _described(schema: Mapping[str, JsonValue]) -> str:
    text = schema.get("description")
    return f": {_short(text)}" if isinstance(text, str) and text.strip() else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_DESCRIPTION else line[:LONGEST_DESCRIPTION] + " ..."


def _mapping(value: object) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


# ---------------------------------------------------------------- answers that came again and again

OFTEN = 3
MOST_ANSWERS = 12
"""Times from which an answer is listed, and answers listed."""

NOTHING_NEW = "the text before, unchanged"


@dataclass
class _Answer:
    """One answer, in whatever words of the action: where it came, with the first text and the actions."""

    text: str
    example: str
    count: int = 0
    tasks: set[str] = field(default_factory=set)
    actions: set[str] = field(default_factory=set)

    def line(self) -> str:
        """Write the answer in one line."""
        others = len(self.actions) - 1
        more = f" and to {quantity(others, 'other action')}" if others > 0 else ""
        return f"- x {self.count} in {quantity(len(self.tasks), 'task')}: {self.text}; for example {self.example}{more}"


def repeated_answers(trajectories: Iterable[Trajectory]) -> str:
    """List the answers that came several times, those to the most different actions first, and unreadable replies; ""
    for none.
    """
    played = [(trajectory, _keys(trajectory)) for trajectory in trajectories]
    fresh = Counter(key for _, keys in played for key in keys.values() if not isinstance(key, _Silence))
    answers: dict[str, _Answer] = {}
    for trajectory, keys in played:
        for number, step in enumerate(trajectory.steps, start=1):
            where = f"task {trajectory.task_id}, step {number}"
            heard = keys.get(number, f"no action: {step.problem}")
            answer = step.observation if step.raw_observation is None else step.raw_observation
            text, example = repr(_short(answer)), f"to `{_short(step.action or '')}` ({where})"
            if step.action is None:
                text, example = f"no action could be read: {_short(step.problem)}", f"{_short(step.reply)!r} ({where})"
            if isinstance(heard, _Silence):
                heard, text = (heard.shape, text) if fresh[heard.shape] > 1 else (NOTHING_NEW, NOTHING_NEW)
            known = answers.setdefault(heard, _Answer(text, example))
            known.count += 1
            known.tasks.add(trajectory.task_id)
            known.actions.update([step.action] if step.action else [])
    often = sorted((answer for answer in answers.values() if answer.count >= OFTEN), key=_rank)
    lines = [answer.line() for answer in often[:MOST_ANSWERS]]
    if len(often) > MOST_ANSWERS:
        lines.append(f"- {quantity(len(often) - MOST_ANSWERS, 'more answer')} that came {OFTEN} times or more")
    return "\n".join(lines)


class _Silence(NamedTuple):
    """The text before, which another action had brought: a repeated refusal, or a page on which nothing changed."""

    shape: str


def _keys(trajectory: Trajectory) -> dict[int, str | _Silence]:
    """Return the shape of the answer to each step with an action, by its number."""
    keys: dict[int, str | _Silence] = {}
    before, last = trajectory.initial_observation, ""
    key: str | _Silence = ""
    for number, step in enumerate(trajectory.steps, start=1):
        if step.action is not None:
            answer = step.observation if step.raw_observation is None else step.raw_observation
            is_same = answer.strip() == before.strip()
            if not (is_same and step.action == last):
                shape = EnvReply(step.action, answer).shape
                key = _Silence(shape) if is_same else shape
            keys[number] = key
            before, last = answer, step.action
    return keys


def _rank(answer: _Answer) -> tuple[int, int]:
    return -len(answer.actions), -answer.count
