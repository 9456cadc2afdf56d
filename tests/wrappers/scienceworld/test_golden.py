"""Whole episodes along the gold path, frozen: any change of text, order or planning shows up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.wrappers.scienceworld.env import ScienceWorldEnv
from align_echo.wrappers.scienceworld.tasks import VARIATIONS, variations
from tests.wrappers.scienceworld.conftest import needs_engine, play_gold

GOLDEN = Path(__file__).with_name("golden")
pytestmark = needs_engine


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.txt")), ids=lambda file: file.stem)
def test_a_gold_path_reads_as_frozen_and_reaches_the_full_score(env, file):
    task_id, _, frozen = file.read_text(encoding="utf-8").partition("\n")
    lines = [f"> {action}\n{observation}" if action else observation for action, observation in play_gold(env, task_id)]
    assert "\n".join(lines) + "\n" == frozen
    assert (env.state.score, env.state.raw_score, env.state.won) == (1.0, 100.0, True)


def test_there_are_frozen_episodes():
    assert len(list(GOLDEN.glob("*.txt"))) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIATIONS)
def test_every_tasks_gold_path_reaches_the_full_score(name):
    env = ScienceWorldEnv("test", step_limit=1000)
    play_gold(env, f"{name}/easy/{variations(name, 'test')[0]}")
    env.close()
    assert env.state.score == 1.0
    assert env.oracle().distance() == 0
