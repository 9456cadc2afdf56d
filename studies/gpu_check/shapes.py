"""Models of known shapes with random weights (nothing is downloaded), and rows of figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from studies.rounds import rounded

SPREAD = 0.05
"""Standard deviation of the weights: with Qwen3's 0.02 all tokens would be about equally likely."""


@dataclass(frozen=True)
class Work:
    """How much the check does: conversations at once, turns, and tokens of an opening, an observation and a reply;
    rounds that are counted; lengths of the scorer's conversations; tasks, samples and turns of a training step. ECHO
    beside GRPO has shapes of its own.
    """

    shapes: Mapping[str, Mapping[str, Any]]
    echo_shapes: Mapping[str, Mapping[str, Any]]
    rows: tuple[int, ...]
    turns: int
    opening: int
    observation: int
    reply: int
    rounds: int
    judged: tuple[int, ...]
    queries: int
    samples: int
    episode: int


def _qwen3(hidden: int, intermediate: int, layers: int, heads: int) -> Mapping[str, Any]:
    return {
        **{"vocab_size": 151_936, "hidden_size": hidden, "intermediate_size": intermediate},
        **{"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": 8},
        **{"head_dim": 128, "max_position_embeddings": 40_960},
    }


_QWEN3_06B = _qwen3(1024, 3072, 28, 16)
_SMOLLM2_135M = {
    **{"model_type": "llama", "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536},
    **{"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3},
    **{"head_dim": 64, "max_position_embeddings": 8192},
}

FULL = Work(
    shapes={"qwen3-0.6b": _QWEN3_06B, "qwen3-4b": _qwen3(2560, 9728, 36, 32)},
    echo_shapes={"smollm2-135m": _SMOLLM2_135M, "qwen3-0.6b": _QWEN3_06B},
    rows=(8, 32), turns=3, opening=600, observation=60, reply=16, rounds=2, judged=(1000, 8000),
    queries=2, samples=8, episode=8,
)  # fmt: skip
"""The figures of the models' own configurations."""

_TINY = {
    **{"vocab_size": 2048, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 2048},
}

_THIRDS = {"model_type": "llama", "hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3}

TINY = Work(
    shapes={"tiny": _TINY, "tiny-2": {**_TINY, "hidden_size": 48}},
    echo_shapes={"tiny-llama": {**_TINY, **_THIRDS}},
    rows=(2,), turns=2, opening=40, observation=6, reply=4, rounds=1, judged=(64,), queries=2, samples=3, episode=2,
)  # fmt: skip
"""The rehearsal's, on a CPU."""


def new_model(shape: Mapping[str, Any], dtype: torch.dtype, device: torch.device) -> Any:
    """A model of the shape, of Qwen3's type if the shape has none, with weights drawn on the device from seed 0."""
    given: dict[str, Any] = {"model_type": "qwen3", **shape, "initializer_range": SPREAD}
    given |= {"tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 0}
    config = AutoConfig.for_model(given.pop("model_type"), **given)
    make: Any = AutoModelForCausalLM
    torch.manual_seed(0)
    with _made_as(dtype), device:
        model: Any = make.from_config(config)
    return model.to(device).eval()


@contextmanager
def _made_as(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def parameters(model: Any) -> int:
    """How many there are; tied ones once."""
    return sum(weights.numel() for weights in model.parameters())


@dataclass(frozen=True)
class Row:
    """`key` says what was measured, its `part` first; `figures` what came of it, or why there is nothing (`skipped`,
    `fault`).
    """

    key: Mapping[str, Any]
    figures: Mapping[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        """As it stands in the JSON, with four digits."""
        return {**self.key, **{name: rounded(value) for name, value in self.figures.items()}}

    @property
    def line(self) -> str:
        """As it stands on the terminal."""
        what = ", ".join(str(value) for value in self.key.values())
        return f"{what}: " + ", ".join(f"{name} {rounded(value)}" for name, value in self.figures.items())


@dataclass
class Memory:
    """The most that tensors on the GPU took, in GiB; None on a CPU, or before it was read."""

    gib: float | None = None


@contextmanager
def peak_memory() -> Iterator[Memory]:
    """Within, the most memory that is in use is watched; what is there from before counts."""
    memory = Memory()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    yield memory
    if torch.cuda.is_available():
        memory.gib = torch.cuda.max_memory_allocated() / 2**30
