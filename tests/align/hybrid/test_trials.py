"""Ten true and ten false hypotheses in each of several worlds: all true ones are kept, no false one is."""

from __future__ import annotations

import random
from typing import Any

import pytest

from align_echo.align.hybrid.hypotheses import ActionJudge, NeededStep, as_rule, fit_forms
from align_echo.align.hybrid.reading import parse_hypotheses
from align_echo.align.hybrid.trials import run_trials, try_as_told, verdict_on
from align_echo.align.probe.lab import Lab
from align_echo.interface.rules.actions import ActionGrammar, Form, declared_forms
from align_echo.interface.rules.answers import AnswerReader
from align_echo.interface.rules.model import RuleSet
from align_echo.rollout.batches import failed, run_tasks
from align_echo.wrappers.catalogue import environment
from tests.align.hybrid.station import FALSE, FRESH, LEARNED_ON, TRUE, UNTESTABLE, Fumbler, reply
from tests.align.hybrid.test_refutation import Sealer
from tests.align.hybrid.twenty_hypotheses import Setting, alfworld, made_up, measured
from tests.annex_env import AnnexEnv
from tests.station_env import StationEnv


@pytest.mark.long
@pytest.mark.parametrize("setting", [alfworld, lambda: made_up(4)], ids=["alfworld", "made-up"])
def test_true_hypotheses_are_kept_with_their_counts_and_false_ones_are_not(setting: Any) -> None:
    given: Setting = setting()
    figures = measured(given)
    assert (len(given.true), len(given.false)) == (10, 10)
    assert (figures["true_kept"], figures["false_kept"]) == (10, 0), figures["left_out"]
    for evidence in figures["evidence"].values():
        assert evidence["refuted"] == 0
        assert evidence["support"] >= 4
        assert evidence["tasks"] >= 2
    assert len(figures["left_out"]) == 10
    if given.play is not None:  # what they are worth, beside the placebo of the same interface
        assert figures["won"]["with"] >= figures["won"]["placebo"] + 6, figures["won"]


def test_without_trials_the_false_ones_would_be_kept_too() -> None:
    figures = measured(made_up(4), trials=False)
    assert (figures["true_kept"], figures["false_kept"]) == (10, 10)


def outcomes(*written: dict[str, Any]) -> dict[str, str]:
    """The verdicts on hypotheses about the station, by their words."""
    failures = failed(run_tasks(StationEnv, Fumbler(), LEARNED_ON, split="train"))
    hypotheses = parse_hypotheses(reply(*written), [*LEARNED_ON, *FRESH]).hypotheses
    tallies, _ = run_trials(
        Lab(StationEnv(step_limit=10**6)),
        hypotheses,
        failures,
        FRESH,
        random.Random(0),
        lambda text: None,
        ActionGrammar(fit_forms(hypotheses, [])),
        AnswerReader(),
    )
    return {
        f"{number} {hypothesis.kind}": verdict_on(hypothesis, tally)
        for number, (hypothesis, tally) in enumerate(zip(hypotheses, tallies, strict=True))
    }


def test_a_stranger_s_environment_is_judged_as_well() -> None:
    verdicts = list(outcomes(*TRUE, *FALSE, UNTESTABLE).values())
    assert verdicts == ["kept"] * len(TRUE) + ["refuted"] * len(FALSE) + ["untested"]


def test_a_wording_that_no_agent_ever_said_has_no_meaning_to_try() -> None:
    (verdict,) = outcomes({"kind": "instead", "wrong": "toss {0} in {1}", "right": "stow {0} into {1}"}).values()
    assert verdict == "untested"


def test_a_claim_that_one_of_its_experiments_contradicts_is_refuted() -> None:
    told = [
        {"task": task_id, "actions": ["board deck 2"], "sees": "The pod 2 is sealed"} for task_id in (*FRESH[:3],)
    ] + [{"task": FRESH[0], "actions": ["board deck 3"], "sees_not": "the POD 2  is sealed"}]
    wrong = [*told, {"task": FRESH[1], "actions": ["board deck 2", "scan"], "sees": "deck 3"}]
    text = "every pod is sealed at first"
    kept = {"kind": "claim", "text": text, "experiments": told}
    assert list(outcomes(kept, {**kept, "experiments": wrong}).values()) == ["played", "refuted"]


def test_what_was_tried_where_failures_were_shown_alone_is_not_kept() -> None:
    told = [
        {"task": task_id, "actions": ["board deck 2"], "sees": "sealed"} for task_id in LEARNED_ON
    ] + [{"task": LEARNED_ON[0], "actions": ["scan"], "sees_not": "sealed"}]
    assert list(outcomes({"kind": "claim", "text": "pods are sealed", "experiments": told}).values()) == ["untested"]


def test_where_nothing_is_listed_a_refusal_is_known_by_what_nonsense_gets() -> None:
    lab = Lab(AnnexEnv(step_limit=10**6))
    forms = ["beam {0}", "fly to {0}"]
    judge = ActionJudge(lab, forms, ActionGrammar(Form(text=form) for form in forms), AnswerReader())
    start = lab.start("annex/1")
    assert judge.taken(start, "beam roof") or judge.taken(start, "beam glass hall")
    assert not judge.taken(start, "fly to roof")
    assert judge.refusals() == {"fly to {0}": ["Eh?"]}


def test_a_rule_is_tried_as_it_is_told_and_dropped_where_that_does_not_help() -> None:
    spec = environment("tests.desk_env:PLAIN")
    hypotheses = [NeededStep(action="send", step=step) for step in ("label", "weigh")]
    grammar = ActionGrammar(fit_forms(hypotheses, declared_forms(spec.action_format)))
    refusals: dict[str, tuple[str, ...]] = {"send": ("Refused: no weight.",)}
    rules = RuleSet(
        forms=tuple(grammar.forms.values()),
        refusals=refusals,
        rules=tuple(as_rule(each, grammar, refusals) for each in hypotheses),
    )
    lost = run_tasks(lambda: spec.make("train"), Sealer(str), ["0"], split="train")
    lab, tasks = Lab(spec.make_env(split="train", data_root=None, step_limit=10**6)), ["1", "2", "3", "4"]
    for order in (rules.rules, rules.rules[::-1]):
        tried = rules.model_copy(update={"rules": order})
        left, book = try_as_told(lab, tried, lost, tasks, random.Random(0), lambda text: None)
        texts = {rule.text.removesuffix(".").partition(", ")[0] for rule in left.rules if book.may_stand(rule)}
        assert texts <= {"Before `send` you need to `weigh`"}
        assert order[0].model_dump_json() in book.failed, "label does not help; nor does weigh after seal"
