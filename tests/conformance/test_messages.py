"""The shipped interfaces say what they said: episodes of golden files, played again action by action."""

from __future__ import annotations

import pytest

from tests.conformance.messages import GAMES, again, play, read


@pytest.mark.long
@pytest.mark.parametrize("name", GAMES)
def test_an_agent_reads_what_it_read(name):
    for episode in read(name):
        assert play(name, episode.task, again(episode.turns)) == episode
