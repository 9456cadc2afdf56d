"""Remove tokens and signs from a model's reply that are not part of its text.

Engines, templates and proxies leave them there: end tokens (`</s>`, `<|im_end|>`), channels
(`<|channel|>final<|message|>`), zero-width and direction signs, a byte order mark, non-breaking spaces. Text after an
end token is dropped: the model made it up, like an observation of its own. Thoughts get one pair of marks, `<think>`
and `</think>`, whatever pair the model wrote. Nothing here chooses between two actions. Not here: parsing the action
(`parsing.py`).
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_END = (
    r"</s>|<eos>|<end_of_turn>|<turn\|>|<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|return|eot|call|endofturn|"
    r"end_of_turn|end_of_role|END_OF_TURN_TOKEN|EOT|user|observation)\|>|<｜end▁of▁sentence｜>|\[/?INST\]|\[e~\["
)
_START = (
    r"<s>|<bos>|<\|(?:begin_of_text|startoftext|startofturn|START_OF_TURN_TOKEN|CHATBOT_TOKEN|START_RESPONSE)\|>|"
    r"<\|(?:im_start|start)\|>(?:assistant)?|<start_of_turn>(?:model)?|<\|turn>(?:model)?|<\|assistant\|>|"
    r"<\|start_header_id\|>assistant<\|end_header_id\|>|<｜Assistant｜>"
)
_ENDS = re.compile(_END)
_STARTS = re.compile(rf"\A\s*(?:{_START})")
_LAST = re.compile(rf"(?:{_END})\s*\Z")
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff \t\r\n\u00a0\u202f"
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]{0,80}(?:<\|constrain\|>[^<]{0,20})?<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_THOUGHT_CHANNEL = re.compile(r"<\|channel>(?:thought|analysis)\b(.*?)<channel\|>", re.DOTALL)
_OPENING = re.compile(r"<(?:think|thinking|thought|thoughts|seed:think)>|\[THINK\]", re.IGNORECASE)
_CLOSING = re.compile(r"</(?:think|thinking|thought|thoughts|seed:think)>|\[/THINK\]", re.IGNORECASE)
_JOINERS = "\u200c\u200d"
"""Joiners of letters in some scripts and of emoji: part of a word between two non-ASCII signs."""


class PlainReply(NamedTuple):
    """A reply without stray tokens and signs. `residue` names each removed sign once, in order."""

    text: str
    residue: tuple[str, ...]


def plain_reply(reply: str) -> PlainReply:
    """Remove end tokens, channels and invisible signs, and normalise spaces and thoughts."""
    if reply.isascii() and "<" not in reply and "[" not in reply:
        return PlainReply(reply, ())
    residue: dict[str, None] = {}
    text = _visible(reply, residue)
    text = _final_channel(text, residue)
    text = _between_tokens(text, residue)
    text = _THOUGHT_CHANNEL.sub(r"<think>\1</think>", text)
    return PlainReply(_CLOSING.sub("</think>", _OPENING.sub("<think>", text)), tuple(residue))


def outer_text(reply: str) -> str:
    """Like `plain_reply`, for a reply that may hold code: only its ends lose tokens and invisible signs."""
    text = _final_channel(reply, {})
    text = _THOUGHT_CHANNEL.sub(r"<think>\1</think>", text)
    text = _CLOSING.sub("</think>", _OPENING.sub("<think>", text))
    while (shorter := _LAST.sub("", _STARTS.sub("", text.strip(_INVISIBLE), count=1))) != text:
        text = shorter
    return text


def _visible(text: str, residue: dict[str, None]) -> str:
    """Replace special spaces by plain ones and remove invisible signs."""
    if text.isascii():
        return text
    signs = []
    for index, sign in enumerate(text):
        kind = "Zs" if sign.isascii() else unicodedata.category(sign)
        around = text[max(index - 1, 0) : index] + text[index + 1 : index + 2]
        if kind == "Cf" and not (sign in _JOINERS and len(around) == 2 and not any(map(str.isascii, around))):
            residue[f"U+{ord(sign):04X}"] = None
        elif kind == "Zs" and not sign.isascii():
            residue[f"U+{ord(sign):04X}"] = None
            signs.append(" ")
        else:
            signs.append(sign)
    return "".join(signs)


def _final_channel(text: str, residue: dict[str, None]) -> str:
    """Return the message of the last final channel; unfinished thoughts if a reply has channels but no final one."""
    channels = list(_CHANNEL.finditer(text))
    if not channels:
        return text
    residue["<|channel|>"] = None
    final = next((channel for channel in reversed(channels) if channel[1] == "final"), None)
    if final is None:
        return f"<think>{text}"
    end = _CHANNEL_END.search(text, final.end())
    return text[final.end() : end.start() if end else len(text)]


def _between_tokens(text: str, residue: dict[str, None]) -> str:
    """Return the text after start tokens, up to the first end token."""
    while start := _STARTS.match(text):
        residue[start[0].strip()] = None
        text = text[start.end() :]
    thoughts = max((closing.end() for closing in _CLOSING.finditer(text)), default=0)
    end = _ENDS.search(text, thoughts)
    while end is not None and not text[thoughts : end.start()].strip():  # it ends nothing
        residue[end[0]] = None
        text = text[:thoughts] + text[end.end() :]
        end = _ENDS.search(text, thoughts)
    if end is None:
        return text
    residue[end[0]] = None
    return text[: end.start()]
