"""Copies of a plain environment, which stand in for replays where they answer alike.

Not here: the trial that compares copies with replays, and the return to a state (`plain.py`).
"""

from __future__ import annotations

import copy
import gc
import random
import re
import sys
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

Env = TypeVar("Env")
Kept = TypeVar("Kept")

MOST_OBJECTS = 200_000
MOST_BYTES = 64 * 2**20
"""Limits of a copy; a larger environment is replayed."""

SHELF_BYTES = 256 * 2**20
MOST_COPIES = 512
"""Limits of all copies of an environment that are kept."""


class CannotCopyError(Exception):
    """The environment has no copy, for the reason given."""


class _Counting(dict[int, Any]):
    """Memo of `deepcopy` that stops a copy that grows too large."""

    size = 0

    def __setitem__(self, key: int, value: Any) -> None:
        super().__setitem__(key, value)
        self.size += sys.getsizeof(value, 64)
        if len(self) > MOST_OBJECTS or self.size > MOST_BYTES:
            raise CannotCopyError("it is too large to copy")


def copied(env: Env) -> tuple[Env, int]:
    """Return a deep copy and its rough size in bytes. Raises `CannotCopyError`."""
    memo = _Counting()
    try:
        return copy.deepcopy(env, memo), memo.size
    except CannotCopyError:
        raise
    except Exception as error:
        raise CannotCopyError(f"it cannot be copied ({type(error).__name__})") from None


@contextmanager
def quiet_remains() -> Iterator[None]:
    """Drop half-made copies without the complaints of their `__del__`."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = hook


@dataclass
class ForkWays:
    """Ways back to a state of an environment, shared by all its instances: prices in seconds, once they are known.

    `copies` is None before a trial of copies told anything, after so many `trials`; `why_not` says why copies are not
    used.
    """

    copies: bool | None = None
    why_not: str = ""
    trials: int = 0
    copy_seconds: float = 0.0
    copy_bytes: int = 1
    reset_seconds: float = 0.0
    step_seconds: float = 0.0

    @property
    def capacity(self) -> int:
        """Number of copies to keep."""
        return min(MOST_COPIES, max(1, SHELF_BYTES // max(1, self.copy_bytes)))

    def refuse(self, why: str) -> None:
        """Use no copies."""
        self.copies, self.why_not = False, why


@dataclass
class CopyShelf:
    """Copies by state; those least used are dropped first."""

    kept: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)

    def longest(self, task_id: str, played: Sequence[Any]) -> tuple[int, Any]:
        """Return the copy nearest before a state of a task, and its number of texts; (0, None) for none."""
        for length in range(len(played), 0, -1):
            key = (task_id, played[:length])
            if key in self.kept:
                self.kept.move_to_end(key)
                return length, self.kept[key]
        return 0, None

    def put(self, task_id: str, played: Hashable, copy_of_it: Any, capacity: int) -> None:
        """Keep a copy."""
        self.kept[task_id, played] = copy_of_it
        while len(self.kept) > capacity:
            self.kept.popitem(last=False)


def draw_action(rng: random.Random, listed: Collection[str] | None, action_format: str, text: str) -> str:
    """Draw a listed action, or a form of the action format with words of a text."""
    if listed:
        return rng.choice(sorted(listed))
    words = sorted(set(re.findall(r"\w+", text))) or ["it"]
    form = rng.choice([form.strip() for form in action_format.split("|")])
    return re.sub(r"\{\w*\}", lambda _: rng.choice(words), form)[:200]
