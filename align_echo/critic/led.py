"""An agent that proposes candidates while a leader acts: candidates in the states of the leader's episodes.

With the expert as leader this is GAIA's collection (paper 3, section 3.2.1): the expert's path is followed step by
step, and the agent proposes in every state. A critic trained on these states alone never sees those where the agent is
lost, so the proposer can play a share of the episodes itself. Not here: labels of the candidates (`labels.py`).
"""

from __future__ import annotations

import math
from typing import Self

from align_echo.agents.conversation import ChatAgent
from align_echo.critic.best_of import BestOf
from align_echo.dice import Dice
from align_echo.types import Agent, AgentReply, AgentView, Candidate, Choice


class LedAgent:
    """Carries out the leader's action each turn; the reply's `choice` holds the proposer's candidates.

    If the proposer's own reply gives the same action it stays as sampled; otherwise the reply is the action. In a share
    `own` of the episodes, by task and sample, the proposer plays alone.
    """

    def __init__(self, proposer: BestOf | ChatAgent, leader: Agent, *, own: float = 0.0, sample: int = 0) -> None:
        self._proposer = proposer
        self._leader = leader
        self._own = own
        self._sample = sample

    @property
    def name(self) -> str:
        """Return `<proposer>, led by <leader>`, with the share of led episodes."""
        share = f" in {1 - self._own:.0%} of the episodes" if self._own else ""
        return f"{self._proposer.name}, led by {self._leader.name}{share}"

    def describe(self) -> dict[str, str]:
        """Return the proposer's description."""
        return self._proposer.describe()

    def with_sample(self, sample: int) -> Self:
        """Copy the agent with another sampling seed for the proposer."""
        return type(self)(self._proposer.with_sample(sample), self._leader, own=self._own, sample=sample)

    def act(self, view: AgentView) -> AgentReply:
        """Return the leader's action with the proposer's candidates. Raises the errors of either agent."""
        proposed = self._proposer.act(view)
        if Dice(f"led {view.task_id} {self._sample}").chance(self._own):
            return proposed
        action = self._leader.act(view).action
        candidates = proposed.choice.candidates if proposed.choice else (_candidate(proposed),)
        if proposed.action == action:
            return proposed.model_copy(update={"choice": proposed.choice or Choice(candidates=candidates, taken=0)})
        choice = Choice(candidates=candidates, taken=None)
        return AgentReply(text=action or "", action=action, usage=proposed.usage, choice=choice)


def _candidate(reply: AgentReply) -> Candidate:
    return Candidate(action=reply.action, logprob=math.fsum(reply.tokens.logprobs) if reply.tokens else None)
