"""A trajectory as a critic reads it: tagged turns within a budget of characters, and tags that no content can close.

How long episodes are shortened, in this order: a turn that is repeated with the same feedback is written once, with the
number of times after it; of a text longer than a quarter of the budget the middle is left out; then turns are kept from
the end and from the beginning by turns for as long as they fit, and the number of turns left out stands in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from align_echo.types import Step

BUDGET = 5000
"""Characters for all turns together: some 1,500 tokens."""

TAGS = (
    *("task", "rules", "advice", "start", "response", "feedback", "criteria", "score", "action"),
    *("reason", "suggestions"),
)
"""Every tag of the critics' prompts and replies."""

NO_RESPONSE = "(no action)"
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_NOTE = len("\n(9999 turns left out)\n")


def plain(text: str) -> str:
    """The text with the beginning of every tag of ours written `&lt;`, so that it neither opens nor closes one."""
    return _TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """`plain`, with every run of white space as one space."""
    return plain(" ".join(text.split()))


def transcript(steps: Sequence[Step], budget: int = BUDGET) -> str:
    """The turns, each as a response and its feedback in tags; at most `budget` characters, but never fewer than the
    last turn needs.
    """
    longest = budget // 4
    same = [(key, len(list(run))) for key, run in groupby(steps, key=lambda step: (step.action, step.observation))]
    turns = [(_turn(action, feedback, times, longest), times) for (action, feedback), times in same]
    first, last = _kept([len(text) + 1 for text, _ in turns], budget - _NOTE)
    left_out = sum(times for _, times in turns[first:last])
    note = [f"({left_out} turn{'' if left_out == 1 else 's'} left out)"] if left_out else []
    return "\n".join([text for text, _ in turns[:first]] + note + [text for text, _ in turns[last:]])


def clipped(text: str, longest: int) -> str:
    """The text, or its beginning and end around a note of how many characters are missing."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ({len(text) - 2 * half} characters left out) {text[-half:] if half else ''}"


def _turn(action: str | None, feedback: str, times: int, longest: int) -> str:
    response = one_line(clipped(action or NO_RESPONSE, longest))
    repeated = f" ({times} times)" if times > 1 else ""
    return f"<response>{response}</response><feedback>{plain(clipped(feedback.strip(), longest))}</feedback>{repeated}"


def _kept(lengths: Sequence[int], room: int) -> tuple[int, int]:
    """(first, last): the turns before `first` and from `last` on are kept, taken from the end and the beginning."""
    first, last = 0, len(lengths)
    from_end = True
    while first < last:
        length = lengths[last - 1] if from_end else lengths[first]
        if length > room and last < len(lengths):
            break
        room -= length
        first, last = (first, last - 1) if from_end else (first + 1, last)
        from_end = not from_end
    return first, last
