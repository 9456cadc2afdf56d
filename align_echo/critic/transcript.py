"""A trajectory as text for a critic: tagged turns within a character budget, with tags escaped in the content.

Consecutive turns with the same feedback share it, and a response repeated in a row is written once with its count. Long
content is shortened in the middle, with a note of the amount left out. This applies to long texts, to the responses of
one feedback and to the turns, which are added from the end and the beginning as long as they fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from align_echo.errors import UsageError
from align_echo.types import Step

BUDGET = 5000
"""Characters for all turns together: about 1,500 tokens."""

LEAST_BUDGET = 500

TAGS = (
    *("task", "rules", "advice", "start", "response", "feedback", "criteria", "score", "action"),
    *("reason", "suggestions"),
)
"""All tags in the critics' prompts and replies."""

NO_ACTION = "(no action)"
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)}))", re.IGNORECASE)
_NOTE = len("\n(9999 turns left out)\n")

Part = tuple[str, int]
"""A text and the number of turns in it."""


def plain(text: str) -> str:
    """Escape the start of every tag as `&lt;`, so that the text cannot open or close one.

    Longer names with a tag's name as prefix are escaped too, so that shortening the text cannot create a tag.
    """
    return _TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """Escape tags as `plain` does, and collapse white space."""
    return plain(" ".join(text.split()))


def clipped(text: str, longest: int) -> str:
    """Shorten a text to `longest` characters: its beginning and end around a note of how many are missing."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ({len(text) - 2 * half} characters left out) {text[-half:]}"


def transcript(steps: Sequence[Step], budget: int = BUDGET) -> str:
    """Write turns, responses and feedback in tags, in at most `budget` characters.

    Raises `UsageError` for a budget under `LEAST_BUDGET`, too small for a turn.
    """
    if budget < LEAST_BUDGET:
        raise UsageError(f"a transcript needs at least {LEAST_BUDGET} characters, not {budget}")
    return _shortened(list(_blocks(steps, budget)), budget)


def _blocks(steps: Sequence[Step], budget: int) -> Iterator[Part]:
    """Generate consecutive turns with the same feedback as one text."""
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
    """Join the parts, one a line: always the last, the others alternately from the end and the beginning while they
    fit.
    """
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
