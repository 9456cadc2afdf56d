"""The making of the beginner: lessons, a LoRA adapter on SmolLM2, its files and its record.

Left out: its evaluation, whose figures stand in the docs.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from align_echo.base.files import write_atomically
from align_echo.models.local.loading import load_encoder
from align_echo.models.packages import require_packaged
from align_echo.train.backbone import name_layers_in_order
from align_echo.train.run import computing_with
from align_echo.train.sft import Demonstration, SftSettings, encode, fine_tune
from align_echo.types import Frozen
from align_echo.version import __version__
from studies.beginner.lessons import lessons

BASE = "smollm2"


class BeginnerSettings(Frozen):
    """All that decides the weights, besides the code. Layers below `first_layer` are left as they are: that saves a
    fifth of a step.
    """

    seed: int = 1
    games: int = 55
    rank: int = 16
    alpha: int = 32
    first_layer: int = 10
    threads: int = 1
    training: SftSettings = SftSettings(
        tokens_per_batch=2500, longest=1700, muon_lr=0.0, adamw_lr=1.5e-3, weight_decay=0.0, warmup=0.05,
        context_weight=0.0, share_prefixes=True, log_every=5, save_every=20, seed=1, epochs=1.0,
    )  # fmt: skip


def build(settings: BeginnerSettings, out: Path, *, resume: bool = False) -> Path:
    """Make the adapter in `out`/model; lessons and checkpoints stay beside it. Lessons that are there are kept.

    Raises `MissingDataError` if the base model was not fetched.
    """
    base = str(require_packaged(BASE))
    shown = _lessons(settings, out / "lessons.jsonl")
    encoder = load_encoder(base)
    chats = [encode(each, encoder, context_weight=settings.training.context_weight) for each in shown]
    with computing_with(settings.threads):
        torch.manual_seed(settings.seed)
        model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
        lora = LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
            layers_to_transform=list(range(settings.first_layer, model.config.num_hidden_layers)),
            task_type="CAUSAL_LM",
        )
        adapted: Any = name_layers_in_order(get_peft_model(model, lora))
        loss = fine_tune(adapted, chats, settings.training, out / "checkpoints", resume=resume)
    facts = {
        "align_echo": __version__,
        "base": BASE,
        "settings": settings.model_dump(mode="json"),
        "data_sha256": hashlib.sha256((out / "lessons.jsonl").read_bytes()).hexdigest(),
        "lessons": dict(sorted(Counter(each.kind for each in shown).items())),
        "mean_loss": round(loss, 4),
    }
    return save(adapted, facts, out / "model")


def _lessons(settings: BeginnerSettings, file: Path) -> Sequence[Demonstration]:
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        made = (each.model_dump_json(exclude_defaults=True) for each in lessons(settings.seed, settings.games))
        write_atomically(file, "\n".join(made) + "\n")
    return [Demonstration.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]


def save(adapted: Any, facts: dict[str, Any], folder: Path) -> Path:
    """Write the adapter in half precision, for the base model by its name, with the record of its making."""
    adapted.peft_config["default"].base_model_name_or_path = BASE
    adapted.save_pretrained(folder)
    weights = folder / "adapter_model.safetensors"
    save_file({name: each.to(torch.bfloat16) for name, each in load_file(weights).items()}, weights, {"format": "pt"})
    (folder / "README.md").unlink(missing_ok=True)
    write_atomically(folder / "making.json", json.dumps(facts, indent=1) + "\n")
    return folder
