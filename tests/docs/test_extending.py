"""docs/extending.md does what it says: its files and commands run in a folder that holds nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.types import Trajectory
from tests.align.endpoint import Raw, serve

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
FILES = dict(re.findall(r"```python\n# file: (\S+)\n(.*?)```", PAGE, flags=re.DOTALL))
COMMANDS = re.findall(r"^ {4}(align-echo .+)$", PAGE, flags=re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    return tmp_path


def test_the_page_has_what_is_run_here():
    assert {"lockers.py", "lockers_agent.py", "tool_loop.py", "measure.py"} <= set(FILES)
    assert {"first_two.py", "leave_one_out.py", "shortest.py", "accepted.py", "one_line.py"} <= set(FILES)
    assert len(COMMANDS) == 9


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(command: str, folder: Path):
    arguments = shlex.split(command)[1:]
    out = () if "--dry-run" in arguments else ("--out", "run")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "align_echo_command", *arguments, *out],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if "lockers_agent:Opener" in arguments:
        assert "100.0" in done.stdout
    if "brief_agent:Brief" in arguments:
        assert "agent: brief_agent:Brief, model novice" in done.stdout
    if "--critic-form" in arguments:
        assert json.loads((folder / "run" / "config.json").read_text())["critic_details"]["form"] == "one_line:ONE_LINE"
    if "--pick" in arguments:
        assert "shortest" in (folder / "run" / "config.json").read_text()


def test_the_verbs_run_in_python(folder: Path):
    command = [sys.executable, "measure.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "no-failures 100.0\n"


def test_the_loop_plays_with_tool_calls(folder: Path):
    call = {"id": "1", "type": "function", "function": {"name": "act", "arguments": '{"action": "look"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = Raw(json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}))
    with serve({"some-model": lambda request: answer}) as endpoint:
        done = subprocess.run(
            [sys.executable, "tool_loop.py", "some-model"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": "none"},
        )
    assert done.returncode == 0, done.stderr
    played = Trajectory.model_validate_json(done.stdout)
    assert (played.agent, played.actions, played.truncated) == ("tool loop", ("look",) * 5, True)
    assert played.rules


def test_the_loop_is_as_short_as_it_is_said_to_be():
    code = FILES["tool_loop.py"].strip().splitlines()
    assert len([line for line in code if line.strip() and not line.startswith(("import", "from"))]) < 20
