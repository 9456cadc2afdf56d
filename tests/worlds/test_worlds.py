"""The made-up worlds that the probe is measured on: what is called true of them is true, and they play as engines."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from gymnasium.utils.env_checker import check_env

from align_echo.types import AgentView, Turn
from tests.worlds.agents import commanded, obedient
from tests.worlds.env import WorldEnv
from tests.worlds.features import REFUSALS, SPELLINGS, draw_features
from tests.worlds.grammar import Pair
from tests.worlds.measure import Claims, Size, claims_of, false_claims, learn, true_claims, truths
from tests.worlds.worlds import (
    World,
    after,
    held_out_tasks,
    make_world,
    possible,
    task_of,
    train_tasks,
    unmet,
)

SEEDS = range(12)


def env_of(seed: int, **features: object) -> WorldEnv:
    world = make_world(seed, **features)
    return WorldEnv(world, train_tasks(world, 3))


def texts_of_walk(env: WorldEnv, task_id: str) -> list[object]:
    """The texts of a walk that tries possible and impossible actions."""
    texts: list[object] = [env.reset(options={"task": task_id})]
    rng = random.Random(task_id)
    for _ in range(12):
        action = rng.choice([*env.possible(), "zzz", rng.choice(sorted(task_of(env.world, task_id).actions))])
        texts.append((action, env.step(action)))
        if env.over:
            break
    return texts


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_makes_the_same_world_and_the_same_texts(seed: int):
    first, again = env_of(seed), env_of(seed)
    assert (first.world.features, first.world.forms, first.world.truth) == (
        again.world.features,
        again.world.forms,
        again.world.truth,
    )
    assert texts_of_walk(first, first.task_ids[0]) == texts_of_walk(again, again.task_ids[0])


def test_features_can_be_set_and_the_others_are_drawn():
    assert make_world(5, spelling="codes").features == replace(draw_features(random.Random(5)), spelling="codes")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_world_passes_the_checks_of_gymnasium(spelling: str):
    check_env(env_of(3, spelling=spelling), skip_render_check=True)


@pytest.mark.parametrize("seed", range(60))
def test_a_world_is_won_on_its_own_route(seed: int):
    env = env_of(seed)
    _, info = env.reset(options={"task": env.task_ids[0]})
    while (action := env.oracle().expert_action()) is not None:
        assert action in env.possible()
        _, _, _, _, info = env.step(action)
    assert info["won"]


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_what_is_possible_is_what_nothing_is_missing_for(seed: int):
    world, rng = make_world(seed), random.Random(seed)
    task = task_of(world, train_tasks(world, 1)[0])
    now = task.start
    for _ in range(40):
        allowed = possible(world, task, now)
        assert allowed == sorted(action for action in task.actions if unmet(world, task, now, action) == [])
        now = after(world, task, now, rng.choice(allowed))


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refused_action_changes_nothing_and_is_answered_in_the_world_s_style(refusal: str):
    env = env_of(7, refusal=refusal)
    opening, _ = env.reset(options={"task": env.task_ids[0]})
    before = env.situation
    refused = sorted(set(task_of(env.world, env.task_ids[0]).actions) - set(env.possible()))
    answers = {action: env.step(action)[0] for action in refused[:12]}
    assert env.situation == before
    if refusal == "silent":
        assert set(answers.values()) == {opening}
    elif refusal == "quoted":
        assert all(action in answer for action, answer in answers.items())
    else:
        assert (len(set(answers.values())) == 1) == (refusal == "one")


def test_snapshots_bring_back_what_was_possible():
    env = env_of(8)
    env.reset(options={"task": env.task_ids[0]})
    env.step(env.possible()[0])
    snapshot, possible, situation = env.snapshot(), env.possible(), env.situation
    for action in env.oracle().rest:
        env.step(action)
    env.reset(options={"task": env.task_ids[1]})
    env.restore(snapshot)
    assert (env.possible(), env.situation, env.over) == (possible, situation, False)


def test_train_and_test_tasks_share_nothing():
    world = make_world(9)
    openings = [
        {WorldEnv(world, ids).reset(options={"task": task})[0] for task in ids}
        for ids in (train_tasks(world, 20), held_out_tasks(world, 20))
    ]
    assert not openings[0] & openings[1]


def forked(world: World) -> set[Pair]:
    """Pairs (form, needed form) that a walk shows: refused, and possible once the one step was done. Asks the engine.

    Left out are pairs of which something else is missing as well in every state of the walk.
    """
    env = WorldEnv(world, train_tasks(world, 3))
    shown: set[Pair] = set()
    for task_id in env.task_ids:
        env.reset(options={"task": task_id})
        task, rng = task_of(world, task_id), random.Random(task_id)
        while not env.over:
            here = env.snapshot()
            refused = [text for text in task.actions if text not in env.possible()]
            for text in rng.sample(refused, 15):
                missing = unmet(world, task, env.situation, text)
                if missing and len(missing) == 1 and missing[0] in env.possible():
                    env.step(missing[0])
                    assert text in env.possible()
                    shown.add((task.actions[text][0].template, task.actions[missing[0]][0].template))
                    env.restore(here)
            env.step(rng.choice(env.possible()))
    return shown


@pytest.mark.parametrize("seed", [0, 3, 5, 7])
def test_what_is_needed_is_what_makes_a_refused_action_possible(seed: int):
    world = make_world(seed)
    shown = forked(world)
    assert shown <= world.truth.needs
    assert len(shown) > len(world.truth.needs) / 2


def test_undoing_leads_back_to_where_it_was():
    world = make_world(0)
    task = task_of(world, "world-0/0")
    last, close = (world.forms[role].template for role in ("prepare2", "close"))
    assert (last, close) in world.truth.undo
    now = task.start
    for action in WorldEnv(world, ["world-0/0"]).oracle().rest[:3]:
        now = after(world, task, now, action)
    names = {"holder": now.here}
    done = after(world, task, now, world.forms["prepare2"].write(names))
    assert done != now
    assert after(world, task, done, world.forms["close"].write(names)) == now


def view(task_id: str, *turns: tuple[str, str]) -> AgentView:
    return AgentView(
        task_id=task_id,
        action_format="",
        goal="",
        rules="",
        initial_observation="",
        turns=tuple(Turn(reply=action, action=action, observation=shown) for action, shown in turns),
    )


@pytest.mark.parametrize("message", ["`{}`", "you need to `{}` first.", "write '{}' instead", "you need to {} first"])
def test_an_obedient_agent_does_what_it_is_told(message: str):
    world = make_world(7)
    task = task_of(world, "world-7/0")
    command = sorted(task.actions)[3]
    shown = view("world-7/0", ("zzz", f"`zzz` is not understood; {message.format(command)}"))
    assert obedient(world).act(shown).action == command
    assert commanded(task, "Nothing here is told.", "zzz") == ""


def test_an_agent_that_errs_says_the_wrong_words_and_leaves_a_step_out():
    world = make_world(0, wrong_words=2, skipped=1)
    assert len(world.wrong) == 2
    words = {template.split()[0] for template in world.wrong.values()}
    first = obedient(world).act(view("world-0/0")).action or ""
    skipped = {world.forms[role].template.split()[0] for role in world.skipped}
    assert first.split()[0] not in skipped
    assert not words & {form.template.split()[0] for form in world.forms.values()}


def test_rules_are_held_against_the_truth_by_form():
    world = make_world(0)
    need, wording, undo = (sorted(getattr(world.truth, sort))[0] for sort in ("needs", "wordings", "undo"))
    claims = Claims(frozenset({need, (need[0], "zzz {0}")}), frozenset({undo[::-1]}), frozenset({wording}))
    assert {sort: len(pairs) for sort, pairs in true_claims(world, claims).items()} == dict.fromkeys(truths(world), 1)
    assert false_claims(world, claims) == (f"`{need[0]}` needs `zzz {{0}}`",)


@pytest.mark.long
def test_a_world_with_numbered_names_listed_actions_and_one_refusal_is_learned():
    small = {"depth": 1, "travel": "none", "whence": False, "undo": True, "goal": "stow", "looks": False}
    habits = {"wrong_words": 1, "skipped": 1, "shown": True}
    world = make_world(1, spelling="numbers", refusal="one", listed=True, **small, **habits)
    interface, refused = learn(world, Size(train=2, fresh=2))
    assert refused == ""
    assert sum(map(len, true_claims(world, claims_of(interface.source)).values())) > 0
