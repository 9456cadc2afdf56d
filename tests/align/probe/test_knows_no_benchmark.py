"""The probe must find its rules: none of a benchmark's vocabulary may stand in its source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import align_echo.align.probe
from align_echo.wrappers.catalogue import environments

FILES = sorted(Path(align_echo.align.probe.__file__).parent.glob("*.py"))

WORDS = [
    "fridge",
    "microwave",
    "sinkbasin",
    "cabinet",
    "drawer",
    "countertop",
    "shelf",
    "desklamp",
    "lamp",
    "mug",
    "apple",
    "receptacle",
    "household",
    "kitchen",
    "inventory",
    "examine",
    "take~{",
    "heat",
    "cool",
    "clean",
    "slice",
    "toggle",
    "nothing~happens",
    "go~to",
    "put~",
    "known~action",
    "ambiguous",
    "focus",
    "webshop",
    "buy",
    "search~[",
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_benchmark_word_in_the_source(file: Path):

    code = file.read_text().lower()
    found = [word for word in WORDS if re.search(rf"\b{re.escape(word.replace('~', ' '))}", code)]
    assert found == []


def test_no_environment_is_named():
    names = [spec.name for spec in environments().values()]
    assert [name for file in FILES for name in names if name in file.read_text().lower()] == []
