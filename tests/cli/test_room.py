"""A folder that cannot be written, or whose disk is full, is refused before anything is played or loaded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from align_echo.errors import UsageError
from align_echo.rollout import batches
from align_echo.run_dir import check_room
from align_echo.train.config import checked_config, merged, method
from align_echo.train.obstacles import estimate
from align_echo.train.role_models import find_sources
from align_echo.train.run import TrainingRun

VERBS = {
    "evaluate": ("evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "1"),
    "generate-interface": ("generate-interface", "--env", "alfworld"),
    "grid": ("grid", "--env", "alfworld", "--agent", "novice", "--interface", "probe", "--tasks", "1"),
    "study": ("study", "offline"),
    "train": ("train", "--method", "grpo", "--steps", "1"),
}


@pytest.fixture
def nothing_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(*given: Any) -> None:
        raise AssertionError("an episode was played")

    monkeypatch.setattr(batches, "_attempt", attempt)


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_is_told_of_before_anything_is_played(verb, run, monkeypatch, nothing_played, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=3_000_000))
    status, _, err = run(*VERBS[verb], "--out", str(tmp_path / "deep" / "out"))
    room = f"there are 3 MB free where {tmp_path / 'deep' / 'out'} is, and 10 MB are needed"
    assert (status, err) == (2, f"align-echo: {room}: make room, or name another --out\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_cannot_be_written_is_told_of_before_anything_is_played(
    verb, run, monkeypatch, nothing_played, tmp_path
):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    status, _, err = run(*VERBS[verb], "--out", str(tmp_path / "out"))
    assert (status, err) == (2, f"align-echo: {tmp_path} cannot be written to: name another --out\n")


def test_a_training_is_told_how_much_its_checkpoints_take(monkeypatch, tmp_path):
    values = merged(method("echo"), {"weights": "models", "evaluating": {"every": 5}})
    config = checked_config(values, "test")
    cost = estimate(config, find_sources(config))
    assert 1 < cost.disk / ((3 * 3 + 2) * 4 * cost.parameters) < 1.2
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=cost.disk - 1))
    with pytest.raises(UsageError, match=f"and {cost.disk / 1e6:,.0f} MB are needed"):
        TrainingRun(config, tmp_path / "out")
    check_room(tmp_path, cost.disk - 1)


def test_adapters_take_little_room(tmp_path):
    config = checked_config(merged(method("echo"), {"weights": "adapters"}), "test")
    whole = checked_config(merged(method("echo"), {"weights": "models"}), "test")
    assert 0 < estimate(config, find_sources(config)).disk < estimate(whole, find_sources(whole)).disk / 4


def test_a_folder_below_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file is a file, and .* would lie in it"):
        check_room(tmp_path / "file" / "out")


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_in_the_place_of_the_folder_is_refused_as_such(verb, run, nothing_played, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = run(*VERBS[verb], "--out", str(tmp_path / "file"))
    assert (status, err) == (2, f"align-echo: {tmp_path / 'file'} is a file; --out names a folder\n")
