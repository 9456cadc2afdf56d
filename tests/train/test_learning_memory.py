"""What learning holds in memory: the estimate beside what torch saves, and logits in parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from align_echo.models.local import memory
from align_echo.train import forward
from align_echo.train.forward import parts, token_logprobs

SHAPE: dict[str, Any] = {"vocab_size": 64, "num_hidden_layers": 3, "max_position_embeddings": 512}
SMOL: dict[str, Any] = {
    "hidden_size": 144, "intermediate_size": 384, "num_attention_heads": 9, "num_key_value_heads": 3,
}  # fmt: skip
QWEN: dict[str, Any] = {
    "hidden_size": 128, "intermediate_size": 384, "num_attention_heads": 8, "num_key_value_heads": 4,
}  # fmt: skip
GATED: dict[str, Any] = {
    "SmolLM2": LlamaConfig(**SMOL, **SHAPE),
    "Llama": LlamaConfig(**(QWEN | {"intermediate_size": 448, "num_key_value_heads": 2}), **SHAPE),
    "Mistral": MistralConfig(**QWEN, **SHAPE),
    "Qwen2": Qwen2Config(**(QWEN | {"intermediate_size": 700, "num_key_value_heads": 1}), **SHAPE),
    "Qwen3": Qwen3Config(**QWEN, head_dim=16, **SHAPE),
}
NEOX = GPTNeoXConfig(hidden_size=128, intermediate_size=512, num_attention_heads=8, **SHAPE)
FAMILIES: dict[str, Any] = {**GATED, "NeoX": NEOX}
"""One without a gate holds less than the estimate says."""


class Saved:
    """Bytes of the tensors that torch holds for a backward pass, without weights: each storage once."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._weights:
            self._storages[storage.data_ptr()] = storage
        return tensor

    @property
    def size(self) -> int:
        return sum(storage.nbytes() for storage in self._storages.values())


def model_of(config: Any) -> Any:
    torch.manual_seed(0)
    make: Any = AutoModelForCausalLM
    return make.from_config(config).train()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_estimate_of_learning_is_near_what_torch_holds(family):
    config = FAMILIES[family]
    model, ids = model_of(config), torch.randint(0, 64, (2, 256))
    saved = Saved(model)
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor):
        parts(model)[0](input_ids=ids, use_cache=False)
    estimate = memory.learning_activations(config, ids.numel(), checkpointing=False)
    estimate -= min(memory.LOGITS, ids.numel() * 64) * 20
    highest = 1.25 if family in GATED else 1.6
    assert 0.75 < estimate / saved.size < highest, (estimate, saved.size)


def test_logits_in_parts_are_not_held_and_change_nothing(monkeypatch):
    config = LlamaConfig(**SMOL, **(SHAPE | {"vocab_size": 4096}))
    model, ids = model_of(config), torch.randint(0, 4096, (2, 200))
    mask = (torch.rand(2, 199) < 0.7).float()

    def learned() -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor], int]:
        model.zero_grad()
        saved = Saved(model)
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor):
            logprobs, entropies = token_logprobs(model, ids, mask, temperature=0.7)
        torch.autograd.backward((logprobs * torch.linspace(-1, 1, 199)).sum())
        return logprobs.detach(), entropies, [weight.grad.clone() for weight in model.parameters()], saved.size

    at_once = learned()
    monkeypatch.setattr(forward, "LOGITS", 32 * 4096)
    in_parts = learned()
    torch.testing.assert_close(in_parts[:2], at_once[:2], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(in_parts[2], at_once[2], atol=1e-5, rtol=1e-4)
    assert at_once[3] - in_parts[3] > 0.9 * 4 * 4096 * float(mask.sum())
