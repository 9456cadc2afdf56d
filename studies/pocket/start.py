"""A start for a small Qwen3 that can look things up: three attention heads are built in, all else adds nothing yet.

    layer 0, head 0   looks at the token before and notes its code beside each token
    layer 1, head 0   looks where the present token stood before, and proposes what followed there (an induction head)
    layer 1, head 2   looks at earlier occurrences of the present token, and notes what they stood behind

Copying from the context takes a model of this size very long to find by itself, and every task here is made of it. A
token's code is a fixed random projection of its embedding. Every matrix is trained from then on like any other.
Left out: biases, which Qwen3 has none of; a constant first entry of all embeddings stands in for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from align_echo.errors import UsageError

CONSTANT = 0.3
"""First entry of every embedding; the others have a standard deviation of 0.02."""
NOTE = 0.03
"""How strongly the heads write their notes: about as strongly as embeddings."""
PROPOSAL = 0.1
SLOW = 0.004
"""Frequencies (radians a token) below which a rotary dimension hardly turns over a conversation."""
FAST = 4
"""How many of the fastest rotary frequencies tell the token before from others."""


@dataclass(frozen=True)
class _Shape:
    """D hidden, H a head's; `notes` and `marks` are the places in the residual that the first and third head write."""

    hidden: int
    head: int
    frequencies: torch.Tensor

    @property
    def notes(self) -> slice:
        return slice(self.hidden - self.head, self.hidden)

    @property
    def marks(self) -> slice:
        return slice(self.hidden - 2 * self.head, self.hidden - self.head)

    @property
    def slow(self) -> list[int]:
        places = [index for index, frequency in enumerate(self.frequencies.tolist()) if frequency < SLOW]
        return places + [index + self.head // 2 for index in places]


@torch.no_grad()
def build_in_lookups(model: Qwen3ForCausalLM, *, seed: int) -> None:
    """Change a fresh model in place. Raises `UsageError` for one that is too small for the three heads."""
    shape = _shape_of(model.config)
    draw = torch.Generator().manual_seed(seed)
    code = torch.randn(shape.head, shape.hidden, generator=draw) / math.sqrt(shape.hidden)  # [H, D]
    code[:, 0] = 0.0
    code[:, shape.notes] = 0.0
    code[:, shape.marks] = 0.0
    basis = torch.linalg.qr(torch.randn(shape.head, len(shape.slow), generator=draw))[0].T  # [slow, H]
    embeddings = model.model.embed_tokens.weight  # [V, D]
    embeddings[:, 0] = CONSTANT
    embeddings[:, shape.notes] *= 0.1
    embeddings[:, shape.marks] *= 0.1
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    _look_back(model.model.layers[0].self_attn, shape, code)
    _look_up(model.model.layers[1].self_attn, shape, code, basis)
    _look_for_the_same(model.model.layers[1].self_attn, shape, code, basis)


def _look_back(attention: torch.nn.Module, shape: _Shape, code: torch.Tensor) -> None:
    """Queries and keys are the same everywhere, a turn of one token apart: the score is highest one token back."""
    size, half = shape.head, shape.head // 2
    query, key = torch.zeros(size), torch.zeros(size)
    for index, angle in enumerate(shape.frequencies[:FAST].tolist()):
        query[index] = 1.0
        key[index], key[index + half] = math.cos(angle), math.sin(angle)
    for rows, constant in ((_rows(attention, "q_proj", 0, size), query), (_rows(attention, "k_proj", 0, size), key)):
        rows *= 0.1
        rows[:, 0] = CONSTANT * constant
    _rows(attention, "v_proj", 0, size).copy_(code)
    _out(attention)[shape.notes, :size] = NOTE * torch.eye(size)


def _look_up(attention: torch.nn.Module, shape: _Shape, code: torch.Tensor, basis: torch.Tensor) -> None:
    """The present token's code against the notes; what stands there is proposed through the tied head."""
    size = shape.head
    notes = torch.zeros(len(shape.slow), shape.hidden)
    notes[:, shape.notes] = basis
    _compare(attention, shape, (0, basis @ code), (0, notes))
    _rows(attention, "v_proj", 0, size).copy_(code)
    _out(attention)[:, :size] = PROPOSAL * code.T


def _look_for_the_same(attention: torch.nn.Module, shape: _Shape, code: torch.Tensor, basis: torch.Tensor) -> None:
    """The present token's code against all tokens' codes; their notes become marks."""
    size = shape.head
    _compare(attention, shape, (2, basis @ code), (1, basis @ code))
    values = _rows(attention, "v_proj", 1, size)
    values.zero_()
    values[:, shape.notes] = 0.7 * torch.eye(size)
    _out(attention)[shape.marks, 2 * size : 3 * size] = NOTE * torch.eye(size)


def _compare(
    attention: torch.nn.Module, shape: _Shape, query: tuple[int, torch.Tensor], key: tuple[int, torch.Tensor]
) -> None:
    """Let a head compare what two readings [slow, D] of the residual give; (head, reading) of each."""
    for name, (head, reading) in (("q_proj", query), ("k_proj", key)):
        rows = _rows(attention, name, head, shape.head)
        rows *= 0.05
        rows[shape.slow] = reading


def _shape_of(config: Qwen3Config) -> _Shape:
    size = int(config.head_dim)
    queries, keys = config.num_attention_heads, config.num_key_value_heads or 0
    if config.num_hidden_layers < 2 or config.hidden_size < 3 * size or keys < 2 or queries != 2 * keys:
        raise UsageError("lookups need 2 layers, a width of 3 heads, 2 key-value heads and twice as many query heads")
    theta = float((config.rope_parameters or {})["rope_theta"] or 0)
    return _Shape(config.hidden_size, size, theta ** (-torch.arange(size // 2) / (size // 2)))


def _rows(attention: Any, name: str, head: int, size: int) -> torch.Tensor:
    """The weights [H, D] of one head of a projection."""
    weight: torch.Tensor = getattr(attention, name).weight
    return weight[head * size : (head + 1) * size]


def _out(attention: Any) -> torch.Tensor:
    """The weights [D, heads H] of the projection of what the heads found."""
    weight: torch.Tensor = attention.o_proj.weight
    return weight
