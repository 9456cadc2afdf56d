"""`align-echo view` as a user meets it: the file that it writes, the page that it serves, bad input."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from align_echo.report.view import inspect_logs
from tests.report.view.episodes import episode, hostile, lost, write
from tests.report.view.test_packing import episodes, stored

ROOT = Path(__file__).parents[2]


def test_runs_become_one_file(run, tmp_path):
    assert run("evaluate", "--env", "m3tooleval", "--agent", "novice", "--tasks", 2, "--out", "first")[0] == 0
    write("second/trajectories/none.jsonl", [lost()])
    status, out, err = run("view", "first", "second")
    assert (status, err) == (0, "")
    assert out == "first.html: 3 episodes, 0.1 MB; open it in a browser\n"
    page = Path("first.html").read_text(encoding="utf-8")
    assert "<title>first and 1 more - align-echo</title>" in page
    assert [part[:2] for part in stored(page)["index"]["parts"]] == [["first", "none"], ["second", "none"]]
    assert [each["environment"] for each in episodes(page)] == ["m3tooleval", "m3tooleval", "station"]


@pytest.mark.long
def test_a_damaged_line_is_said_and_the_rest_is_written(run):
    file = hostile("run/trajectories/none.jsonl")
    status, out, err = run("view", "run", "--out", "here.html")
    assert (status, out.partition(",")[0]) == (0, "here.html: 9 episodes")
    assert err == f"{file.resolve()} line 10 is damaged and left out: environment: it is missing\n"


def test_runs_become_logs_of_inspect_ai(run, tmp_path):
    pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    file = hostile("run/trajectories/none.jsonl")
    status, out, err = run("view", "run", "--eval", "logs")
    assert (status, out) == (0, "logs: 1 .eval; look at them with `inspect view --log-dir logs`\n")
    assert err == f"{file.resolve()} line 10 is damaged and left out: environment: it is missing\n"
    assert [file.suffix for file in Path("logs").iterdir()] == [".eval"]
    assert not list(tmp_path.glob("*.html"))


def test_logs_of_inspect_ai_need_it(run, monkeypatch):
    write("run/trajectories/none.jsonl", [episode()])
    monkeypatch.setattr(inspect_logs, "find_spec", lambda name: None)
    status, out, err = run("view", "run", "--eval", "logs")
    needed = "writing logs for inspect_ai needs an extra: pip install '.[inspect]' in a checkout of align-echo"
    assert (status, out, err) == (2, "", f"align-echo: {needed}\n")
    assert not Path("logs").exists()


MISSING = "there is no folder or file nowhere: name the folder of a run, or a .jsonl file of episodes"


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (["nowhere"], MISSING),
        (["run", "nowhere"], MISSING),
        (["bare"], "bare holds no episodes: name the folder of a run, or a .jsonl file of episodes"),
        (["run", "--out", "bare"], "--out names an .html file, not bare"),
        (["run", "--out", "bare.html"], "bare.html is a folder: name another file with --out"),
        (["run", "--out", "no/a.html"], "there is no folder no for a.html: make it, or name another --out"),
    ],
)
def test_bad_input_is_refused_in_one_line(run, arguments, refused):
    write("run/trajectories/none.jsonl", [episode()])
    Path("bare").mkdir()
    Path("bare.html").mkdir()
    status, out, err = run("view", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"align-echo: {refused}")
    assert err.count("\n") == 1


def test_the_commands_and_the_code_of_the_page_on_viewing(run, capsys):
    page = (ROOT / "docs" / "viewing.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    align-echo (.+)$", page, flags=re.MULTILINE)
    there = [command for command in commands if "--eval" not in command or find_spec("inspect_ai")]
    outputs = [run(*command.split()) for command in there]
    assert [status for status, _, _ in outputs] == [0] * len(there), outputs
    assert len(commands) == 5
    assert " turns; agent novice, interface none" in outputs[2][1]
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(code, "viewing.md", "exec"), {"__name__": "viewing"})
    assert capsys.readouterr().out == "3 episodes in first.html\n"


@pytest.mark.long
def test_the_page_is_served_until_it_is_stopped(tmp_path):
    write("run/trajectories/none.jsonl", [episode("x/1")])
    command = [sys.executable, "-m", "align_echo_command", "view", "run", "--serve", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().decode().strip()
            assert address.startswith("http://127.0.0.1:")
            assert "x/1" in httpx.get(address, trust_env=False, timeout=60).text
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 130
        finally:
            server.kill()
    assert not list(tmp_path.glob("*.html"))
