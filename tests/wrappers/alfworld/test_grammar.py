"""The remembered grammar: same text as TextWorld's own, and nothing in a game file is executed."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textworld.envs.pddl.textgen import ContextSensitiveGrammar
from textworld.generator.game import EntityInfo
from textworld.logic import GameLogic, Placeholder, Proposition, State, Type, Variable

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld import upstream
from align_echo.wrappers.alfworld.grammar import Grammar, Scene

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
    ]
)
RULES = {
    "greet": [{"condition": "big(r:r)", "rhs": "big {r.name} "}, {"rhs": "there is #list_empty# "}],
    "one(o)": [{"condition": "big(o:o)", "rhs": "<{o.name}>"}, {"rhs": "({o.name})"}],
    "list_empty": [{"rhs": "nothing"}],
    "list_separator": [{"rhs": ", "}],
    "list_last_separator": [{"rhs": ", and "}],
}


def scene_of(inside: Iterable[int], big: Iterable[int]) -> Scene:
    logic = GameLogic()
    for name in ("r", "o"):
        logic.types.add(Type(name, []))
    facts = [Proposition("in", [CUPS[i], TABLE]) for i in inside] + [Proposition("big", [CUPS[i]]) for i in big]
    entities = {}
    for variable in (TABLE, *CUPS):
        info = EntityInfo(variable.name, variable.type)
        info.name, info.indefinite = f"{variable.name} 1", "a"
        entities[variable.name] = info
    return Scene(State(logic, facts), entities)


@pytest.fixture(scope="module")
def ours():
    action = 'action go { template :: "go"; feedback :: "#greet#"; }'
    return Grammar(f'grammar :: """{json.dumps(RULES)}""";\n{action}')


@given(parts=st.lists(PARTS, min_size=1, max_size=4), inside=st.sets(st.integers(0, 2)), big=st.sets(st.integers(0, 2)))
def test_any_template_reads_as_in_textworld(ours, parts, inside, big):
    scene = scene_of(inside, big)
    bindings = {Placeholder("r", "r"): TABLE}
    context = {
        "state": scene.state,
        "facts": list(scene.state.facts),
        "variables": {"r": scene.entities["table"]},
        "mapping": bindings,
        "entity_infos": scene.entities,
    }
    text = "".join(parts)
    theirs = ContextSensitiveGrammar.parse(json.dumps(RULES)).derive(text, context)
    assert ours.derive(text, scene, bindings) == theirs


@pytest.mark.parametrize("expression", ["__import__('os')", "r.__class__", "r.name.upper()", "open", "1 + 1"])
def test_expressions_cannot_run_code(ours, expression):
    with pytest.raises(EngineError, match="expression"):
        ours.derive(f"{{{expression}}}", scene_of([], []), {Placeholder("r", "r"): TABLE})


def test_the_goal_is_read_whatever_it_says(ours):
    for goal in ("put a clean plate in microwave", "Wash the plate, then put it away; quickly!"):
        grammar = Grammar(upstream.grammar_text().replace("UNKNOWN GOAL", goal))
        assert grammar.derive("#task#", scene_of([], []), {}) == f"Your task is to: {goal}."


def test_a_broken_grammar_is_one_clear_line():
    with pytest.raises(EngineError, match="grammar does not parse") as caught:
        Grammar("action {")
    assert "\n" not in str(caught.value)
