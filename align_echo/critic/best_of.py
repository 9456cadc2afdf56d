"""Best-of-N (GAIA, paper 3, section 3.2): N candidates at once, one of which is taken by a critic, or by another rule.

Every turn the agent draws N candidate replies. With a rule that needs a judge each distinct action is judged;
equation 4 takes one, or what the verdicts and the agent's own log-probabilities say together. Where all candidates name
one action there is nothing to choose, and it is judged only if it repeats one that changed nothing: a loop is then on
record as such. Candidates are drawn at once and judged at once, where the models can. The reply
that is taken stays as it was sampled, with its token ids, so that a conversation remains exact to the token. Left out:
training the critic (`align_echo.gaia`), and the rules (`selection.py`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Self

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.presets import EpisodeRules
from align_echo.critic.opinion import Opinion
from align_echo.critic.scoring import Critic, Scorer
from align_echo.critic.selection import CRITIC, CandidateSet, SelectionRule
from align_echo.dice import Dice
from align_echo.errors import AgentError, UsageError
from align_echo.models.endpoint import base_url_of
from align_echo.models.recording import weights_of
from align_echo.types import AgentReply, AgentView, Candidate, Choice, Message, Usage


class BestOf:
    """An agent that sends the best of several replies of a chat agent, which must draw: its temperature is above 0.

    `critic` None is the agent's own model, which reads its conversation by token ids where it is a local one. With
    `abstain_below` above 0 the first candidate is taken where the critic is not so sure of any. Rules that
    draw do so by `seed`.
    """

    def __init__(
        self,
        agent: ChatAgent,
        candidates: int,
        critic: Critic | None = None,
        *,
        pick: SelectionRule = CRITIC,
        abstain_below: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Raises `UsageError` for fewer than one candidate, several that would all be alike, or a rule that needs
        log-probabilities over an agent that asks its model several times a turn.
        """
        if candidates < 1:
            raise UsageError(f"there must be at least 1 candidate, not {candidates}")
        if candidates > 1 and agent.temperature == 0:
            raise UsageError(f"best of {candidates} needs an agent that draws: a temperature above 0")
        if not 0 <= abstain_below <= 1:
            raise UsageError(f"abstain_below is a probability in [0, 1], not {abstain_below}")
        if pick.needs_logprobs and not agent.asks_once:
            raise UsageError(f"--pick {pick.name} compares replies, and {agent.kind} asks several times a turn")
        self._agent = agent
        self._candidates = candidates
        self._critic = critic
        self._pick = pick
        self._abstain_below = abstain_below
        self._seed = seed
        self._sample = 0

    @property
    def agent(self) -> ChatAgent:
        """Who draws the candidates."""
        return self._agent

    @property
    def name(self) -> str:
        """`best-of-<N>(<agent>)`, or `<rule>-of-<N>(<agent>)` for another rule than the critic's."""
        return f"{'best' if self._pick == CRITIC else self._pick.name}-of-{self._candidates}({self._agent.name})"

    @property
    def episode_rules(self) -> EpisodeRules:
        """Those of the agent that draws."""
        return self._agent.episode_rules

    def with_sample(self, sample: int) -> Self:
        """The same agent whose candidates are drawn anew; verdicts are not drawn."""
        other = copy.copy(self)
        other._sample = sample
        return other

    def describe(self) -> dict[str, str]:
        """What the agent and the critic are made of."""
        described = {**self._agent.describe(), "best_of": str(self._candidates), "pick": self._pick.name}
        if self._pick.draws:
            described["pick_seed"] = str(self._seed)
        return described | self._about_critic() if self._pick.needs_judge else described

    def _about_critic(self) -> dict[str, str]:
        critic: Critic = self._critic or Scorer(self._agent.model)
        described = {
            "model.judge": critic.model.name,
            "base_url.judge": base_url_of(critic.model),
            "abstain_below": str(self._abstain_below),
            **critic.describe(),
        }
        weights = weights_of(critic.model)
        return described | ({"weights.judge": weights} if weights else {})

    def act(self, view: AgentView) -> AgentReply:
        """The reply taken; `usage` is that of all candidates and verdicts. Raises `ModelError` if a candidate does."""
        start = self._sample * self._candidates
        drawn = self._agent.act_all(view, range(start, start + self._candidates))
        actions = [candidate.action for candidate in drawn]
        distinct = list(dict.fromkeys(action for action in actions if action is not None))
        judges = self._pick.needs_judge and (
            len(distinct) > 1 or any(changed_nothing(view, action) for action in distinct)
        )
        judged = {opinion.action: opinion for opinion in self._judge(view, distinct)} if judges else {}
        index = self._take(view, drawn, judged)
        choice = Choice(candidates=tuple(_candidate(candidate, judged) for candidate in drawn), taken=index)
        usages = [*(opinion.usage for opinion in judged.values()), *(candidate.usage for candidate in drawn)]
        usage = sum(usages, Usage())
        return drawn[index].model_copy(update={"usage": usage, "choice": choice})

    def _judge(self, view: AgentView, actions: Sequence[str]) -> list[Opinion]:
        conversation: Sequence[Message] = self._agent.conversation(view)
        if self._critic is None:
            return Scorer(self._agent.model).score(conversation, actions)
        # Token ids are the agent's model's: another one reads the text.
        return self._critic.score([message.model_copy(update={"tokens": None}) for message in conversation], actions)

    def _take(self, view: AgentView, drawn: Sequence[AgentReply], judged: dict[str, Opinion]) -> int:
        candidates = CandidateSet(
            actions=[candidate.action for candidate in drawn],
            dice=Dice(f"{self._seed} {view.task_id} {self._sample} {len(view.turns)}"),
            judged=judged,
            logprobs=[candidate.tokens.logprobs if candidate.tokens else None for candidate in drawn],
            abstain_below=self._abstain_below,
        )
        index = self._pick.take(candidates)
        if not isinstance(index, int) or not 0 <= index < len(drawn):
            raise AgentError(f"the rule {self._pick.name} took candidate {str(index)[:20]} of 0 to {len(drawn) - 1}")
        return index


def changed_nothing(view: AgentView, action: str) -> bool:
    """Whether an action was sent before in the episode and answered by a text that had been read until then."""
    read = {view.initial_observation}
    for turn in view.turns:
        if turn.action == action and turn.observation in read:
            return True
        read.add(turn.observation)
    return False


def _candidate(reply: AgentReply, judged: dict[str, Opinion]) -> Candidate:
    opinion = judged.get(reply.action) if reply.action is not None else None
    return Candidate(
        action=reply.action,
        verdict=None if opinion is None else opinion.verdict or "neither",
        p_correct=None if opinion is None else opinion.p_correct,
        logprob=math.fsum(reply.tokens.logprobs) if reply.tokens else None,
    )
