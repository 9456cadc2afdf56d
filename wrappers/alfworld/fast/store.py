"""Compiled games: the shipped ones, and a disk cache of all others.

Compiling takes some tenths of a second and the extra `alfworld`; reading takes milliseconds. A file is named after its
source texts and begins with a checksum. Files are written to a temporary name and then renamed, so any number of
processes may share a folder. A missing or damaged file is rebuilt.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from importlib import metadata

from align_echo.files import write_atomically
from align_echo.wrappers.alfworld import upstream
from align_echo.wrappers.alfworld.engine import GameSpec
from align_echo.wrappers.alfworld.fast.compiled import CompiledGame
from align_echo.wrappers.alfworld.fast.program import GameProgram
from align_echo.wrappers.alfworld.fast.shipped import FORMAT, as_json, from_json, shipped_form
from align_echo.wrappers.memory import memory


def load_program(game: GameSpec) -> GameProgram:
    """Return a game ready to be played, cached in memory while there is room (`memory.py`).

    Raises `EngineError` if it cannot be compiled, `MissingExtraError`.
    """
    return memory().recall(game, lambda: GameProgram(compiled_game(game)), lambda program: program.bytes)


def compiled_game(game: GameSpec) -> CompiledGame:
    """Return a compiled game: the shipped form, the cached one, or a new one. Raises as `compile_game`;
    `MissingExtraError`."""
    if (shipped := shipped_form(game)) is not None:
        return shipped
    upstream.require_packages("an ALFWorld game that does not come with align-echo")
    if game.cache is None:
        return _compile(game)
    file = game.cache / f"{_key(game)}.game"
    try:
        return _decode(file.read_text(encoding="ascii"))
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        compiled = _compile(game)
    try:
        game.cache.mkdir(parents=True, exist_ok=True)
        write_atomically(file, _encode(compiled))
    except OSError:
        pass  # a full or read-only disk costs time at the next start, nothing else
    return compiled


def _compile(game: GameSpec) -> CompiledGame:
    from align_echo.wrappers.alfworld.fast.compiler import compile_game  # TextWorld takes a second to import

    return compile_game(game.domain, game.grammar, game.problem)


def _key(game: GameSpec) -> str:
    versions = [metadata.version(name) for name in ("fast-downward-textworld", "textworld", "alfworld")]
    parts = [str(FORMAT), *versions, game.domain, game.grammar, game.problem]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _encode(compiled: CompiledGame) -> str:
    body = base64.b64encode(zlib.compress(as_json(compiled).encode(), 6)).decode("ascii")
    return f"{_checksum(body)}\n{body}"


def _decode(text: str) -> CompiledGame:
    checksum, _, body = text.partition("\n")
    if checksum != _checksum(body):
        raise ValueError("a damaged file")
    return from_json(zlib.decompress(base64.b64decode(body)))


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
