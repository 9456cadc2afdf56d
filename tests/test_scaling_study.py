"""The simulation of many machines against what can be known without it: limits, queueing's laws, steps by hand."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from align_echo.errors import UsageError
from benchmarks.scaling.figures import Figures, Setup, read_figures
from benchmarks.scaling.report import FILES, capacities, setups, table
from benchmarks.scaling.simulate import RESOURCES, bound, harvest, publication, simulate

NOTHING: dict[str, Any] = {
    **dict.fromkeys(("step_seconds", "reset_seconds", "broken_share", "opening_tokens", "observation_tokens"), 0.0),
    **dict.fromkeys(("weights_bytes", "adapters_bytes", "turn_bytes", "driver_seconds", "publishing_seconds"), 0.0),
    **dict.fromkeys(("reading", "learning", "link_bytes"), 1e12),
    **dict.fromkeys(("gpu_price", "core_price"), 1.0),
    "turns": (10,),
    "reply_tokens": 1e-9,
    "decoding": {1: 1e9},
}
"""Figures at which nothing takes any time worth telling."""


def figures(**some: Any) -> Figures:
    return Figures(**{**NOTHING, **some})


def setup(**some: Any) -> Setup:
    return Setup(**{"environments": 64, "cores": 64, "engines": 1, "learners": 1, "episodes": 256, **some})


def test_only_the_engine_is_slow():
    slow = figures(reply_tokens=20, decoding={1: 10, 8: 40})
    for engines in (1, 4):
        step = simulate(slow, setup(engines=engines))
        assert step.turns_a_second == pytest.approx(engines * 40 / 20, rel=0.01)
        assert step.scarcest == "engines"
        assert step.busy["engines"] == pytest.approx(1.0, rel=0.01)


def test_only_environments_are_slow():
    step = simulate(figures(step_seconds=0.5), setup(cores=8))
    assert step.turns_a_second == pytest.approx(8 / 0.5, rel=0.01)
    assert step.scarcest == "cores"
    assert step.busy["cores"] == pytest.approx(1.0, rel=0.01)


def test_only_the_learner_is_slow():
    slow = figures(reply_tokens=20, decoding={1: 1e9}, learning=1000)
    assert simulate(slow, setup(learners=2)).turns_a_second == pytest.approx(2 * 1000 / 20, rel=0.01)


def test_only_the_driver_or_its_link_is_slow():
    assert simulate(figures(driver_seconds=0.1), setup()).turns_a_second == pytest.approx(10 / 0.1, rel=0.01)
    link = simulate(figures(turn_bytes=100, link_bytes=1000), setup())
    assert link.scarcest == "link"
    assert link.turns_a_second == pytest.approx(10, rel=0.01)
    assert link.bytes_in == 256 * 10 * 100


def test_a_step_of_one_environment_by_hand():
    """Reset 1 s; the first request reads 100 + 10 at 100 a second and writes 20 at 10 a second; step 0.5 s; the second
    request reads 10; step; driver 0.25 s. Then 160 tokens are learned at 40 a second, and 50 bytes published at 100."""
    by_hand = figures(
        turns=(2,), reset_seconds=1, opening_tokens=100, observation_tokens=10, reply_tokens=20, decoding={1: 10},
        reading=100, step_seconds=0.5, driver_seconds=0.25, learning=40, adapters_bytes=50, link_bytes=100,
    )  # fmt: skip
    one = setup(environments=1, cores=1, episodes=1)
    played = 1 + (1.1 + 2 + 0.5) + (0.1 + 2 + 0.5) + 0.25
    step = simulate(by_hand, one, steps=2)
    assert step.harvest == pytest.approx(played)
    assert step.seconds == pytest.approx(played + 160 / 40 + 0.5)
    ahead = simulate(by_hand, one.model_copy(update={"ahead": True}), steps=2)
    assert ahead.seconds == pytest.approx(max(played, 160 / 40) + 0.5)
    assert step.dollars == pytest.approx((2 + 2) * step.seconds / 3600 / 2 * 1e6)


def test_two_environments_on_one_core_and_one_engine_by_hand():
    """Both wait for the core in turn (0-1, 1-2), then write 10 tokens at 10 a second: the first alone for 1 s, so that
    it is done at 2; the other from 2 to 3. Steps take 1 s: 2-3 and 3-4."""
    by_hand = figures(turns=(1,), reset_seconds=1, step_seconds=1, reply_tokens=10, decoding={1: 10, 2: 10})
    played = harvest(by_hand, setup(environments=2, cores=1, episodes=2))
    assert played.seconds == pytest.approx(4)
    assert [played.busy["cores"], played.busy["engines"]] == pytest.approx([4, 2])


def test_requests_share_an_engine_by_hand():
    """One is alone for 1 s at 10 a second; two share 10 for 2 s: the first has its 20 then; the other has 10 left."""
    by_hand = figures(turns=(1,), reset_seconds=1, reply_tokens=20, decoding={1: 10, 2: 10})
    assert harvest(by_hand, setup(environments=2, cores=1, episodes=2)).seconds == pytest.approx(5)


def test_littles_law():
    """Episodes in play are those that come a second times how long one stays, and no more than there are places."""
    busy = figures(turns=(5, 9, 30), step_seconds=0.1, reset_seconds=0.3, reply_tokens=10, decoding={1: 10, 8: 50})
    played = harvest(busy, setup(environments=16, cores=4, episodes=2000))
    assert played.in_play == pytest.approx(played.episodes / played.seconds * played.residence)
    assert 15 < played.in_play <= 16 + 1e-9


@pytest.mark.parametrize(("environments", "engines", "cores"), list(itertools.product((1, 8, 64), (1, 4), (1, 16))))
def test_no_harvest_is_faster_than_its_scarcest_resource_and_shares_are_shares(environments, engines, cores):
    mixed = figures(
        turns=(3, 8, 20), step_seconds=0.05, reset_seconds=0.2, opening_tokens=300, observation_tokens=30,
        reply_tokens=30, decoding={1: 50, 8: 300, 32: 600}, reading=2000, learning=3000, turn_bytes=1e4,
        driver_seconds=0.01, link_bytes=1e7, broken_share=0.1, adapters_bytes=1e6,
    )  # fmt: skip
    which = setup(environments=environments, engines=engines, cores=cores)
    played = harvest(mixed, which)
    mean = sum(mixed.turns) / len(mixed.turns) * which.episodes
    assert played.seconds >= 0.95 * bound(mixed, which) * played.turns / mean
    step, ahead = simulate(mixed, which), simulate(mixed, which.model_copy(update={"ahead": True}))
    assert all(0 <= busy <= 1 + 1e-9 for result in (step, ahead) for busy in result.busy.values())
    assert set(step.busy) == set(RESOURCES)
    assert 0.45 * step.seconds < ahead.seconds < 1.1 * step.seconds


def test_the_same_seed_gives_the_same_figures_and_broken_episodes_cost_time():
    mixed = figures(turns=(3, 8), step_seconds=0.05, broken_share=0.5)
    assert harvest(mixed, setup(), 1) == harvest(mixed, setup(), 1) != harvest(mixed, setup(), 2)
    sound = mixed.model_copy(update={"broken_share": 0.0})
    assert harvest(mixed, setup(), 1).busy["cores"] > 1.1 * harvest(sound, setup(), 1).busy["cores"]


def test_weights_go_to_every_engine_and_nowhere_where_it_learns_too():
    sized = figures(adapters_bytes=10, weights_bytes=1000, link_bytes=100)
    assert publication(sized, setup(engines=4)) == (0.4, 40)
    assert publication(sized, setup(engines=4, published="weights")) == (40, 4000)
    assert publication(sized, setup(engines=4, colocated=True)) == (0, 0)


def test_a_units_capacity_is_what_a_simulation_of_it_alone_comes_to():
    slow = figures(reply_tokens=20, observation_tokens=10, decoding={1: 10, 8: 40}, reading=100, learning=60)
    assert capacities(slow)["engines"] == pytest.approx(1 / (20 / 40 + 10 / 100))
    assert capacities(slow)["learners"] == pytest.approx(60 / 30)
    played = harvest(slow, setup(episodes=2000))
    assert played.turns / played.seconds == pytest.approx(capacities(slow)["engines"], rel=0.02)


def test_gpus_are_divided_as_their_work_is():
    even = figures(reply_tokens=100, decoding={1: 10, 64: 1000}, learning=1000)
    named = setups(even, 8, environments=512, cores=64, episodes=4096)
    assert [(setup.engines, setup.learners) for setup in named.values()] == [(8, 8), (4, 4), (4, 4)]
    slower_learner = figures(reply_tokens=100, decoding={1: 10, 64: 1000}, learning=333)
    ahead = setups(slower_learner, 8, environments=512, cores=64, episodes=4096)["8 GPUs, divided, ahead"]
    assert (ahead.engines, ahead.learners) == (2, 6)


@pytest.mark.parametrize("file", FILES.values())
def test_every_figure_that_comes_along_says_where_it_comes_from(file):
    read = read_figures(file)
    assert set(read.sources) == set(Figures.model_fields) - {"sources"}
    assert all(source.startswith(("measured", "assumed", "arithmetic")) for source in read.sources.values())
    small = {"small": setup(environments=8, episodes=16)}
    assert "small" in table(read, small, steps=1, seed=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: {value: 1, source: measured}", "no figure 'steps'"),
        ("turns: [1]", "value: ..., source"),
        ("base: nowhere.yaml", "cannot read"),
        (f"base: {FILES['gpu']}\nstep_seconds: {{value: -1, source: measured}}", "step_seconds"),
        (f"base: {FILES['gpu']}\ndecoding: {{value: {{1: 5, 2: 3}}, source: measured}}", "do not fall"),
    ],
)
def test_figures_that_cannot_be_are_refused(text, message, tmp_path):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_figures(tmp_path / "mine.yaml")
