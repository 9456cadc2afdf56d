"""Choose a word: which of some words a model would say next, and how probable each is. One forward pass per verdict.

Only the first token of the next reply matters. A model that can do this for many conversations at once has a method
`choose` (`Choose`):

- a local model returns the probability of the words' first differing tokens, given the tokens of their common prefix;
- an OpenAI-compatible endpoint returns its 20 most likely first tokens. A token counts for a word if it is a prefix of
  exactly that word (ignoring case and surrounding spaces).

Any other model writes a reply, which must be one of the words, and gives no probabilities. Not here: the meaning of
the words and the question (`align_echo.critic.verdict`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from align_echo.errors import ModelError, UsageError
from align_echo.types import ChatModel, Completion, Message, WordChoice

MARKS = "*_`\"'"
"""Characters around a word for emphasis or quotation."""

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

    Case, a final full stop, emphasis, quotation marks and text up to `</think>` are ignored.
    """
    text = _plain(reply.text.rpartition("</think>")[2].strip().strip(MARKS))
    chosen = next((word for word in words if _plain(word) in (text, text.removesuffix("."))), None)
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
