"""No code of the current folder runs but what the command names: each verb among decoys of all that libraries miss.

A hook in every process that a command starts sees each import. Where no installed module has the name, the hook puts a
decoy under it into the current folder before Python searches. So all that may ever be missing is there, on any machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from align_echo.base.jsonl import JsonlFile
from align_echo.types import Trajectory
from tests.report.folders import evaluated
from tests.report.view.episodes import episode, write

ROOT = Path(__file__).parents[2]
RAN = "RAN"
"""The file that a decoy leaves."""

HOOK = """
import os, sys
from importlib.machinery import PathFinder

HERE = os.environ["DECOYS"]
CODE = "import os\\nopen(os.path.join(os.environ['DECOYS'], 'RAN'), 'a').write(__name__)\\n"

class Planting:
    def find_spec(self, name, path=None, target=None):
        file = os.path.join(HERE, name + ".py")
        elsewhere = [entry for entry in sys.path if os.path.abspath(entry) != HERE]
        if path is None and not os.path.exists(file) and PathFinder.find_spec(name, elsewhere) is None:
            if name not in sys.builtin_module_names:
                with open(file, "w") as decoy:
                    decoy.write(CODE)
                sys.path_importer_cache.pop(HERE, None)
        return None

sys.meta_path.insert(0, Planting())
"""

DESK = """
import gymnasium
from desk_texts import GREETING

class Desk(gymnasium.Env):
    def reset(self, *, seed=None, options=None):
        return GREETING, {}

    def step(self, action):
        import desk_later
        return desk_later.ANSWER, 1.0, True, False, {}

class Clerk:
    name = "clerk"

    def act(self, view):
        from align_echo.types import AgentReply
        return AgentReply(text="ring", action="ring")
"""

EVIL = "open('RAN', 'a').write(__name__)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What somebody was handed: a run, and their own modules beside it."""
    there = tmp_path / "handed"
    write(there / "run" / "trajectories" / "none.jsonl", [episode()])
    evaluated(there / "run")
    (there / "desk.py").write_text(DESK)
    (there / "desk_texts.py").write_text("GREETING = 'Ring the bell.'")
    (there / "desk_later.py").write_text("ANSWER = 'Ding.'")
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    return there


def command(folder: Path, *arguments: str, start: tuple[str, ...] = (str(ROOT / "align_echo_command.py"),)) -> str:
    """Standard output and error of a command that ran in the folder; of a failing one, its last line alone."""
    hooked = os.pathsep.join([str(folder.parent / "hook"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": hooked, "DECOYS": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *start, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode == 0 else done.stderr.splitlines()[-1]


def decoys(folder: Path) -> set[str]:
    return {file.stem for file in folder.glob("*.py")} - {"desk", "desk_texts", "desk_later", "evil"}


@pytest.mark.long
def test_reading_a_run_runs_nothing_that_lies_beside_it(folder):
    assert "1 episode," in command(folder, "view", "run", "--out", "page.html")
    assert len(decoys(folder)) >= 3, "no import failed, so nothing was tried"
    assert not (folder / RAN).exists()


@pytest.mark.long
@pytest.mark.parametrize("start", [("-m", "align_echo_command"), ("-P", "-m", "align_echo_command")])
def test_however_the_command_is_started(folder, start):
    assert "1 episode," in command(folder, "view", "run", "--out", "page.html", start=start)
    assert decoys(folder)
    assert not (folder / RAN).exists()


@pytest.mark.long
@pytest.mark.parametrize("verb", [("show", "run"), ("report", "run"), ("envs",), ("doctor",)])
def test_no_verb_that_reads_runs_anything(folder, verb):
    command(folder, *verb)
    assert decoys(folder)
    assert not (folder / RAN).exists()


@pytest.mark.long
def test_a_module_that_the_command_names_is_played_and_no_decoy_beside_it(folder):
    named = ("--env", "desk:Desk", "--agent", "desk:Clerk", "--tasks", "2", "--out", "played")
    assert "2/2" in command(folder, "evaluate", *named)
    assert decoys(folder)
    assert not (folder / RAN).exists()


@pytest.mark.long
@pytest.mark.skipif(find_spec("torch") is None, reason="the extra train is not installed")
def test_processes_that_compute_a_model_search_no_current_folder(folder):
    played = ("--env", "alfworld", "--model", "pocket", "--tasks", "1", "--out", "played", "--workers", "processes:1")
    assert "written: played" in command(folder, "evaluate", *played)
    assert decoys(folder)
    assert not (folder / RAN).exists()


@pytest.mark.long
@pytest.mark.skipif(find_spec("scienceworld") is None, reason="the extra scienceworld is not installed")
def test_java_takes_no_program_of_the_current_folder(folder):
    from py4j.version import __version__

    (folder / f"py4j{__version__}.jar").write_bytes(b"no archive")
    written = command(folder, "evaluate", "--env", "scienceworld", "--tasks", "1", "--out", "played")
    assert "written: played" in written


@pytest.mark.long
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")
def test_workers_on_ray_search_no_current_folder(folder):
    named = ("--env", "desk:Desk", "--agent", "desk:Clerk", "--tasks", "2", "--out", "played", "--workers", "ray:1")
    assert "2/2" in command(folder, "evaluate", *named)
    assert not (folder / RAN).exists()


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="the extra report is not installed")
@pytest.mark.long
def test_a_report_takes_no_settings_of_the_current_folder(folder):
    command(folder, "report", "run", "--out", "plain.html")
    (folder / "matplotlibrc").write_text("text.usetex: True\nlines.linewidth: 9\nbackend: module://evil\n")
    (folder / "evil.py").write_text(EVIL)
    assert "drawn      success" in command(folder, "report", "run", "--out", "again.html")
    assert not (folder / RAN).exists()
    first, second = (sorted((folder / f"{name}-figures").iterdir()) for name in ("plain", "again"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second] != []


# ---------------------------------------------------------------- what a handed-over run names


@pytest.fixture
def naming(folder: Path) -> Path:
    """A run whose every name is a module that lies beside it."""
    (folder / "evil.py").write_text(EVIL)
    label = "evil:Rules@0123456789abcdef"
    names = {"split": "test", "environment": "evil:World", "agent": "evil:Agent", "interface": label}
    run = folder / "run"
    shutil.rmtree(run)
    evaluated(run, environment="evil:World", agent="evil:Agent")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, **names, "model": "evil:Model", "env": "evil:World"}))
    write(run / "trajectories" / "none.jsonl", [episode(**names)])
    return folder


@pytest.mark.parametrize("verb", ["view", "show", "report"])
def test_a_name_in_a_run_is_never_imported_to_read_it(naming, monkeypatch, run, verb):
    if verb == "report":
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(naming)
    assert run(verb, "run")[0] == 0
    assert not (naming / RAN).exists()


def test_a_collection_that_names_a_module_is_refused_until_the_command_names_it(naming, monkeypatch, run):
    from align_echo.gaia.examples import LabelledEpisode

    monkeypatch.chdir(naming)
    Path("run/trajectories/none.jsonl").rename("run/trajectories/played.jsonl")
    (played,) = JsonlFile(Path("run/trajectories/played.jsonl")).read(Trajectory)
    turns = [
        [{"action": "scan", "nearer": "wrong"}, {"action": "stow gem 4 into pod 1", "nearer": "correct"}],
        [],
        [{"action": "scan", "nearer": "correct"}],
    ]
    labels = LabelledEpisode.model_validate({"task_id": played.task_id, "sample": 0, "turns": turns})
    JsonlFile(Path("run/labels.jsonl")).append(labels)
    judged = ("critic", "evaluate", "--judge", "someone", "--examples", "run", "--out", "trial")
    status, _, err = run(*judged)
    assert (status, err.count("\n")) == (2, 1)
    assert "run/config.json names the environment 'evil:World'" in err
    assert "if you trust this one, add --env evil:World" in err
    assert not (naming / RAN).exists()
    run(*judged, "--env", "evil:World")
    assert (naming / RAN).exists()


@pytest.mark.skipif(find_spec("torch") is None, reason="the extra train is not installed")
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"env": "evil:World"}, "the environment 'evil:World'"),
        ({"method": "evil:METHOD"}, "the method 'evil:METHOD'"),
        ({"collecting": {"form": "evil:FORM"}}, "the critic form 'evil:FORM'"),
    ],
)
def test_a_training_that_names_a_module_is_not_resumed_by_its_folder_alone(naming, monkeypatch, run, changed, told):
    monkeypatch.chdir(naming)
    Path("trained").mkdir()
    settings = {"command": "train", "config": {"env": "alfworld", "method": "grpo", **changed}}
    Path("trained/config.json").write_text(json.dumps(settings))
    status, _, err = run("train", "--out", "trained", "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert f"trained/config.json names {told}" in err
    assert not (naming / RAN).exists()
