"""Whether a reader's time grows faster than the length of what it reads."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Iterator
from types import FrameType

from benchmarks.fuzz.mutate import DEEP, ODD
from benchmarks.fuzz.targets import Target

LENGTHS = (25_000, 50_000, 100_000)
"""Characters: the longest is what a model may write at 8,192 tokens of 12."""

SLOW = 2.0
"""Seconds at the longest text under which no growth matters."""

STEEP = 3.0
"""What is measured is called steep where twice the text takes more than so many times as long."""

TOO_LONG = 20
"""Seconds after which a reader is stopped."""


class TooLongError(BaseException):
    """A reader was stopped. No `Exception`, so that no reader takes it for one of its own."""


def fragments(target: Target) -> list[str]:
    """What may be repeated: odd signs, parts of the seeds between blanks and tags, pairs of these."""
    parts = {part for seed in target.seeds for part in re.findall(r"</?\w+>|\w+:?|\s|[^\w\s]", seed)}
    short = sorted(part for part in parts | {*ODD, *DEEP} if 0 < len(part) < 40)
    tags = [part for part in short if re.fullmatch(r"</?\w+>|\W{1,3}|\w+:", part)]
    return [*short, *(first + second for first in tags for second in tags if first != second)]


def steep(target: Target, fragment: str) -> str:
    """How a target's time grows on texts that repeat a fragment, behind its first seed or alone; "" if it need not
    worry anybody."""
    for before in ("", target.seeds[0], target.seeds[0][: len(target.seeds[0]) // 2]):
        shortest, longest = LENGTHS[0], LENGTHS[-1]
        if _seconds(target, before + fragment * (shortest // len(fragment))) < SLOW / 32:
            continue
        times = [_seconds(target, before + fragment * (length // len(fragment))) for length in LENGTHS]
        if times[-1] > SLOW and (times[-1] > STEEP * times[-2] or times[-1] >= TOO_LONG):
            shown = ", ".join(f"{seconds:.2f}" for seconds in times)
            return f"{fragment!r} behind {before[:30]!r}: {shown} s at {shortest} to {longest} characters"
    return ""


def _seconds(target: Target, text: str) -> float:
    begun = time.process_time()
    try:
        with stopped_after(TOO_LONG), contextlib.suppress(Exception):
            target.read(text)
    except TooLongError:
        return float(TOO_LONG)
    return time.process_time() - begun


@contextlib.contextmanager
def stopped_after(seconds: int) -> Iterator[None]:
    """What takes more CPU seconds than that is stopped with `TooLongError`, where Python code or a regular expression
    runs."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
