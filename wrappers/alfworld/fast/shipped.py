"""Compiled forms of the embedded games, part of the package. They can be played without the packages that compile a
game.

They are JSON in a ZIP archive, each under a name made of the game's texts; `alfworld/build_data.py` makes the archive.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld.oracle import GameSpec

# ---------------------------------------------------------------- compiled game as plain data

Symbols = list[Any]
"""Template: text as itself; ["rule", name], ["value", expression], ["each", query, symbol], ["list", query, symbol].

`query` is a list of [signatures, placeholders]: the facts to match ("predicate type ...") and the names of their
arguments ([name, type] each); None for no query.
"""


@dataclass(frozen=True)
class ActionSchema:
    """Action with open parameters ([name, type] each), and the template of its answer."""

    name: str
    parameters: list[list[str]]
    feedback: Symbols


@dataclass(frozen=True)
class CompiledGame:
    """Compiled game.

    `variables`: [id, type, display name] of all arguments of facts and operators ("" without a name); `facts`: by
    signature, "argument,argument:bit ..." in TextWorld's order, bit -1 for an always true fact; `initial`: the initial
    state in hexadecimal; `goal`: literals; `operators`: "schema;arguments;preconditions;effects" in the library's
    order, an effect being its literal or "conditions>literal"; `commands`: the text of each operator; `watched`:
    operators by the bit that must be set before they are checked ("-1": always); `read`: the mask of the bits in
    preconditions, in hexadecimal; `told` and `denied`: by a fact's bit, the bit that is set if the text takes the fact
    for true, or for false; `axioms`: [layer, conditions, literal]; `rules`: by name, [query or None, symbols] in order.
    """

    variables: list[list[str]]
    facts: dict[str, str]
    initial: str
    goal: list[int]
    schemas: list[ActionSchema]
    operators: list[str]
    commands: list[str]
    watched: dict[str, list[int]]
    read: str
    told: dict[str, int]
    denied: dict[str, int]
    axioms: list[list[Any]]
    rules: dict[str, list[list[Any]]]

    @property
    def bytes(self) -> int:
        """Size of the large tables in memory."""
        tables = (self.operators, self.commands, self.facts.values(), self.watched.values())
        return sum(sum(map(sys.getsizeof, table)) for table in tables)


# ---------------------------------------------------------------- shipped

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
