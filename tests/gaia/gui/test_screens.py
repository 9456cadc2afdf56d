"""Predictions on a step dataset: figures by hand, rules of selection, and files that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.critic.ask import Verdict
from align_echo.errors import MissingDataError, UsageError
from align_echo.gaia.gui.screens import (
    ProposedStep,
    RuleAccuracy,
    ScreenTrialResult,
    StepPrediction,
    curve,
    read_predictions,
    screen_trial,
    write_predictions,
)
from align_echo.wrappers.gui.steps import GuiStep

HIT, MISS, OTHER, NOISE = "click(50, 50)", "click(90,90)", 'type("x")', "I click it"


def step(number: int, action: str | None = "click(50, 50)", episode: str = "") -> GuiStep:
    return GuiStep(
        id=str(number), episode=episode or str(number), number=0, instruction="Do it.", screenshot="a.png", width=100,
        height=100, action=action, box=None if action else (40, 40, 60, 60),
    )


def proposed(*rows: tuple[str, ...], right: str | None = "click(50, 50)") -> list[ProposedStep]:
    """One step a row, with its candidates."""
    return [
        ProposedStep(step(number, right), StepPrediction(step=str(number), candidates=row))
        for number, row in enumerate(rows)
    ]


def taken(trial: ScreenTrialResult, rule: str, n: int) -> RuleAccuracy:
    return next(point for point in trial.curve if (point.rule, point.candidates) == (rule, n))


def test_type_grounding_and_success_by_hand():
    trial = screen_trial(proposed((HIT,), (MISS,), (OTHER,), (NOISE,)))
    assert (trial.steps, trial.episodes, trial.candidates, trial.unparsed) == (4, 4, 4, 1)
    assert trial.right_types == {"click": 4}
    assert (trial.first.type.value, trial.first.success.value) == (50.0, 25.0)
    assert trial.first.grounding is not None
    assert (trial.first.grounding.value, trial.first.grounding.n) == (50.0, 2)
    assert trial.critic is None


def test_grounding_is_measured_only_where_something_is_clicked():
    assert screen_trial(proposed(('scroll(1, 1, "up")',), right='scroll(9, 9, "up")')).first.grounding is None
    assert screen_trial(proposed((HIT,), right=None)).first.success.value == 100


@pytest.mark.long
def test_best_of_n_under_a_critic_and_the_other_rules():
    rows = proposed((MISS, NOISE, HIT), (MISS, MISS, HIT), (NOISE, NOISE, NOISE))
    right = Verdict(action=HIT, label="correct", logit=2.0)
    wrong = Verdict(action="click(90, 90)", label="wrong", logit=-1.0)
    knowing = [{right.action: right, wrong.action: wrong}] * 3
    trial = screen_trial(rows, knowing)
    at_three = {rule: taken(trial, rule, 3).success.value for rule in ("critic", "majority", "pass")}
    assert at_three["critic"] == at_three["pass"] == pytest.approx(200 / 3)
    assert at_three["majority"] == 0.0
    assert taken(trial, "critic", 3).gain.value == pytest.approx(200 / 3)
    assert taken(trial, "critic", 2).success.value == 0.0
    assert trial.critic is not None
    assert (trial.critic.n, trial.critic.accuracy.value) == (4, 100.0)
    assert set(trial.critic.confusion) == {"click"}


def test_candidates_that_are_the_same_action_in_other_words_are_one():
    rows = proposed(("click(50,50)", "click( 50 , 50 )", OTHER))
    assert list(rows[0].labels.items()) == [(HIT, "correct"), (OTHER, "wrong")]


def test_the_curve_ends_where_the_step_with_the_fewest_candidates_does_or_where_asked():
    rows = proposed((HIT, HIT, HIT), (HIT, HIT))
    assert {point.candidates for point in screen_trial(rows).curve} == {1, 2}
    assert {point.candidates for point in screen_trial(rows, most=1).curve} == {1}
    with pytest.raises(UsageError, match="at least one"):
        screen_trial(rows, most=0)


def test_intervals_take_episodes_as_what_is_drawn():
    steps = [step(number, episode="one") for number in range(50)]
    together = screen_trial([ProposedStep(step, StepPrediction(step=step.id, candidates=(HIT,))) for step in steps])
    apart = screen_trial(proposed(*[(HIT,)] * 50))
    assert together.first.success.n == 1
    assert together.first.success.low < apart.first.success.low


texts = st.sampled_from([HIT, MISS, OTHER, NOISE, "long_press(50, 50)"])


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=6), st.randoms())
def test_no_rule_beats_pass_and_one_candidate_leaves_no_choice(rows, random):
    given_steps = proposed(*rows)
    said = [
        {
            text: Verdict(action=text, label="correct", logit=random.uniform(-3, 3))
            for text in given_step.labels
        }
        for given_step in given_steps
    ]
    found = curve(given_steps, said)
    passed = {one.candidates: one.success.value for one in found if one.rule == "pass"}
    for one in found:
        assert one.success.value <= passed[one.candidates]
        assert one.success.value <= one.type.value
        assert one.candidates > 1 or one.gain.value == 0


# ---------------------------------------------------------------- files


def written(tmp_path: Path, *lines: object) -> Path:
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_predictions_are_read_in_the_order_of_the_steps(tmp_path):
    rows = [StepPrediction(step="1", candidates=(HIT, NOISE), agent="a"), StepPrediction(step="0", candidates=(MISS,))]
    found = read_predictions(write_predictions(rows, tmp_path / "p.jsonl"), [step(0), step(1)])
    assert [(one.step.id, one.texts, one.agent) for one in found] == [
        ("0", ("click(90, 90)",), ""), ("1", (HIT, None), "a")
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"step": "7", "candidates": [HIT]}, "line 2: the dataset has no step '7'"),
        ({"step": "0", "candidates": [HIT]}, "line 2: the step '0' came before"),
        ({"step": "1", "candidates": []}, "line 2: the step '1' has no candidate"),
        ({"step": "1", "candidates": HIT}, "line 2: candidates: "),
        ({"step": "1", "candidates": [1]}, "line 2: candidates.0: "),
        ({"step": "1"}, "line 2: candidates: it is missing"),
        ("click(1, 2)", "line 2: "),
    ],
)
def test_a_line_that_is_no_prediction_is_refused_by_file_and_line(tmp_path, line, said):
    file = written(tmp_path, {"step": "0", "candidates": [HIT]}, line)
    with pytest.raises(UsageError, match=said) as caught:
        read_predictions(file, [step(0), step(1)])
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_every_step_needs_a_prediction_unless_some_are_enough(tmp_path):
    file = written(tmp_path, {"step": "0", "candidates": [HIT]})
    with pytest.raises(UsageError, match="lacks 1 of 2 steps, such as '1'"):
        read_predictions(file, [step(0), step(1)])
    assert len(read_predictions(file, [step(0), step(1)], every=False)) == 1
    with pytest.raises(MissingDataError):
        read_predictions(tmp_path / "nothing.jsonl", [step(0)])
