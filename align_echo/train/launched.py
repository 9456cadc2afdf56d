"""What a launcher (`accelerate launch`, `torchrun`) tells each process of a run, by its environment variables.

Left out: what the processes say to each other (`processes.py`), for which torch is needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout

from align_echo.errors import UsageError

TOLD = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""What a launcher tells besides how many processes there are."""


def how_many() -> int:
    """How many processes make the run. Raises `UsageError` where the environment says so in half."""
    told = os.environ.get("WORLD_SIZE") or "1"
    if told == "1":
        return 1
    missing = [name for name in TOLD if not os.environ.get(name)]
    if missing or not told.isdecimal() or len(told) > 6:
        wrong = f"WORLD_SIZE is {told!r}" + (f" without {', '.join(missing)}" if missing else "")
        raise UsageError(f"{wrong}: start with torchrun or accelerate launch, or unset WORLD_SIZE for one process")
    return int(told)


def keep_to_this_machine() -> None:
    """Let processes that are all on this machine meet on its loopback, which nobody else reaches."""
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if loopback and os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)


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
