"""Parse the answer of an OpenAI-compatible endpoint to a chat request. Not here: requests and prices.

Endpoints differ, so unambiguous variants are accepted: content in parts is joined, invalid token counts are 0, half of
a surrogate pair is replaced. A body that is no chat completion is requested again. A withheld reply
(`ChatReply.withheld`) is distinguished from an empty one.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from align_echo.models.retry import PassingFault

HIGHEST_LOGPROB = 1e-3
"""Largest log-probability accepted as a rounding error above 0."""

MOST_TOKENS = 10**9
"""Largest accepted token count."""

CHARACTERS_PER_TOKEN = 16
"""Upper bound of the average. A longer reply went beyond the requested tokens and is cut there."""


def _joined(content: Any) -> str | None:
    """Return the text of a message's content: a string, or a list whose text parts are joined."""
    if isinstance(content, list):
        texts = [_joined(part) for part in content]
        return "".join(text for text in texts if text is not None) if any(text is not None for text in texts) else None
    if isinstance(content, dict):
        content = content.get("text") if content.get("type", "text") in ("text", "output_text") else None
    return _whole_letters(content) if isinstance(content, str) else None


def _count(tokens: Any) -> int | None:
    """Parse a token count, also from text or a float with fraction 0; None if it is invalid."""
    try:
        count = float(tokens)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(count) if 0 <= count <= MOST_TOKENS and count == int(count) and not isinstance(tokens, bool) else None


def _whole_letters(text: str) -> str:
    """Replace each half of a surrogate pair, which cannot be written to a file."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


Text = Annotated[str | None, BeforeValidator(_joined)]


class _Message(BaseModel):
    content: Text = None
    refusal: Text = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: Text = None
    logprobs: Any = None


class _Listed(BaseModel):
    """A token of a reply, or a likely alternative in its place. Only the first has `top_logprobs`."""

    token: str
    logprob: float
    top_logprobs: list[_Listed] = []


_POSITIONS = TypeAdapter(list[_Listed])
"""Tokens of a full reply, in order."""


class ChatReply(BaseModel):
    """A chat completion with at least one choice. Other fields are ignored."""

    choices: list[_Choice]
    usage: Annotated[dict[str, Any], BeforeValidator(lambda usage: usage if isinstance(usage, dict) else {})] = {}

    @property
    def spent(self) -> tuple[int | None, int | None]:
        """Token counts of the prompt and of all replies together; None if the endpoint does not report them."""
        return _count(self.usage.get("prompt_tokens")), _count(self.usage.get("completion_tokens"))

    def text(self, choice: int) -> str:
        """Return the reply; "" if it is empty or withheld."""
        return self.choices[choice].message.content or ""

    def finish_reason(self, choice: int) -> Literal["stop", "length"]:
        """Return "length" if the reply was cut off, else "stop"."""
        return "length" if self.choices[choice].finish_reason == "length" else "stop"

    def withheld(self, choice: int) -> str:
        """Explain why there is no reply; "" if there is a reply, even an empty one.

        A reply cut off before its first character, as by thinking, counts as a reply: see `finish_reason`.
        """
        message, reason = self.choices[choice].message, self.choices[choice].finish_reason
        if reason == "content_filter":
            return "the endpoint's filter withheld the reply"
        if self.text(choice).strip() or reason == "length":
            return ""
        if message.refusal:
            return f"the model refuses: {' '.join(message.refusal.split())[:200]}"
        if message.tool_calls or message.function_call or reason in ("tool_calls", "function_call"):
            return "the reply is a tool call that nobody asked for, without text"
        return "the reply has no content" if message.content is None else ""

    def first_tokens(self) -> list[tuple[str, float]]:
        """Return the most likely first tokens of the first reply with log-probabilities; empty if unreadable."""
        logprobs = self.choices[0].logprobs
        try:
            positions = _POSITIONS.validate_python(logprobs.get("content") if isinstance(logprobs, dict) else None)
        except ValidationError:
            return []
        if not positions or not positions[0].top_logprobs:
            return []
        drawn, listed = positions[0], positions[0].top_logprobs
        if drawn.token not in [entry.token for entry in listed]:
            listed = [drawn, *listed]
        return [(entry.token, entry.logprob) for entry in listed] if all(map(_is_logprob, listed)) else []


def read_body(text: str) -> ChatReply:
    """Parse the body of an answer. Raises `PassingFault` for any other text, and for a body without a choice."""
    try:
        # Not `model_validate_json`: it refuses half a letter anywhere.
        body = ChatReply.model_validate(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise PassingFault(f"the reply's body is not a chat completion: {text[:80]!r}") from error
    if not body.choices:
        raise PassingFault("the reply's body has no choices")
    return body


def _is_logprob(listed: _Listed) -> bool:
    return listed.logprob <= HIGHEST_LOGPROB  # NaN is not
