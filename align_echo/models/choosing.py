"""Which of some given words a model would say next, and how probable each is: one forward pass for a one-word verdict.

Of each conversation only the first token of the next reply is looked at. A model that can do so for many conversations
at once has a method `choose` (`Choose`):

- a local model tells the probability of the words' first differing tokens, as it would write them, given the tokens
  that the words begin with alike;
- an OpenAI-compatible endpoint tells its 20 likeliest first tokens. Of those, each that begins exactly one of the words
  (in any case of letters, spaces around it aside) counts for that word.

Any other model is asked for a reply, which must be one of the words, and gives no probabilities. Left out: what the
words mean and what is asked (`align_echo.critic.verdict`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from align_echo.errors import ModelError, UsageError
from align_echo.types import ChatModel, Completion, Message, WordChoice

MARKS = "*_`\"'"
"""Around a word they emphasise or quote it."""

MAX_TOKENS = 8
"""How many tokens a reply that is to be one word may have."""

THINKING_TOKENS = 2048
"""How many tokens a reply that begins by thinking aloud may have."""


Choose = Callable[[Sequence[Sequence[Message]], Sequence[str]], list[WordChoice | ModelError]]
"""The conversations and the words -> what comes next in each conversation, as the function `choose` gives it."""


def choose(
    model: ChatModel, conversations: Sequence[Sequence[Message]], words: Sequence[str]
) -> list[WordChoice | ModelError]:
    """For each conversation, in order, what the model holds of the words as its next reply, or why it could not say.

    Nothing is drawn: the same conversation has the same answer. Raises `UsageError` for fewer than two words, for words
    that cannot be told apart, and for what the model's `complete` raises it for.
    """
    check_words(words)
    if not conversations:
        return []
    choose_at_once: Choose | None = getattr(model, "choose", None)
    if choose_at_once is not None:
        return choose_at_once(conversations, words)
    return [_choice_of_reply(model, messages, words) for messages in conversations]


def check_words(words: Sequence[str]) -> None:
    """Raise `UsageError` unless there are two words or more that differ by more than case, and none is empty."""
    plain = [_plain(word) for word in words]
    if len(plain) < 2 or len(set(plain)) < len(plain) or not all(plain):
        raise UsageError(f"give two words or more that differ by more than case to choose from, not {list(words)}")


def word_choice(reply: Completion, words: Sequence[str]) -> WordChoice:
    """What a whole reply says: the one word, in any case of letters, with or without a full stop, emphasis or quotation
    marks, after what it thought aloud; else none of them.
    """
    text = _plain(reply.text.rpartition("</think>")[2].strip().strip(MARKS))
    chosen = next((word for word in words if _plain(word) in (text, text.removesuffix("."))), None)
    return WordChoice(said=chosen, usage=reply.usage, cached=reply.cached)


def listed_choice(listed: Sequence[tuple[str, float]], words: Sequence[str]) -> WordChoice:
    """What the likeliest first tokens say: `listed` are their texts and natural log-probabilities, at least one.

    A word that is not listed is held as likely as it may be at most: as the last one listed, or all that is left.
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
    """How many tokens of the reply must be read to know the word, where its likeliest first token is none of the words
    and none is listed: few behind a mark, many behind `<think>`; 0 where the list says all there is.
    """
    if any(_begun_by(token, words) for token, _ in listed):
        return 0
    first = _plain(max(listed, key=lambda entry: entry[1])[0])
    if first.startswith("<"):
        return THINKING_TOKENS
    return MAX_TOKENS if not first.strip(MARKS) else 0


def _begun_by(token: str, words: Sequence[str]) -> str | None:
    """The one word that a token's text begins, in any case of letters; None if it begins none or several."""
    text = _plain(token)
    begun = [word for word in words if _plain(word).startswith(text)] if text else []
    return begun[0] if len(begun) == 1 else None


def _plain(text: str) -> str:
    return text.strip().lower()


def _choice_of_reply(model: ChatModel, messages: Sequence[Message], words: Sequence[str]) -> WordChoice | ModelError:
    try:
        return word_choice(model.complete(messages, temperature=0.0, max_tokens=MAX_TOKENS), words)
    except ModelError as error:
        return error
