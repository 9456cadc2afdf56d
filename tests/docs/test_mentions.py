"""A file that a docstring names is there, and no document names a folder that is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MENTION = re.compile(r"`([\w/]+\.py)`")
ELSEWHERE = {"interface.py", "sitecustomize.py", "tasks/base.py"}
"""Files of a run, of Python and of other packages."""


def sources() -> list[Path]:
    folders = ("align_echo", "wrappers", "prompts", "studies", "tests")
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


PATHS = [f"/{file.relative_to(ROOT)}" for file in sources()]


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def missing(text: str, folder: Path) -> list[str]:
    """The files named in a text that do not lie beside it, and with a folder nowhere else either."""
    return [
        name
        for name in MENTION.findall(text)
        if name not in ELSEWHERE
        if not (folder / name).exists() and not ("/" in name and any(path.endswith(f"/{name}") for path in PATHS))
    ]


def test_every_file_named_in_a_docstring_is_there():
    wrong = {
        str(file.relative_to(ROOT)): names
        for file in sources()
        if (names := [name for text in docstrings(file.read_text()) for name in missing(text, file.parent)])
    }
    assert wrong == {}


@pytest.mark.parametrize("text", ["see `nowhere.py`", "see `critic/nowhere.py`", "see `rollout.py`"])
def test_a_file_that_is_not_there_is_seen(text):
    assert missing(text, ROOT / "align_echo" / "critic")


def test_files_beside_and_by_folder_are_there():
    assert missing("`ask.py`, `train/run.py` and a run's `interface.py`", ROOT / "align_echo" / "critic") == []
