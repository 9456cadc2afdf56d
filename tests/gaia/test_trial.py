"""A critic on trial: an oracle reaches pass@N, one that errs does not, and one candidate is the same by every rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.critic.ask import Label, Verdict
from align_echo.critic.best_of import RULES
from align_echo.errors import UsageError
from align_echo.gaia.examples import LabelledAction, LabelledEpisode
from align_echo.gaia.trial import JudgedState, SelectionResult, collect_states, compared_rules, curve, measure_trial
from align_echo.types import Candidate, Choice, Step, Trajectory

Say = Callable[[Label], Verdict]


def honest(label: Label) -> Verdict:
    return Verdict(action="any", label=label, logit=2.0 if label == "correct" else -2.0)


def contrary(label: Label) -> Verdict:
    return honest("wrong" if label == "correct" else "correct")


def silent(label: Label) -> Verdict:
    return Verdict(action="any", label=None)


def state(actions: str, say: Say = honest, task: str = "a", logprob: float | None = -1.0) -> JudgedState:
    """A letter is an action, right where it is a capital; "-" is a reply without one."""
    drawn = tuple(Candidate(action=None if action == "-" else action, logprob=logprob) for action in actions)
    labels: dict[str, Label] = {
        action: "correct" if action.isupper() else "wrong" for action in actions if action != "-"
    }
    return JudgedState(task, drawn, labels, {action: say(label) for action, label in labels.items()})


def by_rule(states: Sequence[JudgedState], n: int) -> dict[str, SelectionResult]:
    return {point.rule: point for point in curve(states) if point.candidates == n}


STATES = st.lists(st.text("xyzABC-", min_size=4, max_size=4).filter(lambda one: one != "----"), min_size=1, max_size=12)


@pytest.mark.long
@settings(max_examples=10)
@given(STATES)
def test_a_critic_that_never_errs_reaches_what_any_choice_could_at_every_number_of_candidates(drawn):
    states = [state(one, task=str(index % 3)) for index, one in enumerate(drawn)]
    for n in range(1, 5):
        found = by_rule(states, n)
        assert found["critic"].success == found["pass"].success
        assert max(one.success.value for one in found.values()) == found["pass"].success.value


@settings(max_examples=10)
@given(STATES)
def test_one_candidate_is_the_same_by_every_rule_and_no_gain(drawn):
    found = by_rule([state(draw, contrary) for draw in drawn], 1)
    assert set(found) == {"critic", "first", "placebo", "random", "majority", "logprob", "tilted", "pass"}
    assert len({one.success.value for one in found.values()}) == 1
    assert {one.gain.value for one in found.values()} == {0.0}


def test_a_critic_that_always_errs_takes_what_is_wrong_and_its_gain_is_a_loss():
    found = by_rule([state("Ax", contrary, "a"), state("By", contrary, "b")], 2)
    assert (found["critic"].success.value, found["critic"].gain.value) == (0.0, -100.0)
    assert (found["pass"].success.value, found["pass"].gain.value) == (100.0, 0.0)


def test_a_critic_without_verdicts_sends_the_first_candidate_with_an_action():
    found = by_rule([state("-xA", silent), state("-Ax", silent)], 3)
    assert (found["critic"].success.value, found["pass"].success.value) == (50.0, 100.0)


def test_the_gain_is_over_the_first_candidate_and_intervals_take_tasks_as_one():
    mixed = [state("xA", task="a")] * 3 + [state("Bx", task="b")]
    found = by_rule(mixed, 2)["critic"]
    assert (found.success.value, found.gain.value) == (100.0, 75.0)
    assert found.gain.n == 2
    assert found.gain.low <= 75.0 <= found.gain.high


def test_the_majority_is_counted_among_the_first_candidates_alone():
    states = [state("xAA")]
    assert [by_rule(states, n)["majority"].success.value for n in (1, 2, 3)] == [0.0, 0.0, 100.0]


def test_the_agents_own_probabilities_are_a_rule_only_where_all_candidates_have_them():
    assert not {"logprob", "tilted"} & {*by_rule([state("xA"), state("xA", logprob=None)], 2)}


def test_the_critic_tilts_the_agents_probabilities_only_where_it_gives_its_own():
    assert by_rule([state("xxA")], 3)["tilted"].success.value == 100.0
    found = by_rule([state("xA"), state("xA", silent)], 2)
    assert "logprob" in found
    assert "tilted" not in found


def test_a_rule_that_cannot_be_loaded_is_refused_before_a_critic_is_asked(monkeypatch):
    monkeypatch.setattr(RULES, "entries", lambda: {"gone": None})
    with pytest.raises(UsageError, match="unknown rule of selection 'gone'"):
        compared_rules()


def test_the_curve_ends_where_the_state_with_the_fewest_candidates_does():
    assert {point.candidates for point in curve([state("xA"), state("xABy")])} == {1, 2}


@pytest.mark.long
def test_the_report_is_over_distinct_actions_of_all_states():
    result = measure_trial([state("xxA"), state("y-B", contrary, "b")], "nearer", temperature=2.0)
    assert (result.states, result.label_rule, result.critic.n) == (2, "nearer", 4)
    assert (result.critic.accuracy.value, result.critic.temperature) == (50.0, 2.0)


def test_a_state_counts_only_if_every_action_has_a_label_or_no_reply_held_one():
    def step(*actions: str | None) -> Step:
        drawn = tuple(Candidate(action=action) for action in actions)
        return Step(reply="", action=drawn[0].action, observation="", raw_observation="",
                    choice=Choice(candidates=drawn, taken=0))

    played = Trajectory(environment="alfworld", split="train", task_id="t", agent="a", goal="", initial_observation="",
                        steps=(step("x", "y"), step("x", "y"), step(None, None), step("x", "x")))
    right, wrong = LabelledAction(action="x", nearer="correct"), LabelledAction(action="y", nearer="wrong")
    turns = ((right, wrong), (right, LabelledAction(action="y", expert="wrong")), (), (right,))
    labelled = LabelledEpisode(task_id="t", sample=0, turns=turns)
    said = [{name: Verdict(action=name, label="correct")} for name in "pqrs"]
    found = collect_states([played], [labelled], said, "nearer")
    assert [(len(one.candidates), dict(one.labels), next(iter(one.verdicts))) for one in found] == [
        (2, {"x": "correct", "y": "wrong"}, "p"),
        (2, {}, "r"),
        (2, {"x": "correct"}, "s"),
    ]
    with pytest.raises(UsageError, match="continues"):
        measure_trial(collect_states([played], [labelled], said, "continues"), "continues")
