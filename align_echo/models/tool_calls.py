"""Tools in conversations: what a model is offered, and what its calls mean as actions.

The first message of a conversation holds the tools (`Message.tools`); a reply holds its call, and the answer to it is a
message of the role "tool". An environment offers its own tools, else one tool, `act`, whose argument is the action's
text. Not here: how endpoints and templates write calls (`answers.py`, `call_forms.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from align_echo.base.plain_yaml import parse_json
from align_echo.errors import ReplyFormatError, did_you_mean
from align_echo.types import NO_REPLY, Message, ToolCall

ACT = "act"


def act_tool(action_format: str) -> dict[str, Any]:
    """Return the tool that takes an action as text."""
    action = {"type": "string", "description": "One action, spelled as the action format says."}
    parameters = {"type": "object", "properties": {"action": action}, "required": ["action"]}
    described = f"Take one action and read what comes of it. {action_format}".strip()
    return {"name": ACT, "description": described, "parameters": {**parameters, "additionalProperties": False}}


@dataclass(frozen=True)
class ToolSet:
    """Tools of an environment as functions of OpenAI's API. `acts`: `act` is among them and takes an action as text.
    """

    functions: tuple[Mapping[str, Any], ...]
    acts: bool

    @classmethod
    def of(cls, declared: Sequence[Mapping[str, JsonValue]], action_format: str) -> ToolSet:
        """Return the declared tools, with or without "function" around them; `act` if there are none, and for forms of
        action that are no call in JSON, beside such.
        """
        functions: list[Any] = [tool.get("function") or tool for tool in declared]
        forms = [form.strip() for form in action_format.split(" | ")]
        texts = [form for form in forms if form and not form.startswith("{")]
        acts = not functions or (0 < len(texts) < len(forms) and all(each.get("name") != ACT for each in functions))
        others = " | ".join(texts) if functions else action_format
        return cls((*functions, *((act_tool(others),) if acts else ())), acts)

    @property
    def text(self) -> str:
        """Return the tools as JSON, for `Message.tools`."""
        return json.dumps([{"type": "function", "function": dict(function)} for function in self.functions])

    def read(self, calls: Sequence[ToolCall]) -> str:
        """Return the action of the only call, in the form that the environment reads.

        Raises `ReplyFormatError` for several calls, an unknown tool, and arguments that are no object of JSON.
        """
        if len(calls) > 1:
            raise ReplyFormatError(f"the reply calls {len(calls)} tools; call one")
        (call,) = calls
        names = [str(function.get("name")) for function in self.functions]
        if call.name not in names:
            near = did_you_mean(call.name, names) if call.name else ""
            wrong = f"there is no tool {call.name[:40]!r}" if call.name else "the call is no JSON with a tool's name"
            raise ReplyFormatError(f"{wrong}; {near}known: {', '.join(names[:20])}")
        try:
            arguments = parse_json(call.arguments)
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise ReplyFormatError(f"the arguments of {call.name} are no object of JSON")
        if not (self.acts and call.name == ACT):
            return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
        action = arguments.get("action")
        if set(arguments) != {"action"} or not isinstance(action, str) or not action.strip():
            raise ReplyFormatError(f'the arguments of {ACT} are {{"action": "..."}} and nothing else')
        return action.strip()


def written_calls(calls: Sequence[ToolCall]) -> str:
    """Return calls as text, a line each."""
    return "\n".join(f"{call.name}({call.arguments})" for call in calls)


def numbered(call: ToolCall, turn: int) -> ToolCall:
    """Return a call with an id, made from the turn's number if it has none: nine letters, as Mistral's models need."""
    return call if call.id else call.model_copy(update={"id": f"call{turn:05d}"})


def without_tools(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation in which calls and their answers are text, for a model that is not to call.

    One without tools keeps its token ids.
    """
    if not any(message.tools or message.call for message in messages):
        return list(messages)
    plain = []
    for message in messages:
        role, content = message.role, message.content
        if message.role == "tool":
            role = "user"
        elif message.call is not None:
            content = "\n".join(filter(None, (content.replace(NO_REPLY, ""), written_calls([message.call]))))
        plain.append(Message(role=role, content=content))
    return plain
