"""Forms of actions and names are learned from what agents said, without lists: those of the world, and no others."""

from __future__ import annotations

import pytest

from align_echo.align.probe.effects.forms import learn_vocabulary
from align_echo.align.probe.lab import Lab
from align_echo.interface.rules.actions import ActionGrammar
from align_echo.rollout.batches import run_tasks
from tests.worlds.agents import obedient
from tests.worlds.env import STEP_LIMIT, WorldEnv
from tests.worlds.worlds import make_world, task_of, train_tasks

WORLDS = {2001: "numbers", 2002: "several words, two names side by side", 2011: "words"}


@pytest.mark.parametrize("seed", WORLDS, ids=WORLDS.values())
def test_forms_and_names_are_those_of_the_world(seed: int):
    world = make_world(seed, listed=False, offers=False)
    tasks = train_tasks(world, 10)
    played = run_tasks(lambda: WorldEnv(world, tasks, STEP_LIMIT), obedient(world), tasks, split="train")
    forms, _, names = learn_vocabulary(Lab(WorldEnv(world, tasks, STEP_LIMIT)), played, [])
    true = {form.template for form in world.forms.values()} | set(world.wrong.values())
    assert {form.name for form in forms} - {*world.looks} <= true
    grammar = ActionGrammar(forms, names)
    said = {step.action for episode in played for step in episode.steps if step.action}
    known = {action: task_of(world, task).actions.get(action) for task in tasks for action in said}
    for action, (form, given) in ((action, known) for action, known in known.items() if known):
        reading = grammar.read(action)
        assert reading is not None
        assert (reading.tree.form, reading.tree.arguments) == (form.template, tuple(given[kind] for kind in form.kinds))
