"""What is observed of play: shares by hand, and a stage that answers as the one under it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import ModelError
from align_echo.rollout.refusals import RefusedTurns, play_judge
from align_echo.rollout.session import Episode
from align_echo.train.config import checked_config, method
from align_echo.train.methods.echo import echo
from align_echo.train.methods.rcm import rcm
from align_echo.train.rollouts import ObservedStage
from align_echo.train.run import play_batch
from align_echo.train.signals import play_signals
from align_echo.types import Fault, Step, Trajectory, Usage
from align_echo.wrappers.catalogue import environment
from tests.train.scripted_stage import BROKEN, ScriptedStage

REFUSAL = "Nothing happens."


def counted(played: Sequence[Trajectory]) -> RefusedTurns:
    """Refused turns, in an environment that says so itself."""
    spec = dataclasses.replace(environment("alfworld"), is_invalid=lambda observation: observation == REFUSAL)
    return play_judge(spec)(played)


def episode(*said: str | None, cut: bool = False) -> Trajectory:
    """Turns by the engine's answer: "" for a reply without an action, None for one that an interface kept from it."""
    steps = [
        Step(
            reply="r",
            action=None if answer == "" else "a",
            observation="shown",
            raw_observation=answer or None,
            truncated=cut and number == len(said),
            cut_off=cut and number < len(said),
        )
        for number, answer in enumerate(said, start=1)
    ]
    return Trajectory(
        environment="e", split="s", task_id="t", agent="a", goal="", initial_observation="", steps=tuple(steps)
    )


def test_shares_of_turns_and_episodes_by_hand():
    played = [
        episode("Fine.", REFUSAL, REFUSAL, "Fine.", ""),
        episode(None, "", "Fine.", cut=True),
        episode(REFUSAL, REFUSAL).model_copy(update={"fault": BROKEN}),
    ]
    assert play_signals(played, counted) == {
        "episodes": 3,
        "count/environment_faults": 1,
        "policy/context_limit_share": 0,
        "policy/no_action_share": 2 / 8,
        "policy/cut_share": 2 / 8,
        "policy/turn_limit_share": 1 / 2,
        "policy/invalid_share": 5 / 8,
        "policy/invalid_run_share": 4 / 8,
    }


def test_a_chat_that_outgrew_the_context_was_not_cut_at_the_turn_limit():
    signals = play_signals([episode("Fine.").model_copy(update={"context_overflow": True})], counted)
    assert (signals["policy/turn_limit_share"], signals["policy/context_limit_share"]) == (0, 1)
    at_once = episode().model_copy(update={"context_overflow": True})
    assert play_signals([at_once, episode("Fine.")], counted)["policy/context_limit_share"] == 1 / 2
    assert play_signals([at_once], counted) == {"episodes": 1, "policy/context_limit_share": 1}
    broken = episode("x").model_copy(update={"fault": BROKEN})
    assert play_signals([at_once, broken], counted)["policy/context_limit_share"] == 1


def test_where_nothing_tells_a_refusal_there_is_no_share_of_them():
    assert not [name for name in play_signals([episode(REFUSAL)], None) if "invalid" in name]
    assert play_signals([episode("x").model_copy(update={"fault": BROKEN})], counted) == {
        "episodes": 1,
        "count/environment_faults": 1,
    }


def test_an_interface_that_failed_is_counted_and_one_that_did_not_is_not_mentioned():
    whole = episode("Fine.", "Fine.")
    failing = [step.model_copy(update={"interface_error": "line 1: no"}) for step in whole.steps]
    played = [whole.model_copy(update={"steps": tuple(failing), "reset_error": "line 1: no"}), whole]
    assert play_signals(played, counted)["count/interface_failures"] == 3
    assert "count/interface_failures" not in play_signals([whole], counted)


@given(st.lists(st.lists(st.sampled_from(["", "Fine.", REFUSAL, None]), min_size=1), max_size=4))
def test_shares_lie_within_each_other(answers):
    signals = play_signals([episode(*answer) for answer in answers], counted)
    if signals:
        assert 0 <= signals["policy/invalid_run_share"] <= signals["policy/invalid_share"] <= 1
        assert signals["policy/no_action_share"] <= signals["policy/invalid_share"]


def test_an_observed_stage_answers_as_the_one_under_it_and_tells_its_parts_apart():
    def stage() -> ScriptedStage:
        return ScriptedStage(lambda episode: 0.5)

    observed = ObservedStage(stage())
    harvest = rcm(["a", "b"], observed, samples=2)
    assert harvest == rcm(["a", "b"], stage(), samples=2)
    signals = observed.signals(None)
    assert {"seconds/play", "seconds/oracle", "seconds/critic"} < set(signals)
    assert [trajectory.task_id for trajectory in observed.played] == ["a", "b"]


def test_tokens_per_second_count_what_both_roles_drew(monkeypatch: pytest.MonkeyPatch):
    clock = iter(range(100))
    monkeypatch.setattr("align_echo.train.rollouts.time.perf_counter", lambda: float(next(clock)))
    stage = ScriptedStage(lambda episode: 0.5, spent=7)
    observed = ObservedStage(stage)
    rcm(["a"], observed, samples=3)
    signals = observed.signals(None)
    assert (signals["seconds/play"], signals["seconds/critic"], signals["seconds/oracle"]) == (1, 1, 1)
    assert signals["tokens_per_second"] == (2 * 7 + 6 * 7) / 2


def test_tokens_per_second_are_not_there_where_a_server_tells_no_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.train.scripted_stage.Usage", lambda **_: Usage(completion_tokens=None))
    observed = ObservedStage(ScriptedStage(lambda episode: 0.5, spent=7))
    rcm(["a"], observed, samples=3)
    assert observed.played
    assert "tokens_per_second" not in observed.signals(None)


def test_parts_that_overlap_are_told_as_one_and_their_time_is_the_clocks(monkeypatch: pytest.MonkeyPatch):
    clock = iter([0, *(10, 14), *(20, 26), *(30, 34), *(40, 44), *(50, 56), *(60, 64), 14])
    monkeypatch.setattr("align_echo.train.rollouts.time.perf_counter", lambda: float(next(clock)))
    observed = ObservedStage(ScriptedStage(lambda episode: 0.5))
    echo(["a", "b"], observed, refinements=2)
    assert [trajectory.task_id for trajectory in observed.played] == ["a"] * 3 + ["b"] * 3
    assert [attempt.task_id for attempt, _ in observed.critiqued] == ["a", "a", "b", "b"]
    signals = observed.signals(None)
    assert signals["seconds/play"] == pytest.approx(14 * 16 / 28)
    assert signals["seconds/critic"] == pytest.approx(14 * 12 / 28)


def test_a_model_that_breaks_each_attempt_ends_the_run_however_small_the_parts():
    class Broken(ScriptedStage):
        def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
            gone = Fault(source="model", error="ModelError", message="no answer")
            return [trajectory.model_copy(update={"fault": gone}) for trajectory in super().play(episodes)]

    config = checked_config(method("echo"), "here")
    with pytest.raises(ModelError, match="the first 4 episodes were all broken: no answer"):
        play_batch(config, ["a", "b", "c", "d"], Broken(lambda episode: 0.0))
    assert play_batch(config, ["a", "b"], Broken(lambda episode: 0.0)).rows == ()
