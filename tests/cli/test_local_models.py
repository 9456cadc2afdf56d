"""Local models on the command line: a tiny random one in a folder, from `evaluate` to the record of the run."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from align_echo.evaluate.comparison import VariantComparison
from align_echo.tokens import token_sequence
from align_echo.types import Trajectory

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models.local.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Its context is full after a few turns, as its replies hardly ever end by themselves."""
    path: Path = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model(context=2500).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


def evaluate(model: object, *more: str) -> list[str]:
    return ["evaluate", "--env", "alfworld", "--tasks", "2", "--model", str(model), "--out", "run", *more]


@pytest.mark.long
def test_a_folder_of_a_model_plays_and_the_run_says_which_weights_it_had(run, folder):
    status, out, err = run(*evaluate(folder, "--temperature", "1", "--episodes-per-task", "2"))
    assert status == 0, err
    config = json.loads(Path("run/config.json").read_text())
    weights = config["agent_details"]["weights.agent"]
    assert len(weights) == 64
    line = f"agent: vanilla, model {folder}, weights {weights[:12]}"
    assert line in out
    assert line in err
    assert (config["agent"], config["model"], config["base_url"]) == ("vanilla", str(folder), None)
    lines = Path("run/trajectories/none.jsonl").read_text().splitlines()
    played = [Trajectory.model_validate_json(line) for line in lines]
    assert [
        trajectory.sample
        for trajectory in sorted(played, key=lambda trajectory: (trajectory.task_id, trajectory.sample))
    ] == [0, 1, 0, 1]
    assert all(len(token_sequence(trajectory).turns) == len(trajectory.steps) for trajectory in played)
    assert len({token_sequence(trajectory).ids for trajectory in played}) == 4
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text()).variants["none"]
    assert (summary.episodes, summary.faults, summary.success_rate.n) == (4, 0, 2)
    assert summary.context_overflows == sum(trajectory.context_overflow for trajectory in played) > 0
    assert summary.unparsed is not None
    assert summary.unparsed.value > 0
    assert "overflows" in out
    assert {path.name for path in Path("run").iterdir()} == {"config.json", "summary.json", "trajectories"}


@pytest.mark.long
def test_a_run_is_not_resumed_with_other_weights(run, folder, tmp_path):
    assert run(*evaluate(folder))[0] == 0
    other = tmp_path / "other"
    tiny_model(context=2500, seed=1).save_pretrained(other)
    tiny_tokenizer().save_pretrained(other)
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    try:
        for file in other.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        status, _, err = run(*evaluate(folder, "--resume"))
    finally:
        for name, content in kept.items():
            (folder / name).write_bytes(content)
    assert (status, "was started with agent_details" in err) == (2, True), err


@pytest.mark.long
def test_the_engine_is_closed_when_the_command_ends(run, folder):
    assert run(*evaluate(folder))[0] == 0
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("engine")]


@pytest.mark.long
def test_an_interface_written_by_local_models_has_their_weights_on_record(run, folder):
    command = ["generate-interface", "--env", "alfworld", "--iterations", "1", "--tasks-per-iteration", "1"]
    status, _, err = run(*command, "--agent", "novice", "--model", str(folder), "--out", "run")
    assert (status, "leave no room for a reply in the context" in err) == (0, True), err  # the model is far too small
    assert "no hypothesis was tried, and what the probe found stands" in err
    details = json.loads(Path("run/config.json").read_text())["backend_details"]
    assert len(details["weights.analyzer"]) == len(details["weights.optimizer"]) == 64


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("transformers:/no/such/folder", "/no/such/folder"),
        ("/no/such/folder", "/no/such/folder is not the folder of a model: it has no config.json"),
        ("some/folder", "some/folder is not the folder of a model: it has no config.json"),
        ("some/pipe", "some/pipe is not the folder of a model: its config.json is no regular file"),
        ("pocket", "the pocket model is not in this installation"),
    ],
)
def test_a_model_that_is_not_there_is_one_line_and_nothing_written(model, message, run, monkeypatch, tmp_path):
    monkeypatch.setattr("align_echo.models.local.loading.POCKET", "no-such-folder")
    Path("some/pipe").mkdir(parents=True)
    os.mkfifo("some/pipe/config.json")
    status, out, err = run(*evaluate(model))
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert message in err
    assert not Path("run").exists()


def test_a_local_model_needs_its_extra_and_the_line_says_which(run, folder, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("align_echo.models.local.")]:
        monkeypatch.setattr(name, sys.modules[name])  # so its package names this one again afterwards
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("align_echo.models.local.loading", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    status, _, err = run(*evaluate(folder))
    assert (status, err) == (
        2,
        f"align-echo: the local model {folder} needs an extra: pip install '.[train]' in a checkout of align-echo\n",
    )
    assert not Path("run").exists()
