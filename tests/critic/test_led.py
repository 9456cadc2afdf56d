"""An agent that proposes while another one acts: whose action is carried out, and what stays on record."""

from __future__ import annotations

from align_echo.agents.vanilla import Vanilla
from align_echo.critic.best_of import BestOf
from align_echo.critic.led import Led
from align_echo.models import ScriptedModel
from align_echo.types import AgentReply, AgentView
from tests.agents.views import VIEW


class Leader:
    """Always says the same."""

    name = "leader"

    def __init__(self, action: str) -> None:
        self._action = action

    def act(self, view: AgentView) -> AgentReply:
        return AgentReply(text=self._action, action=self._action)


def led(replies: list[str], leader: str, *, candidates: int = 2) -> AgentReply:
    agent = Vanilla(ScriptedModel(replies), temperature=1.0)
    proposer = BestOf(agent, candidates, pick="first") if candidates > 1 else agent
    return Led(proposer, Leader(leader)).act(VIEW)


def test_the_leaders_action_is_carried_out_and_all_candidates_are_on_record():
    reply = led(["look", "inventory"], "go to desk 1")
    assert (reply.text, reply.action) == ("go to desk 1", "go to desk 1")
    assert reply.choice is not None
    assert [one.action for one in reply.choice.candidates] == ["look", "inventory"]
    assert reply.choice.taken is None


def test_a_reply_that_names_the_leaders_action_stays_as_it_was_sampled():
    reply = led(["Action: look", "inventory"], "look")
    assert reply.choice is not None
    assert (reply.text, reply.action, reply.choice.taken) == ("Action: look", "look", 0)


def test_a_single_reply_is_a_candidate_too():
    asked, same = led(["look"], "inventory", candidates=1), led(["look"], "look", candidates=1)
    assert asked.choice is not None
    assert same.choice is not None
    assert [one.action for one in asked.choice.candidates] == ["look"] == [one.action for one in same.choice.candidates]
    assert (asked.choice.taken, same.choice.taken) == (None, 0)
    assert asked.action == "inventory"
