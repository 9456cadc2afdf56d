"""What a model's name says of where it runs. Loads nothing and needs no torch.

    pocket                    the small model that comes with the package
    transformers:PATH_OR_HUB  a model that runs in this process; the path of a model's folder alone means the same
    vllm:PATH_OR_HUB          the same on vLLM
    vllm-server:NAME          a vLLM server that is asked by token ids
    anything else             a model at an OpenAI-compatible endpoint
"""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from pathlib import Path

POCKET = "pocket"
POCKET_ENVIRONMENTS = frozenset({"alfworld", "webshop"})
"""The environments that the pocket model learned to act in."""

SERVER = "vllm-server:"
ADAPTER = "adapter_config.json"
"""What marks a folder as that of an adapter, which says itself which model it is for."""

WITHOUT_ENDPOINT = (POCKET, "novice", "novice-careful", "novice-stubborn")
"""Names of models that come with the package: what a name that no endpoint knows may have meant."""

MODEL_FILES = ("config.json", ADAPTER)
PREFIXES = ("transformers:", "vllm:", SERVER)


def is_local(name: str) -> bool:
    """Whether a model is asked by token ids, here or at a vLLM server."""
    return name == POCKET or name.startswith(PREFIXES) or any((Path(name) / file).is_file() for file in MODEL_FILES)


def is_path(name: str) -> bool:
    """Whether a name is meant as a path: it begins as one, or its first part is a folder that is there."""
    return name.startswith(("/", "./", "../", "~")) or ("/" in name and Path(name.split("/")[0]).is_dir())


def folder_of(name: str) -> Path | None:
    """The folder that a local model's name stands for, if there is one on this machine."""
    path = Path(next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name))
    return path if not name.startswith(SERVER) and path.is_dir() else None


def has_endpoint(name: str) -> bool:
    """Whether a model is asked at a base URL."""
    return name.startswith(SERVER) or not is_local(name)


def what_pocket_lacks() -> str:
    """Why the pocket model cannot run here, in a few words; empty if it can."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    there = resources.files("align_echo.models").joinpath("pocket", "config.json").is_file()
    return "" if there else "its weights are not in this installation"
