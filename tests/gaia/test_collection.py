"""A collection: labels are made once, examples say what the episodes say, and a part of one is told from a whole."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("datasets")

import align_echo
from align_echo.base.jsonl import JsonlFile
from align_echo.errors import MissingDataError, UsageError
from align_echo.gaia.collect import LABELS, PART, CollectionSummary, LabelCounts, finish, label_all, read_collection
from align_echo.gaia.examples import read_examples
from align_echo.types import Fault, Trajectory
from tests.gaia.test_labelling import chat, env, episode

__all__ = ["env"]

TURNS = (["look", "inventory", "look"], ["inventory", None, "dance"])

RULES: tuple[str, ...] = ("expert", "nearer")


def episodes(env: gym.Env[str, str]) -> list[Trajectory]:
    """Two of one task and one that broke."""
    first = episode(env, *TURNS)
    fault = Fault(source="model", error="ModelError", message="gone")
    return [first, first.model_copy(update={"sample": 1}), first.model_copy(update={"sample": 2, "fault": fault})]


class Engines:
    """Makes the environment, and counts how often it was begun anew."""

    def __init__(self) -> None:
        self.resets = 0

    def __call__(self) -> gym.Env[str, str]:
        made, engines = align_echo.make("alfworld"), self

        class Counting(gym.Wrapper[str, str, str, str]):
            def reset(self, **options):
                engines.resets += 1
                return super().reset(**options)

        return Counting(made)


def test_labels_that_the_folder_has_are_not_made_again(env, tmp_path):
    played, engines = episodes(env), Engines()
    told: list[int] = []
    (first,) = label_all(engines, played[:1], tmp_path, on_episode=told.append, rules=RULES)
    assert (engines.resets, told) == (1, [1])
    with (tmp_path / LABELS).open("a") as file:
        file.write('{"task_id": "cut o')
    both = label_all(engines, played, tmp_path, on_episode=told.append, rules=RULES)
    assert (engines.resets, told) == (2, [1, 2])
    assert label_all(engines, played, tmp_path, rules=RULES) == both
    assert engines.resets == 2
    assert [one.sample for one in both] == [0, 1]
    assert both[0] == first
    assert JsonlFile(tmp_path / LABELS).read(type(first)) == both


def test_labels_of_an_episode_that_was_played_differently_are_made_again(env, tmp_path):
    (old,) = label_all(Engines(), [episode(env, ["look", "dance"])], tmp_path, rules=RULES)
    other, engines = episode(env, ["inventory"]), Engines()
    (new,) = label_all(engines, [other], tmp_path, rules=RULES)
    assert engines.resets == 1
    assert ([turn.action for turn in old.turns[0]], [action.action for action in new.turns[0]]) == (
        ["look", "dance"],
        ["inventory"],
    )
    assert label_all(engines, [other], tmp_path, rules=RULES) == [new]
    assert engines.resets == 1


def whole(env: gym.Env[str, str], folder: Path) -> CollectionSummary:
    played = episodes(env)
    for one in played:
        JsonlFile(folder / "trajectories" / f"{PART}.jsonl").append(one)
    labelled = label_all(Engines(), played, folder, rules=RULES)
    return finish(played, labelled, chat, folder, action_format="", weights="w")


def test_examples_and_the_summary_say_what_the_episodes_say(env, tmp_path):
    collected = whole(env, tmp_path)
    rows = [
        (read_example.turn, read_example.action, read_example.drawn, read_example.sent)
        for read_example in read_examples(tmp_path)
    ]
    assert rows == [(0, "look", 4, True), (0, "inventory", 2, False), (1, "inventory", 2, True), (1, "dance", 2, False)]
    counts = (collected.tasks, collected.episodes, collected.faults, collected.turns, collected.candidates)
    assert counts == (1, 2, 1, 4, 12)
    assert (collected.proposed, collected.examples, collected.success_rate.value) == (8, 4, 0.0)
    assert collected.labels["nearer"] == LabelCounts(correct=0, wrong=4, unknown=0)
    assert collected.labels["continues"] == LabelCounts(correct=0, wrong=0, unknown=4)
    assert json.loads((tmp_path / "summary.json").read_text()) == collected.model_dump(mode="json")


def test_turns_that_do_not_come_out_again_have_no_labels_and_are_counted(env, tmp_path):
    first = episode(env, *TURNS)
    steps = (first.steps[0], first.steps[1].model_copy(update={"observation": "?"}))
    played = [first, first.model_copy(update={"sample": 1, "steps": steps})]
    collected = finish(
        played, label_all(Engines(), played, tmp_path, rules=RULES), chat, tmp_path, action_format="", weights=""
    )
    assert (collected.turns, collected.unlabelled) == (4, 1)


def test_a_collection_is_read_as_it_was_made_and_a_part_of_one_is_refused(env, tmp_path):
    whole(env, tmp_path)
    played, labelled = read_collection(tmp_path)
    assert [episode.sample for episode in played] == [0, 1]
    assert all(labels.belongs_to(one) for one, labels in zip(played, labelled, strict=True))
    labels = (tmp_path / LABELS).read_text()
    (tmp_path / LABELS).write_text(labels.splitlines(keepends=True)[0])
    with pytest.raises(MissingDataError, match="lacks labels of episodes: go on with"):
        read_collection(tmp_path)
    (tmp_path / LABELS).write_text("no labels\n")
    with pytest.raises(UsageError, match="line 1 is damaged"):
        read_collection(tmp_path)
    (tmp_path / LABELS).write_text(labels)
    (tmp_path / "summary.json").unlink()
    with pytest.raises(MissingDataError, match="no finished collection"):
        read_collection(tmp_path)


def test_nothing_is_written_where_every_episode_broke(env, tmp_path):
    broken = episodes(env)[2:]
    assert label_all(Engines(), broken, tmp_path, rules=RULES) == []
    with pytest.raises(UsageError, match="all 1 episodes broke"):
        finish(broken, [], chat, tmp_path, action_format="", weights="")
    assert list(tmp_path.iterdir()) == []
