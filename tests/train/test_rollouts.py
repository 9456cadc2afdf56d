"""Rollouts that a run keeps: which of a step's episodes, in what order, and within what bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from align_echo.base.jsonl import JsonlFile
from align_echo.rollout.session import Episode
from align_echo.train.config import checked_config, method
from align_echo.train.rollouts import MEBIBYTE, CritiquedAttempt, RolloutFiles, RolloutSettings, room
from align_echo.train.rows import RolloutBatch
from align_echo.train.run import play_batch
from align_echo.train.stage import CritiqueRequest
from align_echo.types import Trajectory
from tests.train.scripted_stage import ScriptedStage


def score(episode: Episode) -> float:
    return 1.0 if episode.task_id == "easy" or (episode.task_id == "mixed" and episode.sample % 2) else 0.0


def harvest_of(
    name: str,
    samples: int = 2,
    advice: Callable[[CritiqueRequest], str | None] = lambda request: f"try {request.sample}",
) -> RolloutBatch:
    config = checked_config({**method(name), "collecting": {**method(name)["collecting"], "samples": samples}}, name)
    return play_batch(config, ["easy", "mixed", "lost"], ScriptedStage(score, advice))


def kept(folder: Path, step: int = 1) -> list[Trajectory]:
    return JsonlFile(folder / "rollouts" / f"{step}.jsonl").read(Trajectory)


def told(episodes: list[Trajectory]) -> list[tuple[str, int, str]]:
    return [(episode.task_id, episode.sample, episode.critique) for episode in episodes]


def test_all_episodes_of_the_task_whose_scores_differ_most_are_kept_without_token_ids(tmp_path):
    RolloutFiles(tmp_path, RolloutSettings(), 1).keep(1, harvest_of("grpo", samples=3))
    episodes = kept(tmp_path)
    assert told(episodes) == [("mixed", 0, ""), ("mixed", 1, ""), ("mixed", 2, "")]
    assert [(episode.score, episode.won) for episode in episodes] == [(0, False), (1, True), (0, False)]
    assert all(step.reply == "a" and step.tokens is None for episode in episodes for step in episode.steps)


def test_an_attempt_stands_before_those_that_followed_critiques_of_it(tmp_path):
    RolloutFiles(tmp_path, RolloutSettings(), 1).keep(1, harvest_of("echo"))
    assert told(kept(tmp_path)) == [("mixed", 0, ""), ("mixed", 1, "try 0"), ("mixed", 2, "try 1")]
    RolloutFiles(tmp_path, RolloutSettings(), 2).keep(2, harvest_of("icrl", samples=4))
    assert told(kept(tmp_path, 2)) == [
        ("mixed", 0, ""),
        ("mixed", 4, "try 0"),
        ("mixed", 1, ""),
        ("mixed", 2, ""),
        ("mixed", 6, "try 2"),
        ("mixed", 3, ""),
    ]


def test_equal_critiques_of_several_attempts_are_not_mixed_up(tmp_path):
    RolloutFiles(tmp_path, RolloutSettings(), 1).keep(1, harvest_of("icrl", samples=4, advice=lambda request: "look"))
    assert [episode.sample for episode in kept(tmp_path)] == [0, 4, 1, 2, 6, 3]


def test_whole_replies_of_the_critic_are_kept_and_those_that_nobody_could_read_too(tmp_path):
    harvest = harvest_of("echo", advice=lambda request: None if request.sample else "open it")
    RolloutFiles(tmp_path, RolloutSettings(), 1).keep(1, harvest)
    reviews = JsonlFile(tmp_path / "critiques" / "1.jsonl").read(CritiquedAttempt)
    assert {(reviewed.task_id, reviewed.attempt) for reviewed in reviews} == {("mixed", 0)}
    assert [reviewed.review.reply for reviewed in reviews] == ["open it", "?"]
    assert [reviewed.review.problem for reviewed in reviews] == ["", "cannot be read"]
    assert all(reviewed.review.tokens is None for reviewed in reviews)


def test_the_experts_episodes_are_kept_where_the_policy_plays_none(tmp_path):
    RolloutFiles(tmp_path, RolloutSettings(), 1).keep(1, harvest_of("sft"))
    assert told(kept(tmp_path)) == [("easy", 99, "")]


def test_no_more_episodes_a_step_are_kept_than_asked_for_and_none_at_all_for_none(tmp_path):
    RolloutFiles(tmp_path, RolloutSettings(episodes=2), 1).keep(1, harvest_of("echo"))
    assert told(kept(tmp_path)) == [("mixed", 0, ""), ("mixed", 1, "try 0")]
    RolloutFiles(tmp_path / "off", RolloutSettings(episodes=0), 1).keep(1, harvest_of("echo"))
    assert not (tmp_path / "off").exists()


def test_a_run_keeps_no_more_bytes_than_asked_for_and_something_of_its_last_steps(tmp_path):
    harvest, steps = harvest_of("echo"), 12
    RolloutFiles(tmp_path / "free", RolloutSettings(), 1).keep(1, harvest)
    step_takes = sum(file.stat().st_size for file in (tmp_path / "free").rglob("*.jsonl"))
    bound = 4 * step_takes
    files = RolloutFiles(tmp_path / "run", RolloutSettings(mebibytes=bound / MEBIBYTE), steps)
    for step in range(1, steps + 1):
        files.keep(step, harvest)
    written = {int(file.stem): file.stat().st_size for file in (tmp_path / "run" / "rollouts").iterdir()}
    assert sum(file.stat().st_size for file in (tmp_path / "run").rglob("*.jsonl")) <= bound
    assert all(len(kept(tmp_path / "run", step)) == 3 for step in written)
    assert min(written) == 1
    assert max(written) > steps - 3


@pytest.mark.parametrize(("step", "share"), [(1, 0.55), (5, 0.75), (10, 1.0), (11, 1.0)])
def test_half_of_the_room_is_there_at_once_and_the_other_half_comes_with_the_steps(step, share):
    assert room(step, 10, 1000) == pytest.approx(1000 * share)


def test_what_will_be_made_again_is_dropped(tmp_path):
    files = RolloutFiles(tmp_path, RolloutSettings(), 3)
    for step in (1, 2, 10):
        files.keep(step, harvest_of("echo"))
    files.drop_from(2)
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.jsonl")} == {
        "rollouts/1.jsonl",
        "critiques/1.jsonl",
    }
