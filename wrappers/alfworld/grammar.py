"""ALFWorld's text grammar, parsed by TextWorld's own parsers; what is parsed once is kept.

Deriving text from it is not done here: `fast/templates.py` turns it into data, `fast/text.py` spells it out.
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
"""TextWorld's parsers are one object each for the whole process, which keeps how far it has read."""


@dataclass(frozen=True)
class GrammarRule:
    """A text and the condition under which it is chosen, empty for always."""

    condition: str
    symbols: tuple[Any, ...]


@dataclass(frozen=True)
class Grammar:
    """The texts of one game.

    `commands` and `feedback` are templates by the lower-case name of an action: what it is typed as, and what it
    answers once it was carried out. `rules` are by name, in the order in which they are tried.
    """

    commands: Mapping[str, str]
    feedback: Mapping[str, str]
    rules: Mapping[str, tuple[GrammarRule, ...]]


def read_grammar(source: str) -> Grammar:
    """Read a TWL2 grammar. Raises `EngineError` if TextWorld's parser refuses it."""
    shared, sentence = _without_goal(source)
    if not sentence:
        return shared
    task = (GrammarRule("", (textgen.TerminalSymbol(sentence),)),)
    return replace(shared, rules={**shared.rules, "task": task})


def _without_goal(source: str) -> tuple[Grammar, str]:
    """The parsed grammar and the sentence that its rule #task# consists of, "" if that rule is another one.

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
def _parse(source: str) -> Grammar:
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
    return Grammar(commands, feedback, rules)


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
