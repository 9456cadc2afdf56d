"""Encode a chat as token ids, for any `transformers` tokenizer with a chat template.

The ids are those that the tokenizer itself gives for the template's text (`apply_chat_template`), with one exception: a
message is plain text whatever it contains. No text of an environment, an interface, a critic or a user becomes a
special token, nor a token known to the template (`<think>`, `<tool_call>`), which only replies may contain.

A reply stays in the history by its sampled ids where the template goes on from it: then a conversation only grows by
appending. Where the template writes the past in another way (it leaves out thoughts, or moves the system message), the
history is encoded from text, and the call goes on from the longest common prefix. Supervised training uses the same
ids. Not here: pictures (`opening_after` takes their ids as they are).
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from align_echo.errors import TokenDriftError, UsageError
from align_echo.models.call_forms import FORMS, Reading, find_form
from align_echo.models.local.chat_template import (
    CHATML_TEMPLATE,
    MARK,
    OWN_FORMAT,
    Chat,
    ChatFormat,
    ChatTemplate,
    UnboundedTemplateError,
    find_template,
    marked_chat,
)
from align_echo.tokens import TokenSequence, join
from align_echo.types import NO_REPLY, Message, Tokens, ToolCall

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")

_WORDS = re.compile(r"[\w\s]*")
_GUARD = f"\ue000{secrets.token_hex(8)}\ue000"
"""A text that no message contains: it breaks up the names of tokens in messages while a template writes them."""

_TEXTS_KEPT = 8192
"""Size of the cache of encoded texts: rules and observations repeat at every turn."""

_CONTEXTS_KEPT = 512
"""Number of conversations whose ids are kept, to go on from."""

AWKWARD: Sequence[Message] = (
    Message(role="system", content="  Rules: be brief.\n"),
    Message(role="user", content="\n\nYou see 3 things: a mug, Ünïcødé 日本語 😀.\t\tdon't  stop  "),
    Message(role="assistant", content=" look\n at <b>it</b>"),
    Message(role="user", content="\n Nothing happens. \n\n1234567\u00a0x"),
    Message(role="assistant", content="done\n\n"),
    Message(role="user", content="  OK. "),
)
"""A conversation in which tokenizers and templates treat spaces, line breaks and rare signs in their own ways."""


@dataclass(frozen=True)
class _Context:
    """What a call is asked with: its text, guarded, and its ids [T]."""

    text: str
    ids: tuple[int, ...]


class ChatEncoder:
    """Encodes chats to token ids and decodes replies to text. Thread-safe.

    `stop_ids` are end tokens of the model in addition to those of the template and the tokenizer. `chat` replaces
    the tokenizer's own template or sets variables of it. Raises `UsageError` if the tokenizer or its template cannot be
    used. Warns in one line if ids differ from the tokenizer's own.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        stop_ids: Iterable[int] = (),
        chat: ChatFormat = OWN_FORMAT,
    ) -> None:
        from tokenizers import Tokenizer

        self._name = tokenizer.name_or_path or type(tokenizer).__name__
        self._format = chat
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise UsageError(f"{self._name} has no fast tokenizer (tokenizer.json): convert it with transformers first")
        given = f"--chat-template {chat.template}" if chat.template else ""
        self._template_name = given or f"the chat template of {self._name}"
        try:
            source = find_template(tokenizer, chat.template)
        except UsageError as error:
            raise UsageError(f"{error}" if given else f"{self._name} cannot hold a conversation: {error}") from None
        try:
            special = getattr(tokenizer, "special_tokens_map", {})
            self._template = ChatTemplate(source, {**special, **chat.variables})
        except UnboundedTemplateError as error:
            raise UnboundedTemplateError(f"{given or self._name} cannot be used: {error}") from None
        except UsageError as error:
            raise UsageError(f"{given or self._name} cannot hold a conversation: {error}") from None
        self._calls = find_form(self.template)
        self._template_tokenizer = _plain_copy(backend.to_str(), ())
        self._read_tokens()
        self._content_tokenizer = _plain_copy(backend.to_str(), self._control | self._known)
        self._guard_id = int(self._content_tokenizer.token_to_id(_GUARD) or 0)
        self._segment = lru_cache(maxsize=_TEXTS_KEPT)(self._encode_segment)
        self._guarded = lru_cache(maxsize=_TEXTS_KEPT)(self._guard)
        self._decoded = lru_cache(maxsize=_TEXTS_KEPT)(self._decode)
        self._contexts: OrderedDict[tuple[Any, ...], _Context] = OrderedDict()
        self._lock = threading.Lock()
        self._learn_reply()
        ends = {self.end_id, tokenizer.eos_token_id, *stop_ids} - {None}
        self.stop_ids: tuple[int, ...] = tuple(sorted(int(token) for token in ends))
        self._check(getattr(tokenizer, "unk_token_id", None))

    @property
    def template(self) -> str:
        """Return the template in use."""
        return self._template.source

    def identify(self, weights: str) -> str:
        """Return the hash of a model's files, changed by what replaces their chat format."""
        if not weights or self._format == OWN_FORMAT:
            return weights
        return hashlib.sha256(f"{weights} {self.template} {self._format.args}".encode()).hexdigest()

    # ------------------------------------------------------------ for rollouts and training

    def opening(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Encode the whole chat [T] up to the header of the assistant's next reply. Past replies are encoded from
        text.

        Raises `UsageError` if the template refuses messages in these roles.
        """
        return self._encode(self._text(messages))

    def opening_after(self, ahead: Sequence[int], message: Message) -> tuple[int, ...]:
        """Encode the `opening` of one message with ids inserted before its text [T], such as those of a picture."""
        before, _, after = self._text([message.model_copy(update={"content": MARK})]).partition(MARK)
        content = self._guarded(message.content, self._plain_names)
        return (*self._encode(before), *ahead, *self._encode(content + after))

    def conversation(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids that the last call and the next context have in common [start], and those that follow [T].

        The first part is empty if the last reply carries no ids; the whole chat is then encoded from text. Raises
        `TokenDriftError` if the ids of the calls and the messages disagree.
        """
        calls = _chain(messages)
        for index, call in calls:
            text, message = self.text(call.sampled_ids).strip(), messages[index]
            if not (self._is_call(text, message) if message.call else _is_text(text, message.content)):
                said = message.content[:80]
                raise TokenDriftError(f"message {index + 1} says {said!r}, its token ids say {text[:80]!r}")
        return self._conversation(messages, calls)

    def read_calls(self, text: str) -> Reading:
        """Return the text beside the tool calls of a reply, and the calls, in the form of the model's family."""
        return self._calls.read(text) if self._calls else (text, [])

    def check_tools(self, tools: str) -> None:
        """Raise `UsageError` unless the template writes these tools (as `Message.tools`), calls and answers."""
        text = ""
        with suppress(UsageError):
            call = ToolCall(name="act", arguments=json.dumps({"action": MARK.format(number=7)}), id="call00000")
            chat = [Message.model_validate(message) for message in marked_chat(("system", "user"))]
            chat[0] = chat[0].model_copy(update={"tools": tools})
            answer = Message(role="tool", content=MARK.format(number=8), call=call)
            text = self._text([*chat, Message(role="assistant", content="", call=call), answer])
        names = [str(tool["function"]["name"]) for tool in json.loads(tools)]
        if self._calls is None or not all(part in text for part in (*names, *(MARK.format(number=n) for n in (7, 8)))):
            other = ", ".join(form.families for form in FORMS)
            raise UsageError(
                f"{self._template_name} writes no tools, or calls in a form other than those of {other}: "
                "leave --tools out, or name another by --chat-template"
            )

    def _is_call(self, text: str, message: Message) -> bool:
        """Return whether a reply's text is what a message with a call says."""
        beside, calls = self.read_calls(text)
        known = message.call.model_copy(update={"id": ""}) if message.call else None
        same = [call.model_copy(update={"id": ""}) for call in calls] == [known]
        return same and beside.strip() == message.content.strip()

    def continuation(self, messages: Sequence[Message], closed: bool) -> tuple[int, ...]:
        """Encode what follows a reply where the template goes on from it [T]: its end token unless `closed`, the
        messages, the next header.
        """
        past = [Message.model_validate(message) for message in marked_chat(("system", "user", "assistant"))]
        after = self._text([*past, *messages]).partition(past[-1].content)[2].lstrip()
        return self._encode(after, within=True)[int(closed) :]

    def text(self, ids: Sequence[int]) -> str:
        """Decode a reply, without its end token."""
        return self._decoded(tuple(ids))

    def _decode(self, ids: tuple[int, ...]) -> str:
        text_ids = list(ids[:-1]) if ids and ids[-1] in self.stop_ids else list(ids)
        return str(self._template_tokenizer.decode(text_ids, skip_special_tokens=False))

    def plain(self, text: str) -> tuple[int, ...]:
        """Encode a reply's text [T], as it follows the header. No text becomes a special token."""
        reply = self._guarded(self._lead + text, self._control_names)
        ids, header = self._encode(self._header + reply, within=True), self._encode(self._header, within=True)
        return ids[len(header) :] if ids[: len(header)] == header else self._encode(reply, within=True)

    def supervised(self, messages: Sequence[Message]) -> TokenSequence:
        """Encode the whole chat for training, exactly as a rollout with these replies would.

        A turn is a reply's text and its end token. The replies were not sampled: their log-probabilities are 0.

        Raises `UsageError` if the chat does not end with a reply of the assistant.
        """
        if not messages or messages[-1].role != "assistant":
            raise UsageError("a chat to train on ends with a reply of the assistant")
        return join([tokens for message in self.as_sampled(messages) if (tokens := message.tokens)])

    def as_sampled(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages, with the ids of replies as if a model had sampled their texts."""
        chat: list[Message] = []
        for message in messages:
            if message.role == "assistant":
                before, gained = self._conversation(chat, _chain(chat))
                reply = (*self.plain(message.content + self._trail), self.end_id)
                tokens = Tokens(
                    start=len(before), context_ids=gained, sampled_ids=reply, logprobs=(0.0,) * len(reply)
                )
                message = message.model_copy(update={"tokens": tokens})
            chat.append(message)
        return chat

    # ------------------------------------------------------------ conversations

    def _conversation(
        self, messages: Sequence[Message], calls: Sequence[tuple[int, Tokens]]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if not calls:
            return (), self._encode(self._text(messages))
        ids: list[int] = []
        for index, call in calls:
            if call.start > len(ids):
                after = f"{call.start} tokens, not after {len(ids)}"
                raise TokenDriftError(f"message {index + 1} was sampled after {after}")
            ids[call.start :] = (*call.context_ids, *call.sampled_ids)
        index, last = calls[-1]
        if tuple(ids[: len(ids) - len(last.sampled_ids)]) != self._context(messages[:index]).ids:
            raise TokenDriftError(f"message {index + 1} was sampled in another context than the messages before it")
        context = self._context(messages).ids
        if context[: len(ids)] == tuple(ids):
            return context[: len(ids)], context[len(ids) :]
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids, context, strict=False)))
        return context[:shared], context[shared:]

    def _context(self, messages: Sequence[Message]) -> _Context:
        """Return what a call with these messages is asked with: replies by their ids where the text goes on from them.
        """
        missing = list(messages)
        rest: list[list[Message]] = []
        while (context := self._kept(missing)) is None:
            rest.append(missing)
            last = max((at for at, message in enumerate(missing) if message.role == "assistant"), default=-1)
            if last < 0 or missing[last].tokens is None:
                break
            missing = missing[:last]
        for chat in reversed(rest):
            text = self._text(chat)
            context = (context and self._gone_on(context, chat, text)) or _Context(text, self._encode(text))
            with self._lock:
                self._contexts[_key(chat)] = context
                while len(self._contexts) > _CONTEXTS_KEPT:
                    self._contexts.popitem(last=False)
        assert context is not None
        return context

    def _kept(self, messages: Sequence[Message]) -> _Context | None:
        key = _key(messages)
        with self._lock:
            context = self._contexts.get(key)
            if context is not None:
                self._contexts.move_to_end(key)
            return context

    def _gone_on(self, before: _Context, messages: Sequence[Message], text: str) -> _Context | None:
        """Go on from a call by the ids of its reply; None if the text writes the past in another way."""
        reply = next(message for message in reversed(messages) if message.role == "assistant")
        if reply.tokens is None or not text.startswith(before.text):
            return None
        after = text[len(before.text) :].lstrip()
        whole = self.text(reply.tokens.sampled_ids) if reply.call else reply.content
        said = self._guarded(whole.strip(), self._control_names)
        after = after[len(said) :].lstrip() if after.startswith(said) else ""
        if not after.startswith(self._end_name):
            return None
        sampled = reply.tokens.sampled_ids
        closing = self._encode(after, within=True)
        closing = closing[1:] if sampled[-1:] == (self.end_id,) else closing
        return _Context(text, (*before.ids, *sampled, *closing))

    # ------------------------------------------------------------ texts

    def _text(self, messages: Sequence[Message]) -> str:
        """Write the chat with the header of the next reply. Names of tokens in messages are guarded."""
        chat: Chat = []
        for message in messages:
            names = self._control_names if message.role == "assistant" else self._plain_names
            chat.append({"role": message.role, "content": self._guarded(message.content, names)})
            if message.call:
                chat[-1] |= self._written_call(message.role, message.call)
        tools = messages[0].tools if messages else ""
        return self._template.text(chat, self._guarded_json(json.loads(tools)) if tools else ())

    def _written_call(self, role: str, call: ToolCall) -> dict[str, Any]:
        """Return what templates read of a call, or of the answer to it."""
        if role == "tool":
            return {"name": call.name, "tool_call_id": call.id}
        function = {"name": call.name, "arguments": self._guarded_json(json.loads(call.arguments))}
        return {"tool_calls": [{"type": "function", "id": call.id, "function": function}]}

    def _guarded_json(self, value: Any) -> Any:
        """Guard each text of a JSON value."""
        if isinstance(value, str):
            return self._guarded(value, self._plain_names)
        if isinstance(value, dict):
            return {self._guarded(name, self._plain_names): self._guarded_json(each) for name, each in value.items()}
        return [self._guarded_json(each) for each in value] if isinstance(value, list) else value

    def _guard(self, text: str, names: re.Pattern[str]) -> str:
        """Break up the names of tokens in a text, so that they stay text."""
        return names.sub(lambda name: name[0][0] + _GUARD + name[0][1:], text)

    def _encode(self, text: str, *, within: bool = False) -> tuple[int, ...]:
        """Encode a guarded text; one `within` a longer text does not begin as a text does."""
        ids: list[int] = []
        parts = self._plain_names.split(text)
        for number, part in enumerate(parts):
            if number % 2:
                ids.append(self._ids[part])
                continue
            before, after = parts[number - 1] if number else "", parts[number + 1] if number + 1 < len(parts) else ""
            part = part.lstrip() if before in self._eats_after else part
            part = part.rstrip() if after in self._eats_before else part
            if part:
                ids += self._segment(part.replace(_GUARD, ""), within or number > 0)
        return tuple(ids)

    def _encode_segment(self, text: str, within: bool) -> tuple[int, ...]:
        if not within:
            return tuple(self._content_tokenizer.encode(text, add_special_tokens=False).ids)
        ids = self._content_tokenizer.encode(_GUARD + text, add_special_tokens=False).ids
        return tuple(ids[ids.index(self._guard_id) + 1 :])

    # ------------------------------------------------------------ what the tokenizer and the template have

    def _read_tokens(self) -> None:
        """Find the tokens that control the chat, and those known to the template.

        The first are all special tokens, and the added tokens written by the template. The second are the other added
        tokens in its source, except plain words.
        """
        added = self._template_tokenizer.get_added_tokens_decoder()
        text = self._template.text(marked_chat(("system", "user", "assistant", "user")))
        written = set(self._template_tokenizer.encode(text, add_special_tokens=False).ids)
        self._control = {
            token.content
            for number, token in added.items()
            if token.special or (number in written and not token.content.isspace())
        }
        names = {token.content for token in added.values()}
        source = self.template
        self._known = {name for name in names if name in source and not _WORDS.fullmatch(name)} - self._control
        self._control_names = _names(self._control)
        self._plain_names = _names(self._control | self._known)
        self._ids = {token.content: number for number, token in added.items()}
        self._eats_before = {token.content for token in added.values() if token.lstrip}
        self._eats_after = {token.content for token in added.values() if token.rstrip}

    def _learn_reply(self) -> None:
        """Find the text before a reply since the last token, and around it within the history."""
        start = self._template.text(marked_chat(("system", "user")))
        text = self._template.text(marked_chat(("system", "user", "assistant", "user")))
        self._header = self._plain_names.split(start)[-1]
        before, _, after = text.partition(MARK.format(number=2))
        end = self._plain_names.match(after.lstrip())
        if not end:
            raise UsageError(f"{self._template_name} does not close a reply with a token of its own")
        self._end_name, self.end_id = end[0], self._ids[end[0]]
        lead = before.removeprefix(start)
        self._lead = lead if before.startswith(start) and lead.isspace() else ""
        self._trail = after[: len(after) - len(after.lstrip())]

    def _check(self, unknown: int | None) -> None:
        """Refuse a tokenizer that reads a control token's text as the token, or that loses text."""
        names = self._control | self._known
        numbers = ({self._ids[token] for token in names} - {unknown}) | set(self.stop_ids)
        for token in sorted(names):
            if not numbers.isdisjoint(self._segment(token, True)):
                raise UsageError(f"the tokenizer of {self._name} cannot write {token} as plain text")
        text = "go to cabinet 1"
        if self.text(self.plain(text)).strip() != text:
            raise UsageError(f"the tokenizer of {self._name} does not give back the text {text!r} that it encoded")
        own = self._template_tokenizer.encode(self._text(AWKWARD).replace(_GUARD, ""), add_special_tokens=False).ids
        if (ours := list(self.opening(AWKWARD))) != own:
            at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, own, strict=False)))
            here, there = (
                self._template_tokenizer.decode(ids[at : at + 3], skip_special_tokens=False) for ids in (ours, own)
            )
            warnings.warn(
                f"{self._name}: ids of conversations may differ from the tokenizer's own: a trial does from token {at} "
                f"on, {here!r} beside {there!r}",
                stacklevel=3,
            )


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


# ---------------------------------------------------------------- parts of a conversation


def _is_text(text: str, content: str) -> bool:
    """Return whether a reply's text is that of its message."""
    return content.strip() in ((text,) if text else ("", NO_REPLY))


def _chain(messages: Sequence[Message]) -> list[tuple[int, Tokens]]:
    """Return the calls behind the conversation's ids, with message indices, from the last call with start 0 on.

    Empty if the last reply carries no ids.
    """
    replies = [(index, message.tokens) for index, message in enumerate(messages) if message.role == "assistant"]
    chain: list[tuple[int, Tokens]] = []
    for index, tokens in reversed(replies):
        if tokens is None:
            break
        chain.insert(0, (index, tokens))
        if tokens.start == 0:
            return chain
    if chain:
        raise TokenDriftError(f"message {chain[0][0] + 1} goes on from a reply that has lost its token ids")
    return chain


def _key(messages: Sequence[Message]) -> tuple[Any, ...]:
    """Return what the ids of a conversation depend on."""
    return tuple(
        [
            (message.role, message.content, message.call, message.tools, message.tokens and message.tokens.sampled_ids)
            for message in messages
        ]
    )


def _names(tokens: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern, with one group, of the names of tokens; the longest first, as tokenizers match them."""
    ordered = sorted(tokens, key=lambda token: (-len(token), token))
    return re.compile(f"({'|'.join(map(re.escape, ordered))})" if ordered else "(?!)()")


# ---------------------------------------------------------------- copies of a tokenizer


def _plain_copy(state: str, hidden: Iterable[str]) -> Tokenizer:
    """Copy a tokenizer, so that no other thread reconfigures it.

    With `hidden` tokens, the copy reads their names as plain text, and knows the guard as a token.
    """
    from tokenizers import AddedToken, Tokenizer

    wanted = set(hidden)
    fields = json.loads(state)
    vocabulary = fields["model"].get("vocab")
    if wanted and isinstance(vocabulary, list):  # of a Unigram model, which reads names of its vocabulary in any text
        inner = {piece for piece, _ in vocabulary} & wanted
        fields["added_tokens"] = [token for token in fields["added_tokens"] if token["content"] not in inner]
        fields["model"]["vocab"] = [[f"{_GUARD}{p}" if p in inner else p, score] for p, score in vocabulary]
    for token in fields["added_tokens"]:
        token["special"] = token["special"] or token["content"] in wanted
    copy = Tokenizer.from_str(json.dumps(fields))
    copy.no_truncation()
    copy.no_padding()
    if wanted:
        copy.encode_special_tokens = True
        copy.add_tokens([AddedToken(_GUARD, normalized=False, special=False)])
    return copy
