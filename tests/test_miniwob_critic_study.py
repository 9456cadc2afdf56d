"""The study of a critic on MiniWoB pages: what is recorded, what trivial answers are worth, what episodes tell.

The steps in `data/gui_steps` were made by `python -m benchmarks.miniwob_critic --sample tests/data/gui_steps`.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("peft")
pytest.importorskip("PIL")
pytest.importorskip("sklearn")

from align_echo.critic.calibration import LabelledVerdict
from align_echo.critic.verdict import Verdict
from align_echo.gui.recording import box_around
from align_echo.gui.screens import PREDICTIONS, read_predictions, screen_trial
from align_echo.wrappers.gui.actions import Point
from align_echo.wrappers.gui.matching import hits
from align_echo.wrappers.gui.steps import load_screenshot, read_steps
from benchmarks.miniwob_critic.learn import evened, examples_of, explored, page_of, shares
from benchmarks.miniwob_critic.play import Played
from benchmarks.miniwob_critic.report import CRITIC, NOVICE, PASS, at_shares, learnable, seen, table, won

SAMPLE = Path(__file__).parent / "data" / "gui_steps"

LISTING = 'Screen 160x210, 2 elements:\ndiv #wrap covered (80, 105) 160x210\nbutton "Close" focused (104, 88) 20x20'


def said(task: str, label: Verdict, verdict: Verdict, logit: float, action_type: str = "click") -> LabelledVerdict:
    return LabelledVerdict(task, action_type, label, verdict, logit)


def test_the_sample_is_a_step_dataset_in_which_the_right_action_lies_in_its_box():
    steps = read_steps(SAMPLE)
    assert len(steps) == 10
    assert sum(file.stat().st_size for file in SAMPLE.rglob("*") if file.is_file()) < 100_000
    for step in steps:
        assert load_screenshot(SAMPLE, step).size == (160, 210)
        assert step.box is not None
        assert step.truth is not None
        assert hits(step.truth, step)


def test_the_novice_of_the_sample_errs_where_one_of_several_candidates_is_right():
    trial = screen_trial(read_predictions(SAMPLE / PREDICTIONS, read_steps(SAMPLE)))
    passed = [point.success.value for point in trial.curve if point.rule == "pass"]
    assert passed[-1] > trial.first.success.value


def test_a_target_is_the_smallest_element_around_the_point():
    assert box_around(Point(104, 88), LISTING) == (94, 78, 114, 98)
    assert box_around(Point(20, 20), LISTING) == (0, 0, 160, 210)
    assert box_around(Point(20, 20), "The task has ended.") is None


def test_right_and_wrong_actions_are_as_many_on_every_page():
    examples = evened(examples_of(SAMPLE) + explored(SAMPLE, 5, seed=1), 0)
    counts = Counter((page_of(example), example.label) for example in examples)
    for page in {page for page, _ in counts}:
        assert counts[page, "correct"] == counts[page, "wrong"] > 0


def test_clicks_into_the_box_are_right_and_those_elsewhere_are_mostly_wrong():
    labels = Counter(example.label for example in explored(SAMPLE, 20, seed=0))
    assert labels["correct"] > 100
    assert labels["wrong"] > 100


def test_the_best_trivial_answer_knows_page_and_type_of_the_action():
    rows = [said(f"a/{n}", "correct", "correct", 1.0) for n in range(4)]
    rows += [said(f"b/{n}", "wrong", "wrong", -1.0) for n in range(4)]
    rows += [said("a/0", "wrong", "wrong", -1.0, "finished")]
    told = seen({0: rows})
    assert told.constants["one for all"] == pytest.approx(100 * 5 / 9)
    assert told.constants["one a page"] == pytest.approx(100 * 8 / 9)
    assert told.constants["one a page and type"] == 100
    assert told.accuracy.value == 100
    assert told.auroc == (1.0,)
    assert told.gain.value == 0
    assert not learnable(told)


def test_a_critic_above_every_trivial_answer_has_learned():
    rows = [one for n in range(20) for one in (said(f"a/{n}", "correct", "correct", 1.0),
                                               said(f"a/{n}", "wrong", "wrong", -1.0))]  # fmt: skip
    told = seen({0: rows, 1: rows})
    assert told.actions == 40
    assert told.gain.value == 50
    assert learnable(told)


def test_a_critic_that_is_told_how_rarely_a_page_has_right_actions_doubts_those_it_was_unsure_of():
    found = shares(examples_of(SAMPLE))
    assert set(found) == {page_of(example) for example in examples_of(SAMPLE)}
    rows = [said("rare/0", "wrong", "correct", 1.0), said("even/0", "correct", "correct", 1.0)]
    told = at_shares(rows, 2.0, {"rare": 0.25, "even": 0.5})
    assert [one.verdict for one in told] == ["wrong", "correct"]
    assert told[0].logit == pytest.approx(0.5 - math.log(3))
    assert told[1].logit == pytest.approx(0.5)


def test_an_episode_that_takes_longer_than_the_expert_is_won_later_only():
    played = [Played("a/0", 0, NOVICE, 3, 1), Played("a/1", 0, NOVICE, None, 1)]
    played += [Played("a/0", 0, CRITIC, 1, 1), Played("a/1", 0, CRITIC, None, 1)]
    played += [Played("a/0", 0, PASS, 1, 1), Played("a/1", 0, PASS, 2, 2)]
    told = won(played)
    assert {arm: one.value for arm, one in told.at_once.items()} == {NOVICE: 0, CRITIC: 50, PASS: 100}
    assert {arm: in_turn.value for arm, in_turn in told.in_turns.items()} == {NOVICE: 50, CRITIC: 50, PASS: 100}
    assert (told.gain_at_once.value, told.gain_in_turns.value) == (50, 0)


def test_the_table_says_of_a_page_that_it_was_not_learned():
    rows = [said(f"a/{n}", "wrong", "correct", 1.0) for n in range(4)] + [said("a/0", "correct", "correct", 1.0)]
    told = {"a": seen({0: rows})}
    line = table(told, told, told, {}).splitlines()[-1]
    assert line.split()[0] == "a"
    assert "no" in line.split()
    assert "yes" not in line.split()
