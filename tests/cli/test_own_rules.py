"""A label rule, a rule of selection and a critic's form in files of one's own, named on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datasets")
pytest.importorskip("sklearn")

from align_echo.gaia.collect import CollectionSummary, read_collection
from align_echo.gaia.examples import read_examples, turn_candidates
from align_echo.gaia.fit.intuitive import TrainingSummary
from align_echo.gaia.trial import TrialResult
from tests.models.local.tiny import tiny_model, tiny_tokenizer

MODULE = '''
from align_echo import Critique, CritiqueForm
from align_echo.critic.best_of import SelectionRule
from align_echo.critic.labels import LabelRule
from align_echo.types import Message


def label(env, view, actions):
    return ["correct" if action.startswith("go to") else "wrong" for action in actions]


def last(given):
    return max(index for index, action in enumerate(given.actions) if action is not None)


def ask(attempt):
    return [Message(role="user", content=f"Only a number: {attempt.score}")]


GOES = LabelRule("goes", label)
NEVER = LabelRule("never", label, fits=lambda spec: False)
SHORT = LabelRule("short", lambda env, view, actions: [])
RAISES = LabelRule("raises", lambda env, view, actions: 1 / 0)
LAST = SelectionRule("last", last)
BEYOND = SelectionRule("beyond", lambda given: 99)
NUMBER = CritiqueForm("number", ask, lambda reply: Critique(reason="it was asked", suggestions=(reply[:9] or "none",)))
'''
COLLECT = ("critic", "collect", "--env", "alfworld", "--model", "novice", "--tasks", 3, "--candidates", 2)


@pytest.fixture
def own(run: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """The command line in a folder with the module and a small model."""
    Path("own_rules.py").write_text(MODULE)
    tiny_model(context=8000).save_pretrained("model")
    tiny_tokenizer().save_pretrained("model")
    return run


def refused(ended: tuple[int, str, str]) -> str:
    status, _, err = ended
    assert status == 2, err
    return err.splitlines()[-1]


def test_a_label_rule_labels_teaches_and_judges(own):
    status, out, err = own(*COLLECT, "--rule", "own_rules:GOES", "--out", "made")
    assert status == 0, err
    assert "own_rules:GOES" in out
    counts = CollectionSummary.model_validate_json(Path("made/summary.json").read_text()).labels
    assert list(counts) == ["expert", "nearer", "continues", "own_rules:GOES"]
    examples = read_examples(Path("made"))
    for example in examples:
        assert (example.label("own_rules:GOES") == "correct") == example.action.startswith("go to")
    by_rule = counts["own_rules:GOES"]
    assert by_rule.correct == sum(example.action.startswith("go to") for example in examples)
    assert (by_rule.correct + by_rule.wrong, by_rule.unknown) == (len(examples), 0)
    ruled = ("--examples", "made", "--rule", "own_rules:GOES")
    more = ("--model", "./model", "--held-out", 0, "--least", 1, "--epochs", 1)
    status, _, err = own("critic", "train", *ruled, *more, "--out", "critic")
    assert status == 0, err
    fitted = TrainingSummary.model_validate_json(Path("critic/summary.json").read_text())
    assert (fitted.rule, fitted.learned_from) == ("own_rules:GOES", 2 * min(by_rule.correct, by_rule.wrong))
    picks = ("--pick", "own_rules:LAST")
    status, out, err = own("critic", "evaluate", "--judge", "./critic/critic", *ruled, *picks, "--out", "trial")
    assert status == 0, err
    trial = TrialResult.model_validate_json(Path("trial/summary.json").read_text())
    assert trial.label_rule == "own_rules:GOES"
    rules = {point.rule for point in trial.curve}
    assert {"critic", "placebo", "random", "majority", "first", "own_rules:LAST", "pass"} <= rules
    taken = []
    for trajectory in read_collection(Path("made"))[0]:
        for step in trajectory.steps:
            actions = [candidate.action for candidate in turn_candidates(step)]
            named = [action for action in actions if action is not None]
            taken.append(named[-1].startswith("go to") if named else False)
    point = next(point for point in trial.curve if (point.rule, point.candidates) == ("own_rules:LAST", 2))
    assert trial.states == len(taken)
    assert point.success.value == pytest.approx(100 * sum(taken) / len(taken))
    assert json.loads(Path("trial/config.json").read_text())["pick"] == ["own_rules:LAST"]
    evaluated = ("critic", "evaluate", "--judge", "./critic/critic", "--examples", "made")
    assert refused(own(*evaluated, "--pick", "own_rules:BEYOND", "--out", "bad")) == (
        "align-echo: the rule of selection beyond broke: the rule beyond took candidate 99 of 0 to 0"
    )


BAD = {
    "an unknown label rule": (
        (*COLLECT, "--rule", "nearest"),
        "unknown label rule 'nearest'; did you mean nearer? known: continues, expert, nearer; "
        "one of your own is module:Name",
    ),
    "a label rule of another kind": (
        (*COLLECT, "--rule", "own_rules:LAST"),
        "own_rules:LAST is a SelectionRule, not an align_echo.critic.labels.LabelRule",
    ),
    "a label rule for other environments": (
        (*COLLECT, "--rule", "own_rules:NEVER"),
        "alfworld is not labelled by the rule own_rules:NEVER: choose expert or nearer",
    ),
    "a label rule that labels too few": (
        (*COLLECT, "--rule", "own_rules:SHORT"),
        "the label rule own_rules:SHORT returned [], not correct, wrong or None for each of",
    ),
    "a label rule that breaks": (
        (*COLLECT, "--rule", "own_rules:RAISES"),
        "the label rule own_rules:RAISES broke: ZeroDivisionError: division by zero",
    ),
    "an unknown label rule of a training": (
        ("critic", "train", "--examples", "none", "--rule", "nearest"),
        "unknown label rule 'nearest'",
    ),
    "an unknown label rule of a flywheel": (
        ("critic", "flywheel", "--env", "alfworld", "--model", "pocket", "--rule", "own_rules:GONE"),
        "the module own_rules has no GONE; did you mean GOES?",
    ),
    "an unknown rule to compare": (
        ("critic", "evaluate", "--judge", "./model", "--examples", "none", "--pick", "own_rules:GOES"),
        "own_rules:GOES is a LabelRule, not an align_echo.critic.best_of.SelectionRule",
    ),
    "an unknown rule to compare in a flywheel": (
        ("critic", "flywheel", "--env", "alfworld", "--model", "pocket", "--pick", "luckiest"),
        "unknown rule of selection 'luckiest'; known: critic, first, logprob",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_refused_in_one_line(case: str, own):
    command, why = BAD[case]
    assert why in refused(own(*command, "--out", "bad"))


def settings(**collecting: Any) -> Path:
    file = Path("settings.yaml")
    file.write_text(json.dumps({"method": "rcm", "env": "alfworld", "collecting": collecting}))
    return file


def test_a_training_names_a_label_rule_and_a_form_of_ones_own(own):
    training = ("train", "--model", "./model", "--dry-run", "--out", "run", "--config")
    assert "unknown label rule 'nearest'" in refused(own(*training, settings(rule="nearest")))
    assert "own_rules:LAST is a SelectionRule" in refused(own(*training, settings(form="own_rules:LAST")))
    status, _, err = own(*training, settings(rule="own_rules:GOES", form="own_rules:NUMBER"))
    assert status == 0, err
