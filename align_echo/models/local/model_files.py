"""Validate the claims of a model folder's files before loading them: they may come from strangers.

Files must be regular and of a reasonable size. The sizes in `config.json` must be possible, and the described model
must not be larger than the weights beside it: it is first built without memory, and the build is stopped if it grows
too large. Not here: files that run code (chat templates and tokenizers, `engine.py`), and files from a hub, which are
checked only as far as they are loaded.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from align_echo.base.files import LARGEST_FILE, open_file
from align_echo.base.plain_yaml import parse_json
from align_echo.errors import UsageError
from align_echo.models.local import ADAPTER
from align_echo.models.packages import resolve_folder

_READ = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors", "additional_chat_templates/*.jinja")
_LONG = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt", "added_tokens.json", "*.index.json", "*.model")
_SMALL_FILE = 16 * 2**20
_INDEX = "model.safetensors.index.json"
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_EXPERTS = ".experts."
"""Part of the names of layers that `transformers` puts together."""

_COUNT = re.compile(r"(^|_)(layers?|blocks?|experts?|heads?|stages?|depths?)(_|$)", re.IGNORECASE)
_SIZE = re.compile(r"(size|dim|length|rank)$", re.IGNORECASE)
_POSITIVE = re.compile(
    r"(num_(hidden_)?layers|n_layers?|num_(attention_)?heads|n_heads?|hidden_size|intermediate_size|d_model|n_embd"
    r"|vocab_size|max_position_embeddings|n_positions|head_dim|rope_theta)"
)
_FEWEST = 1024
"""Number of layers, heads, experts etc. allowed for any model, regardless of its files."""

_LARGEST_NUMBER = 2**31
_THETA = re.compile("theta|base", re.IGNORECASE)

_WEIGHTS_BEYOND = 2**26
_MODULES_A_TENSOR = 64
_MODULES_BEYOND = 10_000
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


class TensorHeader(NamedTuple):
    """Shapes and dtypes by name from the headers of safetensors files, checked against their length."""

    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]

    @property
    def numbers(self) -> int:
        """Total number of elements of the tensors."""
        return sum(math.prod(shape) for shape in self.shapes.values())


# ---------------------------------------------------------------- files


def check_file_sizes(folder: Path) -> None:
    """Refuse files that are not regular, or too large for their names. Raises `UsageError` in one line."""
    for file in chain.from_iterable(folder.glob(pattern) for pattern in _READ):
        if file.name.startswith(".") or file.is_dir():
            continue
        try:
            with open_file(file) as stream:
                size = stream.seek(0, 2)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
        if file.suffix != ".safetensors":
            most = LARGEST_FILE if any(file.match(pattern) for pattern in _LONG) else _SMALL_FILE
            if size > most:
                raise UsageError(f"{file} is larger than {most // 2**20} MiB: it is no such file")


def check_model_files(folder: Path) -> None:
    """Refuse endless files and impossible configurations. Reads no weights. Raises `UsageError` in one line."""
    check_file_sizes(folder)
    for shard in _shards(folder):
        if Path(shard).name != shard:
            raise UsageError(f"{_INDEX} names weights outside of its folder: {shard[:100]!r}")
    if (folder / "config.json").is_file():
        check_config(_object(folder / "config.json"), len(header(folder).shapes))


def _object(file: Path) -> dict[str, Any]:
    try:
        with open_file(file) as stream:
            content = parse_json(stream.read().decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file.name} cannot be read: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{file.name} holds no names and values")
    return content


def _shards(folder: Path) -> list[str]:
    """Return the file names in an index of weights; none without an index. Raises `UsageError` for a damaged index."""
    index = folder / _INDEX
    if not index.is_file():
        return []
    shards = _object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards or not all(isinstance(name, str) for name in shards.values()):
        raise UsageError(f"{_INDEX} names no files of weights")
    return sorted(set(shards.values()))


def adapter_base(folder: Path) -> str:
    """Return the folder or hub name of an adapter's base model; "" for the folder of a full model.

    Raises `UsageError` for an adapter whose claims exceed its file, and as `resolve_folder`.
    """
    if not (folder / ADAPTER).is_file():
        return ""
    config = _object(folder / ADAPTER)
    base, ranks = config.get("base_model_name_or_path"), [config.get("r", 0)]
    if isinstance(config.get("rank_pattern"), dict):
        ranks += config["rank_pattern"].values()
    if not isinstance(base, str) or not base:
        raise UsageError(f"{ADAPTER} names no model that it is for (base_model_name_or_path)")
    if not (folder / _ADAPTER_WEIGHTS).is_file():
        raise UsageError(f"{folder} holds an adapter without its weights: there is no {_ADAPTER_WEIGHTS} in it")
    most = max(chain.from_iterable(header(folder, _ADAPTER_WEIGHTS).shapes.values()), default=0)
    if any(not isinstance(rank, int) or rank > most for rank in ranks):
        claim = f"claims ranks of {json.dumps(ranks)[:40]}, and the longest side in its file is {most}"
        raise UsageError(f"{ADAPTER} {claim}")
    base = resolve_folder(base)
    if Path(base).is_absolute() and not Path(base).is_dir():
        advice = f"name the folder in {ADAPTER} (base_model_name_or_path)"
        raise UsageError(f"{base}, which it is for, is not here: {advice}")
    return base


def check_adapter_fits(folder: Path, model: Any, base: str) -> None:
    """Refuse a LoRA adapter made for another model than this one of `base`. Reads only the header of its file.

    Looks at linear layers: each is one of the model's, with as many inputs and outputs. Raises `UsageError`.
    """
    from torch.nn import Linear

    modules = dict(model.named_modules())
    lacking, found, wrong = "", False, ""
    for name, shape in header(folder, _ADAPTER_WEIGHTS).shapes.items():
        layer, _, matrix = name.removeprefix("base_model.model.").rpartition(".lora_")
        if matrix not in ("A.weight", "B.weight") or len(shape) != 2 or _EXPERTS in layer:
            continue
        module = modules.get(layer)
        found, lacking = found or module is not None, lacking or ("" if module is not None else layer)
        if isinstance(module, Linear):
            takes = matrix[0] == "A"
            here, there = (shape[1], module.in_features) if takes else (shape[0], module.out_features)
            if here != there:
                wrong = wrong or f"in {layer} it {'takes' if takes else 'gives'} {here} numbers, and the model {there}"
    if found and lacking:  # where no layer is found they may have had other names
        wrong = wrong or f"it holds {lacking}, which the model lacks"
    if wrong:
        raise UsageError(f"the adapter in {folder} is for another model than {base}: {wrong}")


def header(folder: Path, files: str = "*.safetensors") -> TensorHeader:
    """Read the headers of all safetensors in a folder; of adapters only if `files` names them. Raises `UsageError`."""
    from safetensors import SafetensorError, safe_open

    tensors = TensorHeader({}, {})
    for file in sorted(folder.glob(files)):
        if file.name == _ADAPTER_WEIGHTS != files:
            continue
        try:
            with safe_open(str(file), framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 (no mapping)
                    part = weights.get_slice(name)
                    tensors.shapes[name], tensors.dtypes[name] = tuple(part.get_shape()), str(part.get_dtype())
        except (SafetensorError, OSError, ValueError) as error:
            raise UsageError(f"{file.name} holds no weights that can be read: {str(error)[:200]}") from None
    return tensors


# ---------------------------------------------------------------- configurations


def check_config(config: Mapping[str, Any], tensors: int) -> None:
    """Refuse numbers that are impossible for so many tensors, and names of code that would be downloaded.

    Raises `UsageError`.
    """
    many = max(_FEWEST, 4 * tensors)
    for path, value in _values(config):
        key = path[-1]
        problem = ""
        if isinstance(value, float) and not math.isfinite(value):
            problem = "is no number"
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if _POSITIVE.fullmatch(key) and value <= 0:
                problem = "has to be above 0"
            elif isinstance(value, int) and _COUNT.search(key) and not _SIZE.search(key) and abs(value) > many:
                problem = f"is more than any model of these files has ({many})"
            elif abs(value) > _LARGEST_NUMBER and not _THETA.search(key):
                problem = "is too large"
        elif _POSITIVE.fullmatch(key) and isinstance(value, str):
            problem = "has to be a number"
        elif key.endswith("implementation") and isinstance(value, str) and not value.isidentifier():
            problem = "names code that would be fetched"
        if problem:
            quoted_value = json.dumps(value)[:40]
            raise UsageError(f"config.json is of no model: {'.'.join(path)} = {quoted_value} {problem}")


def _values(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value in a configuration with its path of names; items of a list have the path of the list."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            yield from _values(value, (*path, str(key)))
    elif isinstance(config, list):
        for value in config:
            yield from _values(value, path)
    elif path:
        yield path, config


# ---------------------------------------------------------------- models without memory


def claimed_numbers(kind: Any, config: Any, tensors: TensorHeader) -> int:
    """Count the weights described by a configuration, and refuse more than its files hold, by their headers.

    The model is built without memory. `kind` is a class of `transformers`, or one of its "auto" classes. Raises
    `UsageError`, and any error of building.
    """
    import torch

    with torch.device("meta"), torch.random.fork_rng(devices=[]), _bounded_building(len(tensors.shapes)):
        if hasattr(kind, "from_config"):
            model = kind.from_config(config, trust_remote_code=False)
        else:
            model = kind._from_config(config)
    parts = 16 if getattr(config, "quantization_config", None) else 4  # packed numbers, and layers that are tied
    most = parts * tensors.numbers + _WEIGHTS_BEYOND
    claimed: int = sum(parameter.numel() for parameter in model.parameters())
    beside = sum(buffer.numel() for buffer in model.buffers())
    if claimed > most or beside > most:
        raise UsageError(
            f"config.json describes a model of {max(claimed, beside):,} numbers, and its files hold {tensors.numbers:,}"
        )
    return claimed


@contextmanager
def _bounded_building(tensors: int) -> Iterator[None]:
    """Limit the number of modules while a model is built, by the number of its tensors. Raises `UsageError`."""
    from torch.nn.modules import module

    most = _MODULES_A_TENSOR * tensors + _MODULES_BEYOND
    built_parts = 0

    def count(*part: Any) -> None:
        nonlocal built_parts
        built_parts += 1
        if built_parts > most:
            raise UsageError(f"config.json describes more than {most:,} parts, and its files hold {tensors:,}")

    hooks = [
        module.register_module_module_registration_hook(count),
        module.register_module_parameter_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def check_weights_read(model: Any, folder: Path) -> None:
    """Refuse weights stored as integers, or containing NaN or infinity. Raises `UsageError`."""
    import torch

    dtypes = header(folder).dtypes
    is_packed = getattr(model.config, "quantization_config", None) is not None
    for name, parameter in model.named_parameters():
        if not is_packed and dtypes.get(name, "F32") not in _FLOATS:
            raise UsageError(f"its files hold {name} as {dtypes[name]}: weights are floating-point numbers")
        if parameter.is_floating_point() and not bool(torch.isfinite(parameter.detach().sum(dtype=torch.float32))):
            raise UsageError(f"its files hold weights that are no numbers, such as {name}")
