"""What a benchmark's last line says of two ways that took turns: hand-computed, in pairs, and with both clocks."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from studies.rounds import Round, at_least_one, costs, cpu_since, family_bytes, family_cpu, rates

OURS = [Round(100, 2.0, 1.0), Round(100, 4.0, 1.0), Round(300, 3.0, 2.0)]
THEIRS = [Round(10, 1.0, 1.0), Round(10, 4.0, 1.0), Round(20, 2.0, 4.0)]


def test_rates_are_medians_over_rounds_and_ratios_are_of_rounds_in_pairs():
    found = rates(OURS, THEIRS)
    assert (found["value"], found["baseline"]) == (50.0, 10.0)  # of 50, 25, 100 and of 10, 2.5, 10
    assert (found["ratio"], found["interval"]) == (10.0, [5.0, 10.0])
    assert (found["cpu_ratio"], found["cpu_interval"]) == (10.0, [10.0, 30.0])
    assert (found["seconds"], found["cpu_seconds"], found["rounds"]) == ([9.0, 7.0], [4.0, 6.0], 3)


def test_costs_are_the_other_way_round():
    found = costs(OURS, THEIRS)
    assert (found["value"], found["baseline"]) == (0.02, 0.1)
    assert (found["ratio"], found["interval"]) == (0.1, [0.1, 0.2])


def test_ways_of_unlike_numbers_of_rounds_are_not_compared():
    with pytest.raises(ValueError, match="zip"):
        rates(OURS, THEIRS[:2])


@pytest.mark.skipif(sys.platform != "linux", reason="what a process uses is read from /proc")
def test_what_a_child_uses_is_counted_while_it_runs_and_takes_nothing_away_when_it_ended():
    busy = "x = sum(i * i for i in range(3_000_000)); held = bytearray(60_000_000); print('done', flush=True); input()"
    before, memory = family_cpu(), family_bytes()
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with_child, spent, running = family_bytes(), cpu_since(before), family_cpu()
        child.communicate(b"\n")
    assert with_child > memory + 50_000_000
    assert spent > 0.05
    assert set(running) - set(before) == {child.pid}
    assert 0.0 <= cpu_since(running) < spent


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", ""])
def test_no_rounds_are_refused(text):
    assert at_least_one("3") == 3
    with pytest.raises(argparse.ArgumentTypeError, match="whole number of at least 1"):
        at_least_one(text)
