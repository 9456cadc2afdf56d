"""Compile a game: Fast Downward's ground operators and TextWorld's parsed grammar become the tables of `CompiledGame`.

No action or predicate of ALFWorld is known here. Anything the tables cannot express is refused by name.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import textworld.logic
from textworld.envs.pddl import textgen

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld import oracle
from align_echo.wrappers.alfworld.fast.program import GameProgram
from align_echo.wrappers.alfworld.fast.sas import Fact, SasOperator, SasTask, read_sas
from align_echo.wrappers.alfworld.fast.shipped import ActionSchema, CompiledGame, Symbols
from align_echo.wrappers.alfworld.grammar import GameGrammar, parse_query, parse_symbols, read_grammar
from align_echo.wrappers.alfworld.translation import TranslationResult, translate

# ---------------------------------------------------------------- templates

Expand = Callable[[str, Sequence[str]], list[str]]
"""Function from a predicate and the types of its arguments to the signatures of matching facts, in TextWorld's order.
"""


def plain(text: str, expand: Expand) -> Symbols:
    """Convert a template. Raises `EngineError` naming an unsupported symbol."""
    return [_symbol(symbol, expand) for symbol in parse_symbols(text)]


def plain_rules(grammar: GameGrammar, expand: Expand) -> dict[str, list[list[Any]]]:
    """Convert all rules: by name, (condition or None, symbols) in order."""
    return {
        name: [[_query(rule.condition, expand), [_symbol(symbol, expand) for symbol in rule.symbols]] for rule in rules]
        for name, rules in grammar.rules.items()
    }


def _symbol(symbol: Any, expand: Expand) -> Any:
    if isinstance(symbol, textgen.TerminalSymbol):
        return str(symbol.symbol)
    if isinstance(symbol, textgen.NonterminalSymbol):
        return ["rule", str(symbol.symbol)]
    if isinstance(symbol, textgen.EvalSymbol):
        return ["value", str(symbol.expression)]
    if isinstance(symbol, textgen.ConditionalSymbol):
        return ["each", _query(symbol.given, expand), _symbol(symbol.expression, expand)]
    if isinstance(symbol, textgen.ListSymbol) and isinstance(symbol.symbol, textgen.ConditionalSymbol):
        inner = symbol.symbol
        return ["list", _query(inner.given, expand), _symbol(inner.expression, expand)]
    raise EngineError(f"the game's grammar holds a symbol that is not understood: {symbol!r}")


def _query(text: str | None, expand: Expand) -> list[Any] | None:
    if not text:
        return None
    return [
        [
            expand(proposition.name, [placeholder.type for placeholder in proposition.parameters]),
            [[placeholder.name, placeholder.type] for placeholder in proposition.parameters],
        ]
        for proposition in parse_query(text).preconditions
    ]


# ---------------------------------------------------------------- compile a game


def compile_game(domain: str, grammar: str, problem: str) -> CompiledGame:
    """Compile a game's three texts. Raises `EngineError` naming the unsupported part."""
    texts = read_grammar(grammar)
    translation = translate(domain, problem)
    return _Compiler(translation, read_sas(translation.sas), texts).compiled()


class _Compiler:
    def __init__(self, translation: TranslationResult, sas: SasTask, grammar: GameGrammar) -> None:
        self._translation = translation
        self._sas = sas
        self._grammar = grammar
        self._variables: dict[tuple[str, str], int] = {}
        self._told, self._denied = _text_bits(sas)
        self._types = _types(translation)

    def compiled(self) -> CompiledGame:
        sas = self._sas
        facts, initial_facts = self._facts()
        names = _display_names(initial_facts)
        expand = self._expand(facts)
        schema_names = list(dict.fromkeys(operator.name.split()[0] for operator in sas.operators))
        operators = [self._operator(operator, schema_names) for operator in sas.operators]
        blank = CompiledGame(
            variables=[[name, kind, names.get(name, "")] for name, kind in self._variables],
            facts=facts,
            initial=f"{self._initial():x}",
            goal=list(sas.goal),
            schemas=[self._schema(name, expand) for name in schema_names],
            operators=operators,
            commands=[],
            watched=_watched(sas.operators),
            read=f"{_read(sas.operators):x}",
            told={str(variable): bit for variable, bit in self._told.items() if bit != variable},
            denied={str(variable): bit for variable, bit in self._denied.items()},
            axioms=[[sas.derived[axiom.literal >> 1], list(axiom.conditions), axiom.literal] for axiom in sas.axioms],
            rules=plain_rules(self._grammar, expand),
        )
        return self._with_commands(blank, schema_names, expand)

    # ------------------------------------------------------------ facts

    def _facts(self) -> tuple[dict[str, str], list[Fact]]:
        """Collect all facts the text may look at, by signature, and the facts of the initial state.

        Both are sorted, because the translator's sets come in a different order in every process.
        """
        sas = self._sas
        changing = {fact: variable for variable, fact in enumerate(sas.facts) if variable not in sas.derived}
        holding = [fact for variable, fact in enumerate(sas.facts) if sas.initial[variable]]
        initial = sorted({*self._translation.facts, *holding})
        bits: dict[Fact, int] = {fact: -1 for fact in initial if fact not in changing}
        for (predicate, arguments), variable in changing.items():
            bits[predicate, arguments] = self._told[variable]
            if variable in self._denied:
                bits[f"not_{predicate}", arguments] = self._denied[variable]
        facts: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
        for (predicate, arguments), bit in sorted(bits.items()):
            types = [self._translation.objects[name] for name in arguments]
            facts[" ".join([predicate, *types])].append((arguments, bit))
        return {signature: self._table(signature.split()[1:], rows) for signature, rows in facts.items()}, initial

    def _table(self, types: list[str], rows: list[tuple[tuple[str, ...], int]]) -> str:
        entries = []
        for arguments, bit in sorted(rows):
            numbers = [str(self._variable(name, kind)) for name, kind in zip(arguments, types, strict=True)]
            entries.append(f"{','.join(numbers)}:{bit}")
        return " ".join(entries)

    def _initial(self) -> int:
        state = 0
        for variable, holds in enumerate(self._sas.initial):
            if holds:
                state |= 1 << variable | 1 << self._told.get(variable, variable)
        return state

    def _variable(self, name: str, kind: str) -> int:
        return self._variables.setdefault((name, kind), len(self._variables))

    def _expand(self, facts: dict[str, str]) -> Expand:
        """Return a function from a predicate and types to the signatures of matching facts, in TextWorld's order."""

        def expand(predicate: str, types: Sequence[str]) -> list[str]:
            try:
                required = [self._types.get(name) for name in types]
            except KeyError as error:
                raise EngineError(f"the game's grammar speaks of the type {error}, which the PDDL lacks") from error
            matches = self._types.multi_subtypes(required)
            names = dict.fromkeys(" ".join([predicate, *(kind.name for kind in kinds)]) for kinds in matches)
            return [name for name in names if name in facts]

        return expand

    # ------------------------------------------------------------ operators

    def _schema(self, name: str, expand: Expand) -> ActionSchema:
        if name not in self._grammar.feedback:
            raise EngineError(f"the game's grammar has no action {name}, the PDDL has")
        parameters = [list(parameter) for parameter in self._translation.actions[name]]
        return ActionSchema(name, parameters, plain(self._grammar.feedback[name], expand))

    def _operator(self, operator: SasOperator, schema_names: list[str]) -> str:
        name, *arguments = operator.name.split()
        types = [kind for _, kind in self._translation.actions[name]]
        if len(types) < len(arguments):
            raise EngineError(f"the PDDL's action {name} has fewer parameters than {operator.name!r}")
        filled = ",".join(str(self._variable(*pair)) for pair in zip(arguments, types, strict=False))
        needs = ",".join(map(str, operator.preconditions))
        effects = ",".join(
            "&".join(map(str, effect.conditions)) + f">{effect.literal}" if effect.conditions else str(effect.literal)
            for effect in operator.effects
        )
        if any(effect.literal >> 1 in self._sas.derived for effect in operator.effects):
            raise EngineError(f"the PDDL's action {name} sets a derived fact")
        return f"{schema_names.index(name)};{filled};{needs};{effects}"

    def _with_commands(self, blank: CompiledGame, schema_names: list[str], expand: Expand) -> CompiledGame:
        """Fill in each operator's command, which may not depend on changing facts."""
        program = GameProgram(blank)
        symbols = [plain(self._grammar.commands[name], expand) for name in schema_names]
        template = functools.cache(lambda schema, filled: program.template(schema, filled, symbols[schema]))
        commands = []
        for number in range(len(blank.operators)):
            schema, values = program.filled(number)
            bits_read = [0]
            text = template(schema, len(values))(program.initial, values, bits_read)
            if bits_read[0]:
                raise EngineError(f"the command of the action {schema_names[schema]} depends on what changes")
            try:
                commands.append(text.format_map(program.names))
            except (KeyError, ValueError, IndexError) as error:
                raise EngineError(f"the command of {schema_names[schema]} cannot be spelled out: {error}") from error
        return replace(blank, commands=commands)


def _text_bits(sas: SasTask) -> tuple[dict[int, int], dict[int, int]]:
    """Assign each variable the bit for "true in the text" and the bit for "explicitly false in the text".

    TextWorld's facts follow every effect of an action even if its conditions are not met, so a fact with a conditional
    effect needs a bit of its own. The text knows a negation only after an effect stated it.
    """
    text_bits = {variable: variable for variable in range(len(sas.facts)) if variable not in sas.derived}
    free = len(sas.facts)
    conditional = {e.literal >> 1 for operator in sas.operators for e in operator.effects if e.conditions}
    for variable in sorted(conditional):
        text_bits[variable] = free
        free += 1
    negated = {e.literal >> 1 for operator in sas.operators for e in operator.effects if e.literal & 1}
    return text_bits, {variable: free + number for number, variable in enumerate(sorted(negated))}


def _read(operators: Sequence[SasOperator]) -> int:
    mask = 0
    for literal in {literal for operator in operators for literal in operator.preconditions}:
        mask |= 1 << (literal >> 1)
    return mask


def _watched(operators: Sequence[SasOperator]) -> dict[str, list[int]]:
    """Group operators by the most common fact they need, so that only groups with a true fact are checked."""
    uses = Counter(literal for operator in operators for literal in operator.preconditions if not literal & 1)
    groups: dict[str, list[int]] = defaultdict(list)
    for number, operator in enumerate(operators):
        positive = [literal for literal in operator.preconditions if not literal & 1]
        bit = max(positive, key=lambda literal: (uses[literal], -literal)) >> 1 if positive else -1
        groups[str(bit)].append(number)
    return dict(groups)


def _types(translation: TranslationResult) -> Any:
    logic = textworld.logic.GameLogic()
    for name, supertypes in translation.types:
        if name not in logic.types._types:
            logic.types.add(textworld.logic.Type(name, supertypes))
    return logic.types


def _display_names(facts: Iterable[Fact]) -> dict[str, str]:
    """Return ALFWorld's names for all arguments of facts."""
    from textworld.generator.game import EntityInfo

    entities = {name: EntityInfo(name, "") for _, arguments in facts for name in arguments}
    demangler = oracle.load("alfworld.agents.utils.misc").Demangler(game_infos=entities)
    return {name: str(demangler.demangle_alfred_name(name)) for name in entities}
