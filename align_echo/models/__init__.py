"""Chat models: local models, OpenAI-compatible endpoints, scripted replies, and a cache and a log for any of them."""

from align_echo.models.cache import ReplyCache
from align_echo.models.choosing import load_model
from align_echo.models.drawing import ScriptedModel
from align_echo.models.prices import Price, find_price
from align_echo.models.recording import Call, CallLog, RecordingModel

__all__ = ["Call", "CallLog", "Price", "RecordingModel", "ReplyCache", "ScriptedModel", "find_price", "load_model"]
