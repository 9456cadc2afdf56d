"""From a chat model's reply to one action, strictly: a reply that could mean two things means nothing.

The rule, in this order:
 1. A leading `<think>...</think>` block of a reasoning model is not part of the reply; one without an end is a reply
    that was cut off. Blank lines and lines that only open or close a code fence do not count.
 2. One line is left: it is the action.
 3. Several lines are left, and exactly one begins with "Action:" (any case, bold or not): what follows the label is the
    action. If nothing follows it on its line, exactly one line must come after it: that is the action.
 4. Anything else holds no action, and the reason is given in words that the model can act on.
The action is stripped of one "Action:" label, one leading "> ", and quotes or backticks that surround it.
"""

from __future__ import annotations

import re

from align_echo.errors import ReplyFormatError

_LABEL = re.compile(r"(?:\*\*)?action(?:\*\*)?:(?:\*\*)?\s*", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’"}


def parse_action(reply: str) -> str:
    """The one action of a reply: a single line, never empty. Raises `ReplyFormatError` if there is not exactly one."""
    lines = [line.strip() for line in visible_text(reply).splitlines()]
    lines = [line for line in lines if line and not _FENCE.fullmatch(line)]
    if not lines:
        raise ReplyFormatError("the reply is empty; send one action")
    action = _bare(lines[0] if len(lines) == 1 else _labelled(lines))
    if not action:
        raise ReplyFormatError("the reply names no action; send one action")
    return action


def visible_text(reply: str) -> str:
    """A reply without a reasoning model's leading `<think>` block. Raises `ReplyFormatError` if that never ends."""
    text = reply.strip()
    if not text.startswith("<think>"):
        return text
    _, end, rest = text.partition("</think>")
    if not end:
        raise ReplyFormatError("the reply was cut off while thinking; think less")
    return rest.strip()


def _labelled(lines: list[str]) -> str:
    marked = [number for number, line in enumerate(lines) if _LABEL.match(line)]
    if not marked:
        raise ReplyFormatError(
            f"the reply has {len(lines)} lines and none begins with 'Action:'; send one action on one line"
        )
    if len(marked) > 1:
        raise ReplyFormatError(f"the reply has {len(marked)} lines that begin with 'Action:'; send one action")
    label = marked[0]
    if _LABEL.sub("", lines[label], count=1):
        return lines[label]
    if len(lines) - label != 2:
        raise ReplyFormatError("'Action:' must be followed by exactly one action")
    return lines[label + 1]


def _bare(line: str) -> str:
    """A line without label, prompt sign and surrounding quotes."""
    line = _LABEL.sub("", line, count=1) if _LABEL.match(line) else line
    line = line.removeprefix("> ").strip()
    while len(line) >= 2 and _QUOTES.get(line[0]) == line[-1]:
        line = line[1:-1].strip()
    return line
