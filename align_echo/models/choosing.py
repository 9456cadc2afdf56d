"""Names of models as users write them: read once (`read_name`), then loaded (`load_model`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from align_echo.errors import MissingExtraError, UsageError
from align_echo.models.endpoint import SCRIPTED_MODELS, Endpoint, Role, endpoints_file, named_endpoints, read_endpoint
from align_echo.models.local import ADAPTER, POCKET
from align_echo.models.local.chat_template import OWN_FORMAT, ChatFormat
from align_echo.models.packages import folder_by_name, require_by_name
from align_echo.types import ChatModel

if TYPE_CHECKING:
    from align_echo.models.local.chat import LocalModel

# ---------------------------------------------------------------- parse a model's name

POCKET_ENVIRONMENTS = frozenset({"alfworld", "webshop"})
"""Environments that the pocket model was trained on."""

MODEL_FILES = ("config.json", ADAPTER)
GGUF = ".gguf"

Prefix = Literal["transformers", "vllm", "vllm-server"]
PREFIXES: tuple[Prefix, ...] = ("transformers", "vllm", "vllm-server")
"""Prefixes of names, followed by a colon."""

Kind = Literal["pocket", "scripted", "endpoint", "path"] | Prefix
"""Kind of a model; "path" is a path without a model."""


@dataclass(frozen=True)
class ModelName:
    """A model's name and its parsed parts: the kind of model and its `source`, the name without a prefix.

    `folder` is the source's folder on this machine, None if there is none and for a GGUF file. `endpoint` is where the
    model is asked, None for a script or a model in this process. `chat` is how its conversations are written and asked
    for, `dtype` the precision that it computes in ("" for the default), `max_tokens` the most of a reply, as the user's
    file or an option for its role has it.
    """

    text: str
    kind: Kind
    source: str
    folder: Path | None
    endpoint: Endpoint | None = None
    chat: ChatFormat = OWN_FORMAT
    dtype: str = ""
    max_tokens: int | None = None

    def __str__(self) -> str:
        """Return the name as the user wrote it."""
        return self.text

    @property
    def place(self) -> Path | str:
        """Return the resolved folder, the same for any spelling of its path; the source if there is no folder."""
        return self.folder.resolve() if self.folder else self.source

    @property
    def is_local(self) -> bool:
        """True if the model takes token ids: in this process or at a vLLM server."""
        return self.kind == POCKET or self.kind in PREFIXES

    @property
    def runs_on_transformers(self) -> bool:
        """True if transformers runs the model, in this process or in other processes of this machine."""
        return self.kind in (POCKET, "transformers")

    @property
    def is_scripted(self) -> bool:
        """True for a scripted novice, which is no language model and has no endpoint."""
        return self.kind == "scripted"

    @property
    def only_plays(self) -> bool:
        """True if the model can only be an agent: scripts and the pocket model write no interfaces."""
        return self.is_scripted or self.kind == POCKET

    @property
    def base_url(self) -> str | None:
        """Base URL at which the model is asked, without user and password; None for a model without an endpoint."""
        return self.endpoint.url if self.endpoint else None

    def reply_tokens(self, role: Role) -> int | None:
        """Return the most tokens of a reply in a role, as the model or its endpoint is set up; None if it is not."""
        settings = self.endpoint.settings if self.endpoint else None
        return self.max_tokens or (settings.max_tokens.get(role) if settings else None)

    @property
    def on_record(self) -> str:
        """Name of the model in a run's files."""
        return scripted_name(self.text) if self.is_scripted else self.text


def read_name(
    name: str | ModelName, base_url: str | None = None, *, served: bool = True, chat: ChatFormat = OWN_FORMAT
) -> ModelName:
    """Parse a model's name, and find its endpoint if it has one (see `read_endpoint`). A `ModelName` is returned
    unchanged, but for `chat`: how the user wants its conversations written and asked for.

    `ENDPOINT:MODEL` is a model at an endpoint of the user's file, whatever the base URL. A short name of the endpoint's
    `models` stands for its model and how it is asked; `chat` comes first. With a base URL a path names a model at the
    endpoint, as `vllm serve FOLDER` and `transformers serve FOLDER` call theirs; `transformers:FOLDER`, and any path
    unless `served`, is on this machine.

    No other code parses names or looks for the folders in them. A missing model raises nothing here; `load_model`
    reports it. Raises `UsageError` for an invalid base URL, and for options of `chat` that the model does not take.
    """
    known = name if isinstance(name, ModelName) else _parse(name, base_url, served=served)
    if chat == OWN_FORMAT:
        return known
    if known.kind not in (*PREFIXES, "endpoint"):
        raise UsageError(f"{chat.options}: {known} takes no options of its chats")
    if known.kind == "endpoint" and chat.template:
        raise UsageError(f"--chat-template is for models that take token ids, not for {known}")
    if known.kind in PREFIXES and (chat.effort or chat.body):
        instead = "--template-args sets variables of its template"
        raise UsageError(f"--reasoning-effort and --extra-body are for models at endpoints, not for {known}: {instead}")
    return replace(known, chat=chat.beside(known.chat))


def _parse(name: str, base_url: str | None, *, served: bool) -> ModelName:
    endpoint_name, _, rest = name.partition(":")
    if rest and endpoint_name not in PREFIXES and endpoint_name in named_endpoints():
        return _as_in_file(ModelName(name, "endpoint", rest, None, read_endpoint(endpoint_name)), rest)
    kind, source = _kind_and_source(name)
    named = folder_by_name(source)
    if base_url and served and (kind == "path" or (kind == "transformers" and named is None and source == name)):
        kind = "endpoint"
    folder = named or Path(source)
    has_folder = kind not in (POCKET, "vllm-server") and folder.is_dir() and not (base_url and kind == "endpoint")
    endpoint = read_endpoint(base_url) if kind in ("endpoint", "path", "vllm-server") else None
    known = ModelName(name, kind, source, folder if has_folder else None, endpoint)
    return _as_in_file(known, source) if kind == "endpoint" else known


def _as_in_file(name: ModelName, short: str) -> ModelName:
    """Return a model at an endpoint as the user's file has it under a short name, if it does."""
    settings = name.endpoint.settings if name.endpoint else None
    known = settings.models.get(short) if settings else None
    if known is None:
        return name
    args, body = (json.dumps(fields) if fields else "" for fields in (known.template_args, known.extra_body))
    try:
        chat = ChatFormat("", args, known.reasoning_effort, body)
    except UsageError as error:
        raise UsageError(f"the model {short} in {endpoints_file()}: {error}") from None
    return replace(name, source=known.model or short, chat=chat, max_tokens=known.max_tokens)


def in_precision(name: ModelName, dtype: str) -> ModelName:
    """Return the name of the same model, computed in another precision.

    Raises `UsageError` for a model that transformers does not run.
    """
    if name.kind != "transformers":
        raise UsageError(f"--dtype is for models that transformers runs, not for {name}")
    return replace(name, dtype=dtype)


def refuse_idle_base_url(base_url: str | None, models: Iterable[ModelName]) -> None:
    """Raise `UsageError` for a base URL if none of the models is asked at an endpoint."""
    names = list(models)
    if base_url and names and not any(name.endpoint for name in names):
        where = "is a script" if names[0].is_scripted else "runs in this process"
        raise UsageError(f"--model {names[0]} {where} and is asked at no endpoint: leave --base-url out")


def _kind_and_source(text: str) -> tuple[Kind, str]:
    for prefix in PREFIXES:
        if text.startswith(f"{prefix}:"):
            return prefix, text.removeprefix(f"{prefix}:")
    if text == POCKET:
        return POCKET, text
    if text in SCRIPTED_MODELS:
        return "scripted", text
    is_gguf = text.endswith(GGUF) and Path(text).is_file()
    if folder_by_name(text) or is_gguf or any((Path(text) / file).is_file() for file in MODEL_FILES):
        return "transformers", text
    begins_as_path = text.startswith(("/", "./", "../", "~"))
    is_path = begins_as_path or text.endswith(("/", GGUF)) or ("/" in text and Path(text.split("/")[0]).is_dir())
    return "path" if is_path else "endpoint", text


def find_files(name: ModelName) -> str:
    """Return the folder or hub name to load a local model from. A GGUF file is converted on first use.

    Raises `MissingDataError`, with the command that fetches it, for a packaged model that is not here, and `UsageError`
    for a GGUF file that cannot be converted.
    """
    named = require_by_name(name.source)
    if named is not None:
        return str(named)
    if not name.source.endswith(GGUF) or not Path(name.source).is_file():
        return name.source
    from align_echo.models.local.gguf_files import convert_once

    return str(convert_once(Path(name.source)))


def scripted_name(kind: str) -> str:
    """Return the name of a kind of scripted novice in records."""
    return f"{kind} (scripted, not a language model)"


def what_pocket_lacks() -> str:
    """Explain briefly why the pocket model cannot run here; empty if it can."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    has_weights = resources.files("align_echo.models").joinpath("pocket", "config.json").is_file()
    return "" if has_weights else "its weights are not in this installation"


# ---------------------------------------------------------------- load a model


def load_model(
    name: str | ModelName, base_url: str | None = None, *, seed: int = 0, processes: int = 0
) -> ChatModel:
    """Load the chat model called `name`. All local models of one name share one engine.

    `base_url` is for endpoints and vLLM servers (default: `OPENAI_BASE_URL`, else OpenAI's); a `ModelName` has its own.
    `seed` is for sampling from local models. `processes` is for transformers models: the number of other processes that
    run the model (0: this process runs it).

    Raises `UsageError` for a base URL with a model that has no endpoint, a missing key, a path without a model, a
    scripted novice, or unusable files of a local model; `MissingExtraError` or `MissingDataError` if a local model's
    packages or data are missing, and `ModelError` if a server does not answer.
    """
    name = read_name(name, base_url)
    if name.is_scripted:
        raise UsageError(
            f"{name} is a script of an environment's actions, not a language model: it plays by --model {name}, or in "
            f'Python as align_echo.agents.novice_model.NoviceModel("alfworld", "{name}")'
        )
    refuse_idle_base_url(base_url, [name])
    _refuse_empty(name)
    if name.is_local:
        return _load_local(name, seed, processes)
    from align_echo.models.openai_model import OpenAICompatibleModel

    return OpenAICompatibleModel(
        name.source, base_url=name.endpoint, fields=name.chat.fields, thinking_tokens=name.reply_tokens("judge")
    )


def _refuse_empty(name: ModelName) -> None:
    """Raise `UsageError` for a prefix without a name, and for a path without a model."""
    if not name.source:
        raise UsageError(f"--model {name} names no model: say which after the colon")
    if name.kind != "path":
        return
    if name.text.endswith(GGUF):
        raise UsageError(f"there is no file {name.text}")
    odd = next((file for file in MODEL_FILES if os.path.lexists(os.path.join(name.text, file))), "")
    why = f"its {odd} is no regular file" if odd else f"it has no {' and no '.join(MODEL_FILES)}"
    raise UsageError(f"{name} is not the folder of a model: {why}")


def memory_lines(names: Iterable[ModelName]) -> list[str]:
    """Say what each model that transformers runs takes, beside those before it, without reading its weights.

    Raises as `load_model` does for models that cannot be loaded or do not fit.
    """
    lines = []
    with ExitStack() as taken:
        for name in dict.fromkeys(names):
            _refuse_empty(name)
            if not name.runs_on_transformers:
                continue
            with _needs_train(name):
                from align_echo.models.local import loading
                from align_echo.models.local.memory import POOL

                source = str(loading.pocket_folder()) if name.kind == POCKET else find_files(name)
                need, device = loading.examine(source, dtype=name.dtype, chat=name.chat)
            lines.append(POOL.describe(str(name), need, device=device))
            taken.enter_context(POOL.reserve(need.fixed, device=device))
    return lines


@contextmanager
def _needs_train(name: ModelName) -> Iterator[None]:
    """Name the extra that a local model needs where it is missing."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("torch", "transformers", "tokenizers", "safetensors", "peft"):
            raise
        raise MissingExtraError(f"the local model {name}", "train") from None


def _load_local(name: ModelName, seed: int, processes: int) -> LocalModel:
    engine = POCKET if name.kind == POCKET else f"transformers:{name.source}"
    with _needs_train(name):
        from align_echo.models.local import loading

        if name.kind == "vllm-server":
            model = loading.run_server(name.source, base_url=name.endpoint, chat=name.chat)
        elif name.kind == "vllm":
            model = loading.run_vllm(find_files(name), chat=name.chat)
        elif processes:
            source = str(loading.pocket_folder()) if name.kind == POCKET else find_files(name)
            model = loading.run_in_processes(source, name=engine, processes=processes, chat=name.chat, dtype=name.dtype)
        elif name.kind == POCKET:
            model = loading.run_pocket()
        else:
            model = loading.run_transformers(find_files(name), name=engine, chat=name.chat, dtype=name.dtype)
    return replace(model, seed=seed)
