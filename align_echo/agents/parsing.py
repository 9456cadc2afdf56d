r"""Parse a chat model's reply into one action, however it is formatted, if it can mean only one.

In this order:
 0. End tokens, channels and invisible signs are removed.
 1. Thoughts (`<think>...</think>`, also without an opening tag) are not part of the reply; thoughts without an end mean
    a reply that was cut off. Ignored: blank lines, code fences, and lines that repeat the prompt's own form of reply.
 2. The reply ends before an "Observation:" after the action: the model made it up.
 3. One `<action>...</action>` holds the action; so does one JSON object with an "action" beside its reasoning.
 4. Where the action format names a command to mark the action (`\boxed{answer}`), the text in its braces is the action,
    whatever surrounds it. More than one must hold the same text; the format's own blank does not count.
 5. One line is labelled "Action:" (any case, bold, a heading, a list item, numbered), or several with equal text: the
    text after the label is the action. If it is empty, exactly one line must follow: that is the action.
 6. One line is left: it is the action.
 7. Exactly one line has a form of the environment's action format and the others are sentences: it
    is the action.
 8. Anything else holds no action; the error says why, in words for the model.
Where the environment's own forms begin with labels ("Action: {call} End Action | Answer: {answer}"), a label is part of
the action: the action is the reply from the first label on, joined to one line, and the environment refuses any excess
(`_from_own_label`). Without a label in the reply, the rules above apply.
The action loses list marks or numbers, emphasis, and surrounding quotes or backticks, and is spelled like its form.
Nothing here chooses between two different actions.

`parse_reasoned_action` is for replies that reason first: rule 6 does not apply, and a labelled action must come last.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from align_echo.base.plain_yaml import braced
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render
from align_echo.types import AgentView, Completion

# ---------------------------------------------------------------- lines in the form of an action

MARKED = r"\{[^{}]*\}|<(?!/)[^<>]*>(?![^<>]*</)"
CAPITALS = re.compile(r"\b[A-Z]{2,}[0-9]?\b")
FREE = re.compile(r"text|word|message|answer|query|string|value", re.IGNORECASE)
"""A blank with one of these names holds free text, not the name of an object."""

BAR = " | "
MOST_WORDS = 6
"""Longest name in an open blank, in words: longer text is a sentence."""

COMMAND = re.compile(r"(\\[A-Za-z]+)\{([^{}]*)\}")
"""A command and the blank in its braces."""

LONGEST_LINE = 300
"""In characters: longer lines have no form."""


class ActionForm(NamedTuple):
    """One form. `literals` are its fixed texts around the blanks, so there is one more literal than there are blanks.

    `closed` and `free` have one entry per blank. A closed blank ends at a punctuation sign. A free blank holds text
    written by the agent, whose case is left unchanged.
    """

    literals: tuple[str, ...]
    closed: tuple[bool, ...]
    free: tuple[bool, ...]

    @property
    def open_ended(self) -> bool:
        """Return whether the form ends with a blank, so that a name may end in any character."""
        return len(self.literals) > 1 and not self.literals[-1]


@cache
def forms_in(action_format: str) -> tuple[ActionForm, ...]:
    """List the forms of an action format."""
    blank = _blank(action_format)
    forms = [_form(piece.strip(), blank) for line in _lists(action_format) for piece in line.split(BAR)]
    return tuple(form for form in forms if re.search("[A-Za-z]", "".join(form.literals)))


def command_in(action_format: str) -> tuple[str, str] | None:
    r"""Return the marking command of a format and the blank in its braces, e.g. `\boxed` and `answer`. None without
    one.
    """
    match = None if _lists(action_format) else COMMAND.search(action_format)
    return None if match is None else (match[1], match[2])


@cache
def labels_in(action_format: str) -> tuple[str, ...]:
    """Return the labels ("Action:", "Answer:") at the start of the forms; () if any form starts without a label."""
    starts = [re.match(r"[A-Z]\w*:(?=\s)", form.literals[0]) for form in forms_in(action_format)]
    return tuple(dict.fromkeys(start[0] for start in starts if start)) if all(starts) else ()


def is_listing(line: str, action_format: str) -> bool:
    """Return whether a line only repeats the action format."""
    text = " ".join(line.split())
    listed = [" ".join(line.split()) for line in action_format.splitlines()]
    pieces = {piece.strip() for listing in _lists(action_format) for piece in " ".join(listing.split()).split(BAR)}
    repeats_line = text in listed and (BAR in text or text.endswith(":"))
    return repeats_line or (text in pieces and _blank(action_format).search(text) is not None)


def has_form(line: str, forms: tuple[ActionForm, ...]) -> bool:
    """Return whether a line matches one of the forms exactly, ignoring case."""
    return any(_values(line, form) is not None for form in forms)


def as_listed(action: str, view: AgentView) -> str:
    """Drop a sentence-ending full stop and restore the case of the form and of known names.

    Left unchanged: an action without a form, the content of a closed blank (`search[...]`), and a full stop after words
    that never appeared as a name.
    """
    forms = forms_in(view.action_format)
    if action.endswith(".") and not action.endswith(".."):
        action = _without_stop(action, forms, view)
    spellings = {_spelled(form, values, view) for form in forms if (values := _values(action, form)) is not None}
    return spellings.pop() if len(spellings) == 1 else action


def as_offered(action: str, offered: Sequence[str] | None) -> str:
    """Return the only possible action equal to this one up to case, spaces, articles and a final full stop.

    The action is returned unchanged if it is itself possible, or if no action or more than one is equal.
    """
    if not offered or action in offered:
        return action
    words = _loosely(action)
    matches = {action for action in offered if _loosely(action) == words}
    return matches.pop() if len(matches) == 1 else action


def _loosely(action: str) -> tuple[str, ...]:
    """Split an action into words without articles. Keeps articles before a capital and inside brackets."""
    text = action.rstrip(". ")
    if not re.search(r"[\[({]", text):
        text = re.sub(r"\b(?:the|an?)\s+(?=[a-z])", "", text)
    return tuple(text.casefold().split())


def _without_stop(action: str, forms: tuple[ActionForm, ...], view: AgentView) -> str:
    bare = action[:-1].rstrip()
    for form in forms:
        values = _values(bare, form)
        if values is not None and (not form.open_ended or _spellings(values[-1], view)):
            return bare
    return action


def _spelled(form: ActionForm, values: tuple[str, ...], view: AgentView) -> str:
    parts = [form.literals[0]]
    for value, closed, free, literal in zip(values, form.closed, form.free, form.literals[1:], strict=True):
        seen = set() if closed or free else _spellings(value, view)
        parts += [seen.pop() if value not in seen and len(seen) == 1 else value, literal]
    return "".join(parts)


def _spellings(name: str, view: AgentView) -> set[str]:
    """Find how a name is spelled in the texts shown to the agent, ignoring case; empty if it never appears."""
    texts = (view.goal, view.rules, view.initial_observation, *(turn.observation for turn in view.turns))
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    return {spelling for text in texts for spelling in pattern.findall(text)}


def _lists(action_format: str) -> list[str]:
    """Return the lines with forms: those with bars, and later lines with a single form and a blank."""
    lines = action_format.splitlines()
    first = next((number for number, line in enumerate(lines) if BAR in line), len(lines))
    return [line for line in lines[first:] if BAR in line or (re.search(MARKED, line) and line.strip()[-1] not in ".:")]


@cache
def _blank(action_format: str) -> re.Pattern[str]:
    """Compile the pattern of a blank in this format. Unexplained capitals are part of the form ("press OK")."""
    prose = [line for line in action_format.splitlines() if BAR not in line]
    explained = sorted({word for line in prose for word in CAPITALS.findall(line)})
    return re.compile("|".join([MARKED, *(rf"\b{re.escape(word)}\b" for word in explained)]))


def _form(text: str, blank: re.Pattern[str]) -> ActionForm:
    literals = blank.split(text)
    closed = [bool(after) and not after[0].isspace() for after in literals[1:]]
    free = [FREE.search(name) is not None for name in blank.findall(text)]
    return ActionForm(tuple(literals), tuple(closed), tuple(free))


def _values(line: str, form: ActionForm) -> tuple[str, ...] | None:
    """Return the values in a form's blanks; None if the line does not match the form."""
    match = _pattern(form).fullmatch(line) if len(line) <= LONGEST_LINE else None
    if match is None:
        return None
    values = match.groups()
    return values if all(map(_fits, values, form.closed)) else None


def _fits(value: str, closed: bool) -> bool:
    if closed:
        return bool(value.strip())
    short = value == value.strip() and len(value.split()) <= MOST_WORDS
    return short and not re.search(r"[,;:!?\[\](){}<>|]|\.\s", value)


@cache
def _pattern(form: ActionForm) -> re.Pattern[str]:
    spaced = [r"\s+".join(map(re.escape, re.split(r"\s+", literal))) for literal in form.literals]
    return re.compile("(.+?)".join(spaced), re.IGNORECASE)


# ---------------------------------------------------------------- end tokens and invisible signs

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


# ---------------------------------------------------------------- parsing

_FENCE = re.compile(r"(?:```|~~~)[A-Za-z]*")
_ANYWHERE = re.compile(r"observation(?: \d+)?[*_]*\s?[:：]", re.IGNORECASE)
_OBSERVATION = re.compile(rf"[#>*_\s-]*{_ANYWHERE.pattern}", re.IGNORECASE)
_LABEL = re.compile(
    r"(?:[-+>•*]\s+|#{1,6}\s+|\d{1,3}[.)]\s+)?[*_]{0,2}(?:(?:next|final|chosen|my)\s+)?"
    r"(?:action|动作|行动|操作|行動)(?:\s\d{1,3})?[*_]{0,2}"
    r"\s?[:：][*_]{0,2}\s*",
    re.IGNORECASE,
)
_HEADING = re.compile(r"#{1,6}\s+[*_]{0,2}action[*_]{0,2}|\*\*action\*\*", re.IGNORECASE)
_INPUT = re.compile(r"[*_]{0,2}action input[*_]{0,2}\s?:[*_]{0,2}\s*\S", re.IGNORECASE)
_INLINE = re.compile(r"\s[*_]{0,2}Action[*_]{0,2}:[*_]{0,2}\s+")
_LIST_MARK = re.compile(r"(?:[-+•*>]|#{1,6}|\(?\d{1,3}[.)])\s+(?=\S)")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»"}
_BRACKETS = {"<": ">", "[": "]", "(": ")", "{": "}"}
_LATEX = re.compile(r"\$?\\(?:text|texttt|boxed|mathrm)\{([^{}]*)\}\$?")
_BOX = re.compile(r"\$*\\boxed\{([^{}]*[^{}\s][^{}]*)\}\$*\.?")
_TOOL_CALL = re.compile(r"</?tool_call>|<\|tool_call(?:_begin|_end)?\|>")
_EMPHASIS = ("```", "***", "**", "*")
_TAG = re.compile(r"<(/?)action>", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>([^<>]+)</answer>", re.IGNORECASE)
_MOST_DRESSES = 8
"""Most nested marks, quotes and tags to strip."""
_BESIDE_AN_ACTION = frozenset("action thought thoughts reason reasoning explanation rationale plan".split())  # noqa: SIM905
_PROMPTS = ("vanilla/system", "react/system", "planning/system")
_WORDS_OF_AN_INSTRUCTION = 4
"""A prompt line with fewer words may also be an action."""


def parse_action(reply: str, view: AgentView | None = None) -> str:
    """Parse the single action of a reply: one line, never empty. Raises `ReplyFormatError` if there is not exactly one.

    `view` is the view the reply answers. Without it the environment's forms are unknown.
    """
    lines = own_lines(reply, view)
    marked = _in_tags(lines, view) or _in_json(lines, view) or _in_command(lines, view)
    if (labelled := _from_own_label(marked or " ".join(lines), view)) is not None:
        return labelled
    if marked is None:
        index = 0 if len(lines) == 1 else _find_action(lines, view)
        marked = _cut(lines[index], view)
    return _clean(marked, view)


def parse_reasoned_action(reply: str, view: AgentView | None = None) -> str:
    """Parse the action at the end of a reply with reasoning: one line, never empty.

    Raises `ReplyFormatError` if there is not exactly one, or if the reply continues after it.
    """
    lines = own_lines(reply, view)
    marked = _in_tags(lines, view) or _in_json(lines, view) or _in_command(lines, view)
    if (labelled := _from_own_label(marked or " ".join(lines), view)) is not None:
        return labelled
    if marked is None:
        index = _find_action(lines, view)
        if index != len(lines) - 1:
            raise ReplyFormatError("the reply goes on after its action; end it there")
        marked = _cut(lines[index], view)
        if _ANYWHERE.search(_after_action_label(marked) or ""):
            raise ReplyFormatError("the line of the action goes on with an observation; end it after the action")
    return _clean(marked, view)


def text_after_label(reply: str, view: AgentView, *, last: bool = False) -> str:
    """Return the text after the first "Action:" of a raw reply, or after the `last`, up to the next label.

    Returns the full reply without a label. If the environment's own forms begin with labels, the label is included. The
    text is taken unchanged, as in ALIGN's public code.
    """
    own = labels_in(view.action_format)
    for label in own or ("Action:",):
        texts = [text.strip() for text in reply.split(label)[1:]]
        if own:
            texts = [text if text.startswith(own) else f"{label} {text}" for text in texts if text]
        if texts:
            return texts[-1 if last else 0]
    return reply


def reply_lines(reply: str) -> list[str]:
    """Return the non-empty lines of a reply, at least one. Raises `ReplyFormatError` if there is none."""
    lines = [line.strip() for line in visible_text(reply).splitlines()]
    lines = [line for line in lines if line and not _FENCE.fullmatch(line)]
    if not lines:
        raise ReplyFormatError("the reply is empty; send one action")
    return lines


def own_lines(reply: str, view: AgentView | None = None) -> list[str]:
    """Return the model's own lines: without repeats of the prompt, and up to an observation it made up.

    Raises `ReplyFormatError` if none is left.
    """
    lines = [line for line in reply_lines(reply) if not _repeats_the_prompt(line, view)]
    if not lines:
        raise ReplyFormatError("the reply only repeats how to reply; send one action")
    first = next((number for number, line in enumerate(lines) if _acts(line, view)), None)
    if first is None:
        first = next((number for number, line in enumerate(lines) if not _OBSERVATION.match(line)), len(lines))
    end = next((number for number in range(first, len(lines)) if _OBSERVATION.match(lines[number])), len(lines))
    own = [line for line in lines[:end] if not _OBSERVATION.match(line)]
    if not own:
        raise ReplyFormatError("the reply writes an observation itself; send one action, the answer comes then")
    return own


def visible_text(reply: str) -> str:
    """Remove a reasoning model's thoughts and stray tokens from a reply.

    Raises `ReplyFormatError` if it begins with unfinished thoughts.
    """
    return without_thoughts(plain_reply(reply).text)


def visible_code(reply: str) -> str:
    """Like `visible_text`, for a reply with code: only its ends are cleaned."""
    return without_thoughts(outer_text(reply))


def without_thoughts(reply: str) -> str:
    """Remove all text between `<think>` and `</think>`. Raises as `visible_text`."""
    text = _without(reply.strip(), "<think>", "</think>")
    if text.startswith("<think>"):
        raise ReplyFormatError("the reply was cut off while thinking; think less")
    return text


def split_thoughts(reply: str) -> tuple[str, str]:
    """Split a reply into the thoughts at its beginning, with their tags, and the rest. Both joined are the reply.

    The opening tag may be missing, as where the model's template writes it.
    """
    opened = reply.lstrip().startswith("<think>")
    thoughts, closing, rest = reply.partition("</think>")
    if not closing:
        return (reply, "") if opened else ("", reply)
    if not opened and "<think>" in thoughts:
        return "", reply
    spaces = len(rest) - len(rest.lstrip())
    return thoughts + closing + rest[:spaces], rest[spaces:]


def after_label(line: str, label: str) -> str | None:
    """Return the text after "<label>:" at the start of a line (any case, bold or not); None without the label."""
    match = re.match(rf"(?:\*\*)?{re.escape(label)}(?:\*\*)?:(?:\*\*)?\s*", line, re.IGNORECASE)
    return line[match.end() :] if match else None


def spans(text: str, tag: str) -> list[tuple[int, int]]:
    """Find start and end of the text between `<tag>` and `</tag>` for each pair. Only the last opening before an end
    counts.
    """
    pairs, start = [], 0
    while (closing := text.find(f"</{tag}>", start)) >= 0:
        opening = text.rfind(f"<{tag}>", start, closing)
        if opening >= 0:
            pairs.append((opening + len(tag) + 2, closing))
        start = closing + len(tag) + 3
    return pairs


def unquoted(text: str) -> str:
    """Strip quotes or backticks that surround the text as one pair; quotes inside stay."""
    text = text.strip()
    while len(text) >= 2 and _QUOTES.get(text[0]) == text[-1] and not {text[0], text[-1]} & {*text[1:-1]}:
        text = text[1:-1].strip()
    return text


def uncut_text(completion: Completion, max_tokens: int) -> str:
    """Return the text of a completion. Raises `ReplyFormatError` if it was cut off, as the rest could mean another
    action.
    """
    if completion.finish_reason == "length":
        raise ReplyFormatError(f"the reply was cut off at {max_tokens} tokens; be brief")
    return completion.text


# ---------------------------------------------------------------- locating the action


def _in_tags(lines: list[str], view: AgentView | None) -> str | None:
    """Extract the text of the one pair of action tags, or of answer tags around the full reply; None without any."""
    text = _TAG.sub(r"<\1action>", "\n".join(lines))
    inside = [text[start:end].strip() for start, end in spans(text, "action")]
    if not inside and view is not None and "<answer>" not in view.action_format and len(lines) == 1:
        answer = _ANSWER.fullmatch(lines[0])
        return answer[1].strip() if answer else None
    if not inside:
        return None
    if len(inside) > 1:
        raise ReplyFormatError(f"the reply has {len(inside)} actions in <action> tags; send one action")
    return _one_line(inside[0], "<action>")


def _in_json(lines: list[str], view: AgentView | None) -> str | None:
    """Extract "action" from the one JSON object that holds nothing else but reasoning; None without one.

    If the environment's own form is a JSON object, the object itself is the action.
    """
    if not any('"action"' in line for line in lines) or (view is not None and '"action"' in view.action_format):
        return None
    lines = [line for line in (_TOOL_CALL.sub("", line).strip() for line in lines) if line]
    start = next((number for number, line in enumerate(lines) if line.startswith("{")), len(lines))
    end = next((number for number in reversed(range(start, len(lines))) if lines[number].endswith("}")), start - 1)
    try:
        record = json.loads("\n".join(lines[start : end + 1]))
    except (ValueError, RecursionError):
        return None
    if isinstance(record, dict) and set(record) == {"name", "arguments"}:  # a call of a tool that acts
        record = record["arguments"]
    if not isinstance(record, dict) or not _BESIDE_AN_ACTION.issuperset(key.lower() for key in record):
        return None
    action = record.get("action")
    return _one_line(action, '"action"') if isinstance(action, str) else None


def _in_command(lines: list[str], view: AgentView | None) -> str | None:
    """Extract the marking command of the action format, with its braces.

    If the format names no command, extract the text of a box around the full reply. None without either.
    """
    named = None if view is None else command_in(view.action_format)
    if named is None:
        if view is None or len(lines) != 1 or r"\boxed" in view.action_format:
            return None
        box = _BOX.fullmatch(lines[0])
        return box[1].strip() if box else None
    command, blank = named
    inside = {" ".join(text.split()) for text in braced("\n".join(lines), command)} - {blank}
    if len(inside) > 1:
        raise ReplyFormatError(f"the reply has {len(inside)} different {command}{{...}}; send one")
    return f"{command}{{{inside.pop()}}}" if inside else None


def _from_own_label(text: str, view: AgentView | None) -> str | None:
    """Return a reply from its first environment label on, without emphasis.

    None if the environment's forms have no labels, or the reply has none. "Action:" before another label is the
    prompt's and is dropped.
    """
    labels = () if view is None else labels_in(view.action_format)
    if "Action:" not in labels:
        return None
    names = "|".join(re.escape(label[:-1]) for label in labels)
    label = re.compile(rf"([*_]{{0,2}})(?<!\w)({names})([*_]{{0,2}}):([*_]{{0,2}})\s*")
    first = label.search(text)
    while first is not None and first[2] == "Action" and label.match(text, first.end()):
        first = label.match(text, first.end())
    if first is None:
        return None
    rest = label.sub(r"\2: ", text[first.end() :]).strip()
    if first[1] and not (first[3] or first[4]):
        rest = rest.removesuffix(first[1]).rstrip()
    return f"{first[2]}: {_unmarked(rest)}".strip()


def _find_action(lines: list[str], view: AgentView | None) -> int:
    """Find the line with the action: the labelled line, else the line with a form of the environment."""
    if any(map(_INPUT.match, lines)):
        raise ReplyFormatError("the reply has an 'Action Input:' of its own; send the whole action on one line")
    marked = _labelled(lines)
    if not marked:
        return _find_form(lines, view)
    if len({_after_action_label(lines[number]) or number for number in marked}) > 1:
        raise ReplyFormatError(f"the reply has {len(marked)} lines that begin with 'Action:'; send one action")
    label = marked[-1]
    if _after_action_label(lines[label]):
        return label
    if len(lines) - label != 2:
        raise ReplyFormatError("'Action:' must be followed by exactly one action")
    return label + 1


def _find_form(lines: list[str], view: AgentView | None) -> int:
    formed = [number for number, line in enumerate(lines) if view is not None and _has_form(line, view)]
    actions = {_clean(_cut(lines[number], view), view) for number in formed}
    rest = [line for number, line in enumerate(lines) if number not in formed]
    if len(actions) == 1 and all(map(_is_talk, rest)):
        return formed[-1]
    if actions:
        raise ReplyFormatError(f"the reply has {len(lines)} lines and several actions; send one action on one line")
    count = "one line and it does not begin" if len(lines) == 1 else f"{len(lines)} lines and none begins"
    raise ReplyFormatError(f"the reply has {count} with 'Action:'; send one action on one line")


def _is_talk(line: str) -> bool:
    """Return whether a line reads as a sentence or carries a label, so that it cannot be an unlisted action."""
    return bool(re.search(r"[.!?:;,…]", line)) or len(line.split()) > 4 or bool(re.match(r"[A-Z]\S*\s", line))


def _has_form(line: str, view: AgentView) -> bool:
    forms = forms_in(view.action_format)
    bare = _bare(_cut(line, view))
    return has_form(bare, forms) or (bare.endswith(".") and has_form(bare[:-1].rstrip(), forms))


def _labelled(lines: list[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if _after_action_label(line) is not None]


def _after_action_label(line: str) -> str | None:
    """Return the text after an action label at the start of a line; "" for a heading; None without a label."""
    if match := _LABEL.match(line):
        rest = line[match.end() :].strip()
        opened = line.startswith("**") and not match[0].rstrip().endswith("*")
        return rest.removesuffix("**").rstrip() if opened else rest
    return "" if _HEADING.fullmatch(line) else None


def _acts(line: str, view: AgentView | None) -> bool:
    if _after_action_label(line) is not None or "<action>" in line.lower() or '"action"' in line:
        return True
    named = None if view is None else command_in(view.action_format)
    return (named is not None and f"{named[0]}{{" in line) or (view is not None and _has_form(line, view))


def _cut(line: str, view: AgentView | None) -> str:
    """Cut a line from an action label inside it, or up to an observation inside it, if a form of the environment is
    left.
    """
    if view is None:
        return line
    forms = forms_in(view.action_format)
    parts = _INLINE.split(line)
    if len(parts) == 2 and _after_action_label(line) is None and has_form(_bare(parts[1].rstrip(".")), forms):
        return parts[1]
    text = _after_action_label(line)
    text = line if text is None else text
    match = re.search(r"\s[*_]*observation(?: \d+)?[*_]*:", text, re.IGNORECASE)
    if match and not has_form(text, forms) and has_form(_bare(text[: match.start()]), forms):
        return text[: match.start()]
    return line


# ---------------------------------------------------------------- cleaning the action


def _clean(line: str, view: AgentView | None) -> str:
    action = _out_of_brackets(_bare(line), view)
    if not action:
        raise ReplyFormatError("the reply names no action; send one action")
    return action if view is None else as_listed(action, view)


def _out_of_brackets(action: str, view: AgentView | None) -> str:
    """Strip brackets or a LaTeX command around an action, if only the inner text matches a form."""
    if view is None:
        return action
    forms = forms_in(view.action_format)
    latex = _LATEX.fullmatch(action)
    closing = _BRACKETS.get(action[:1])
    inner = latex[1] if latex else action[1:-1] if closing and action.endswith(closing) else ""
    return inner.strip() if has_form(inner.strip(), forms) and not has_form(action, forms) else action


def _bare(line: str) -> str:
    """Strip label, list mark, emphasis, tag and surrounding quotes from a line."""
    labelled = _after_action_label(line)
    line = (line if labelled is None else labelled).strip()
    for _ in range(_MOST_DRESSES):
        line = _LIST_MARK.sub("", line, count=1) if _LIST_MARK.match(line) else line
        line = unquoted(_unmarked(line))
        if line.lower().startswith("<action>"):
            line = line[len("<action>") :].strip()
    return line


def _unmarked(line: str) -> str:
    for mark in _EMPHASIS:
        inner = line[len(mark) : -len(mark)]
        if line.startswith(mark) and line.endswith(mark) and inner.strip() != "" and mark not in inner:
            return inner.strip() if mark[0] == "`" or inner.strip() == inner else line
    return line


def _one_line(text: str, where: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise ReplyFormatError(f"{where} must hold exactly one action on one line")
    return lines[0]


def _without(text: str, opening: str, closing: str) -> str:
    """Remove all text between the marks; an end without a beginning removes everything before it."""
    pieces, rest = [], text
    while True:
        before, opened, after = rest.partition(opening)
        _, closed, behind = after.partition(closing)
        if not (opened and closed):
            break
        pieces.append(before)
        rest = behind
    text = "\n".join([*pieces, rest])
    return text.rpartition(closing)[2].strip()


def _repeats_the_prompt(line: str, view: AgentView | None) -> bool:
    """Return whether a line is copied from the instructions and cannot be an answer."""
    text = _after_action_label(line) or line
    return text in _instructed() or (view is not None and is_listing(line, view.action_format))


@cache
def _instructed() -> frozenset[str]:
    """Collect the prompt lines about how to reply, and their text after "Action:"."""
    prompts = [render(name, {"action_format": "", "rules": ""}) for name in _PROMPTS]
    lines = [line.strip() for prompt in prompts for line in prompt.splitlines()]
    texts = {_after_action_label(line) or line for line in lines}
    return frozenset(text for text in texts if text.startswith("# ") or len(text.split()) >= _WORDS_OF_AN_INSTRUCTION)
