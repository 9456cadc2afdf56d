"""What all scripted novices have in common: draws that depend on the occasion only, and how long a hint is followed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

from align_echo.types import Turn


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts only."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:6]) / 2**48


def times_followed(turns: Sequence[Turn], command: str) -> int:
    """How often a command came right after the action that was said last."""
    last = turns[-1].action
    return sum(turn.action == command and before.action == last for before, turn in pairwise(turns))
