"""The embedded games: what is listed, that they are the same everywhere, and that they can be won."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.errors import UsageError
from align_echo.wrappers.alfworld import data, task_ids, training_tasks
from align_echo.wrappers.alfworld.build_manifest import SIZES
from align_echo.wrappers.alfworld.data import read_json
from align_echo.wrappers.alfworld.games import ALFRED_UNSEEN, ROOMS, SEEN, UNSEEN, floor_plan, write_game
from align_echo.wrappers.alfworld.spec import GAME, STEP_LIMIT, TASK_TYPES, task_type

SPLITS = ("train", "valid_seen", "valid_unseen")

FINGERPRINT = """
import hashlib, sys
from align_echo.wrappers.alfworld import make_env
from align_echo.wrappers.alfworld.games import write_game
env = make_env(split="valid_unseen", data_root=None, step_limit=None)
for task in sys.argv[1:]:
    observation, info = env.reset(options={"task": task})
    files = write_game(task)
    print(hashlib.sha256("".join(files.values()).encode()).hexdigest())
    print(observation, info["admissible_actions"])
"""


def ids(split: str) -> list[str]:
    return task_ids(split=split, data_root=None)


def plan_of(task_id: str) -> int:
    return int(task_id.split("/")[1].rsplit("-", 1)[1])


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_has_the_promised_number_of_each_type(split):
    assert Counter(map(task_type, ids(split))) == SIZES[split]
    assert all(size > 0 for size in SIZES[split].values())
    assert set(SIZES[split]) == set(TASK_TYPES)


def test_sizes_are_those_of_the_benchmark():
    assert len(ids("train")) >= 240
    assert len(ids("valid_seen")) == 60
    assert len(ids("valid_unseen")) == 134


def test_ids_are_sorted_and_unique():
    everything = [task_id for split in SPLITS for task_id in ids(split)]
    assert len(set(everything)) == len(everything)
    for split in SPLITS:
        assert ids(split) == sorted(ids(split))


def test_unseen_rooms_never_occur_in_training():
    seen = {plan_of(task_id) for split in ("train", "valid_seen") for task_id in ids(split)}
    unseen = {plan_of(task_id) for task_id in ids("valid_unseen")}
    assert not seen & unseen
    assert unseen <= set(UNSEEN)
    assert set(ALFRED_UNSEEN) <= unseen
    for numbers in ROOMS.values():
        assert len(unseen & set(numbers)) >= 2
    assert {plan_of(task_id) for task_id in ids("valid_seen")} <= set(SEEN)


def test_no_goal_in_a_room_is_in_two_splits():
    goals = Counter(task_id.split("/")[1] for split in SPLITS for task_id in ids(split))
    assert goals.most_common(1)[0][1] == 1


@pytest.mark.long
def test_two_processes_give_the_same_bytes_and_the_same_first_text():
    sample = ids("valid_unseen")[::45]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT, *sample],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "You are in the middle of a room." in outputs.pop()


def test_every_listed_game_comes_out_as_listed():
    for split in SPLITS:
        for task_id in ids(split)[::12]:
            assert data.digest(write_game(task_id)) == data.load_embedded().entries[task_id].digest


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_walkthrough_in_the_game_file_wins(kind, engine, load):
    for split in ("train", "valid_unseen"):
        task_id = [task_id for task_id in ids(split) if task_type(task_id) == kind][-1]
        game, folder = load(task_id)
        engine.reset(game)
        walkthrough = read_json(folder / GAME)["walkthrough"]
        for command in walkthrough:
            assert not engine.won
            assert command in engine.admissible
            engine.step(command)
        assert engine.won
        assert len(walkthrough) <= data.load_embedded().entries[task_id].expert_steps <= STEP_LIMIT


@pytest.mark.long
def test_rooms_are_furnished_as_homes_are():
    """Shut furniture with things in it, distractors, and now and then what is wanted is in the fridge."""
    in_fridge = 0
    for task_id in ids("train"):
        problem = json.loads(write_game(task_id)[GAME])["pddl_problem"]
        openable = set(re.findall(r"\(openable (\S+)\)", problem))
        inside = re.findall(r"\(inReceptacle (\S+) (\S+)\)", problem)
        wanted = task_id.split("/")[1].split("-")[1] + "_bar_"
        assert len(re.findall(r" - receptacle\n", problem)) >= 3
        assert sum(not thing.startswith(wanted) for thing, _ in inside) >= 5
        in_fridge += any(thing.startswith(wanted) and place.startswith("Fridge") for thing, place in inside)
        if plan_of(task_id) in ROOMS["Kitchen"]:
            assert any(place in openable for _, place in inside)
    assert in_fridge >= 10


@pytest.mark.parametrize("number", [1, 208, 308, 425])
def test_a_floor_plan_has_furniture_with_places(number):
    plan = floor_plan(number)
    assert len({receptacle.id for receptacle in plan.receptacles}) == len(plan.receptacles) > 2
    assert all(re.fullmatch(r"loc\|-?\d+\|-?\d+\|[0-3]\|-?\d+", r.location) for r in plan.receptacles)


@pytest.mark.parametrize(
    "bad", ["", "train/x", "train/pick_and_place_simple-Mug-None-Shelf-1/trial_G999_001", "../../etc/passwd"]
)
def test_an_id_of_another_form_is_refused(bad):
    with pytest.raises(UsageError, match="not an embedded game"):
        write_game(bad)


# ---------------------------------------------------------------- the manifest's format

NAME = st.text("abcXYZ0123-_", min_size=1, max_size=12)
ENTRIES = st.dictionaries(
    st.builds("{}/{}/{}".format, NAME, NAME, NAME),
    st.tuples(st.text("0123456789abcdef", min_size=16, max_size=16), st.integers(1, 50)),
)


@given(entries=ENTRIES, versions=st.dictionaries(NAME, NAME, max_size=3))
@settings(max_examples=50)
def test_a_manifest_reads_back_as_written(entries, versions):
    made = data.EmbeddedGames(versions, {k: data.ListedGame(k, *value) for k, value in entries.items()})
    assert data.decode(data.encode(made)) == made


# ---------------------------------------------------------------- ALIGN's training tasks


def test_an_iteration_has_three_training_tasks_of_each_type():
    drawn = training_tasks(data_root=None, iteration=0, seed=0)
    assert Counter(map(task_type, drawn)) == dict.fromkeys(TASK_TYPES, 3)
    assert set(drawn) <= set(ids("train"))


def test_iterations_draw_fresh_tasks_while_there_are_any():
    drawn = [
        task_id for iteration in range(8) for task_id in training_tasks(data_root=None, iteration=iteration, seed=7)
    ]
    assert len(set(drawn)) == len(drawn) == 8 * 18
    for iteration in range(12, 16):  # beyond 40 of a type, tasks come again
        again = training_tasks(data_root=None, iteration=iteration, seed=7)
        assert Counter(map(task_type, again)) == dict.fromkeys(TASK_TYPES, 3)


def test_the_draw_depends_on_the_seed_only():
    first = training_tasks(data_root=None, iteration=2, seed=1)
    assert first == training_tasks(data_root=None, iteration=2, seed=1)
    assert first != training_tasks(data_root=None, iteration=2, seed=2)


def test_a_negative_iteration_is_refused():
    with pytest.raises(UsageError, match="counted from 0"):
        training_tasks(data_root=None, iteration=-1, seed=0)
