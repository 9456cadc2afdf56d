"""What a chat template writes, for marks in place of what messages say. A template is a stranger's program.

The project's own is rendered here, any other in a process with bounds (`foreign.py`), once for each sequence of roles
and not for each conversation. So it is all one whether it loops for every chat or for one of seven turns.
Left out: what is made of the text (`encoding.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from align_echo.errors import UsageError
from align_echo.models.local.foreign import run_bounded

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The project's own chat template (ChatML): each message is written once and for all, whatever comes after it."""

MARK = "Xq{number}qX"
"""Stands for a message's content while a template is rendered; templates treat it as any other word."""

LONGEST_TEMPLATE = 1_000_000
"""Characters of a template; those of published models have up to 20,000."""

Roles = tuple[str, ...]

_SYSTEM, _USER, _TURN = ("system",), ("user",), ("assistant", "user")
_USUAL: tuple[Roles, ...] = (
    *(_SYSTEM + _USER + _TURN * turns for turns in range(4)),
    (*_SYSTEM, *_USER, "assistant"),
    *(_USER + _TURN * turns for turns in range(2)),
)
"""What every encoder asks for, or nearly every one: they are rendered together, as a process takes a tenth of a second.
"""

_SECONDS = 4
_KEPT = 64


class UnboundedTemplateError(UsageError):
    """A chat template that loops, grows, or crashes what renders it. No other is taken in its place."""


def rendered(tokenizer: PreTrainedTokenizerBase, template: str, roles: Roles) -> str:
    """Return what the template writes for marks in these roles, with the header of the next reply.

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
    texts = _texts_of(template, json.dumps(tokenizer.special_tokens_map, default=str))
    if roles not in texts:
        texts |= _in_process(template, texts.variables, [roles, *(each for each in _USUAL if each not in texts)])
    text = texts[roles]
    if isinstance(text, UsageError):
        raise type(text)(str(text))
    return text


class _Texts(dict[Roles, "str | UsageError"]):
    """What a template writes, or why it does not, as far as it was asked for. `variables` are JSON."""

    def __init__(self, variables: str) -> None:
        super().__init__()
        self.variables = variables


@lru_cache(maxsize=_KEPT)
def _texts_of(template: str, variables: str) -> _Texts:
    return _Texts(variables)


def _in_process(template: str, variables: str, chats: Sequence[Roles]) -> dict[Roles, str | UsageError]:
    """What a process says of these chats, up to the first that it does not get over."""
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
