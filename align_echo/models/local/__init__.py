"""Models that run locally: token ids in, token ids and log-probabilities out. Importing this package does not load
torch.
"""

from __future__ import annotations

import sys
from typing import Final

POCKET: Final = "pocket"
"""Name of the pocket model, and of its folder."""

ADAPTER = "adapter_config.json"
"""File that marks the folder of an adapter and names its base model."""

CONVERSATIONS: Final = 64
"""Conversations that an engine in this process holds at once. With more of them, each would be read again every turn.
"""


def close_local() -> None:
    """Close every engine of a local model. Does nothing, and imports nothing, if there is none."""
    loading = sys.modules.get("align_echo.models.local.loading")
    if loading is not None:
        loading.close_all()
