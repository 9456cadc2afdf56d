"""What a model's name says of where it runs, read once by `read_name`. Loads nothing and needs no torch.

    pocket                    the small model that comes with the package
    transformers:PATH_OR_HUB  a model that runs in this process; the path of a model's folder alone means the same
    vllm:PATH_OR_HUB          the same on vLLM
    vllm-server:NAME          a vLLM server that is asked by token ids
    novice and its kin        a scripted novice, which is no language model and only plays
    anything else             a model at an OpenAI-compatible endpoint
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from align_echo.models.endpoint import resolve_base_url

POCKET: Final = "pocket"
POCKET_ENVIRONMENTS = frozenset({"alfworld", "webshop"})
"""The environments that the pocket model learned to act in."""

SCRIPTED_MODELS = ("novice", "novice-careful", "novice-stubborn")
"""The names that stand for a scripted novice wherever a chat model is named."""

WITHOUT_ENDPOINT = (POCKET, *SCRIPTED_MODELS)
"""Names of models that come with the package: what a name that no endpoint knows may have meant."""

ADAPTER = "adapter_config.json"
"""What marks a folder as that of an adapter, which says itself which model it is for."""

MODEL_FILES = ("config.json", ADAPTER)

Prefix = Literal["transformers", "vllm", "vllm-server"]
PREFIXES: tuple[Prefix, ...] = ("transformers", "vllm", "vllm-server")
"""Each stands before a colon."""

Kind = Literal["pocket", "scripted", "endpoint", "path"] | Prefix
"""What a model is asked by; "path" is a path that holds no model."""


@dataclass(frozen=True)
class ModelName:
    """A model's name as it was given, and what it says: the kind of model, and its `source`, the name without a prefix.
    `folder` is the source's folder on this machine, None if there is none.
    """

    text: str
    kind: Kind
    source: str
    folder: Path | None

    def __str__(self) -> str:
        """The name as it was given."""
        return self.text

    @property
    def place(self) -> Path | str:
        """Where the model is, the same however its folder was written; the source of one without a folder."""
        return self.folder.resolve() if self.folder else self.source

    @property
    def is_local(self) -> bool:
        """Whether the model is asked by token ids, here or at a vLLM server."""
        return self.kind == POCKET or self.kind in PREFIXES

    @property
    def runs_on_transformers(self) -> bool:
        """Whether the model is computed by transformers, in this process or in others of this machine."""
        return self.kind in (POCKET, "transformers")

    @property
    def is_scripted(self) -> bool:
        """Whether the name stands for a scripted novice, which is no language model and has no endpoint."""
        return self.kind == "scripted"

    @property
    def only_plays(self) -> bool:
        """Whether the model can be an agent and nothing else: a script and the pocket model write no interfaces."""
        return self.is_scripted or self.kind == POCKET

    @property
    def has_endpoint(self) -> bool:
        """Whether the model is asked at a base URL."""
        return self.kind in ("endpoint", "path", "vllm-server")

    @property
    def on_record(self) -> str:
        """How a run's files name the model."""
        return scripted_name(self.text) if self.is_scripted else self.text

    def endpoint(self, base_url: str | None) -> str | None:
        """Where the model is asked; None for a script or a model in this process. Raises as `resolve_base_url`."""
        return resolve_base_url(base_url) if self.has_endpoint else None


def read_name(name: str | ModelName) -> ModelName:
    """What a model's name says. A name that was read before comes back as it is.

    Nothing else parses names or looks for the folders that they name. Nothing is raised for a model that is not there:
    `load_model` tells.
    """
    if isinstance(name, ModelName):
        return name
    kind, source = _kind_and_source(name)
    has_folder = kind not in (POCKET, "vllm-server") and Path(source).is_dir()
    return ModelName(name, kind, source, Path(source) if has_folder else None)


def _kind_and_source(text: str) -> tuple[Kind, str]:
    for prefix in PREFIXES:
        if text.startswith(f"{prefix}:"):
            return prefix, text.removeprefix(f"{prefix}:")
    if text == POCKET:
        return POCKET, text
    if text in SCRIPTED_MODELS:
        return "scripted", text
    if any((Path(text) / file).is_file() for file in MODEL_FILES):
        return "transformers", text
    begins_as_path = text.startswith(("/", "./", "../", "~"))
    is_path = begins_as_path or ("/" in text and Path(text.split("/")[0]).is_dir())
    return "path" if is_path else "endpoint", text


def scripted_name(kind: str) -> str:
    """How records name the scripted novice of a kind."""
    return f"{kind} (scripted, not a language model)"


def what_pocket_lacks() -> str:
    """Why the pocket model cannot run here, in a few words; empty if it can."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    there = resources.files("align_echo.models").joinpath("pocket", "config.json").is_file()
    return "" if there else "its weights are not in this installation"
