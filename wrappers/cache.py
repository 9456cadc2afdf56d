"""Cache folder for data derived once and reused between processes: compiled games, catalogues, indexes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `$ALIGN_ECHO_CACHE`, or else align-echo's folder in the user's cache directory."""
    configured = os.environ.get("ALIGN_ECHO_CACHE")
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "align-echo"
