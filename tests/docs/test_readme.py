"""README.md: short and true, and each of its commands works in a fresh clone.

The quick tests read every command and run what is cheap; the slow one clones the checkout's HEAD and runs all of them
there, in order. It uses the environment that the tests run in: what `make setup` and `pip install` download is not
covered.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import align_echo
from align_echo.cli.main import app, main
from align_echo.errors import KEY_VARIABLES
from align_echo.interface.contract import load_interface
from align_echo.wrappers.catalogue import environment
from tests.align.endpoint import serve

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INLINE = re.compile(r"`((?:make|align-echo|pip) [^`]+)`")
TRANSCRIPT = re.compile(r"<!-- transcript: (.*?) -->\n```text\n(.*?)```.*?```text\n(.*?)```", re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """The shell commands of a page: the lines of its `sh` blocks in order, then those in backquotes."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines() if line]
    return [*lines, *INLINE.findall(page)]


# ---------------------------------------------------------------- quick


def test_a_stranger_reads_it_in_two_minutes():
    assert len(README.splitlines()) < 110
    assert len(commands(README)) >= 8


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of an `align-echo` command line. Raises what the command line would refuse it with."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    context = group.make_context("align-echo", words[1:])
    verb = group.get_command(context, words[1])
    assert verb is not None, f"there is no align-echo {words[1]}"
    return dict(verb.make_context(words[1], words[2:], parent=context).params)


def made_before(command: str) -> set[str]:
    """The folders that the commands before this one write."""
    earlier = commands(README)[: commands(README).index(command)]
    return {out for line in earlier for out in re.findall(r"--out (\S+)", line)}


@pytest.mark.parametrize("command", commands(README))
def test_every_command_is_one_that_there_is(command):
    words = shlex.split(command)
    if words[0] == "align-echo":
        options = parsed(words)
        spec = environment(options["env"]) if "env" in options else None
        interface = options.get("interface", "none")
        if interface.endswith(".py"):
            assert Path(interface).name == "interface.py"
            assert str(Path(interface).parent) in made_before(command)
        elif spec and interface != "none":
            load_interface(f"{spec.name}/{interface}")
    elif words[0] == "make":
        done = subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (len(words), done.returncode) == (2, 0), done.stderr
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        taken = re.fullmatch(r"\.(?:\[([\w,]+)\])?", words[2])
        assert taken, "the package is on no index: it is installed from a checkout"
        assert set((taken[1] or "train").split(",")) <= set(extras)
    elif words[0] == ".":
        assert words[1] == ".venv/bin/activate"
        assert "\nVENV := .venv\n" in (ROOT / "Makefile").read_text()
    else:
        assert words[0] == "export", f"who knows {command}?"
        assert words[1].partition("=")[0] in KEY_VARIABLES


def test_the_command_that_only_looks_runs():
    assert "align-echo doctor" in commands(README)
    assert main(["doctor"]) == 0


def test_the_example_runs_as_it_stands(capsys):
    (code,) = blocks(README, "python")
    assert len([line for line in code.splitlines() if line]) <= 10
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert re.fullmatch(r"(won|lost) after \d+ turns\n", capsys.readouterr().out)


def test_the_transcript_is_what_the_game_says():
    match = TRANSCRIPT.search(README)
    assert match is not None
    task, *walk = match[1].split(" | ")
    shown = [match[2], match[3]]
    assert sum(len(part.splitlines()) for part in shown) == 6
    for text, interface in zip(shown, (None, "probe"), strict=True):
        env = align_echo.make("alfworld", split="valid_unseen", interface=interface)
        env.reset(options={"task": task})
        for action in walk:
            env.step(action)
        lines_said = [line.removeprefix("> ") for line in text.splitlines() if line.startswith("> ")]
        assert "".join(f"> {action}\n{env.step(action)[0]}\n" for action in lines_said) == text
        env.close()


def test_its_figures_are_those_of_the_results():
    figures = re.findall(r"-?\d+\.\d+ \[[^\]]+\]|(?<= )\d\d\.\d(?= )", README)
    pages = (ROOT / "docs" / "results").glob("*.md")
    results = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert len(figures) > 10
    assert [figure for figure in figures if figure not in results] == []


# ---------------------------------------------------------------- in a fresh clone


def scripted_model(request: dict[str, Any]) -> str:
    """An agent that only looks, one who proposes nothing, and an Analyzer that finds nothing."""
    messages = str(request["messages"])
    if "<choice>" in messages:
        return "<choice>1</choice>"
    if "<hypotheses>" in messages:
        return "<hypotheses>[]</hypotheses>"
    return "<misalignments>none</misalignments>" if "<misalignments>" in messages else "look"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The checkout's HEAD in a folder of its own; its `.venv` is the environment that the tests run in."""
    programs = Path(sys.executable).parent
    if not (ROOT / ".git").exists() or not shutil.which("git") or not (programs / "activate").exists():
        pytest.skip("needs a git checkout, and a virtual environment that the tests run in")
    folder = tmp_path / "align-echo"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    (folder / ".venv").mkdir()
    for part in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / part).symlink_to(programs.parent / part)
    (folder / ".venv" / ".installed").touch()
    return folder


def in_shell(command: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command as somebody who has activated the folder's environment."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "ALIGN_ECHO_M"))}
    return subprocess.run(
        ["bash", "-c", f"set -e; . .venv/bin/activate; {command}"],
        env={**given, "PYTHONPATH": str(folder), **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_every_command_runs_in_a_fresh_clone(clone):
    page = (clone / "README.md").read_text(encoding="utf-8")
    model = re.findall(r"--model (gpt\S+)", page)[0]
    with serve({model: scripted_model}) as endpoint:
        variables = {"OPENAI_BASE_URL": endpoint.url}
        home = in_shell("python -c 'import align_echo; print(align_echo.__file__)'", clone, variables)
        assert home.stdout.startswith(str(clone)), home
        for command in commands(page):
            if command.startswith("pip ") or command == "make test":  # a network; the suite that this is part of
                continue
            if command.startswith("export "):
                name, _, value = command.removeprefix("export ").partition("=")
                variables[name] = value
            done = in_shell(command, clone, variables)
            assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert len(endpoint.asked(model)) > 100
    for code in blocks(page, "python"):
        (clone / "example.py").write_text(code)
        done = in_shell("python example.py", clone, variables)
        assert done.returncode == 0, done.stderr
