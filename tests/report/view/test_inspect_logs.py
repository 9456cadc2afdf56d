"""Episodes as logs of inspect_ai, read back with inspect_ai itself. Skipped where it is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.errors import UsageError
from align_echo.report.view.inspect_logs import write_logs
from align_echo.types import Usage
from tests.report.view.episodes import HALF, HARM, LAST, RICH, broken, episode, hostile, lost, write

inspect_log = pytest.importorskip("inspect_ai.log", reason="the extra inspect is not installed")


def read(file: Path):
    """A log with its samples, texts that are kept apart put back."""
    return inspect_log.read_eval_log(str(file), resolve_attachments=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose settings name a model, of two parts, that has ended; a critic spoke of its first episode."""
    folder = tmp_path_factory.mktemp("run") / "first"
    none = [lost("x/1", rules="Doors are sealed.", critique="Look first."), broken("x/2"), episode("x/3", score=0.5)]
    write(folder / "trajectories/none.jsonl", [*none, lost("x/1", sample=1), lost("x/1", sample=1)])
    write(folder / "trajectories/full.jsonl", [episode("x/1", RICH, LAST.model_copy(update={"truncated": True}))])
    (folder / "config.json").write_text(json.dumps({"model": "org/small", "align_echo": "0.1.0"}))
    (folder / "summary.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def logs(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    files, damaged = write_logs([run], tmp_path_factory.mktemp("logs") / "new/logs")
    assert damaged == []
    return {read(file).eval.metadata["part"]: file for file in files}


def test_each_part_is_a_log_that_says_what_was_played(logs):
    log = read(logs["none"])
    assert sorted(logs) == ["full", "none"]
    assert (log.status, log.eval.task) == ("success", "first: none")
    assert (log.eval.model, log.eval.solver) == ("org/small", "novice")
    assert (log.eval.dataset.name, log.eval.dataset.location, log.eval.dataset.samples) == ("station", "test", 3)
    assert (log.eval.config.epochs, log.eval.packages) == (3, {"align_echo": "0.1.0"})
    assert log.stats.model_usage["org/small"].input_tokens == 1200 * 4
    assert log.stats.started_at <= log.stats.completed_at
    names = [info.name.rpartition("/")[2] for info in inspect_log.list_eval_logs(str(logs["none"].parent))]
    assert sorted(names) == sorted(file.name for file in logs.values())


def test_tokens_that_the_server_did_not_tell_are_in_no_figure(tmp_path):
    silent = LAST.model_copy(update={"usage": Usage(prompt_tokens=None, completion_tokens=None, cost_usd=None)})
    write(tmp_path / "run/trajectories/none.jsonl", [episode("x/1", RICH, silent), episode("x/2", RICH)])
    (file,), _ = write_logs([tmp_path / "run"], tmp_path / "logs")
    log = read(file)
    assert log.stats.model_usage == {}
    assert {sample.id: bool(sample.model_usage) for sample in log.samples} == {"x/1": False, "x/2": True}


def test_each_episode_is_a_sample_and_one_that_broke_has_an_error_and_no_score(logs):
    samples = {(sample.id, sample.epoch): sample for sample in read(logs["none"]).samples}
    assert sorted(samples) == [("x/1", 1), ("x/1", 2), ("x/1", 3), ("x/2", 1), ("x/3", 1)]
    scores = {name: (each.scores["success"].value, each.scores["score"].value) for name, each in samples.items()
              if each.scores}  # fmt: skip
    assert scores == {("x/1", 1): ("I", 0), ("x/1", 2): ("I", 0), ("x/1", 3): ("I", 0), ("x/3", 1): ("C", 0.5)}
    assert samples["x/2", 1].error.message == "the model broke: ModelError: no answer came"
    assert samples["x/2", 1].error.traceback == "Traceback: deep"
    results = read(logs["none"]).results
    assert (results.total_samples, results.completed_samples) == (5, 4)
    figures = {score.name: score.metrics for score in results.scores}
    assert figures["success"]["accuracy"].value == pytest.approx(0.25)
    assert figures["score"]["mean"].value == pytest.approx(0.125)
    assert 0 <= figures["success"]["ci95_low"].value < 0.25 < figures["success"]["ci95_high"].value <= 1


def test_a_conversation_has_what_is_known_of_each_turn(logs):
    sample = next(each for each in read(logs["none"]).samples if each.id == "x/1" and each.epoch == 1)
    assert [(message.role, message.text) for message in sample.messages] == [
        ("system", "Doors are sealed."),
        ("user", "stow gem 4 into pod 1"),
        ("user", "Look first."),
        ("user", "You float in a station."),
        ("assistant", RICH.reply),
        ("user", RICH.observation),
        ("assistant", "well ..."),
        ("user", "Your reply held no action."),
    ]
    known = sample.messages[5].metadata
    assert (known["turn"], known["action"], known["raw_observation"]) == (1, RICH.action, "Denied.")
    assert [each["verdict"] for each in known["choice"]["candidates"]] == ["wrong", "correct"]
    assert known["hints"][0]["rule"].startswith("before `stow")
    assert known["interface_error"] == "line 3: it broke"
    assert sample.metadata["critique"] == "Look first."
    last = read(logs["full"]).samples[0]
    assert (last.limit.type, last.limit.limit, last.turn_count) == ("turn", 2, 2)
    assert "raw_observation" not in last.messages[-1].metadata


def test_an_unfinished_run_is_called_so_and_is_written_over_once_it_has_ended(tmp_path):
    write(tmp_path / "run/trajectories/none.jsonl", [lost("x/1")])
    (tmp_path / "run/config.json").write_text("{}")
    (begun,), _ = write_logs([tmp_path / "run"], tmp_path / "logs")
    assert (read(begun).status, read(begun).eval.model) == ("cancelled", "novice")
    write(tmp_path / "run/trajectories/none.jsonl", [lost("x/2")])
    (tmp_path / "run/summary.json").write_text("{}")
    assert write_logs([tmp_path / "run"], tmp_path / "logs")[0] == [begun]
    assert (read(begun).status, len(read(begun).samples)) == ("success", 2)
    assert [file.name for file in (tmp_path / "logs").iterdir()] == [begun.name]


def test_hostile_text_comes_out_as_it_was(tmp_path):
    file = hostile(tmp_path / "run/trajectories/none.jsonl")
    lines = file.read_text().splitlines()
    odd = json.loads(lines[0]) | {"task_id": f"../\x00{'y' * 100_000}\x1b[2J"}
    file.write_text("\n".join([*lines, json.dumps(odd), ""]))
    (log,), damaged = write_logs([file], tmp_path / "logs")
    samples = {sample.id: sample for sample in read(log).samples}
    for number, text in enumerate([*HARM, HALF.replace("\ud800", "\ufffd")]):
        sample = samples[f"task/{number}"]
        assert sample.input == text
        assert [message.text for message in sample.messages[4:6]] == [f"{text} reply", f"{text} shown"]
        assert sample.messages[5].metadata["raw_observation"] == f"{text} raw"
        assert sample.scores is None
    assert [len(name) for name in samples if not name.startswith("task/")] == [200]
    assert [entry.line for entry in damaged] == [10]
    told = f"{file} line 10 is damaged and left out: environment: it is missing"
    assert read(log).eval.metadata["damaged"] == [told]


def test_keys_are_in_no_log(tmp_path, monkeypatch):
    secret = 'sk-"very secret" 12345'
    said = RICH.model_copy(update={"observation": f"{secret}!"})
    write(tmp_path / "run/trajectories/none.jsonl", [lost("x/1", said)])
    (tmp_path / "run/config.json").write_text(json.dumps({"model": secret}))
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    log = read(write_logs([tmp_path / "run"], tmp_path / "logs")[0][0])
    assert (log.samples[0].messages[3].text, log.eval.model) == ("[redacted]!", "[redacted]")
    assert "very secret" not in log.model_dump_json()


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "a.jsonl").write_text("no\n")
    with pytest.raises(UsageError, match=r"no episode can be read; .*a\.jsonl line 1 is damaged"):
        write_logs([tmp_path / "a.jsonl"], tmp_path / "logs")
    with pytest.raises(UsageError, match=r"a\.jsonl is a file: --eval names a folder"):
        write_logs([tmp_path / "a.jsonl"], tmp_path / "a.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]
