"""The packages of examples/ do what their pages say, in their own folders, with nothing but align-echo installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft")

from align_echo.cli.main import main
from tests.align.endpoint import serve
from tests.align.llm.test_every_environment import HEAD, Analyst, Lesson
from tests.align.room_world import code

ROOT = Path(__file__).parents[2]
SHIPPED = ("align_echo", "wrappers", "interfaces", "prompts", "align_echo_command.py")
SHIPPED_ALSO = ("pyproject.toml", "README.md", "LICENSE")
DOOR = Lesson(
    action="walk to the greenhouse",
    hint="That fails. The door sticks: push the door, from the pond.",
    good=HEAD
    + """\
    obs, reward, done = env.step(agent_action)[:3]
    if obs == "That fails." and agent_action == "walk to the greenhouse":
        obs = obs + " The door sticks: push the door, from the pond."
    return obs, reward, done
""",
    wrong=(),
)


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@dataclass(frozen=True)
class Place:
    """A folder with a copy of an example, and the folders of what is installed there."""

    folder: Path
    installed: tuple[Path, ...]

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """A command as a user types it; `align-echo` is the installed one."""
        verb, *arguments = shlex.split(line)
        assert verb == "align-echo"
        return subprocess.run(
            [sys.executable, "-P", "-m", "align_echo_command", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, self.installed)), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    def commands(self) -> list[str]:
        """Those of the page, in order."""
        return re.findall(r"^ {4}(align-echo .+)$", (self.folder / "README.md").read_text(), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def align_echo_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """align-echo, built and installed into a folder of its own."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    subprocess.run(["cp", "-a", *(str(ROOT / name) for name in (*SHIPPED, *SHIPPED_ALSO)), str(source)], check=True)
    pip("--target", str(target), str(source))
    return target


@pytest.fixture
def example(request: pytest.FixtureRequest, align_echo_alone: Path, tmp_path: Path) -> Place:
    return Place(copied(request.param, tmp_path), (align_echo_alone,))


def copied(name: str, place: Path) -> Path:
    """A folder with a copy of an example."""
    ignored = shutil.ignore_patterns("__pycache__", "runs")
    return Path(shutil.copytree(ROOT / "examples" / name, place / name, ignore=ignored))


def in_example(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", [name], indirect=True)


@pytest.mark.long
@in_example("greenhouse")
def test_what_runs_is_what_is_installed(example: Place):
    code = "import align_echo, greenhouse; print(align_echo.__file__)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, example.installed))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=example.folder, env=env, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_relative_to(example.installed[0])


@pytest.mark.long
@in_example("greenhouse")
def test_a_strangers_environment_goes_through_every_verb(example: Place):
    lines = [line for line in example.commands() if "greenhouse:Greenhouse" in line]
    verbs = [line.split()[1] for line in lines]
    assert verbs[:4] == ["evaluate", "generate-interface", "evaluate", "grid"]
    assert verbs[4:] == ["generate-interface", "evaluate", "train", "train"]
    outputs = {}
    with serve({"analyst": Model(DOOR)}) as endpoint:
        for line in lines:
            done = example.run(line.replace("$MODEL", "analyst").replace("$URL", endpoint.url))
            assert done.returncode == 0, (line, done.stderr[-2000:])
            outputs[line] = done.stdout
    first, probed, _, grid, written, measured, *_ = outputs.values()
    assert "refused: what the environment does not list as possible" in first
    assert "Before `water the X` you need to `walk to the P`" in probed
    assert "over placebo" in grid
    assert "only the listed forms work" in written
    success = json.loads(next(example.folder.glob("runs/evaluate-*")).joinpath("summary.json").read_text())
    assert success["refusals"] == "listed"
    (row,) = [line.split() for line in measured.splitlines() if line.startswith("both ")][:1]
    assert row[2] == "100.0", "an interface that says what the door needs wins every task"
    for method in ("grpo", "echo"):
        assert json.loads((example.folder / "runs" / method / "summary.json").read_text())["steps"] == 1


class Model(Analyst):
    """Analyzer and optimizer in one: asked for code it writes some, else it looks into what went wrong."""

    def __call__(self, request: dict[str, Any]) -> str:
        if "<code>" in json.dumps(request["messages"]):
            return code(self._lesson.good)
        return super().__call__(request)


@pytest.mark.long
@in_example("greenhouse")
def test_an_installed_package_is_found_by_its_names(example: Place, tmp_path: Path):
    pip("--target", str(tmp_path / "greenhouse-installed"), str(example.folder))
    installed = Place(example.folder, (*example.installed, tmp_path / "greenhouse-installed"))
    (example.folder / "greenhouse.py").unlink()
    lines = [line for line in example.commands() if "greenhouse:Greenhouse" not in line]
    assert [line.split()[1] for line in lines] == ["envs", "evaluate", "generate-interface", "grid", "train"]
    steps_told = []
    for line in lines:
        done = installed.run(line)
        assert done.returncode == 0, (line, done.stderr[-2000:])
        steps_told.append(done.stdout)
    assert re.search(r"greenhouse .* greenhouse 1\.0", steps_told[0])
    doctor = installed.run("align-echo doctor").stdout
    assert "environment greenhouse: of greenhouse 1.0" in doctor
    assert "agent gardener: of greenhouse 1.0" in doctor


@pytest.mark.slow
@in_example("archive")
def test_the_tutorial_goes_through_as_it_stands(example: Place):
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for line in re.findall(r"^align-echo .+$", page, flags=re.MULTILINE):
        done = example.run(line)
        assert done.returncode == 0, (line, done.stderr[-2000:])
    report = (example.folder / "report.html").read_text(encoding="utf-8")
    assert report.count("<img") + report.count("<picture") >= 4


@pytest.mark.long
@pytest.mark.parametrize("example", ["archive", "raft", "veto"], indirect=True)
def test_the_commands_of_a_page_run(example: Place):
    for line in example.commands():
        done = example.run(line)
        assert done.returncode == 0, (line, done.stderr[-2000:])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("evaluate --env greenhouse:Greenhous", "the module greenhouse has no Greenhous; did you mean Greenhouse?"),
        ("evaluate --env greenhous:Greenhouse", "the module greenhous of the environment"),
        ("evaluate --env greenhouse:PLACES", "greenhouse:PLACES is a tuple: an environment is a gymnasium.Env class"),
        ("evaluate --env greenhouse:Greenhouse --agent greenhouse:PLACES", "is a tuple: an agent is a class"),
        ("evaluate --env greenhouse:Greenhouse --agent expert --tasks 2", "2 of 2 tasks of greenhouse:Greenhouse's"),
        ("evaluate --env greenhouse:Greenhouse --split tets", "no split 'tets'"),
        ("critic collect --env greenhouse:Greenhouse --model pocket", "has no oracle to label actions by"),
        ("train --env greenhouse:Greenhouse --method raft:METHOD --dry-run", "the module raft of the method"),
        ("evaluate --env greenhouse:Greenhouse --best-of 2 --pick veto:VETO", "the module veto of the rule"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder = copied("greenhouse", tmp_path)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "greenhouse", raising=False)
    status = main(shlex.split(line))
    told = capsys.readouterr()
    assert (status, told.out, told.err.count("\n")) == (2, "", 1), told.err
    assert message in told.err
    assert not (folder / "runs").exists()
