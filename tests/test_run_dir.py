"""The folder of a run, as a block holds it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from align_echo.errors import UsageError
from align_echo.run_dir import RunDir

TRY = "import sys; from align_echo.run_dir import RunDir; RunDir(sys.argv[1], {'command': 'any'}, resume=True).check()"


def elsewhere(folder) -> str:
    """The last line of another process that asks for the folder; empty if it may have it."""
    done = subprocess.run([sys.executable, "-c", TRY, str(folder)], capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2]


def test_a_block_holds_the_folder_and_lets_it_go_each_time(tmp_path):
    run_dir = RunDir(tmp_path / "run", {"command": "any"})
    with run_dir:
        assert "another process is at work" in elsewhere(run_dir.path)
        run_dir.finish({"made": 1})
    assert elsewhere(run_dir.path) == ""
    run_dir.resume = True
    with run_dir:
        assert "another process is at work" in elsewhere(run_dir.path)
    assert elsewhere(run_dir.path) == ""


def test_a_block_that_breaks_lets_the_folder_go(tmp_path):
    run_dir = RunDir(tmp_path / "run", {"command": "any"})
    with pytest.raises(ZeroDivisionError) as broken, run_dir:
        raise ZeroDivisionError
    assert broken.traceback, "the error, and what it refers to, is still there"
    assert elsewhere(run_dir.path) == ""


GENERATED = {"environment": "alfworld", "backend": "probe", "iterations": 8, "agent": "novice"}
EVALUATED = {"command": "evaluate", "environment": "alfworld", "agent": "react"}


@pytest.mark.parametrize(
    ("first", "then", "line"),
    [
        (GENERATED, EVALUATED, "is a folder of generate-interface, not of evaluate: name another --out"),
        (EVALUATED, GENERATED, "is a folder of evaluate, not of generate-interface"),
        ({**EVALUATED, "command": "grid"}, EVALUATED, "is a folder of grid, not of evaluate"),
        (EVALUATED, {**EVALUATED, "agent": "novice"}, "was started with agent = react, not novice"),
    ],
)
def test_a_folder_of_another_verb_is_said_to_be_one(tmp_path, first, then, line):
    with RunDir(tmp_path, first):
        pass
    with pytest.raises(UsageError, match=line):
        RunDir(tmp_path, then, resume=True).check()
