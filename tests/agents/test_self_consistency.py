"""Self-consistency: several samples of one request, read strictly, and a vote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.agents.reasoning import SelfConsistency, vote
from align_echo.errors import ModelError, UsageError
from align_echo.models import CallLog, RecordingModel, ReplyCache, ScriptedModel
from align_echo.types import AgentReply, Completion
from tests.agents.views import VIEW, actions, after


def sampled(*replies: str | Completion | Exception) -> AgentReply:
    """What comes of these samples."""
    return SelfConsistency(ScriptedModel(list(replies)), samples=len(replies)).act(VIEW)


def test_the_action_named_most_often_wins() -> None:
    reply = sampled("look", "go to study", "inventory", "Action: go to study", "go to study")
    assert reply.action == "go to study"
    assert reply.text == "go to study\nvotes: 3 go to study | 1 look | 1 inventory"


def test_a_tie_goes_to_the_action_that_was_sampled_first() -> None:
    assert sampled("look", "inventory", "inventory", "look", "drop mug 1").action == "look"
    assert sampled("inventory", "look").action == "inventory"


def test_samples_without_an_action_have_no_vote_and_are_counted() -> None:
    cut = Completion(text="look", finish_reason="length")
    reply = sampled("look\ninventory", cut, "", "go to study")
    assert reply.action == "go to study"
    assert reply.text.endswith("votes: 1 go to study | 3 without an action")
    assert reply.problem == ""


def test_if_no_sample_holds_an_action_the_reply_holds_none() -> None:
    reply = sampled("look\ninventory", "", "a\nb")
    assert reply.action is None
    assert reply.text == "look\ninventory"
    assert reply.problem.startswith("none of 3 samples holds exactly one action; of the first: the reply has 2 lines")


@settings(deadline=None)
@given(st.lists(st.none() | actions, min_size=1, max_size=7))
def test_no_action_has_more_votes_than_the_chosen_one(named: list[str | None]) -> None:
    reply = vote([AgentReply(text=action or "", action=action, problem="" if action else "none") for action in named])
    heard = [action for action in named if action is not None]
    if not heard:
        assert reply.action is None
        return
    most = max(map(heard.count, heard))
    assert reply.action == next(action for action in heard if heard.count(action) == most)


def test_the_history_shows_the_chosen_action_and_no_votes() -> None:
    model = ScriptedModel(["look"])
    SelfConsistency(model, samples=1).act(after(("look\nvotes: 3 look | 2 inventory", "look", "A door.")))
    assert [message.content for message in model.requests[0][2:]] == ["look", "A door."]


def test_samples_are_drawn_at_the_methods_temperature_and_on_record(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.jsonl")
    model = RecordingModel(
        ScriptedModel(["look", "inventory", "inventory"]), role="agent", cache=ReplyCache(tmp_path / "cache"), log=log
    )
    agent = SelfConsistency(model, samples=3)
    assert agent.act(VIEW).action == "inventory"
    assert agent.act(VIEW).action == "inventory"  # the script is used up: the samples come from the cache
    calls = log.read()
    assert [(call.sample, call.temperature, call.cached) for call in calls[:3]] == [
        (0, 0.7, False),
        (1, 0.7, False),
        (2, 0.7, False),
    ]
    assert [call.cached for call in calls[3:]] == [True] * 3
    assert agent.describe()["samples"] == "3"


def test_a_model_that_breaks_on_one_sample_breaks_the_turn() -> None:
    with pytest.raises(ModelError, match="down"):
        sampled("look", ModelError("down"), "look")


def test_no_samples_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1, not 0"):
        SelfConsistency(ScriptedModel([]), samples=0)
