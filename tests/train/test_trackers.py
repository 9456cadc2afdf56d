"""Trackers: what is refused, and what TensorBoard is told of a run."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from align_echo.errors import UsageError
from align_echo.train.trackers import tracking, why_unusable


def test_a_tracker_that_is_not_there_is_told_with_its_install_line(monkeypatch):
    monkeypatch.setattr("align_echo.train.trackers.find_spec", lambda name: None if name == "trackio" else object())
    assert why_unusable(["trackio", "wandb"]) == ["trackio is not installed: pip install trackio"]
    assert why_unusable(["paper"]) == ["unknown tracker 'paper'; known: tensorboard, wandb, mlflow, trackio"]


class FakeError(Exception):
    """W&B's own."""


def fake_wandb(monkeypatch: pytest.MonkeyPatch, **functions: object) -> None:
    fake = ModuleType("wandb")
    fake.__dict__.update(Error=FakeError, **functions)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)


def test_a_run_of_wandb_is_in_the_runs_folder_and_ends_with_it(tmp_path, monkeypatch, capsys):
    told: list[object] = []

    def init(**arguments: object) -> None:
        told.append(arguments)
        print("begun")

    fake_wandb(monkeypatch, init=init, finish=lambda: told.append("finished"))
    with tracking(["wandb"], tmp_path / "run", 0) as callbacks:
        assert callbacks == []
        told.append("trained")
    run = {"project": "align-echo", "name": "run", "dir": str(tmp_path / "run")}
    assert told == [run, "trained", "finished"]
    assert capsys.readouterr() == ("", "begun\n"), "results alone go to standard output"


def test_a_wandb_that_does_not_begin_is_told_in_one_line(tmp_path, monkeypatch):
    def refuse(**_: object) -> None:
        raise FakeError("No API key configured.\nMore about it")

    fake_wandb(monkeypatch, init=refuse)
    with pytest.raises(UsageError, match=r"\(No API key configured\.\): run `wandb login`, or set WANDB_MODE=offline$"):
        tracking(["wandb"], tmp_path, 0).__enter__()


def test_a_run_without_trackers_needs_none(tmp_path):
    with tracking([], tmp_path, 0) as callbacks:
        assert callbacks == []
    assert list(tmp_path.iterdir()) == []


def test_events_of_tensorboard_are_in_the_runs_folder_and_count_once(tmp_path):
    """A run that was stopped at its third step and goes on after the second."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for begun_at, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        with tracking(["tensorboard"], tmp_path, begun_at) as (board,):
            for step in steps:
                board.tb_writer.add_scalar("reward", step + begun_at, step)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("reward")] == [(1, 1), (2, 2), (3, 5), (4, 6)]
