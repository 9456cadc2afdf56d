"""How refusals look is learned from answers, in worlds made from seeds, whether the engine lists its actions or not."""

from __future__ import annotations

import random

import pytest

from align_echo.align.probe.lab import Lab
from align_echo.align.probe.rules import listed_refusals, unlisted_refusals
from align_echo.rollout.batches import failed, run_tasks
from align_echo.types import Trajectory
from tests.worlds.agents import obedient
from tests.worlds.env import WorldEnv
from tests.worlds.features import REFUSALS
from tests.worlds.worlds import World, make_world, train_tasks


def shapes_of(world: World) -> list[str]:
    style, texts = world.features.refusal, world.refusals
    if style == "silent":
        return ["{same}"]
    if style == "quoted":
        return [f"{texts[0].rstrip('.')}: {{action}}."]
    return sorted(texts) if style == "several" else [texts[0]]


def failures(world: World) -> list[Trajectory]:
    tasks = train_tasks(world, 10)
    return failed(run_tasks(lambda: WorldEnv(world, tasks), obedient(world), tasks, split="train"))


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("seed", [3, 8, 17, 34])
def test_a_style_of_refusal_is_known_where_actions_are_listed(seed: int, refusal: str):
    world = make_world(seed, refusal=refusal, listed=True, spelling="numbers")
    lab = Lab(WorldEnv(world, train_tasks(world, 10), 10**6))
    assert listed_refusals(lab, failures(world), random.Random(0)) == shapes_of(world)


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("seed", [3, 8, 17, 34])
def test_a_style_of_refusal_is_known_where_nothing_is_listed(seed: int, refusal: str):
    world = make_world(seed, refusal=refusal, listed=False)
    assert unlisted_refusals(failures(world)) == shapes_of(world)
