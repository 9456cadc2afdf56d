"""Read what an endpoint answers: a chat completion, whole or streamed, or an error in one of its forms.

Answers come as servers write them: content as text, as parts or in the field of the thinking, counts as text, an error
under status 200 or inside a choice, a stream nobody asked for. Not here: sending (`client.py`), the meaning of an
error (`wordings.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import openai
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from align_echo.errors import KEY_VARIABLES
from align_echo.models.client import PassingFault, judged, retry_after
from align_echo.models.wordings import Refusal
from align_echo.types import ToolCall

HIGHEST_LOGPROB = 1e-3
"""Largest log-probability accepted as a rounding error above 0."""

MOST_TOKENS = 10**9
"""Largest accepted token count."""

CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
"""Finish reasons of a reply that reached its limit: OpenAI, Gemini and Anthropic, Responses, Mistral."""

FILTERED = frozenset(
    {"content_filter", "safety", "prohibited_content", "blocklist", "recitation", "spii", "sensitive", "image_safety"}
)
"""Finish reasons of a reply withheld by a filter: OpenAI, Gemini, Z.ai."""

BROKEN = frozenset(
    {"error", "abort", "aborted", "cancelled", "timeout", "network_error", "insufficient_system_resource"}
)
"""Finish reasons of a reply that broke off at the server: OpenRouter, vLLM, SGLang, Z.ai, DeepSeek."""

UPSTREAM_FAULT = 502
"""Status that stands for an error in a body without a number: it may pass."""


class RefusedAnswer(Exception):
    """An answer of status 200 that is an error. `begun`: a reply had begun, and may be billed."""

    def __init__(self, refusal: Refusal, *, begun: bool = False) -> None:
        super().__init__(refusal.line)
        self.refusal = refusal
        self.begun = begun


# ---------------------------------------------------------------- a chat completion


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
    reasoning_content: Text = None
    reasoning: Text = None
    refusal: Text = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(BaseModel):
    message: _Message | None = None
    finish_reason: Text = None
    logprobs: Any = None
    error: Any = None

    @property
    def reason(self) -> str:
        """Finish reason in small letters."""
        return (self.finish_reason or "").lower()


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
        """Token counts of the prompt and of all replies together; None if the endpoint does not report them.

        No prompt, text or call has 0 tokens. What a total has beyond both is thinking: some count it there alone.
        """
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        prompt, completion, total = (_count(self.usage.get(name)) for name in names)
        if prompt and completion is not None and total is not None:
            completion = max(completion, total - prompt)
        parts = (self.text, self.thinking, self.calls)
        wrote = any(part(index) for index in range(len(self.choices)) for part in parts)
        return prompt or None, None if wrote and not completion else completion

    def _message(self, choice: int) -> _Message:
        return self.choices[choice].message or _Message()

    def thinking(self, choice: int) -> str:
        """Return the text in the field of the model's thinking; "" without such a field."""
        message = self._message(choice)
        return message.reasoning_content or message.reasoning or ""

    @property
    def thinking_tokens(self) -> int | None:
        """Token count of the thinking in all replies together; None if the endpoint does not report it."""
        details = self.usage.get("completion_tokens_details")
        return _count({**self.usage, **(details if isinstance(details, dict) else {})}.get("reasoning_tokens"))

    def answers_in_thinking(self, choice: int) -> bool:
        """True if the reply ended by itself and its only text is in the field of the thinking."""
        message, clean = self._message(choice), self.choices[choice].reason in ("", "stop", "eos", "end_turn")
        other = message.refusal or message.tool_calls or message.function_call
        return clean and not other and not (message.content or "").strip() and bool(self.thinking(choice).strip())

    def text(self, choice: int) -> str:
        """Return the reply; "" if it is empty or withheld. A reply that stands in the thinking alone is read there."""
        return self.thinking(choice) if self.answers_in_thinking(choice) else self._message(choice).content or ""

    def finish_reason(self, choice: int) -> Literal["stop", "length"]:
        """Return "length" if the reply was cut off, else "stop"."""
        return "length" if self.choices[choice].reason in CUT else "stop"

    def withheld(self, choice: int) -> str:
        """Explain why there is no reply; "" if there is a reply, even an empty one.

        A reply cut off before its first character, as by thinking, counts as a reply: see `finish_reason`.
        """
        message, reason = self._message(choice), self.choices[choice].reason
        if reason in FILTERED:
            return "the endpoint's filter withheld the reply"
        if self.text(choice).strip() or reason in CUT:
            return ""
        if message.refusal:
            return f"the model refuses: {' '.join(message.refusal.split())[:200]}"
        if message.tool_calls or message.function_call or reason in ("tool_calls", "function_call"):
            return "the reply is a tool call that nobody asked for, without text"
        return "the reply has no content" if message.content is None else ""

    def calls(self, choice: int) -> list[ToolCall]:
        """Return the tool calls of a reply, as servers write them: arguments as text or as an object, or no id."""
        message = self._message(choice)
        written = message.tool_calls or ([message.function_call] if message.function_call else [])
        return [_tool_call(call) for call in (written if isinstance(written, list) else [written])]

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


def failed_call(text: str) -> ChatReply | None:
    """Return a call of no tool, if an error says that the model's could not be read (Groq); None otherwise."""
    try:
        error = json.loads(text)["error"]
        written, code = error["failed_generation"], error["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if code != "tool_use_failed" or not isinstance(written, str):
        return None
    message = {"tool_calls": [{"function": {"name": "", "arguments": written}}]}
    return ChatReply.model_validate({"choices": [{"message": message, "finish_reason": "tool_calls"}]})


def _tool_call(written: Any) -> ToolCall:
    """Read a call; what is not there stays empty, and is no tool's name."""
    call = written if isinstance(written, dict) else {}
    function: Any = call.get("function") if isinstance(call.get("function"), dict) else call
    arguments = function.get("arguments", function.get("parameters"))
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments)
    known = {"name": function.get("name"), "id": call.get("id")}
    texts = {name: _whole_letters(value) if isinstance(value, str) else "" for name, value in known.items()}
    return ToolCall(arguments=_whole_letters(arguments) or "{}", **texts)


def _is_logprob(listed: _Listed) -> bool:
    return listed.logprob <= HIGHEST_LOGPROB  # NaN is not


def read_body(text: str) -> ChatReply:
    """Parse the body of an answer, also a streamed one.

    Raises `RefusedAnswer` for an error in place of a completion or of a reply, and `PassingFault` for any other text,
    for a body without a choice, and for a reply or a stream that broke off.
    """
    try:
        # Not `model_validate_json`: it refuses half a letter anywhere.
        data = _streamed(text) if _is_stream(text) else json.loads(text)
        if isinstance(error := _error_in(data), Refusal):
            raise RefusedAnswer(error)
        body = ChatReply.model_validate(data)
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise PassingFault(f"the reply's body is not a chat completion: {text[:80]!r}") from error
    if not body.choices:
        raise PassingFault("the reply's body has no choices")
    for choice in body.choices:
        if choice.reason in BROKEN or choice.error:
            why = _refusal(choice.error, f"the reply broke off: {choice.reason}", UPSTREAM_FAULT)
            raise RefusedAnswer(why, begun=True)
        if choice.message is None and choice.reason not in CUT | FILTERED:
            raise PassingFault(f"the reply's body is not a chat completion: {text[:80]!r}")
    return body


def stated_counts(text: str) -> tuple[int | None, int | None]:
    """Return the tokens of prompt and replies that an answer states that is no completion; None where it does not."""
    for part in reversed([text, *(line.removeprefix("data:") for line in text.splitlines())]):
        try:
            usage = json.loads(part)["usage"]
            return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            continue
    return None, None


# ---------------------------------------------------------------- a streamed answer


def _is_stream(text: str) -> bool:
    return text.lstrip().startswith(("data:", "event:", ":", "id:", "retry:"))


def _streamed(text: str) -> dict[str, Any]:
    """Join the events of a stream to one chat completion. Raises `PassingFault` for a stream without an end."""
    choices: dict[int, dict[str, Any]] = {}
    usage: Any = None
    ended = False
    for line in text.splitlines():
        name, _, data = line.partition(":")
        if name != "data" or not data.strip():
            continue
        if data.strip() == "[DONE]":
            ended = True
            continue
        event = json.loads(data)
        if isinstance(error := _error_in(event), Refusal):
            raise RefusedAnswer(error, begun=bool(choices))
        usage = event.get("usage") or usage
        for part in event.get("choices") or []:
            _add_part(choices.setdefault(int(part.get("index") or 0), {"message": {}, "finish_reason": None}), part)
    ended = ended or (bool(choices) and all(choice["finish_reason"] for choice in choices.values()))
    if not ended:
        raise PassingFault("the streamed reply broke off before its end")
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def _add_part(choice: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add a part of a streamed reply: texts and tool calls are joined, anything else replaced."""
    delta = part.get("delta") or part.get("message") or {}
    for name in ("content", "reasoning_content", "reasoning", "refusal"):
        if (text := _joined(delta.get(name))) is not None:
            choice["message"][name] = choice["message"].get(name, "") + text
    if delta.get("function_call"):
        _add_call(choice["message"].setdefault("function_call", {}), delta["function_call"])
    for number, call in enumerate(delta.get("tool_calls") or []):
        calls, index = choice["message"].setdefault("tool_calls", []), call.get("index")
        if (number if index is None else index) >= len(calls):
            calls.append({"function": {}})
        calls[-1]["id"] = call.get("id") or calls[-1].get("id")
        _add_call(calls[-1]["function"], call.get("function") or {})
    if part.get("logprobs") and "logprobs" not in choice:
        choice["logprobs"] = part["logprobs"]
    choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]
    if part.get("error"):
        choice["error"] = part["error"]


def _add_call(function: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add a part of a streamed call: names and arguments come in pieces, an object comes whole."""
    for name in ("name", "arguments"):
        piece = part.get(name)
        function[name] = function.get(name, "") + piece if isinstance(piece, str) else piece or function.get(name, "")


# ---------------------------------------------------------------- an error


def read_refusal(status: int, text: str) -> Refusal:
    """Read the body of an answer with an error status: JSON in one of its forms, else the text itself."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    return _refusal(data, f"status {status}: {text.strip()}".rstrip(": "), status)


def _error_in(data: Any) -> Refusal | None:
    """Return the error that a body of status 200 holds in place of choices; None if it holds none."""
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict) or data.get("choices"):
        return None
    if data.get("error") or data.get("object") == "error" or ("detail" in data and "choices" not in data):
        return _refusal(data, "an error without a message", UPSTREAM_FAULT)
    return None


def _refusal(data: Any, otherwise: str, status: int) -> Refusal:
    """Read an error from its JSON. A number of an error status in it replaces `UPSTREAM_FAULT`."""
    for _ in range(4):  # [{"error": {"error": {...}}}]
        if isinstance(data, list) and data and isinstance(data[0], dict | list):
            data = data[0]
        elif isinstance(data, dict) and data.get("error"):
            data = data["error"]
    if not isinstance(data, dict):
        return Refusal(status, _whole_letters(data) if isinstance(data, str) and data.strip() else otherwise)
    code, number = data.get("code"), _count(data.get("code"))
    known = {str(data.get(name)) for name in ("code", "type", "status") if isinstance(data.get(name), str | int)}
    if status == UPSTREAM_FAULT and number is not None and 400 <= number < 600:
        status = number
    metadata = data.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    message = _message(data.get("message") or data.get("detail") or data.get("msg")) or otherwise
    return Refusal(
        status,
        message if not isinstance(raw, str) else f"{message}: {raw}",
        param=data["param"] if isinstance(data.get("param"), str) else "",
        code=" ".join(sorted(known)) if code or known else "",
    )


def _message(said: Any) -> str:
    """Return an error's message: a string, or the `msg` of each problem that a validator lists, with its place."""
    if isinstance(said, str):
        return _whole_letters(said)
    problems = [problem for problem in said if isinstance(problem, dict)] if isinstance(said, list) else []
    return "; ".join(": ".join([*_places(problem), str(problem.get("msg"))]) for problem in problems)


def _places(problem: Mapping[str, Any]) -> list[str]:
    place = problem.get("loc")
    return [".".join(map(str, place))] if isinstance(place, list) else []


_WAIT = re.compile(
    r"(?:retrydelay|retry[_-]after|retry|try again)[\"']?(?: in| after)?[:\s]*[\"']?"
    r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s|i))?(?:(?P<s>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|sec|minutes?)?)?",
    re.IGNORECASE,
)


def stated_wait(text: str) -> float | None:
    """Return the seconds after which an error's text says to try again ("in 6m0s", "retryDelay": "0.5s"); None if it
    does not say.
    """
    for match in _WAIT.finditer(text):
        hours, minutes, seconds = (float(match[name] or 0) for name in "hms")
        if match["h"] or match["m"] or (match["s"] and match["unit"]):
            scale = {"ms": 0.001, "minute": 60.0, "minutes": 60.0}.get((match["unit"] or "").lower(), 1.0)
            return 3600 * hours + 60 * minutes + scale * seconds
    return None


def read_status_error(error: openai.APIStatusError) -> Refusal:
    """Read the answer behind an error status."""
    return read_refusal(error.status_code, error.response.text)


def judged_error(error: openai.APIStatusError, where: str, keys: Sequence[str] = KEY_VARIABLES) -> Exception:
    """Map an error status to an exception, see `judged`. A wait is read from the headers, else from the text."""
    after, headers = retry_after(error.response.headers), error.response.headers
    after = stated_wait(error.response.text) if after is None else after
    return judged(read_status_error(error), where, after, headers.get("location", "elsewhere"), keys)
