"""What interface code is told of the real simulator: what upstream's environment tells it."""

from __future__ import annotations

import pytest

from align_echo.errors import UsageError
from align_echo.interface.contract import load_interface
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.scienceworld.env import ScienceWorldEnv
from align_echo.wrappers.scienceworld.spec import CONTRACT
from tests.play import interface, source
from tests.wrappers.scienceworld.conftest import needs_engine, play_gold

pytestmark = needs_engine

BOIL = "boil/easy/21"
LIFE = "lifespan-longest-lived/easy/93"
SUBSTANCE = "pick up substance"
"""Raises a question in `BOIL`."""

ACT = "obs, _, done, info = env.step(agent_action)\n"
LOOKS = "for view in ('look around', 'inventory', 'task'):\n    env.step(view)\n"


def behind(env: ScienceWorldEnv, body: str) -> AlignWrapper:
    """The environment behind interface code with this body of `WrapStep`. It is not closed: the simulator is shared."""
    return AlignWrapper(env, interface(source(body), CONTRACT))


@pytest.mark.parametrize("action", ["Open Door To The Kitchen", "  look   AROUND", "a thermometer"])
def test_the_agents_action_is_its_own_in_other_letters_without_articles(env, action):
    env.reset(options={"task": BOIL})
    raw = env.step(action)[0]
    said = "' '.join(w for w in agent_action.lower().split() if w not in ('the', 'a'))"
    wrapped = behind(env, f"obs, _, done, info = env.step({said})\nreturn obs, done, info['score']")
    wrapped.reset(options={"task": BOIL})
    shown, _, _, _, info = wrapped.step(action)
    assert shown == raw
    assert (info["violations"], info["interface_error"]) == ((), "")


def test_a_look_reads_as_the_engine_answers_the_agent(env):
    """At each moment of an expert's episode, each look of interface code is the text that the same action brings."""
    looking = behind(env, "return '<>'.join(env.step(v)[0] for v in ('Look around', 'inventory', 'task')), False, 0")
    gold = [action for action, _ in play_gold(env, LIFE)[1:-1]]
    looking.reset(options={"task": LIFE})
    for action in gold:
        shown = looking.step("xyzzy")[0].split("<>")
        moment = env.snapshot()
        assert shown == [env.step(look)[0] for look in CONTRACT.read_only_actions]
        assert shown == [env.probe(look) for look in CONTRACT.read_only_actions]
        assert not shown[0].endswith("\n")
        assert shown[2].startswith("Task description:\n")
        env.restore(moment)
        env.step(action)


def test_looks_of_interface_code_leave_no_trace(env):
    gold = play_gold(env, LIFE)[1:]
    looking = behind(env, f"{LOOKS}{ACT}{LOOKS}return obs, done, info['score']")
    looking.reset(options={"task": LIFE})
    assert [(action, looking.step(action)[0]) for action, _ in gold] == gold
    assert env.info(None)["engine_calls"] > 3 * len(gold)


def test_interface_code_is_told_the_score_of_minus_100(env):
    wrapped = behind(env, ACT + "return str(info['score']), done, info['score']")
    wrapped.reset(options={"task": LIFE})
    assert wrapped.step("look around")[0] == "0"
    shown, _, terminated, _, info = wrapped.step("focus on air")
    assert (shown, terminated, info["score"], info["won"]) == ("-100", True, 0.0, False)


@pytest.mark.parametrize(("look", "ends"), [("look around", True), ("inventory", True), ("task", False)])
def test_a_look_of_interface_code_ends_a_question_as_it_does_upstream(env, look, ends):
    env.reset(options={"task": BOIL})
    upstream = [env.step(action)[0] for action in (SUBSTANCE, look, "0", "look around")]
    wrapped = behind(env, ACT + f"if obs[:9] == 'Ambiguous':\n    obs += env.step({look!r})[0]\nreturn obs, done, 0")
    wrapped.reset(options={"task": BOIL})
    shown = [wrapped.step(action)[0] for action in (SUBSTANCE, "0", "look around")]
    assert shown == [upstream[0] + upstream[1], *upstream[2:]]
    assert (shown[1] == "No known action matches that input.") is ends
    assert env.info(None)["turns"] == 3


def test_a_moment_after_a_look_that_ended_a_question_is_come_back_to(env):
    wrapped = behind(env, ACT + "if obs[:9] == 'Ambiguous':\n    env.step('inventory')\nreturn obs, done, 0")
    wrapped.reset(options={"task": BOIL})
    wrapped.step(SUBSTANCE)
    moment = env.snapshot()
    wrapped.step("wait1")
    env.restore(moment)
    assert env.step("0")[0] == "No known action matches that input."


def test_only_looks_are_looks(env):
    env.reset(options={"task": BOIL})
    with pytest.raises(UsageError, match="not a read-only action"):
        env.look("close door to kitchen")


def test_a_look_of_an_experimenter_leaves_a_question_open(env):
    env.reset(options={"task": BOIL})
    env.step(SUBSTANCE)
    assert [env.probe(look) for look in ("inventory", "task")][1].startswith("Task description:")
    assert not env.step("0")[0].startswith(("Unknown", "No known"))


def test_the_shipped_interface_leaves_the_agent_its_question(env):
    wrapped = AlignWrapper(env, load_interface("scienceworld/probe", CONTRACT))
    wrapped.reset(options={"task": BOIL})
    raw = [wrapped.step(action)[4]["raw_observation"] for action in ("look around", SUBSTANCE, "0")]
    assert raw[1].startswith("Ambiguous request")
    assert not raw[2].startswith(("Unknown", "No known"))
