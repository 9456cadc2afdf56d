"""Every block of the documentation is run or checked: a block of a kind that nobody knows fails.

Commands are in `test_page_commands.py`. Text is what somebody is shown, and is not run.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from align_echo.agents.catalogue import AGENTS
from align_echo.base.jsonl import JsonlFile
from align_echo.critic.best_of import RULES
from align_echo.critic.language import FORMS
from align_echo.evaluate.study_file import StudyFile, checked_study
from tests.docs.pages import INDENTED, ROOT, Block, blocks, blocks_of, in_backquotes, own_modules
from tests.report.folders import evaluated
from tests.report.view.episodes import episode

KINDS = {"python", "yaml", "toml", "json", "sh", "bash", "text", INDENTED}

NOT_RUN = {
    "docs/vllm.md": (
        "needs vLLM and a GPU",
        {"engine": "align_echo.models.local.engine.ModelEngine", "forward": "builtins.object"},
    ),
}
"""Pages whose Python is compiled and its names looked up, but which is not run: why, and what the text gives it."""

RUN_BY = {
    "README.md": "tests/docs/test_readme.py",
    "docs/extending.md": "tests/docs/test_extending.py",
    "docs/viewing.md": "tests/cli/test_view.py",
}
"""Pages whose Python another test runs, together with their commands."""

ELSEWHERE = ("inspect_ai", "verifiers")
"""Packages of extras that `make setup` leaves out: what imports one is looked at where it is installed."""


def skip_elsewhere(block: Block) -> None:
    for package in ELSEWHERE:
        if f"align_echo.loops.{package.removesuffix('_ai')}" in block.text:
            pytest.importorskip(package)


def python_blocks() -> list[Block]:
    return [block for block in blocks() if block.language == "python"]


def named(block: Block) -> str:
    return block.name


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize("block", blocks(), ids=named)
def test_a_block_is_of_a_kind_that_is_checked(block: Block):
    assert block.language in KINDS, f"give the fence one of {sorted(KINDS)}, or teach this test what to do with it"


def test_blocks_are_found_where_they_are():
    listed = "- item\n\n    of the item\n\n    ```text\n    shown\n    ```\n"
    page = f"a:\n\n    make x\n\n{listed}\nend\n\n```python\nx = 1\n```\n"
    found = [(block.line, block.language, block.text) for block in blocks_of(page, "page")]
    assert found == [(3, INDENTED, "make x\n"), (10, "text", "shown\n"), (16, "python", "x = 1\n")]


# ---------------------------------------------------------------- Python


@pytest.mark.parametrize("block", python_blocks(), ids=named)
def test_python_compiles_and_its_names_are_there(block: Block):
    skip_elsewhere(block)
    tree = ast.parse(block.text, block.name)
    given = NOT_RUN.get(block.page, ("", {}))[1]
    assert undefined(block.text, set(given)) == []
    assert missing_imports(tree, own_modules()) == []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in given:
            assert importable(f"{given[node.value.id]}.{node.attr}"), ast.unparse(node)


def undefined(code: str, given: set[str]) -> list[str]:
    """The names that a code uses and nobody defines, by ruff."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "json"]
    known = ["--config", f"builtins = {sorted(given)}"]
    done = subprocess.run([*command, *known, "-"], input=code, capture_output=True, text=True, check=False)
    return [problem["message"] for problem in json.loads(done.stdout or "[]")]


def missing_imports(tree: ast.Module, own: set[str]) -> list[str]:
    """What a code imports that is not there."""
    missing = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            missing += [alias.name for alias in node.names if alias.name not in own and not importable(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module not in own:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            missing += [name for name in names if not importable(name)]
    return missing


def importable(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not (hasattr(thing, part) or part in getattr(thing, "__annotations__", {})):
                return False
            thing = getattr(thing, part, None)
        return True
    return False


def test_a_name_that_is_not_there_is_seen():
    assert undefined("print(nothing)", set()) == ["Undefined name `nothing`"]
    tree = ast.parse("from align_echo.types import Nothing, Step")
    assert missing_imports(tree, set()) == ["align_echo.types.Nothing"]


def an_interface(folder: Path) -> None:
    """The file that docs/interfaces.md begins with, and its file of rules as data."""
    texts = [block.text for block in python_blocks() if block.page == "docs/interfaces.md"]
    (folder / "mine.py").write_text(texts[0])
    (folder / "by_rules.py").write_text(next(text for text in texts if text.startswith("RULES = ")))


def a_rollout(folder: Path) -> None:
    """A run's kept episode, as `align-echo train` writes it."""
    file = JsonlFile(folder / "runs" / "echo" / "rollouts" / "1.jsonl")
    file.append(episode())


def the_greenhouse(folder: Path) -> None:
    """The environment that an example's page is about."""
    (folder / "greenhouse.py").write_text((ROOT / "examples" / "greenhouse" / "greenhouse.py").read_text())


def the_archive(folder: Path) -> None:
    """The environment of the tutorial."""
    (folder / "archive.py").write_text((ROOT / "examples" / "archive" / "archive.py").read_text())


def an_evaluation(folder: Path) -> None:
    """A finished run of `align-echo evaluate`."""
    evaluated(folder / "runs" / "first")


BEFORE: dict[str, Callable[[Path], None]] = {
    "docs/interfaces.md": an_interface,
    "docs/report.md": an_evaluation,
    "docs/training.md": a_rollout,
    "docs/tutorial.md": the_archive,
    "examples/greenhouse/README.md": the_greenhouse,
}
"""What is in the folder before the Python of a page runs there."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, whose modules can be imported; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


RUN_HERE = [block for block in python_blocks() if block.page not in {*NOT_RUN, *RUN_BY}]


@pytest.mark.parametrize("block", RUN_HERE, ids=named)
def test_python_runs(block: Block, folder: Path, capsys: pytest.CaptureFixture[str]):
    skip_elsewhere(block)
    if re.search(r"align_echo\.(train|loops\.trl)", block.text):
        pytest.importorskip("peft")
    if block.page in BEFORE:
        BEFORE[block.page](folder)
    variables: dict[str, Any] = {"__name__": "page"}
    with contextlib.ExitStack() as stack:
        exec(compile(block.text, block.name, "exec"), variables)
        stack.callback(close, variables)
    if block.page == "docs/agents.md" and "print(" in block.text:
        assert capsys.readouterr().out.split()[1:2] == ["won;"]


def close(variables: dict[str, Any]) -> None:
    for name in ("env", "envs"):
        if name in variables:
            variables[name].close()


def test_what_is_said_to_run_elsewhere_does():
    pages = {block.page for block in python_blocks()}
    for page, test in RUN_BY.items():
        assert page in pages
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")
    assert set(NOT_RUN) <= pages


ENTRY_POINTS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"])
NAMES = sorted({(page, name.partition("(")[0]) for page, name in in_backquotes() if name.startswith("align_echo.")})
WRITTEN = {"interface.py", "mine.py", "by_rules.py", "my_world.py", "study.md", "base.py"}
"""Files that runs, readers and other projects write."""

FILES = sorted(
    {
        (page, path)
        for page, path in in_backquotes()
        if re.fullmatch(r"[\w./-]+\.(py|md)", path) and Path(path).name not in WRITTEN and Path(path).stem
    }
)


@pytest.mark.parametrize(("page", "name"), NAMES)
def test_a_name_in_a_text_is_there(page: str, name: str):
    if re.match(r"align_echo\.(train|gui|gaia|models\.local)", name):
        pytest.importorskip("peft")
    assert name in ENTRY_POINTS or importable(name)


@pytest.mark.parametrize(("page", "path"), FILES)
def test_a_file_in_a_text_is_there(page: str, path: str):
    places = [ROOT, ROOT / "align_echo", ROOT / "docs", ROOT / Path(page).parent]
    own = {f"{module}.py" for module in own_modules()}
    assert path in own or any((place / path).exists() for place in places)


# ---------------------------------------------------------------- configs


@pytest.mark.parametrize("block", [block for block in blocks() if block.language == "yaml"], ids=named)
def test_a_config_is_one_that_is_read(block: Block):
    keys = set(yaml.safe_load(block.text))
    if keys <= set(StudyFile.model_fields):
        checked_study(block.text, block.name)
        return
    pytest.importorskip("peft")
    from align_echo.train.config import TrainConfig, checked_config, merged, method

    assert keys <= {"base", *TrainConfig.model_fields}, "a config of a kind that nobody reads"
    values = yaml.safe_load(block.text)
    checked_config(merged(method(values.pop("base", "grpo")), values), block.name)


@pytest.mark.parametrize("block", [block for block in blocks() if block.language == "toml"], ids=named)
def test_entry_points_are_of_groups_that_are_read(block: Block):
    assert set(tomllib.loads(block.text)["project"]["entry-points"]) <= ENTRY_POINTS
    assert {registry.group for registry in (AGENTS, FORMS, RULES)} <= ENTRY_POINTS


def test_json_is_json():
    for block in blocks():
        if block.language == "json":
            json.loads(block.text)
