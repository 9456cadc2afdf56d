"""How many threads torch computes with, for a while: the number belongs to the process, and others use it too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Compute with so many threads; afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
