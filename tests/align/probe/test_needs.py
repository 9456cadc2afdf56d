"""What an action always needs is learned where nothing shows what would be enough; who obeys wins by it."""

from __future__ import annotations

import pytest

from align_echo.interface.rules.model import AlwaysNeeds
from align_echo.interface.rules.situations import IsNot
from tests.worlds.agents import obedient
from tests.worlds.measure import Size, learn, lists_of, played
from tests.worlds.worlds import World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    """One has to go to a room first, and before that nothing tells what is in its holders."""
    return make_world(7)


@pytest.fixture(scope="module")
def learned(world: World):
    return learn(world, Size())[0]


@pytest.mark.long
def test_a_need_is_learned_and_said_as_one(world: World, learned):
    lists = lists_of(learned.source)
    needs = [rule for rule in lists.situation_rules if isinstance(rule, AlwaysNeeds)] if lists else []
    assert needs
    assert all(isinstance(rule.when[0], IsNot) and rule.step.form == world.forms["go"].template for rule in needs)
    assert all("is possible only after" in rule.say for rule in needs)


@pytest.mark.long
def test_an_agent_that_obeys_wins_by_it_and_not_by_its_placebo(world: World, learned):
    won = played(world, obedient(world), learned, 12)
    assert won["without"] == won["placebo"] == 0
    assert won["with"] >= 6
