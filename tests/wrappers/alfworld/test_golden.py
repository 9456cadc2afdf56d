"""Whole episodes of the expert, frozen: any change of text, numbering, furnishing or advice shows up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.wrappers.alfworld.data import load_embedded
from align_echo.wrappers.alfworld.env import AlfworldEnv

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.txt")), ids=lambda file: file.stem)
def test_the_experts_episode_reads_as_frozen(file, expert_episode):
    task_id, _, frozen = file.read_text(encoding="utf-8").partition("\n")
    env = AlfworldEnv(load_embedded(), task_id.split("/")[0])
    lines = [
        f"> {action}\n{observation}" if action else observation for action, observation in expert_episode(env, task_id)
    ]
    assert "\n".join(lines) + "\n" == frozen


def test_there_are_frozen_episodes():
    assert len(list(GOLDEN.glob("*.txt"))) >= 3
