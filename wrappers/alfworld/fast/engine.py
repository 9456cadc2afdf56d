"""Fast engine: one integer holds the state; everything else is shared between engines of the same game."""

from __future__ import annotations

import base64
import functools
import hashlib
import threading
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from align_echo.base.files import write_atomically
from align_echo.errors import EngineError
from align_echo.wrappers.alfworld import oracle
from align_echo.wrappers.alfworld.fast.program import GameProgram
from align_echo.wrappers.alfworld.fast.sas import read_sas
from align_echo.wrappers.alfworld.fast.shipped import FORMAT, CompiledGame, as_json, from_json, shipped_form
from align_echo.wrappers.alfworld.oracle import NOTHING_HAPPENS, Fact, GameSpec
from align_echo.wrappers.alfworld.translation import translate, translate_for_planning
from align_echo.wrappers.pool import memory

# ---------------------------------------------------------------- compiled games


def load_program(game: GameSpec) -> GameProgram:
    """Return a game ready to be played, cached in memory while there is room (`wrappers/pool.py`).

    Raises `EngineError` if it cannot be compiled, `MissingExtraError`.
    """
    return memory().recall(game, lambda: GameProgram(compiled_game(game)), lambda program: program.bytes)


def compiled_game(game: GameSpec) -> CompiledGame:
    """Return a compiled game: the shipped form, the cached one, or a new one. Raises as `compile_game`;
    `MissingExtraError`."""
    if (shipped := shipped_form(game)) is not None:
        return shipped
    oracle.require_packages("an ALFWorld game that does not come with align-echo")
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


# ---------------------------------------------------------------- fast engine


@dataclass(frozen=True, slots=True)
class GameState:
    """State of a game, and what can be seen in it."""

    game: GameSpec
    program: GameProgram
    bits: int

    @property
    def position(self) -> int:
        """Bits the future may depend on."""
        return self.bits & self.program.telling

    @property
    def commands(self) -> Iterable[str]:
        """Admissible commands in the library's order."""
        return self.program.menu(self.bits)

    def facts(self, predicates: Iterable[str] | None = None) -> list[Fact]:
        """Return the true facts, and those made false; restricted to `predicates` unless None."""
        return self.program.facts(self.bits, predicates)


class FastEngine:
    """Engine that plays one game at a time. Not shared between threads, but games are."""

    def __init__(self) -> None:
        self._state: GameState | None = None

    def close(self) -> None:
        """Forget the game."""
        self._state = None

    def reset(self, game: GameSpec) -> str:
        """Start a game from its initial state; return the intro. Raises `EngineError` if it cannot be compiled."""
        program = load_program(game)
        self._state = GameState(game, program, program.initial)
        return program.intro

    def step(self, command: str) -> str:
        """Carry out a command; return the answer. A command that is not admissible changes nothing."""
        sight = self.sight
        program = sight.program
        operator = program.menu(sight.bits).get(command.strip())
        if operator is None:
            return NOTHING_HAPPENS
        bits = program.apply(operator, sight.bits)
        self._state = GameState(sight.game, program, bits)
        return program.answer(operator, bits)

    def peek(self, command: str) -> str:
        """Return the answer to a command without carrying it out."""
        before = self.sight
        answer = self.step(command)
        self._state = before
        return answer

    @property
    def won(self) -> bool:
        """Return True if the goal holds."""
        return self.sight.program.won(self.sight.bits)

    @property
    def admissible(self) -> tuple[str, ...]:
        """Admissible commands, sorted."""
        return self.sight.program.commands(self.sight.bits)

    @property
    def sight(self) -> GameState:
        """Present state. Raises `EngineError` before a reset."""
        if self._state is None:
            raise EngineError("no game is loaded: call reset() first")
        return self._state

    @property
    def names(self) -> Mapping[str, str]:
        """Display name of every entity, by id."""
        return self.sight.program.names

    def restore(self, sight: GameState) -> None:
        """Return to a state, possibly another fast engine's."""
        self._state = sight


# ---------------------------------------------------------------- fast Downward's own search for a plan from a state

_LOCK = threading.Lock()
"""Guard of the library, which holds one task at a time."""


def plan(state: GameState) -> list[str] | None:
    """Search for commands from a state to the goal; None if the search fails. Takes seconds to minutes."""
    names = _plan(state.game.domain, state.game.problem, state.bits)
    if names is None:
        return None
    commands = state.program.operator_commands
    return [commands[name] for name in names]


def _plan(domain: str, problem: str, bits: int) -> list[str] | None:
    import fast_downward

    playing, planning = _translations(domain, problem)
    with _LOCK:
        library = _library()
        library.load_sas(_started_at(playing, bits).encode())
        library.load_sas_replan(planning.encode())
        if not library.replan(False):
            return None
        operators = (fast_downward.Operator * library.get_last_plan_length())()
        library.get_last_plan(operators)
        return [str(operator.name) for operator in operators]


@functools.lru_cache(8)
def _translations(domain: str, problem: str) -> tuple[str, str]:
    return translate(domain, problem).sas, translate_for_planning(domain, problem)


def _started_at(sas: str, bits: int) -> str:
    """Replace the initial state of a task; derived facts keep their defaults."""
    task = read_sas(sas)
    head, _, rest = sas.partition("begin_state\n")
    values, _, tail = rest.partition("end_state\n")
    lines = values.split()
    for variable, before in enumerate(lines):
        if variable not in task.derived and bool(bits >> variable & 1) != task.initial[variable]:
            lines[variable] = str(1 - int(before))
    return f"{head}begin_state\n" + "\n".join(lines) + f"\nend_state\n{tail}"


@functools.cache
def _library() -> Any:
    import fast_downward

    return fast_downward.load_lib()
