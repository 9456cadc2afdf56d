"""ALFWorld's text grammar, parsed once: the same text as TextWorld's own derivation without parsing at every step.

TextWorld (`textworld.envs.pddl.textgen`) parses each template and condition again whenever it derives a text, and
copies the whole context for each symbol. Here both are parsed once by TextWorld's own parsers and kept. Expressions
inside braces (`o.indefinite + ' ' + o.name`) may hold names, attributes, text, `+` and `or` only: game files are data.
"""

from __future__ import annotations

import ast
import functools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textworld.envs.pddl import textgen
from textworld.envs.pddl.logic import GameLogic
from textworld.logic import Placeholder, Rule, State, Variable

from align_echo.errors import EngineError

GOAL = re.compile(r"Your task is to: ([^\"\\]*?)\.?\"")
_PLACEHOLDER = "UNKNOWN GOAL"

PARSING = threading.Lock()
"""TextWorld's parsers are one object each for the whole process, and keep their place in the text in it."""

Bindings = Mapping[Placeholder, Variable]


@dataclass(frozen=True)
class Template:
    """What an action is called and what it answers: `feedback` is derived after it was carried out."""

    command: str
    feedback: str


@dataclass(frozen=True)
class Needs:
    """The predicates and the variables that a template's text depends on."""

    predicates: frozenset[str]
    variables: frozenset[str]


@dataclass(frozen=True)
class Scene:
    """What a text is derived from: the facts and what each variable is called."""

    state: State
    entities: Mapping[str, Any]


class Grammar:
    """The texts of one game. `actions` maps the lower-case name of an action to its templates."""

    def __init__(self, source: str) -> None:
        """Read a TWL2 grammar. Raises `EngineError` if TextWorld's parser refuses it."""
        found = GOAL.findall(source)
        # All of ALFWorld's games share one grammar but for the goal sentence: parse the shared part once.
        if len(found) == 1:
            shared = _parse(GOAL.sub(f'Your task is to: {_PLACEHOLDER}."', source))
            sentence = f"Your task is to: {found[0]}."
            self._rules = {**shared.rules, "task": (_Rule("", (textgen.TerminalSymbol(sentence),)),)}
        else:
            shared = _parse(source)
            self._rules = shared.rules
        self.actions = shared.actions

    @property
    def rules(self) -> Mapping[str, Sequence[_Rule]]:
        """Rules by name, in the order in which they are tried."""
        return self._rules

    def derive(self, text: str, scene: Scene, bindings: Bindings) -> str:
        """Spell a template out."""
        return "".join(self._spell(symbols_of(text), scene, bindings))

    def needs(self, text: str) -> Needs | None:
        """What the text of a template depends on; None if it is spelled by further rules, which may need anything."""
        return _needs(text)

    def _spell(self, symbols: Sequence[Any], scene: Scene, bindings: Bindings) -> Iterator[str]:
        for symbol in symbols:
            if isinstance(symbol, textgen.TerminalSymbol):
                yield str(symbol.symbol)
            elif isinstance(symbol, textgen.NonterminalSymbol):
                yield from self._spell(self._choose(symbol.symbol, scene, bindings), scene, bindings)
            elif isinstance(symbol, textgen.EvalSymbol):
                yield str(_value(_expression(symbol.expression), _named(scene, bindings)))
            elif isinstance(symbol, textgen.ConditionalSymbol):
                yield from self._each(symbol, scene, bindings)
            else:
                yield from self._listed(symbol.symbol, scene, bindings)

    def _each(self, symbol: Any, scene: Scene, bindings: Bindings) -> Iterator[str]:
        if not symbol.given:
            yield from self._spell((symbol.expression,), scene, bindings)
            return
        for found in list(scene.state.all_assignments(query_of(symbol.given), bindings)):
            yield "".join(self._spell((symbol.expression,), scene, {**bindings, **found}))

    def _listed(self, symbol: Any, scene: Scene, bindings: Bindings) -> Iterator[str]:
        items = list(self._each(symbol, scene, bindings))
        if not items:
            yield from self._spell(self._choose("list_empty", scene, bindings), scene, bindings)
        for position, item in enumerate(items):
            if position:
                last = position == len(items) - 1
                separator = "list_last_separator" if last else "list_separator"
                yield from self._spell(self._choose(separator, scene, bindings), scene, bindings)
            yield item

    def _choose(self, name: str, scene: Scene, bindings: Bindings) -> Sequence[Any]:
        """The first rule of a name whose condition holds."""
        for rule in self._rules.get(name, ()):
            if not rule.condition or _holds(rule.condition, scene, bindings):
                return rule.symbols
        raise EngineError(f"the game's grammar has no rule for #{name}#")


@dataclass(frozen=True)
class _Rule:
    condition: str
    symbols: tuple[Any, ...]


@dataclass(frozen=True)
class _Parsed:
    actions: dict[str, Template]
    rules: dict[str, tuple[_Rule, ...]]


@functools.lru_cache(maxsize=16)
def _parse(source: str) -> _Parsed:
    try:
        with PARSING:
            logic = GameLogic(domain="", grammar=source)
    except Exception as error:  # TatSu and json raise many kinds
        raise EngineError(f"the game's grammar does not parse: {error}".splitlines()[0]) from error
    actions = {name: Template(a.template, a.feedback_rule) for name, a in logic.actions.items()}
    rules = {
        name: tuple(_Rule(rule.condition, tuple(rule.rhs)) for rule in rules)
        for name, rules in logic.grammar._rules.items()
    }
    return _Parsed(actions, rules)


@functools.lru_cache(maxsize=4096)
def symbols_of(text: str) -> tuple[Any, ...]:
    """A template, parsed by TextWorld."""
    with PARSING:
        return tuple(textgen._parse_and_convert(text, rule_name="symbols"))


@functools.lru_cache(maxsize=4096)
def query_of(text: str) -> Rule:
    """A conjunctive query, parsed by TextWorld."""
    with PARSING:
        return Rule.parse_conjunctive_query(text)


@functools.lru_cache(maxsize=4096)
def _needs(text: str) -> Needs | None:
    predicates: set[str] = set()
    variables: set[str] = set()
    for symbol in symbols_of(text):
        inner = symbol.symbol if isinstance(symbol, textgen.ListSymbol) else symbol
        if isinstance(inner, textgen.ConditionalSymbol):
            for asked in query_of(inner.given).preconditions if inner.given else ():
                predicates.add(asked.name)
                variables |= {placeholder.name for placeholder in asked.parameters}
            inner = inner.expression
        if isinstance(inner, textgen.NonterminalSymbol):
            return None
        if isinstance(inner, textgen.EvalSymbol):
            names = ast.walk(_expression(inner.expression))
            variables |= {name.id for name in names if isinstance(name, ast.Name)}
    return Needs(frozenset(predicates), frozenset(variables))


def _holds(condition: str, scene: Scene, bindings: Bindings) -> bool:
    return next(iter(scene.state.all_assignments(query_of(condition), bindings)), None) is not None


def _named(scene: Scene, bindings: Bindings) -> dict[str, Any]:
    return {placeholder.name: scene.entities[variable.name] for placeholder, variable in bindings.items()}


@functools.lru_cache(maxsize=4096)
def _expression(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise EngineError(f"the game's grammar holds an expression that does not parse: {text!r}") from error


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Attribute(value=inner, attr=attribute) if not attribute.startswith("_"):
            return getattr(_value(inner, names), attribute)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, names) + _value(right, names)
        case ast.BoolOp(op=ast.Or(), values=values):
            return next((found for value in values if (found := _value(value, names))), None)
    raise EngineError(f"the game's grammar holds an expression that is not read: {ast.unparse(node)}")
