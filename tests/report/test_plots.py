"""Figures of plots by hand: what is joined, what stands beside what, and what is said where something is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("torch")

from align_echo.critic.ask import Label, Verdict, probability
from align_echo.critic.calibration import ReliabilityBin
from align_echo.gaia.trial import JudgedState, TrialResult, measure_trial
from align_echo.report import action_critics, critiques, drift, refined, trained, variants
from align_echo.report.material import ReportData, find_method, find_runs
from align_echo.report.plots import DrawnPlot
from align_echo.train.config import checked_config, method
from align_echo.train.presets import methods
from align_echo.types import Candidate
from tests.report import folders
from tests.report.folders import evaluated, hint, variant


def material(*paths: Path) -> ReportData:
    return ReportData(find_runs(paths))


def rows(plot: DrawnPlot | str) -> list[tuple[str, ...]]:
    assert isinstance(plot, DrawnPlot), plot
    return list(plot.table.rows)


@pytest.mark.parametrize("name", methods())
def test_a_run_is_called_by_the_method_that_it_was_trained_by(name):
    assert find_method(checked_config(method(name), name).model_dump(mode="json")) == name


def test_the_command_of_an_evaluation_in_rounds_tells_its_critic_from_its_control(tmp_path):
    shared = {"command": "evaluate", "environment": "webshop", "refine_rounds": 2, "seed": 0}
    details = {"critic_details": {"model.critic": "pocket"}, "agent_details": {"temperature": "0.7"}}
    folders.write_json(tmp_path / "a" / "config.json", {**shared, **details})
    folders.write_json(tmp_path / "a" / "b" / "config.json", {**shared, "critic_details": None})
    commands = [run.command for run in find_runs([tmp_path])]
    assert commands == [
        "align-echo evaluate --env webshop --temperature 0.7 --refine-rounds 2 --critic pocket --seed 0",
        "align-echo evaluate --env webshop --refine-rounds 2 --seed 0 --critic none",
    ]


# ---------------------------------------------------------------- variants


def test_variants_stand_in_their_order_with_what_they_are_worth_over_the_placebo(tmp_path):
    drawn = variants.success(material(evaluated(tmp_path / "first")))
    assert [(row[1], row[3], row[4]) for row in rows(drawn)] == [
        ("none", "12.5 [0.0, 32.5]", "-"),
        ("placebo", "25.0 [5.0, 45.0]", "-"),
        ("both", "75.0 [55.0, 95.0]", "+50.0 [+20.0, +80.0]"),
    ]
    assert isinstance(drawn, DrawnPlot)
    assert drawn.control.startswith("The placebo")
    command = "align-echo evaluate --env station --agent novice --interface mine --tasks 2 --seed 0 --compare"
    assert drawn.commands == (command,)


def test_no_effect_is_shown_without_saying_that_its_placebo_is_missing(tmp_path):
    run = evaluated(tmp_path / "first", variants={"none": variant(0.0), "full": variant(50.0)}, over_placebo={})
    drawn = variants.success(material(run))
    assert isinstance(drawn, DrawnPlot)
    assert "None was played here" in drawn.control
    assert drawn.notes == ("Without a placebo: first: station, novice.",)


def test_an_interface_that_did_not_work_has_no_figure(tmp_path):
    conduct = {"turns": 10, "failed_turns": 9, "resets": 8, "failed_resets": 0, "works": False}
    arms = {"none": variant(0.0), "full": variant(50.0, conduct=conduct)}
    drawn = variants.success(material(evaluated(tmp_path / "first", variants=arms, over_placebo={})))
    assert "did not work" in rows(drawn)[1][3]


def test_hints_stand_beside_those_of_the_placebo_that_nobody_was_shown(tmp_path):
    drawn = variants.hints(material(evaluated(tmp_path / "first")))
    assert rows(drawn) == [
        ("first: station, novice R1", "first `unseal _`.", "10", "8", "6", "1", "85.7 [48.7, 97.4]", "1", "2 of 10")
    ]


def test_environments_whose_texts_tell_no_refusal_are_named(tmp_path):
    silent = variant(50.0, consecutive_invalid=None, consecutive_invalid_shown=None)
    run = evaluated(tmp_path / "first", variants={"none": silent}, over_placebo={})
    why = "nothing tells which actions these environments refused: first: station, novice"
    assert variants.invalid(material(run)) == why


# ---------------------------------------------------------------- training


def test_runs_that_differ_in_their_seed_alone_are_one_line(tmp_path):
    for seed, ends in ((1, {0: 0.2, 2: 0.6, 4: 0.4}), (2, {0: 0.2, 2: 0.4, 4: 0.8})):
        told = [{"policy/reward": 0.1 * seed}] * 4
        folders.trained(tmp_path / f"echo-{seed}", seed=seed, held_out=ends, signals=told)
    folders.trained(tmp_path / "other", "icrl", signals=[{"policy/reward": 1.0}])
    drawn = trained.learning(material(tmp_path))
    assert rows(drawn) == [
        ("echo", "webshop, pocket, interface none", "2", "40", "0.200", "0.700 (step 3)", "0.600 (step 4)"),
        ("icrl", "webshop, pocket, interface none", "1", "10", "-", "-", "-"),
    ]
    assert isinstance(drawn, DrawnPlot)
    assert drawn.panels[0].alt.endswith("echo: 0.200 at step 0, 0.600 at step 4")
    assert drawn.panels[1].alt == (
        "policy: reward in training by step. echo: 0.150 at step 1, 0.150 at step 4; icrl: 1.000 at step 1, 1.000 at "
        "step 1"
    )


def test_one_seed_twice_is_not_taken_for_two(tmp_path):
    for name in ("first", "second"):
        folders.trained(tmp_path / name, signals=[{"policy/reward": 1.0}])
    drawn = trained.learning(material(tmp_path))
    assert rows(drawn)[0][2] == "1"
    assert isinstance(drawn, DrawnPlot)
    assert "Trained twice under one seed: echo." in drawn.notes


def test_the_stages_of_a_step_add_up_to_it(tmp_path):
    first = {"seconds/harvest": 8.0, "seconds/play": 5.0, "seconds/critic": 2.0, "seconds/learn": 2.0}
    folders.trained(tmp_path / "run", signals=[first, {"seconds/learn": 4.0}])  # the second learns from the same
    (row,) = rows(trained.stages(material(tmp_path / "run")))
    assert row[2:] == ("2", "2.5 (36%)", "1.0 (14%)", "0.0 (0%)", "0.5 (7%)", "3.0 (43%)", "7.0")


def test_changes_are_counted_by_third_beside_the_control(tmp_path):
    up, down = [(0.2, 0.6), (1.0, 0.0)], [(0.5, 0.25)]
    folders.trained(tmp_path / "echo", scores=[up, up, [], [], down, down])
    assert "The control was not trained" in str(refined.gains(material(tmp_path)))
    folders.trained(tmp_path / "again", "echo-no-critic", scores=[up] * 3)
    drawn = refined.gains(material(tmp_path))
    assert isinstance(drawn, DrawnPlot)
    assert drawn.notes == ()
    told = [(row[0], row[2], row[3], row[4].partition(" ")[0]) for row in rows(drawn)]
    assert sorted(told) == [
        ("echo", "early", "2", "+0.400"), ("echo", "late", "2", "-0.250"),
        ("echo-no-critic", "early", "1", "+0.400"), ("echo-no-critic", "late", "1", "+0.400"),
        ("echo-no-critic", "middle", "1", "+0.400"),
    ]  # fmt: skip


def test_the_density_tells_what_moved_and_what_was_saturated(tmp_path):
    folders.trained(tmp_path / "echo", scores=[[(0.0, 0.5), (0.8, 1.0), (0.5, 0.5), (1.0, 0.5), (2.0, 9.0)]])
    (row,) = rows(refined.density(material(tmp_path)))
    assert row[2:] == ("4", "50.0", "25.0", "25.0", "+0.050", "25.0")


def test_runs_that_kept_means_of_log_w_alone_are_drawn_and_named(tmp_path):
    old = {"log_w_t": -1.0, "w_t_below_half": 0.5}
    spread = {f"log_w_t/{name}": value for name, value in zip(refined.QUANTILES, (-4, -2, -1, 0, 1), strict=True)}
    folders.trained(tmp_path / "old", "icrl", signals=[old])
    folders.trained(tmp_path / "new", "icrl-joint", signals=[{**old, **spread}])
    drawn = refined.weights(material(tmp_path))
    assert {row[0]: row[4:] for row in rows(drawn)} == {
        "icrl": ("-1.00", "-", "-", "-", "-", "-", "50.0"),
        "icrl-joint": ("-1.00", "-4.00", "-2.00", "-1.00", "0.00", "1.00", "50.0"),
    }
    assert isinstance(drawn, DrawnPlot)
    assert drawn.notes == ("Trained by a version that kept means alone: icrl.",)


def test_critiques_are_counted_over_all_and_measured_on_those_that_were_kept(tmp_path):
    told = {"count/critiques_of_lost_attempts": 4, "count/critiques_of_won_attempts": 4}
    told |= {"count/unread_critiques_of_lost_attempts": 2, "count/cut_critiques_of_won_attempts": 1}
    folders.trained(tmp_path / "echo", signals=[told], reasons=[["one two three", "one"]])
    (row,) = rows(critiques.lengths(material(tmp_path)))
    assert (row[3], row[4].partition(" ")[0], row[5].partition(" ")[0]) == ("8", "75.0", "12.5")
    assert row[6] == "2 (1 to 3)"


BLAMED = (
    ["the agent never opened the cabinet", "the cabinet was not opened by the agent", "it forgot to open doors"],
    ["price exceeds what was asked", "the colour of the shirt is wrong", "a wrong size was bought for the price"],
    ["words were spent on nothing", "nothing useful was said in many words", "many idle words came first"],
)
"""What a critic blames in each third."""


def diagnoses(third: int, step: int) -> list[str]:
    """Three that differ from those of other steps, in a way that is not nearer between neighbours."""
    return [f"{text}{' again' * (step * 4 % 9)}" for text in BLAMED[third]]


def test_diagnoses_that_change_are_told_from_those_that_do_not(tmp_path):
    pytest.importorskip("sklearn")
    folders.trained(tmp_path / "drifting", reasons=[diagnoses(step // 3, step) for step in range(9)])
    folders.trained(tmp_path / "same", "icrl", reasons=[diagnoses(0, step) for step in range(9)])
    told = rows(drift.drift(material(tmp_path)))
    same = {row[0]: (float(row[4]), float(row[5].strip("]").rpartition(", ")[2])) for row in told if row[4]}
    assert same["echo"][0] > same["echo"][1]
    assert same["icrl"][0] <= same["icrl"][1]


def test_diagnoses_of_one_step_are_not_each_others_neighbours():
    rows = np.asarray([[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    assert drift.nearest_in_other_step(rows, np.asarray([0, 0, 1, 2])).tolist() == [2, 2, 0, 2]


def test_few_diagnoses_are_no_map_and_the_line_says_how_few(tmp_path):
    folders.trained(tmp_path / "echo", reasons=[["one"], ["two", "three"]])
    assert drift.drift(material(tmp_path)) == (
        "too few diagnoses: echo: 3 different diagnoses of 2 steps; a map needs 24 different ones of 6 steps"
    )


def test_without_scikit_learn_the_map_says_what_to_install(tmp_path, monkeypatch):
    folders.trained(tmp_path / "echo", reasons=[diagnoses(step // 3, step) for step in range(9)])
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert "pip install '.[report]'" in str(drift.drift(material(tmp_path)))


# ---------------------------------------------------------------- critics


@pytest.fixture(scope="module")
def tried() -> str:
    """The summary of a trial of a critic that is right of 7 of 8 actions, in 4 states of 2 tasks."""
    states = []
    for task, actions in (("a", "Ax"), ("a", "xB"), ("b", "yC"), ("b", "Dz")):
        said, labels = {}, dict[str, Label]()
        for action in actions:
            right = action.isupper() and action != "C"
            said[action] = Verdict(
                action=action, label="correct" if right else "wrong", logit=2.0 if right else -2.0
            )
            labels[action] = "correct" if action.isupper() else "wrong"
        states.append(JudgedState(task, tuple(Candidate(action=action) for action in actions), labels, said))
    return measure_trial(states, "expert", temperature=2.0).model_dump_json()


def trial_in(folder: Path, tried: str) -> Path:
    folders.write_json(folder / "config.json", {"command": "critic evaluate", "rule": "expert", "seed": 0})
    (folder / "summary.json").write_text(tried)
    return folder


@pytest.mark.long
def test_a_critic_stands_beside_the_placebo_and_what_could_be_reached(tmp_path, tried):
    drawn = action_critics.selection(material(trial_in(tmp_path / "trial", tried)))
    ends = {row[1]: row[3].partition(" ")[0] for row in rows(drawn) if row[2] == "2"}
    assert (ends["critic"], ends["pass"]) == ("75.0", "100.0")
    assert "placebo" in ends
    assert [row[1] for row in rows(drawn)][:2] == ["critic", "pass"]


def test_the_rounds_of_a_flywheel_are_one_picture(tmp_path, tried):
    wheel = {"command": "critic flywheel", "env": "webshop", "rounds": 2}
    folders.write_json(tmp_path / "wheel" / "config.json", wheel)
    for number in (1, 2):
        trial_in(tmp_path / "wheel" / f"round-{number}" / "trial", tried)
    drawn = action_critics.selection(material(tmp_path / "wheel"))
    assert isinstance(drawn, DrawnPlot)
    assert drawn.panels[0].title == "wheel, by round"
    assert drawn.commands == ("align-echo critic flywheel --env webshop --rounds 2",)


def test_bins_hold_what_the_critic_said_against_what_is_so(tmp_path, tried):
    summary = TrialResult.model_validate_json(tried)
    assert summary.critic.before is not None
    low, high = probability(-2.0), probability(2.0)
    bins = (ReliabilityBin(actions=5, correct=1, p_correct=low), ReliabilityBin(actions=3, correct=3, p_correct=high))
    assert [(each.actions, each.correct) for each in summary.critic.before.bins] == [(5, 1), (3, 3)]
    assert [each.p_correct for each in summary.critic.before.bins] == pytest.approx([low, high])
    assert summary.critic.before.ece == pytest.approx(sum(abs(b.correct - b.actions * b.p_correct) for b in bins) / 8)
    (row,) = rows(action_critics.reliability(material(trial_in(tmp_path / "trial", tried))))
    assert (row[2], row[-1]) == ("8", "2.00")


def test_a_trial_of_an_older_version_is_read_and_said_to_hold_no_bins(tmp_path, tried):
    summary = json.loads(tried)
    for part in ("before", "after"):
        del summary["critic"][part]["bins"]
    old = material(trial_in(tmp_path / "trial", json.dumps(summary)))
    assert action_critics.reliability(old) == "measured by a version that kept no bins, measure again: trial"
    assert isinstance(action_critics.selection(old), DrawnPlot)


def test_many_rules_are_all_in_the_table_and_the_most_shown_in_the_picture(tmp_path):
    hints = [hint(f"rule {number}", fired=50 - number) for number in range(12)]
    arms = {"none": variant(0.0), "full": variant(50.0, hints=hints)}
    drawn = variants.hints(material(evaluated(tmp_path / "first", variants=arms, over_placebo={})))
    assert len(rows(drawn)) == 12
