"""Write files atomically, and clear folders.

Not here: JSON (`reading.py`), lines of records (`jsonl.py`), and run folders (`runs.py`).
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from align_echo.redaction import without_secrets

_BESIDE = re.compile(r"\..+\.[0-9a-f]{16}")
"""Name of an unfinished file of `write_atomically`."""


def write_atomically(path: Path, text: str | Iterable[str]) -> Path:
    """Write a text, or lines one after another, so that readers see either the old content or the new one, never a
    part.

    Keys and passwords are removed, and invalid Unicode (from a name that is not UTF-8) becomes question marks.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        # Not `tempfile`: only the owner could read its files.
        with temporary.open("x", encoding="utf-8", errors="replace", newline="") as stream:
            stream.writelines(map(without_secrets, [text] if isinstance(text, str) else text))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def entries(path: Path) -> list[Path]:
    """List a folder, without unfinished files of a killed process."""
    return [entry for entry in path.iterdir() if not _BESIDE.fullmatch(entry.name)]


def drop_half_written(path: Path) -> None:
    """Remove unfinished files of a killed process anywhere in a folder."""
    for file in path.rglob(".*"):
        if _BESIDE.fullmatch(file.name) and file.is_file():
            file.unlink()


def clear(path: Path, names: Collection[str]) -> None:
    """Remove the files and folders of these names from a folder."""
    for name in names:
        entry = path / name
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
