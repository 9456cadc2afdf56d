"""The threat model names tests that are there and limits that are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from align_echo.errors import SHORTEST, SHORTEST_WORD
from align_echo.interface.contract import MAX_SOURCE
from align_echo.interface.sandbox.session import Sandbox
from align_echo.interface.sharing import LARGEST_FILE
from align_echo.models.client import MOST_BYTES
from align_echo.wrappers.gui.steps import MOST_PIXELS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_claim_names_a_test_that_is_there():
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


LIMITS = Sandbox()


@pytest.mark.parametrize(
    "claim",
    [
        f"{LIMITS.seconds:g} s a turn",
        f"{LIMITS.memory // 2**20} MiB an episode",
        f"{LIMITS.engine_calls} calls of the engine a turn",
        f"after {LIMITS.deaths} lost sessions",
        f"{LIMITS.crossing:,} characters a turn in and out",
        f"{LIMITS.text:,} returned",
        f"{LIMITS.log_text:,} and {LIMITS.log_lines} lines logged",
        f"source up to {MAX_SOURCE:,}",
        f"up to {MOST_BYTES // 2**20} MB, counted after unpacking",
        f"at most {LARGEST_FILE // 1_000_000} MB; hash",
        f"at most {MOST_PIXELS:,} pixels",
        f"shorter than {SHORTEST} characters, or a word of fewer than {SHORTEST_WORD} letters",
    ],
)
def test_limits_are_the_codes(claim):
    assert claim in PAGE
