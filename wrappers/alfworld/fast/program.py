"""Plays a compiled game. A state is one integer; a program holds none, and is shared between engines and threads.

What an operator needs, does and answers is read from the tables when it first matters, and kept. Admissible commands
are remembered by the bits that preconditions look at; an answer by the bits that its text was seen to depend on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from align_echo.wrappers.alfworld.fast.compiled import Compiled
from align_echo.wrappers.alfworld.fast.sas import Fact
from align_echo.wrappers.alfworld.fast.text import Entity, Speaker, Spell, Values

MENUS = 256
"""States of which the admissible commands are remembered, per game."""

TEXTS = 16
"""Answers that are remembered, per operator."""

BRANCHES = 4
"""Sets of bits that an operator's answer may be remembered by."""


@dataclass(frozen=True)
class Menu:
    """What can be done: commands in the library's order with their operators, and the commands sorted."""

    operators: dict[str, int]
    commands: tuple[str, ...]


class Program:
    """One game, ready to be played. All methods are functions of the state."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        entities = [Entity(name, kind, shown) for name, kind, shown in compiled.variables]
        self._speaker = Speaker(compiled.rules, entities, self._rows)
        self._watched = [(_bit(int(bit)), numbers) for bit, numbers in compiled.watched.items()]
        self._told = {int(variable): bit for variable, bit in compiled.told.items()}
        self._denied = {int(variable): bit for variable, bit in compiled.denied.items()}
        self._goal = _wanted(compiled.goal)
        self._axioms = _Axioms(compiled)
        self._read = int(compiled.read, 16)
        self._menu = functools.lru_cache(MENUS)(self._find_menu)
        self._group = functools.cache(self._find_group)
        self._change = functools.cache(self._find_change)
        self._answer = functools.cache(self._find_answer)
        self._feedback = functools.cache(self._find_feedback)
        self._named = functools.cache(self._find_named)
        self.initial = self._axioms.applied(int(compiled.initial, 16))

    # ------------------------------------------------------------ playing

    def menu(self, state: int) -> Menu:
        """What can be done in a state."""
        return self._menu(state & self._read)

    def apply(self, operator: int, state: int) -> int:
        """The state after an operator that is on the menu."""
        change = self._change(operator)
        after = (state ^ (state & change.clear)) | change.set
        for mask, wanted, bit, on in change.conditional:
            if state & mask == wanted:
                after = after | bit if on else after & ~bit
        return self._axioms.applied(after)

    def won(self, state: int) -> bool:
        """The goal holds."""
        mask, wanted = self._goal
        return state & mask == wanted

    def answer(self, operator: int, state: int) -> str:
        """What the game says in the state after an operator."""
        return self._answer(operator).text(state)

    @functools.cached_property
    def intro(self) -> str:
        """The first text of an episode."""
        return self._speaker.template([["rule", "intro"]], ())(self.initial, (), [0])

    # ------------------------------------------------------------ looking inside

    def facts(self, state: int, predicates: Iterable[str] | None = None) -> list[Fact]:
        """What is true, and what was made false as `not_...`, as TextWorld keeps it; or some predicates' only."""
        wanted = None if predicates is None else frozenset(predicates)
        return [
            fact
            for signature in self._compiled.facts
            if wanted is None or signature.partition(" ")[0] in wanted
            for bit, fact in self._named(signature)
            if not bit or state & bit
        ]

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """What every entity is called in text, by its id."""
        return {name: shown for name, _, shown in self._compiled.variables if shown}

    @functools.cached_property
    def commands_of_operators(self) -> dict[str, str]:
        """What each operator is typed as, by its name in the translation ("gotolocation agent1 ...")."""
        compiled, commands = self._compiled, {}
        for number, command in enumerate(compiled.commands):
            schema, values = self.filled(number)
            arguments = (compiled.variables[value][0] for value in values)
            commands[" ".join((compiled.schemas[schema].name, *arguments))] = command
        return commands

    def template(self, schema: int, filled: int, symbols: Sequence[Any]) -> Spell:
        """A template over the first parameters of an action: those that an operator fills in."""
        bound = tuple((name, kind) for name, kind in self._compiled.schemas[schema].parameters[:filled])
        return self._speaker.template(symbols, bound)

    def filled(self, operator: int) -> tuple[int, Values]:
        """An operator's action, and what its parameters stand for."""
        schema, arguments, _, _ = self._compiled.operators[operator].split(";")
        return int(schema), _numbers(arguments)

    # ------------------------------------------------------------ what is made when first needed

    def _find_menu(self, key: int) -> Menu:
        applicable: list[int] = []
        for place, (bit, _) in enumerate(self._watched):
            if not bit or key & bit:
                group = self._group(place)
                applicable += group.free
                applicable += [number for mask, wanted, number in group.others if key & mask == wanted]
        operators: dict[str, int] = {}
        for number in sorted(applicable):
            operators.setdefault(self._compiled.commands[number], number)
        return Menu(operators, tuple(sorted(operators)))

    def _find_group(self, place: int) -> _Group:
        bit, numbers = self._watched[place]
        free, others = [], []
        for number in numbers:
            mask, wanted = _wanted(_numbers(self._compiled.operators[number].split(";")[2]))
            if mask == bit:
                free.append(number)
            else:
                others.append((mask, wanted, number))
        return _Group(free, others)

    def _find_change(self, operator: int) -> _Change:
        return _change(self._compiled.operators[operator].split(";")[3], self._told, self._denied)

    def _find_answer(self, operator: int) -> _Answer:
        schema, values = self.filled(operator)
        return _Answer(self._feedback(schema, len(values)), values)

    def _find_feedback(self, schema: int, filled: int) -> Spell:
        return self.template(schema, filled, self._compiled.schemas[schema].feedback)

    def _find_named(self, signature: str) -> list[tuple[int, Fact]]:
        predicate = signature.partition(" ")[0]
        names = [name for name, _, _ in self._compiled.variables]
        return [(_bit(bit), (predicate, tuple(names[v] for v in values))) for values, bit in self._rows(signature)]

    def _rows(self, signature: str) -> list[tuple[Values, int]]:
        rows = []
        for row in self._compiled.facts[signature].split():
            variables, _, bit = row.partition(":")
            rows.append((_numbers(variables), int(bit)))
        return rows


@dataclass(frozen=True)
class _Group:
    """Operators to look at while a bit is set: those that need no more; (mask, wanted, operator) of the others."""

    free: list[int]
    others: list[tuple[int, int, int]]


@dataclass(frozen=True)
class _Change:
    """Bits cleared, then set; then (mask, wanted, bit, on) where the state before decides, in order."""

    clear: int
    set: int
    conditional: tuple[tuple[int, int, int, bool], ...]


class _Answer:
    """The answers of one operator, remembered by the bits that they were seen to depend on."""

    def __init__(self, spell: Spell, values: Values) -> None:
        self._spell = spell
        self._values = values
        self._masks: tuple[int, ...] = ()
        self._texts: dict[tuple[int, int], str] = {}

    def text(self, state: int) -> str:
        for mask in self._masks:
            cached = self._texts.get((mask, state & mask))
            if cached is not None:
                return cached
        seen = [0]
        text = self._spell(state, self._values, seen)
        [mask] = seen
        masks, texts = self._masks, self._texts
        if mask not in masks:
            masks = (mask, *masks[: BRANCHES - 1])
        if len(texts) >= TEXTS or masks is not self._masks:
            texts = {key: value for key, value in list(texts.items())[-TEXTS + 1 :] if key[0] in masks}
        # Made anew rather than changed: other threads may be reading.
        self._masks, self._texts = masks, {**texts, (mask, state & mask): text}
        return text


class _Axioms:
    """Derived facts: from their defaults, layer by layer, until nothing changes."""

    def __init__(self, compiled: Compiled) -> None:
        rules: dict[int, list[tuple[int, int, int, bool]]] = {}
        for layer, conditions, literal in compiled.axioms:
            rules.setdefault(layer, []).append((*_wanted(conditions), 1 << (literal >> 1), not literal & 1))
        self._layers = [rules[layer] for layer in sorted(rules)]
        self._derived = _union(1 << (literal >> 1) for _, _, literal in compiled.axioms)
        self._read = _union(mask for layer in self._layers for mask, _, _, _ in layer)
        self._defaults = int(compiled.initial, 16) & self._derived
        self._remembered = functools.lru_cache(MENUS)(self._follow)

    def applied(self, state: int) -> int:
        """The state with its derived facts brought up to date."""
        if not self._derived:
            return state
        base = state ^ (state & self._derived)
        return base | self._remembered(base & self._read)

    def _follow(self, key: int) -> int:
        state = key | self._defaults
        for layer in self._layers:
            changed = True
            while changed:
                before = state
                for mask, wanted, bit, on in layer:
                    if state & mask == wanted:
                        state = state | bit if on else state & ~bit
                changed = state != before
        return state & self._derived


def _change(effects: str, told: dict[int, int], denied: dict[int, int]) -> _Change:
    """Read an operator's effects. The text follows every effect in order, whether its conditions hold or not."""
    clear = on = 0
    conditional = []
    parsed = [effect.rpartition(">") for effect in effects.split(",") if effect]
    depending = {int(literal) >> 1 for conditions, _, literal in parsed if conditions}
    for conditions, _, literal in parsed:
        variable, negative = int(literal) >> 1, bool(int(literal) & 1)
        text_bit, negation = _bit(told.get(variable, -1)), _bit(denied.get(variable, -1))
        if variable in depending:
            mask, wanted = _wanted(_numbers(conditions, "&"))
            conditional.append((mask, wanted, 1 << variable, not negative))
        else:
            text_bit |= 1 << variable
        off_now, on_now = (text_bit, negation) if negative else (negation, text_bit)
        clear, on = clear | off_now, (on & ~off_now) | on_now
    return _Change(clear, on, tuple(conditional))


def _wanted(literals: Sequence[int]) -> tuple[int, int]:
    """The bits that literals speak of, and what those bits must be."""
    mask = wanted = 0
    for literal in literals:
        mask |= 1 << (literal >> 1)
        wanted |= 0 if literal & 1 else 1 << (literal >> 1)
    return mask, wanted


def _bit(position: int) -> int:
    return 0 if position < 0 else 1 << position


def _numbers(text: str, separator: str = ",") -> tuple[int, ...]:
    return tuple(map(int, text.split(separator))) if text else ()


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


__all__ = ["Menu", "Program"]
