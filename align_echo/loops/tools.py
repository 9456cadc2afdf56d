"""An episode as tool calls, for a loop on an OpenAI-compatible chat endpoint. Needs no extra.

    session.reset(task)
    messages = [{"role": "user", "content": opening(session.view)}]
    while not session.over:
        asked = client.chat.completions.create(model=NAME, messages=messages, tools=tool_definitions(session))
        messages += answered(session, asked.choices[0].message)
    trajectory = session.trajectory()

The only tool is `act`, and each call is a turn. A message without a call, with another tool or with unreadable
arguments costs a turn, and the model is told the problem, like an agent's reply without an action: so every episode
ends. Calls in one message are played in order, one turn each. Not here: token ids and log-probabilities, which a chat
endpoint does not return; to train, use the agents and `rollout.run_tasks`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from align_echo.errors import UsageError
from align_echo.loops.driving import checked_action, ending, opening
from align_echo.models.tool_calls import ACT, act_tool
from align_echo.rollout.session import Session
from align_echo.types import AgentReply
from align_echo.wrappers.text_env import MAX_TEXT

NOT_DONE = "Not done: the episode was over."
"""Answer to a call after the one that ended the episode, in the same message."""

__all__ = ["answered", "opening", "tool_definitions"]


class PydanticMessage(Protocol):
    """A message of the `openai` client, or of another client with pydantic models."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]: ...


def tool_definitions(session: Session) -> list[dict[str, Any]]:
    """Return the tools of an episode for `tools=` of a chat request. Raises `UsageError` before a reset."""
    return [{"type": "function", "function": act_tool(session.view.action_format)}]


def answered(session: Session, message: Mapping[str, Any] | PydanticMessage) -> list[dict[str, Any]]:
    """Carry out an assistant's message. Return the message and the answers to its calls, for the next request.

    Raises `UsageError` before a reset and after the end, `EngineError` if the environment breaks.
    """
    reply = dict(message) if isinstance(message, Mapping) else message.model_dump(exclude_none=True)
    content = reply.get("content")
    words = content if isinstance(content, str) else ""
    calls = reply.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        step = session.act(_no_action(words, f"call the tool {ACT} with an action"))
        return [reply, {"role": "user", "content": step.observation}]
    answers: list[dict[str, Any]] = []
    for call in calls:
        known = call if isinstance(call, Mapping) else {}
        answer = NOT_DONE if session.over and answers else _turn(session, known, words)
        answers.append({"role": "tool", "tool_call_id": str(known.get("id", "")), "content": answer})
        words = ""  # count the text once
    return [reply, *answers]


def _turn(session: Session, call: Mapping[str, Any], words: str) -> str:
    """Play the turn of one call and return the answer for the model."""
    step = session.act(_read(call, words))
    end = ending(step, session.trajectory().won) if session.over else ""
    return "\n".join(filter(None, (step.observation, end)))


def _read(call: Mapping[str, Any], words: str) -> AgentReply:
    """Parse a call as an agent's reply. The reply's text is the model's text followed by the call."""
    function = call.get("function")
    name, raw_arguments = None, None
    if isinstance(function, Mapping):
        name, raw_arguments = function.get("name"), function.get("arguments")
    text = "\n".join(filter(None, (words, f"{name}({raw_arguments})")))
    if name != ACT:
        return _no_action(text, f"there is one tool, {ACT}")
    try:
        arguments = json.loads(raw_arguments) if isinstance(raw_arguments, str) else raw_arguments
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
    """Return the text in a form that a file can hold: at most as long as an action, "?" for halves of characters."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()
