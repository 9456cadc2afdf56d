"""How candidates were drawn, on record beside a critic."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.critic.ask import SAMPLING_FILE, SamplingSettings, read_sampling, write_sampling
from align_echo.errors import UsageError

GAIA = SamplingSettings(temperature=1.0, top_k=30, top_p=0.8)


def test_distinct_ways_are_read_as_they_were_written(tmp_path: Path):
    ways = (GAIA, SamplingSettings(temperature=0.7, top_k=0, top_p=1.0), SamplingSettings(temperature=1.0))
    write_sampling([ways[0], ways[1], ways[0], ways[2]], tmp_path)
    assert read_sampling(tmp_path) == ways


def test_nothing_on_record_is_no_way_and_damage_is_told(tmp_path: Path):
    assert read_sampling(tmp_path) == ()
    (tmp_path / SAMPLING_FILE).write_text('[{"temperature": -1}]')
    with pytest.raises(UsageError, match="damaged: delete it"):
        read_sampling(tmp_path)


def test_a_way_in_words():
    assert str(GAIA) == "at temperature 1 with --top-k 30 --top-p 0.8"
    assert str(SamplingSettings(temperature=0.7, top_k=0, top_p=1.0)) == "at temperature 0.7 from all tokens"
    assert str(SamplingSettings(temperature=1.0)) == "at temperature 1 as an endpoint is set up"
