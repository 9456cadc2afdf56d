"""Chat templates as their families published them, in the copies that TRL ships: ids are the tokenizer's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import trl
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from align_echo.errors import UsageError
from align_echo.models.local.encoding import AWKWARD, ChatEncoder
from tests.models.local.tiny import tiny_backend

FILES = {
    file.stem: file
    for file in sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
    if not file.stem.endswith("_training")
}
OF_PARTS = {"idefics3", "llava_next", "smolvlm"}
"""They write messages that are lists of texts and images, and no plain text."""

_TOKEN = re.compile(r"<[|｜][^>\s'\"{}]*>|<[a-z_]+[|]>|</?[a-zA-Z_]+>|\[/?[A-Z_]+\]")
_END = re.compile(
    r"<\|(im_end|eot_id|eot|end|return|END_OF_TURN_TOKEN)\|>|<end_of_turn>|<turn\|>|<｜end▁of▁sentence｜>"
)


def tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Build a tokenizer that knows the tokens that the template names."""
    template = FILES[name].read_text(encoding="utf-8")
    named = sorted(set(_TOKEN.findall(template)))
    end = next((token for token in named if _END.fullmatch(token)), "</s>")
    make: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
    made = make(
        tokenizer_object=tiny_backend(tuple(dict.fromkeys(["<s>", end, *named]))), bos_token="<s>", eos_token=end,
        pad_token=end, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    made.chat_template = template
    return made


def test_the_package_has_templates_of_many_families():
    assert len(FILES) >= 30


@pytest.mark.parametrize("name", sorted(FILES.keys() - OF_PARTS))
def test_a_conversation_has_the_tokenizers_own_ids_at_every_turn(name):
    made = tokenizer(name)
    encoder, chat = ChatEncoder(made), [message.model_dump(include={"role", "content"}) for message in AWKWARD]
    if name == "gemma":  # refuses system messages
        chat[:2] = [{"role": "user", "content": f"{chat[0]['content']}\n\n{chat[1]['content']}"}]
    for left_out in (4, 2, 0):
        own: Any = made.apply_chat_template(
            chat[: len(chat) - left_out], tokenize=True, add_generation_prompt=True, return_dict=False
        )
        assert encoder.opening(AWKWARD[: len(AWKWARD) - left_out]) == tuple(own)


@pytest.mark.parametrize("name", sorted(OF_PARTS))
def test_a_template_that_takes_no_text_is_refused_in_a_line(name):
    with pytest.raises(UsageError, match="cannot hold a conversation: the chat template") as refused:
        ChatEncoder(tokenizer(name))
    assert "\n" not in str(refused.value)
