"""Which weights play which role: shared by both, an adapter each on one model, or a model each.

All weights stand in one `module`, so that a trainer clips, moves and restores them as one. A role that is not trained
has no gradients and is in no optimizer: its weights stay the same to the bit. Left out: serving (`align_echo.models`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from align_echo.errors import UsageError
from align_echo.models.local.weights import load_state, read_model
from align_echo.train.rows import Role

ROLES: tuple[Role, ...] = ("policy", "critic")


class WholeModels:
    """Whole models, one for both roles or one each; with `reference`, a frozen copy of what is trained is kept."""

    def __init__(
        self, models: Mapping[Role, PreTrainedModel], *, trained: Sequence[Role] = ROLES, reference: bool = False
    ) -> None:
        self._models = dict(models)
        self.trained = checked(trained)
        self.module: nn.Module = nn.ModuleDict({str(role): model for role, model in self._models.items()})
        learners = {id(self._models[role]) for role in self.trained}
        for role in ROLES:
            if role not in self.trained and id(self._models[role]) in learners:
                raise UsageError(f"the {role} shares its weights: to freeze it, give it a model of its own")
            if role not in self.trained:
                frozen(self._models[role])
        distinct = {id(self._models[role]): self._models[role] for role in self.trained} if reference else {}
        self._references = {key: frozen(copy.deepcopy(model)) for key, model in distinct.items()}

    @property
    def kept(self) -> tuple[Role, ...]:
        """Trained roles, one of those that share a model."""
        return tuple({id(self._models[role]): role for role in reversed(self.trained)}.values())[::-1]

    def activate(self, role: Role) -> Any:
        """The role's model."""
        return self._models[role]

    def weights(self, role: Role) -> list[nn.Parameter]:
        """All that is trained of it."""
        return [parameter for parameter in self._models[role].parameters() if parameter.requires_grad]

    def reference(self, role: Role) -> AbstractContextManager[Any]:
        """The frozen copy. Raises `UsageError` if none was kept."""
        kept = self._references.get(id(self._models[role]))
        if kept is None:
            raise UsageError("no reference model was kept: ask for one when the backbone is made")
        return nullcontext(kept)

    def state(self, role: Role) -> Mapping[str, torch.Tensor]:
        """The model's weights, with which an engine draws as this role. Every process must ask."""
        model = self._models[role]
        state = whole(model.state_dict())
        return state | {name: state[first] for name, first in model.all_tied_weights_keys.items()}

    def save(self, role: Role, folder: Path, *, writes: bool = True) -> None:
        """As `transformers` does. Every process must ask; those that do not write help to gather the weights."""
        state = self.state(role)
        if writes:
            self._models[role].save_pretrained(folder, state_dict=dict(state))

    def load(self, role: Role, folder: Path) -> None:
        """Copied into the model that is there."""
        model = self._models[role]
        self.restore(role, read_model(type(model), str(folder), model.dtype).state_dict())

    def restore(self, role: Role, state: Mapping[str, torch.Tensor]) -> None:
        """Copy what `state` gave into the model that is there."""
        load_state(self._models[role], state)


class Adapters:
    """A LoRA adapter each on one model, whose own weights stay as they are and are the reference."""

    def __init__(self, model: PreTrainedModel, lora: LoraConfig, *, trained: Sequence[Role] = ROLES) -> None:
        self.trained = checked(trained)
        adapted = get_peft_model(model, lora, adapter_name=ROLES[0])
        if not isinstance(adapted, PeftModel):
            raise UsageError(f"{type(model).__name__} cannot carry two adapters")
        for role in ROLES[1:]:
            adapted.add_adapter(role, lora)
        name_layers_in_order(adapted)
        self._model = adapted
        self.module: nn.Module = adapted
        self.activate(ROLES[0])

    @property
    def kept(self) -> tuple[Role, ...]:
        """All trained roles."""
        return self.trained

    def activate(self, role: Role) -> Any:
        """The model with the role's adapter switched on. PEFT freezes the other one then: both are freed again."""
        self._model.set_adapter(role)
        for other in ROLES:
            self._model.set_requires_grad(other, other in self.trained)
        return self._model

    def weights(self, role: Role) -> list[nn.Parameter]:
        """The adapter's."""
        return [
            parameter
            for name, parameter in self._model.named_parameters()
            if f".{role}." in name and parameter.requires_grad
        ]

    @contextmanager
    def reference(self, role: Role) -> Iterator[Any]:
        """The model without adapters. PEFT freezes all but one when they are switched on again: all are freed."""
        try:
            with self._model.disable_adapter():
                yield self._model
        finally:
            self.activate(role)

    def state(self, role: Role) -> Mapping[str, torch.Tensor]:
        """The adapter's weights by PEFT's names, with which an engine draws as this role. Every process must ask."""
        weights: dict[str, torch.Tensor] = get_peft_model_state_dict(self._model, adapter_name=role)
        return whole(weights)

    def save(self, role: Role, folder: Path, *, writes: bool = True) -> None:
        """As PEFT does, in the folder itself. Every process must ask; those that do not write help to gather."""
        named = {name: tensor for name, tensor in self._model.state_dict().items() if f".{role}." in name}
        state = whole(named)
        if not writes:
            return
        self._model.save_pretrained(str(folder), selected_adapters=[role], state_dict=state)
        for file in (folder / role).iterdir():
            file.replace(folder / file.name)
        (folder / role).rmdir()

    def load(self, role: Role, folder: Path) -> None:
        """Copied into the adapter that is there."""
        self.restore(role, load_file(folder / "adapter_model.safetensors"))

    def restore(self, role: Role, state: Mapping[str, torch.Tensor]) -> None:
        """Copy what `state` gave into the adapter that is there."""
        set_peft_model_state_dict(self._model, dict(state), adapter_name=role)


Backbone = WholeModels | Adapters
"""The weights of both roles. `trained` are the roles whose rows are learned from. `kept` are those of them that have
weights of their own; of roles that share weights, the first. What `activate` gives must stay active until the backward
pass has ended.
"""


def whole(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights, those gathered that are divided among processes (FSDP)."""
    return {name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor for name, tensor in weights.items()}


def name_layers_in_order(model: Any) -> Any:
    """The model, whose adapters list their layers in one order: PEFT keeps them in a set, and the files of equal
    adapters would differ from one process to the next.
    """
    for config in model.peft_config.values():
        if isinstance(config.target_modules, set):
            config.target_modules = sorted(config.target_modules)
    return model


def checked(trained: Sequence[Role]) -> tuple[Role, ...]:
    """The roles in order. Raises `UsageError` for none and for unknown ones."""
    if not trained or set(trained) - set(ROLES):
        raise UsageError(f"trained roles must be some of {', '.join(ROLES)}, not {list(trained)}")
    return tuple(role for role in ROLES if role in trained)


def frozen(model: PreTrainedModel) -> PreTrainedModel:
    """The model, no weight of which is trained."""
    model.requires_grad_(False)
    model.train(False)
    return model
