"""Replacing the weights of a model that runs: state dicts, and LoRA adapters switched on and off.

Left out: PEFT's other kinds of adapters, and merging.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from align_echo.errors import UsageError

if TYPE_CHECKING:
    from peft import PeftModel


def load_state(model: PreTrainedModel, state: Mapping[str, torch.Tensor]) -> None:
    """Copy a state dict into the model's own weights. Adapters inside it stay as they are.

    A model with adapters takes the names it had without them. Raises `UsageError`, with nothing changed, if a weight is
    missing, unknown or of another shape.
    """
    own = {name.replace(".base_layer.", "."): one for name, one in model.named_parameters() if ".lora_" not in name}
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    buffers = {name for name, _ in model.named_buffers()}
    missing = own.keys() - state.keys()
    unknown = state.keys() - own.keys() - tied - buffers
    shapes = {name for name in own.keys() & state.keys() if own[name].shape != state[name].shape}
    for what, names in (("lack", missing), ("have no place for", unknown), ("have another shape for", shapes)):
        if names:
            raise UsageError(f"the weights do not fit: they {what} {', '.join(sorted(names)[:3])}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(state[name])


class Adapters:
    """The LoRA adapters of a model. The model is changed in place: its linear layers get the adapters inside."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._peft: PeftModel | None = None
        self._on = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Those loaded."""
        return tuple(self._peft.peft_config) if self._peft is not None else ()

    def load(self, name: str, folder: str) -> None:
        """Load a LoRA adapter from a folder, or replace the one of that name. Raises `UsageError` if it is none."""
        from peft import PeftConfig, PeftModel, PeftType

        if not name or "." in name:
            raise UsageError(f"an adapter's name has at least one character and no dot, unlike {name!r}")
        try:
            config = PeftConfig.from_pretrained(folder)
        except ValueError as error:
            raise UsageError(f"{folder} holds no adapter: {error}") from None
        if config.peft_type != PeftType.LORA:
            raise UsageError(f"the adapter in {folder} is of the kind {config.peft_type}: only LoRA is served")
        if name in self.names and self._peft is not None:
            with warnings.catch_warnings():  # PEFT says which other adapter it makes active; `switch` decides that here
                warnings.simplefilter("ignore")
                self._peft.delete_adapter(name)
        if self._peft is None:
            self._peft = PeftModel.from_pretrained(self._model, folder, adapter_name=name)
        else:
            self._peft.load_adapter(folder, adapter_name=name)
        self._on = name
        self.switch("")

    def load_state(self, name: str, state: Mapping[str, torch.Tensor]) -> None:
        """Replace an adapter's weights; names as PEFT saves them. Raises `UsageError` if they do not fit."""
        from peft import get_peft_model_state_dict, set_peft_model_state_dict

        if self._peft is None or name not in self.names:
            raise UsageError(f"there is no adapter {name!r}; loaded: {list(self.names)}")
        own = get_peft_model_state_dict(self._peft, adapter_name=name)
        if {key: one.shape for key, one in own.items()} != {key: one.shape for key, one in state.items()}:
            raise UsageError(f"the weights do not fit the adapter {name!r}: other names or shapes")
        set_peft_model_state_dict(self._peft, dict(state), adapter_name=name)

    def switch(self, name: str) -> None:
        """Compute with this adapter from now on; "" without any."""
        if self._peft is None or name == self._on:
            return
        tuner: Any = self._peft.base_model
        if not name:
            tuner.disable_adapter_layers()
        else:
            tuner.enable_adapter_layers()
            tuner.set_adapter(name)
        self._on = name
