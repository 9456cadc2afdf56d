"""Chat models: local models, OpenAI-compatible endpoints, scripted replies, and a cache and a log for any of them."""

from __future__ import annotations

import os

from align_echo.errors import UsageError
from align_echo.models.cache import Price, ReplyCache, find_price
from align_echo.models.choosing import MODEL_FILES, ModelName, read_name
from align_echo.models.drawing import ScriptedModel
from align_echo.models.recording import Call, CallLog, RecordingModel
from align_echo.types import ChatModel


def load_model(
    name: str | ModelName, base_url: str | None = None, *, seed: int = 0, processes: int = 0
) -> ChatModel:
    """Load the chat model called `name`: a local model (see `choosing.py`), or else a model at an endpoint.

    `base_url` is for endpoints (default: `OPENAI_BASE_URL`, else OpenAI's), `seed` for sampling from local models.
    `processes` is for transformers models: the number of other processes that run the model (0: this process runs it).

    Raises `UsageError` for a base URL with a model that has no endpoint, a missing key, a path without a model, or
    unusable files of a local model; `MissingExtraError` or `MissingDataError` if a local model's packages or data are
    missing.
    """
    name = read_name(name)
    if base_url and not (name.has_endpoint or name.is_scripted):
        raise UsageError(f"--model {name} runs in this process and is asked at no endpoint: leave --base-url out")
    if name.is_local:
        from align_echo.models.local import load_local

        return load_local(name, base_url=base_url, seed=seed, processes=processes)
    if name.kind == "path":
        odd = next((file for file in MODEL_FILES if os.path.lexists(os.path.join(name.text, file))), "")
        why = f"its {odd} is no regular file" if odd else f"it has no {' and no '.join(MODEL_FILES)}"
        raise UsageError(f"{name} is not the folder of a model: {why}")
    from align_echo.models.openai_model import OpenAICompatibleModel

    return OpenAICompatibleModel(name.text, base_url=base_url)


__all__ = ["Call", "CallLog", "Price", "RecordingModel", "ReplyCache", "ScriptedModel", "find_price", "load_model"]
