"""An episode as tool calls, for a loop that speaks to an OpenAI-compatible chat endpoint. Needs no extra.

    session.reset(task)
    messages = [{"role": "user", "content": opening(session.view)}]
    while not session.over:
        asked = client.chat.completions.create(model=NAME, messages=messages, tools=tool_definitions(session))
        messages += answered(session, asked.choices[0].message)
    trajectory = session.trajectory()

There is one tool, `act`, and a call of it is a turn. A model that calls none, another one, or with arguments that
cannot be read spends its turn and is told what was wrong, as an agent's reply without an action is: so every episode
ends. Several calls in one message are several turns, in their order. Left out: token ids and log-probabilities, which
a chat endpoint does not give; for training use the agents and `rollout.run_tasks`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from align_echo.errors import UsageError
from align_echo.loops.guests import checked_action, ending, opening
from align_echo.session import Session
from align_echo.types import AgentReply
from align_echo.wrappers.text_env import MAX_TEXT

ACT = "act"

NOT_DONE = "Not done: the episode was over."
"""Answers a call that came in one message with the call that ended the episode."""

__all__ = ["answered", "opening", "tool_definitions"]


class Dumped(Protocol):
    """A message of the `openai` client, or of another one that is made of pydantic models."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]: ...


def tool_definitions(session: Session) -> list[dict[str, Any]]:
    """The tools of an episode as `tools=` of a chat request takes them. Raises `UsageError` before a reset."""
    action = {"type": "string", "description": "One action, spelled as the action format says."}
    properties = {"type": "object", "properties": {"action": action}, "required": ["action"]}
    described = f"Take one action and read what comes of it. {session.view.action_format}".strip()
    function = {"name": ACT, "description": described, "parameters": {**properties, "additionalProperties": False}}
    return [{"type": "function", "function": function}]


def answered(session: Session, message: Mapping[str, Any] | Dumped) -> list[dict[str, Any]]:
    """Carry out an assistant's message: the message itself, then the answers to its calls, for the next request.

    Raises `UsageError` before a reset and after the end, `EngineError` if the environment breaks.
    """
    said = dict(message) if isinstance(message, Mapping) else message.model_dump(exclude_none=True)
    content = said.get("content")
    words = content if isinstance(content, str) else ""
    calls = said.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        step = session.act(_no_action(words, f"call the tool {ACT} with an action"))
        return [said, {"role": "user", "content": step.observation}]
    answers: list[dict[str, Any]] = []
    for call in calls:
        known = call if isinstance(call, Mapping) else {}
        answer = NOT_DONE if session.over and answers else _turn(session, known, words)
        answers.append({"role": "tool", "tool_call_id": str(known.get("id", "")), "content": answer})
        words = ""  # they were said once
    return [said, *answers]


def _turn(session: Session, call: Mapping[str, Any], words: str) -> str:
    """Take the turn that one call asks for: what the model is answered."""
    step = session.act(_read(call, words))
    end = ending(step, session.trajectory().won) if session.over else ""
    return "\n".join(filter(None, (step.observation, end)))


def _read(call: Mapping[str, Any], words: str) -> AgentReply:
    """A call as an agent's reply. The reply's text is what the model said, and the call behind it."""
    function = call.get("function")
    name, given = (function.get("name"), function.get("arguments")) if isinstance(function, Mapping) else (None, None)
    text = "\n".join(filter(None, (words, f"{name}({given})")))
    if name != ACT:
        return _no_action(text, f"there is one tool, {ACT}")
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return _no_action(text, f"the arguments of {ACT} are no JSON")
    if not isinstance(arguments, Mapping) or set(arguments) != {"action"}:
        return _no_action(text, f'the arguments of {ACT} are {{"action": "..."}} and nothing else')
    try:
        return AgentReply(text=_writable(text), action=checked_action(arguments["action"]))
    except UsageError as error:
        return _no_action(text, str(error))


def _no_action(text: str, problem: str) -> AgentReply:
    return AgentReply(text=_writable(text), action=None, problem=problem)


def _writable(text: str) -> str:
    """The text as a file can hold it: not longer than an action may be, "?" for halves of characters."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()
