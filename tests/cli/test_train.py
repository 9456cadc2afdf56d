"""`align-echo train` as a user meets it: methods, a dry run, a run, bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.cli.main import main
from align_echo.train.presets import methods
from tests.models.local.tiny import tiny_model, tiny_tokenizer

SMALL = """\
method: {method}
steps: 2
save_every: 1
threads: 1
collecting: {{tasks: 1, samples: 2, turns: 2, reply_tokens: 4, critique_tokens: 6, workers: 4}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(context=4096).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(method: str = "grpo") -> str:
    Path("mine.yaml").write_text(SMALL.format(method=method))
    return "mine.yaml"


def test_the_methods_are_listed_with_what_they_are(capsys):
    assert main(["train", "--method", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == methods()
    assert all(len(line.split()) > 3 for line in lines)


def test_a_dry_run_says_what_it_would_cost_and_writes_nothing(model, capsys):
    assert main(["train", "--config", config("echo"), "--model", model, "--dry-run", "--out", "run"]) == 0
    out = capsys.readouterr().out
    assert "training by echo: model " in out
    assert "environment alfworld (split train, " in out
    assert "policy and critic learn, a model each; " in out
    assert "3 episodes of alfworld, 6 turns, 2 critiques" in out
    assert "in all batches at most 6 episodes" in out
    assert "refinements.jsonl, rollouts/, critiques/, checkpoints/, policy/, critic/, summary.json" in out
    assert "2 of the policy, 2 of the critic" in out
    assert "MiB  engines" in out
    assert not Path("run").exists()


def test_no_tracker_is_needed_where_none_is_asked_for_whatever_the_config_says(model, monkeypatch, capsys):
    monkeypatch.setattr("align_echo.train.trackers.find_spec", lambda name: None)
    file = Path(config())
    file.write_text(file.read_text() + "report_to: [trackio]\n")
    command = ["train", "--config", str(file), "--model", model, "--dry-run"]
    assert main(command) == 2
    assert "report_to: trackio is not installed: pip install trackio" in capsys.readouterr().err
    assert main([*command, "--report-to", "none"]) == 0


def test_a_dry_run_tells_of_held_out_tasks_and_candidates(model, capsys):
    file = Path(config())
    file.write_text(file.read_text().replace("tasks: 1,", "tasks: 1, best_of: 3,") + "evaluating: {every: 1}\n")
    assert main(["train", "--config", str(file), "--model", model, "--dry-run", "--out", "run"]) == 0
    out = capsys.readouterr().out
    assert "\npolicy learns; " in out
    assert "12 candidates for actions, 12 verdicts on them" in out
    assert "held-out tasks: 64 episodes of split valid_unseen every 1 steps, 4 times at most" in out
    names = "config.json, held_out.jsonl, signals.jsonl, rollouts/, checkpoints/, policy/, last/, summary.json"
    assert f"to be written to run: {names}" in out


@pytest.mark.long
def test_a_run_goes_on_by_its_folder_alone(model, capsys):
    assert main(["train", "--config", config(), "--model", model, "--out", "run"]) == 0
    Path("run/summary.json").unlink()
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "run"]) == 0
    assert "going on after step 2" in capsys.readouterr().err
    assert Path("run/summary.json").is_file()
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "run", "--seed", "5"]) == 2
    assert "run was started with seed = 0, not 5" in capsys.readouterr().err


@pytest.mark.long
def test_a_run_says_each_step_and_where_it_was_written(model, capsys):
    assert main(["train", "--config", config(), "--model", model, "--out", "run"]) == 0
    printed = capsys.readouterr()
    banner, first_step = printed.err.index("training by grpo: model "), printed.err.index("step 1/2")
    assert banner < printed.err.index("interface none") < printed.err.index("to be written to run: ") < first_step
    named = printed.err[banner:first_step].splitlines()[-1].partition(": ")[2].split(", ")
    assert {name.rstrip("/") for name in named} == {entry.name for entry in Path("run").iterdir()} - {".lock"}
    assert "step 1/2: policy/reward" in printed.err
    assert "step 2/2: policy/reward" in printed.err
    cut = "100% of the policy's replies held no action, as they were cut off: raise collecting.reply_tokens, now 4"
    assert f"warning: step 1: nothing can be learned: {cut}" in printed.err
    assert printed.out.splitlines()[-1] == "written: run/summary.json and the trained models beside it"
    assert len(Path("run/signals.jsonl").read_text().splitlines()) == 2
    evaluate = ["evaluate", "--env", "math", "--tasks", "1", "--max-tokens", "256"]
    assert main([*evaluate, "--model", "run/policy", "--out", "ev"]) == 0
    assert json.loads(Path("ev/summary.json").read_text())["agent"].startswith("vanilla(")
    assert main([*evaluate, "--model", "run/checkpoints/checkpoint-1/policy", "--out", "ev1"]) == 0


@pytest.mark.long
def test_a_finished_run_can_be_resumed_to_more_steps_only_as_another(model, capsys):
    assert main(["train", "--config", config(), "--model", model, "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["train", "--config", config(), "--model", model, "--out", "run", "--resume"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "the run in run is finished: nothing is left to do\n"
    assert printed.out == "its results: run/summary.json and the trained models beside it\n"
    assert main(["train", "--config", config(), "--model", model, "--out", "run", "--resume", "--steps", "3"]) == 2
    assert "run was started with steps = 2, not 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "nope"], "unknown method 'nope'; known: critique-grpo"),
        (["--method", "grpo", "--config", "mine.yaml"], "exclude each other"),
        (["--config", "missing.yaml"], "there is no file missing.yaml"),
        (["--method", "grpo", "--env", "nowhere"], "nowhere"),
        (["--method", "grpo", "--interface", "nowhere"], "nowhere"),
        (["--method", "grpo", "--model", "gpt-5"], "'gpt-5' cannot be trained"),
        (["--method", "grpo", "--model", "transformers:/nope"], "there is no folder /nope"),
        (["--method", "grpo", "--model", "transformers:/nope", "--dry-run"], "there is no folder /nope"),
        (["--method", "grpo", "--model", "transformers:"], "say which after the colon"),
        (["--method", "grpo", "--out", "mine.yaml"], "mine.yaml is a file"),
        (["--method", "grpo", "--report-to", "paper"], "unknown tracker 'paper'; known: tensorboard, wandb"),
        (["--method", "grpo", "--report-to", "wandb"], "report_to: wandb is not installed: pip install wandb"),
        (["--method", "grpo", "--resume"], "--resume needs the folder"),
        (["--method", "grpo", "--resume", "--out", "nowhere"], "nothing to resume in nowhere"),
    ],
)
def test_bad_input_is_one_line_and_nothing_written(arguments, message, model, monkeypatch, capsys):
    monkeypatch.setenv("ALIGN_ECHO_MODEL", model)
    monkeypatch.setattr("align_echo.train.trackers.find_spec", lambda name: None)
    config()
    before = sorted(Path().iterdir())
    assert main(["train", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_without_the_extra_the_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("align_echo.train.needs.find_spec", lambda name: None if name == "peft" else object())
    assert main(["train"]) == 2
    message = "align-echo: training needs an extra: pip install '.[train]' in a checkout of align-echo\n"
    assert capsys.readouterr().err == message
