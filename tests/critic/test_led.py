"""An agent that proposes while another one acts: whose action is carried out, and what stays on record."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from align_echo.agents.reasoning import Vanilla
from align_echo.critic.best_of import FIRST, BestOf, LedAgent
from align_echo.errors import EngineError, ModelError
from align_echo.models import ScriptedModel
from align_echo.types import AgentReply, AgentView, Completion, Message
from tests.agents.views import VIEW, after


class Leader:
    """Always says the same, or nothing."""

    name = "leader"

    def __init__(self, action: str | None) -> None:
        self._action = action

    def act(self, view: AgentView) -> AgentReply:
        return AgentReply(text=self._action or "", action=self._action)


class Broken:
    """A leader whose engine fails."""

    name = "broken"

    def act(self, view: AgentView) -> AgentReply:
        raise EngineError("the engine is gone")


class Numbered:
    """A model that says which sample it is."""

    name = "numbered"

    def __init__(self, sample: int = 0) -> None:
        self._sample = sample

    def with_sample(self, sample: int) -> Numbered:
        return Numbered(sample)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 1) -> Completion:
        return Completion(text=f"go to room {self._sample}")


def candidates_of(reply: AgentReply) -> list[str | None]:
    assert reply.choice is not None
    return [candidate.action for candidate in reply.choice.candidates]


def led(replies: Sequence[str | ModelError], leader: str | None, *, candidates: int = 2) -> AgentReply:
    agent = Vanilla(ScriptedModel(replies), temperature=1.0)
    proposer = BestOf(agent, candidates, pick=FIRST) if candidates > 1 else agent
    return LedAgent(proposer, Leader(leader)).act(VIEW)


def test_the_leaders_action_is_carried_out_and_all_candidates_are_on_record():
    reply = led(["look", "inventory"], "go to desk 1")
    assert (reply.text, reply.action) == ("go to desk 1", "go to desk 1")
    assert reply.choice is not None
    assert [candidate.action for candidate in reply.choice.candidates] == ["look", "inventory"]
    assert reply.choice.taken is None


def test_a_reply_that_names_the_leaders_action_stays_as_it_was_sampled():
    reply = led(["Action: look", "inventory"], "look")
    assert reply.choice is not None
    assert (reply.text, reply.action, reply.choice.taken) == ("Action: look", "look", 0)


def test_a_single_reply_is_a_candidate_too():
    asked, same = led(["look"], "inventory", candidates=1), led(["look"], "look", candidates=1)
    assert asked.choice is not None
    assert same.choice is not None
    for reply in (asked, same):
        assert reply.choice is not None
        assert [candidate.action for candidate in reply.choice.candidates] == ["look"]
    assert (asked.choice.taken, same.choice.taken) == (None, 0)
    assert asked.action == "inventory"


def test_a_leader_without_an_action_sends_none_and_the_candidates_stay_on_record():
    reply = led(["look", "inventory"], None)
    assert (reply.text, reply.action, candidates_of(reply)) == ("", None, ["look", "inventory"])
    assert reply.choice is not None
    assert reply.choice.taken is None


def test_where_nobody_has_an_action_none_is_made_up():
    reply = led(["", ""], None)
    assert (reply.action, candidates_of(reply)) == (None, [None, None])


@pytest.mark.parametrize("candidates", [1, 2])
def test_another_sample_is_other_candidates_under_the_same_leader(candidates):
    agent = Vanilla(Numbered(), temperature=1.0)
    proposer = BestOf(agent, candidates, pick=FIRST) if candidates > 1 else agent
    first = LedAgent(proposer, Leader("look"))
    drawn = [candidates_of(one.act(VIEW)) for one in (first, first.with_sample(1), first.with_sample(2), first)]
    assert drawn[0] == drawn[3] == [f"go to room {number}" for number in range(candidates)]
    assert len({action for some in drawn[:3] for action in some}) == 3 * candidates
    assert {one.act(VIEW).action for one in (first, first.with_sample(1))} == {"look"}
    assert first.with_sample(1).name == first.name


def test_a_share_of_the_episodes_is_the_proposers_own_from_the_first_turn_to_the_last():
    mixed = LedAgent(BestOf(Vanilla(Numbered(), temperature=1.0), 2, pick=FIRST), Leader("look"), own=0.5)
    own = {}
    for number in range(60):
        views = [one.model_copy(update={"task_id": str(number)}) for one in (VIEW, after(("look", "look", "A mug.")))]
        sent = {mixed.act(view).action != "look" for view in views}
        assert len(sent) == 1
        own[number] = sent.pop()
    assert 15 < sum(own.values()) < 45
    other = mixed.with_sample(1)
    assert any(
        (other.act(VIEW.model_copy(update={"task_id": str(number)})).action != "look") != own[number] for number in own
    )
    assert mixed.name.endswith("led by leader in 50% of the episodes")


def test_what_fails_fails_the_turn():
    with pytest.raises(ModelError, match="down"):
        led(["look", ModelError("down")], "look")
    with pytest.raises(EngineError, match="gone"):
        LedAgent(Vanilla(ScriptedModel(["look"]), temperature=1.0), Broken()).act(VIEW)
