"""What a model reads of an environment and of failed episodes: tools, and answers that came again and again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

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

DEEPEST = 4
"""Levels of lists, objects and references within a type."""


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
    definitions, needed = _mapping(schema.get("$defs")), required if isinstance(required, list) else []
    names = [name if name in needed else f"[{name}]" for name in parameters]
    lines = [f"- {tool.get('name')}({', '.join(names)}){_described(tool)}"]
    for name, value in parameters.items():
        parameter, need = _mapping(value), "required" if name in needed else "optional"
        lines.append(f"  - {name}: {_type(parameter, definitions)}, {need}{_described(parameter)}")
    return "\n".join(lines)


def _type(schema: Mapping[str, JsonValue], definitions: Mapping[str, JsonValue], depth: int = 0) -> str:
    """Name the type of a parameter, with the values of an enumeration and the parts of an object."""
    if depth > DEEPEST:
        return "any"
    inner = partial(_type, definitions=definitions, depth=depth + 1)
    choices, several, kind = schema.get("enum"), schema.get("anyOf"), schema.get("type")
    parts = _mapping(schema.get("properties"))
    if "$ref" in schema:
        return inner(_mapping(definitions.get(str(schema["$ref"]).rpartition("/")[2])))
    if isinstance(choices, list):
        return f"one of {_short(', '.join(map(json.dumps, choices)))}"
    if isinstance(several, list):
        return " or ".join(inner(_mapping(each)) for each in several)
    if kind == "array":
        return f"list of {inner(_mapping(schema.get('items')))}"
    if parts:
        return f"object with {', '.join(f'{name} ({inner(_mapping(value))})' for name, value in parts.items())}"
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
MOST_ANSWERS = 10
"""Times from which an answer is listed, and answers listed."""

UNCHANGED, UNREADABLE = "the text before again", "no action could be read"


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
    """List unreadable replies, unchanged pages, and answers that came several times, those to the most different
    actions first; "" for none.
    """
    answers: dict[str, _Answer] = {}
    for trajectory in trajectories:
        before = trajectory.initial_observation
        for number, step in enumerate(trajectory.steps, start=1):
            where = f"task {trajectory.task_id}, step {number}"
            example = f"to `{_short(step.action or '')}` ({where})"
            texts: dict[str, str] = {}
            if step.action is None:
                example = f"{_short(step.reply)!r} ({where})"
                texts[UNREADABLE + step.problem] = f"{UNREADABLE}: {_short(step.problem)}"
            else:
                answer = step.observation if step.raw_observation is None else step.raw_observation
                texts[EnvReply(step.action, answer).shape] = repr(_short(answer))
                texts |= {UNCHANGED: UNCHANGED} if answer.strip() == before.strip() else {}
                before = answer
            for key, text in texts.items():
                known = answers.setdefault(key, _Answer(text, example))
                known.count += 1
                known.tasks.add(trajectory.task_id)
                known.actions.update([step.action] if step.action else [])
    often = sorted((answer for answer in answers.values() if answer.count >= OFTEN), key=_rank)
    lines = [answer.line() for answer in often[:MOST_ANSWERS]]
    if len(often) > MOST_ANSWERS:
        lines.append(f"- {quantity(len(often) - MOST_ANSWERS, 'more answer')} that came {OFTEN} times or more")
    return "\n".join(lines)


def _rank(answer: _Answer) -> tuple[bool, int, int]:
    return not answer.text.startswith((UNCHANGED, UNREADABLE)), -len(answer.actions), -answer.count
