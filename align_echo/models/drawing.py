"""Ask a model several questions at once: draw replies to a conversation (`draw`), or choose among words (`choose`).

Draws are one per sample number, all at once if the model supports it. A sample number distinguishes draws of one
request (`model_for_sample`). The reply for a number does not depend on the other numbers drawn with it.

A choice says which of some words a model would say next, and how probable each is. Only the first token of the next
reply matters: one forward pass. A model that can do this for many conversations at once has a method `choose`
(`Choose`):

- a local model returns the probability of the words' first differing tokens, given the tokens of their common prefix;
- an OpenAI-compatible endpoint returns its 20 most likely first tokens. A token counts for a word if it is a prefix of
  exactly that word (ignoring case and surrounding spaces).

Any other model writes a reply, which must be one of the words, and gives no probabilities. `ScriptedModel` says the
replies of a script. Not here: asking with the same messages (`agents/conversation.py`), selecting among replies, and
the meaning of the words and the question (`align_echo.critic.ask`).
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from align_echo.errors import ModelError, UsageError
from align_echo.types import ChatModel, Completion, Message, WordChoice

# ---------------------------------------------------------------- draw replies


def model_for_sample(model: ChatModel, sample: int) -> ChatModel:
    """Return the model for one sample number, using its method `with_sample`.

    A model without this method has no memory and serves as its own sample.
    """
    with_sample: Callable[[int], ChatModel] | None = getattr(model, "with_sample", None)
    return with_sample(sample) if with_sample is not None else model


@runtime_checkable
class BatchChatModel(ChatModel, Protocol):
    """A model that draws replies for multiple sample numbers at once, as `draw_each` does."""

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]: ...


def draw(
    model: ChatModel, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
) -> list[Completion]:
    """Draw one reply per sample, in order, each equal to `model_for_sample(model, sample).complete(...)`.

    If one request draws all of them, its usage is split among the replies, so the sum is right. Raises the first
    `ModelError`.
    """
    drawn = []
    for reply in draw_each(model, messages, samples, temperature=temperature, max_tokens=max_tokens):
        if isinstance(reply, ModelError):
            raise reply
        drawn.append(reply)
    return drawn


def draw_each(
    model: ChatModel, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int
) -> list[Completion | ModelError]:
    """Draw one reply per sample as `draw` does, with a `ModelError` in place of a failed reply.

    A model without the protocol `BatchChatModel` is asked one sample at a time, and no more after the first failure.
    """
    if not samples:
        return []
    if isinstance(model, BatchChatModel):
        return model.draw(messages, samples, temperature=temperature, max_tokens=max_tokens)
    drawn: list[Completion | ModelError] = []
    for sample in samples:
        try:
            drawn.append(
                model_for_sample(model, sample).complete(messages, temperature=temperature, max_tokens=max_tokens)
            )
        except ModelError as error:
            left = len(samples) - len(drawn) - 1
            return [*drawn, error, *[ModelError(f"not asked, since another sample failed: {error}")] * left]
    return drawn


# ---------------------------------------------------------------- choose among words

MARKS = "*_`\"'"
"""Characters around a word for emphasis or quotation."""

_FRAMED = re.compile(
    r"(?:<\w+>|\\boxed\{|```(?:json)?|\{|>|[\s*_`\"'\ufeff]|(?:answer|verdict|action|judge?ment|label)[*_`\"']*\s*:)*"
    r"(?P<word>.*?)"
    r"(?:\.?[\s*_`\"'}]|</\w+>)*\.?",
    re.DOTALL,
)
"""A word with what models put around it."""

LONGEST_FRAMED = 200
"""Most characters of a word with its frame. Matching takes their square."""

MAX_TOKENS = 8
"""Token limit of a one-word reply."""

THINKING_TOKENS = 2048
"""Token limit of a reply that starts with thinking."""


Choose = Callable[[Sequence[Sequence[Message]], Sequence[str]], list[WordChoice | ModelError]]
"""Conversations and words -> a choice for each conversation, as the function `choose` returns it."""


def choose(
    model: ChatModel, conversations: Sequence[Sequence[Message]], words: Sequence[str]
) -> list[WordChoice | ModelError]:
    """Choose the next word of each conversation, in order. Return a `ModelError` in place of a failed choice.

    Nothing is sampled: the same conversation always has the same answer. Raises `UsageError` for fewer than two words,
    for words that cannot be distinguished, and for the causes listed at the model's `complete`.
    """
    check_words(words)
    if not conversations:
        return []
    choose_at_once: Choose | None = getattr(model, "choose", None)
    if choose_at_once is not None:
        return choose_at_once(conversations, words)
    return [_choose_by_reply(model, messages, words) for messages in conversations]


def check_words(words: Sequence[str]) -> None:
    """Raise `UsageError` unless there are at least two non-empty words, and they differ by more than case."""
    plain = [_plain(word) for word in words]
    if len(plain) < 2 or len(set(plain)) < len(plain) or not all(plain):
        raise UsageError(f"give two words or more that differ by more than case to choose from, not {list(words)}")


def word_choice(reply: Completion, words: Sequence[str]) -> WordChoice:
    """Parse a full reply as one of the words, or as none of them.

    Case, a final full stop, emphasis, quotation marks, a label, tags, braces or a fence around it and text up to
    `</think>` are ignored.
    """
    text = _plain(reply.text.rpartition("</think>")[2])
    framed = _FRAMED.fullmatch(text) if len(text) <= LONGEST_FRAMED else None
    chosen = next((word for word in words if framed and _plain(word) == framed["word"]), None)
    return WordChoice(said=chosen, usage=reply.usage, cached=reply.cached)


def listed_choice(listed: Sequence[tuple[str, float]], words: Sequence[str]) -> WordChoice:
    """Compute a choice from the most likely first tokens: their texts and natural log-probabilities, at least one.

    An unlisted word gets its upper bound: the probability of the least likely listed token, or the remaining mass.
    """
    totals = dict.fromkeys(words, 0.0)
    for token, logprob in listed:
        word = _begun_by(token, words)
        if word is not None:
            totals[word] += math.exp(logprob)
    likeliest, _ = max(listed, key=lambda entry: entry[1])
    chances = [math.exp(logprob) for _, logprob in listed]
    most = max(min(*chances, 1 - math.fsum(chances)), 0.0) if any(totals.values()) else 0.0
    logprobs = tuple(math.log(min(total or most, 1.0)) if total or most else -math.inf for total in totals.values())
    return WordChoice(said=_begun_by(likeliest, words), logprobs=logprobs)


def more_to_read(listed: Sequence[tuple[str, float]], words: Sequence[str]) -> int:
    """Return the number of reply tokens to read if the listed first tokens do not decide: 0 if they do.

    The number is small after an opening mark, large after `<think>`.
    """
    if any(_begun_by(token, words) for token, _ in listed):
        return 0
    first = _plain(max(listed, key=lambda entry: entry[1])[0])
    if first.startswith("<"):
        return THINKING_TOKENS
    return MAX_TOKENS if not first.strip(MARKS) else 0


def still_thinks(reply: Completion) -> bool:
    """Return True if a short reply was cut off in thinking: before its first letter, or after an open `<think>`."""
    text = reply.text.strip().lower()
    return reply.finish_reason == "length" and (not text or (text.startswith("<think") and "</think>" not in text))


def _begun_by(token: str, words: Sequence[str]) -> str | None:
    """Return the only word with this prefix, ignoring case; None if there is no such word or more than one."""
    text = _plain(token)
    matching_words = [word for word in words if _plain(word).startswith(text)] if text else []
    return matching_words[0] if len(matching_words) == 1 else None


def _plain(text: str) -> str:
    return text.strip().lower()


def _choose_by_reply(model: ChatModel, messages: Sequence[Message], words: Sequence[str]) -> WordChoice | ModelError:
    try:
        return word_choice(model.complete(messages, temperature=0.0, max_tokens=MAX_TOKENS), words)
    except ModelError as error:
        return error


# ---------------------------------------------------------------- models that say what a script says

Written = str | Completion | WordChoice
Script = Sequence[Written | Exception] | Callable[[Sequence[Message]], Written]


class ScriptedModel:
    """Replies from a list, in order, or from a function of the messages. `requests` holds the received messages.

    An exception in the list is raised in its turn. Raises `ModelError` when the list is used up. A `WordChoice`
    answers only `choose`, which parses any other reply with `word_choice`.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[tuple[Message, ...]] = []

    @property
    def name(self) -> str:
        """Name set at construction."""
        return self._name

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Return the next reply; temperature and length are ignored."""
        reply = self._next(messages)
        if isinstance(reply, WordChoice):
            raise UsageError(f"the script of {self._name} has a choice of words where a reply is asked for")
        return reply

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[WordChoice | ModelError]:
        """Return the next replies, one per conversation."""
        chosen: list[WordChoice | ModelError] = []
        for messages in conversations:
            try:
                reply = self._next(messages)
            except ModelError as error:
                chosen.append(error)
            else:
                chosen.append(word_choice(reply, words) if isinstance(reply, Completion) else reply)
        return chosen

    def _next(self, messages: Sequence[Message]) -> Completion | WordChoice:
        with self._lock:
            turn = len(self.requests)
            self.requests.append(tuple(messages))
        if callable(self._script):
            reply: Written | Exception = self._script(messages)
        elif turn < len(self._script):
            reply = self._script[turn]
        else:
            raise ModelError(f"the script of {self._name} has {len(self._script)} replies; another was asked for")
        if isinstance(reply, Exception):
            raise reply
        return Completion(text=reply) if isinstance(reply, str) else reply
