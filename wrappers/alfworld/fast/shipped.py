"""Compiled forms of the embedded games, part of the package. They can be played without the packages that compile a
game.

They are JSON in a ZIP archive, each under a name made of the game's texts; `build_data.py` makes the archive.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld.engine import GameSpec
from align_echo.wrappers.alfworld.fast.compiled import ActionSchema, CompiledGame

FILE = "compiled.zip"

FORMAT = 2
"""Raise this whenever the compiler's output for the same texts changes; then rebuild the archive."""

_DATE = (2020, 1, 1, 0, 0, 0)


def shipped_form(game: GameSpec) -> CompiledGame | None:
    """Return the compiled form of an embedded game, None for any other game. Raises `EngineError` for a damaged
    archive."""
    try:
        with resources.files(__package__).joinpath(FILE).open("rb") as file, zipfile.ZipFile(file) as archive:
            name = archive_name(game)
            return from_json(archive.read(name)) if name in archive.NameToInfo else None
    except (OSError, ValueError, KeyError, TypeError, EOFError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise EngineError(f"the compiled ALFWorld games are not readable ({error}): reinstall") from error


def write_archive(games: Mapping[str, CompiledGame], target: Path) -> None:
    """Write compiled games by name (`archive_name`); the same games give the same bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as archive:
        for name, compiled in sorted(games.items()):
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_LZMA
            archive.writestr(info, as_json(compiled))


def archive_name(game: GameSpec) -> str:
    """Compute a game's name in the archive from its texts."""
    return hashlib.sha256("\0".join((str(FORMAT), game.domain, game.grammar, game.problem)).encode()).hexdigest()[:20]


def as_json(compiled: CompiledGame) -> str:
    """Serialize a compiled game as one line of JSON."""
    return json.dumps(asdict(compiled), separators=(",", ":"))


def from_json(text: str | bytes) -> CompiledGame:
    """Parse the output of `as_json`. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    record = json.loads(text)
    return CompiledGame(**{**record, "schemas": [ActionSchema(**schema) for schema in record["schemas"]]})
