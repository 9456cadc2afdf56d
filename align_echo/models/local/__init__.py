"""Models that run locally: token ids in, token ids and log-probabilities out. Importing this package does not load
torch.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from align_echo.errors import MissingExtraError, UsageError
from align_echo.models.choosing import POCKET, ModelName

if TYPE_CHECKING:
    from align_echo.models.local.chat import LocalModel


def load_local(name: ModelName, *, base_url: str | None = None, seed: int = 0, processes: int = 0) -> LocalModel:
    """Load the local model called `name` (see `models/choosing.py`). All models of one name share one engine.

    `base_url` is the vLLM server's URL, `seed` the sampling seed. With `processes`, a transformers model runs in that
    many processes of its own; vLLM manages its own processes. Raises `MissingExtraError` without torch and
    transformers (or vLLM), `MissingDataError` without the pocket model's files, `UsageError` for unusable files,
    `ModelError` if a server does not answer.
    """
    if not name.source:
        raise UsageError(f"--model {name} names no model: say which after the colon")
    try:
        return replace(_running(name, base_url, processes), seed=seed)
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("torch", "transformers", "tokenizers", "safetensors", "peft"):
            raise
        raise MissingExtraError(f"the local model {name}", "train") from None


def _running(name: ModelName, base_url: str | None, processes: int) -> LocalModel:
    from align_echo.models.local import loading

    if name.kind == "vllm-server":
        return loading.run_server(name.source, base_url=base_url)
    if name.kind == "vllm":
        return loading.run_vllm(name.source)
    if processes and name.kind == POCKET:
        return loading.run_in_processes(str(loading.pocket_folder()), name=POCKET, processes=processes)
    if processes:
        return loading.run_in_processes(name.source, name=f"transformers:{name.source}", processes=processes)
    if name.kind == POCKET:
        return loading.run_pocket()
    return loading.run_transformers(name.source, name=f"transformers:{name.source}")


def close_local() -> None:
    """Close every engine started by `load_local`. Does nothing, and imports nothing, if there is none."""
    loading = sys.modules.get("align_echo.models.local.loading")
    if loading is not None:
        loading.close_all()
