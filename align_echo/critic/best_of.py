"""Best-of-N by the intuitive critic (GAIA, paper 3, section 3.2, equation 4): candidates, verdicts, and the choice.

Every turn the agent draws N candidate replies. A judge says of each distinct action whether it is correct or wrong; the
one that is judged correct with the highest probability is sent, the first candidate where none is. The probability is
that of the verdict's first token; a judge that gives no log-probabilities leaves those judged correct tied, and the
first of them is sent. Where all candidates name one action there is nothing to judge.

The reply that is chosen stays as it was sampled, with its token ids, so that a conversation remains exact to the token.
Left out: training the judge (`align_echo.train`), and what it is asked (`align_echo.critic.verdict`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from align_echo.agents.conversation import ChatAgent
from align_echo.critic.verdict import Verdict, parse_verdict, verdict_messages
from align_echo.errors import ModelError, ReplyFormatError, UsageError
from align_echo.models.endpoint import base_url_of
from align_echo.models.recording import sample_of, weights_of
from align_echo.prompts import prompt_hash
from align_echo.types import AgentReply, AgentView, ChatModel, Choice, Completion, Message, Usage

MAX_TOKENS = 8
"""Of a verdict, which is one word."""


@dataclass(frozen=True)
class Judged:
    """What a judge said of an action. `verdict` is None if it cannot be read or the judge broke.

    `probability` is that of the verdict; 1 where the judge gives none.
    """

    verdict: Verdict | None
    probability: float = 1.0
    usage: Usage = field(default_factory=Usage)


class BestOf:
    """An agent that sends the best of several replies of a chat agent, which must draw: its temperature is above 0.

    `judge` None is the agent's own model, which reads its conversation by token ids where it is a local one.
    """

    def __init__(self, agent: ChatAgent, candidates: int, judge: ChatModel | None = None) -> None:
        """Raises `UsageError` for fewer than one candidate, or several that would all be alike."""
        if candidates < 1:
            raise UsageError(f"there must be at least 1 candidate, not {candidates}")
        if candidates > 1 and agent.temperature == 0:
            raise UsageError(f"best of {candidates} needs an agent that draws: a temperature above 0")
        self._agent = agent
        self._candidates = candidates
        self._judge = judge
        self._sample = 0

    @property
    def name(self) -> str:
        """`best-of-<N>(<agent>)`."""
        return f"best-of-{self._candidates}({self._agent.name})"

    def with_sample(self, sample: int) -> Self:
        """The same agent whose candidates are drawn anew; verdicts are not drawn."""
        other = copy.copy(self)
        other._sample = sample
        return other

    def describe(self) -> dict[str, str]:
        """What the agent and the judge are made of."""
        judge = self._agent.model if self._judge is None else self._judge
        made_of = {"model.judge": judge.name, "base_url.judge": base_url_of(judge)}
        if weights := weights_of(judge):
            made_of["weights.judge"] = weights
        settings = {"best_of": str(self._candidates), "judge_max_tokens": str(MAX_TOKENS)}
        return {
            **self._agent.describe(),
            **settings,
            **made_of,
            "prompt.critic/verdict": prompt_hash("critic/verdict"),
        }

    def act(self, view: AgentView) -> AgentReply:
        """The chosen reply; `usage` is that of all candidates and verdicts. Raises `ModelError` if a candidate does."""
        first = self._sample * self._candidates
        drawn = [self._agent.with_sample(first + one).act(view) for one in range(self._candidates)]
        actions = list(dict.fromkeys(one.action for one in drawn if one.action is not None))
        judged = self._judgements(self._agent.conversation(view), actions) if len(actions) > 1 else {}
        return chosen(drawn, judged)

    def _judgements(self, conversation: Sequence[Message], actions: Sequence[str]) -> dict[str, Judged]:
        judge = self._judge
        if judge is None:
            judge = self._agent.model
        else:  # token ids are the agent's model's: another one reads the text
            conversation = [one.model_copy(update={"tokens": None}) for one in conversation]
        return {action: judgement(sample_of(judge, 0), conversation, action) for action in actions}


def judgement(judge: ChatModel, conversation: Sequence[Message], action: str) -> Judged:
    """The judge's verdict on an action that the agent proposes next."""
    try:
        said = judge.complete(verdict_messages(conversation, action), temperature=0.0, max_tokens=MAX_TOKENS)
    except ModelError:
        return Judged(None)
    try:
        return Judged(parse_verdict(said.text), _probability(said), said.usage)
    except ReplyFormatError:
        return Judged(None, usage=said.usage)


def chosen(drawn: Sequence[AgentReply], judged: dict[str, Judged]) -> AgentReply:
    """The candidate that is sent, at least one given, with the usage of all and a count of the verdicts."""
    usable = [one for one in drawn if one.action is not None] or drawn
    correct = [one for one in usable if one.action in judged and judged[one.action].verdict == "correct"]
    best = max(correct, key=lambda one: judged[one.action or ""].probability, default=usable[0])
    verdicts = [one.verdict for one in judged.values()]
    choice = Choice(
        candidates=len(drawn),
        correct=verdicts.count("correct"),
        wrong=verdicts.count("wrong"),
        no_verdict=verdicts.count(None),
    )
    usage = sum((one.usage for one in drawn), sum((one.usage for one in judged.values()), Usage()))
    return best.model_copy(update={"usage": usage, "choice": choice})


def _probability(said: Completion) -> float:
    return math.exp(said.tokens.logprobs[0]) if said.tokens is not None and said.tokens.logprobs else 1.0
