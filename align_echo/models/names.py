"""Parse a model's name (`read_name`): what kind of model it is and where it runs. Loads nothing and needs no torch.

    pocket                    the small model in the package
    transformers:PATH_OR_HUB  a model run in this process; the path of a model's folder alone means the same
    vllm:PATH_OR_HUB          the same on vLLM
    vllm-server:NAME          a vLLM server that receives token ids
    novice, novice-*          a scripted novice, which is no language model and only plays
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
"""Environments that the pocket model was trained on."""

SCRIPTED_MODELS = ("novice", "novice-careful", "novice-stubborn")
"""Names of the scripted novices, usable wherever a chat model is named."""

WITHOUT_ENDPOINT = (POCKET, *SCRIPTED_MODELS)
"""Names of models in the package, suggested for a name that an endpoint does not know."""

ADAPTER = "adapter_config.json"
"""File that marks the folder of an adapter and names its base model."""

MODEL_FILES = ("config.json", ADAPTER)

Prefix = Literal["transformers", "vllm", "vllm-server"]
PREFIXES: tuple[Prefix, ...] = ("transformers", "vllm", "vllm-server")
"""Prefixes of names, followed by a colon."""

Kind = Literal["pocket", "scripted", "endpoint", "path"] | Prefix
"""Kind of a model; "path" is a path without a model."""


@dataclass(frozen=True)
class ModelName:
    """A model's name and its parsed parts: the kind of model and its `source`, the name without a prefix.

    `folder` is the source's folder on this machine, None if there is none.
    """

    text: str
    kind: Kind
    source: str
    folder: Path | None

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
    def has_endpoint(self) -> bool:
        """True if the model is reached at a base URL."""
        return self.kind in ("endpoint", "path", "vllm-server")

    @property
    def on_record(self) -> str:
        """Name of the model in a run's files."""
        return scripted_name(self.text) if self.is_scripted else self.text

    def endpoint(self, base_url: str | None) -> str | None:
        """Return the model's base URL; None for a script or a model in this process. Raises as `resolve_base_url`."""
        return resolve_base_url(base_url) if self.has_endpoint else None


def read_name(name: str | ModelName) -> ModelName:
    """Parse a model's name. A `ModelName` is returned unchanged.

    No other code parses names or looks for the folders in them. A missing model raises nothing here; `load_model`
    reports it.
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
    """Return the name of a kind of scripted novice in records."""
    return f"{kind} (scripted, not a language model)"


def what_pocket_lacks() -> str:
    """Explain briefly why the pocket model cannot run here; empty if it can."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    has_weights = resources.files("align_echo.models").joinpath("pocket", "config.json").is_file()
    return "" if has_weights else "its weights are not in this installation"
