"""ALFWorld's game engine: TextWorld's PDDL game on Fast Downward's library, with everything constant remembered.

Text, admissible commands and winning are those of `textworld.envs.pddl.PddlEnv` under ALFWorld's demangler, byte for
byte (a test compares them). What is remembered per game: the translation, the initial facts, every command's text.
States are restored by the library's own state number, so a snapshot costs nothing.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fast_downward
import textworld.logic
from textworld.generator.game import EntityInfo
from textworld.logic import Placeholder, Proposition, State, Variable

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld import upstream
from align_echo.wrappers.alfworld.grammar import Bindings, Grammar, Scene
from align_echo.wrappers.alfworld.translation import translate, translate_for_planning
from align_echo.wrappers.alfworld.translation_cache import remembered

NOTHING_HAPPENS = "Nothing happens."


@dataclass(frozen=True)
class Operator:
    """An action with its arguments filled in: what is typed, and what its answer is derived from."""

    command: str
    feedback: str
    bindings: Bindings


class Game:
    """What stays the same over all episodes of one game. Shared between engines and threads."""

    def __init__(self, domain: str, grammar: str, problem: str, *, cache: Path | None = None) -> None:
        """`cache` is a folder that remembers translations. Raises `EngineError` if one of the texts does not parse."""
        self._sources = (domain, problem)
        self.grammar = Grammar(grammar)
        self.translation = translate(domain, problem) if cache is None else remembered(cache, domain, problem)
        self.logic = textworld.logic.GameLogic()
        for name, supertypes in self.translation.types:
            if name not in self.logic.types._types:
                self.logic.types.add(textworld.logic.Type(name, supertypes))
        self.initial_facts = [
            Proposition(name, [self.variable(argument) for argument in arguments])
            for name, arguments in self.translation.facts
        ]
        self.entities: dict[str, EntityInfo] = {}
        self.names: dict[str, str] = {}
        self.operators: dict[str, Operator] = {}
        self.commands: dict[tuple[str, ...], str] = {}
        self.atoms: dict[bytes, tuple[Proposition, Proposition]] = {}

    @functools.cached_property
    def planning_sas(self) -> str:
        """The planner's own translation, made when a plan is first asked for."""
        return translate_for_planning(*self._sources)

    def variable(self, name: str) -> Variable:
        """A name with its type."""
        return Variable(name, self.translation.objects[name])

    def atom(self, raw: bytes) -> tuple[Proposition, Proposition]:
        """A fact as the library writes it ("Atom opened(x)"), and its negation."""
        found = self.atoms.get(raw)
        if found is None:
            kind, rest = raw.decode("cp1252").split(" ", 1)
            name, arguments = rest.split("(", 1)
            variables = [self.variable(argument) for argument in arguments[:-1].split(", ") if argument]
            fact = Proposition(f"not_{name}" if kind == "NegatedAtom" else name, variables)
            found = self.atoms[raw] = (fact, fact.negate())
        return found

    def name_entities(self, facts: State) -> None:
        """Give every entity its display name, once the engine has told all facts."""
        entities = {v.name: EntityInfo(v.name, v.type) for fact in facts.facts for v in fact.arguments}
        demangler = upstream.load("alfworld.agents.utils.misc").Demangler(game_infos=entities)
        for info in entities.values():
            info.name = demangler.demangle_alfred_name(info.id)
            info.definite, info.indefinite = "the", "a"
        self.names = {key: str(info.name) for key, info in entities.items()}
        self.entities = entities

    def operator(self, name: str, state: State) -> Operator:
        """The operator of the library's name ("gotolocation agent1 ..."), from memory where its text cannot change."""
        found = self.operators.get(name)
        if found is not None:
            return found
        action, *arguments = name.split()
        bindings = {
            Placeholder(parameter, type_): Variable(argument, type_)
            for (parameter, type_), argument in zip(self.translation.actions[action], arguments, strict=False)
        }
        template = self.grammar.actions[action]
        needs = self.grammar.needs(template.command)
        named = {placeholder.name: variable.name for placeholder, variable in bindings.items()}
        if needs is None or needs.predicates & self.translation.fluents or not needs.variables <= named.keys():
            return Operator(self._command(template.command, state, bindings), template.feedback, bindings)
        # Going to a place is one command from everywhere: the text depends on some of the arguments only.
        key = (template.command, *(named[variable] for variable in sorted(needs.variables)))
        command = self.commands.get(key)
        if command is None:
            command = self.commands[key] = self._command(template.command, state, bindings)
        made = self.operators[name] = Operator(command, template.feedback, bindings)
        return made

    def _command(self, template: str, state: State, bindings: Bindings) -> str:
        return self.grammar.derive(template, Scene(state, self.entities), bindings).format_map(self.names)


@dataclass(frozen=True)
class Snapshot:
    """A state of one engine. Good until that engine loads another game, and then restored by replaying `commands`."""

    game: Game
    loading: int
    state_id: int
    facts: Mapping[Any, frozenset[Proposition]]
    commands: tuple[str, ...]


@dataclass
class Engine:
    """Plays one game at a time. Not shared between threads; each holds its own copy of the library."""

    game: Game | None = None
    commands: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Admissible commands -> (operator id, operator name); the first operator of a command is the one carried out."""

    def __post_init__(self) -> None:
        self._borrowed: tuple[Any, weakref.finalize[Any, Any]] | None = None
        self._state: State | None = None
        self._loading = 0
        self._initial: Snapshot | None = None
        self._taken: list[str] = []
        self._planner_ready = False

    def close(self) -> None:
        """Give the library back for the next engine. A later reset borrows another."""
        if self._borrowed is not None:
            self._borrowed[1]()
        self._borrowed, self.game, self._state, self.commands = None, None, None, {}

    def reset(self, game: Game) -> str:
        """Start a game from its initial state; returns the intro with the goal."""
        if game is not self.game or self._initial is None:
            self._load(game)
        else:
            self.restore(self._initial)
        return game.grammar.derive("#intro#", self._scene(), {})

    def step(self, command: str) -> str:
        """Carry out a command; returns what happened. A command that is not admissible changes nothing."""
        command = command.strip()
        facts = self._facts
        chosen = self.commands.get(command)
        if chosen is None:
            return NOTHING_HAPPENS
        operator_id, name = chosen
        operator = self._game.operator(name, facts)
        self._apply(operator_id)
        self._taken.append(command)
        answer = self._game.grammar.derive(operator.feedback, self._scene(), operator.bindings)
        self._list_commands()
        return answer

    def peek(self, command: str) -> str:
        """What a command would answer, without doing it."""
        before = self.snapshot()
        answer = self.step(command)
        self.restore(before)
        return answer

    @property
    def won(self) -> bool:
        """The goal holds."""
        return bool(self._library.check_goal())

    @property
    def facts(self) -> State:
        """All that is true now. Read only."""
        return self._facts

    @property
    def names(self) -> Mapping[str, str]:
        """What every entity is called in text, by its id."""
        return self._game.names

    def plan(self) -> list[str] | None:
        """Commands to the goal by Fast Downward's search: from seconds to minutes in a large kitchen. None: no way."""
        with _LOCK:  # the copies of the library share its register of search methods
            if not self._planner_ready:
                self._library.load_sas_replan(self._game.planning_sas.encode())
                self._planner_ready = True
            if not self._library.replan(False):
                return None
        operators = (fast_downward.Operator * self._library.get_last_plan_length())()
        self._library.get_last_plan(operators)
        return [self._game.operator(operator.name, self._facts).command for operator in operators]

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> Snapshot:
        """The current state, cheaply."""
        facts = {signature: frozenset(found) for signature, found in self._facts._facts.items() if found}
        state_id = int(self._library.get_state_id())
        return Snapshot(self._game, self._loading, state_id, facts, tuple(self._taken))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back (or forward) to a state of any engine of this process."""
        if snapshot.loading != self._loading or snapshot.game is not self.game:
            self._load(snapshot.game)
            for command in snapshot.commands:
                self.step(command)
            return
        self._library.set_state_id(snapshot.state_id)
        self._state = _state(snapshot.game, snapshot.facts)
        self._taken = list(snapshot.commands)
        self._list_commands()

    # ------------------------------------------------------------ the library

    @property
    def _library(self) -> Any:
        if self._borrowed is None:
            library = _borrow_library()
            self._borrowed = library, weakref.finalize(self, _return_library, library)
        return self._borrowed[0]

    @property
    def _game(self) -> Game:
        if self.game is None:
            raise EngineError("no game is loaded: call reset() first")
        return self.game

    @property
    def _facts(self) -> State:
        if self._state is None:
            raise EngineError("no game is loaded: call reset() first")
        return self._state

    def _scene(self) -> Scene:
        return Scene(self._facts, self._game.entities)

    def _load(self, game: Game) -> None:
        self._library.load_sas(game.translation.sas.encode())
        self.game, self._planner_ready, self._taken = game, False, []
        self._loading = next(_LOADINGS)
        self._state = State(game.logic, game.initial_facts)
        atoms = (fast_downward.Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        for atom in atoms:
            fact, _ = game.atom(atom._name)
            if not fact.is_negation:
                self._state._facts[fact.signature].add(fact)
        if not game.entities:
            game.name_entities(self._state)
        self._list_commands()
        self._initial = self.snapshot()

    def _apply(self, operator_id: int) -> None:
        effects = (fast_downward.Atom * self._effects[operator_id])()
        self._library.apply_operator(operator_id, effects)
        for effect in effects:
            fact, negation = self._game.atom(effect._name)
            # Not `add_fact` / `remove_fact`: they also count variables, which nothing here reads.
            self._facts._facts[negation.signature].discard(negation)
            self._facts._facts[fact.signature].add(fact)

    def _list_commands(self) -> None:
        operators = (fast_downward.Operator * self._library.get_applicable_operators_count())()
        self._library.get_applicable_operators(operators)
        self._effects = {operator.id: operator.nb_effect_atoms for operator in operators}
        self.commands = {}
        for operator in operators:
            name = operator.name
            command = self._game.operator(name, self._facts).command
            self.commands.setdefault(command, (operator.id, name))


def _state(game: Game, facts: Mapping[Any, frozenset[Proposition]]) -> State:
    state = State(game.logic)
    for signature, found in facts.items():
        state._facts[signature] = set(found)
    return state


# ---------------------------------------------------------------- copies of the library

_FREE: list[Any] = []
_LOCK = threading.RLock()
_LOADINGS = iter(range(1, 1 << 62))


def _borrow_library() -> Any:
    """A copy of Fast Downward's library for one engine alone: its state is global to the copy."""
    with _LOCK:
        if _FREE:
            return _FREE.pop()
        library = fast_downward.load_lib()
    library.get_state_id.argtypes, library.get_state_id.restype = [], ctypes.c_int
    library.set_state_id.argtypes, library.set_state_id.restype = [ctypes.c_int], None
    return library


def _return_library(library: Any) -> None:
    with _LOCK:
        _FREE.append(library)
