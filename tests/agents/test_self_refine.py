"""Self-refine: a review before the action, a strict verdict, and what happens where either cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.agents.reasoning import SelfRefine, parse_verdict
from align_echo.errors import ModelError, ReplyFormatError, UsageError
from align_echo.models import ScriptedModel
from align_echo.types import Completion
from tests.agents.views import VIEW, after, texts

KEEP = "Good.\nVerdict: keep"
CHANGE = "The room is dark.\nVerdict: change"


def test_a_review_that_finds_nothing_ends_the_turn() -> None:
    model = ScriptedModel(["look", KEEP])
    reply = SelfRefine(model).act(VIEW)
    assert reply.action == "look"
    assert reply.text == f"[proposal]\nlook\n[review 1]\n{KEEP}"
    assert len(model.requests) == 2


def test_an_action_is_improved_until_the_review_keeps_it() -> None:
    model = ScriptedModel(["look", CHANGE, "Action: go to study", KEEP])
    reply = SelfRefine(model).act(VIEW)
    assert reply.action == "go to study"
    assert "[improved 1]\nAction: go to study" in reply.text
    assert [message.content for message in model.requests[2]][2:5:2] == ["look", CHANGE]
    assert model.requests[2][-1].content.startswith("Now send the improved action")
    assert model.requests[3][-2].content == "Action: go to study"


def test_refining_stops_after_the_last_round() -> None:
    model = ScriptedModel(["look", CHANGE, "inventory", CHANGE, "go to study"])
    assert SelfRefine(model, rounds=2).act(VIEW).action == "go to study"
    assert SelfRefine(ScriptedModel(["look", CHANGE, "inventory"]), rounds=1).act(VIEW).action == "inventory"


@pytest.mark.parametrize(
    ("review", "problem"),
    [
        ("I would change it.", "must end with its one line"),
        ("Verdict: keep\nVerdict: change", "must end with its one line"),
        ("Verdict: change\nThe door is shut.", "must end with its one line"),
        ("Verdict: maybe", "neither keep nor change"),
        ("", "empty"),
        (Completion(text=CHANGE, finish_reason="length"), "cut off"),
    ],
)
def test_a_review_that_cannot_be_read_leaves_the_action_and_is_reported(
    review: str | Completion, problem: str
) -> None:
    model = ScriptedModel(["look", review])
    reply = SelfRefine(model).act(VIEW)
    assert reply.action == "look"
    assert reply.problem == ""
    assert "[review 1 not read]" in reply.text
    assert problem in reply.text


def test_an_improvement_without_an_action_leaves_the_last_one_and_is_reported() -> None:
    reply = SelfRefine(ScriptedModel(["look", CHANGE, "go to study\ndrop mug 1"])).act(VIEW)
    assert reply.action == "look"
    assert "[improved 1 not read] the reply has 2 lines" in reply.text


def test_a_proposal_without_an_action_is_not_reviewed() -> None:
    model = ScriptedModel(["go to study\ndrop mug 1"])
    reply = SelfRefine(model).act(VIEW)
    assert (reply.action, reply.text) == (None, "go to study\ndrop mug 1")
    assert "2 lines" in reply.problem


@pytest.mark.parametrize(
    "said", ["Verdict: change", "x\n\nVERDICT: Change.\n", "**Verdict:** change", "```\nverdict: change\n```"]
)
def test_a_verdict_is_read_in_any_dress(said: str) -> None:
    assert parse_verdict(said)
    assert not parse_verdict(said.lower().replace("change", "keep"))


@settings(deadline=None)
@given(texts, st.booleans())
def test_a_verdict_counts_only_at_the_end(review: str, change: bool) -> None:
    verdict = f"Verdict: {'change' if change else 'keep'}"
    assert parse_verdict(f"- {review}\n{verdict}") == change
    with pytest.raises(ReplyFormatError):
        parse_verdict(f"- {review}\n{verdict}\nbut then again")


def test_the_history_shows_the_final_action_alone() -> None:
    model = ScriptedModel(["inventory", KEEP])
    said = f"[proposal]\ntake mug 1\n[review 1]\n{CHANGE}\n[improved 1]\nlook"
    SelfRefine(model).act(after((said, "look", "A door.")))
    assert [message.content for message in model.requests[0][2:]] == ["look", "A door."]


def test_a_model_that_breaks_on_the_review_breaks_the_turn() -> None:
    with pytest.raises(ModelError, match="down"):
        SelfRefine(ScriptedModel(["look", ModelError("down")])).act(VIEW)


def test_no_rounds_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1, not 0"):
        SelfRefine(ScriptedModel([]), rounds=0)
    assert SelfRefine(ScriptedModel([]), rounds=3).describe()["rounds"] == "3"
