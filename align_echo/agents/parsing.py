r"""Parse a chat model's reply into one action, however it is formatted, if it can mean only one.

In this order:
 0. End tokens, channels and invisible signs are removed (`agents/signs.py`).
 1. Thoughts (`<think>...</think>`, also without an opening tag) are not part of the reply; thoughts without an end mean
    a reply that was cut off. Ignored: blank lines, code fences, and lines that repeat the prompt's own form of reply.
 2. The reply ends before an "Observation:" after the action: the model made it up.
 3. One `<action>...</action>` holds the action; so does one JSON object with an "action" beside its reasoning.
 4. Where the action format names a command to mark the action (`\boxed{answer}`), the text in its braces is the action,
    whatever surrounds it. More than one must hold the same text; the format's own blank does not count.
 5. One line is labelled "Action:" (any case, bold, a heading, a list item, numbered), or several with equal text: the
    text after the label is the action. If it is empty, exactly one line must follow: that is the action.
 6. One line is left: it is the action.
 7. Exactly one line has a form of the environment's action format (`agents/forms.py`) and the others are sentences: it
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
from functools import cache

from align_echo.agents.forms import as_listed, command_in, forms_in, has_form, is_listing, labels_in
from align_echo.agents.signs import outer_text, plain_reply
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render
from align_echo.reading import braced
from align_echo.types import AgentView, Completion

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
