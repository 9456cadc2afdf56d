"""Answers of pure functions on texts, remembered: the trials read the same sentences thousands of times.

Left out: what depends on more of a spec than on the pattern of its names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

MOST = 100_000
"""Answers that are remembered of each function; those that were not asked for longest go first."""

Answer = TypeVar("Answer")


def by_name(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """A function of a spec and texts that reads nothing of the spec but "name", with its answers remembered. They are
    shared: whoever asks leaves them as they are."""

    @lru_cache(maxsize=MOST)
    def remembered(name: str, *texts: str) -> Answer:
        return function({"name": name}, *texts)

    @wraps(function)
    def asked(spec: dict[str, Any], *texts: str) -> Answer:
        return remembered(spec["name"], *texts)

    return asked


by_text = lru_cache(maxsize=MOST)
"""The same of a function of one text."""
