"""Which weights play which role: shared by both, an adapter each on one model, or a model each.

All weights are in one `module`, which a trainer clips, moves and restores. A role without training has no gradients and
is in no optimizer: its weights stay the same to the bit. Not here: serving (`align_echo.models`).
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
    """Whole models, one for both roles or one each; `reference` adds a frozen copy of the trained ones."""

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
        """Trained roles with weights of their own; of roles that share a model, the first."""
        return tuple({id(self._models[role]): role for role in reversed(self.trained)}.values())[::-1]

    def activate(self, role: Role) -> Any:
        """Return the role's model."""
        return self._models[role]

    def weights(self, role: Role) -> list[nn.Parameter]:
        """List the role's trained parameters."""
        return [parameter for parameter in self._models[role].parameters() if parameter.requires_grad]

    def reference(self, role: Role) -> AbstractContextManager[Any]:
        """Return the frozen copy. Raises `UsageError` if there is none."""
        reference = self._references.get(id(self._models[role]))
        if reference is None:
            raise UsageError("no reference model was kept: ask for one when the backbone is made")
        return nullcontext(reference)

    def state(self, role: Role) -> Mapping[str, torch.Tensor]:
        """Return the model's weights for an engine of this role. Every process must call this."""
        model = self._models[role]
        state = whole(model.state_dict())
        return state | {name: state[first] for name, first in model.all_tied_weights_keys.items()}

    def save(self, role: Role, folder: Path, *, writes: bool = True) -> None:
        """Save the model as `transformers` does. Every process must call this, as it gathers divided weights; only
        those with `writes` write.
        """
        state = self.state(role)
        if writes:
            self._models[role].save_pretrained(folder, state_dict=dict(state))

    def load(self, role: Role, folder: Path) -> None:
        """Load weights from a folder into the model in place."""
        model = self._models[role]
        self.restore(role, read_model(type(model), str(folder), model.dtype).state_dict())

    def restore(self, role: Role, state: Mapping[str, torch.Tensor]) -> None:
        """Load weights as returned by `state` into the model in place."""
        load_state(self._models[role], state)


class AdapterModels:
    """A LoRA adapter for each role on one frozen model. The model without adapters is the reference."""

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
        """Trained roles: each has weights of its own."""
        return self.trained

    def activate(self, role: Role) -> Any:
        """Return the model with the role's adapter active.

        PEFT freezes the inactive adapter; this sets both back to trainable if their role is trained.
        """
        self._model.set_adapter(role)
        for adapter in ROLES:
            self._model.set_requires_grad(adapter, adapter in self.trained)
        return self._model

    def weights(self, role: Role) -> list[nn.Parameter]:
        """List the trained parameters of the role's adapter."""
        return [
            parameter
            for name, parameter in self._model.named_parameters()
            if f".{role}." in name and parameter.requires_grad
        ]

    @contextmanager
    def reference(self, role: Role) -> Iterator[Any]:
        """Disable the adapters within the context. Afterwards the role's adapter is active again."""
        try:
            with self._model.disable_adapter():
                yield self._model
        finally:
            self.activate(role)

    def state(self, role: Role) -> Mapping[str, torch.Tensor]:
        """Return the adapter's weights by PEFT's names, for an engine of this role. Every process must call this."""
        weights: dict[str, torch.Tensor] = get_peft_model_state_dict(self._model, adapter_name=role)
        return whole(weights)

    def save(self, role: Role, folder: Path, *, writes: bool = True) -> None:
        """Save the adapter as PEFT does, in the folder itself. Every process must call this; only those with `writes`
        write.
        """
        named = {name: tensor for name, tensor in self._model.state_dict().items() if f".{role}." in name}
        state = whole(named)
        if not writes:
            return
        self._model.save_pretrained(str(folder), selected_adapters=[role], state_dict=state)
        for file in (folder / role).iterdir():
            file.replace(folder / file.name)
        (folder / role).rmdir()

    def load(self, role: Role, folder: Path) -> None:
        """Load weights from a folder into the adapter in place."""
        self.restore(role, load_file(folder / "adapter_model.safetensors"))

    def restore(self, role: Role, state: Mapping[str, torch.Tensor]) -> None:
        """Load weights as returned by `state` into the adapter in place."""
        set_peft_model_state_dict(self._model, dict(state), adapter_name=role)


Backbone = WholeModels | AdapterModels
"""The weights of both roles. `trained` lists the roles with rows to learn from, `kept` those of them with weights of
their own (of roles that share weights, the first). The model from `activate` must stay active until the end of the
backward pass.
"""


def whole(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gather weights divided among processes (FSDP); return all others as they are."""
    return {name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor for name, tensor in weights.items()}


def name_layers_in_order(model: Any) -> Any:
    """Sort the layer names in each adapter's config and return the model.

    PEFT keeps them in a set: without this, equal adapters would have different files in different processes.
    """
    for config in model.peft_config.values():
        if isinstance(config.target_modules, set):
            config.target_modules = sorted(config.target_modules)
    return model


def checked(trained: Sequence[Role]) -> tuple[Role, ...]:
    """Return the roles in order. Raises `UsageError` for no role and for unknown roles."""
    if not trained or set(trained) - set(ROLES):
        raise UsageError(f"trained roles must be some of {', '.join(ROLES)}, not {list(trained)}")
    return tuple(role for role in ROLES if role in trained)


def frozen(model: PreTrainedModel) -> PreTrainedModel:
    """Freeze all weights of a model, switch it to evaluation mode and return it."""
    model.requires_grad_(False)
    model.train(False)
    return model
