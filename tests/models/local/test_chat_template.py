"""Chat templates: the model's own, one of several, or a user's; and ids that are the tokenizer's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerBase

from align_echo.errors import UsageError
from align_echo.models.choosing import read_name
from align_echo.models.local.chat_template import CHATML_TEMPLATE, ChatFormat
from align_echo.models.local.encoding import AWKWARD, ChatEncoder
from align_echo.models.local.loading import content_hash, load_encoder
from align_echo.types import Message
from tests.models.local.families import SENTENCE_PIECE, TEMPLATES, sentence_piece
from tests.models.local.tiny import tiny_tokenizer

ZEPHYR = TEMPLATES["zephyr"]
HELLO = [Message(role="user", content="hello")]


def own_ids(tokenizer: PreTrainedTokenizerBase, messages: list[Message]) -> tuple[int, ...]:
    """What the tokenizer itself makes of a chat."""
    chat = [{"role": message.role, "content": message.content} for message in messages]
    ids: Any = tokenizer.apply_chat_template(chat, tokenize=True, add_generation_prompt=True, return_dict=False)
    return tuple(ids)


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("form", SENTENCE_PIECE)
def test_ids_are_those_of_every_form_of_sentence_piece(form):
    tokenizer = sentence_piece(form, ZEPHYR)
    encoder = ChatEncoder(tokenizer)
    for messages in (AWKWARD, HELLO, [*HELLO, Message(role="assistant", content="look"), *HELLO]):
        assert encoder.opening(messages) == own_ids(tokenizer, list(messages))
    assert encoder.text(encoder.plain("go to desk 1")).strip() == "go to desk 1"


def test_a_reply_is_encoded_as_it_follows_the_header_and_not_as_a_text_of_its_own():
    tokenizer = sentence_piece("prepended", ZEPHYR)
    encoder = ChatEncoder(tokenizer)
    chat = [*HELLO, Message(role="assistant", content="look")]
    whole = own_ids(tokenizer, chat)
    start = len(encoder.opening(HELLO))
    assert encoder.plain("look") == whole[start : start + len(encoder.plain("look"))]
    assert encoder.plain("look") != tuple(tokenizer("look", add_special_tokens=False)["input_ids"])
    assert encoder.supervised(chat).ids == (*encoder.opening(HELLO), *encoder.plain("look"), encoder.end_id)


def test_names_of_tokens_stay_text_in_a_vocabulary_that_holds_them():
    tokenizer = sentence_piece("unigram", ZEPHYR)
    encoder = ChatEncoder(tokenizer)
    end = tokenizer.convert_tokens_to_ids("</s>")
    assert end in tokenizer("go </s>", add_special_tokens=False)["input_ids"]
    assert encoder.opening([Message(role="user", content="go </s> go")]).count(end) == 1


def test_tokens_that_eat_blanks_beside_them_do_so():
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken("<|turn|>", lstrip=True, rstrip=True)]})
    tokenizer.chat_template = CHATML_TEMPLATE.replace("<|im_start|>", "<|turn|>")
    assert ChatEncoder(tokenizer).opening(AWKWARD) == own_ids(tokenizer, list(AWKWARD))


def test_where_ids_differ_one_line_says_where():
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["don't"])
    tokenizer.chat_template = CHATML_TEMPLATE + "{# don't #}"
    with pytest.warns(UserWarning, match="may differ from the tokenizer's own: a trial does from token") as seen:
        ChatEncoder(tokenizer)
    assert len(seen) == 1


# ---------------------------------------------------------------- which template

FORMS = {
    name: CHATML_TEMPLATE.replace("message.content", f"'{name} ' + message.content") for name in ("plain", "tools")
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer with two named templates, and a user's file beside it."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = dict(FORMS)
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "own.jinja").write_text(CHATML_TEMPLATE.replace("message.content", "(how or 'own') + message.content"))
    return tmp_path


def said(encoder: ChatEncoder) -> str:
    return encoder.text(encoder.opening(HELLO)).partition("user\n")[2].partition("<")[0]


def test_a_template_is_chosen_by_name_or_file_and_takes_variables(folder):
    model, own = str(folder / "model"), str(folder / "own.jinja")
    assert said(load_encoder(model, ChatFormat("tools"))) == "tools hello"
    assert said(load_encoder(model, ChatFormat("plain"))) == "plain hello"
    assert said(load_encoder(model, ChatFormat(own))) == "ownhello"
    assert said(load_encoder(model, ChatFormat(own, '{"how": "loud "}'))) == "loud hello"


def test_a_model_without_a_default_template_names_those_it_has(folder):
    with pytest.raises(UsageError, match="templates named plain, tools; choose one by --chat-template FILE or"):
        load_encoder(str(folder / "model"))


def test_a_template_that_cannot_be_read_is_one_line(folder):
    with pytest.raises(UsageError, match=r"none\.jinja: there is no file .*none\.jinja, nor is it"):
        load_encoder(str(folder / "model"), ChatFormat("none.jinja"))
    (folder / "shut.jinja").write_text("{% for m in messages %}{{ m.role + m.content }}{% endfor %}")
    with pytest.raises(UsageError, match=r"^--chat-template .*shut\.jinja does not close a reply"):
        load_encoder(str(folder / "model"), ChatFormat(str(folder / "shut.jinja")))
    with pytest.raises(UsageError, match="--template-args sets no messages"):
        ChatFormat(args='{"messages": []}')
    for text in ("{", "[1]", "thinking"):
        with pytest.raises(UsageError, match="--template-args takes a JSON object"):
            ChatFormat(args=text)


def test_another_chat_format_is_another_model_to_caches_and_records(folder):
    model, own = str(folder / "model"), str(folder / "own.jinja")
    encoders = [load_encoder(model, ChatFormat(own, args)) for args in ("", '{"how": "x"}')]
    encoders.append(load_encoder(model, ChatFormat("plain")))
    weights = content_hash(folder / "model")
    assert len({weights, *(encoder.identify(weights) for encoder in encoders)}) == 4
    (folder / "model" / "chat_template.jinja").write_text("another")
    assert content_hash(folder / "model") != weights


@pytest.mark.parametrize("name", ["pocket", "gpt-5", "novice"])
def test_a_chat_template_is_for_models_that_take_token_ids(name):
    with pytest.raises(UsageError, match=f"--chat-template.* {name}"):
        read_name(name, chat=ChatFormat("own.jinja"))
    assert read_name("transformers:x", chat=ChatFormat("own.jinja")).chat.template == "own.jinja"


# ---------------------------------------------------------------- roles

STRICT = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SILENT = CHATML_TEMPLATE.replace("{{ '<", "{% if message.role != 'system' %}{{ '<", 1).replace(
    "{% endfor %}", "{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("template", [STRICT, SILENT])
def test_a_template_without_a_system_role_gets_its_text_in_the_first_user_turn(template):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    chat = [Message(role="system", content="Be brief."), *HELLO, Message(role="assistant", content="look"), *HELLO]
    merged = [Message(role="user", content="Be brief.\n\nhello"), *chat[2:]]
    assert ChatEncoder(tokenizer).opening(chat) == ChatEncoder(tiny_tokenizer()).opening(merged)


def test_a_template_that_demands_alternating_roles_gets_them():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = STRICT
    chat = [*HELLO, Message(role="user", content="again"), Message(role="assistant", content="look"), *HELLO]
    merged = [Message(role="user", content="hello\n\nagain"), *chat[2:]]
    assert ChatEncoder(tokenizer).opening(chat) == ChatEncoder(tiny_tokenizer()).opening(merged)
    assert ChatEncoder(tiny_tokenizer()).opening(chat) != ChatEncoder(tiny_tokenizer()).opening(merged)
