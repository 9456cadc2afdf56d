"""The interface that ships for WebShop: what it says is true, and worth something to an agent that heeds it."""

from __future__ import annotations

import pytest

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.rollout.batches import run_tasks
from align_echo.rollout.session import base_env
from tests.wrappers.webshop.page_audit import PageAudit, adversary

GOALS = align_echo.tasks("webshop", split="align_test")
INTERFACE = align_echo.load_interface("webshop/probe")


def mean_score(placebo: bool) -> float:
    interface = INTERFACE.model_copy(update={"placebo": placebo})
    played = run_tasks(
        lambda: align_echo.make("webshop", split="align_test", interface=interface),
        make_novice("webshop"),
        GOALS[:20],
        split="align_test",
    )
    assert not any(step.interface_error for episode in played for step in episode.steps)
    return sum(episode.score for episode in played) / len(played)


@pytest.mark.long
def test_the_novice_scores_more_than_with_its_placebo():
    assert mean_score(placebo=False) >= mean_score(placebo=True) + 0.15


@pytest.mark.long
def test_nothing_false_is_said_to_an_adversary():
    audit = PageAudit(base_env(align_echo.make("webshop", split="align_test", step_limit=10**6)), INTERFACE)
    adversary(audit, GOALS[:8], turns=6, seed=3)
    assert audit.right.total() > 500
    assert audit.wrong.total() == 0, audit.examples


def test_it_was_learned_on_other_goals_and_says_how_often_each_rule_held():
    assert read_rule_set(INTERFACE.source) is not None
    assert not {*INTERFACE.provenance.training_tasks} & {*GOALS}
    assert all(rule.evidence.support >= 10 and not rule.evidence.refuted for rule in INTERFACE.provenance.rules)
