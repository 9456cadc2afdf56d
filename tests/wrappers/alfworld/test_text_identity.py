"""The engine says exactly what the unmodified TextWorld engine says, on the same games and actions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from align_echo.wrappers.alfworld import oracle as upstream
from align_echo.wrappers.alfworld.data import load_embedded, read_json
from align_echo.wrappers.alfworld.oracle import HouseOracle
from align_echo.wrappers.alfworld.spec import GAME, TRAJECTORY

GAMES = [
    ("look_at_obj_in_light", 308, 25),
    ("pick_two_obj_and_place", 424, 25),
    ("pick_heat_then_place_in_recep", 29, 15),
]
REFUSED = ["look around", " inventory", "go to nowhere", "Look", "take mug 1 from fridge 1", "", "{}"]


def unmodified(path: Path) -> Any:
    upstream.load("alfworld.agents.environment.alfred_tw_env")
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld import EnvInfos
    from textworld.envs import PddlEnv

    env = AlfredDemangler(PddlEnv(EnvInfos(won=True, admissible_commands=True, facts=True)), shuffle=False)
    env.load(str(path))
    return env


@pytest.mark.long
@pytest.mark.parametrize(("task_type", "plan", "steps"), GAMES)
def test_expert_and_random_play_give_upstreams_text(task_type, plan, steps, engine, load):
    ids = load_embedded().ids("valid_unseen")
    task_id = next(id_ for id_ in ids if f"/{task_type}-" in id_ and f"-{plan}/" in id_)
    game, folder = load(task_id)
    theirs = unmodified(folder / GAME)
    state = theirs.reset()
    intro = engine.reset(game)
    oracle = HouseOracle(engine, intro, read_json(folder / TRAJECTORY))
    assert intro == state.feedback
    rng = random.Random(task_id)
    for step in range(steps):
        assert list(engine.admissible) == state["admissible_commands"]
        choice = rng.random()
        action = oracle.expert_action() if choice < 0.5 else rng.choice(engine.admissible)
        if choice > 0.9 or action is None:
            action = rng.choice(REFUSED)
        state, _, _ = theirs.step(action)
        answer = engine.step(action)
        oracle.record(action.strip(), answer)
        assert (step, action, answer) == (step, action, state.feedback)
        assert engine.won == state["won"]
        assert sorted(engine.sight.facts()) == sorted((fact.name, fact.names) for fact in state["_facts"])
