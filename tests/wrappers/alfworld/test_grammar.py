"""Compiled templates: same text as TextWorld's own, remembered safely; nothing in a game file is executed."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textworld.envs.pddl.textgen import ContextSensitiveGrammar
from textworld.generator.game import EntityInfo
from textworld.logic import GameLogic, Placeholder, Proposition, State, Type, Variable

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld.fast.compiler import plain, plain_rules
from align_echo.wrappers.alfworld.fast.text import TemplateCompiler, TextEntity
from align_echo.wrappers.alfworld.games import tables
from align_echo.wrappers.alfworld.grammar import GameGrammar, read_grammar

TABLE = Variable("table", "r")
CUPS = [Variable("cup1", "o"), Variable("cup2", "o"), Variable("cup3", "o")]

PARTS = st.sampled_from(
    [
        "Hello. ",
        "#greet#",
        "{r.name}",
        "{r}",
        "{r.indefinite + ' ' + r.name}",
        "[{o.name | in(o:o, r:r)}]",
        "[{o.indefinite + ' ' + o.name | in(o:o, r:r) & big(o:o)}]",
        "{#one(o)# | in(o:o, r:r)}",
        "{r.desc or r.id}",
        "[{o.name | in(o:o, r:r) & in(p:o, r:r) & big(p:o)}]",
    ]
)
RULES = {
    "greet": [{"condition": "big(r:r)", "rhs": "big {r.name} "}, {"rhs": "there is #list_empty# "}],
    "one(o)": [{"condition": "big(o:o)", "rhs": "<{o.name}>"}, {"rhs": "({o.name})"}],
    "list_empty": [{"rhs": "nothing"}],
    "list_separator": [{"rhs": ", "}],
    "list_last_separator": [{"rhs": ", and "}],
}


BITS = {("in", 0): 0, ("in", 1): 1, ("in", 2): 2, ("big", 0): 3, ("big", 1): 4, ("big", 2): 5}
BOUND = (("r", "r"),)


def told_by_textworld(rules: Mapping[str, Any], text: str, inside: Iterable[int], big: Iterable[int]) -> str:
    logic = GameLogic()
    for name in ("r", "o"):
        logic.types.add(Type(name, []))
    facts = [Proposition("in", [CUPS[i], TABLE]) for i in inside] + [Proposition("big", [CUPS[i]]) for i in big]
    entities = {}
    for variable in (TABLE, *CUPS):
        info = EntityInfo(variable.name, variable.type)
        info.name, info.indefinite = f"{variable.name} 1", "a"
        entities[variable.name] = info
    context = {
        "state": State(logic, facts),
        "facts": facts,
        "variables": {"r": entities["table"]},
        "mapping": {Placeholder("r", "r"): TABLE},
        "entity_infos": entities,
    }
    return str(ContextSensitiveGrammar.parse(json.dumps(rules)).derive(text, context))


def signatures(predicate: str, types: Iterable[str]) -> list[str]:
    known = {"in": "in o r", "big": "big o"}
    return [known[predicate]] if list(types) == known[predicate].split()[1:] else []


def facts_of(signature: str) -> list[tuple[tuple[int, ...], int]]:
    """Variables are numbered: the table is 0, the cups are 1 to 3."""
    predicate = signature.split()[0]
    ends = (0,) if predicate == "in" else ()
    return [((cup + 1, *ends), BITS[predicate, cup]) for cup in range(3)]


def state_of(inside: Iterable[int], big: Iterable[int]) -> int:
    return sum(1 << BITS["in", cup] for cup in inside) + sum(1 << BITS["big", cup] for cup in big)


def grammar_of(rules: Mapping[str, Any]) -> GameGrammar:
    action = 'action go { template :: "go"; feedback :: "#greet#"; }'
    return read_grammar(f'grammar :: """{json.dumps(rules)}""";\n{action}')


def speaker_of(rules: Mapping[str, Any]) -> TemplateCompiler:
    entities = [TextEntity(variable.name, variable.type, f"{variable.name} 1") for variable in (TABLE, *CUPS)]
    return TemplateCompiler(plain_rules(grammar_of(rules), signatures), entities, facts_of)


@pytest.fixture(scope="module")
def ours():
    return speaker_of(RULES)


SUBSETS = st.sets(st.integers(0, 2))


@pytest.mark.long
@given(parts=st.lists(PARTS, min_size=1, max_size=4), inside=SUBSETS, big=SUBSETS)
def test_any_template_reads_as_in_textworld(ours, parts, inside, big):
    text = "".join(parts)
    spell = ours.template(plain(text, signatures), BOUND)
    assert spell(state_of(inside, big), (0,), [0]) == told_by_textworld(RULES, text, inside, big)


@given(parts=st.lists(PARTS, min_size=1, max_size=4), inside=SUBSETS, big=SUBSETS, other=st.integers(0, 63))
def test_the_text_depends_on_no_other_bits_than_it_says(ours, parts, inside, big, other):
    spell = ours.template(plain("".join(parts), signatures), BOUND)
    state = state_of(inside, big)
    seen = [0]
    text = spell(state, (0,), seen)
    assert spell((state & seen[0]) | (other & ~seen[0]), (0,), [0]) == text


@pytest.mark.parametrize("expression", ["__import__('os')", "r.__class__", "r.name.upper()", "open", "1 + 1", "r.nam"])
def test_expressions_cannot_run_code(ours, expression):
    with pytest.raises(EngineError, match=r"expression|nothing is called so"):
        ours.template(plain(f"{{{expression}}}", signatures), BOUND)


def test_what_is_missing_or_endless_is_refused_by_name():
    for rules, name in (({}, "greet"), ({"greet": [{"rhs": "and #greet#"}]}, "greet")):
        with pytest.raises(EngineError, match=f"#{name}#"):
            speaker_of(rules).template(plain("#greet#", signatures), BOUND)


def rule_of(grammar: GameGrammar, name: str) -> str:
    return "".join(str(symbol) for symbol in grammar.rules[name][0].symbols)


@pytest.mark.parametrize(
    "sentence",
    [
        "Your task is to: put a clean plate in microwave.",
        "Your task is to: Wash the plate, then put it away; quickly!.",
        "Hurry up! Your task is to: put a clean plate in microwave.",
        "#list_empty# Your task is to: put a clean plate in microwave.",
    ],
)
def test_the_goal_is_read_whatever_it_says(sentence):
    source = tables().grammar.replace("Your task is to: UNKNOWN GOAL.", sentence)
    assert rule_of(read_grammar(source), "task") == sentence.replace("#", "")


class Meeting(dict[str, Any]):
    """Rules that are handed out to two threads at once."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        super().__init__(rules)
        self._barrier = threading.Barrier(2)

    def __getitem__(self, name: str) -> Any:
        self._barrier.wait(timeout=60)
        return super().__getitem__(name)


def test_threads_that_compile_the_same_rule_at_once_do_not_take_it_for_endless():
    rules = Meeting(plain_rules(grammar_of({"greet": [{"rhs": "hello"}]}), signatures))
    speaker = TemplateCompiler(rules, [], facts_of)
    with ThreadPoolExecutor(2) as pool:
        spells = list(pool.map(lambda _: speaker.template(plain("#greet#", signatures), BOUND), range(2)))
    assert [spell(0, (0,), [0]) for spell in spells] == ["hello", "hello"]


def test_a_rule_that_could_not_be_compiled_is_not_taken_for_endless_the_next_time():
    speaker = speaker_of({"greet": [{"rhs": "{nobody.name}"}]})
    for _ in range(2):
        with pytest.raises(EngineError, match="nothing is called so"):
            speaker.template(plain("#greet#", signatures), BOUND)


def test_a_broken_grammar_is_one_clear_line():
    with pytest.raises(EngineError, match="grammar does not parse") as caught:
        read_grammar("action {")
    assert "\n" not in str(caught.value)


def test_an_expression_with_an_escape_is_read_where_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        speak = speaker_of(RULES)._value(r"r.name + '\d'", BOUND)
    assert speak(0, (0,), []) == r"table 1\d"


@pytest.mark.parametrize("expression", ["", "r.name; r.name", "r = 1", "r.name +", "pass"])
def test_what_is_no_expression_is_refused(expression):
    with pytest.raises(EngineError, match="does not parse"):
        speaker_of(RULES)._value(expression, BOUND)
