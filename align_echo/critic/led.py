"""An agent that proposes while another one acts: its candidates in the states of the other's episodes.

With the expert as leader this is how GAIA collects (paper 3, section 3.2.1): a dataset of the right ways is walked step
by step, and in every state the agent says what it would do. A critic that learns from such states alone does not know
those in which the agent loses itself, so a share of the episodes can be left to the proposer. Left out: what the
candidates are worth (`labels.py`).
"""

from __future__ import annotations

import math
from typing import Self

from align_echo.agents.conversation import ChatAgent
from align_echo.critic.best_of import BestOf
from align_echo.dice import Dice
from align_echo.types import Agent, AgentReply, AgentView, Candidate, Choice


class Led:
    """Carries out the leader's action each turn; `choice` of the reply holds what the proposer drew.

    Where the proposer's own reply names that action it stays as it was sampled; otherwise the reply is the action. In
    a share `own` of the episodes, by task and sample, the proposer plays alone.
    """

    def __init__(self, proposer: BestOf | ChatAgent, leader: Agent, *, own: float = 0.0, sample: int = 0) -> None:
        self._proposer = proposer
        self._leader = leader
        self._own = own
        self._sample = sample

    @property
    def name(self) -> str:
        """`<proposer>, led by <leader>`, and in how many of the episodes."""
        led = f" in {1 - self._own:.0%} of the episodes" if self._own else ""
        return f"{self._proposer.name}, led by {self._leader.name}{led}"

    def describe(self) -> dict[str, str]:
        """What the proposer is made of."""
        return self._proposer.describe()

    def with_sample(self, sample: int) -> Self:
        """The same agents; the proposer draws anew."""
        return type(self)(self._proposer.with_sample(sample), self._leader, own=self._own, sample=sample)

    def act(self, view: AgentView) -> AgentReply:
        """The leader's action with the proposer's candidates. Raises what either raises."""
        proposed = self._proposer.act(view)
        if Dice(f"led {view.task_id} {self._sample}").chance(self._own):
            return proposed
        action = self._leader.act(view).action
        drawn = proposed.choice.candidates if proposed.choice else (_candidate(proposed),)
        if proposed.action == action:
            return proposed.model_copy(update={"choice": proposed.choice or Choice(candidates=drawn, taken=0)})
        choice = Choice(candidates=drawn, taken=None)
        return AgentReply(text=action or "", action=action, usage=proposed.usage, choice=choice)


def _candidate(reply: AgentReply) -> Candidate:
    return Candidate(action=reply.action, logprob=math.fsum(reply.tokens.logprobs) if reply.tokens else None)
