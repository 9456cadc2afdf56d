"""What the files of a model's folder claim, checked before anything is made of them: a stranger may have made them.

A folder's files are regular ones of a sane size. The sizes in `config.json` are numbers that a model can have, and the
model that it describes is no larger than the weights that lie beside it: it is built without memory first, and the
building ends where it gets out of hand. Left out: what runs (chat templates and tokenizers, `foreign.py`), and files
that a hub sends, which are checked as far as they are loaded.
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

from align_echo.errors import UsageError
from align_echo.models.names import ADAPTER
from align_echo.reading import parse_json
from align_echo.regular_files import LARGEST_FILE, open_file

_READ = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors", "additional_chat_templates/*.jinja")
_LONG = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt", "added_tokens.json", "*.index.json", "*.model")
_SMALL_FILE = 16 * 2**20
_INDEX = "model.safetensors.index.json"
_ADAPTER_WEIGHTS = "adapter_model.safetensors"

_COUNT = re.compile(r"(^|_)(layers?|blocks?|experts?|heads?|stages?|depths?)(_|$)", re.IGNORECASE)
_SIZE = re.compile(r"(size|dim|length|rank)$", re.IGNORECASE)
_POSITIVE = re.compile(
    r"(num_(hidden_)?layers|n_layers?|num_(attention_)?heads|n_heads?|hidden_size|intermediate_size|d_model|n_embd"
    r"|vocab_size|max_position_embeddings|n_positions|head_dim|rope_theta)"
)
_FEWEST = 1024
"""Layers, heads, experts and the like that a model may have whatever its files hold."""

_LARGEST_NUMBER = 2**31
_THETA = re.compile("theta|base", re.IGNORECASE)

_WEIGHTS_BEYOND = 2**26
_MODULES_A_TENSOR = 64
_MODULES_BEYOND = 10_000
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


class TensorHeader(NamedTuple):
    """What safetensors hold: shapes and dtypes by name, as their headers say, which is checked against their length."""

    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]

    @property
    def numbers(self) -> int:
        """How many numbers the tensors hold together."""
        return sum(math.prod(shape) for shape in self.shapes.values())


# ---------------------------------------------------------------- files


def check_file_sizes(folder: Path) -> None:
    """Refuse files that are no regular ones, or too large for their names. Raises `UsageError` in one line."""
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
    """Refuse files that could not be read to an end, and a configuration that no model can have. Raises `UsageError`
    in one line, and reads no weights."""
    check_file_sizes(folder)
    for shard in _shards(folder):
        if Path(shard).name != shard:
            raise UsageError(f"{_INDEX} names weights outside of its folder: {shard[:100]!r}")
    if (folder / "config.json").is_file():
        check_config(_object(folder / "config.json"), folder)


def _object(file: Path) -> dict[str, Any]:
    try:
        with open_file(file) as stream:
            said = parse_json(stream.read().decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file.name} cannot be read: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(said, dict):
        raise UsageError(f"{file.name} holds no names and values")
    return said


def _shards(folder: Path) -> list[str]:
    """The files that an index of weights names; none without an index. Raises `UsageError` for a damaged one."""
    index = folder / _INDEX
    if not index.is_file():
        return []
    shards = _object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards or not all(isinstance(name, str) for name in shards.values()):
        raise UsageError(f"{_INDEX} names no files of weights")
    return sorted(set(shards.values()))


def adapter_base(folder: Path) -> str:
    """Return the folder or hub name of the model that an adapter is for; "" for a folder of a whole model.

    Raises `UsageError` for an adapter that claims more than its file holds.
    """
    if not (folder / ADAPTER).is_file():
        return ""
    config = _object(folder / ADAPTER)
    base, ranks = config.get("base_model_name_or_path"), [config.get("r", 0)]
    if isinstance(config.get("rank_pattern"), dict):
        ranks += config["rank_pattern"].values()
    if not isinstance(base, str) or not base:
        raise UsageError(f"{ADAPTER} names no model that it is for (base_model_name_or_path)")
    most = max(chain.from_iterable(header(folder, _ADAPTER_WEIGHTS).shapes.values()), default=0)
    if any(not isinstance(rank, int) or rank > most for rank in ranks):
        claim = f"claims ranks of {json.dumps(ranks)[:40]}, and the longest side in its file is {most}"
        raise UsageError(f"{ADAPTER} {claim}")
    return base


def header(folder: Path, files: str = "*.safetensors") -> TensorHeader:
    """What all safetensors of a folder hold; adapters only if `files` names them. Raises `UsageError` for damaged ones.
    """
    from safetensors import SafetensorError, safe_open

    found = TensorHeader({}, {})
    for file in sorted(folder.glob(files)):
        if file.name == _ADAPTER_WEIGHTS != files:
            continue
        try:
            with safe_open(str(file), framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 (no mapping)
                    part = weights.get_slice(name)
                    found.shapes[name], found.dtypes[name] = tuple(part.get_shape()), str(part.get_dtype())
        except (SafetensorError, OSError, ValueError) as error:
            raise UsageError(f"{file.name} holds no weights that can be read: {str(error)[:200]}") from None
    return found


# ---------------------------------------------------------------- configurations


def check_config(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse numbers that no model has, and names of code that would be fetched. Raises `UsageError`."""
    many = max(_FEWEST, 4 * len(header(folder).shapes))
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
            said = json.dumps(value)[:40]
            raise UsageError(f"config.json is of no model: {'.'.join(path)} = {said} {problem}")


def _values(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value in a configuration, with the names that lead to it; one of a list has the name of the list."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            yield from _values(value, (*path, str(key)))
    elif isinstance(config, list):
        for value in config:
            yield from _values(value, path)
    elif path:
        yield path, config


# ---------------------------------------------------------------- models without memory


def claimed_numbers(kind: Any, config: Any, folder: Path) -> int:
    """Return how many weights a configuration describes, and refuse more than lie beside it. The model is built without
    memory.

    `kind` is a class of `transformers`, or one of its "auto" classes. Raises `UsageError`, and what building raises.
    """
    import torch

    held = header(folder)
    with torch.device("meta"), torch.random.fork_rng(devices=[]), _bounded_building(len(held.shapes)):
        if hasattr(kind, "from_config"):
            model = kind.from_config(config, trust_remote_code=False)
        else:
            model = kind._from_config(config)
    parts = 16 if getattr(config, "quantization_config", None) else 4  # packed numbers, and layers that are tied
    most = parts * held.numbers + _WEIGHTS_BEYOND
    claimed: int = sum(parameter.numel() for parameter in model.parameters())
    beside = sum(buffer.numel() for buffer in model.buffers())
    if claimed > most or beside > most:
        raise UsageError(
            f"config.json describes a model of {max(claimed, beside):,} numbers, and its files hold {held.numbers:,}"
        )
    return claimed


@contextmanager
def _bounded_building(tensors: int) -> Iterator[None]:
    """Refuse, while a model is built, more parts than files of so many tensors can be for. Raises `UsageError`."""
    from torch.nn.modules import module

    most = _MODULES_A_TENSOR * tensors + _MODULES_BEYOND
    made = 0

    def count(*part: Any) -> None:
        nonlocal made
        made += 1
        if made > most:
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
    """Refuse weights that are whole numbers in the files, or no numbers at all. Raises `UsageError`."""
    import torch

    dtypes = header(folder).dtypes
    is_packed = getattr(model.config, "quantization_config", None) is not None
    for name, parameter in model.named_parameters():
        if not is_packed and dtypes.get(name, "F32") not in _FLOATS:
            raise UsageError(f"its files hold {name} as {dtypes[name]}: weights are floating-point numbers")
        if parameter.is_floating_point() and not bool(torch.isfinite(parameter.detach().sum(dtype=torch.float32))):
            raise UsageError(f"its files hold weights that are no numbers, such as {name}")
