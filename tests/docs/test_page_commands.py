"""Every command of the documentation is one that there is: options exist, values are read, names are known.

What is cheap is run. A command in backquotes within a sentence is often a part of one: its verb and options must exist.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from align_echo.agents.catalogue import AGENTS
from align_echo.cli.main import app, main
from align_echo.critic.best_of import RULES
from align_echo.critic.language import FORMS
from align_echo.evaluate.study_file import studies
from align_echo.interface.contract import load_interface
from align_echo.wrappers.catalogue import CONNECTORS, environment
from tests.docs.pages import INDENTED, ROOT, blocks, in_backquotes, own_modules

OTHERS = {
    ".": "makes the environment active",
    "cd": "goes to a folder",
    "export": "sets a variable",
    "apt-get": "installs Chromium, as root",
    "alfworld-download": "downloads ALFWorld's own games",
    "inspect": "inspect_ai's own command, which plays tasks and shows logs",
    "vf-eval": "verifiers' own command, which plays an environment",
    "vllm": "serves a model on a GPU",
    "vllm.entrypoints.openai.api_server": "serves a model with vLLM's CPU build",
}
"""Programs that are not ours, by what they are there for: their arguments are not checked."""

MADE_UP = {"my_package:World"}
"""What stands for something of a reader's own."""

PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*(\.\.\.)?|\.\.\.|\$[A-Z]+|.*\.\.\.")
"""What stands for a value that the reader puts there. Of such a command the verb and the options are checked."""

RUN = (
    "align-echo envs",
    "align-echo interface show probe --env alfworld",
    "align-echo train --method list",
    "align-echo train --env math --method grpo --dry-run",
    "align-echo evaluate --env alfworld --agent react --model novice --tasks 2",
)
"""Commands of the pages that are run here as they stand. Others are run by tests of their pages."""


def commands() -> list[tuple[str, str]]:
    """(page, command) of every line of shell; lines that end in a backslash are one with the next."""
    lines = []
    for block in blocks():
        if block.language in ("sh", "bash", INDENTED):
            lines += [(block.page, line) for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
    return lines


def words_of(command: str) -> list[str]:
    """The words of a command, without comments and without the variables that it begins with."""
    words = shlex.split(command, comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


# ---------------------------------------------------------------- our own


def verb_of(words: list[str]) -> tuple[Any, Any, list[str]]:
    """The command that words name, its context's parent, and the words after its name."""
    group: Any = get_command(app)
    context = group.make_context("align-echo", [*words, ""])
    while isinstance(group, TyperGroup):
        if not words and group.invoke_without_command:  # `align-echo envs` lists
            break
        assert words, "names no verb"
        command = group.get_command(context, words[0])
        assert command is not None, f"there is no verb {words[0]}"
        group, words = command, words[1:]
    return group, context, words


def options_of(verb: Any) -> set[str]:
    return {option for parameter in verb.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def check_names(given: dict[str, Any]) -> None:
    """Whether what options name is there."""
    of_examples = names_of_examples()
    for name in listed(given.get("env")):
        prefixes = {*own_modules(), *CONNECTORS.entries()}
        assert ":" not in name or name in MADE_UP or name.partition(":")[0] in prefixes, name
        known = environment(name) if ":" not in name and name not in of_examples else None
        if given.get("split") and known:
            known.check_split(given["split"])
        interface = given.get("interface") or "none"
        if known and interface != "none" and not interface.endswith(".py"):
            load_interface(interface if "/" in interface else f"{name}/{interface}")
    for option, registry in (("agent", AGENTS), ("pick", RULES), ("critic_form", FORMS)):
        for name in listed(given.get(option)):
            module = name.partition(":")[0]
            assert module in own_modules() if ":" in name else name in {*registry.entries(), *of_examples}, name
    for name in listed(given.get("method")):
        recipes = [file.stem for file in (ROOT / "align_echo" / "train" / "configs").glob("*.yaml")]
        assert ":" in name or name in [*recipes, "list"], name
    if isinstance(given.get("source"), str):
        assert given["source"] in studies() or given["source"].endswith((".yaml", ".yml"))


def names_of_examples() -> set[str]:
    """The names that the packages of examples/ have by their entry points."""
    files = [tomllib.loads(file.read_text()) for file in (ROOT / "examples").glob("*/pyproject.toml")]
    groups = [group for file in files for group in file["project"].get("entry-points", {}).values()]
    return {name for group in groups for name in group}


def listed(value: Any) -> list[str]:
    return list(value) if isinstance(value, list | tuple) else [value] if value else []


def check_align_echo(words: list[str]) -> None:
    verb, context, rest = verb_of(words)
    unknown = {word for word in rest if word.startswith("--")} - options_of(verb)
    assert unknown == set(), f"no option of align-echo {words[0]}"
    if not any(PLACEHOLDER.fullmatch(word) for word in rest):
        check_names(dict(verb.make_context(words[0], rest, parent=context).params))


# ---------------------------------------------------------------- others'


def check_python(words: list[str]) -> None:
    """`python -m MODULE` with options that its source names, or `python FILE`."""
    if words[0] != "-m":
        assert (ROOT / words[0]).is_file(), words[0]
        return
    module, rest = words[1], words[2:]
    if module in OTHERS:
        return
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"there is no module {module}"
    if module.startswith("studies"):
        source = study_source(Path(str(spec.origin)))
        assert [word for word in rest if word.startswith("--") and f'"{word}"' not in source] == []
    elif module == "pytest":
        assert [word for word in rest if word.startswith("tests/") and not (ROOT / word).exists()] == []


def study_source(file: Path) -> str:
    """Return the source of a study's command, with its package and what studies share."""
    files = [file, *(file.parent.glob("*.py") if file.parent.name != "studies" else ())]
    files += (ROOT / "studies").glob("[a-z_]*.py")
    return "\n".join(part.read_text(encoding="utf-8") for part in files)


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert [word for word in words if "=" not in word and word not in targets] == []


def check_pip(words: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[0] == "install"
    for word in words[1:]:
        of_a_checkout = re.fullmatch(r"\.(?:\[([\w,]+)\])?", word)
        assert of_a_checkout, "the package is on no index: it is installed from a checkout"
        assert set(filter(None, (of_a_checkout[1] or "").split(","))) <= set(extras)


def check_launcher(words: list[str]) -> None:
    """Several processes of one of our commands: a launcher's own options stand before `-m align_echo_command`."""
    if "-m" not in words:  # named in a sentence
        return
    start = words.index("-m")
    assert words[start + 1] == "align_echo_command"
    check_align_echo(words[start + 2 :])


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "accelerate": check_launcher,
    "torchrun": check_launcher,
    "align-echo": check_align_echo,
    "python": check_python,
    "make": check_make,
    "pip": check_pip,
}


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_a_command_is_one_that_there_is(page: str, command: str):
    program, *words = words_of(command)
    assert program in CHECKS or program in OTHERS, f"{page}: who knows {program}? Shown text is a ```text"
    if program in CHECKS:
        CHECKS[program](words)


@pytest.mark.parametrize(
    "command",
    [
        "align-echo evalute --env alfworld",
        "align-echo evaluate --env alfword",
        "align-echo evaluate --env alfworld --taks 3",
        "align-echo evaluate --env alfworld --tasks few",
        "align-echo evaluate --env alfworld --interface prob",
        "align-echo evaluate --env alfworld --split valid",
        "align-echo train --method ecko",
        "align-echo critic collect --env alfworld --states any",
        "python -m studies.nothing",
        "python -m studies.rollout --nothing",
        "make nothing",
        "pip install '.[nothing]'",
    ],
)
def test_a_command_that_there_is_not_is_seen(command: str):
    program, *words = words_of(command)
    with pytest.raises(Exception, match=r".+"):
        CHECKS[program](words)


# ---------------------------------------------------------------- in a sentence

IN_SENTENCES = sorted({(page, text) for page, text in in_backquotes() if text.split()[0] in CHECKS and " " in text})


@pytest.mark.parametrize(("page", "command"), IN_SENTENCES)
def test_a_command_in_a_sentence_is_one_that_there_is(page: str, command: str):
    program, *words = words_of(command)
    if program != "align-echo":
        CHECKS[program](words)
        return
    group: Any = get_command(app)
    for word in words:
        if isinstance(group, TyperGroup) and not word.startswith("-"):
            assert word in group.commands, f"{page}: there is no verb {word}"
            group = group.commands[word]
    known = options_of(group)
    assert [word for word in words if word.startswith("--") and word not in known] == []


# ---------------------------------------------------------------- run


@pytest.mark.parametrize("command", RUN)
def test_a_cheap_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert command in {" ".join(words_of(line)) for _, line in commands()}, "it is on no page any more"
    if " train " in command:
        pytest.importorskip("peft")
    monkeypatch.chdir(tmp_path)
    assert main(words_of(command)[1:]) == 0
