"""What `make loops-check` reads of an example, and what all examples keep to."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from tests.loops.check import EXAMPLES, ROOT, Checked, extra_of, lines_of_code, table

SOURCE = '''# needs: align-echo[train,gui]
"""Two
lines."""

import sys  # counts


def play(url):
    """One line."""
    # a comment
    text = """of
    two"""
    return [
        url,
    ]
'''


def test_lines_are_counted_without_words():
    assert lines_of_code(SOURCE) == 7
    assert extra_of(SOURCE) == "train,gui"
    assert extra_of("# needs: align-echo\n") == ""
    with pytest.raises(ValueError, match="first line"):
        extra_of('"""Plays."""\n')


def test_the_table_says_what_failed():
    rows = [Checked("a", "x", 9, 1.2, 3.4, "ok", "none"), Checked("bcd", "", 10, 1.0, 0.0, "exit 1", "ok")]
    assert [row.good for row in rows] == [True, False]
    assert table(rows).splitlines()[-1] == "| bcd  | none  | 10    | 1         | 0     | exit 1  | ok    |"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_an_example_is_one_page_needs_an_extra_that_there_is_and_hides_no_module(example: Path):
    source = example.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*filter(None, extra_of(source).split(","))} <= {*extras}
    assert len(source.splitlines()) <= 80
    loops = {file.stem for file in (ROOT / "align_echo" / "loops").glob("*.py")}
    assert example.stem.partition("_")[0] in loops
    assert example.stem not in {*sys.stdlib_module_names, *loops}, "a file next to it could not import that module"
