"""The study of the flywheel: what it runs, and curves that pool the states of several seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from align_echo.critic.opinion import CriticOpinion
from align_echo.critic.verdict import Verdict
from align_echo.gaia.figures import JudgedState
from align_echo.gaia.fit.folder import read_settings
from align_echo.gaia.fit.learning import FitSettings
from align_echo.types import Candidate
from benchmarks.flywheel.report import JudgedStates, compared, plot, points, table_of
from benchmarks.flywheel.runs import STUDIES, plays, wheels
from benchmarks.flywheel.wordings import LEAST, auroc, by_wording
from benchmarks.learning.verbs import asked_of
from tests.gaia.test_trial import Say, contrary, honest, state

DRAWN = ("xxxxxxxA", "Axxxxxxx", "xxxxxxxx", "xAxxxxxx")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr("benchmarks.flywheel.report.RESAMPLES", 100)


def judged(*rounds: Say) -> JudgedStates:
    """The same states, two tasks, as the critic of each round sees them."""
    by_round = tuple([state(one, say, task=str(index % 2)) for index, one in enumerate(DRAWN)] for say in rounds)
    return JudgedStates(by_round, (1.0,) * len(rounds))


def test_a_critic_that_never_errs_reaches_pass_at_n_and_all_seeds_count():
    found = {
        (point.rule, point.candidates): point for point in points([judged(contrary, honest), judged(contrary, honest)])
    }
    assert [found["round 2", n].value for n in (1, 2, 8)] == [0.25, 0.5, 0.75]
    assert [found["pass", n].value for n in (1, 2, 8)] == [0.25, 0.5, 0.75]
    assert found["round 1", 8].value == 0.0
    assert (found["round 2", 8].gain, found["round 1", 8].gain, found["round 2", 8].n) == (0.5, -0.25, 8)
    low, high = found["round 2", 8].gain_ci95
    assert low <= 0.5 <= high


def test_the_last_round_is_compared_with_the_first_and_with_log_probability_on_the_same_states():
    rounds, logprob, tilted = compared([judged(contrary, honest)])
    assert (rounds.value, rounds.gain) == (0.75, 0.75)
    assert (logprob.gain, tilted.gain) == (0.5, 0.5), "as likely as each other, the first is taken"
    assert compared([judged(honest, honest)])[0].gain == 0.0


def test_the_table_has_a_row_for_each_rule_and_the_plot_is_the_same_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    found = points([judged(honest, honest)])
    assert len(table_of(found).splitlines()) == 2 + 9
    for name in ("one", "two"):
        plot(found, "a title", tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("env", sorted(STUDIES))
def test_episodes_are_played_with_one_draw_by_rules_without_a_critic_and_under_the_critic_of_each_round(env):
    study, out = STUDIES[env], Path("out")
    turned, played = wheels(study, [1, 2], 2, out), plays(study, [1, 2], 2, out)
    arms = ["one draw", "placebo", "majority", "logprob", "round 2", "round 2 tilted", "round 1", "round 1 tilted"]
    assert [job.arm for job in played] == [arm for arm in arms for _ in (1, 2)]
    judges = list(filter(None, (asked_of(job.measuring)["judge"] for job in played)))
    assert judges[0] == str(turned[0].folder / "round-2" / "critic" / "critic")
    assert len({job.folder for job in played}) == len(played)


@pytest.mark.parametrize("env", sorted(STUDIES))
def test_a_critic_learns_all_weights_in_every_round(env, tmp_path):
    wheel = wheels(STUDIES[env], [1], 2, tmp_path)[0]
    config = asked_of(wheel.training)["config"]
    assert isinstance(config, Path)
    assert read_settings(FitSettings, config, {}).weights == "full"


def test_a_wording_that_is_right_here_and_wrong_there_is_told_apart_by_whoever_scores_it_higher_where_it_is_right():
    labels: list[Verdict] = ["correct", "wrong"] * LEAST
    drawn = (Candidate(action="buy", logprob=-1.0),)
    opinions = {"buy": CriticOpinion(action="buy", verdict="correct", logit=1.0)}
    states = [JudgedState("a", drawn, {"buy": label}, opinions) for label in labels]
    (buy,) = by_wording([*states, state("A")]).values()
    right = [proposal.right for proposal in buy]
    assert (sum(right), sum(proposal.said_right for proposal in buy)) == (LEAST, 2 * LEAST)
    assert auroc(right, [proposal.logit for proposal in buy]) == 0.5
    assert auroc(right, [float(side) for side in right]) == 1.0
    assert auroc(right, [None, *(proposal.logit for proposal in buy[1:])]) is None
    assert by_wording(states[:-1]) == {}
