"""What a run needs before it starts: packages of the extras and a launcher's variables. Imports no torch, so that a
missing package is said in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec

from align_echo.errors import MissingExtraError, UsageError, require

EXTRA_PACKAGES = ("torch", "transformers", "peft", "accelerate", "yaml")


def require_training() -> None:
    """Raise `MissingExtraError` unless the packages for training are installed."""
    if any(find_spec(name) is None for name in EXTRA_PACKAGES):
        raise MissingExtraError("training", "train")


def require_trl() -> None:
    """Raise `MissingExtraError` unless TRL is installed."""
    if find_spec("trl") is None:
        raise MissingExtraError("backend: trl", "train")


def require_four_bit() -> None:
    """Raise `UsageError` unless a model can be kept in 4 bits: that needs a GPU and bitsandbytes."""
    import torch

    if not torch.cuda.is_available():
        raise UsageError("lora.four_bit: a model in 4 bits needs a GPU, and there is none: leave it out")
    if find_spec("bitsandbytes") is None:
        raise UsageError("lora.four_bit: a model in 4 bits needs bitsandbytes: pip install bitsandbytes")


def require_pictures() -> None:
    """Raise `MissingExtraError` unless the package for screenshots is installed."""
    require("a critic on screens", "gui", ("PIL",))


# ---------------------------------------------------------------- processes that a launcher started

LAUNCHER_VARIABLES = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables set by a launcher beside `WORLD_SIZE`."""


def how_many() -> int:
    """Return the number of processes of the run. Raises `UsageError` for an incomplete environment."""
    world_size = os.environ.get("WORLD_SIZE") or "1"
    if world_size == "1":
        return 1
    missing = [name for name in LAUNCHER_VARIABLES if not os.environ.get(name)]
    if missing or not world_size.isdecimal() or len(world_size) > 6:
        wrong = f"WORLD_SIZE is {world_size!r}" + (f" without {', '.join(missing)}" if missing else "")
        raise UsageError(f"{wrong}: start with torchrun or accelerate launch, or unset WORLD_SIZE for one process")
    return int(world_size)


def keep_to_this_machine() -> None:
    """Use the loopback interface if all processes are on this machine, so that no other machine can connect."""
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if loopback and os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)


def divides_weights() -> bool:
    """Return whether `accelerate launch` divides the weights among processes (FSDP, DeepSpeed)."""
    asked = (os.environ.get(f"ACCELERATE_USE_{engine}", "") for engine in ("FSDP", "DEEPSPEED"))
    return any(value.lower() == "true" for value in asked)


@contextmanager
def first_alone_prints() -> Iterator[None]:
    """Silence standard output and error in all processes but the first. Exceptions pass through."""
    with ExitStack() as stack:
        if how_many() > 1 and int(os.environ.get("RANK") or 0) > 0:
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        yield
