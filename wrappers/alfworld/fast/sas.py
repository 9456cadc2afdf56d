"""Parser of Fast Downward's SAS text: variables, operators with conditional effects, axioms, initial state, goal.

Every variable must be one fact and its negation, as the translator writes them without invariant synthesis; anything
else is refused. Facts are numbered by their variable; a literal is `2 * variable`, plus 1 for a false fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from align_echo.errors import EngineError

Fact = tuple[str, tuple[str, ...]]
"""Predicate and arguments."""


@dataclass(frozen=True)
class SasEffect:
    """Literal made true by an operator if all conditions held before it, or by an axiom while they hold."""

    conditions: tuple[int, ...]
    literal: int


@dataclass(frozen=True)
class SasOperator:
    """Ground action: its name with arguments, its preconditions and its effects in order."""

    name: str
    preconditions: tuple[int, ...]
    effects: tuple[SasEffect, ...]


@dataclass(frozen=True)
class SasTask:
    """Ground task. `operators` are in the order in which the library lists applicable ones.

    `derived` maps each variable decided by axioms to its layer; axioms of one layer apply until nothing changes.
    """

    facts: tuple[Fact, ...]
    derived: Mapping[int, int]
    initial: tuple[bool, ...]
    goal: tuple[int, ...]
    operators: tuple[SasOperator, ...]
    axioms: tuple[SasEffect, ...]


def read_sas(text: str) -> SasTask:
    """Parse a task. Raises `EngineError` naming the unsupported part."""
    try:
        return _Reader(text).task()
    except (ValueError, IndexError, StopIteration) as error:
        raise EngineError(f"the translation of the game's PDDL is not understood: {error}") from error


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines: Iterator[str] = iter(text.splitlines())
        self._facts: list[Fact] = []
        self._true_value: list[int] = []
        self._layer: list[int] = []

    def task(self) -> SasTask:
        if self._section("version") != ["3"]:
            raise ValueError("another version of the format than 3")
        self._section("metric")
        for _ in range(self._number()):
            self._variable(self._section("variable"))
        for _ in range(self._number()):
            self._section("mutex_group")
        state = [int(line) for line in self._section("state")]
        goal = tuple(self._literal(line) for line in self._section("goal")[1:])
        operators = [self._operator(self._section("operator")) for _ in range(self._number())]
        order = sorted(range(len(operators)), key=lambda number: (operators[number][0], number))
        axioms = [self._axiom(self._section("rule")) for _ in range(self._number())]
        return SasTask(
            facts=tuple(self._facts),
            derived={variable: layer for variable, layer in enumerate(self._layer) if layer >= 0},
            initial=tuple(value == true for value, true in zip(state, self._true_value, strict=True)),
            goal=goal,
            operators=tuple(operators[number][1] for number in order),
            axioms=tuple(axioms),
        )

    def _number(self) -> int:
        return int(next(self._lines))

    def _section(self, name: str) -> list[str]:
        opening = next(self._lines)
        if opening != f"begin_{name}":
            raise ValueError(f"{opening!r} where begin_{name} should be")
        lines = []
        while (line := next(self._lines)) != f"end_{name}":
            lines.append(line)
        return lines

    def _variable(self, lines: list[str]) -> None:
        _name, layer, _count, *values = lines
        kinds = {value.split(" ", 1)[0]: value.split(" ", 1)[1] for value in values}
        if len(values) != 2 or kinds.keys() != {"Atom", "NegatedAtom"} or len(set(kinds.values())) != 1:
            raise ValueError(f"a variable that is not one fact and its negation: {' / '.join(values)}")
        predicate, arguments = kinds["Atom"].removesuffix(")").split("(", 1)
        self._facts.append((predicate, tuple(name for name in arguments.split(", ") if name)))
        self._true_value.append(next(i for i, value in enumerate(values) if value.startswith("Atom ")))
        self._layer.append(int(layer))

    def _literal(self, pair: str) -> int:
        variable, value = map(int, pair.split())
        return self._encode_literal(variable, value)

    def _encode_literal(self, variable: int, value: int) -> int:
        return 2 * variable + (value != self._true_value[variable])

    def _operator(self, lines: list[str]) -> tuple[list[tuple[int, int]], SasOperator]:
        """Parse an operator; also return its sort key, because the library walks a tree of sorted preconditions."""
        name, count = lines[0], int(lines[1])
        needed = [(int(v), int(value)) for v, value in (line.split() for line in lines[2 : 2 + count])]
        effects = []
        for line in lines[3 + count : 3 + count + int(lines[2 + count])]:
            numbers = [int(number) for number in line.split()]
            pairs, (variable, before, after) = numbers[1:-3], numbers[-3:]
            if before >= 0:
                needed.append((variable, before))
            conditions = tuple(self._encode_literal(v, w) for v, w in zip(pairs[::2], pairs[1::2], strict=True))
            effects.append(SasEffect(conditions, self._encode_literal(variable, after)))
        needed = sorted(set(needed))
        operator = SasOperator(name, tuple(self._encode_literal(*pair) for pair in needed), tuple(effects))
        return needed, operator

    def _axiom(self, lines: list[str]) -> SasEffect:
        variable, _before, after = map(int, lines[-1].split())
        conditions = tuple(self._literal(line) for line in lines[1:-1])
        return SasEffect(conditions, self._encode_literal(variable, after))
