"""Interfaces say what they said: episodes of golden files, played again action by action."""

from __future__ import annotations

import pytest

from tests.conformance.messages import GAMES, WORLDS, again, env_maker, play, read


@pytest.mark.long
@pytest.mark.parametrize("name", [*GAMES, *WORLDS])
def test_an_agent_reads_what_it_read(name):
    make = env_maker(name)
    for episode in read(name):
        assert play(make(), episode.task, again(episode.turns)) == episode
