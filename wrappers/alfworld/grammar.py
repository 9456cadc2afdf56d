"""ALFWorld's text grammar, parsed by TextWorld's own parsers and cached.

No text is derived here: `fast/compiler.py` turns the grammar into data, `fast/text.py` renders it.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from textworld.envs.pddl import textgen
from textworld.envs.pddl.logic import GameLogic
from textworld.logic import Rule

from align_echo.errors import EngineError

GOAL = re.compile(r"Your task is to: ([^\"\\]*?)\.?\"")
_PLACEHOLDER = "UNKNOWN GOAL"

PARSING = threading.Lock()
"""Guard of TextWorld's parsers, which are process-wide objects with a read position."""


@dataclass(frozen=True)
class GrammarRule:
    """Text and the condition for choosing it, empty for always."""

    condition: str
    symbols: tuple[Any, ...]


@dataclass(frozen=True)
class GameGrammar:
    """Texts of one game.

    `commands` and `feedback` are templates by the lower-case name of an action: its command, and the answer after it
    was carried out. `rules` are by name, in the order in which they are tried.
    """

    commands: Mapping[str, str]
    feedback: Mapping[str, str]
    rules: Mapping[str, tuple[GrammarRule, ...]]


def read_grammar(source: str) -> GameGrammar:
    """Parse a TWL2 grammar. Raises `EngineError` if TextWorld's parser refuses it."""
    shared, sentence = _without_goal(source)
    if not sentence:
        return shared
    task = (GrammarRule("", (textgen.TerminalSymbol(sentence),)),)
    return replace(shared, rules={**shared.rules, "task": task})


def _without_goal(source: str) -> tuple[GameGrammar, str]:
    """Parse the grammar apart from its goal; also return the sentence of the rule #task#, "" if that rule is not one
    sentence.

    All of ALFWorld's games share one grammar but for this sentence: the shared part is parsed once.
    """
    goals = GOAL.findall(source)
    if len(goals) == 1:
        shared = _parse(GOAL.sub(f'Your task is to: {_PLACEHOLDER}."', source))
        [rule, *alternatives] = shared.rules.get("task", (None,))
        if rule and not alternatives and not rule.condition and len(rule.symbols) == 1:
            [symbol] = rule.symbols
            if isinstance(symbol, textgen.TerminalSymbol) and symbol.symbol == f"Your task is to: {_PLACEHOLDER}.":
                return shared, f"Your task is to: {goals[0]}."
    return _parse(source), ""


@functools.lru_cache(maxsize=16)
def _parse(source: str) -> GameGrammar:
    try:
        with PARSING:
            logic = GameLogic(domain="", grammar=source)
    except Exception as error:  # TatSu and json raise many kinds
        raise EngineError(f"the game's grammar does not parse: {error}".splitlines()[0]) from error
    commands = {name: action.template for name, action in logic.actions.items()}
    feedback = {name: action.feedback_rule for name, action in logic.actions.items()}
    rules = {
        name: tuple(GrammarRule(rule.condition, tuple(rule.rhs)) for rule in rules)
        for name, rules in logic.grammar._rules.items()
    }
    return GameGrammar(commands, feedback, rules)


@functools.lru_cache(maxsize=4096)
def parse_symbols(text: str) -> tuple[Any, ...]:
    """Parse a template with TextWorld."""
    with PARSING:
        return tuple(textgen._parse_and_convert(text, rule_name="symbols"))


@functools.lru_cache(maxsize=4096)
def parse_query(text: str) -> Rule:
    """Parse a conjunctive query with TextWorld."""
    with PARSING:
        return Rule.parse_conjunctive_query(text)
