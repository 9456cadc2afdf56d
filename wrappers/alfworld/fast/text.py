"""Render the templates of a compiled grammar on a state, and report the bits the text depended on.

Templates become closures once per game. A closure takes the state, the bound variables and a one-element list. Into the
list it collects the mask of the bits it read: the same bits give the same text.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from align_echo.errors import EngineError
from align_echo.interface.contract import parse_source

Bound = tuple[tuple[str, str], ...]
"""Placeholders (name, type) in the order in which they were bound."""

Values = tuple[int, ...]
"""Variables bound to the placeholders, by number."""

Spell = Callable[[int, Values, list[int]], str]
Each = Callable[[int, Values, list[int]], Iterator[str]]
Find = Callable[[int, Values, list[int]], Iterator[Values]]


Shape = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]
"""Signatures; for each argument the first one that must be equal; and the positions of known arguments."""


@dataclass(frozen=True)
class TextEntity:
    """Attributes of a variable for expressions in templates. TextWorld's other attributes are never set here."""

    id: str
    type: str
    name: str
    definite: str = "the"
    indefinite: str = "a"
    adj: None = None
    noun: None = None
    desc: None = None
    room_type: None = None
    synonyms: None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class MatchingFacts:
    """Facts that agree with the bound variables: (bit as a number, new variables) of each.

    `mask` holds their bits; `constant` says that some are always true.
    """

    mask: int
    constant: bool
    facts: tuple[tuple[int, Values], ...]


_OPEN: ContextVar[tuple[str, ...]] = ContextVar("rules this thread is compiling, the outermost first", default=())


class TemplateCompiler:
    """Templates of one game over its facts. Threads may compile at the same time; they get the same result."""

    def __init__(
        self,
        rules: Mapping[str, Sequence[Sequence[Any]]],
        entities: Sequence[TextEntity],
        facts: Callable[[str], Sequence[tuple[Values, int]]],
    ) -> None:
        """Start with a game's rules. `facts` gives a signature's facts in order: (variables, bit), bit -1 for always
        true."""
        self._rules = rules
        self._entities = entities
        self._facts = facts
        self._chosen: dict[tuple[str, Bound], Spell] = {}
        self._indices: dict[Shape, Callable[[], dict[Values, MatchingFacts]]] = {}

    def template(self, symbols: Sequence[Any], bound: Bound) -> Spell:
        """Compile a template. Raises `EngineError` naming the unsupported part."""
        return _joined([self._symbol(symbol, bound) for symbol in symbols])

    def _symbol(self, symbol: Any, bound: Bound) -> Spell:
        if isinstance(symbol, str):
            return _constant(symbol)
        match symbol:
            case ["rule", str(name)]:
                return self._rule(name, bound)
            case ["value", str(expression)]:
                return self._value(expression, bound)
            case ["each", query, inner]:
                each = self._each(query, inner, bound)
                return lambda state, values, seen: "".join(each(state, values, seen))
            case ["list", query, inner]:
                return self._list(self._each(query, inner, bound), bound)
        raise EngineError(f"the game's grammar holds a symbol that is not understood: {symbol!r}")

    def _rule(self, name: str, bound: Bound) -> Spell:
        """Compile the rules of a name; the first with a true condition is used."""
        chosen = self._chosen.get((name, bound))
        if chosen is not None:
            return chosen
        if name in _OPEN.get():
            raise EngineError(f"the game's grammar calls #{name}# from itself")
        if name not in self._rules:
            raise EngineError(f"the game's grammar has no rule #{name}#")
        outer = _OPEN.set((*_OPEN.get(), name))
        try:
            choices = [
                (None if query is None else self._query(query, bound)[0], self.template(symbols, bound))
                for query, symbols in self._rules[name]
            ]
        finally:
            _OPEN.reset(outer)

        def spell(state: int, values: Values, seen: list[int]) -> str:
            for condition, text in choices:
                if condition is None or next(condition(state, values, seen), None) is not None:
                    return text(state, values, seen)
            raise EngineError(f"the game's grammar has no rule #{name}# for this state")

        self._chosen[name, bound] = spell
        return spell

    def _list(self, each: Each, bound: Bound) -> Spell:
        empty, separator, last = (
            self._rule(name, bound) for name in ("list_empty", "list_separator", "list_last_separator")
        )

        def spell(state: int, values: Values, seen: list[int]) -> str:
            items = list(each(state, values, seen))
            if not items:
                return empty(state, values, seen)
            if len(items) == 1:
                return items[0]
            first = separator(state, values, seen).join(items[:-1])
            return first + last(state, values, seen) + items[-1]

        return spell

    def _each(self, query: Any, inner: Any, bound: Bound) -> Each:
        if query is None:
            alone = self._symbol(inner, bound)
            return lambda state, values, seen: iter((alone(state, values, seen),))
        find, wider = self._query(query, bound)
        spell = self._symbol(inner, wider)

        def each(state: int, values: Values, seen: list[int]) -> Iterator[str]:
            for match in find(state, values, seen):
                yield spell(state, match, seen)

        return each

    # ------------------------------------------------------------ queries

    def _query(self, query: Sequence[Any], bound: Bound) -> tuple[Find, Bound]:
        """Compile a query: a finder of bindings under which all facts hold, and the placeholders bound afterwards."""
        steps = []
        for signatures, placeholders in query:
            arguments: Bound = tuple((name, kind) for name, kind in placeholders)
            known = tuple(position for position, argument in enumerate(arguments) if argument in bound)
            added = tuple(dict.fromkeys(argument for argument in arguments if argument not in bound))
            steps.append((self._index(signatures, arguments, known), tuple(bound.index(arguments[p]) for p in known)))
            bound += added
        last = len(steps)

        def find(state: int, values: Values, seen: list[int], depth: int = 0) -> Iterator[Values]:
            if depth == last:
                yield values
                return
            index, slots = steps[depth]
            candidates = index().get(tuple(values[slot] for slot in slots))
            if candidates is None:
                return
            seen[0] |= candidates.mask
            if not candidates.constant and not state & candidates.mask:
                return
            for bit, added in candidates.facts:
                # Two placeholders never have the same variable.
                if (bit and not state & bit) or any(variable in values for variable in added):
                    continue
                yield from find(state, values + added, seen, depth + 1)

        return find, bound

    def _index(
        self, signatures: Sequence[str], arguments: Bound, known: tuple[int, ...]
    ) -> Callable[[], dict[Values, MatchingFacts]]:
        """Index facts by the variables at the known positions, on first use; queries of one shape share the index."""
        shape = tuple(signatures), tuple(arguments.index(argument) for argument in arguments), known
        if shape not in self._indices:
            self._indices[shape] = functools.cache(lambda: self._indexed(*shape))
        return self._indices[shape]

    def _indexed(
        self, signatures: Sequence[str], first: tuple[int, ...], known: tuple[int, ...]
    ) -> dict[Values, MatchingFacts]:
        """Build an index. `first` gives for each position the first one with the same variable."""
        repeated = [(position, same) for position, same in enumerate(first) if position != same]
        new = [position for position, same in enumerate(first) if position == same and position not in known]
        index: dict[Values, list[tuple[int, Values]]] = {}
        for signature in signatures:
            for variables, bit in self._facts(signature):
                if repeated and any(variables[position] != variables[same] for position, same in repeated):
                    continue
                added = tuple([variables[position] for position in new])
                if len(new) > 1 and len(set(added)) < len(added):
                    continue
                key = tuple([variables[position] for position in known])
                index.setdefault(key, []).append((0 if bit < 0 else 1 << bit, added))
        return {key: _candidates(facts) for key, facts in index.items()}

    # ------------------------------------------------------------ expressions

    def _value(self, expression: str, bound: Bound) -> Spell:
        try:
            (statement,) = parse_source(expression.strip()).body
        except (SyntaxError, ValueError) as error:
            raise EngineError(f"the game's grammar holds an expression that does not parse: {expression!r}") from error
        if not isinstance(statement, ast.Expr):
            raise EngineError(f"the game's grammar holds an expression that does not parse: {expression!r}")
        node = statement.value
        slots = {name: slot for slot, (name, _) in enumerate(bound)}
        _check(node, slots, expression)
        used = tuple(sorted({slots[name.id] for name in ast.walk(node) if isinstance(name, ast.Name)}))
        names = {name: used.index(slot) for name, slot in slots.items() if slot in used}

        @functools.cache
        def text(*variables: int) -> str:
            return str(_evaluate(node, {name: self._entities[variables[i]] for name, i in names.items()}))

        if len(used) == 1:
            [slot] = used
            return lambda state, values, seen: text(values[slot])
        return lambda state, values, seen: text(*(values[slot] for slot in used))


def _candidates(facts: list[tuple[int, Values]]) -> MatchingFacts:
    mask = 0
    for bit, _ in facts:
        mask |= bit
    return MatchingFacts(mask, any(not bit for bit, _ in facts), tuple(facts))


def _constant(text: str) -> Spell:
    return lambda state, values, seen: text


def _joined(parts: list[Spell]) -> Spell:
    if len(parts) == 1:
        return parts[0]
    return lambda state, values, seen: "".join([part(state, values, seen) for part in parts])


def _check(node: ast.expr, names: Mapping[str, int], expression: str) -> None:
    """Accept only names, attributes of entities, text, `+` and `or`: game files are data and run no code."""
    match node:
        case ast.Constant(value=str()):
            return
        case ast.Name(id=name):
            if name in names:
                return
            raise EngineError(f"the game's grammar speaks of {name!r} where nothing is called so: {expression!r}")
        case ast.Attribute(value=inner, attr=attribute) if attribute in TextEntity.__dataclass_fields__:
            return _check(inner, names, expression)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            _check(left, names, expression)
            return _check(right, names, expression)
        case ast.BoolOp(op=ast.Or(), values=values):
            for value in values:
                _check(value, names, expression)
            return
    raise EngineError(f"the game's grammar holds an expression that is not read: {expression!r}")


def _evaluate(node: ast.expr, names: Mapping[str, TextEntity]) -> Any:
    match node:
        case ast.Constant(value=text):
            return text
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=inner, attr=attribute):
            return getattr(_evaluate(inner, names), attribute)
        case ast.BinOp(left=left, right=right):
            return _evaluate(left, names) + _evaluate(right, names)
        case ast.BoolOp(values=values):
            result = None
            for value in values:
                result = _evaluate(value, names)
                if result:
                    break
            return result
    raise AssertionError("checked when it was compiled")
