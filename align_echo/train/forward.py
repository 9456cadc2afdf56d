"""Log-probabilities of a model's own tokens, with the head run on the positions that count alone.

What rows begin with alike is computed once and handed on as keys and values, and gradients come back through those.
Left out: attention masks. Rows are padded on the right and attention looks back only, so padding is never seen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from align_echo.errors import UsageError

CHUNK = 4096
"""Positions whose logits are in memory at once."""

CHECKED_IDS = (1, 2, 3, 4, 5)
"""On which models are tried out."""


def token_logprobs(
    model: Any,
    ids_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    prefix_P: torch.Tensor | None = None,
    temperature: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Natural log-probabilities [B, T-1] of each token but the first given those before it, where `mask` [B, T-1] is
    not 0, and 0 elsewhere: under the temperature, in float32 or better, with gradient. And the entropies [B, T-1] of
    the same places in nats, without gradient. Every row comes after the prefix where there is one, which is not for
    every model (`why_not_shared`).
    """
    decoder, head = parts(model)
    places = mask_BT.bool()
    hidden = _hidden(decoder, prefix_P, ids_BT)[:, :-1][places]  # [N, D]
    targets = ids_BT[:, 1:][places]  # [N]
    logprobs, entropies = [], []
    for start in range(0, len(targets), CHUNK):
        with torch.autocast(ids_BT.device.type, enabled=False):  # half precision is too coarse for probabilities
            logits = head(hidden[start : start + CHUNK].to(next(head.parameters()).dtype))  # [n, V]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
        all_logprobs = logits.log_softmax(-1)
        logprobs.append(all_logprobs.gather(-1, targets[start : start + CHUNK, None]).squeeze(-1))
        with torch.no_grad():
            entropies.append(-(all_logprobs.exp() * all_logprobs).sum(-1))
    if not len(targets):
        return torch.zeros_like(mask_BT), torch.zeros_like(mask_BT)
    empty = torch.zeros(mask_BT.shape, dtype=logprobs[0].dtype, device=ids_BT.device)
    return empty.masked_scatter(places, torch.cat(logprobs)), empty.masked_scatter(places, torch.cat(entropies))


def _hidden(decoder: nn.Module, prefix_P: torch.Tensor | None, ids_BT: torch.Tensor) -> torch.Tensor:
    """Last hidden states [B, T, D] of rows that come after a prefix."""
    kept: dict[str, Any] = {"use_cache": False}
    if prefix_P is not None and len(prefix_P):
        cache = decoder(input_ids=prefix_P[None], use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(ids_BT))
        kept = {"use_cache": True, "past_key_values": cache}
    found: torch.Tensor = decoder(input_ids=ids_BT, **kept).last_hidden_state
    return found


def parts(model: Any) -> tuple[nn.Module, nn.Module]:
    """(decoder, head) of a causal language model of `transformers`, under PEFT too."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base.get_decoder(), base.get_output_embeddings()


@torch.no_grad()
def check_parts(model: Any, ids_T: torch.Tensor) -> None:
    """Raises `UsageError` if the head on the decoder does not give the model's own logits (it caps or scales them)."""
    decoder, head = parts(model)
    hidden = decoder(input_ids=ids_T[None], use_cache=False).last_hidden_state
    own = model(input_ids=ids_T[None], use_cache=False).logits
    if not torch.allclose(head(hidden).float(), own.float(), atol=1e-3, rtol=1e-3):
        raise UsageError(f"{type(model).__name__} changes its logits after the head: it cannot be trained here")


@torch.no_grad()
def why_not_shared(model: Any, ids_T: torch.Tensor) -> str:
    """Why the model cannot compute a prefix once for several rows, tried on two rows of these ids; "" where it can.

    It needs a cache that keeps all keys and values. A sliding window or a recurrent state keeps other things, and
    gradient checkpointing drops the cache without a word.
    """
    if any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        return "gradient checkpointing keeps no keys and values"
    decoder, training = parts(model)[0], model.training
    model.train(False)
    try:
        cache = getattr(decoder(input_ids=ids_T[None], use_cache=True), "past_key_values", None)
        if type(cache) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in cache.layers):
            return "it does not keep all keys and values"
        rows = torch.stack([ids_T, torch.cat([ids_T[:2], ids_T[2:].flip(0)])])  # [2, T]
        whole, after = _hidden(decoder, None, rows)[:, 2:], _hidden(decoder, rows[0, :2], rows[:, 2:])
    finally:
        model.train(training)
    alike = torch.allclose(whole.float(), after.float(), atol=1e-3, rtol=1e-3, equal_nan=True)
    return "" if alike else "what it makes of a token changes with how rows are divided"


def pair_cost(model: Any) -> float:
    """What it costs that one token looks at another, in units of all else that a token costs: by multiplications."""
    decoder: Any = parts(model)[0]
    config = decoder.config
    heads: int = config.num_attention_heads
    width = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    weights = (
        sum(parameter.numel() for parameter in decoder.parameters()) - decoder.get_input_embeddings().weight.numel()
    )
    return float(2 * config.num_hidden_layers * width / weights)
