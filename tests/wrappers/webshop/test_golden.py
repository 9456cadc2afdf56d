"""Whole episodes of the expert, frozen: any change of text, catalogue, order of results or advice shows up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.wrappers.webshop.env import WebShopEnv
from tests.wrappers.webshop.test_env import play_expert

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.txt")), ids=lambda file: file.stem)
def test_the_experts_episode_reads_as_frozen(file, embedded):
    head, _, frozen = file.read_text(encoding="utf-8").partition("\n")
    mode, task = head.split()
    lines, _ = play_expert(WebShopEnv(embedded, "test", mode=mode), task)
    assert "\n".join(lines) + "\n" == frozen


def test_there_are_frozen_episodes():
    assert len(list(GOLDEN.glob("*.txt"))) >= 3
