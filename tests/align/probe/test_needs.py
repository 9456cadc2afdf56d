"""What an action always needs is learned where nothing shows what would be enough; who obeys wins by it."""

from __future__ import annotations

import pytest

from align_echo.align.probe.emit import read_spec
from align_echo.align.probe.spec import merge_specs
from tests.worlds.agents import obedient
from tests.worlds.measure import Size, learn, played
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
    spec = read_spec(learned.source) or {}
    needs = [row for rows in spec["templates"].values() for row in rows if row.get("must")]
    assert needs
    assert all(row["if"][0][0] == "not" and row["then"][0] == world.forms["go"].template for row in needs)
    assert "is possible only after" in learned.source


@pytest.mark.long
def test_an_agent_that_obeys_wins_by_it_and_not_by_its_placebo(world: World, learned):
    won = played(world, obedient(world), learned, 12)
    assert won["without"] == won["placebo"] == 0
    assert won["with"] >= 6


@pytest.mark.long
def test_what_an_older_interface_knows_is_kept(learned):
    spec = read_spec(learned.source) or {}
    older = {part: known for part, known in spec.items() if part != "needs"}
    older["pairs"] = [pair[:2] for pair in spec["pairs"]]
    joined = merge_specs(older, spec)
    assert joined["templates"] == spec["templates"]
    assert [pair[:2] for pair in joined["pairs"]] == older["pairs"]
    assert all(len(pair) == 3 for pair in joined["pairs"])
