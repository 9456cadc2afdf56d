"""Chat models: local ones, OpenAI-compatible endpoints, scripted replies, a cache and a log around any."""

from __future__ import annotations

import os

from align_echo.errors import UsageError
from align_echo.models.cache import ReplyCache
from align_echo.models.call_log import Call, CallLog
from align_echo.models.names import MODEL_FILES, ModelName, read_name
from align_echo.models.prices import Price, price_of
from align_echo.models.recording import RecordingModel
from align_echo.models.scripted import ScriptedModel
from align_echo.types import ChatModel


def load_model(
    name: str | ModelName, base_url: str | None = None, *, seed: int = 0, processes: int = 0
) -> ChatModel:
    """The chat model called `name`: a local one (`models/names.py` says which), else one at an endpoint.

    `base_url` is for endpoints (default: `OPENAI_BASE_URL`, else OpenAI's own), `seed` for the draws of local models,
    `processes` for those that transformers runs: so many processes compute one, none of them this (0: this one does).
    Raises `UsageError` for a base URL where there is none, when the endpoint needs a key and none is set, for a path
    that holds no model, or when a local model's files cannot be used; `MissingExtraError`, `MissingDataError` for what
    a local model lacks.
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


__all__ = ["Call", "CallLog", "Price", "RecordingModel", "ReplyCache", "ScriptedModel", "load_model", "price_of"]
