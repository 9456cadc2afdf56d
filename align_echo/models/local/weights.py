"""Replace the weights of a running model: state dicts, and LoRA adapters switched on and off.

Not here: PEFT's other kinds of adapters, and merging.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import SafetensorError

from align_echo.errors import UsageError, first_line
from align_echo.models.local.model_files import (
    adapter_base,
    check_adapter_fits,
    check_model_files,
    check_weights_read,
    claimed_numbers,
    header,
)
from align_echo.models.local.vllm_engine import adapter_folder

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel
    from transformers import PreTrainedModel


def without_bars() -> None:
    """Disable the progress bars of `transformers` for reading and writing weights, in this process."""
    from transformers.utils import logging as transformers_logging

    switch_off: Callable[[], None] = transformers_logging.disable_progress_bar
    switch_off()


def without_plans() -> None:
    """Disable cuDNN attention on GPUs in this process.

    cuDNN plans for every new shape, which takes many times longer than computing, and here nearly every step has a new
    shape.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


_DROPPING = re.compile("drop|^(input_)?jitter_noise$|^moe_jitter_eps$", re.IGNORECASE)


def without_dropout(model: PreTrainedModel) -> None:
    """Switch off everything random in a model that learns: dropout, dropped layers, jitter of routers.

    The ratio of two log-probabilities of one sample would be one of two models. Its configuration stays.
    """
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in vars(module).items():
            if isinstance(value, float) and _DROPPING.search(name):
                setattr(module, name, 0.0)


def read_model(kind: Any, source: str, dtype: torch.dtype | str, *, four_bit: bool = False) -> PreTrainedModel:
    """Load a model of a `transformers` class from a folder or hub name, with all weights; with `four_bit` its layers in
    4 bits (NF4, by bitsandbytes).

    Reads only safetensors (a pickle can run code) and runs no code of the folder. Raises `UsageError` for missing
    weights, since `transformers` would initialise them at random. Propagates other errors of `transformers`.
    """
    model, info = kind.from_pretrained(
        source, dtype=dtype, output_loading_info=True, use_safetensors=True, trust_remote_code=False,
        **({"quantization_config": _four_bit_config(dtype)} if four_bit else {}),
    )  # fmt: skip
    missing = sorted(info["missing_keys"])
    if missing:
        raise UsageError(f"the files of {source} lack {len(missing)} of the model's weights, such as {missing[0]}")
    return cast("PreTrainedModel", model)


def _four_bit_config(dtype: torch.dtype | str) -> Any:
    from transformers import BitsAndBytesConfig

    making: Any = BitsAndBytesConfig
    return making(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def read_strange_model(
    kind: Any, source: str, dtype: torch.dtype | str, *, four_bit: bool = False
) -> PreTrainedModel:
    """Load a third-party model as `read_model` does, after checking a local folder.

    Its configuration must not claim more than its files hold, and its weights must be numbers. For an adapter, the
    checked folder is the base model's. Raises as `read_model`.
    """
    from transformers import AutoConfig
    from transformers.utils import logging as transformers_logging

    folder = Path(source)
    before: int = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.CRITICAL)  # errors are reported in one line of our own
    try:
        base = adapter_base(folder)
        model_folder = Path(base or source)
        if not model_folder.is_dir():
            return read_model(kind, source, dtype, four_bit=four_bit)
        if base:
            check_model_files(model_folder)
        config = AutoConfig.from_pretrained(str(model_folder), trust_remote_code=False)
        claimed_numbers(kind, config, header(model_folder))
        model = read_model(kind, str(model_folder), dtype, four_bit=four_bit)
        if base:
            check_adapter_fits(folder, model, base)
            loading: Any = model
            loading.load_adapter(source)
    finally:
        transformers_logging.set_verbosity(before)
    check_weights_read(model, model_folder)
    return model


def load_state(model: PreTrainedModel, state: Mapping[str, torch.Tensor]) -> None:
    """Copy a state dict into the model's own weights. Adapters inside it stay unchanged.

    A model with adapters expects the names it had without them. Raises `UsageError`, with nothing changed, if a weight
    is missing, unknown or of another shape.
    """
    own = {
        name.replace(".base_layer.", "."): parameter
        for name, parameter in model.named_parameters()
        if ".lora_" not in name
    }
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    buffers = {name for name, _ in model.named_buffers()}
    missing = own.keys() - state.keys()
    unknown = state.keys() - own.keys() - tied - buffers
    shapes = {name for name in own.keys() & state.keys() if own[name].shape != state[name].shape}
    for problem, names in (("lack", missing), ("have no place for", unknown), ("have another shape for", shapes)):
        if names:
            raise UsageError(f"the weights do not fit: they {problem} {', '.join(sorted(names)[:3])}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(state[name])


class ServedAdapters:
    """LoRA adapters of a model. The model is changed in place: its linear layers contain the adapters."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._peft: PeftModel | None = None
        self._versions: dict[str, str] = {}  # name -> PEFT's name of its current version
        self._loaded = 0
        self._on = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Loaded adapters, by name."""
        return tuple(self._versions)

    def load(self, name: str, folder: str) -> None:
        """Load a LoRA adapter from a folder, replacing an adapter of the same name.

        Raises `MissingDataError` if the folder has no adapter, `UsageError` if it does not fit; nothing is changed
        then.
        """
        from peft import PeftConfig, PeftType

        if not name or "." in name:
            raise UsageError(f"an adapter's name has at least one character and no dot, unlike {name!r}")
        path = adapter_folder(folder)
        try:
            config = PeftConfig.from_pretrained(path)
        except (RuntimeError, ValueError, KeyError, OSError, TypeError, AttributeError) as error:
            raise UsageError(f"the adapter in {folder} cannot be read: {first_line(error)}") from error
        if config.peft_type != PeftType.LORA:
            raise UsageError(f"the adapter in {folder} is of the kind {config.peft_type}: only LoRA is served")
        self._loaded += 1
        version = f"{name}-{self._loaded}"
        with warnings.catch_warnings():  # PEFT warns about its active adapter; `switch` decides that here
            warnings.simplefilter("ignore")
            try:
                self._add(version, path, config)
            except (RuntimeError, ValueError, KeyError, OSError, SafetensorError) as error:
                self._remove(version)
                why = " ".join(str(error).split())[:200]
                raise UsageError(f"the adapter in {folder} does not fit the model: {why}") from error
            replaced, self._versions[name] = self._versions.get(name), version
            self._remove(replaced or "")

    def _add(self, version: str, folder: str, config: PeftConfig) -> None:
        from peft import get_peft_model

        config.inference_mode = True
        if self._peft is None:
            self._peft = cast("PeftModel", get_peft_model(self._model, config, adapter_name=version))
        loaded = self._peft.load_adapter(folder, adapter_name=version)
        wrong = [*loaded.missing_keys, *loaded.unexpected_keys]
        if wrong:
            raise ValueError(f"other weights are needed than it holds, such as {wrong[0]}")

    def _remove(self, version: str) -> None:
        """Delete a version if it exists. PEFT would then activate another, so switch all off."""
        if self._peft is not None:
            if version in self._peft.peft_config:
                self._peft.delete_adapter(version)
            self._activate(self._peft, "")

    def load_state(self, name: str, state: Mapping[str, torch.Tensor]) -> None:
        """Replace an adapter's weights, named as saved by PEFT. Raises `UsageError` if they do not fit."""
        from peft import get_peft_model_state_dict, set_peft_model_state_dict

        if self._peft is None or name not in self._versions:
            raise UsageError(f"there is no adapter {name!r}; loaded: {list(self.names)}")
        version = self._versions[name]
        own = get_peft_model_state_dict(self._peft, adapter_name=version)
        if {key: value.shape for key, value in own.items()} != {key: value.shape for key, value in state.items()}:
            raise UsageError(f"the weights do not fit the adapter {name!r}: other names or shapes")
        set_peft_model_state_dict(self._peft, dict(state), adapter_name=version)

    def switch(self, name: str) -> None:
        """Use this adapter from now on; "" for none."""
        version = self._versions[name] if name else ""
        if self._peft is not None and version != self._on:
            self._activate(self._peft, version)

    def _activate(self, peft: PeftModel, version: str) -> None:
        tuner: Any = peft.base_model
        if not version:
            tuner.disable_adapter_layers()
        else:
            tuner.enable_adapter_layers()
            tuner.set_adapter(version)
        self._on = version
