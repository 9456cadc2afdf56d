"""What an OpenAI-compatible endpoint answers to a chat request. Left out: asking it, and prices.

Endpoints differ, so what is unambiguous is taken: content in parts is joined, counts of tokens that are none are 0, a
letter that is half a pair is replaced. What is not a chat completion at all is asked for again. A reply that was
withheld (`Body.withheld`) is told apart from an empty one.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from align_echo.models.retry import PassingFault

HIGHEST_LOGPROB = 1e-3
"""How far above 0 rounding may take a log-probability."""

MOST_TOKENS = 10**9
"""A count of tokens above it is none."""

CHARACTERS_PER_TOKEN = 16
"""No reply has more on average: one that does goes on beyond the tokens that it was asked for, and is cut there."""


def _joined(content: Any) -> str | None:
    """The text of a message's content: a text, or a list of parts of which those of text are joined."""
    if isinstance(content, list):
        texts = [_joined(part) for part in content]
        return "".join(text for text in texts if text is not None) if any(text is not None for text in texts) else None
    if isinstance(content, dict):
        content = content.get("text") if content.get("type", "text") in ("text", "output_text") else None
    return _whole_letters(content) if isinstance(content, str) else None


def _count(tokens: Any) -> int | None:
    """A number of tokens, also where it is written as text or with a fraction of 0; None for what is none."""
    try:
        count = float(tokens)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(count) if 0 <= count <= MOST_TOKENS and count == int(count) and not isinstance(tokens, bool) else None


def _whole_letters(text: str) -> str:
    """The text with each half of a surrogate pair replaced: it could not be written to a file."""
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
    """A token of a reply, or one that was likely in its place. Only the first has `top_logprobs`."""

    token: str
    logprob: float
    top_logprobs: list[_Listed] = []


_POSITIONS = TypeAdapter(list[_Listed])
"""The tokens of a whole reply, in their order."""


class Body(BaseModel):
    """A chat completion; it has a choice. Fields that are not read here are ignored."""

    choices: list[_Choice]
    usage: Annotated[dict[str, Any], BeforeValidator(lambda usage: usage if isinstance(usage, dict) else {})] = {}

    @property
    def spent(self) -> tuple[int | None, int | None]:
        """Tokens of the prompt and of all replies together; None where the endpoint does not say."""
        return _count(self.usage.get("prompt_tokens")), _count(self.usage.get("completion_tokens"))

    def text(self, choice: int) -> str:
        """The reply; "" for one that is empty or withheld."""
        return self.choices[choice].message.content or ""

    def finish_reason(self, choice: int) -> Literal["stop", "length"]:
        """Whether the reply was cut off."""
        return "length" if self.choices[choice].finish_reason == "length" else "stop"

    def withheld(self, choice: int) -> str:
        """Why there is no reply, in words; "" for a reply, also for one of no letters.

        One that was cut off before its first letter, as by thinking, is a reply: see `finish_reason`.
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
        """The likeliest first tokens of the first reply with their log-probabilities; empty where none can be read."""
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


def read_body(text: str) -> Body:
    """The body of an answer. Raises `PassingFault` for any other text, and for one without a choice."""
    try:
        # Not `model_validate_json`: it refuses half a letter anywhere.
        body = Body.model_validate(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise PassingFault(f"the reply's body is not a chat completion: {text[:80]!r}") from error
    if not body.choices:
        raise PassingFault("the reply's body has no choices")
    return body


def _is_logprob(listed: _Listed) -> bool:
    return listed.logprob <= HIGHEST_LOGPROB  # NaN is not
