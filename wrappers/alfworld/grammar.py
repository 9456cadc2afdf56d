"""ALFWorld's text grammar, parsed by TextWorld's own parsers; what is parsed once is kept.

Deriving text from it is not done here: `fast/templates.py` turns it into data, `fast/text.py` spells it out.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textworld.envs.pddl import textgen
from textworld.envs.pddl.logic import GameLogic
from textworld.logic import Rule

from align_echo.errors import EngineError

GOAL = re.compile(r"Your task is to: ([^\"\\]*?)\.?\"")
_PLACEHOLDER = "UNKNOWN GOAL"

PARSING = threading.Lock()
"""TextWorld's parsers are one object each for the whole process, and keep their place in the text in it."""


@dataclass(frozen=True)
class Template:
    """What an action is called and what it answers: `feedback` is derived after it was carried out."""

    command: str
    feedback: str


class Grammar:
    """The texts of one game. `actions` maps the lower-case name of an action to its templates."""

    def __init__(self, source: str) -> None:
        """Read a TWL2 grammar. Raises `EngineError` if TextWorld's parser refuses it."""
        shared, sentence = _without_goal(source)
        task = (GrammarRule("", (textgen.TerminalSymbol(sentence),)),)
        self._rules = {**shared.rules, "task": task} if sentence else shared.rules
        self.actions = shared.actions

    @property
    def rules(self) -> Mapping[str, Sequence[GrammarRule]]:
        """Rules by name, in the order in which they are tried."""
        return self._rules


@dataclass(frozen=True)
class GrammarRule:
    """A text and the condition under which it is chosen, empty for always."""

    condition: str
    symbols: tuple[Any, ...]


@dataclass(frozen=True)
class _Parsed:
    actions: dict[str, Template]
    rules: dict[str, tuple[GrammarRule, ...]]


def _without_goal(source: str) -> tuple[_Parsed, str]:
    """The parsed grammar and the sentence that its rule #task# consists of, "" if that rule is another one.

    All of ALFWorld's games share one grammar but for this sentence: the shared part is parsed once.
    """
    goals = GOAL.findall(source)
    if len(goals) == 1:
        shared = _parse(GOAL.sub(f'Your task is to: {_PLACEHOLDER}."', source))
        [rule, *others] = shared.rules.get("task", (None,))
        if rule and not others and not rule.condition and len(rule.symbols) == 1:
            [symbol] = rule.symbols
            if isinstance(symbol, textgen.TerminalSymbol) and symbol.symbol == f"Your task is to: {_PLACEHOLDER}.":
                return shared, f"Your task is to: {goals[0]}."
    return _parse(source), ""


@functools.lru_cache(maxsize=16)
def _parse(source: str) -> _Parsed:
    try:
        with PARSING:
            logic = GameLogic(domain="", grammar=source)
    except Exception as error:  # TatSu and json raise many kinds
        raise EngineError(f"the game's grammar does not parse: {error}".splitlines()[0]) from error
    actions = {name: Template(a.template, a.feedback_rule) for name, a in logic.actions.items()}
    rules = {
        name: tuple(GrammarRule(rule.condition, tuple(rule.rhs)) for rule in rules)
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
