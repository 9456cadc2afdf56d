"""Which files of a folder are episodes, and what their runs and parts are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.errors import UsageError
from align_echo.rollout.episode_files import find_episodes, resolve_part, select_part
from tests.report.view.episodes import episode, lost, write


def names(*paths: Path) -> list[tuple[str, str]]:
    return [(part.run, part.part) for part in find_episodes(paths)]


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    """An evaluation's folder, with what lies beside its episodes."""
    folder = tmp_path / "first"
    for part in ("full", "none", "placebo"):
        write(folder / "trajectories" / f"{part}.jsonl", [episode()])
    (folder / "config.json").write_text(json.dumps({"interfaces": {"none": "none", "placebo": "p", "full": "f"}}))
    for other in ("calls.jsonl", "labels.jsonl", "cache/trajectories/x.jsonl", "reviews/full.jsonl"):
        write(folder / other, [episode()])
    return folder


def test_the_parts_of_an_evaluation_come_as_they_were_played_and_nothing_else(evaluation):
    assert names(evaluation) == [("first", "none"), ("first", "placebo"), ("first", "full")]


def test_iterations_and_steps_of_training_come_by_number(tmp_path):
    for step in (2, 10, 1):
        write(tmp_path / "trained" / "rollouts" / f"{step}.jsonl", [episode()])
        write(tmp_path / "learned" / "iterations" / str(step) / "trajectories.jsonl", [episode()])
        (tmp_path / "learned" / "iterations" / str(step) / "other.jsonl").write_text("{}\n")
    assert [part for _, part in names(tmp_path / "trained")] == ["rollouts/1", "rollouts/2", "rollouts/10"]
    assert [part for _, part in names(tmp_path / "learned")] == ["iterations/1", "iterations/2", "iterations/10"]
    assert names(tmp_path / "learned" / "iterations" / "2") == [("learned", "iterations/2")]


def test_a_folder_of_runs_is_all_of_them_by_their_paths(evaluation, tmp_path):
    write(tmp_path / "grid" / "a" / "trajectories" / "none.jsonl", [episode()])
    write(tmp_path / "grid" / "b" / "trajectories" / "none.jsonl", [episode()])
    assert names(tmp_path / "grid") == [("grid/a", "none"), ("grid/b", "none")]
    assert names(tmp_path / "grid" / "b", tmp_path / "grid") == [("b", "none"), ("grid/a", "none")]


def test_runs_of_one_name_are_told_apart(tmp_path):
    for place in ("old", "new"):
        write(tmp_path / place / "run" / "trajectories" / "none.jsonl", [episode()])
    assert names(tmp_path / "old" / "run", tmp_path / "new" / "run") == [("old/run", "none"), ("new/run", "none")]


def test_a_part_may_be_named_by_its_file_or_folder_and_counts_once(evaluation, tmp_path):
    file = evaluation / "trajectories" / "full.jsonl"
    assert names(file) == names(file, file) == [("first", "full")]
    assert len(names(evaluation / "trajectories", file)) == 3
    assert names(write(tmp_path / "copied.jsonl", [lost()])) == [(tmp_path.name, "copied")]


def test_what_is_not_there_is_said_in_one_line(evaluation, tmp_path):
    with pytest.raises(UsageError, match=r"^there is no folder or file .*nowhere: name the folder of a run"):
        find_episodes([evaluation, tmp_path / "nowhere"])
    (tmp_path / "bare").mkdir()
    with pytest.raises(UsageError, match=r"bare holds no episodes: name the folder of a run"):
        find_episodes([evaluation, tmp_path / "bare"])
    refused = r"no part 'ful' here; did you mean 'full'\? there are 'none', 'placebo', 'full'"
    with pytest.raises(UsageError, match=refused):
        select_part(find_episodes([evaluation]), "ful")


def test_both_in_the_tables_is_full_in_the_files(evaluation):
    parts = find_episodes([evaluation])
    assert [resolve_part(parts, name) for name in ("both", "none", None)] == ["full", "none", None]
    assert resolve_part([part for part in parts if part.part != "full"], "both") == "both"
    write(evaluation / "trajectories" / "both.jsonl", [episode()])
    assert resolve_part(find_episodes([evaluation]), "both") == "both"
