"""The models of a run: the weights that learn, and separate engines that sample with a copy of them.

The engines are in this process or on vLLM servers (`serving.py`). A process uses one device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from align_echo.base.files import clear
from align_echo.errors import UsageError
from align_echo.models.choosing import ModelName, find_files, read_name
from align_echo.models.local import ADAPTER, POCKET
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.chat_template import ChatFormat
from align_echo.models.local.engine import ModelEngine
from align_echo.models.local.loading import load_encoder, pocket_folder, read_checked_files
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.models.local.weights import read_strange_model, without_bars, without_dropout, without_plans
from align_echo.train import processes
from align_echo.train.backbone import ROLES, AdapterModels, Backbone, WholeModels
from align_echo.train.config import LoraSettings, TrainConfig
from align_echo.train.forward import CHECKED_IDS, check_parts
from align_echo.train.rows import Role
from align_echo.train.serving import PUBLISHED, ServedWeights, served_by


@dataclass(frozen=True)
class RoleModels:
    """The models of both roles: the weights that learn, and engines that sample with them after each `publish`."""

    backbone: Backbone
    engines: Mapping[Role, ModelEngine]
    models: Mapping[Role, LocalModel]
    tokenizers: Mapping[Role, PreTrainedTokenizerBase]
    served: ServedWeights

    def save(self, folder: Path) -> None:
        """Save each trained role as a model (or an adapter) in a subfolder.

        The first process writes, after removing leftovers of an interrupted save. Every process must call this.
        """
        if processes.is_first():
            clear(folder, self.backbone.kept)
        for role in self.backbone.kept:
            self.backbone.save(role, folder / role, writes=processes.is_first())
            if processes.is_first():
                self.tokenizers[role].save_pretrained(folder / role)

    def publish(self) -> None:
        """Load the current weights into the engines. Engines of roles without training keep their first weights."""
        by_adapter = isinstance(self.backbone, AdapterModels)
        for engine in dict.fromkeys(self.engines.values()):
            if not isinstance(engine, TransformersEngine):
                self.served.publish(engine, self.backbone)
                continue
            roles = [role for role in ROLES if self.engines[role] is engine and role in self.backbone.trained]
            for role in roles if by_adapter else roles[:1]:
                engine.load_weights(self.backbone.state(role), adapter=role if by_adapter else "")

    def close(self) -> None:
        """Close the engines and remove published weights."""
        for engine in dict.fromkeys(self.engines.values()):
            engine.close()
        self.served.close()


def find_source(name: ModelName, *, small: str = POCKET) -> str:
    """Return the folder or hub name of a model to train.

    Raises `UsageError` for a model that cannot be trained, with `small` as a suggestion, and `MissingDataError` if the
    pocket model is not installed.
    """
    if name.kind == POCKET:
        return str(pocket_folder())
    choices = f"name {small}, a model's folder, FILE.gguf, or transformers:PATH_OR_HUB"
    if name.kind == "path" and not Path(name.source).exists():
        raise UsageError(f"there is no folder {name}: {choices}")
    if name.kind != "transformers":
        raise UsageError(f"{name.text!r} cannot be trained: {choices}")
    if not name.source:
        raise UsageError(f"{name} names no model: say which after the colon")
    if name.folder and (name.folder / ADAPTER).is_file():
        merging = f"align-echo models merge {name.source} --out FOLDER"
        raise UsageError(f"{name.source} holds an adapter: name a whole model to train; {merging} makes one of it")
    return find_files(name)


def find_sources(config: TrainConfig) -> dict[Role, str]:
    """Return each role's model source. Raises as `find_source` does."""
    policy = find_source(read_name(config.model))
    return {"policy": policy, "critic": find_source(read_name(config.critic)) if config.critic else policy}


def gather(config: TrainConfig, sources: Mapping[Role, str], folder: Path = Path()) -> RoleModels:
    """Load models, engines and tokenizers. `sources` come from `find_sources`; servers read weights in the run's
    `folder`.

    Raises `UsageError` for an unusable model, and as `served_by` does.
    """
    without_bars()
    without_plans()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chat = ChatFormat(config.chat_template or "", config.template_args or "")
    encoders = {role: load_encoder(source, chat) for role, source in sources.items()}

    def load(role: Role, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
        model: Any = read_checked_files(
            sources[role],
            lambda: read_strange_model(AutoModelForCausalLM, sources[role], dtype, four_bit=config.lora.four_bit),
        )
        on_device: PreTrainedModel = model.to(device)
        without_dropout(on_device)
        return on_device

    def engine(role: Role) -> ModelEngine:
        if config.collecting.servers:
            return served_by(config.collecting.servers, sources[role], backbone)
        dtype = getattr(torch, config.collecting.dtype)
        return TransformersEngine(
            load(role, dtype), name=role, decode=encoders[role].text, slots=config.collecting.workers
        )

    backbone = _backbone(config, load)
    for role in ROLES:
        check_parts(backbone.activate(role), torch.tensor(CHECKED_IDS, device=device))
    if config.gradient_checkpointing:
        for role in ROLES:
            backbone.activate(role).gradient_checkpointing_enable({"use_reentrant": False})
    policy = engine("policy")
    critic = engine("critic") if config.weights == "models" else policy
    if isinstance(backbone, AdapterModels) and isinstance(policy, TransformersEngine):
        _give_adapters(policy, backbone)
    models: dict[Role, LocalModel] = {
        role: LocalModel(
            served, encoders[role], seed=config.seed, adapter=role if isinstance(backbone, AdapterModels) else ""
        )
        for role, served in zip(ROLES, (policy, critic), strict=True)
    }
    tokenizers = {
        role: AutoTokenizer.from_pretrained(source, trust_remote_code=False) for role, source in sources.items()
    }
    if config.chat_template:
        for role, tokenizer in tokenizers.items():
            tokenizer.chat_template = encoders[role].template
    return RoleModels(
        backbone, {"policy": policy, "critic": critic}, models, tokenizers, ServedWeights(folder / PUBLISHED)
    )


def _backbone(config: TrainConfig, load: Callable[[Role], PreTrainedModel]) -> Backbone:
    reference = config.step.objective.beta > 0
    if config.weights == "adapters":
        torch.manual_seed(config.seed)
        return AdapterModels(load("policy"), build_lora_config(config.lora), trained=config.trained)
    policy = load("policy")
    critic = load("critic") if config.weights == "models" else policy
    return WholeModels({"policy": policy, "critic": critic}, trained=config.trained, reference=reference)


def build_lora_config(lora: LoraSettings) -> LoraConfig:
    """Build PEFT's config."""
    return LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM")


def _give_adapters(engine: TransformersEngine, backbone: AdapterModels) -> None:
    for role in ROLES:
        with TemporaryDirectory(prefix="align-echo-") as folder:
            backbone.save(role, Path(folder))
            engine.load_adapter(role, folder)
