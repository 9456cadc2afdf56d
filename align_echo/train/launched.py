"""What a launcher (`accelerate launch`, `torchrun`) tells each process of a run, by its environment variables.

Left out: what the processes say to each other (`processes.py`), for which torch is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout


def how_many() -> int:
    """How many processes make the run."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def divides_weights() -> bool:
    """Whether `accelerate launch` was told to divide the weights among processes (FSDP, DeepSpeed)."""
    asked = (os.environ.get(f"ACCELERATE_USE_{engine}", "") for engine in ("FSDP", "DEEPSPEED"))
    return any(value.lower() == "true" for value in asked)


@contextmanager
def first_alone_prints() -> Iterator[None]:
    """What is printed goes nowhere in all processes but the first. What is raised is printed by whoever catches it."""
    with ExitStack() as stack:
        if how_many() > 1 and int(os.environ.get("RANK") or 0) > 0:
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        yield
