"""The examples of examples/loops play to their end, where what they need is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.loops.check import EXAMPLES, ROOT, extra_of

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    wanted = [re.split(r"[\[<>=!~; ]", line)[0] for name in filter(None, extra.split(",")) for line in EXTRAS[name]]
    installed = {distribution.metadata["Name"].lower().replace("_", "-") for distribution in metadata.distributions()}
    return [name for name in wanted if name.lower().replace("_", "-") not in installed]


def marked(example: Path) -> Any:
    """The example as a parameter; one that trains takes minutes."""
    trains = "train" in extra_of(example.read_text(encoding="utf-8")).split(",")
    return pytest.param(example, id=example.stem, marks=[pytest.mark.slow] if trains else [])


@pytest.mark.parametrize("example", [marked(file) for file in sorted(EXAMPLES.glob("*.py"))])
def test_an_example_plays_to_its_end(example: Path, tmp_path: Path):
    if absent := missing(extra_of(example.read_text(encoding="utf-8"))):
        pytest.skip(f"not installed: {', '.join(absent)}")
    alone = tmp_path / example.name
    alone.write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(alone)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
