"""Player of a compiled game. A state is one integer, held by the caller, so a program is shared between engines and
threads.

An operator's needs, effects and answers are parsed from the tables on first use and cached. Admissible commands are
cached by the bits that preconditions read; an answer by the bits its text depended on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from align_echo.wrappers.alfworld.fast.sas import Fact
from align_echo.wrappers.alfworld.fast.shipped import CompiledGame
from align_echo.wrappers.alfworld.fast.text import Spell, TemplateCompiler, TextEntity, Values

MENUS = 256
"""Number of states with cached admissible commands, per game."""

TEXTS = 16
"""Number of cached answers, per operator."""

BRANCHES = 4
"""Number of bit sets that may key an operator's cached answers."""

TABLES_GROW, GROUP_BYTES, ANSWER_BYTES = 2.7, 25_000, 2_900
"""Memory of a program per byte of its tables, per group of operators in use, and per operator with answers. Fitted by
least squares over games of every task type, played for 0 to 1500 steps (n = 204; the mean error is 11%)."""

Change = tuple[int, int, tuple[tuple[int, int, int, bool], ...]]
"""Effect of an operator: bits to clear, bits to set afterwards, and (mask, wanted, bit, on) for conditions on the state
before."""


class GameProgram:
    """Game ready to be played. All methods are functions of the state."""

    def __init__(self, compiled: CompiledGame) -> None:
        self._compiled = compiled
        entities = [TextEntity(name, kind, label) for name, kind, label in compiled.variables]
        self._speaker = TemplateCompiler(compiled.rules, entities, self._rows)
        self._watched = [(_bit(int(bit)), numbers) for bit, numbers in compiled.watched.items()]
        self._text_bits = {int(variable): bit for variable, bit in compiled.told.items()}
        self._negated_bits = {int(variable): bit for variable, bit in compiled.denied.items()}
        self._goal = _wanted(compiled.goal)
        self._derive = _axioms(compiled)
        self._read = int(compiled.read, 16)
        self._menu = functools.lru_cache(MENUS)(self._find_menu)
        self._commands = functools.lru_cache(MENUS)(lambda key: tuple(sorted(self._menu(key))))
        self._group = functools.cache(self._find_group)
        self._change = functools.cache(self._find_change)
        self._answer = functools.cache(self._find_answer)
        self._feedback = functools.cache(self._find_feedback)
        self._named = functools.cache(self._find_named)
        self.initial = self._derive(int(compiled.initial, 16))
        self._table_bytes = compiled.bytes

    @property
    def bytes(self) -> int:
        """Estimated size of the game in memory, growing with play; within a third of the real size."""
        return (
            int(TABLES_GROW * self._table_bytes)
            + GROUP_BYTES * self._group.cache_info().currsize
            + ANSWER_BYTES * self._answer.cache_info().currsize
        )

    # ------------------------------------------------------------ playing

    def menu(self, state: int) -> dict[str, int]:
        """Return the admissible commands of a state in the library's order, with the operator of each."""
        return self._menu(state & self._read)

    def commands(self, state: int) -> tuple[str, ...]:
        """Return the commands of the menu, sorted."""
        return self._commands(state & self._read)

    def apply(self, operator: int, state: int) -> int:
        """Return the state after an operator from the menu."""
        cleared, added, conditional = self._change(operator)
        after = (state ^ (state & cleared)) | added
        for mask, wanted, bit, on in conditional:
            if state & mask == wanted:
                after = after | bit if on else after & ~bit
        return self._derive(after)

    def won(self, state: int) -> bool:
        """Check if the goal holds."""
        mask, wanted = self._goal
        return state & mask == wanted

    def answer(self, operator: int, state: int) -> str:
        """Return the game's text in the state after an operator."""
        return self._answer(operator)(state)

    @functools.cached_property
    def intro(self) -> str:
        """First text of an episode."""
        return self._speaker.template([["rule", "intro"]], ())(self.initial, (), [0])

    # ------------------------------------------------------------ looking inside

    def facts(self, state: int, predicates: Iterable[str] | None = None) -> list[Fact]:
        """Return the true facts, and as `not_...` those made false, as TextWorld keeps them; restricted to `predicates`
        unless None."""
        wanted = None if predicates is None else frozenset(predicates)
        return [
            fact
            for signature in self._compiled.facts
            if wanted is None or signature.partition(" ")[0] in wanted
            for bit, fact in self._named(signature)
            if not bit or state & bit
        ]

    @functools.cached_property
    def telling(self) -> int:
        """Bits that menus, effects and answers may depend on.

        Excluded are the bits of facts made false, which only `facts` shows, unless a text asks for them.
        """
        compiled = self._compiled
        asked = set(_texts_in([*compiled.rules.values(), *(schema.feedback for schema in compiled.schemas)]))
        denied = _union(map(_bit, self._negated_bits.values())) & ~self._read
        read = _union(_bit(bit) for signature in asked & set(compiled.facts) for _, bit in self._rows(signature))
        return ~(denied & ~read)

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """Display name of every entity, by id."""
        return {name: label for name, _, label in self._compiled.variables if label}

    @functools.cached_property
    def operator_commands(self) -> dict[str, str]:
        """Command of each operator, by its name in the translation ("gotolocation agent1 ...")."""
        compiled, commands = self._compiled, {}
        for number, command in enumerate(compiled.commands):
            schema, values = self.filled(number)
            arguments = (compiled.variables[value][0] for value in values)
            commands[" ".join((compiled.schemas[schema].name, *arguments))] = command
        return commands

    def template(self, schema: int, filled: int, symbols: Sequence[Any]) -> Spell:
        """Compile a template over the first parameters of an action: those that an operator fills in."""
        bound = tuple((name, kind) for name, kind in self._compiled.schemas[schema].parameters[:filled])
        return self._speaker.template(symbols, bound)

    def filled(self, operator: int) -> tuple[int, Values]:
        """Return an operator's action and the values of its parameters."""
        schema, arguments, _, _ = self._compiled.operators[operator].split(";")
        return int(schema), _numbers(arguments)

    # ------------------------------------------------------------ parsed on first use

    def _find_menu(self, key: int) -> dict[str, int]:
        applicable: list[int] = []
        for index, (bit, _) in enumerate(self._watched):
            if not bit or key & bit:
                free, conditional = self._group(index)
                applicable += free
                applicable += [number for mask, wanted, number in conditional if key & mask == wanted]
        operators: dict[str, int] = {}
        for number in sorted(applicable):
            operators.setdefault(self._compiled.commands[number], number)
        return operators

    def _find_group(self, index: int) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Split the operators that wait for a bit: those without further needs; (mask, wanted, operator) of the others.
        """
        bit, numbers = self._watched[index]
        free, conditional = [], []
        for number in numbers:
            mask, wanted = _wanted(_numbers(self._compiled.operators[number].split(";")[2]))
            if mask == bit:
                free.append(number)
            else:
                conditional.append((mask, wanted, number))
        return free, conditional

    def _find_change(self, operator: int) -> Change:
        return _change(self._compiled.operators[operator].split(";")[3], self._text_bits, self._negated_bits)

    def _find_answer(self, operator: int) -> Callable[[int], str]:
        schema, values = self.filled(operator)
        return _answers(self._feedback(schema, len(values)), values)

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


def _answers(spell: Spell, values: Values) -> Callable[[int], str]:
    """Make a function from states to an operator's answers, cached by the bits they depended on."""
    masks: tuple[int, ...] = ()
    texts: dict[tuple[int, int], str] = {}

    def answer(state: int) -> str:
        nonlocal masks, texts
        for mask in masks:
            cached = texts.get((mask, state & mask))
            if cached is not None:
                return cached
        bits_read = [0]
        text = spell(state, values, bits_read)
        [mask] = bits_read
        known, retained = masks, texts
        if mask not in known:
            known = (mask, *known[: BRANCHES - 1])
        if len(retained) >= TEXTS or known is not masks:
            retained = {key: value for key, value in list(retained.items())[-TEXTS + 1 :] if key[0] in known}
        # Replaced rather than changed: other threads may be reading.
        masks, texts = known, {**retained, (mask, state & mask): text}
        return text

    return answer


def _axioms(compiled: CompiledGame) -> Callable[[int], int]:
    """Make a function that updates a state's derived facts: from their defaults, layer by layer, until nothing changes.
    """
    rules: dict[int, list[tuple[int, int, int, bool]]] = {}
    for layer, conditions, literal in compiled.axioms:
        rules.setdefault(layer, []).append((*_wanted(conditions), 1 << (literal >> 1), not literal & 1))
    layers = [rules[layer] for layer in sorted(rules)]
    derived = _union(1 << (literal >> 1) for _, _, literal in compiled.axioms)
    read = _union(mask for rules_of_layer in layers for mask, _, _, _ in rules_of_layer)
    defaults = int(compiled.initial, 16) & derived

    @functools.lru_cache(MENUS)
    def follow(key: int) -> int:
        state = key | defaults
        for rules_of_layer in layers:
            changed = True
            while changed:
                before = state
                for mask, wanted, bit, on in rules_of_layer:
                    if state & mask == wanted:
                        state = state | bit if on else state & ~bit
                changed = state != before
        return state & derived

    def derive(state: int) -> int:
        base = state ^ (state & derived)
        return base | follow(base & read)

    return derive if derived else lambda state: state


def _change(effects: str, text_bits: dict[int, int], negated_bits: dict[int, int]) -> Change:
    """Parse an operator's effects. The text follows every effect in order, even if its conditions do not hold."""
    cleared = added = 0
    conditional = []
    parsed = [effect.rpartition(">") for effect in effects.split(",") if effect]
    depending = {int(literal) >> 1 for conditions, _, literal in parsed if conditions}
    for conditions, _, literal in parsed:
        variable, negative = int(literal) >> 1, bool(int(literal) & 1)
        text_bit, negation = _bit(text_bits.get(variable, -1)), _bit(negated_bits.get(variable, -1))
        if variable in depending:
            mask, wanted = _wanted(_numbers(conditions, "&"))
            conditional.append((mask, wanted, 1 << variable, not negative))
        else:
            text_bit |= 1 << variable
        off_now, on_now = (text_bit, negation) if negative else (negation, text_bit)
        cleared, added = cleared | off_now, (added & ~off_now) | on_now
    return cleared, added, tuple(conditional)


def _wanted(literals: Sequence[int]) -> tuple[int, int]:
    """Return the mask of the bits in literals, and the values those bits must have."""
    mask = wanted = 0
    for literal in literals:
        mask |= 1 << (literal >> 1)
        wanted |= 0 if literal & 1 else 1 << (literal >> 1)
    return mask, wanted


def _bit(position: int) -> int:
    return 0 if position < 0 else 1 << position


def _numbers(text: str, separator: str = ",") -> tuple[int, ...]:
    return tuple(map(int, text.split(separator))) if text else ()


def _texts_in(symbols: Any) -> Iterator[str]:
    if isinstance(symbols, str):
        yield symbols
    elif isinstance(symbols, list | tuple):
        for part in symbols:
            yield from _texts_in(part)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


__all__ = ["GameProgram"]
