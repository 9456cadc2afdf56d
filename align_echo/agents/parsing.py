"""From a chat model's reply to one action, strictly: a reply that could mean two things means nothing.

The rule of `parse_action`, in this order:
 1. A leading `<think>...</think>` block of a reasoning model is not part of the reply; one without an end is a reply
    that was cut off. Blank lines and lines that only open or close a code fence do not count.
 2. One line is left: it is the action.
 3. Several lines are left, and exactly one begins with "Action:" (any case, bold or not): what follows the label is the
    action. If nothing follows it on its line, exactly one line must come after it: that is the action.
 4. Anything else holds no action, and the reason is given in words that the model can act on.
The action is stripped of one "Action:" label, one leading "> ", and quotes or backticks that surround it.

`parse_reasoned_action` is for replies that think aloud: rule 2 falls away, the action must end the reply, and a reply
that goes on to write the environment's answer is refused.
"""

from __future__ import annotations

import re

from align_echo.errors import ReplyFormatError
from align_echo.types import Completion

_FENCE = re.compile(r"```[a-z]*")
_OBSERVATION = re.compile(r"[*_]*observation(?: \d+)?[*_]*:", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’"}


def parse_action(reply: str) -> str:
    """The one action of a reply: a single line, never empty. Raises `ReplyFormatError` if there is not exactly one."""
    lines = reply_lines(reply)
    return _bare(lines[0] if len(lines) == 1 else lines[_place_of_action(lines)])


def parse_reasoned_action(reply: str) -> str:
    """The action after the one "Action:" label of a reply, which it must end: a single line, never empty.

    Raises `ReplyFormatError` if there is not exactly one, or if the reply also writes an observation.
    """
    lines = reply_lines(reply)
    if any(_OBSERVATION.match(line) for line in lines):
        raise ReplyFormatError(
            "the reply writes an observation itself; end it after the action, the environment's answer comes then"
        )
    place = _place_of_action(lines)
    if place != len(lines) - 1:
        raise ReplyFormatError("the reply goes on after its action; end it there")
    action = _bare(lines[place])
    if _OBSERVATION.search(action):
        raise ReplyFormatError("the line of the action goes on with an observation; end it after the action")
    return action


def reply_lines(reply: str) -> list[str]:
    """The lines of a reply that count, at least one. Raises `ReplyFormatError` if there is none."""
    lines = [line.strip() for line in visible_text(reply).splitlines()]
    lines = [line for line in lines if line and not _FENCE.fullmatch(line)]
    if not lines:
        raise ReplyFormatError("the reply is empty; send one action")
    return lines


def visible_text(reply: str) -> str:
    """A reply without a reasoning model's leading `<think>` block. Raises `ReplyFormatError` if that never ends."""
    text = reply.strip()
    if not text.startswith("<think>"):
        return text
    _, end, rest = text.partition("</think>")
    if not end:
        raise ReplyFormatError("the reply was cut off while thinking; think less")
    return rest.strip()


def after_label(line: str, label: str) -> str | None:
    """What follows "<label>:" at the beginning of a line (any case, bold or not); None if it begins otherwise."""
    found = re.match(rf"(?:\*\*)?{re.escape(label)}(?:\*\*)?:(?:\*\*)?\s*", line, re.IGNORECASE)
    return line[found.end() :] if found else None


def whole_text(completion: Completion, max_tokens: int) -> str:
    """The text of an answer. Raises `ReplyFormatError` if it was cut off: what is left of it may mean another."""
    if completion.finish_reason == "length":
        raise ReplyFormatError(f"the reply was cut off at {max_tokens} tokens; be brief")
    return completion.text


def _place_of_action(lines: list[str]) -> int:
    """Which line holds the action that exactly one "Action:" label announces."""
    marked = [number for number, line in enumerate(lines) if after_label(line, "Action") is not None]
    if not marked:
        count = "one line and it does not begin" if len(lines) == 1 else f"{len(lines)} lines and none begins"
        raise ReplyFormatError(f"the reply has {count} with 'Action:'; send one action on one line")
    if len(marked) > 1:
        raise ReplyFormatError(f"the reply has {len(marked)} lines that begin with 'Action:'; send one action")
    label = marked[0]
    if after_label(lines[label], "Action"):
        return label
    if len(lines) - label != 2:
        raise ReplyFormatError("'Action:' must be followed by exactly one action")
    return label + 1


def _bare(line: str) -> str:
    """A line without label, prompt sign and surrounding quotes. Raises `ReplyFormatError` if nothing is left."""
    labelled = after_label(line, "Action")
    line = (line if labelled is None else labelled).removeprefix("> ").strip()
    while len(line) >= 2 and _QUOTES.get(line[0]) == line[-1]:
        line = line[1:-1].strip()
    if not line:
        raise ReplyFormatError("the reply names no action; send one action")
    return line
