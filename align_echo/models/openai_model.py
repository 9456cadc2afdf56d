"""Chat models behind an OpenAI-compatible endpoint (OpenAI, Gemini, vLLM, Ollama ...), using the `openai` package.

Handles the needs of long runs: keys, retries with backoff, deadlines, a limit on concurrent requests, token counts and
cost, and parameters that a model renames or rejects. Not here: a single request (`client.py`), caching and logging
(`recording.py`), streaming, tools and images.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import openai

from align_echo.base.halting import pause
from align_echo.errors import (
    ContextOverflowError,
    ModelError,
    ReplyWithheldError,
    RequestRejectedError,
    UsageError,
    did_you_mean,
    without_secrets,
)
from align_echo.models.answers import (
    ChatReply,
    RefusedAnswer,
    failed_call,
    judged_error,
    read_body,
    read_status_error,
    stated_counts,
    stated_wait,
)
from align_echo.models.attempts import LostAttempt, check_attempt, report_answer, report_lost
from align_echo.models.client import NOWHERE, EndpointClient, PassingFault, RetryPolicy, ask, ask_all, judged, timed
from align_echo.models.drawing import (
    MAX_TOKENS,
    THINKING_TOKENS,
    listed_choice,
    more_to_read,
    still_thinks,
    word_choice,
)
from align_echo.models.endpoint import (
    DEFAULT_BASE_URL,
    WITHOUT_ENDPOINT,
    Endpoint,
    NamedEndpoint,
    read_endpoint,
    resolve_timeout,
)
from align_echo.models.prices import Price, find_price
from align_echo.models.wordings import RequestForm, adapt, find_window, least_reply, meaning, offers_tools
from align_echo.types import Completion, Message, ToolCall, Usage, WordChoice

LOGGER = logging.getLogger(__name__)

# ---------------------------------------------------------------- a server that forgets


class ForgettingWatch:
    """Watches the count of prompt tokens of growing conversations. A server that silently drops the start of a long
    conversation reports no more tokens for a longer one.

    A conversation is known by its first two messages; the latest `most` are watched. Thread-safe.
    """

    GROWTH = 400
    """Characters by which a conversation must have grown."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._last: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._lock = threading.Lock()

    def stands_still(self, messages: Sequence[Message], tokens: int) -> bool:
        """Record a conversation's prompt tokens. Return True if it grew and its tokens did not.

        A count below half of the last is no such case: servers that count no cached tokens report it so. Neither is one
        that could never be the conversation's.
        """
        key = hash(tuple((message.role, message.content) for message in messages[:2]))
        length = sum(len(message.content) for message in messages)
        with self._lock:
            last_length, last_tokens = self._last.pop(key, (length, tokens))
            grew = length >= last_length + self.GROWTH
            self._last[key] = (length, tokens) if grew or length < last_length else (last_length, last_tokens)
            if len(self._last) > self._most:
                self._last.popitem(last=False)
        return grew and last_tokens / 2 <= tokens <= last_tokens and tokens * CHARACTERS_PER_TOKEN >= last_length


# ---------------------------------------------------------------- the model at an endpoint

CHARACTERS_PER_TOKEN = 16
"""Upper bound of the average. A longer reply went beyond the requested tokens and is cut there."""

NAMES_WITHIN = 5.0
"""Deadline in seconds for an endpoint's list of models, fetched after it rejected an unknown name."""

NAMES_READ = 1000
LONGEST_NAME = 100

PATIENCE = 2
"""Limit on the total wait of all attempts at one reply, in deadlines: unanswered requests may be billed."""

CONCURRENCY = 8
"""Default limit of requests to a model at once."""

MOST_ADAPTATIONS = 8
"""Limit on the changes of one request's form."""


@dataclass
class _Trial:
    """The form of one request over its attempts, and the changes that refusals made to it, in words."""

    form: RequestForm
    max_tokens: int
    changes: list[str] = field(default_factory=list)

    def change(self, form: RequestForm, in_words: str) -> None:
        self.form = form
        self.changes.append(in_words)


def _folder_here(model: str) -> str:
    """Say how a folder of this name on this machine is run; "" if there is none."""
    return f"to run the folder on this machine: transformers:{model}; " if Path(model).is_dir() else ""


class OpenAICompatibleModel:
    """A chat model at `base_url`.

    The key comes from `ALIGN_ECHO_API_KEY` or `OPENAI_API_KEY`, or from the variable of a named endpoint. Endpoints
    other than OpenAI's work without one, or with `user:password@` in their URL. At most `max_concurrency` requests run
    at once (default: the named endpoint's, else 8). `timeout` is the deadline of one request and its full answer in
    seconds (default: the named endpoint's, else `ALIGN_ECHO_TIMEOUT`, else 600). `fields` are added to each request.
    A judge may think for `thinking_tokens` before its word (default: 2048).
    `wait` replaces the pauses between attempts in tests. Construction raises `UsageError` if OpenAI's host has no key,
    and for an unusable key or URL.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Endpoint | None = None,
        api_key: str | None = None,
        max_concurrency: int | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        prices: Mapping[str, Price] | None = None,
        fields: Mapping[str, Any] = MappingProxyType({}),
        thinking_tokens: int | None = None,
        wait: Callable[[float], None] = pause,
    ) -> None:
        self._model = model
        endpoint = read_endpoint(base_url)
        self._base_url = endpoint.url
        authorization = endpoint.authorization(api_key)
        if authorization is None and self._base_url == DEFAULT_BASE_URL:
            raise UsageError(
                f"the model {model} at {DEFAULT_BASE_URL} needs a key: {_folder_here(model)}"
                f"{did_you_mean(model, WITHOUT_ENDPOINT)}"
                "set OPENAI_API_KEY, or give the base URL of an endpoint of your own"
            )
        self._retry = retry or RetryPolicy()
        self._wait = wait
        self._keys = endpoint.key_variables
        settings = endpoint.settings or NamedEndpoint(url=endpoint.url)
        self._most = max_concurrency or settings.concurrency or CONCURRENCY
        self._slots = threading.BoundedSemaphore(self._most)
        self._price = find_price(model, {**settings.prices, **(prices or {})}, self._base_url)
        self._fields = dict(fields)
        self._form = RequestForm()
        self._said: set[str] = set()
        self._takes_n = True
        self._lists_tokens = True
        self._thinks = False
        self._thinking_tokens = thinking_tokens or THINKING_TOKENS
        self._watch = ForgettingWatch()
        deadline = resolve_timeout(timeout or settings.timeout)
        self._client = EndpointClient(self._base_url, authorization=authorization, timeout=deadline)

    @property
    def name(self) -> str:
        """Name of the model at its endpoint."""
        return self._model

    @property
    def base_url(self) -> str:
        """Base URL of the endpoint."""
        return self._base_url

    @property
    def identity(self) -> str:
        """Endpoint, name and added fields, unique to this model."""
        return f"{self._base_url} {self._model} {self.fields}".rstrip()

    @property
    def fields(self) -> str:
        """Fields that are added to each request, as JSON; "" for none."""
        return json.dumps(self._fields, sort_keys=True) if self._fields else ""

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Ask for a reply, cut if it goes far beyond `max_tokens`.

        Waits and retries on 408, 409, 429, 5xx, dropped connections and unreadable bodies, and once after a missed
        deadline.

        Raises `ModelError` when the attempts are used up, `RequestRejectedError` if the endpoint rejects this request
        (`ContextOverflowError` for a context beyond its limit), `ReplyWithheldError` if its answer has no reply, and
        `UsageError` if it rejects the key or does not know the model.
        """
        answer = self._ask(messages, temperature, max_tokens)
        (reply,) = self._replies(answer, 1, max_tokens, tools=offers_tools(messages))
        if isinstance(reply, ModelError):
            raise reply
        return reply

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]:
        """Draw one reply per sample with a single request (`n`); see `models/drawing.py`.

        The prompt's usage is counted once, with the first reply. Endpoints report the replies' tokens in total, so
        they are split evenly. If an endpoint rejects `n` or returns fewer replies, the missing ones are requested one
        by one, and so are all later draws. Greedy replies are always requested one by one.
        """
        count = len(samples)
        drawn: list[Completion | ModelError] = []
        if count > 1 and temperature > 0 and self._takes_n:
            try:
                answer = self._ask(messages, temperature, max_tokens, several=count)
                drawn += self._replies(answer, count, max_tokens, tools=offers_tools(messages))
            except ModelError as error:
                if not _refuses_fields(error):
                    return [error] * count
        missing = count - len(drawn)

        def single() -> Completion:
            return self.complete(messages, temperature=temperature, max_tokens=max_tokens)

        alone = ask_all([single] * missing, self._most)
        if count > 1 and temperature > 0 and alone and all(isinstance(reply, Completion) for reply in alone):
            self._takes_n = False
        return [*drawn, *alone]

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[WordChoice | ModelError]:
        """Choose among the words by the first-token probabilities of each next reply; see `models/drawing.py`.

        Sends one request of one token per conversation. If an endpoint rejects log-probabilities or omits them, this
        and later calls ask for short replies instead. A model that thinks before its word is given room for it from
        then on.
        """
        return ask_all([partial(self._choice, messages, words) for messages in conversations], self._most)

    def _choice(self, messages: Sequence[Message], words: Sequence[str]) -> WordChoice:
        spent, lasting = Usage(), True
        if self._lists_tokens and self._form.listed and not self._thinks:
            try:
                body = self._ask(messages, 0.0, 1, listed=True)
            except ModelError as error:
                if not _refuses_fields(error):
                    raise
            else:
                spent = self._usage(*body.spent)
                if listed := body.first_tokens():
                    if most := more_to_read(listed, words):
                        thinks = most == THINKING_TOKENS
                        self._thinks = self._thinks or thinks
                        room = self._thinking_tokens if thinks else most
                        reply = self.complete(messages, temperature=0.0, max_tokens=room)
                        return word_choice(reply.model_copy(update={"usage": spent + reply.usage}), words)
                    return listed_choice(listed, words).model_copy(update={"usage": spent})
                if why := body.withheld(0):
                    raise self._withheld(why, spent)
                lasting = bool(body.text(0))  # filtered replies never have log-probabilities
        choice, reply = self._word(messages, words, spent)
        self._lists_tokens = self._lists_tokens and not lasting
        return choice

    def _word(self, messages: Sequence[Message], words: Sequence[str], spent: Usage) -> tuple[WordChoice, Completion]:
        """Ask for a reply of one word, and again with room to think if the first reply broke off in thinking."""
        room = self._thinking_tokens if self._thinks else MAX_TOKENS
        reply = self.complete(messages, temperature=0.0, max_tokens=room)
        if room < self._thinking_tokens and still_thinks(reply):
            self._thinks, spent = True, spent + reply.usage
            self._notify(f"it thinks before a verdict: a verdict may take {self._thinking_tokens:,} tokens")
            reply = self.complete(messages, temperature=0.0, max_tokens=self._thinking_tokens)
        return word_choice(reply.model_copy(update={"usage": spent + reply.usage}), words), reply

    def _ask(
        self,
        messages: Sequence[Message],
        temperature: float,
        max_tokens: int,
        *,
        listed: bool = False,
        several: int = 1,
    ) -> ChatReply:
        """Send a request and return the answer, retrying passing faults."""

        trial = _Trial(self._form, max_tokens)

        def attempt() -> ChatReply:
            with self._slots, timed():
                return self._send(trial, messages, temperature, listed, several)

        patience, notices = PATIENCE * self._client.timeout, self._client.notices
        return ask(attempt, self._retry, self._wait, self._where, patience, notices)

    @property
    def _where(self) -> str:
        return f"{self._model} at {self._base_url}"

    def _send(
        self, trial: _Trial, messages: Sequence[Message], temperature: float, listed: bool, several: int
    ) -> ChatReply:
        """Send a request in the trial's form, and read the answer.

        After a refusal the form changes as `adapt` says. A form that was answered is remembered, and each change is
        reported once. A reply that does not fit beside the context is asked for with the tokens that are free, and so
        are later ones.
        """
        max_tokens = trial.max_tokens
        for _ in range(MOST_ADAPTATIONS):
            form, tokens = trial.form, trial.max_tokens
            body = form.body(messages, temperature=temperature, max_tokens=tokens, listed=listed, several=several)
            body |= form.added(self._fields)
            most = several * max(tokens, form.least)
            check_attempt(messages, most)
            lost = partial(LostAttempt, messages, most)
            text = ""
            try:
                text = self._client.post(f"{self._base_url}/chat/completions", {"model": self._model, **body})
                answer = read_body(text)
            except (PassingFault, ModelError) as error:  # before an answer if there is no text
                if text or not isinstance(error, PassingFault) or error.lost:
                    report_lost(lost(*stated_counts(text)))
                raise
            except openai.APIStatusError as error:
                if any(counts := stated_counts(error.response.text)):
                    report_lost(lost(*counts))
                if "tools" in body and (failed := failed_call(error.response.text)):
                    return failed
                refusal, problem = read_status_error(error), judged_error(error, self._where, self._keys)
            except RefusedAnswer as error:
                refusal, counts = error.refusal, stated_counts(text)
                if error.begun or any(counts):
                    report_lost(lost(*counts))
                problem = judged(refusal, self._where, stated_wait(text), keys=self._keys)
            else:
                report_answer(messages)
                self._remember(trial)
                self._watch_prompt(messages, answer)
                if answer.spent[0] is None and answer.withheld(0) and not answer.calls(0):
                    report_lost(lost())
                return answer
            if "tools" in body and meaning(refusal) == "tools":
                raise UsageError(f"{self._where} takes no tools: leave --tools out; it says: {refusal.line}") from None
            asked, window = body.get(form.length_field, tokens), None
            if isinstance(problem, ContextOverflowError):
                window = find_window(refusal, asked, messages)
            adapted = adapt(form, body, refusal)
            if window is not None and window.free >= least_reply(max_tokens):
                words = f"its context holds {window.tokens:,} tokens: a reply gets what a long conversation leaves"
                trial.change(form.model_copy(update={"window": window}), words)
                trial.max_tokens = window.free
            elif adapted is not None:
                trial.change(*adapted)
                if listed and not trial.form.listed:  # the caller asks for a word
                    self._remember(trial)
                    raise problem from None
            else:
                # Not "from error", whose text may hold secrets; the message has its printable part.
                hint = self._nearest() if refusal.status in NOWHERE or meaning(refusal) == "route" else ""
                raise UsageError(f"{problem}; {hint}".rstrip()) if hint else problem from None
        raise RequestRejectedError(f"{self._where} refuses every form of the request: {refusal.line}")

    def _remember(self, trial: _Trial) -> None:
        """Keep a form that was answered, and report its changes."""
        if trial.changes:
            self._form = trial.form
        for change in trial.changes:
            self._notify(change)

    def _notify(self, change: str) -> None:
        """Report a fact about the endpoint, once."""
        if change not in self._said:
            self._said.add(change)
            LOGGER.warning("%s: %s", self._where, change)

    def _watch_prompt(self, messages: Sequence[Message], answer: ChatReply) -> None:
        """Report an endpoint whose count of prompt tokens stands still while a conversation grows."""
        tokens = answer.spent[0]
        if tokens is not None and self._watch.stands_still(messages, tokens):
            self._notify(
                f"it may forget the start of long conversations: a conversation grew, and its prompt tokens stayed at "
                f"{tokens:,}; give the server a larger context (Ollama: num_ctx)"
            )

    def _nearest(self) -> str:
        """Suggest the address that lists models, if this one does not, or the most similar name among the endpoint's
        models and the package's models; "" if there is none.

        For a folder of this machine the suggestion is to run it here.
        """
        if folder := _folder_here(self._model):
            return f"{folder.removesuffix('; ')}, without --base-url"
        names = _try_models(self._client, self._base_url)
        if names is None and (hint := _other_address(self._client, self._base_url)):
            return hint
        names = names or []
        return did_you_mean(self._model, [name for name in (*names, *WITHOUT_ENDPOINT) if name != self._model])

    def _replies(
        self, body: ChatReply, most: int, max_tokens: int, *, tools: bool
    ) -> list[Completion | ModelError]:
        """Extract up to `most` replies of an answer, splitting its usage; an error in place of a withheld reply.

        With `tools`, calls are replies too.
        """
        count = min(len(body.choices), most)
        prompt, completion = body.spent
        share, rest = divmod(completion or 0, count)
        replies: list[Completion | ModelError] = []
        for index in range(count):
            written = None if completion is None else share + (index < rest)
            usage = self._usage(0 if index else prompt, written)
            text, longest = without_secrets(body.text(index)), max(max_tokens, self._form.least) * CHARACTERS_PER_TOKEN
            reason = "length" if len(text) > longest else body.finish_reason(index)
            calls = body.calls(index) if tools else []
            unreadable = tools and "malformed" in body.choices[index].reason  # Gemini
            why = "" if calls or unreadable else body.withheld(index)
            in_thinking = body.answers_in_thinking(index)
            reply = Completion(
                text=text[:longest],
                finish_reason=reason,
                usage=usage,
                in_thinking=in_thinking,
                thinking="" if in_thinking else without_secrets(body.thinking(index))[:longest],
                thinking_tokens=None if index else body.thinking_tokens,
                calls=tuple(_bounded(call, longest) for call in calls),
            )
            if in_thinking:
                self._notify("its replies stand in the field of its thinking: they are read there")
            replies.append(self._withheld(why, usage) if why else reply)
        return replies

    def _withheld(self, why: str, usage: Usage) -> ReplyWithheldError:
        return ReplyWithheldError(f"{self._where}: {why}", usage)

    def _usage(self, prompt: int | None, completion: int | None) -> Usage:
        cost = None
        if self._price is not None and prompt is not None and completion is not None:
            cost = self._price.cost(prompt, completion)
        return Usage(prompt_tokens=prompt, completion_tokens=completion, cost_usd=cost)


def list_models(base_url: str | None = None, api_key: str | None = None) -> list[str]:
    """Return the names of the models that an endpoint offers, in its order. `base_url` and `api_key` as in
    `OpenAICompatibleModel`.

    Raises `UsageError` for an address that is no endpoint or refuses the key.
    """
    endpoint = read_endpoint(base_url)
    client = EndpointClient(endpoint.url, authorization=endpoint.authorization(api_key), timeout=NAMES_WITHIN)
    try:
        return _listed_models(client, endpoint.url)
    except openai.APIStatusError as error:
        problem = judged_error(error, endpoint.url, endpoint.key_variables)
        hint = _other_address(client, endpoint.url) if error.status_code in NOWHERE else ""
        if hint:
            raise UsageError(f"{endpoint.url} is not there ({error.status_code}): {hint}") from None
        why = problem if isinstance(problem, UsageError) else f"{endpoint.url} does not list its models: {problem}"
        raise UsageError(str(why)) from None
    except (ModelError, PassingFault) as error:
        raise UsageError(f"{endpoint.url} does not list its models: {error}") from None
    except (ValueError, TypeError, LookupError):
        raise UsageError(f"{endpoint.url} does not list its models: its answer to GET /models is no list") from None
    finally:
        client.close()


def _listed_models(client: EndpointClient, base_url: str) -> list[str]:
    listed = json.loads(client.get(f"{base_url}/models", within=NAMES_WITHIN))
    models = listed if isinstance(listed, list) else listed["data"]  # Together answers with the list itself
    names = [str(model["id"]) for model in models[:NAMES_READ]]
    return [name for name in names if name.isprintable() and len(name) <= LONGEST_NAME]


def _try_models(client: EndpointClient, base_url: str) -> list[str] | None:
    """Return the names of the models at an address; None if it lists none."""
    try:
        return _listed_models(client, base_url)
    except (openai.APIStatusError, ModelError, PassingFault, ValueError, TypeError, LookupError):
        return None


def _other_address(client: EndpointClient, base_url: str) -> str:
    """Say that the API is, or may be, under /v1 of a base URL; "" for one with a version in its path."""
    if _VERSION.search(urlsplit(base_url).path):
        return ""
    longer = f"{base_url}/v1"
    return f"the base URL is {longer}" if _try_models(client, longer) else f"most servers answer under {longer}"


_VERSION = re.compile(r"/v\d")


def _bounded(call: ToolCall, longest: int) -> ToolCall:
    """Return a call without secrets, its texts cut at a length."""
    fields = {name: without_secrets(value)[:longest] for name, value in call}
    return ToolCall(**fields)


def _refuses_fields(error: ModelError) -> bool:
    """Return True if a simpler request may succeed."""
    return isinstance(error, RequestRejectedError) and not isinstance(error, ContextOverflowError)
