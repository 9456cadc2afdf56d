"""Help texts, and the messages about options and arguments that cannot be read."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from align_echo.cli.main import app
from tests.report.view.episodes import episode, write


def verbs(group: Any, *name: str) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for part, command in group.commands.items():
        found += verbs(command, *name, part) if hasattr(command, "commands") else [((*name, part), command)]
    return found


VERBS = verbs(get_command(app))


@pytest.mark.parametrize("group", ["critic", "interface"])
def test_a_group_alone_prints_its_help(group, run):
    status, out, err = run(group)
    assert (status, err) == (0, "")
    assert out == run(group, "--help")[1]
    assert out.startswith(f"Usage: align-echo {group} [OPTIONS] COMMAND [ARGS]...\n\n")


@pytest.mark.parametrize("name", [name for name, _ in VERBS], ids=" ".join)
def test_the_help_has_plain_placeholders(name, run):
    status, out, _ = run(*name, "--help")
    assert status == 0
    usage = " ".join(out.partition("\n\n")[0].split())
    argument = r"(\[?[A-Z]+\]?|[A-Z]+\.\.\.|NAME\|FILE\.yaml)"
    assert re.fullmatch(rf"Usage: align-echo [a-z -]+ \[OPTIONS\]( {argument})*", usage)
    placeholders = set(re.findall(r"<([a-z][^>]*)>", out))
    assert not [each for each in placeholders if each not in ("path", "text", "n", "x") and "|" not in each]


TAKEN = [
    (name, taken)
    for name, command in VERBS
    for taken in command.params
    if taken.type_descriptor.annotation is not bool and taken.type_descriptor.annotation not in (int, float)
]


@pytest.mark.parametrize(("name", "taken"), TAKEN, ids=[f"{' '.join(name)} {taken.name}" for name, taken in TAKEN])
def test_an_empty_text_is_refused(name, taken, run, tmp_path):
    _, command = next(verb for verb in VERBS if verb[0] == name)
    given = []
    for other in command.params:
        is_option = other.opts[0].startswith("-")
        if other is taken or (other.required and is_option):
            text = "" if other is taken else "alfworld"
            given += [other.opts[0], text] if is_option else [text]
        elif not is_option:
            given += ["x"] if other.required else []
    status, out, err = run(*name, *given)
    shown = taken.opts[0] if taken.opts[0].startswith("-") else taken.name.upper()
    assert (status, out) == (2, "")
    problem = "(it is empty: give it a path|the name is empty: leave it out, or name one)"
    assert re.fullmatch(rf"align-echo: {shown}: {problem}; see align-echo .* --help\n", err)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate --turns 0", "--turns: must be at least 1, not 0; see align-echo evaluate --help"),
        ("evaluate --tasks x", "--tasks: must be a whole number, not 'x'; see align-echo evaluate --help"),
        ("view x --port 70000", "--port: must be at most 65535, not 70000; see align-echo view --help"),
        ("critic train --lr x", "--lr: must be a number, not 'x'; see align-echo critic train --help"),
        ("evaluate --envv x", "Possible options: --agent, --env); see align-echo evaluate --help"),
        ("interface bind", "Missing argument 'NAME'; see align-echo interface bind --help"),
        ("critic nope", "No such command 'nope'; see align-echo critic --help"),
        (
            "generate-interface --env alfworld --backend nope",
            "--backend: must be auto, probe, llm or hybrid, not 'nope'; see align-echo generate-interface --help",
        ),
        ("serve nope --env alfworld", "LOOP: must be openenv or mcp, not 'nope'; see align-echo serve --help"),
    ],
)
def test_a_wrong_option_is_said_in_plain_words_with_the_help_that_lists_it(command, message, run):
    status, out, err = run(*command.split())
    assert (status, out) == (2, "")
    assert err.startswith("align-echo: ")
    assert err.endswith(f"{message}\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("show missing", "there is no folder or file missing: name the folder of a run, or a .jsonl file of episodes"),
        ("view missing", "there is no folder or file missing: name the folder of a run, or a .jsonl file of episodes"),
        ("report missing", "there is no folder missing: name the folder of a run"),
        ("interface show probe --env alfworld --run missing", "there is no folder missing: name the folder of a run"),
        ("study missing.yaml", "there is no file missing.yaml"),
        ("train --config missing.yaml", "there is no file missing.yaml"),
        (
            "critic train --examples missing --model pocket",
            "there are no examples in missing: first run align-echo critic collect --out missing",
        ),
        ("critic train --recording missing", "there is no folder missing"),
        ("interface import missing.json", "there is no file missing.json"),
    ],
)
def test_a_missing_folder_or_file_is_named_before_anything_is_printed(command, message, run):
    assert run(*command.split()) == (2, "", f"align-echo: {message}\n")
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    "command",
    ["train --config missing.yaml", "critic train --examples missing --model pocket", "critic evaluate --examples x"],
)
def test_a_missing_file_is_named_without_the_packages_for_training(command, tmp_path):
    code = (
        "import sys\nfrom align_echo.cli.main import main\n"
        f"status = main({command.split()!r})\nsys.exit(3 if 'torch' in sys.modules else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(run, tmp_path, monkeypatch):
    write(tmp_path / "run/trajectories/none.jsonl", [episode()])

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(given[0]))

    monkeypatch.setattr(os, "replace", full)
    assert run("view", "run", "--out", "page.html") == (
        2, "", "align-echo: cannot use page.html: No space left on device\n"
    )  # fmt: skip


def test_a_name_in_a_module_of_python_is_answered_without_one_of_its_own(run):
    refused = "align-echo: the module math has no Nope; math alone is an environment\n"
    assert run("evaluate", "--env", "math:Nope") == (2, "", refused)
    assert run("evaluate", "--env", "json:Nope") == (2, "", "align-echo: the module json has no Nope\n")
