"""What an OpenAI-compatible endpoint answers to a chat request, read strictly. Left out: asking it, and prices."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from align_echo.models.retry import PassingFault

HIGHEST_LOGPROB = 1e-3
"""How far above 0 rounding may take a log-probability."""


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: Any = None


class _Tokens(BaseModel):
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0


class _Listed(BaseModel):
    token: str
    logprob: float


class _Position(_Listed):
    top_logprobs: list[_Listed]


class _Logprobs(BaseModel):
    content: list[_Position]


class Body(BaseModel):
    """A chat completion; it has a choice. Fields that are not read here are ignored."""

    choices: list[_Choice]
    usage: _Tokens | None = None

    @property
    def spent(self) -> tuple[int, int]:
        """Tokens of the prompt and of all replies together; 0 where the endpoint does not say."""
        tokens = self.usage or _Tokens()
        return tokens.prompt_tokens or 0, tokens.completion_tokens or 0

    def text(self, choice: int) -> str:
        """The reply, or what a model that refuses says in its place."""
        message = self.choices[choice].message
        return message.content or message.refusal or ""

    def finish_reason(self, choice: int) -> Literal["stop", "length"]:
        """Whether the reply was cut off."""
        return "length" if self.choices[choice].finish_reason == "length" else "stop"

    def first_tokens(self) -> list[tuple[str, float]]:
        """The likeliest first tokens of the first reply with their log-probabilities; empty where none can be read."""
        try:
            positions = _Logprobs.model_validate(self.choices[0].logprobs).content
        except ValidationError:
            return []
        if not positions or not positions[0].top_logprobs:
            return []
        drawn, listed = positions[0], positions[0].top_logprobs
        if drawn.token not in [one.token for one in listed]:
            listed = [drawn, *listed]
        return [(one.token, one.logprob) for one in listed] if all(map(_is_logprob, listed)) else []


def read_body(text: str) -> Body:
    """The body of an answer. Raises `PassingFault` for any other text, and for one without a choice."""
    try:
        body = Body.model_validate_json(text)
    except ValidationError as error:
        raise PassingFault(f"the reply's body is not a chat completion: {text[:80]!r}") from error
    if not body.choices:
        raise PassingFault("the reply's body has no choices")
    return body


def _is_logprob(one: _Listed) -> bool:
    return one.logprob <= HIGHEST_LOGPROB  # NaN is not
