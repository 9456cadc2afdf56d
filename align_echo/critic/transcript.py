"""A trajectory as a critic reads it: tagged turns within a budget of characters, and tags that no content can close.

Turns in a row that got the same feedback share it, and a response repeated in a row is written once with its number of
times. For the rest there is one rule: the middle is left out and a note says how much. It holds for a long text, for
the responses that share a feedback and for the turns; they are kept from the end and the beginning as long as they fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from align_echo.errors import UsageError
from align_echo.types import Step

BUDGET = 5000
"""Characters for all turns together: some 1,500 tokens."""

LEAST_BUDGET = 500

TAGS = (
    *("task", "rules", "advice", "start", "response", "feedback", "criteria", "score", "action"),
    *("reason", "suggestions"),
)
"""Every tag of the critics' prompts and replies."""

NO_ACTION = "(no action)"
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)}))", re.IGNORECASE)
_NOTE = len("\n(9999 turns left out)\n")

Part = tuple[str, int]
"""A text and how many turns it tells of."""


def plain(text: str) -> str:
    """The text with the beginning of every tag of ours written `&lt;`, so that it neither opens nor closes one.

    Longer names that begin as a tag's count too: no cut through the text makes a tag of them.
    """
    return _TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """`plain`, with every run of white space as one space."""
    return plain(" ".join(text.split()))


def clipped(text: str, longest: int) -> str:
    """The text, or `longest` characters of it: its beginning and end around a note of how many are missing."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ({len(text) - 2 * half} characters left out) {text[-half:]}"


def transcript(steps: Sequence[Step], budget: int = BUDGET) -> str:
    """The turns, responses and feedback in tags, in at most `budget` characters.

    Raises `UsageError` for a budget under `LEAST_BUDGET`, which cannot show a turn.
    """
    if budget < LEAST_BUDGET:
        raise UsageError(f"a transcript needs at least {LEAST_BUDGET} characters, not {budget}")
    return _shortened(list(_blocks(steps, budget)), budget)


def _blocks(steps: Sequence[Step], budget: int) -> Iterator[Part]:
    """Turns in a row with the same feedback, as one text."""
    for feedback, block in groupby(steps, key=lambda step: step.observation):
        responses: list[Part] = []
        for action, run in groupby(block, key=lambda step: step.action):
            times = len(list(run))
            response = clipped(one_line(action or NO_ACTION), budget // 8)
            responses.append((f"<response>{response}</response>{f' ({times} times)' if times > 1 else ''}", times))
        answer = clipped(plain(feedback.strip()), budget // 3)
        text = f"{_shortened(responses, budget // 3)}<feedback>{answer}</feedback>"
        yield text, sum(times for _, times in responses)


def _shortened(parts: Sequence[Part], room: int) -> str:
    """The parts, one a line; the last always, the others from the end and the beginning by turns while they fit."""
    room -= _NOTE
    first, last = 0, len(parts)
    from_end = True
    while first < last:
        length = len(parts[last - 1][0] if from_end else parts[first][0]) + 1
        if length > room and last < len(parts):
            break
        room -= length
        first, last = (first, last - 1) if from_end else (first + 1, last)
        from_end = not from_end
    left_out = sum(times for _, times in parts[first:last])
    note = [f"({left_out} turn{'' if left_out == 1 else 's'} left out)"] if left_out else []
    return "\n".join([text for text, _ in parts[:first]] + note + [text for text, _ in parts[last:]])
