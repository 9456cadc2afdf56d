"""Chat models: OpenAI-compatible endpoints, scripted replies, a cache and a log around either."""

from __future__ import annotations

from align_echo.models.cache import ReplyCache
from align_echo.models.prices import Price, price_of
from align_echo.models.recording import Call, RecordingModel
from align_echo.models.scripted import ScriptedModel
from align_echo.types import ChatModel


def load_model(name: str, base_url: str | None = None) -> ChatModel:
    """The chat model called `name` at `base_url` (default: `OPENAI_BASE_URL`, else OpenAI's own endpoint).

    Raises `UsageError` when the endpoint needs a key and none is set.
    """
    from align_echo.models.openai_model import OpenAICompatibleModel

    return OpenAICompatibleModel(name, base_url=base_url)


__all__ = ["Call", "Price", "RecordingModel", "ReplyCache", "ScriptedModel", "load_model", "price_of"]
