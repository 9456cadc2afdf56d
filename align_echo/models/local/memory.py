"""Memory of local models: what a model and its conversations need, and the limit shared by all models of a process.

Needs no torch. Not here: which conversations are computed or wait (`transformers_engine.py`).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from align_echo.errors import ModelError, UsageError

# ---------------------------------------------------------------- sizes in bytes

MIB, GIB = 2**20, 2**30
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": MIB, "gi": GIB, "ti": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Parse a size such as "6GiB", "500 MB" or "1.5g" to bytes. Raises `UsageError`."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[(match[2] or "").lower()]) if match else 0
    if size < 1 or (size < MIB and text.strip().isdecimal()):
        raise UsageError(f"--memory {text!r} is no size: write it like 6GiB or 500MB")
    return size


def size_text(size: float) -> str:
    """Format bytes in GiB, or in MiB below one."""
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:,.0f} MiB"


# ---------------------------------------------------------------- what a model needs

LEAST_ROOM = 1024
"""Fewest tokens of a conversation that must fit, or the whole context if that is shorter."""

_LOGIT_BYTES = 32
"""Bytes per logit while a token is drawn: logits, log-probabilities and cumulative sums in float64."""


@dataclass(frozen=True)
class ModelMemory:
    """Bytes that a model needs: its weights, the activations of a step, and keys and values per token of a
    conversation of up to `context` tokens.
    """

    weights: int
    activations: int
    token: int
    context: int

    @property
    def fixed(self) -> int:
        """Bytes needed before any conversation."""
        return self.weights + self.activations

    @property
    def conversation(self) -> int:
        """Bytes of keys and values of the longest conversation."""
        return self.token * self.context

    @property
    def least(self) -> int:
        """Bytes without which the model is refused."""
        return self.fixed + self.token * min(self.context, LEAST_ROOM)

    def room(self, limit: int) -> int:
        """Number of tokens of all conversations together that fit in a limit."""
        return max(0, limit - self.fixed) // self.token

    def describe(self, limit: int) -> str:
        """Describe the use of a limit in one line."""
        return (
            f"weights {size_text(self.weights)}, activations {size_text(self.activations)}, "
            f"{self.describe_conversations(self.room(limit))}"
        )

    def describe_conversations(self, room: int) -> str:
        """Describe how many conversations fit in a number of tokens."""
        longest = f"keys and values {size_text(self.conversation)} for a conversation of {self.context:,} tokens"
        if room < self.context:
            return f"{longest}, which is cut at {room:,} to fit"
        return f"{longest}, {room // self.context:,} of which fit at once"


def model_memory(config: Any, parameters: int, *, weight_bytes: float, context: int, step_tokens: int) -> ModelMemory:
    """Estimate from a model's text configuration and its number of parameters.

    `weight_bytes` are the bytes of a number, `step_tokens` the most tokens of a step.
    """
    heads, hidden = config.num_attention_heads, config.hidden_size
    shared = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or hidden // heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    numbers = 4 * hidden + 3 * inner + 2 * (heads + 2 * shared) * size  # of a token in one layer
    masks = context * (1 + weight_bytes * (1 + heads // shared))  # of a token over the longest context
    logits = _LOGIT_BYTES * config.vocab_size * min(64, step_tokens)
    return ModelMemory(
        weights=int(parameters * weight_bytes),
        activations=int(step_tokens * (numbers * weight_bytes + masks) + logits),
        token=int(config.num_hidden_layers * 2 * shared * size * weight_bytes),
        context=context,
    )


LOGITS = 2**25
"""Most logits in memory at once while a model learns."""

_LEARNED_LOGIT_BYTES = 20
"""Bytes per logit while a model learns: logits, log-probabilities, probabilities, and gradients of the first two."""


def learning_activations(config: Any, tokens: int, *, checkpointing: bool) -> int:
    """Estimate the bytes of activations in float32 that are held for a backward pass over so many tokens."""
    heads, hidden = config.num_attention_heads, config.hidden_size
    shared = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or hidden // heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    layer = 6 * hidden + 2 * (heads + 2 * shared) * size + 4 * inner  # numbers of a token
    layers: int = config.num_hidden_layers
    logits = _LEARNED_LOGIT_BYTES * min(LOGITS, tokens * config.vocab_size)
    return int(4 * tokens * (layers * hidden + layer if checkpointing else layers * layer) + logits)


# ---------------------------------------------------------------- what is free

FREE_SHARE = {"cpu": 0.5, "cuda": 0.9}
"""Share of the free memory that is used by default: others use a machine's memory too, a GPU's rarely."""

_CGROUP = Path("/sys/fs/cgroup")


def _kind(device: str) -> str:
    return "cuda" if device.startswith("cuda") else "cpu"


def free_memory(device: str = "cpu") -> int:
    """Return the free bytes of a device: of this machine or this container, or of a GPU."""
    if _kind(device) == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    free = _machine_memory()
    try:  # of a container; files that were read count as used there, and can be dropped
        most, used = (int((_CGROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, min(free, most - used + int(stat["inactive_file"])))
    except (OSError, ValueError, KeyError):
        return free


def _machine_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


KEEP_PIECE, KEEP = 64 * MIB, 256 * MIB
"""Largest piece of memory, and most of a thread's, that the C library keeps once it is freed."""


def keep_freed_memory() -> None:
    """Have the C library keep freed memory for the next step, where it can be told to (glibc).

    Otherwise the logits of each step come from the system page by page, and go back to it. A user's own setting of the
    allocator stays.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        mallopt(-3, KEEP_PIECE)  # M_MMAP_THRESHOLD
        mallopt(-1, KEEP)  # M_TRIM_THRESHOLD


NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
"""Flag of addresses that take no memory before they are written."""


def untouched_pages(size: int) -> mmap.mmap:
    """Reserve addresses of so many bytes. A page takes memory once it is written; huge pages would take more.

    Raises `ModelError` where the system has no room for them.
    """
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    except (OSError, ValueError) as error:
        raise ModelError(f"no {size:,} bytes of addresses can be reserved for conversations: {error}") from None
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return pages


# ---------------------------------------------------------------- the limit that all models of a process share


class MemoryPool:
    """The limit of a process. Models take their fixed parts; what is left is shared equally for conversations."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limit = 0
        self._fixed: dict[int, int] = {}
        self._resize: dict[int, Callable[[int], None]] = {}
        self._number = 0

    def set_limit(self, limit: int) -> None:
        """Set the limit in bytes, for models loaded later; 0 for the default, half of what is free then."""
        with self._lock:
            self._limit = limit

    def limit(self, device: str = "cpu") -> int:
        """Return the limit in bytes. Without one, a share of what is free now is set (`FREE_SHARE`)."""
        with self._lock:
            self._limit = self._limit or int(free_memory(device) * FREE_SHARE[_kind(device)])
            return self._limit

    def describe(self, name: str, memory: ModelMemory, *, copies: int = 1, device: str = "cpu") -> str:
        """Describe the memory of a model that fits, in one line."""
        limit, left = self.limit(device), self.check_fit(name, memory, copies=copies, device=device)
        each = f"{copies} processes with " if copies > 1 else ""
        return f"memory for {name}: {size_text(limit)}; {each}{memory.describe(memory.fixed + left // copies)}"

    def check_fit(self, name: str, memory: ModelMemory, *, copies: int = 1, device: str = "cpu") -> int:
        """Return the bytes for conversations of a model, or of as many copies, beside the fixed parts in the pool.

        Raises `UsageError` if it does not fit.
        """
        limit, fixed = self.limit(device), sum(self._fixed.values())
        if fixed + copies * memory.least <= limit:
            return limit - fixed - copies * memory.fixed
        beside = f" beside {size_text(fixed)} in use" if fixed else ""
        often = f"{copies} times " if copies > 1 else ""
        raise UsageError(
            f"{name} does not fit in {size_text(limit)} of memory{beside}: it needs {often}{size_text(memory.least)} "
            f"(weights {size_text(memory.weights)}, activations {size_text(memory.activations)}, a conversation of "
            f"{min(memory.context, LEAST_ROOM):,} tokens): give it more with --memory, or name a smaller model"
        )

    def join(self, fixed: int, resize: Callable[[int], None] | None = None, *, device: str = "cpu") -> int:
        """Take a fixed part, and return its number for `leave`.

        `resize` is called with the bytes for conversations, at once and whenever they change.
        """
        self.limit(device)
        with self._lock:
            self._number += 1
            self._fixed[self._number] = fixed
            if resize is not None:
                self._resize[self._number] = resize
            number = self._number
        self._tell()
        return number

    @contextmanager
    def reserve(self, fixed: int, device: str = "cpu") -> Iterator[None]:
        """Take a fixed part for the duration of a block."""
        number = self.join(fixed, device=device)
        try:
            yield
        finally:
            self.leave(number)

    def leave(self, number: int) -> None:
        """Give a part back."""
        with self._lock:
            self._fixed.pop(number, None)
            self._resize.pop(number, None)
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            left = max(0, self._limit - sum(self._fixed.values()))
            callbacks = list(self._resize.values())
        for callback in callbacks:
            callback(left // len(callbacks))


POOL = MemoryPool()
"""The pool of this process."""
