"""QLoRA: refused in one line where it cannot be; where it can, trainer and engine compute with the same 4 bits."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3ForCausalLM

from align_echo.errors import UsageError
from align_echo.train import needs
from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.forward import token_logprobs
from align_echo.train.role_models import find_sources, gather
from align_echo.train.run import TrainingRun
from align_echo.types import Message
from tests.models.local.tiny import tiny_config, tiny_tokenizer


def config(folder: Path | str, **changes: Any) -> TrainConfig:
    four_bit = {"model": str(folder), "weights": "adapters", "lora": {"four_bit": True}, "threads": 1}
    return checked_config(merged(merged(method("grpo"), four_bit), changes), "grpo")


@pytest.mark.parametrize(
    ("gpu", "package", "why"),
    [
        (False, None, "a model in 4 bits needs a GPU, and there is none: leave it out"),
        (True, None, "a model in 4 bits needs bitsandbytes: pip install bitsandbytes"),
    ],
)
def test_a_machine_that_cannot_is_told_before_anything_is_loaded(gpu, package, why, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(needs, "find_spec", lambda name: package)
    with pytest.raises(UsageError, match=why):
        TrainingRun(config("pocket"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"weights": "models"}, "lora.four_bit: is of a frozen model: take weights: adapters"),
        ({"collecting": {"servers": ["http://127.0.0.1:9"]}}, "lora.four_bit: servers play with weights of their own"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, why) -> None:
    with pytest.raises(UsageError, match=why):
        config("pocket", **changes)


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")
def test_engine_and_trainer_compute_with_the_same_four_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitsandbytes.nn.modules.has_avx512bf16", lambda: False)  # on a CPU, engines would round more
    sizes = tiny_config(context=4096)
    sizes.hidden_size, sizes.intermediate_size, sizes.head_dim = 128, 128, 64  # a block is 64 numbers
    Qwen3ForCausalLM(sizes).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    run = config(tmp_path / "model")
    crew = gather(run, find_sources(run))
    try:
        kinds = {type(module).__name__ for module in crew.backbone.activate("policy").modules()}
        assert "Linear4bit" in kinds
        crew.publish()
        chat = [Message(role="user", content="go")]
        tokens = crew.models["policy"].complete(chat, temperature=1.0, max_tokens=8).tokens
        assert tokens is not None
        ids = torch.tensor([[*tokens.context_ids, *tokens.sampled_ids]])
        mask = torch.zeros(1, ids.shape[1] - 1)
        mask[0, len(tokens.context_ids) - 1 :] = 1
        logprobs, _ = token_logprobs(crew.backbone.activate("policy"), ids, mask)
        drawn = logprobs[0, len(tokens.context_ids) - 1 :].tolist()
        assert drawn == pytest.approx(tokens.logprobs, abs=1e-3)
        total: Any = logprobs.sum()
        total.backward()
        assert all(weight.grad is not None for weight in crew.backbone.weights("policy"))
    finally:
        crew.close()
