"""A changed domain or grammar is followed exactly as TextWorld follows it, or refused by name."""

from __future__ import annotations

import random

import pytest

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld.data import load_embedded, read_json
from align_echo.wrappers.alfworld.fast.engine import FastEngine
from align_echo.wrappers.alfworld.fast.sas import read_sas
from align_echo.wrappers.alfworld.oracle import GameSpec, HouseOracle
from align_echo.wrappers.alfworld.reference import ReferenceEngine
from align_echo.wrappers.alfworld.spec import GAME, TRAJECTORY
from align_echo.wrappers.alfworld.translation import translate

SMALL = next(id_ for id_ in load_embedded().ids("valid_unseen") if id_.split("/")[1].endswith("-424"))


@pytest.fixture(scope="module")
def texts() -> tuple[str, str, str]:
    record = read_json(load_embedded().folder(SMALL) / GAME)
    return record["pddl_domain"], record["grammar"], record["pddl_problem"]


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def other_grammar(texts: tuple[str, str, str]) -> GameSpec:
    """Another text, and a list of what is open that joins two queries."""
    domain, grammar, problem = texts
    grammar = grammar.replace(
        '"rhs": "You are not carrying anything."',
        '"rhs": "Empty hands. Shut: [{r.name | openable(r:receptacle)}]; open: '
        "[{r.name | openable(r:receptacle) & opened(r:receptacle)}]"
        '; you stood at [{l.id | not_atlocation(a:agent, l:location)}]."',
    )
    return GameSpec(domain, grammar, problem)


def other_domain(texts: tuple[str, str, str]) -> GameSpec:
    """To open something while another is open shuts it again by a conditional effect; what was opened stays checked."""
    domain, grammar, problem = texts
    effect = "(opened ?r)\n                (checked ?r)"
    shut = "(forall (?o - receptacle) (when (and (opened ?o) (not (= ?o ?r))) (not (opened ?o))))"
    return GameSpec(replaced(domain, effect, f"{effect}\n                {shut}"), grammar, problem)


@pytest.mark.long
@pytest.mark.parametrize("change", [other_grammar, other_domain])
def test_changed_rules_are_followed(change, texts):
    game = change(texts)
    fast, real = FastEngine(), ReferenceEngine()
    assert fast.reset(game) == real.reset(game)
    rng = random.Random(1)
    for _ in range(30):
        assert fast.admissible == real.admissible
        assert sorted(fast.sight.facts()) == sorted(real.sight.facts())
        opening = [command for command in fast.admissible if command.startswith(("open", "inventory"))]
        command = rng.choice(opening if rng.random() < 0.6 else fast.admissible)
        assert (command, fast.step(command)) == (command, real.step(command))


@pytest.mark.long
def test_the_facts_of_a_lamp_switched_twice_are_textworlds():
    """Its conditional effects cancel out in TextWorld's facts, whatever the lamp does."""
    unseen = load_embedded().ids("valid_unseen")
    task = next(id_ for id_ in unseen if "look_at" in id_ and id_.split("/")[1].endswith("-308"))
    folder = load_embedded().folder(task)
    record = read_json(folder / GAME)
    game = GameSpec(record["pddl_domain"], record["grammar"], record["pddl_problem"])
    fast, real = FastEngine(), ReferenceEngine()
    route = HouseOracle(fast, fast.reset(game), read_json(folder / TRAJECTORY)).route() or []
    real.reset(game)
    assert route[-1].startswith("use ")
    for command in (*route, route[-1], route[-1]):
        assert fast.step(command) == real.step(command)
        assert sorted(fast.sight.facts()) == sorted(real.sight.facts())
        assert (fast.won, fast.admissible) == (real.won, real.admissible)


def test_a_command_that_depends_on_what_changes_is_refused(texts):
    domain, grammar, problem = texts
    grammar = replaced(
        grammar, 'template :: "inventory"', 'template :: "inventory[{o.name | holds(a:agent, o:object)}]"'
    )
    with pytest.raises(EngineError, match="command of the action inventory depends on what changes"):
        FastEngine().reset(GameSpec(domain, grammar, problem))


def test_an_action_without_a_text_is_refused(texts):
    domain, grammar, problem = texts
    with pytest.raises(EngineError, match="no action help"):
        FastEngine().reset(GameSpec(domain, replaced(grammar, "action help {", "action halp {"), problem))


def test_a_translation_of_another_shape_is_refused(texts):
    sas = translate(texts[0], texts[2]).sas
    for old, new in (("begin_version\n3", "begin_version\n4"), ("NegatedAtom ", "<none of those> ")):
        with pytest.raises(EngineError, match="not understood"):
            read_sas(sas.replace(old, new, 1))
    with pytest.raises(EngineError, match="not understood"):
        read_sas(sas[: len(sas) // 2])
