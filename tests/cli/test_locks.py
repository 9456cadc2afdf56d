"""A second process in the folder of a run gets one line and status 2, whatever the verb."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.rollout.display import Display
from tests.holder import holder
from tests.models.local.tiny import tiny_model, tiny_tokenizer

ALFWORLD = ("--env", "alfworld", "--agent", "novice")
VERBS = {
    "evaluate": ("evaluate", *ALFWORLD, "--tasks", "2"),
    "grid": ("grid", *ALFWORLD, "--interface", "probe", "--tasks", "2"),
    "generate-interface": (
        *("generate-interface", "--env", "webshop", "--agent", "novice"),
        *("--iterations", "1", "--tasks-per-iteration", "2"),
    ),
    "collect": ("critic", "collect", "--env", "alfworld", "--model", "pocket", "--tasks", "1", "--candidates", "2"),
    "flywheel": ("critic", "flywheel", "--env", "alfworld", "--model", "pocket", "--tasks", "2", "--test-tasks", "2"),
    "train": ("train", "--method", "grpo", "--env", "alfworld", "--model", "model"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_another_process_holds_is_refused(verb, run):
    if verb == "train":
        tiny_model(context=4096).save_pretrained("model")
        tiny_tokenizer().save_pretrained("model")
    Path("run").mkdir()
    with holder(Path("run")):
        status, out, err = run(*VERBS[verb], "--out", "run")
    message = "align-echo: another process is at work in run: wait until it has ended, or name another --out\n"
    assert (status, out, err[err.rindex("align-echo: ") :]) == (2, "", message)
    assert list(Path("run").iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("verb", ["evaluate", "grid", "generate-interface"])
def test_a_run_keeps_others_out_while_it_lasts_and_no_longer(verb, run, monkeypatch):
    command = [sys.executable, "-m", "align_echo_command", *VERBS[verb], "--out", "run", "--resume"]
    second: list[subprocess.CompletedProcess[str]] = []
    shown = Display.episode

    def episode(display: Display, won: bool) -> None:
        if not second:
            second.append(subprocess.run(command, capture_output=True, text=True, check=False))
        shown(display, won)

    monkeypatch.setattr(Display, "episode", episode)
    status, _, err = run(*VERBS[verb], "--out", "run")
    assert status == 0, err
    assert second[0].returncode == 2
    assert second[0].stderr.splitlines()[-1].startswith("align-echo: another process is at work in run")
    after = subprocess.run(command, capture_output=True, text=True, check=False)
    assert after.returncode == 0, after.stderr
    if verb == "evaluate":
        lines = Path("run/trajectories/none.jsonl").read_text().splitlines()
        assert len({json.loads(line)["task_id"] for line in lines}) == len(lines) == 2, "nothing was played twice"
