"""Log-probabilities of a model's own tokens, with the head run on the positions that count alone.

Left out: attention masks. Rows are padded on the right and attention looks back only, so padding is never seen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from align_echo.errors import UsageError

CHUNK = 4096
"""Positions whose logits are in memory at once."""


def token_logprobs(
    model: Any, ids_BT: torch.Tensor, mask_BT: torch.Tensor, *, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Natural log-probabilities [B, T-1] of each token but the first given those before it, where `mask` [B, T-1] is
    not 0, and 0 elsewhere: under the temperature, in float32 or better, with gradient. And the entropies [B, T-1] of
    the same places in nats, without gradient.
    """
    decoder, head = parts(model)
    places = mask_BT.bool()
    hidden = decoder(input_ids=ids_BT, use_cache=False).last_hidden_state[:, :-1][places]  # [N, D]
    targets = ids_BT[:, 1:][places]  # [N]
    logprobs, entropies = [], []
    for start in range(0, len(targets), CHUNK):
        logits = head(hidden[start : start + CHUNK])  # [n, V]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
        all_logprobs = logits.log_softmax(-1)
        logprobs.append(all_logprobs.gather(-1, targets[start : start + CHUNK, None]).squeeze(-1))
        with torch.no_grad():
            entropies.append(-(all_logprobs.exp() * all_logprobs).sum(-1))
    if not len(targets):
        return torch.zeros_like(mask_BT), torch.zeros_like(mask_BT)
    empty = torch.zeros(mask_BT.shape, dtype=logprobs[0].dtype, device=ids_BT.device)
    return empty.masked_scatter(places, torch.cat(logprobs)), empty.masked_scatter(places, torch.cat(entropies))


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
