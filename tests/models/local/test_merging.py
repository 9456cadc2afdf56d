"""An adapter merged into its model: a plain folder that computes the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3ForCausalLM

from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.models.choosing import load_model
from align_echo.models.local.loading import load_tokenizer
from align_echo.models.packages import ADAPTERS, packaged_folder
from align_echo.types import Message
from tests.models.local.tiny import tiny_config, tiny_model, tiny_tokenizer

IDS = torch.tensor([[5, 7, 11, 40, 41]])


@pytest.fixture(autouse=True)
def adapter(tmp_path, monkeypatch) -> Any:
    """A random adapter without a tokenizer, for a model in ./base; yields its logits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path / "cache"))
    tiny_model().save_pretrained("base")
    tiny_tokenizer().save_pretrained("base")
    write_adapter("base")
    model = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("base"), "adapter")
    with torch.no_grad():
        return model(IDS).logits


def write_adapter(base: str) -> None:
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    model = peft.get_peft_model(tiny_model(), config)
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained("adapter")


def logits(folder: str) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = AutoModelForCausalLM.from_pretrained(folder)(IDS).logits
    return found


@pytest.mark.parametrize("place", ["new/merged", "empty"])
def test_a_merged_folder_is_the_model_with_its_adapter(place, adapter, capsys) -> None:
    Path("empty").mkdir()
    assert main(["models", "merge", "adapter", "--out", place]) == 0
    assert capsys.readouterr().out == f"written: {place}; --model takes it\n"
    assert torch.allclose(logits(place), adapter, atol=1e-4)
    assert not torch.allclose(logits("base"), adapter, atol=1e-2), "the adapter does something"
    assert load_tokenizer(place).encode("go to") == tiny_tokenizer().encode("go to")
    assert not (Path(place) / "adapter_config.json").exists()


@pytest.mark.parametrize("base", ["smollm2", "/of/another/machine/models/smollm2-0.1.2"])
def test_an_adapter_for_a_packaged_model_finds_it_on_any_machine(base, adapter, capsys) -> None:
    write_adapter(base)
    assert main(["models", "merge", "adapter", "--out", "merged"]) == 2
    assert "the model smollm2 is not here: align-echo models get smollm2" in capsys.readouterr().err
    packaged_folder("smollm2").parent.mkdir(parents=True)
    Path("base").rename(packaged_folder("smollm2"))
    assert main(["models", "merge", "adapter", "--out", "merged"]) == 0
    assert torch.allclose(logits("merged"), adapter, atol=1e-4)


def test_an_adapter_that_comes_along_is_a_model_by_its_name(adapter, monkeypatch, capsys) -> None:
    write_adapter("smollm2")
    monkeypatch.setattr("align_echo.models.packages.resources", SimpleNamespace(files=lambda package: Path()))
    monkeypatch.setitem(ADAPTERS, "adapter", "smollm2")
    assert main(["evaluate", "--env", "alfworld", "--model", "adapter", "--tasks", "1"]) == 2
    line = "align-echo: the model smollm2 is not here: align-echo models get smollm2 fetches it (93 MB)\n"
    assert capsys.readouterr().err == line
    packaged_folder("smollm2").parent.mkdir(parents=True)
    Path("base").rename(packaged_folder("smollm2"))
    model: Any = load_model("adapter")
    reply = model.complete([Message(role="user", content="go")], temperature=0, max_tokens=1).tokens
    with torch.no_grad():
        base = AutoModelForCausalLM.from_pretrained(packaged_folder("smollm2"))
        whole = peft.PeftModel.from_pretrained(base, "adapter")
        wanted = whole(torch.tensor([reply.context_ids])).logits[0, -1].log_softmax(-1)
    assert reply.logprobs[0] == pytest.approx(float(wanted[reply.sampled_ids[0]]), abs=1e-4)
    assert main(["train", "--method", "grpo", "--env", "alfworld", "--model", "adapter", "--dry-run"]) == 2
    assert "align-echo models merge adapter --out FOLDER makes one of it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["base", "--out", "merged"], "base is no adapter: it has no adapter_config.json"),
        (["adapter", "--out", "base"], "base is there already: name another --out"),
        (["none", "--out", "merged"], "none is no adapter: it has no adapter_config.json"),
    ],
)
def test_what_cannot_be_merged_is_refused_in_one_line(arguments, why, capsys) -> None:
    assert main(["models", "merge", *arguments]) == 2
    assert capsys.readouterr().err == f"align-echo: {why}\n"
    assert not Path("merged").exists()


def test_a_model_that_was_moved_away_is_named(tmp_path, capsys) -> None:
    write_adapter(str(tmp_path / "gone"))
    assert main(["models", "merge", "adapter", "--out", "merged"]) == 2
    assert f"{tmp_path / 'gone'}, which it is for, is not here: name the folder in adapter_config.json" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"intermediate_size": 64}, "in model.layers.0.mlp.down_proj it takes 48 numbers, and the model 64"),
        ({"hidden_size": 64}, "in model.layers.0.mlp.down_proj it gives 32 numbers, and the model 64"),
        ({"num_hidden_layers": 1}, "it holds model.layers.1.mlp.down_proj, which the model lacks"),
    ],
)
def test_an_adapter_for_another_model_is_refused_in_one_line(sizes, why, capsys) -> None:
    config = tiny_config()
    for name, size in sizes.items():
        setattr(config, name, size)
    config.layer_types = ["full_attention"] * config.num_hidden_layers
    Qwen3ForCausalLM(config).save_pretrained("base")
    line = f"the adapter in adapter is for another model than base: {why}"
    with pytest.raises(UsageError) as refused:
        load_model("./adapter")
    assert str(refused.value) == f"no model can be loaded from ./adapter: {line}"
    capsys.readouterr()
    assert main(["models", "merge", "adapter", "--out", "merged"]) == 2
    assert capsys.readouterr().err == f"align-echo: no model can be loaded from adapter: {line}\n"


def test_an_adapter_without_its_weights_is_refused_by_their_name(capsys) -> None:
    Path("adapter/adapter_model.safetensors").unlink()
    line = "adapter holds an adapter without its weights: there is no adapter_model.safetensors in it"
    with pytest.raises(UsageError, match=line):
        load_model("./adapter")
    assert main(["models", "merge", "adapter", "--out", "merged"]) == 2
    assert capsys.readouterr().err == f"align-echo: {line}\n"
