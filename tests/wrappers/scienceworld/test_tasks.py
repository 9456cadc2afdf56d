"""Ids and splits: known without Java, and the same as the engine's."""

from __future__ import annotations

import subprocess
import sys

import pytest

import align_echo
from align_echo.errors import UsageError
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld import training_tasks
from align_echo.wrappers.scienceworld.env import JavaSimulator
from align_echo.wrappers.scienceworld.tasks import VARIATIONS, LabTask, read_task, variations
from tests.wrappers.scienceworld.conftest import needs_engine


def test_the_splits_are_those_of_the_engine_and_of_align():
    counts = {split: len(align_echo.tasks("scienceworld", split=split)) for split in ("train", "dev", "test")}
    assert counts == {"train": 3592, "dev": 1796, "test": 1819}
    chosen = align_echo.tasks("scienceworld", split="align_test")
    assert len(chosen) == 149
    assert chosen[:6] == [*(f"boil/easy/{number}" for number in range(21, 26)), "change-the-state-of-matter-of/easy/21"]


@pytest.mark.long
@needs_engine
def test_the_variations_are_the_engines():
    with java_pool(JavaSimulator).borrowed() as simulator:
        assert list(VARIATIONS) == simulator.tasks()
        for name in VARIATIONS:
            simulator.load(name, 0, "")
            assert simulator.variations() == {
                split: list(variations(name, split)) for split in ("train", "dev", "test")
            }


def test_splits_that_must_not_share_a_task_share_none():
    for group in environment("scienceworld").partitions:
        ids = [task for split in group for task in align_echo.tasks("scienceworld", split=split)]
        assert len(ids) == len(set(ids))


def test_an_id_names_its_simplifications():
    assert read_task("boil/easy/21", "test") == LabTask("boil", "easy", 21)
    assert read_task("boil/none/21", "test") == LabTask("boil", "", 21)
    assert read_task("boil/teleportAction+openDoors/21", "test") == LabTask("boil", "teleportAction,openDoors", 21)


@pytest.mark.parametrize(
    ("task_id", "said"),
    [
        ("bake/easy/1", "no task 'bake/easy/1'"),
        ("boil", "number of a variation"),
        ("boil/easy/021", "number of a variation"),
        ("boil/easy/-1", "number of a variation"),
        ("boil/easy/²", "number of a variation"),
        ("boil/easy/0", "it has 21 to 29"),
        ("boil/hard/21", "unknown simplification 'hard'"),
        ("boil/openDoors+openDoors/21", "unknown simplification"),
        ("boil//21", "unknown simplification ''"),
        (f"boil/easy/{'9' * 5000}", "does not end in the number of a variation"),
        ("test-conductivity/noElectricalAction/675", "needs electrical actions"),
    ],
)
def test_an_id_that_is_none_is_refused_in_one_line(task_id, said):
    with pytest.raises(UsageError, match=said) as refusal:
        read_task(task_id, "test")
    assert "\n" not in str(refusal.value)


def test_an_iteration_trains_on_one_fresh_variation_of_every_task():
    drawn = [training_tasks(data_root=None, iteration=iteration, seed=0) for iteration in range(5)]
    train = set(align_echo.tasks("scienceworld", split="train"))
    assert all([task.split("/")[0] for task in tasks] == list(VARIATIONS) for tasks in drawn)
    assert all(task in train for tasks in drawn for task in tasks)
    assert len({task for tasks in drawn[:4] for task in tasks}) == 4 * len(VARIATIONS)
    assert len({tasks[13] for tasks in drawn}) == 4, "identify-life-stages-2 has four training variations"
    assert drawn[0] == training_tasks(data_root=None, iteration=0, seed=0)
    assert drawn[0] != training_tasks(data_root=None, iteration=0, seed=1)


def test_there_is_no_data_folder_to_name(tmp_path):
    with pytest.raises(UsageError, match="no data of its own"):
        align_echo.tasks("scienceworld", data_root=tmp_path)
    with pytest.raises(UsageError, match="counted from 0"):
        training_tasks(data_root=None, iteration=-1, seed=0)


def test_listing_tasks_loads_no_engine():
    code = (
        "import sys, align_echo\n"
        "align_echo.tasks('scienceworld', split='test'); align_echo.make('scienceworld')\n"
        "print([name for name in ('py4j', 'scienceworld') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
