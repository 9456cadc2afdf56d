"""Best-of-N by the intuitive critic (GAIA, paper 3, section 3.2, equation 4): candidates, verdicts, and the choice.

Every turn the agent draws N candidate replies. A judge says of each distinct action whether it is correct or wrong; the
one that is judged correct with the highest probability is sent, the first candidate where none is. Candidates are drawn
at once and verdicts are asked for at once, where the models can (`models/drawing.py`, `models/choosing.py`). A judge
that gives no probabilities leaves those judged correct tied, and the first of them is sent. Where all candidates name
one action there is nothing to judge.

The reply that is chosen stays as it was sampled, with its token ids, so that a conversation remains exact to the token.
Left out: training the judge (`align_echo.train`), and what it is asked (`align_echo.critic.verdict`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from align_echo.agents.conversation import ChatAgent
from align_echo.critic.verdict import VERDICTS, Verdict, verdict_messages
from align_echo.errors import ModelError, UsageError
from align_echo.models.choosing import MAX_TOKENS, choose
from align_echo.models.endpoint import base_url_of
from align_echo.models.recording import weights_of
from align_echo.prompts import prompt_hash
from align_echo.types import AgentReply, AgentView, ChatModel, Choice, Message, Usage, WordChoice


@dataclass(frozen=True)
class Judged:
    """What a judge said of an action. `verdict` is None if it said neither word or broke.

    `correct` is the probability of "correct" among the two verdicts; None where the judge gives no probabilities.
    """

    verdict: Verdict | None
    correct: float | None = None
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
        drawn = self._agent.act_all(view, range(first, first + self._candidates))
        actions = list(dict.fromkeys(one.action for one in drawn if one.action is not None))
        judged = self._judgements(self._agent.conversation(view), actions) if len(actions) > 1 else {}
        return chosen(drawn, judged)

    def _judgements(self, conversation: Sequence[Message], actions: Sequence[str]) -> dict[str, Judged]:
        judge = self._judge
        if judge is None:
            judge = self._agent.model
        else:  # token ids are the agent's model's: another one reads the text
            conversation = [one.model_copy(update={"tokens": None}) for one in conversation]
        return dict(zip(actions, judgements(judge, conversation, actions), strict=True))


def judgements(judge: ChatModel, conversation: Sequence[Message], actions: Sequence[str]) -> list[Judged]:
    """The judge's verdict on each action that the agent proposes next."""
    return [judged(one) for one in choose(judge, [verdict_messages(conversation, one) for one in actions], VERDICTS)]


def judged(said: WordChoice | ModelError) -> Judged:
    """The verdict of an answer about `VERDICTS`."""
    if isinstance(said, ModelError):
        return Judged(None)
    verdict = next((one for one in VERDICTS if one == said.said), None)
    return Judged(verdict, None if said.logprobs is None else share(*said.logprobs), said.usage)


def share(one: float, other: float) -> float | None:
    """The first probability as a share of both, from their natural logarithms; None where both are 0."""
    highest = max(one, other)
    if highest == -math.inf:
        return None
    return math.exp(one - highest) / (math.exp(one - highest) + math.exp(other - highest))


def chosen(drawn: Sequence[AgentReply], judged: Mapping[str, Judged]) -> AgentReply:
    """The candidate that is sent, at least one given, with the usage of all and a count of the verdicts."""
    usable = [one for one in drawn if one.action is not None] or drawn
    found = [judged.get(one.action or "") for one in usable]
    correct = [(one, of) for one, of in zip(usable, found, strict=True) if of is not None and of.verdict == "correct"]
    best, _ = max(correct, key=lambda pair: _rank(pair[1]), default=(usable[0], None))
    verdicts = [one.verdict for one in judged.values()]
    choice = Choice(
        candidates=len(drawn),
        correct=verdicts.count("correct"),
        wrong=verdicts.count("wrong"),
        no_verdict=verdicts.count(None),
    )
    usage = sum((one.usage for one in drawn), sum((one.usage for one in judged.values()), Usage()))
    return best.model_copy(update={"usage": usage, "choice": choice})


def _rank(judged: Judged) -> float:
    return 1.0 if judged.correct is None else judged.correct
