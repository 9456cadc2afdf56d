"""Load and run a model by name: files, tokenizer, engine. A process has one engine per model and settings.

Not here: the meaning of names on the command line (`models/choosing.py`), and starting vLLM servers.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn.functional import embedding, linear, silu

from align_echo.base.files import open_file
from align_echo.base.network import LOGGER
from align_echo.base.plain_yaml import parse_json
from align_echo.errors import MissingDataError, UsageError, first_line
from align_echo.models.endpoint import Endpoint, read_endpoint
from align_echo.models.local import CONVERSATIONS, POCKET
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.chat_template import OWN_FORMAT, ChatFormat
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine import run_bounded
from align_echo.models.local.engine_process import EngineGroup, EngineSettings, ProcessEngine
from align_echo.models.local.memory import LEAST_ROOM, POOL, ModelMemory, model_memory
from align_echo.models.local.model_files import (
    adapter_base,
    check_file_sizes,
    check_model_files,
    claimed_numbers,
    header,
)
from align_echo.models.local.slot_attention import FixedStep, PackedStep, slot_attention
from align_echo.models.local.transformers_engine import STEP_TOKENS, TransformersEngine, engine_memory
from align_echo.models.local.weights import read_strange_model, without_bars

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# ---------------------------------------------------------------- tokenizer files

_PROBES = (
    *("go to cabinet 1", "a" * 2000, " " * 2000, "\n" * 2000, "1" * 2000, "!" * 2000, "aB" * 1000, "a " * 1000),
    "You see 3 things: a mug, a plate (blue) and Ünïcødé 日本語 😀.\n\tNothing happens!\r\n" * 25,
)
_TOKENS_A_BYTE = 16
_CHARACTERS_A_TOKEN = 1_000


def check_tokenizer(folder: Path) -> None:
    """Refuse a `tokenizer.json` that cannot be read within the limits, or with disproportionate tokens.

    Raises `UsageError` in one line. A folder without one passes.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return
    answers, excess = run_bounded({"file": str(file.resolve()), "texts": _PROBES})
    if answers and "error" in answers[-1]:
        raise UsageError(f"{file.name} holds no tokenizer that can be used: {answers[-1]['error']}")
    if excess:
        raise UsageError(f"{file.name} cannot be used: to encode short texts, it {excess}")
    for text, answer in zip(_PROBES, answers, strict=True):
        grows = answer["tokens"] > _TOKENS_A_BYTE * len(text.encode())
        if grows or answer["characters"] > _CHARACTERS_A_TOKEN * (answer["tokens"] + 1):
            raise UsageError(f"{file.name} cannot be used: it makes {answer['tokens']:,} tokens of {len(text):,} signs")


# ---------------------------------------------------------------- load and run a model by name

DTYPES = ("float32", "bfloat16", "float16")
_HASHED = ("*.json", "*.jinja", "additional_chat_templates/*.jinja", "*.safetensors")
_MOST_ENDS = 1_000
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")


_running: dict[tuple[object, ...], LocalModel] = {}
_loading = threading.Lock()


def pocket_folder() -> Path:
    """Return the pocket model's folder in the package. Raises `MissingDataError` if it is missing."""
    folder = Path(str(resources.files("align_echo.models").joinpath(POCKET)))
    if not (folder / "config.json").is_file():
        raise MissingDataError(
            "the pocket model is not in this installation: install align-echo from a release, or name another model"
        )
    return folder


def run_transformers(
    source: str,
    *,
    name: str,
    device: str = "",
    dtype: str = "",
    slots: int = CONVERSATIONS,
    context: int = 0,
    chat: ChatFormat = OWN_FORMAT,
) -> LocalModel:
    """Run a model from a folder or the hub in this process; reuse a running model with the same settings.

    `device` is a torch device (default: a GPU if there is one). `dtype` is one of `DTYPES` (default: float32 on a CPU,
    the files' dtype on a GPU). `chat` is as in `ChatEncoder`. Raises `UsageError` or `MissingDataError` for
    unusable files.
    """
    from transformers import AutoModelForCausalLM

    device, kind = _device_and_kind(device, dtype)
    weights = content_hash(Path(source)) if Path(source).is_dir() else ""

    def start() -> LocalModel:
        without_bars()
        need = read_checked_files(source, lambda: source_memory(source, kind, device=device, context=context))
        LOGGER.info("%s", POOL.describe(name, need, device=device))
        encoder = load_encoder(source, chat)
        model = read_checked_files(source, lambda: read_strange_model(AutoModelForCausalLM, source, kind))
        engine = TransformersEngine(model.to(device), name=name, decode=encoder.text, slots=slots, context=context)
        commit = str(getattr(model.config, "_commit_hash", None) or "")
        return LocalModel(engine, encoder, weights=encoder.identify(weights or commit))

    return _shared((name, source, weights, device, kind, slots, context, chat), start)


def examine(source: str, *, dtype: str = "", chat: ChatFormat = OWN_FORMAT) -> tuple[ModelMemory, str]:
    """Check all that `run_transformers` checks before it reads weights. Return the memory and the device of the model.

    Raises as `run_transformers` does.
    """
    device, kind = _device_and_kind("", dtype)
    need = read_checked_files(source, lambda: source_memory(source, kind, device=device))
    load_encoder(source, chat)
    return need, device


def _device_and_kind(device: str, dtype: str) -> tuple[str, str]:
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    kind = dtype or ("float32" if device == "cpu" else "auto")
    if kind not in (*DTYPES, "auto"):
        raise UsageError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
    return device, kind


def source_memory(source: str, kind: str, *, device: str = "cpu", context: int = 0) -> ModelMemory:
    """Estimate the memory of an engine for the model of a folder or hub name, without loading it.

    `kind` is one of `DTYPES`, or "auto" for the files' dtype. Raises `UsageError`, and any error of reading.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    base = adapter_base(Path(source)) or source
    if base != source and Path(base).is_dir():
        check_model_files(Path(base))
    config = AutoConfig.from_pretrained(base, trust_remote_code=False)
    text = config.get_text_config()
    if Path(base).is_dir():
        parameters = claimed_numbers(AutoModelForCausalLM, config, header(Path(base)))
    else:
        with torch.device("meta"):
            model: nn.Module = cast("Any", AutoModelForCausalLM).from_config(config, trust_remote_code=False)
        parameters = sum(each.numel() for each in model.parameters())
    longest = context or int(getattr(text, "max_position_embeddings", 0) or 0) or LEAST_ROOM
    return model_memory(
        text,
        parameters,
        weight_bytes=(getattr(torch, kind) if kind in DTYPES else config.dtype or torch.float32).itemsize,
        context=longest,
        step_tokens=STEP_TOKENS["cuda" if device.startswith("cuda") else "cpu"],
    )


def run_pocket() -> LocalModel:
    """Run the pocket model in this process; on a CPU without importing `transformers`, which would take longer than
    playing.

    Raises `MissingDataError` if its files are missing, `UsageError` if they are unusable.
    """
    import torch

    folder = pocket_folder()
    if torch.cuda.is_available():
        return run_transformers(str(folder), name=POCKET)

    weights = content_hash(folder)

    def start() -> LocalModel:
        model = read_checked_files(str(folder), lambda: read_pocket(folder))
        settings = read_checked_files(str(folder), lambda: parse_json((folder / "generation_config.json").read_text()))
        tokenizer = cast("PreTrainedTokenizerBase", read_checked_files(str(folder), lambda: PocketTokenizer(folder)))
        encoder = ChatEncoder(tokenizer, stop_ids=[settings["eos_token_id"]])
        computed = cast("PreTrainedModel", model)  # it has all that an engine needs
        LOGGER.info("%s", POOL.describe(POCKET, engine_memory(computed)))
        engine = TransformersEngine(computed, name=POCKET, decode=encoder.text, stock=model.stock)
        return LocalModel(engine, encoder, weights=weights)

    return _shared((POCKET, weights), start)


def run_in_processes(
    source: str, *, name: str, processes: int, chat: ChatFormat = OWN_FORMAT, dtype: str = ""
) -> LocalModel:
    """Run a model as `run_transformers` does, in `processes` processes with one torch thread each.

    Raises as `run_transformers`, and `ModelError` if a process cannot start.
    """
    weights = content_hash(Path(source)) if Path(source).is_dir() else ""

    def start() -> LocalModel:
        need = read_checked_files(source, lambda: source_memory(source, dtype or "float32"))
        LOGGER.info("%s", POOL.describe(name, need, copies=processes))
        POOL.join(processes * need.fixed)
        settings = EngineSettings(source, name, memory=POOL.limit() // processes, chat=chat, dtype=dtype)
        encoder = load_encoder(source, chat)
        engines = {f"process {n}": ProcessEngine(settings) for n in range(1, processes + 1)}
        try:
            fleet = EngineGroup(list(engines), lambda address: engines[address].wait_until_ready())
        except BaseException:
            for engine in engines.values():
                engine.close()
            raise
        return LocalModel(fleet, encoder, weights=next(iter(engines.values())).weights)

    return _shared(("processes", name, source, weights, processes, chat, dtype), start)


def run_server(
    model: str, *, base_url: str | Endpoint | None = None, chat: ChatFormat = OWN_FORMAT
) -> LocalModel:
    """Use the model on a vLLM server. Its tokenizer is read from the path or hub name reported by the server."""
    from align_echo.models.local.vllm_server import VllmServer

    endpoint = read_endpoint(base_url)

    def start() -> LocalModel:
        server = VllmServer(model, base_url=endpoint)
        return LocalModel(server, load_encoder(server.root, chat))

    return _shared(("server", model, endpoint.url, chat), start)


def run_vllm(source: str, *, chat: ChatFormat = OWN_FORMAT) -> LocalModel:
    """Run the model of a folder or hub name on vLLM in this process."""
    from align_echo.models.local.vllm_engine import VllmEngine, import_vllm

    import_vllm()
    weights = content_hash(Path(source)) if Path(source).is_dir() else ""

    def start() -> LocalModel:
        encoder = load_encoder(source, chat)
        return LocalModel(VllmEngine(source), encoder, weights=encoder.identify(weights))

    return _shared(("vllm", source, weights, chat), start)


def load_encoder(source: str, chat: ChatFormat = OWN_FORMAT) -> ChatEncoder:
    """Build the encoder for a folder's or hub name's tokenizer, with the end tokens of its generation settings."""
    source = tokenizer_source(source)
    if Path(source).is_dir() and not _has_tokenizer(source):
        advice = _model_within(source) or "save it there too (tokenizer.json)"
        raise MissingDataError(f"{source} holds no tokenizer: {advice}")
    tokenizer = load_tokenizer(source)
    return ChatEncoder(tokenizer, stop_ids=_end_tokens(source), chat=chat)


def tokenizer_source(source: str) -> str:
    """Return the folder or hub name of a model's tokenizer: of an adapter without one it is the base model's.

    Raises `UsageError` for an adapter that names no model.
    """
    if not Path(source).is_dir() or _has_tokenizer(source):
        return source
    return adapter_base(Path(source)) or source


def _has_tokenizer(source: str) -> bool:
    return any((Path(source) / name).is_file() for name in _TOKENIZERS)


def load_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder or hub name; test a folder's tokenizer first. Raises `UsageError`."""
    from transformers import AutoTokenizer

    def read() -> PreTrainedTokenizerBase:
        check_tokenizer(Path(source))
        return cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(source, trust_remote_code=False))

    return cast("PreTrainedTokenizerBase", read_checked_files(source, read))


def _end_tokens(source: str) -> Sequence[int]:
    """Read the end tokens in a model's generation settings; none without settings.

    Raises `UsageError` for damaged settings.
    """

    def read() -> Any:
        from transformers import GenerationConfig

        return GenerationConfig.from_pretrained(source).eos_token_id

    if (Path(source) / "generation_config.json").is_file():
        ends = read_checked_files(source, read)
    else:
        try:
            ends = None if Path(source).is_dir() else read()
        except OSError:
            ends = None
    ends = [ends] if isinstance(ends, int) else ends or []
    are_ids = isinstance(ends, list) and all(type(end) is int and 0 <= end < 2**31 for end in ends)
    if not are_ids or len(ends) > _MOST_ENDS:
        raise UsageError(f"no model can be loaded from {source}: its generation_config.json names no end tokens by id")
    return ends


def content_hash(folder: Path) -> str:
    """Hash the names and contents of a model's files (SHA-256 in hex): weights, configuration, tokenizer, template.

    Raises `UsageError` for endless files.
    """
    check_file_sizes(folder)
    digest = hashlib.sha256()
    for file in sorted({file for pattern in _HASHED for file in folder.glob(pattern)}):
        with open_file(file) as content:
            inner = hashlib.file_digest(content, "sha256").hexdigest()
        digest.update(f"{file.name} {inner}\n".encode())
    return digest.hexdigest()


def _shared(key: tuple[object, ...], start: Callable[[], LocalModel]) -> LocalModel:
    """Return the running model if its weights are unchanged, else start it. Engines do not survive a fork."""
    with _loading:
        for old in [key for key, running in _running.items() if running.engine.closed]:
            del _running[old]  # free its weights
        running = _running.get((os.getpid(), *key))
        if running is None or running.engine.changed:
            running = _running[os.getpid(), *key] = start()
        return running


def close_all() -> None:
    """Close the engines started here by name, except those whose weights were replaced since."""
    with _loading:
        engines = [running.engine for running in _running.values() if not running.engine.changed]
        _running.clear()
    for engine in engines:
        engine.close()


def read_checked_files(source: str, read: Callable[[], Any]) -> Any:
    """Check a folder's files, then call `read`.

    Raises `UsageError` in one line for any error of a library: the files may come from strangers, so any kind of error
    is possible.
    """
    is_folder = Path(source).is_dir()
    if not is_folder and (source.startswith((".", "~", os.sep)) or source.endswith(os.sep) or source.count(os.sep) > 1):
        raise MissingDataError(f"there is no folder {source}: name the folder that holds the model's config.json")
    try:
        if is_folder:
            check_model_files(Path(source))
        return read()
    except UsageError as error:
        raise UsageError(f"no model can be loaded from {source}: {error}") from None
    except MissingDataError:
        raise
    except BaseException as error:
        if isinstance(error, ImportError) and error.name:  # an error of this installation, not of the files
            raise
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # raised by Rust libraries
            raise
        tried = "" if is_folder else "no such folder is here, and as a name on the hub: "
        why = _model_within(source) or _why(error)
        raise UsageError(f"no model can be loaded from {source}: {tried}{why}") from None


def _why(error: BaseException) -> str:
    """Describe an error in one line: the library's first line, plus the second if the first only announces it."""
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if isinstance(error, KeyError):
        return f"its files name {first_line(error)[:200]}, which is unknown"
    lines = str(error).strip().splitlines()
    if len(lines) > 1 and lines[0].rstrip().endswith(":"):
        return " ".join(" ".join(lines[:2]).split())[:300]
    return first_line(error)[:300]


def _model_within(source: str) -> str:
    """Suggest a model one folder below, such as a critic in its training folder; "" if there is none."""
    below = sorted(file.parent for file in Path(source).glob("[!.]*/config.json"))
    folders = [folder for folder in below if any(folder.glob("*.safetensors"))]
    return f"name {folders[0]}, which holds one" if folders else ""


# ---------------------------------------------------------------- the pocket model

ARCHITECTURE = "Qwen3ForCausalLM"


@dataclass(frozen=True)
class PocketConfig:
    """Sizes of the model, named as in its `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float

    def get_text_config(self) -> PocketConfig:
        """Return itself: the model takes only text."""
        return self


@dataclass(frozen=True)
class ForwardResult:
    """Output of a forward pass: logits [1, W, V] at W positions."""

    logits: torch.Tensor


class _Norm(nn.Module):
    """Divides the last dimension by its root mean square, in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self._eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        exact = x.to(torch.float32)
        exact = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + self._eps)
        return self.weight * exact.to(x.dtype)


class _Attention(nn.Module):
    def __init__(self, config: PocketConfig, layer: int) -> None:
        super().__init__()
        self.layer_idx = layer
        self._size = size = config.head_dim
        queries, keys = config.num_attention_heads * size, config.num_key_value_heads * size
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        self.q_norm = _Norm(size, config.rms_norm_eps)
        self.k_norm = _Norm(size, config.rms_norm_eps)

    def forward(
        self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], step: PackedStep | FixedStep
    ) -> torch.Tensor:
        by_head = (*x.shape[:-1], -1, self._size)
        query = _rotated(self.q_norm(self.q_proj(x).view(by_head)).transpose(1, 2), *rotation)  # [1, H, N, D]
        key = _rotated(self.k_norm(self.k_proj(x).view(by_head)).transpose(1, 2), *rotation)  # [1, K, N, D]
        value = self.v_proj(x).view(by_head).transpose(1, 2)
        out, _ = slot_attention(self, query, key, value, None, packed_step=step, scaling=self._size**-0.5)
        projected: torch.Tensor = self.o_proj(out.reshape(*x.shape[:-1], -1).contiguous())
        return projected


class _Mlp(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class _Layer(nn.Module):
    def __init__(self, config: PocketConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = _Attention(config, layer)
        self.mlp = _Mlp(config)
        self.input_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], step: PackedStep | FixedStep
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotation, step)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class _Embedding(nn.Module):
    """Like `nn.Embedding`, without its unused random weights and its import of `torch._dynamo`."""

    def __init__(self, vocabulary: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, size))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return embedding(ids, self.weight)


class _Body(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.embed_tokens = _Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = _Norm(config.hidden_size, config.rms_norm_eps)


class PocketModel(nn.Module):
    """The model, with the weight names of its files. The embedding is also the output layer."""

    def __init__(self, config: PocketConfig, folder: Path) -> None:
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self._folder = folder
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float, device="cpu") / config.head_dim
        self._speeds = 1.0 / (config.rope_theta**steps)  # [D / 2]

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.model.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the computation."""
        return self.model.embed_tokens.weight.dtype

    def forward(
        self,
        input_ids: torch.Tensor,  # [1, N]
        position_ids: torch.Tensor,  # [1, N]
        *,
        use_cache: bool,
        logits_to_keep: torch.Tensor,  # [W]
        packed_step: PackedStep | FixedStep,
    ) -> ForwardResult:
        """Compute one step for `slot_attention.forward`. Only the slots hold a cache."""
        x = self.model.embed_tokens(input_ids)
        angles = position_ids[..., None].float() * self._speeds
        angles = torch.cat((angles, angles), dim=-1)
        rotation = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]  # [1, 1, N, D] each
        for layer in self.model.layers:
            x = layer(x, rotation, packed_step)
        x = self.model.norm(x)
        return ForwardResult(linear(x[:, logits_to_keep], self.model.embed_tokens.weight))

    def stock(self) -> PreTrainedModel:
        """Load the same model with `transformers`, from the same files."""
        from transformers import AutoModelForCausalLM

        from align_echo.models.local.weights import read_model, without_bars

        without_bars()
        return read_model(AutoModelForCausalLM, str(self._folder), self.dtype)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return (x * cos) + (torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin)


def read_pocket(folder: Path, dtype: torch.dtype = torch.float32) -> PocketModel:
    """Load the model in a folder, on the CPU.

    Raises `OSError`, `ValueError`, or errors of torch and safetensors for damaged files or another architecture.
    """
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rope = settings.pop("rope_parameters")
    is_plain = rope["rope_type"] == "default" and settings["tie_word_embeddings"] and not settings["attention_bias"]
    if settings["architectures"] != [ARCHITECTURE] or settings["hidden_act"] != "silu" or not is_plain:
        raise ValueError(f"its config.json is not that of the pocket model ({ARCHITECTURE})")
    sizes = {name: settings[name] for name in PocketConfig.__dataclass_fields__ if name != "rope_theta"}
    with torch.device("meta"):
        model = PocketModel(PocketConfig(**sizes, rope_theta=rope["rope_theta"]), folder)
    state = {name: weight.to(dtype) for name, weight in load_file(folder / "model.safetensors").items()}
    model.load_state_dict(state, assign=True)
    return model


class PocketTokenizer:
    """The parts of a `transformers` tokenizer needed by `ChatEncoder`, from the same files."""

    def __init__(self, folder: Path) -> None:
        """Load the files. Raises as `read_pocket`."""
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.name_or_path = str(folder)
        self.chat_template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
        try:
            self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # `tokenizers` raises nothing narrower
            raise ValueError(str(error)) from error
        self.eos_token_id = self.backend_tokenizer.token_to_id(settings["eos_token"])
