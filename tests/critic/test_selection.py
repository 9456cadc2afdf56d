"""Which candidate each rule takes: cases by hand, what never changes a choice, and pass@N by enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from align_echo.base.dice import Dice
from align_echo.critic.ask import Label, Verdict
from align_echo.critic.best_of import at_random, by_critic, by_logprob, by_majority, by_placebo, by_tilted, pass_at_k
from align_echo.errors import UsageError

Actions = list[str | None]

actions_drawn = st.lists(st.sampled_from(["look", "go to desk 1", "take mug 1", "inventory", None]), min_size=1)
p_correct = st.floats(0, 1)
judgements = st.dictionaries(
    st.sampled_from(["look", "go to desk 1", "take mug 1", "inventory"]),
    st.builds(
        Verdict, action=st.just("any"), verdict=st.sampled_from(["correct", "wrong", None]), p_correct=p_correct
    ),
)


def opinion(verdict: Label | None, p_correct: float | None = None) -> Verdict:
    return Verdict(action="any", label=verdict, p_correct=p_correct)


def opinions(**verdicts: float | None) -> dict[str, Verdict]:
    """Opinions that an action is correct with a probability of at least 0.5, or with none."""
    return {name: opinion("correct" if p is None or p >= 0.5 else "wrong", p) for name, p in verdicts.items()}


# ---------------------------------------------------------------- by the critic


def test_of_those_judged_correct_the_most_probable_is_taken():
    assert by_critic(["a", "b", "c", "b"], opinions(a=0.6, b=0.9, c=0.2)) == 1


def test_a_probability_without_the_verdict_is_not_enough():
    judged = {"a": opinion("wrong", 0.9), "b": opinion(None, 0.8), "c": opinion("correct", 0.1)}
    assert by_critic(["a", "b", "c"], judged) == 2


def test_a_judge_who_knows_nothing_takes_every_distinct_action_alike_often():
    actions = ["a", "b", None, "a", "a", "c"]
    taken = Counter(by_placebo(actions, Dice(f"placebo {number}")) for number in range(600))
    assert set(taken) == {0, 1, 5}
    assert all(150 < count < 250 for count in taken.values())
    assert by_placebo([None, None], Dice("")) == 0


def test_ties_go_to_the_first_drawn():
    assert by_critic(["a", "b", "c"], opinions(a=0.2, b=0.7, c=0.7)) == 1


def test_without_a_probability_for_each_those_judged_correct_are_tied():
    assert by_critic(["a", "b", "c"], opinions(a=0.2, b=None, c=None)) == 1
    assert by_critic(["a", "b", "c"], opinions(a=0.6, b=None, c=0.9)) == 0
    assert by_critic(["a", "b"], opinions(a=0.2, b=None), abstain_below=0.9) == 1


def test_if_none_is_judged_correct_the_first_with_an_action_is_taken():
    assert by_critic([None, "a", "b"], opinions(a=0.1, b=0.3)) == 1
    assert by_critic([None, "a", "b"], {}) == 1
    assert by_critic([None, None], {}) == 0


def test_a_judge_that_is_not_sure_enough_leaves_the_first():
    judged = opinions(a=0.2, b=0.7)
    assert by_critic([None, "a", "b"], judged, abstain_below=0.7) == 2
    assert by_critic([None, "a", "b"], judged, abstain_below=0.71) == 1


@given(actions_drawn, judgements, st.data())
def test_drawing_a_candidate_once_more_changes_no_choice(actions, judged, data):
    again = data.draw(st.integers(0, len(actions) - 1))
    later = data.draw(st.integers(again + 1, len(actions)))
    more = [*actions[:later], actions[again], *actions[later:]]
    assert more[by_critic(more, judged)] == actions[by_critic(actions, judged)]


@given(actions_drawn, judgements, st.data())
def test_the_order_of_the_candidates_decides_ties_alone(actions, judged, data):
    mixed = data.draw(st.permutations(actions))
    first, second = actions[by_critic(actions, judged)], mixed[by_critic(mixed, judged)]
    if first in judged and judged[first].label == "correct":
        assert judged[second] == opinion("correct", judged[first].p_correct)
    else:
        assert second not in judged or judged[second].label != "correct"


@given(actions_drawn, judgements)
def test_what_is_judged_wrong_is_never_taken_while_another_is_judged_correct(actions, judged):
    verdicts = {judged[action].label for action in actions if action in judged}
    taken = actions[by_critic(actions, judged)]
    assert (taken in judged and judged[taken].label == "correct") == ("correct" in verdicts)


@given(actions_drawn, st.dictionaries(st.sampled_from(["look", "go to desk 1", "take mug 1"]), p_correct))
def test_a_critic_that_never_errs_succeeds_as_often_as_pass_at_n(actions, probabilities):
    labels: dict[str | None, Label] = {one: "correct" if p >= 0.5 else "wrong" for one, p in probabilities.items()}
    judged = {one: opinion(label, probabilities[one]) for one, label in labels.items() if one is not None}
    taken = actions[by_critic(actions, judged)]
    assert (labels.get(taken) == "correct") == ("correct" in [labels.get(action) for action in actions])


# ---------------------------------------------------------------- the baselines


def test_the_random_choice_is_uniform_over_the_candidates_with_an_action():
    actions = [None, "a", "b", None, "a"]
    taken = Counter(at_random(actions, Dice(f"state {number}")) for number in range(3000))
    assert set(taken) == {1, 2, 4}
    assert all(abs(count - 1000) < 120 for count in taken.values())
    assert at_random([None, None], Dice("state")) == 0


def test_the_random_choice_is_the_same_for_the_same_seed():
    actions: Actions = [str(number) for number in range(50)]
    assert [at_random(actions, Dice(str(seed))) for seed in range(20)] == [
        at_random(actions, Dice(str(seed))) for seed in range(20)
    ]


def test_the_action_drawn_most_often_is_taken_where_it_was_first_drawn():
    assert by_majority(["a", "b", "c", "b"]) == 1
    assert by_majority(["a", "b", "b", "a"]) == 0
    assert by_majority([None, None, None, "b", "a"]) == 3


def test_the_reply_that_the_agent_holds_likeliest_is_taken():
    logprobs = [[-1.0, -1.0, -1.0], [-2.0], [-0.1]]
    assert by_logprob(["a", "b", None], logprobs) == 1
    assert by_logprob(["a", "b", None], logprobs, "token") == 0
    assert by_logprob(["a", "b"], [[-math.inf], [-1.0, -1.0]]) == 1
    assert by_logprob(["a", "b"], [[-1.0, -1.0], [-2.0]]) == 0


def test_replies_without_an_action_need_no_log_probabilities():
    assert by_logprob([None, "a"], [None, [-9.0]]) == 1
    assert by_logprob([None, None], [None, None]) == 0


@pytest.mark.parametrize("missing", [None, [], [math.nan], [-1.0, 0.5]])
def test_what_is_no_log_probability_is_refused(missing):
    with pytest.raises(UsageError, match="candidate 1 lacks"):
        by_logprob(["a", "b"], [[-1.0], missing])
    with pytest.raises(UsageError, match="candidate 1 lacks"):
        by_tilted(["a", "b"], {}, [[-1.0], missing])
    with pytest.raises(UsageError, match="one entry to each"):
        by_logprob(["a", "b"], [[-1.0]])


def test_the_critics_odds_tilt_what_the_agent_holds_likely():
    judged = {"a": opinion("wrong", 0.2), "b": opinion("correct", 0.8)}
    # log-odds -1.39 and 1.39: b is taken unless the agent holds a likelier by more than 2.77.
    assert by_tilted(["a", "b"], judged, [[-0.5], [-1.0, -2.2]]) == 1
    assert by_tilted(["a", "b"], judged, [[-0.5], [-1.0, -2.3]]) == 0
    assert by_tilted(["a", "b", None], judged, [[-1.0], [-1.0], None]) == 1
    assert by_tilted(["a", "b"], {"a": opinion("wrong"), "b": opinion("correct")}, [[-1.0], [-1.1]]) == 0
    assert by_tilted(["a", "b"], {"a": opinion("correct", 0.6)}, [[-1.4], [-1.1]]) == 0
    assert by_tilted(["a", "b"], {"a": opinion("correct", 1.0), "b": opinion("wrong", 0.0)}, [[-40.0], [-0.1]]) == 0


@given(actions_drawn)
def test_a_critic_with_even_odds_leaves_the_agents_own_choice(actions):
    logprobs = [[-float(index % 3)] for index, _ in enumerate(actions)]
    even = {action: opinion("correct", 0.5) for action in actions if action is not None}
    assert by_tilted(actions, even, logprobs) == by_tilted(actions, {}, logprobs) == by_logprob(actions, logprobs)


@given(actions_drawn, judgements, p_correct)
def test_every_rule_takes_a_candidate_with_an_action_if_there_is_one(actions, judged, threshold):
    logprobs = [[-1.0]] * len(actions)
    chosen = (
        by_critic(actions, judged, threshold),
        at_random(actions, Dice("here")),
        by_majority(actions),
        by_logprob(actions, logprobs),
        by_tilted(actions, judged, logprobs),
    )
    for place in chosen:
        assert actions[place] is not None or (place == 0 and set(actions) == {None})


@given(st.sampled_from(["look", None]), judgements, p_correct)
def test_of_one_candidate_every_rule_takes_that(action, judged, threshold):
    assert by_critic([action], judged, threshold) == by_majority([action]) == 0
    assert at_random([action], Dice("here")) == by_logprob([action], [[-1.0]]) == 0


def test_of_no_candidate_none_is_taken():
    with pytest.raises(UsageError, match="no candidate"):
        by_critic([], {})
    with pytest.raises(UsageError, match="no candidate"):
        at_random([], Dice("here"))
    with pytest.raises(UsageError, match="no candidate"):
        by_majority([])
    with pytest.raises(UsageError, match="no candidate"):
        by_logprob([], [])


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan])
def test_what_is_no_probability_is_refused(wrong):
    with pytest.raises(ValidationError, match=r"in \[0, 1\]"):
        opinion("correct", wrong)
    with pytest.raises(UsageError, match="abstain_below"):
        by_critic(["a"], {}, wrong)


# ---------------------------------------------------------------- pass@N


@pytest.mark.parametrize("drawn", range(1, 8))
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_candidate(drawn):
    for correct, k in itertools.product(range(drawn + 1), range(1, drawn + 1)):
        passed = [any(one < correct for one in subset) for subset in itertools.combinations(range(drawn), k)]
        assert pass_at_k(drawn, correct, k) == pytest.approx(sum(passed) / len(passed), abs=1e-15)


def test_pass_at_k_stays_exact_where_factorials_overflow():
    assert pass_at_k(100_000, 1, 1) == 1e-5
    assert pass_at_k(2000, 3, 1000) == float(1 - Fraction(1000 * 999 * 998, 2000 * 1999 * 1998))
    assert pass_at_k(5000, 4001, 1000) == 1.0


@pytest.mark.parametrize(("drawn", "correct", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4), (0, 0, 0)])
def test_pass_at_k_refuses_counts_that_cannot_be(drawn, correct, k):
    with pytest.raises(UsageError, match="pass@k needs"):
        pass_at_k(drawn, correct, k)
