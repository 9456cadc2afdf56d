"""`align-echo critic train --steps` and `critic gui-steps` as a new user meets them; and bad input in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

from transformers.utils import logging as transformers_logging

from align_echo.critic.ask import read_calibration
from align_echo.gaia.gui.fit import ScreenFitResult, tiny_vision
from align_echo.gaia.gui.screens import ScreenTrialResult
from align_echo.gaia.gui.vision import ScreenModel
from align_echo.rollout.display import Display
from tests.gaia.gui.drawn_screens import dataset
from tests.models.local.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return dataset(tmp_path_factory.mktemp("drawn") / "data", 30, seed="few")


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Path:
    file: Path = tmp_path_factory.mktemp("settings") / "few.yaml"
    file.write_text("weights: full\nlr: 0.001\nat_once: 16\n")
    return file


def train(folder: Path, settings: Path, *more: object) -> list[object]:
    command = ["critic", "train", "--recording", folder, "--config", settings, "--held-out", "0.3", "--least", "1"]
    return [*command, "--out", "made", *more]


def one_line(error: str) -> bool:
    return "Traceback" not in error and len(error.strip().splitlines()) == 1


@pytest.mark.long
def test_train_and_put_on_trial(folder, settings, run):
    status, out, err = run(*train(folder, settings))
    assert status == 0, err
    fitted = ScreenFitResult.model_validate_json(Path("made/summary.json").read_text())
    assert fitted.held_out is not None
    assert fitted.held_out.n + fitted.learned_from == 60
    assert (fitted.unparsed, fitted.episodes) == (0, fitted.learned_from // 2)
    calibrated = read_calibration(Path("made/critic"))
    assert (calibrated.temperature, calibrated.n) == (fitted.temperature, fitted.held_out.n)
    assert "accuracy" in out

    status, out, err = run("critic", "gui-steps", folder, "--judge", "made/critic", "--out", "trial")
    assert status == 0, err
    trial = ScreenTrialResult.model_validate_json(Path("trial/summary.json").read_text())
    assert trial.critic is not None
    assert (trial.critic.n, trial.critic.temperature) == (60, fitted.temperature)
    assert {(point.rule, point.candidates) for point in trial.curve} == {
        (rule, n) for rule in ("first", "critic", "placebo", "random", "majority", "pass") for n in (1, 2)
    }
    assert "30 steps of 30 episodes; 0 of 60 candidates are no actions" in out
    assert "accuracy" in out


@pytest.mark.long
def test_a_finished_training_is_not_written_over_and_other_settings_do_not_resume_it(folder, settings, run):
    assert run(*train(folder, settings))[0] == 0
    before = Path("made/summary.json").read_bytes()
    status, _, err = run(*train(folder, settings))
    assert status == 2
    assert "not empty" in err
    status, _, err = run(*train(folder, settings, "--lr", "0.5", "--resume"))
    assert status == 2
    assert "was started with settings.lr = 0.001, not 0.5" in err
    assert Path("made/summary.json").read_bytes() == before


@pytest.mark.long
def test_a_training_that_was_stopped_ends_as_one_that_was_not_and_only_on_the_same_pictures(
    folder, run, monkeypatch, tmp_path
):
    Path("often.yaml").write_text("{weights: full, lr: 0.001, batch_size: 2, at_once: 16, save_every: 5}")
    status, _, err = run(*train(folder, Path("often.yaml")))
    assert status == 0, err
    whole = Path("made").rename("whole")

    def stop(display: Display, line: str) -> None:
        if line.startswith("step 10/"):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Display, "say", stop)
        status, _, err = run(*train(folder, Path("often.yaml")))
    assert (status, one_line(err)) == (130, True), err
    assert "repeat the command with: --resume" in err

    other = shutil.copytree(folder, tmp_path / "other")
    shutil.copy(other / "screens" / "000003.png", other / "screens" / "000004.png")
    status, _, err = run(*train(other, Path("often.yaml"), "--resume"))
    assert (status, one_line(err)) == (2, True), err
    assert "made was started with screens = " in err

    same = shutil.copytree(folder, tmp_path / "same")
    status, _, err = run(*train(same, Path("often.yaml"), "--resume"))
    assert status == 0, err
    for name in ("summary.json", "critic/model.safetensors", "critic/calibration.json"):
        assert Path("made", name).read_bytes() == (whole / name).read_bytes()


@pytest.fixture(scope="module")
def critic(tmp_path_factory) -> Path:
    """One that was not trained."""
    made: Path = tmp_path_factory.mktemp("critics") / "tiny"
    model, encoder = tiny_vision(1)
    model.save_pretrained(made)
    encoder.save(made)
    return made


@pytest.mark.long
def test_a_trial_that_was_stopped_asks_only_about_what_is_left_and_comes_to_the_same(folder, critic, run, monkeypatch):
    calls: list[int] = []
    choose = ScreenModel.choose

    def counted(model: ScreenModel, conversations: Sequence[Any], words: Sequence[str]) -> list[Any]:
        calls.append(len(conversations))
        return choose(model, conversations, words)

    monkeypatch.setattr(ScreenModel, "choose", counted)
    show: Callable[[], None] = transformers_logging.enable_progress_bar
    show()
    command = ["critic", "gui-steps", folder, "--judge", critic, "--seed", 3]
    status, _, err = run(*command, "--out", "whole")
    assert status == 0, err
    assert len(calls) == 30
    assert err.splitlines() == ["asking about 60 actions on 30 screens", "20 of 30 screens"], "and no bar of weights"

    def stop(display: Display, line: str) -> None:
        if line == "20 of 30 screens":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Display, "say", stop)
        status, _, err = run(*command, "--out", "trial")
    assert (status, one_line(err)) == (130, True), err
    assert not Path("trial/summary.json").exists()
    assert len(Path("trial/opinions.jsonl").read_text().splitlines()) == 20
    status, _, err = run(*command, "--out", "trial")
    assert (status, one_line(err)) == (2, True), err
    assert "add --resume" in err
    status, _, err = run(*command[:-1], 4, "--out", "trial", "--resume")
    assert (status, one_line(err)) == (2, True), err
    assert "trial was started with seed = 3" in err
    status, _, err = run(*command, "--out", "trial", "--resume")
    assert status == 0, err
    assert len(calls) == 60
    for name in ("summary.json", "opinions.jsonl", "config.json"):
        assert Path("trial", name).read_bytes() == Path("whole", name).read_bytes()


def test_more_candidates_than_there_are_are_told_of(folder, run):
    status, _, err = run("critic", "gui-steps", folder, "--candidates", 5, "--out", "a")
    assert status == 0, err
    assert err.splitlines() == ["not all steps have 5 candidates: rules choose among 2 at most"]
    trial = ScreenTrialResult.model_validate_json(Path("a/summary.json").read_text())
    assert {point.candidates for point in trial.curve} == {1, 2}


@pytest.mark.long
def test_predictions_that_are_named_twice_count_once_and_hostile_ones_are_no_actions(folder, settings, run):
    hostile = [r'type("\ud800")', r'open_app("\udfff")', "click(1e999, 0)", "\0", "hm"]
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    rows[0]["candidates"] += hostile
    Path("some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copy("some.jsonl", "copy.jsonl")
    named = [part for name in ("some.jsonl", "./some.jsonl", "copy.jsonl") for part in ("--predictions", name)]
    status, _, err = run(*train(folder, settings, *named))
    assert status == 0, err
    fitted = ScreenFitResult.model_validate_json(Path("made/summary.json").read_text())
    assert fitted.held_out is not None
    assert (fitted.unparsed, fitted.learned_from + fitted.held_out.n) == (len(hostile), 60)
    status, _, err = run(*train(folder, settings, "--predictions", "copy.jsonl", "--resume"))
    assert status == 0, err


def test_predictions_are_scored_without_a_critic_and_without_a_model(folder, run, monkeypatch):
    monkeypatch.setattr("align_echo.gaia.gui.trial.require_training", lambda: pytest.fail("torch is not needed"))
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    worse = [json.loads(line) | {"candidates": ["I do not know", json.loads(line)["candidates"][0]]} for line in lines]
    Path("worse.jsonl").write_text("".join(json.dumps(step) + "\n" for step in worse))
    command = ["critic", "gui-steps", folder, "--predictions", "worse.jsonl", "--candidates", 1]
    status, out, err = run(*command, "--out", "a")
    assert status == 0, err
    trial = ScreenTrialResult.model_validate_json(Path("a/summary.json").read_text())
    assert (trial.unparsed, trial.candidates, trial.first.success.value, trial.critic) == (30, 60, 0.0, None)
    assert {point.candidates for point in trial.curve} == {1}
    assert "30 of 60 candidates are no actions" in out


def test_what_cannot_be_used_is_refused_in_one_line_and_leaves_nothing(folder, settings, run, tmp_path):
    tiny_model().save_pretrained(tmp_path / "blind")
    tiny_tokenizer().save_pretrained(tmp_path / "blind")
    (tmp_path / "none.jsonl").write_text("")
    wrong = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0]) | {"candidates": ["press_back()"]}
    (tmp_path / "wrong.jsonl").write_text(json.dumps(wrong) + "\n")
    for arguments, message in (
        (["critic", "train"], "give --examples"),
        (["critic", "train", "--recording", folder, "--examples", "x"], "give --examples"),
        (["critic", "train", "--examples", "x", "--predictions", "x"], "give --examples"),
        (["critic", "train", "--recording", folder, "--rule", "expert"], "give --examples"),
        (["critic", "train", "--recording", tmp_path], "there is no"),
        (["critic", "train", "--recording", folder], "actions are too few to learn from (none was left out): a critic"),
        ([*train(folder, settings), "--model", "blind"], "sees no screens"),
        ([*train(folder, settings), "--model", "gpt-5"], "cannot be trained: name tiny-vl"),
        ([*train(folder, settings), "--model", "./a/b"], "there is no folder ./a/b: name tiny-vl"),
        ([*train(folder, settings), "--model", "pocket"], "the pocket model sees no screens"),
        (["critic", "train", "--recording", folder, "--predictions", "wrong.jsonl"], "learns from both"),
        (["critic", "train", "--recording", folder, "--held-out", "0.001"], "too few to hold"),
        (["critic", "train", "--recording", folder, "--held-out", "1"], "below 1"),
        (["critic", "gui-steps", folder, "--predictions", "none.jsonl"], "lacks 30 of 30 steps"),
        (["critic", "gui-steps", folder, "--judge", "nowhere"], "is no folder"),
        (["critic", "gui-steps", folder, "--judge", "blind"], "sees no screens"),
    ):
        status, _, err = run(*arguments, "--out", "new")
        assert (status, one_line(err)) == (2, True), err
        assert message in err
        assert not Path("new").exists()
