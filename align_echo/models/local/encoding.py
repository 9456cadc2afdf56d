"""Encode a chat as token ids, piece by piece, for any `transformers` tokenizer with a chat template.

The template's text around messages and the messages' contents are encoded separately. A message is plain text whatever
it contains: no text of an environment, an interface, a critic or a user becomes a special token, nor a token known to
the template (`<think>`, `<tool_call>`), which only replies may contain. A conversation only grows by appending, in
rollouts and in supervised training alike: the opening, then after each reply its closing token and the following
messages. Templates that rewrite earlier turns are refused. Not here: tools, pictures (`opening_after` takes their ids
as they are), and template variables such as dates or thinking switches.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from align_echo.errors import UsageError
from align_echo.models.local.engine import run_bounded
from align_echo.tokens import TokenSequence
from align_echo.types import Message

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

# ---------------------------------------------------------------- chat templates of model folders

CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The project's own chat template (ChatML): later messages never change how an earlier one is written."""

MARK = "Xq{number}qX"
"""Placeholder for a message's content; templates treat it as an ordinary word."""

LONGEST_TEMPLATE = 1_000_000
"""Maximum characters of a template; published models have up to 20,000."""

Roles = tuple[str, ...]

_SYSTEM, _USER, _TURN = ("system",), ("user",), ("assistant", "user")
_USUAL: tuple[Roles, ...] = (
    *(_SYSTEM + _USER + _TURN * turns for turns in range(4)),
    (*_SYSTEM, *_USER, "assistant"),
    *(_USER + _TURN * turns for turns in range(2)),
)
"""Role sequences that nearly every encoder needs, rendered together since a process takes a tenth of a second."""

_SECONDS = 4
_KEPT = 64


class UnboundedTemplateError(UsageError):
    """A chat template that loops, grows, or crashes its renderer. It is not replaced by another template."""


def rendered(tokenizer: PreTrainedTokenizerBase, template: str, roles: Roles) -> str:
    """Return the template's text for marks in these roles, with the header of the next reply.

    Raises `UsageError` if it refuses them, and `UnboundedTemplateError`.
    """
    if template == CHATML_TEMPLATE:
        try:
            own = tokenizer.apply_chat_template(
                _chat(roles), chat_template=template, tokenize=False, add_generation_prompt=True
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise UsageError(_refusal(roles, str(error))) from None
        return str(own)
    if len(template) > LONGEST_TEMPLATE:
        raise UnboundedTemplateError(f"its chat template has more than {LONGEST_TEMPLATE:,} characters")
    texts = _text_cache(template, json.dumps(tokenizer.special_tokens_map, default=str))
    if roles not in texts:
        texts |= _in_process(template, texts.variables, [roles, *(each for each in _USUAL if each not in texts)])
    text = texts[roles]
    if isinstance(text, UsageError):
        raise type(text)(str(text))
    return text


class _Texts(dict[Roles, "str | UsageError"]):
    """Rendered texts or errors of a template by roles, as far as requested. `variables` are JSON."""

    def __init__(self, variables: str) -> None:
        super().__init__()
        self.variables = variables


@lru_cache(maxsize=_KEPT)
def _text_cache(template: str, variables: str) -> _Texts:
    return _Texts(variables)


def _in_process(template: str, variables: str, chats: Sequence[Roles]) -> dict[Roles, str | UsageError]:
    """Render these chats in a process, up to the first that exceeds its limits."""
    request = {
        "task": "render",
        "template": template,
        "variables": json.loads(variables),
        "chats": [_chat(roles) for roles in chats],
    }
    answers, excess = run_bounded(request, seconds=_SECONDS)
    texts: dict[Roles, str | UsageError] = {}
    for roles, answer in zip(chats, answers, strict=False):
        texts[roles] = answer["text"] if "text" in answer else UsageError(_refusal(roles, answer["error"]))
    if excess and len(texts) < len(chats):
        texts[chats[len(texts)]] = UnboundedTemplateError(
            f"to write {len(chats[len(texts)])} short messages, its chat template {excess}"
        )
    return texts


def _chat(roles: Roles) -> list[dict[str, str]]:
    return [{"role": role, "content": MARK.format(number=number)} for number, role in enumerate(roles)]


def _refusal(roles: Roles, why: str) -> str:
    return f"the chat template refuses messages of {', '.join(roles) or 'no role'}: {why}"


# ---------------------------------------------------------------- encoding

CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")
_WORDS = re.compile(r"[\w\s]*")

_TEXTS_KEPT = 8192
"""Size of the cache of encoded message contents: rules and observations repeat at every turn."""


class ChatEncoder:
    """Encodes chats to token ids and decodes replies to text. Thread-safe.

    `stop_ids` are end tokens of the model in addition to those of the template and the tokenizer. Raises `UsageError`
    if the tokenizer or its template cannot be used. A template that rewrites earlier turns is replaced by
    `CHATML_TEMPLATE`, with a warning, if the tokenizer has its two tokens.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, stop_ids: Iterable[int] = ()) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = tokenizer
        self._name = tokenizer.name_or_path or type(tokenizer).__name__
        self._template = _usable_template(tokenizer, self._name)
        self._pieces_by_roles: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise UsageError(f"{self._name} has no fast tokenizer (tokenizer.json): convert it with transformers first")
        self._template_tokenizer = _plain_copy(backend.to_str(), ())
        after_reply = self._encode_template(_texts_after_reply(tokenizer, self._template, ("user",))[0])
        self.end_id = after_reply[0]
        ends = {self.end_id, tokenizer.eos_token_id, *stop_ids} - {None}
        self.stop_ids: tuple[int, ...] = tuple(sorted(int(token) for token in ends))
        control = {str(backend.id_to_token(token)) for token in self.stop_ids} | self._control_tokens()
        self._reply_tokenizer = _plain_copy(backend.to_str(), control)
        self._reply_tokenizer.encode_special_tokens = True
        self._content_tokenizer = self._reply_tokenizer
        if known := self._known_tokens() - control:
            self._content_tokenizer = _plain_copy(backend.to_str(), control | known)
            self._content_tokenizer.encode_special_tokens = True
        self._content = lru_cache(maxsize=_TEXTS_KEPT)(self._encode_content)
        self._check(self._control_tokens() | known)

    # ------------------------------------------------------------ for rollouts and training

    def opening(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Encode the whole chat [T] up to the header of the assistant's next reply. Past replies are encoded from
        text.

        Raises `UsageError` if the template refuses messages in these roles.
        """
        return self._grown(messages)[0]

    def opening_after(self, ahead: Sequence[int], message: Message) -> tuple[int, ...]:
        """Encode the `opening` of one message with ids inserted before its text [T], such as those of a picture."""
        before, after = self._pieces(message.role)
        return (*before, *ahead, *self._content(message.content), *after)

    def continuation(self, messages: Sequence[Message], closed: bool) -> tuple[int, ...]:
        """Encode what follows a reply [T]: its end token unless `closed`, the messages, the next header."""
        pieces = self._pieces("assistant", *(message.role for message in messages))
        ids = self._fill(pieces, messages)
        return ids[1:] if closed else ids

    def text(self, ids: Sequence[int]) -> str:
        """Decode a reply, without its end token."""
        text_ids = list(ids[:-1]) if ids and ids[-1] in self.stop_ids else list(ids)
        return str(self._template_tokenizer.decode(text_ids, skip_special_tokens=False))

    def plain(self, text: str) -> tuple[int, ...]:
        """Encode a reply's text [T]. No text becomes a special token."""
        if self._reply_tokenizer is self._content_tokenizer:
            return self._content(text)
        return tuple(self._reply_tokenizer.encode(text, add_special_tokens=False).ids)

    def supervised(self, messages: Sequence[Message]) -> TokenSequence:
        """Encode the whole chat for training, exactly as a rollout with these replies would.

        A turn is a reply's text and its end token. The replies were not sampled: their log-probabilities are 0.

        Raises `UsageError` if the chat does not end with a reply of the assistant.
        """
        if not messages or messages[-1].role != "assistant":
            raise UsageError("a chat to train on ends with a reply of the assistant")
        before, spans = self._grown(messages[:-1])
        reply = (*self.plain(messages[-1].content), self.end_id)
        ids, turns = (*before, *reply), (*spans, (len(before), len(before) + len(reply)))
        mask = [0] * len(ids)
        for first, end in turns:
            mask[first:end] = [1] * (end - first)
        return TokenSequence(ids, tuple(mask), (0.0,) * len(ids), turns)

    # ------------------------------------------------------------ pieces

    def _grown(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Encode the chat as a rollout would grow it. Return the ids and the spans of replies with end tokens."""
        replies = [number for number, message in enumerate(messages) if message.role == "assistant"]
        heads = [*replies, len(messages)]
        first = messages[: heads[0]]
        ids = list(self._fill(self._pieces(*(message.role for message in first)), first))
        spans = []
        for reply, end in zip(replies, heads[1:], strict=True):
            start = len(ids)
            ids += (*self.plain(messages[reply].content), self.end_id)
            spans.append((start, len(ids)))
            ids += self.continuation(messages[reply + 1 : end], closed=True)
        return tuple(ids), tuple(spans)

    def _fill(self, pieces: Sequence[tuple[int, ...]], messages: Sequence[Message]) -> tuple[int, ...]:
        ids = list(pieces[0])
        for message, piece in zip(messages, pieces[1:], strict=True):
            ids += self._content(message.content)
            ids += piece
        return tuple(ids)

    def _pieces(self, *roles: str) -> tuple[tuple[int, ...], ...]:
        """Encode the template's text before, between and after the contents; after a reply if "assistant" comes first.
        """
        known = self._pieces_by_roles.get(roles)
        if known is None:
            if roles[:1] == ("assistant",):
                texts = _texts_after_reply(self._tokenizer, self._template, roles[1:])
            else:
                texts = _texts(self._tokenizer, self._template, roles)
            known = self._pieces_by_roles[roles] = tuple(self._encode_template(text) for text in texts)
        return known

    def _encode_template(self, text: str) -> tuple[int, ...]:
        return tuple(self._template_tokenizer.encode(text, add_special_tokens=False).ids)

    def _encode_content(self, text: str) -> tuple[int, ...]:
        return tuple(self._content_tokenizer.encode(text, add_special_tokens=False).ids)

    def _control_tokens(self) -> set[str]:
        """Return the tokens that control the chat: all special tokens, and the added tokens written by the template."""
        texts = _texts(self._tokenizer, self._template, ("system", "user", "assistant", "user"))
        written = {token for text in texts for token in self._encode_template(text)}
        added = self._template_tokenizer.get_added_tokens_decoder()
        return {
            token.content
            for number, token in added.items()
            if token.special or (number in written and not token.content.isspace())
        }

    def _known_tokens(self) -> set[str]:
        """Return the added tokens in the template's source, except plain words."""
        names = [token.content for token in self._template_tokenizer.get_added_tokens_decoder().values()]
        return {name for name in names if name in self._template and not _WORDS.fullmatch(name)}

    def _check(self, control: set[str]) -> None:
        """Refuse a tokenizer that reads a control token's text as the token, or that loses or adds text."""
        if self.end_id not in self._template_tokenizer.get_added_tokens_decoder():
            raise UsageError(f"the chat template of {self._name} does not close a reply with a token of its own")
        numbers = {self._template_tokenizer.token_to_id(token) for token in control} | set(self.stop_ids)
        for token in sorted(control):
            if not numbers.isdisjoint(self._encode_content(token)):
                raise UsageError(f"the tokenizer of {self._name} cannot write {token} as plain text")
        for text in ("go to cabinet 1", "\nYou see nothing.\n"):
            if self._template_tokenizer.decode(list(self._encode_content(text)), skip_special_tokens=False) != text:
                raise UsageError(f"the tokenizer of {self._name} does not give back the text {text!r} that it encoded")


def chatml_tokenizer(backend: Tokenizer) -> PreTrainedTokenizerBase:
    """Wrap a trained tokenizer with the special tokens `CHATML_TOKENS` and "<|endoftext|>" as a `transformers`
    tokenizer.

    Its template is `CHATML_TEMPLATE`; `<|im_end|>` ends a text, "<|endoftext|>" pads.
    """
    from transformers import PreTrainedTokenizerFast

    make: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
    tokenizer = make(
        tokenizer_object=backend,
        eos_token=CHATML_TOKENS[1],
        pad_token="<|endoftext|>",
        additional_special_tokens=[CHATML_TOKENS[0]],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHATML_TEMPLATE
    return tokenizer


# ---------------------------------------------------------------- copies of a tokenizer


def _plain_copy(state: str, special: Iterable[str]) -> Tokenizer:
    """Copy a tokenizer, so that no other thread reconfigures it. Added tokens named in `special` become special."""
    from tokenizers import Tokenizer

    wanted = set(special)
    fields = json.loads(state)
    for token in fields["added_tokens"]:
        token["special"] = token["special"] or token["content"] in wanted
    copy = Tokenizer.from_str(json.dumps(fields))
    copy.no_truncation()
    copy.no_padding()
    return copy


def _split(text: str, numbers: Iterable[int]) -> list[str]:
    """Split the text at the marks. Raises `UsageError` unless each mark occurs once and in order."""
    pieces = []
    for number in numbers:
        before, mark, text = text.partition(MARK.format(number=number))
        if not mark or mark in text:
            raise UsageError("the chat template does not write every message once and in order")
        pieces.append(before)
    return [*pieces, text]


def _texts(tokenizer: PreTrainedTokenizerBase, template: str, roles: tuple[str, ...]) -> list[str]:
    return _split(rendered(tokenizer, template, roles), range(len(roles)))


def _texts_after_reply(
    tokenizer: PreTrainedTokenizerBase, template: str, roles: tuple[str, ...], past: Sequence[str] = ("system", "user")
) -> list[str]:
    """Return the template's text around messages of these roles after a reply to `past`."""
    before = rendered(tokenizer, template, tuple(past))
    full_text = rendered(tokenizer, template, (*past, "assistant", *roles))
    reply = before + MARK.format(number=len(past))
    if not full_text.startswith(reply):
        raise UsageError("the chat template rewrites earlier turns")
    return _split(full_text.removeprefix(reply), range(len(past) + 1, len(past) + 1 + len(roles)))


def _usable_template(tokenizer: PreTrainedTokenizerBase, name: str) -> str:
    """Return the tokenizer's template if it only appends, else `CHATML_TEMPLATE` if possible. Raises `UsageError`."""
    template = tokenizer.chat_template
    if isinstance(template, Mapping):  # templates by name; transformers uses this one
        template = template.get("default")
    try:
        if not isinstance(template, str):
            raise UsageError("there is no chat template")
        _check_appends(tokenizer, template)
    except UnboundedTemplateError as error:
        raise UnboundedTemplateError(f"{name} cannot be used: {error}") from None
    except UsageError as error:
        vocabulary = tokenizer.get_vocab()
        if not all(token in vocabulary for token in CHATML_TOKENS):
            raise UsageError(
                f"{name} cannot hold a conversation by token ids: {error}; give it a template (chat_template.jinja) "
                "that writes each message once, after all that came before"
            ) from None
        warnings.warn(f"{name}: {error}; plain ChatML is used in its place", stacklevel=3)
        return CHATML_TEMPLATE
    return template


def _check_appends(tokenizer: PreTrainedTokenizerBase, template: str) -> None:
    """Raise `UsageError` unless the text after a reply is the same after one, two and three turns."""
    first = _texts_after_reply(tokenizer, template, ("user",))
    past = ["system", "user"]
    for _ in range(2):
        past += ["assistant", "user"]
        if _texts_after_reply(tokenizer, template, ("user",), past) != first:
            raise UsageError("the chat template writes later turns otherwise than earlier ones")
