"""The pocket model's tokenizer: byte-level BPE trained on its own corpus, ChatML around the messages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from align_echo.errors import UsageError
from align_echo.models.local.encoding import CHATML_TOKENS, chatml_tokenizer
from align_echo.train.sft import Demonstration

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PADDING = "<|endoftext|>"

WHOLE = ("correct", "wrong")
"""Replies that must be one token each: the intuitive critic's verdicts (GAIA, section 3)."""

_OFTEN = 10_000


def train_tokenizer(demonstrations: Iterable[Demonstration], *, size: int) -> PreTrainedTokenizerBase:
    """A tokenizer of at most `size` entries. The same demonstrations in the same order give the same one.

    Raises `UsageError` if `size` is too small for the words of `WHOLE`.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PADDING, *CHATML_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    whole = (word for word in WHOLE for _ in range(_OFTEN))
    tokenizer.train_from_iterator(itertools.chain(_texts(demonstrations), whole), trainer)
    split = [word for word in WHOLE if len(tokenizer.encode(word).ids) > 1]
    if split:
        raise UsageError(f"a tokenizer of {size} entries splits {', '.join(split)}: ask for more")
    return chatml_tokenizer(tokenizer)


def _texts(demonstrations: Iterable[Demonstration]) -> Iterator[str]:
    for demonstration in demonstrations:
        for message in demonstration.messages:
            yield message.content
