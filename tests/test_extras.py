"""Extras go together: what two of them ask for of one package has a version in common."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from itertools import combinations
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def _bounds(extra: str) -> dict[str, Requirement]:
    wanted = [Requirement(line) for line in (*PROJECT["dependencies"], *EXTRAS[extra])]
    return {requirement.name: requirement for requirement in wanted}


def _versions(requirement: Requirement) -> list[Version]:
    return [Version(bound.version.removesuffix(".*")) for bound in requirement.specifier]


@pytest.mark.parametrize(("one", "other"), list(combinations(sorted(EXTRAS), 2)))
def test_two_extras_have_a_version_in_common(one, other):
    first, second = _bounds(one), _bounds(other)
    for name in first.keys() & second.keys():
        both = first[name].specifier & second[name].specifier
        bounds = [*_versions(first[name]), *_versions(second[name])]
        assert not bounds or any(both.contains(version) for version in bounds), name


def test_what_the_tests_run_with_is_within_the_bounds():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    constraints = [Requirement(line) for line in lines if not line.startswith("#")]
    bounds = _bounds("train")
    assert {constraint.name for constraint in constraints} <= bounds.keys()
    for constraint in constraints:
        assert all(map(bounds[constraint.name].specifier.contains, _versions(constraint))), constraint.name


@pytest.mark.parametrize("version", ["1.30.0", "2.3.0"])
def test_mcp_is_taken_in_both_versions(version):
    """OpenEnv asks for the first, and verifiers for the second."""
    assert _bounds("mcp")["mcp"].specifier.contains(version)


@pytest.mark.slow
def test_mcp_and_openenv_resolve_together():
    """With what their packages ask for themselves, which only the index knows."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", ".[mcp,openenv]"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No matching distribution" in asked.stderr or "Could not find a version" in asked.stderr:
        pytest.skip("there is no network")
    assert asked.returncode == 0, asked.stderr[-2000:]
