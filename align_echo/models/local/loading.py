"""Load and run a model by name: files, tokenizer, engine. A process has one engine per model and settings.

Not here: the meaning of names on the command line (`models/names.py`), and starting vLLM servers.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from align_echo.errors import MissingDataError, UsageError, first_line
from align_echo.models.endpoint import resolve_base_url
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine_process import EngineSettings, ProcessEngine
from align_echo.models.local.fleet import EngineGroup
from align_echo.models.local.model_files import check_file_sizes, check_model_files
from align_echo.models.local.tokenizer_files import check_tokenizer
from align_echo.models.local.transformers_engine import SLOTS, TransformersEngine
from align_echo.models.local.weights import read_strange_model, without_bars
from align_echo.models.names import POCKET
from align_echo.reading import parse_json
from align_echo.regular_files import open_file

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("float32", "bfloat16", "float16")
_HASHED = ("*.json", "*.jinja", "*.safetensors")
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
    source: str, *, name: str, device: str = "", dtype: str = "", slots: int = SLOTS, context: int = 0
) -> LocalModel:
    """Run a model from a folder or the hub in this process; reuse a running model with the same settings.

    `device` is a torch device (default: a GPU if there is one). `dtype` is one of `DTYPES` (default: float32 on a CPU,
    the files' dtype on a GPU). Raises `UsageError` or `MissingDataError` for unusable files.
    """
    import torch
    from transformers import AutoModelForCausalLM

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    kind = dtype or ("float32" if device == "cpu" else "auto")
    if kind not in (*DTYPES, "auto"):
        raise UsageError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
    weights = content_hash(Path(source)) if Path(source).is_dir() else ""

    def start() -> LocalModel:
        without_bars()
        model = read_checked_files(source, lambda: read_strange_model(AutoModelForCausalLM, source, kind))
        encoder = load_encoder(source)
        engine = TransformersEngine(model.to(device), name=name, decode=encoder.text, slots=slots, context=context)
        commit = str(getattr(model.config, "_commit_hash", None) or "")
        return LocalModel(engine, encoder, weights=weights or commit)

    return _shared((name, source, weights, device, kind, slots, context), start)


def run_pocket() -> LocalModel:
    """Run the pocket model in this process; on a CPU without importing `transformers`, which would take longer than
    playing.

    Raises `MissingDataError` if its files are missing, `UsageError` if they are unusable.
    """
    import torch

    folder = pocket_folder()
    if torch.cuda.is_available():
        return run_transformers(str(folder), name=POCKET)
    from align_echo.models.local.pocket_model import PocketTokenizer, read_pocket

    weights = content_hash(folder)

    def start() -> LocalModel:
        model = read_checked_files(str(folder), lambda: read_pocket(folder))
        settings = read_checked_files(str(folder), lambda: parse_json((folder / "generation_config.json").read_text()))
        tokenizer = cast("PreTrainedTokenizerBase", read_checked_files(str(folder), lambda: PocketTokenizer(folder)))
        encoder = ChatEncoder(tokenizer, stop_ids=[settings["eos_token_id"]])
        computed = cast("PreTrainedModel", model)  # it has all that an engine needs
        engine = TransformersEngine(computed, name=POCKET, decode=encoder.text, stock=model.stock)
        return LocalModel(engine, encoder, weights=weights)

    return _shared((POCKET, weights), start)


def run_in_processes(source: str, *, name: str, processes: int) -> LocalModel:
    """Run a model as `run_transformers` does, in `processes` processes with one torch thread each.

    Raises as `run_transformers`, and `ModelError` if a process cannot start.
    """
    weights = content_hash(Path(source)) if Path(source).is_dir() else ""

    def start() -> LocalModel:
        encoder = load_encoder(source)
        engines = {f"process {n}": ProcessEngine(EngineSettings(source, name)) for n in range(1, processes + 1)}
        try:
            fleet = EngineGroup(list(engines), lambda address: engines[address].wait_until_ready())
        except BaseException:
            for engine in engines.values():
                engine.close()
            raise
        return LocalModel(fleet, encoder, weights=next(iter(engines.values())).weights)

    return _shared(("processes", name, source, weights, processes), start)


def run_server(model: str, *, base_url: str | None = None) -> LocalModel:
    """Use the model on a vLLM server. Its tokenizer is read from the path or hub name reported by the server."""
    from align_echo.models.local.vllm_server import VllmServer

    def start() -> LocalModel:
        server = VllmServer(model, base_url=base_url)
        return LocalModel(server, load_encoder(server.root))

    return _shared(("server", model, resolve_base_url(base_url)), start)


def run_vllm(source: str) -> LocalModel:
    """Run the model of a folder or hub name on vLLM in this process."""
    from align_echo.models.local.vllm_engine import VllmEngine

    weights = content_hash(Path(source)) if Path(source).is_dir() else ""

    def start() -> LocalModel:
        return LocalModel(VllmEngine(source), load_encoder(source), weights=weights)

    return _shared(("vllm", source, weights), start)


def load_encoder(source: str) -> ChatEncoder:
    """Build the encoder for a folder's or hub name's tokenizer, with the end tokens of its generation settings."""
    if Path(source).is_dir() and not any((Path(source) / name).is_file() for name in _TOKENIZERS):
        advice = _model_within(source) or "save it there too (tokenizer.json)"
        raise MissingDataError(f"{source} holds no tokenizer: {advice}")
    tokenizer = load_tokenizer(source)
    return ChatEncoder(tokenizer, stop_ids=_end_tokens(source))


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
