"""Nothing random while a model learns: its log-probabilities are compared with those of the engine that drew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GPT2Config,
    MixtralConfig,
    OPTConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from align_echo.errors import UsageError
from align_echo.models.local.weights import without_dropout
from align_echo.train.config import checked_config, merged, method
from align_echo.train.forward import check_parts
from align_echo.train.role_models import find_sources, gather
from tests.models.local.tiny import tiny_config, tiny_tokenizer

SIZES: dict[str, Any] = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
IDS = torch.arange(1, 30)[None]
RANDOM = {
    "gpt2": GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5),
    "opt": OPTConfig(**SIZES, ffn_dim=32, word_embed_proj_dim=32, dropout=0.5, attention_dropout=0.5, layerdrop=0.9),
    "qwen3": Qwen3Config(**SIZES, num_key_value_heads=1, head_dim=16, intermediate_size=32, attention_dropout=0.5),
    "mixtral": MixtralConfig(
        **SIZES, num_key_value_heads=1, intermediate_size=32, num_local_experts=4, router_jitter_noise=0.5
    ),
}


def model(kind: str) -> PreTrainedModel:
    torch.manual_seed(0)
    making: Any = AutoModelForCausalLM
    made: PreTrainedModel = making.from_config(RANDOM[kind])
    return made


@torch.no_grad()
def logits(network: Any, *, learning: bool) -> torch.Tensor:
    network.train(learning)
    found: torch.Tensor = network(input_ids=IDS, use_cache=False).logits
    return found


@pytest.mark.parametrize("kind", RANDOM)
def test_a_model_computes_the_same_while_it_learns(kind) -> None:
    network = model(kind)
    torch.manual_seed(1)
    assert not torch.allclose(logits(network, learning=True), logits(network, learning=False), atol=1e-3)
    without_dropout(network)
    assert torch.equal(logits(network, learning=True), logits(network, learning=False))


def test_a_model_that_stays_random_is_refused() -> None:
    network = model("gpt2")
    with pytest.raises(UsageError, match="GPT2LMHeadModel computes otherwise while it learns"):
        check_parts(network, IDS[0])
    without_dropout(network)
    check_parts(network, IDS[0])
    assert network.training, "as it was"


@pytest.mark.parametrize("weights", ["shared", "adapters", "models"])
def test_a_run_learns_without_dropout_and_saves_the_models_own(weights, tmp_path: Path) -> None:
    config = tiny_config()
    config.attention_dropout = 0.5
    Qwen3ForCausalLM(config).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    changes = {"model": str(tmp_path / "model"), "weights": weights}
    run = checked_config(merged(method("echo"), changes), "echo")
    crew = gather(run, find_sources(run))
    try:
        network = crew.backbone.activate("policy")
        assert torch.equal(logits(network, learning=True), logits(network, learning=False))
        if weights != "adapters":
            crew.save(tmp_path / "run")
            assert AutoConfig.from_pretrained(tmp_path / "run" / "policy").attention_dropout == 0.5
    finally:
        crew.close()
