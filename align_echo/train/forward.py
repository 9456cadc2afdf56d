"""Log-probabilities of a model's tokens, with the head run on the sampled positions only.

Rows with shared prefixes may be read as one tree of tokens (`tree_attention.py`), with each prefix computed once,
forward and backward. Other rows are padded on the right. There are no attention masks: attention looks back only, so it
never sees the padding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from align_echo.errors import UsageError, first_line
from align_echo.models.local.memory import LOGITS
from align_echo.train.tree_attention import TokenTree, over_trees, tree_inputs, trees

CHECKED_IDS = tuple(range(1, 25))
"""Token ids for checks of a model."""

SAME, SAME_HALF = 2e-5, 2e-2
"""Tolerance for states computed in another way, relative to the largest: in float32, and in half precision."""

MOST_ROUNDING = 1e-3
"""Largest difference, relative to the largest state, that is rounding if a model rounds so coarsely by itself."""


def token_logprobs(
    model: Any,
    ids_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    tree: TokenTree | None = None,
    temperature: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute log-probabilities and entropies of the tokens in `mask`.

    Returns natural log-probabilities [B, T-1] of each token but the first, given those before it, at the temperature,
    in float32 or better, with gradient; and the entropies [B, T-1] of the same positions in nats, without gradient.
    Both are 0 outside `mask` [B, T-1]. With `tree`, a tree of exactly these rows, the model reads the tree, which not
    every model can (`why_not_shared`).
    """
    decoder, head = parts(model)
    counted = mask_BT.bool()
    if not counted.any():
        return torch.zeros_like(mask_BT), torch.zeros_like(mask_BT)
    hidden, targets, order = _rows(decoder, ids_BT, counted) if tree is None else _tree(decoder, tree, counted)
    size = max(1, LOGITS // len(head.weight))
    chunks = [(hidden[start : start + size], targets[start : start + size]) for start in range(0, len(targets), size)]
    if len(chunks) == 1:
        computed = [_head_logprobs(head, *chunks[0], temperature)]
    else:  # logits are computed again for the gradient
        computed = [checkpoint(_head_logprobs, head, *chunk, temperature, use_reentrant=False) for chunk in chunks]
    logprobs, entropies = zip(*computed, strict=True)
    empty = torch.zeros(mask_BT.shape, dtype=logprobs[0].dtype, device=ids_BT.device)
    each, spread = torch.cat(logprobs)[order], torch.cat(entropies)[order]
    return empty.masked_scatter(counted, each), empty.masked_scatter(counted, spread)


def _head_logprobs(
    head: Head, hidden: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute log-probabilities and entropies [n] of the tokens `targets` [n] after the states `hidden` [n, D]."""
    with torch.autocast(hidden.device.type, enabled=False):  # half precision is too coarse for probabilities
        logits = head(hidden.to(head.weight.dtype))  # [n, V]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    all_logprobs = logits.log_softmax(-1)
    with torch.no_grad():
        entropies = torch.special.entr(all_logprobs.exp()).sum(-1)
    return all_logprobs.gather(-1, targets[:, None]).squeeze(-1), entropies


Predicted = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Hidden states [n, D], the tokens they predict [n], and for each of the N tokens in the mask its index among n."""


def _rows(decoder: Any, ids_BT: torch.Tensor, counted: torch.Tensor) -> Predicted:
    hidden = decoder(input_ids=ids_BT, use_cache=False).last_hidden_state[:, :-1][counted]
    return hidden, ids_BT[:, 1:][counted], torch.arange(len(hidden), device=ids_BT.device)


def _tree(decoder: Any, tree: TokenTree, counted: torch.Tensor) -> Predicted:
    """Read a tree. A token sampled by several rows after the same prefix is predicted once."""
    with over_trees(decoder):
        inputs = tree_inputs(decoder, tree, counted.device)
        hidden = decoder(**inputs).last_hidden_state[0]  # [nodes, D]
    width = counted.shape[1] + 1
    paths_BT = torch.tensor([path + (0,) * (width - len(path)) for path in tree.paths], device=counted.device)
    nodes, order = torch.unique(paths_BT[:, 1:][counted], return_inverse=True)
    parents = torch.zeros(len(tree.ids), dtype=torch.long, device=counted.device)
    parents[paths_BT[:, 1:][counted]] = paths_BT[:, :-1][counted]
    return hidden[parents[nodes]], inputs["input_ids"][0, nodes], order


class Head:
    """From a model's last states to its logits. `weight` [V, D] are the weights of the linear part."""

    def __init__(self, linear: nn.Module, config: Any) -> None:
        self._linear = linear
        self._scale = getattr(config, "logit_scale", None)  # Cohere
        self._divisor = getattr(config, "logits_scaling", None)  # Granite; MiniCPM divides its states
        self._cap = getattr(config, "final_logit_softcapping", None)  # Gemma 2, NanoChat
        self.weight: torch.Tensor = next(linear.parameters())

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """Compute the logits [..., V] of states [..., D]."""
        logits: torch.Tensor = self._linear(hidden)
        logits = logits if self._scale is None else logits * self._scale
        logits = logits if self._divisor is None else logits / self._divisor
        return logits if self._cap is None else torch.tanh(logits / self._cap) * self._cap


def parts(model: Any) -> tuple[nn.Module, Head]:
    """Return (decoder, head) of a causal language model of `transformers`, with or without PEFT."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base.get_decoder(), Head(base.get_output_embeddings(), base.config.get_text_config())


@torch.no_grad()
def check_parts(model: Any, ids_T: torch.Tensor) -> None:
    """Check that head(decoder(ids)) are the model's logits, the same while it learns and before padding.

    Raises `UsageError` if not: the model computes logits in a way of its own, looks ahead, or has dropout that cannot
    be switched off.
    """
    training = model.training
    try:
        wrong = _try_parts(model, ids_T)
    except (AttributeError, IndexError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        wrong = f"cannot be divided into a decoder and a head ({first_line(error)})"
    finally:
        model.train(training)
    if wrong:
        raise UsageError(f"{type(model).__name__} {wrong}: it cannot be trained here")


def _try_parts(model: Any, ids_T: torch.Tensor) -> str:
    """Return what is wrong with a model's parts; "" if nothing is."""
    decoder, head = parts(model)
    model.train(False)
    hidden = decoder(input_ids=ids_T[None], use_cache=False).last_hidden_state
    own = model(input_ids=ids_T[None], use_cache=False).logits
    padded = decoder(input_ids=torch.cat([ids_T, ids_T])[None], use_cache=False).last_hidden_state
    model.train(True)
    learning = model(input_ids=ids_T[None], use_cache=False).logits
    if not _same(head(hidden), own):
        return "changes its logits after the head"
    if not _same(padded[:, : len(ids_T)], hidden):
        return "looks at later tokens"
    return "" if _same(learning, own) else "computes otherwise while it learns"


def _same(computed: torch.Tensor, wanted: torch.Tensor, rounding: float = 0.0) -> bool:
    """Return whether tensors are equal up to rounding, or a few times what is known of it; where both are no numbers
    they are.
    """
    tolerance = SAME if wanted.dtype == torch.float32 else SAME_HALF
    tolerance = max(tolerance, min(4 * rounding, MOST_ROUNDING))
    largest = float(wanted.float().nan_to_num(0, 0, 0).abs().max())
    return torch.allclose(computed.float(), wanted.float(), atol=tolerance * (1 + largest), rtol=0, equal_nan=True)


@torch.no_grad()
def why_not_shared(model: Any, ids_T: torch.Tensor) -> str:
    """Explain why the model cannot read rows as a tree, by a test on these ids; "" if it can.

    It needs attention to every earlier token and no other path from token to token: no sliding window, no recurrent
    state. Gradient checkpointing recomputes activations after the tree is gone.
    """
    if any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        return "gradient checkpointing computes again without them"
    decoder, training = parts(model)[0], model.training
    model.train(False)
    try:
        try:
            cache = getattr(decoder(input_ids=ids_T[None], use_cache=True), "past_key_values", None)
        except (IndexError, ValueError):  # a cache without layers, or whose layers have no length
            cache = None
        if type(cache) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in cache.layers):
            return "it does not look at all tokens before"
        return "" if reads_trees(decoder, ids_T) else "what it makes of a token changes"
    finally:
        model.train(training)


@torch.no_grad()
def reads_trees(decoder: Any, ids_T: torch.Tensor) -> bool:
    """Return whether the decoder gives conversations in a tree the same hidden states as alone.

    Tests three conversations with a shared prefix, made of these ids. How coarsely the model rounds is told by the
    prefix, alone and before more tokens: of tokens unseen in training (often the first ids) some models make a lot of
    little.
    """
    ids, half = tuple(ids_T.tolist()), len(ids_T) // 2
    rows = [ids, ids[: half + 1], (*ids[:half], *reversed(ids[half:]))]
    tree = trees(rows, most_tokens=3 * len(ids))[0]
    try:
        with over_trees(decoder):
            nodes = decoder(**tree_inputs(decoder, tree, ids_T.device)).last_hidden_state[0]
    except (TypeError, ValueError):  # `UsageError` of attention that is not standard is one
        return False
    alone = [decoder(input_ids=ids_T.new_tensor(row)[None], use_cache=False).last_hidden_state[0] for row in rows]
    changes, longer = (alone[1] - alone[0][: half + 1]).float(), alone[0].float()
    rounding = float(changes.nan_to_num(0, 0, 0).abs().max() / (1 + longer.nan_to_num(0, 0, 0).abs().max()))
    return all(
        _same(nodes[list(path)], alone[row], rounding) for row, path in zip(tree.rows, tree.paths, strict=True)
    )
