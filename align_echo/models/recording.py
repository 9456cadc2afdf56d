"""A model with a cache and a log: it answers from the reply cache if possible and logs every exchange.

Batched questions (`draw`, `choose`) are looked up and logged one by one; the new ones reach the model together. Not
here: the file formats (`cache.py`), and retries (the model's own).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from pydantic import ConfigDict

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import AlignEchoError, ModelError, ReplyWithheldError, UsageError
from align_echo.models.attempts import LostAttempt, paid_by
from align_echo.models.cache import ReplyCache, Stored, choice_key, request_key
from align_echo.models.drawing import MAX_TOKENS, choose, draw_each, model_for_sample
from align_echo.models.endpoint import get_base_url
from align_echo.types import ChatModel, Completion, Frozen, Message, ToolCall, Usage, WordChoice

# ---------------------------------------------------------------- log of every exchange with a model, one per line


class Call(Frozen):
    """One exchange with a model. `reply` is None if the model gave none; `error` says why.

    A cached reply carries the usage of the original call: sum usage over distinct `request` values. For a choice among
    `words`, the reply is the chosen word ("" for none of them) and `logprobs` are as in `WordChoice`. `in_thinking`,
    `thinking`, `thinking_tokens` and `calls` are as in `Completion`. `requests` were answered for it: several for a
    verdict, and none for a reply that came with another.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    role: str
    model: str
    request: str
    sample: int = 0
    temperature: float
    max_tokens: int
    messages: tuple[Message, ...]
    words: tuple[str, ...] = ()
    reply: str | None
    logprobs: tuple[float, ...] | None = None
    finish_reason: str = ""
    in_thinking: bool = False
    thinking: str = ""
    thinking_tokens: int | None = None
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    requests: int = 1
    cached: bool = False
    error: str = ""


class CallReference(Frozen):
    """Reference to the first `messages` messages of an earlier call in the file."""

    request: str
    messages: int


class _Line(Call):
    """A call as written: `messages` are those that follow the messages referred to by `after`."""

    after: CallReference | None = None


class CallLog:
    """A file of calls. Threads and processes may append at the same time; the first call creates the file."""

    def __init__(self, path: Path) -> None:
        self._file = JsonlFile(path)
        self._lock = threading.Lock()
        self._written: dict[bytes, str] = {}
        """Hash of the first messages of a call written by this process -> the call's request."""

    def append(self, call: Call) -> None:
        """Append a call. The data is with the operating system on return."""
        hashes = _hashes(call.messages)
        with self._lock:
            count = next((n for n in range(len(hashes), 0, -1) if hashes[n - 1] in self._written), 0)
            after = CallReference(request=self._written[hashes[count - 1]], messages=count) if count else None
        self._file.append(_Line(**{**dict(call), "messages": call.messages[count:]}, after=after))
        with self._lock:
            self._written |= dict.fromkeys(hashes[count:], call.request)

    def read(self) -> list[Call]:
        """Read all calls with all their messages; empty if there is no file.

        Raises `UsageError` for a damaged line, and for a line with a reference to a call not above it.
        """
        calls: list[Call] = []
        messages_by_request: dict[str, tuple[Message, ...]] = {}
        for number, line in enumerate(self._file.read(_Line), start=1):
            full_messages = line.messages
            if line.after is not None:
                earlier = messages_by_request.get(line.after.request, ())
                if not 0 < line.after.messages <= len(earlier):
                    missing = f"the call that it goes on from ({line.after.request[:12]}) is not above it"
                    raise UsageError(f"{self._file.path} line {number} is damaged: {missing}")
                full_messages = earlier[: line.after.messages] + full_messages
            messages_by_request[line.request] = full_messages
            calls.append(Call(**{name: value for name, value in line if name != "after"} | {"messages": full_messages}))
        return calls


def _hashes(messages: Sequence[Message]) -> list[bytes]:
    """Hash each prefix of the messages, from one message up to all."""
    hashes: list[bytes] = []
    for message in messages:
        so_far = hashlib.blake2b(hashes[-1] if hashes else b"", digest_size=16)
        so_far.update(json.dumps(message.identity).encode())
        hashes.append(so_far.digest())
    return hashes


# ---------------------------------------------------------------- A model with a cache and a log


def get_identity(model: ChatModel) -> str:
    """Return a string unique to a model: its `identity`, which includes the endpoint, else its name."""
    identity: str | None = getattr(model, "identity", None)
    return model.name if identity is None else identity


def get_weights(model: ChatModel) -> str:
    """Return the hash of a model's weight files (`weights`); "" if the model has none."""
    weights: str = getattr(model, "weights", "")
    return weights


def get_fields(model: ChatModel) -> str:
    """Return the fields that a user adds to a model's requests as JSON; "" for none."""
    fields: str = getattr(model, "fields", "")
    return fields


def describe_model(role: str, model: ChatModel) -> dict[str, str]:
    """Describe a role's model for run records (`types.Described`): name, endpoint, weights, fields of its requests."""
    further = {"weights": get_weights(model), "fields": get_fields(model)}
    known = {f"{name}.{role}": value for name, value in further.items() if value}
    return {f"model.{role}": model.name, f"base_url.{role}": get_base_url(model), **known}


SAMPLES_PER_STAGE = 2**32
"""Offset between the sample numbers of two stages, so that each stage draws new samples."""


class TokenMeter(Protocol):
    """Watches the requests that reach a model; those answered from the cache do not."""

    @property
    def most_calls(self) -> int | None:
        """Most calls to ask for at once; None for any number."""

    def before_requests(self, calls: Sequence[Call]) -> None:
        """Raise to keep new requests from the model."""

    def before_attempt(self, calls: Sequence[Call], asked: Sequence[Call], max_tokens: int) -> None:
        """Raise to keep an attempt from the model. The calls are under way together; this one is at those `asked`, and
        may be answered by so many tokens.
        """

    def after_lost(self, call: Call, usage: Usage) -> None:
        """Count an attempt whose reply was lost or discarded, and which may be billed beside the request's reply."""

    def after_reply(self, call: Call, reply: Completion | WordChoice) -> None:
        """Count a reply."""

    def after_fault(self, call: Call) -> None:
        """Count a request without a reply."""

    def after_stop(self, call: Call) -> None:
        """Count a request that is waited for no longer."""


class _CallPayer:
    """Lets a meter count the attempts at calls of one request, or of one question about several conversations.

    `stopped`: it kept an attempt from the model.
    """

    def __init__(self, meter: TokenMeter, calls: Sequence[Call]) -> None:
        self._meter = meter
        self._calls = calls
        self._by_messages: dict[tuple[Message, ...], list[Call]] = {}
        for call in calls:
            self._by_messages.setdefault(call.messages, []).append(call)
        self._lock = threading.Lock()
        self._answers: Counter[tuple[Message, ...]] = Counter()
        self.stopped = False

    def before_attempt(self, messages: Sequence[Message], max_tokens: int) -> None:
        try:
            self._meter.before_attempt(self._calls, self._by_messages.get(_without_tokens(messages), ()), max_tokens)
        except AlignEchoError:
            self.stopped = True
            raise

    def after_answer(self, messages: Sequence[Message]) -> None:
        with self._lock:
            self._answers[_without_tokens(messages)] += 1

    @property
    def counted_calls(self) -> list[Call]:
        """The calls with their numbers of requests; one each of a model that tells of no attempts."""
        if not self._answers:
            return list(self._calls)
        requests: dict[str, int] = {}
        for messages, calls in self._by_messages.items():
            answers = self._answers[messages]
            for place, call in enumerate(calls):
                requests[call.request] = min(1, max(0, answers - place))
            requests[calls[-1].request] += max(0, answers - len(calls))
        return [call.model_copy(update={"requests": requests[call.request]}) for call in self._calls]

    def after_lost(self, attempt: LostAttempt) -> None:
        asked = {"messages": _without_tokens(attempt.messages), "max_tokens": attempt.max_tokens, "words": ()}
        usage = Usage(prompt_tokens=attempt.prompt, completion_tokens=attempt.completion, cost_usd=None)
        self._meter.after_lost(self._calls[0].model_copy(update=asked), usage)


class RecordingModel:
    """A chat model that asks `model` at most once per request and sample, and logs every exchange.

    `role` is the model's role (agent, analyzer, optimizer). `sample` distinguishes repeated draws of one request.
    Above temperature 0, a request in another `stage` (the iteration of a run) is a new draw too. `known_as` maps the
    model's identity to the identity used as cache key, for a model that moved to another address. `meter` watches the
    requests that reach the model.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        role: str,
        cache: ReplyCache,
        log: CallLog,
        sample: int = 0,
        stage: Callable[[], int] = lambda: 0,
        known_as: Callable[[str], str] = str,
        meter: TokenMeter | None = None,
    ) -> None:
        self._model = model
        self._role = role
        self._cache = cache
        self._log = log
        self._sample = sample
        self._stage = stage
        self._known_as = known_as
        self._meter = meter

    @property
    def name(self) -> str:
        """Name of the wrapped model."""
        return self._model.name

    @property
    def base_url(self) -> str:
        """Base URL of the wrapped model."""
        return get_base_url(self._model)

    @property
    def weights(self) -> str:
        """Hash of the wrapped model's weights."""
        return get_weights(self._model)

    @property
    def fields(self) -> str:
        """Fields that are added to the wrapped model's requests."""
        return get_fields(self._model)

    def with_sample(self, sample: int) -> RecordingModel:
        """Return the model for another sample number, whose replies are stored separately."""
        model = model_for_sample(self._model, sample)
        return RecordingModel(
            model,
            role=self._role,
            cache=self._cache,
            log=self._log,
            sample=sample,
            stage=self._stage,
            known_as=self._known_as,
            meter=self._meter,
        )

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Return the stored reply, or ask the model. Raises `ModelError` (logged, not stored)."""
        stage = self._stage() if temperature > 0 else 0

        def ask(new: Sequence[int]) -> list[Completion | ModelError]:
            model = model_for_sample(self._model, stage * SAMPLES_PER_STAGE + self._sample) if stage else self._model
            try:
                return [model.complete(messages, temperature=temperature, max_tokens=max_tokens)]
            except ModelError as error:
                return [error]

        call = self._call(messages, temperature, max_tokens, self._sample, stage)
        (reply,) = self._remembered([call], ask, Completion)
        if isinstance(reply, ModelError):
            raise reply
        return reply

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]:
        """Return the stored reply for each sample, or ask the model; see `drawing.draw_each`. Errors are not stored."""
        stage = self._stage() if temperature > 0 else 0

        def ask(new: Sequence[int]) -> list[Completion | ModelError]:
            wanted = [stage * SAMPLES_PER_STAGE + samples[index] for index in new]
            return draw_each(self._model, messages, wanted, temperature=temperature, max_tokens=max_tokens)

        calls = [self._call(messages, temperature, max_tokens, sample, stage) for sample in samples]
        return self._remembered(calls, ask, Completion)

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[WordChoice | ModelError]:
        """Return the stored answer for each conversation, or ask the model; see `choosing.choose`. Errors are not
        stored.
        """

        def ask(new: Sequence[int]) -> list[WordChoice | ModelError]:
            return choose(self._model, [conversations[index] for index in new], words)

        return self._remembered([self._question(messages, words) for messages in conversations], ask, WordChoice)

    # ------------------------------------------------------------ cache and log

    def _remembered(
        self,
        calls: Sequence[Call],
        ask: Callable[[Sequence[int]], Sequence[Stored | ModelError]],
        kind: type[Stored],
    ) -> list[Stored | ModelError]:
        """Answer each call and log it. `ask` receives the indices of new calls, one per distinct request."""
        most = self._meter.most_calls if self._meter is not None else None
        if most is not None and len(calls) > most:
            parts = [range(first, min(first + most, len(calls))) for first in range(0, len(calls), most)]
            return [
                answer
                for part in parts
                for answer in self._remembered(
                    [calls[index] for index in part], partial(_ask_within, ask, part.start), kind
                )
            ]
        answers: dict[str, Stored | ModelError] = {}
        new: dict[str, int] = {}
        with self._cache.asking(call.request for call in calls):
            for index, call in enumerate(calls):
                stored = self._cache.get(call.request, kind)
                if stored is None:
                    new.setdefault(call.request, index)
                else:
                    answers[call.request] = stored
            if new and self._meter is not None:
                self._meter.before_requests([calls[index] for index in new.values()])
            replies, asked = self._asked(ask, [*new.values()], calls)
            for request, answer in zip(new, replies, strict=True):
                answers[request] = answer
                if not isinstance(answer, ModelError):
                    self._cache.put(request, answer)
            counted = {call.request: call for call in asked}
            logged_answers = []
            for call in calls:
                answer = answers[call.request]
                self._log.append(_answered(counted.pop(call.request, call), answer))
                logged_answers.append(answer)
                if not isinstance(answer, ModelError):  # a repeated request gets the stored answer
                    answers[call.request] = answer.model_copy(update={"cached": True})
            self._settle(asked, answers)
        return logged_answers

    def _settle(self, new: Sequence[Call], answers: Mapping[str, Completion | WordChoice | ModelError]) -> None:
        """Tell the meter of the answers to new calls, which are in the log by now."""
        if self._meter is None:
            return
        for call in new:
            answer = answers[call.request]
            if isinstance(answer, ModelError):
                self._meter.after_fault(_answered(call, answer))
            else:
                self._meter.after_reply(call, answer)

    def _asked(
        self,
        ask: Callable[[Sequence[int]], Sequence[Stored | ModelError]],
        new: Sequence[int],
        calls: Sequence[Call],
    ) -> tuple[Sequence[Stored | ModelError], list[Call]]:
        """Ask for the calls of these indices. Return the answers, and the calls with their numbers of requests.

        What the meter reserved for them is released if that raises.
        """
        if not new:
            return (), []
        asked = [calls[index] for index in new]
        payer = _CallPayer(self._meter, asked) if self._meter is not None else None
        try:
            with paid_by(payer):
                answers = ask(new)
        except BaseException as error:
            refused = isinstance(error, AlignEchoError)  # by the endpoint; a stop leaves requests that may be paid
            if self._meter is not None and payer is not None:
                several = payer.stopped and len(new) > 1  # others of them may be answered
                end = self._meter.after_fault if refused and not several else self._meter.after_stop
                for call in asked:
                    end(call)
            raise
        return answers, payer.counted_calls if payer is not None else asked

    def _call(self, messages: Sequence[Message], temperature: float, max_tokens: int, sample: int, stage: int) -> Call:
        """Build the log record of a request before its reply."""
        key = request_key(
            self._identity, messages, temperature=temperature, max_tokens=max_tokens, sample=sample, stage=stage
        )
        return Call(
            role=self._role,
            model=self._model.name,
            request=key,
            sample=sample,
            temperature=temperature,
            max_tokens=max_tokens,
            messages=_without_tokens(messages),
            reply=None,
        )

    def _question(self, messages: Sequence[Message], words: Sequence[str]) -> Call:
        """Build the log record of a choice among words before its answer. Nothing is sampled: no sample, no stage."""
        return Call(
            role=self._role,
            model=self._model.name,
            request=choice_key(self._identity, messages, words),
            temperature=0.0,
            max_tokens=MAX_TOKENS,
            messages=_without_tokens(messages),
            words=tuple(words),
            reply=None,
        )

    @property
    def _identity(self) -> str:
        return self._known_as(get_identity(self._model))


def _ask_within(
    ask: Callable[[Sequence[int]], Sequence[Stored | ModelError]], first: int, new: Sequence[int]
) -> Sequence[Stored | ModelError]:
    """Ask for the calls of these indices, counted from the call with the index `first`."""
    return ask([first + index for index in new])


def _without_tokens(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(message.model_copy(update={"tokens": None}) for message in messages)


def _answered(call: Call, answer: Completion | WordChoice | ModelError) -> Call:
    """Add the outcome to a call."""
    if isinstance(answer, ModelError):
        paid_usage = answer.usage if isinstance(answer, ReplyWithheldError) and answer.usage else call.usage
        return call.model_copy(update={"error": str(answer), "usage": paid_usage})
    paid = {"usage": answer.usage, "cached": answer.cached}
    if isinstance(answer, WordChoice):
        return call.model_copy(update={"reply": answer.said or "", "logprobs": answer.logprobs, **paid})
    same = ("finish_reason", "in_thinking", "thinking", "thinking_tokens", "calls")
    return call.model_copy(update={"reply": answer.text, **{name: getattr(answer, name) for name in same}, **paid})
