"""Render chat templates with marks in place of message contents. A template is a third-party program.

The project's own template is rendered in this process, any other in a process with limits (`foreign.py`), once per
sequence of roles rather than per conversation. This catches templates that loop for any chat, or only for a chat of
seven turns. Not here: processing the text (`encoding.py`).
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
