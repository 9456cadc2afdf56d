"""An endpoint that answers as models do: sloppy, thinking, cut off, refusing, broken, each time in another manner.

By hand: `python -m tests.messy_endpoint`, then `align-echo evaluate --model messy --base-url URL ...`.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tests.align.endpoint import Answer, Endpoint, Raw, Status, serve

Outcome = Literal["action", "none", "withheld", "again"]
"""What a turn of the vanilla agent comes to: an action; a reply without one; no reply; asked again, then an action."""


@dataclass(frozen=True)
class Manner:
    """A manner of answering with an action, and what it comes to."""

    answer: Callable[[str], Answer]
    outcome: Outcome = "action"


def body(content: Any = None, reason: Any = "stop", usage: Any = None, **message: Any) -> Raw:
    """A chat completion of one choice."""
    said: dict[str, Any] = {"role": "assistant", "content": content, **message}
    choice: dict[str, Any] = {"index": 0, "message": said, "finish_reason": reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 9} if usage is None else usage
    answer: dict[str, Any] = {"id": "1", "choices": [choice], "usage": usage}
    return Raw(json.dumps(answer))


def written(form: str) -> Manner:
    """A text with the action in place of `{}`."""
    return Manner(lambda action: body(form.replace("{}", action)))


def stream(action: str) -> Raw:
    parts: list[dict[str, Any]] = [{"content": part} for part in ("Act", "ion: ", action)]
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in parts]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return Raw("".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n")


def error(status: int, message: str, **more: Any) -> Manner:
    return Manner(lambda action: Status(status, body=json.dumps({"error": {"message": message, **more}})), "again")


CALL = {"id": "c", "type": "function", "function": {"name": "act", "arguments": "{}"}}


def called(outcome: Outcome = "action", *, content: Any = None, **changes: Any) -> Manner:
    """A call of `act`, with changes of its fields; `names` are those of several calls."""

    def answer(action: str) -> Raw:
        names = changes.get("names", ["act"])
        arguments = changes.get("arguments", lambda action: json.dumps({"action": action}))(action)
        calls = [{"id": f"c{n}", "function": {"name": name, "arguments": arguments}} for n, name in enumerate(names)]
        known = [{**call, "type": "function"} if changes.get("id", True) else call for call in calls]
        for call in known if not changes.get("id", True) else ():
            del call["id"]
        return body(content, reason=changes.get("reason", "tool_calls"), tool_calls=known)

    return Manner(answer, outcome)


def call_stream(action: str) -> Raw:
    """A call in pieces."""
    text = json.dumps({"action": action})
    pieces = [{"index": 0, "id": "c", "function": {"name": "act", "arguments": text[:4]}}]
    pieces.append({"index": 0, "function": {"arguments": text[4:]}})
    deltas: list[dict[str, Any]] = [{"tool_calls": [piece]} for piece in pieces]
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return Raw("".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n")


FAILED = {
    "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
    "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "<function=act{look",
}  # fmt: skip


def in_text(form: str) -> Manner:
    """A call in the text, with its JSON in place of `{}`."""
    return Manner(lambda action: body(form.replace("{}", json.dumps({"action": action}))))


TOOL_MANNERS: dict[str, Manner] = {
    "a call": called(),
    "a call beside text": called(content="I look first."),
    "a call with an empty text": called(content=""),
    "arguments as an object": called(arguments=lambda action: {"action": action}),
    "no id": called(id=False),
    "a call that stops": called(reason="stop"),
    "a call in pieces": Manner(call_stream),
    "an old function call": Manner(
        lambda action: body(None, function_call={"name": "act", "arguments": json.dumps({"action": action})})
    ),
    "an empty list of calls": Manner(lambda action: body(f"Action: {action}", tool_calls=[])),
    "a call in the text": in_text('I look.\n<tool_call>\n{"name": "act", "arguments": {}}\n</tool_call>'),
    "a call as Llama writes it": in_text('{"name": "act", "parameters": {}}'),
    "a call as Mistral writes it": in_text('[TOOL_CALLS] [{"name": "act", "arguments": {}}]'),
    "no call": written("Action: {}"),
    "thoughts beside a call": called(content="<think>\nWhere?\n</think>\n\n"),
    "arguments that are no JSON": called("none", arguments=lambda action: '{"action": "' + action),
    "arguments that are a list": called("none", arguments=lambda action: [action]),
    "another argument": called("none", arguments=lambda action: json.dumps({"command": action})),
    "no argument": called("none", arguments=lambda action: None),
    "an unknown tool": called("none", names=["fly"]),
    "several calls": called("none", names=["act", "act"]),
    "calls that are no list": Manner(lambda action: body("", tool_calls={"name": 3}), "none"),
    "a call that Gemini could not read": Manner(lambda action: body(None, reason="MALFORMED_FUNCTION_CALL"), "none"),
    "a call that Groq could not read": Manner(lambda action: Status(400, body=json.dumps({"error": FAILED})), "none"),
    "a call without a function": Manner(lambda action: body("", tool_calls=[None]), "none"),
}
"""Manners of a model that is offered the tool `act`."""

MANNERS: dict[str, Manner] = {
    "bare": written("{}"),
    "labelled": written("Action: {}"),
    "with a thought": written("Thought: I look first.\nAction: {}"),
    "in bold": written("**Action:** {}"),
    "in backticks": written("Action: `{}`"),
    "in quotes": written('Action: "{}"'),
    "in a fence": written("```\n{}\n```"),
    "as JSON": written('```json\n{"action": "{}"}\n```'),
    "in a tag": written("<action>{}</action>"),
    "boxed": written("\\boxed{{}}"),
    "after a prompt sign": written("> {}"),
    "with a full stop": written("Action: {}."),
    "with an end token": written("Action: {}</s>"),
    "with a byte order mark": written("\ufeffAction: {}"),
    "after thinking": written("<think>\nWhere am I?\n</think>\n\nAction: {}"),
    "thinking in a field": Manner(lambda action: body(f"Action: {action}", reasoning_content="Where am I?")),
    "in the thinking alone": Manner(lambda action: body("", reasoning_content=f"Action: {action}")),
    "in the reasoning alone": Manner(lambda action: body(None, reasoning=f"Action: {action}")),
    "in parts": Manner(lambda action: body([{"type": "text", "text": "Action: "}, {"type": "text", "text": action}])),
    "streamed": Manner(stream),
    "without a reason": Manner(lambda action: body(f"Action: {action}", reason=None)),
    "with its own reason": Manner(lambda action: body(f"Action: {action}", reason="end_turn")),
    "without usage": Manner(lambda action: body(f"Action: {action}", usage={})),
    "usage in words": Manner(lambda action: body(f"Action: {action}", usage={"prompt_tokens": "12"})),
    "in thinking that does not end": Manner(lambda action: body("<think>\nWhere", reason="length"), "none"),
    "thinking to the limit": Manner(lambda action: body(None, reason="length", reasoning_content="Where"), "none"),
    "nothing": Manner(lambda action: body(""), "none"),
    "two actions": Manner(lambda action: body(f"Action: {action}\nAction: go to nowhere 9"), "none"),
    "a tool call": Manner(lambda action: body(None, reason="tool_calls", tool_calls=[CALL]), "withheld"),
    "a refusal": Manner(lambda action: body(None, refusal="I can't help with that."), "withheld"),
    "a filter": Manner(lambda action: body("", reason="content_filter"), "withheld"),
    "broken off": Manner(lambda action: body("Act", reason="error"), "again"),
    "an error under 200": Manner(lambda action: Raw('{"error": {"message": "Upstream error", "code": 502}}'), "again"),
    "too many requests": error(429, "Rate limit reached. Please try again in 1ms."),
    "an overloaded server": error(503, "overloaded"),
    "half of a body": Manner(lambda action: Raw('{"choices": [{"mess'), "again"),
}  # fmt: skip


def unanswered(messages: list[dict[str, Any]]) -> str:
    """Say what OpenAI's API refuses about calls in a history; "" for nothing."""
    for before, after in zip(messages, [*messages[1:], {}], strict=True):
        ids = [call["id"] for call in before.get("tool_calls") or () if call["id"]]
        if ids and after.get("tool_call_id") not in ids:
            return "An assistant message with 'tool_calls' must be followed by tool messages"
        if after.get("role") == "tool" and not ids:
            return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
        calls = before.get("tool_calls") or ()
        if any(not isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls):
            return "arguments must be an object"
    return ""


@contextmanager
def messy(actions: Callable[[dict[str, Any]], str], names: tuple[str, ...] = tuple(MANNERS)) -> Iterator[Endpoint]:
    """Run an endpoint whose model `messy` says the action for a request in these manners by turns.

    What is asked again is answered plainly then. A system role and temperature 0 are refused.
    """
    turns, lock, failed = itertools.cycle(names), threading.Lock(), set[str]()

    def answer(request: dict[str, Any]) -> Answer:
        if problem := unanswered(request["messages"]):
            return Status(400, body=json.dumps({"error": {"message": problem}}))
        if any(message["role"] == "system" for message in request["messages"]):
            return Status(400, body='{"error": {"message": "System role not supported"}}')
        if request.get("temperature") == 0:
            return Status(422, body='{"error": {"message": "`temperature` must be strictly positive"}}')
        key = json.dumps(request["messages"])
        with lock:
            if key in failed:
                failed.discard(key)
                return MANNERS["bare"].answer(actions(request))
            name = next(turns)
            known = {**MANNERS, **TOOL_MANNERS} if "tools" in request else MANNERS
            manner = known.get(name, known["bare"])
            if manner.outcome == "again":
                failed.add(key)
        return manner.answer(actions(request))

    with serve({"messy": answer}) as endpoint:
        yield endpoint


if __name__ == "__main__":
    with messy(lambda request: "look") as served:
        print(f"--model messy --base-url {served.url}", flush=True)
        sys.stdin.read()
