"""Where a chat model is asked and with which key: from the argument, the environment or the default.

Leaves out asking it.
"""

from __future__ import annotations

import os
from typing import Protocol, runtime_checkable

from align_echo.types import ChatModel

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLES = ("ALIGN_ECHO_API_KEY", "OPENAI_API_KEY")
NO_KEY = "no-key-needed"
"""What is sent to an endpoint when there is no key: only some ask for one."""


@runtime_checkable
class Hosted(Protocol):
    """A model that is asked at a base URL; "" where it is not known."""

    @property
    def base_url(self) -> str: ...


def resolve_base_url(given: str | None) -> str:
    """The base URL that a model is asked at: the given one, else `$OPENAI_BASE_URL`, else OpenAI's own."""
    return (given or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL).rstrip("/")


def resolve_key(given: str | None) -> str | None:
    """The key to send: the given one, else that of the first of `KEY_VARIABLES` that is set; None without one."""
    return given or next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), None)


def base_url_of(model: ChatModel) -> str:
    """Where a model is asked; "" for one that is not behind an endpoint."""
    return model.base_url if isinstance(model, Hosted) else ""
