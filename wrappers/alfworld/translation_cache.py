"""Translations kept on disk: translating takes a third of a second or more, reading one back some milliseconds.

About 50 kB a game. An entry that is missing, damaged or of another version is made again; entries may be deleted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from align_echo.interface import write_atomically
from align_echo.wrappers.alfworld.translation import Translation, translate

FORMAT = 1


def remembered(folder: Path, domain: str, problem: str) -> Translation:
    """A problem's translation, from the folder if it is there. Raises `EngineError` if the PDDL does not parse."""
    version = f"{FORMAT} {metadata.version('fast-downward-textworld')}"
    key = hashlib.sha256(f"{version}\0{domain}\0{problem}".encode()).hexdigest()[:32]
    file = folder / f"{key}.txt"
    try:
        return _decode(file.read_text(encoding="ascii"))
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        made = translate(domain, problem)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, _encode(made))
    except OSError:
        pass  # a full or read-only disk costs time at the next start, nothing else
    return made


def _encode(translation: Translation) -> str:
    record = asdict(translation) | {"fluents": sorted(translation.fluents)}
    return base64.b64encode(zlib.compress(json.dumps(record).encode(), 6)).decode("ascii")


def _decode(text: str) -> Translation:
    record: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    return Translation(
        sas=record["sas"],
        actions={name: tuple((p, t) for p, t in parameters) for name, parameters in record["actions"].items()},
        types=tuple((name, tuple(supertypes)) for name, supertypes in record["types"]),
        objects=record["objects"],
        facts=tuple((name, tuple(arguments)) for name, arguments in record["facts"]),
        fluents=frozenset(record["fluents"]),
    )
