"""Where what was made from data is kept between processes: compiled games, catalogues, indexes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$ALIGN_ECHO_CACHE`, else align-echo's folder in the user's cache directory."""
    given = os.environ.get("ALIGN_ECHO_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "align-echo"
