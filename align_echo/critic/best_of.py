"""Best-of-N (GAIA, paper 3, section 3.2): draw N candidates and choose by a critic, or by another rule.

Every turn the agent draws N candidate replies. If the rule needs a critic, each distinct action is judged; equation 4
chooses by the verdicts, other rules combine them with the agent's own log-probabilities. If all candidates give the
same action there is no choice, and it is judged only if it repeats an action without effect, to record the loop.
Candidates and verdicts are computed in batches if the models can. The chosen reply stays as sampled, with its token
ids, so that a conversation remains exact to the token. Not here: training the critic (`align_echo.gaia`), and the rules
(`selection.py`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Self

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.presets import EpisodeRules
from align_echo.critic.opinion import CriticOpinion
from align_echo.critic.scoring import ActionCritic, IntuitiveCritic
from align_echo.critic.selection import CRITIC, CandidateSet, SelectionRule
from align_echo.dice import Dice
from align_echo.errors import AgentError, UsageError
from align_echo.models.endpoint import get_base_url
from align_echo.models.recording import get_weights
from align_echo.types import AgentReply, AgentView, Candidate, Choice, Message, Usage


class BestOf:
    """An agent that sends the best of several replies of a chat agent, sampled at a temperature above 0.

    `critic` None means the agent's own model; a local model then reads the conversation by token ids. With
    `abstain_below` above 0, the first candidate is taken if the critic is less sure of every candidate. Random rules
    draw with `seed`.
    """

    def __init__(
        self,
        agent: ChatAgent,
        candidates: int,
        critic: ActionCritic | None = None,
        *,
        pick: SelectionRule = CRITIC,
        abstain_below: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Raises `UsageError` for fewer than 1 candidate, several at temperature 0, or a rule on log-probabilities for
        an agent with more than one model call a turn.
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
        """Return the agent that draws the candidates."""
        return self._agent

    @property
    def name(self) -> str:
        """Return `best-of-<N>(<agent>)`, or `<rule>-of-<N>(<agent>)` for a rule other than the critic's."""
        return f"{'best' if self._pick == CRITIC else self._pick.name}-of-{self._candidates}({self._agent.name})"

    @property
    def episode_rules(self) -> EpisodeRules:
        """Return the episode rules of the drawing agent."""
        return self._agent.episode_rules

    def with_sample(self, sample: int) -> Self:
        """Copy the agent with another sampling seed for its candidates; verdicts are not sampled."""
        copied = copy.copy(self)
        copied._sample = sample
        return copied

    def describe(self) -> dict[str, str]:
        """Return the description of agent and critic for run records."""
        details = {**self._agent.describe(), "best_of": str(self._candidates), "pick": self._pick.name}
        if self._pick.draws:
            details["pick_seed"] = str(self._seed)
        return details | self._about_critic() if self._pick.needs_judge else details

    def _about_critic(self) -> dict[str, str]:
        critic: ActionCritic = self._critic or IntuitiveCritic(self._agent.model)
        details = {
            "model.judge": critic.model.name,
            "base_url.judge": get_base_url(critic.model),
            "abstain_below": str(self._abstain_below),
            **critic.describe(),
        }
        weights = get_weights(critic.model)
        return details | ({"weights.judge": weights} if weights else {})

    def act(self, view: AgentView) -> AgentReply:
        """Return the chosen reply; `usage` sums over candidates and verdicts. Raises `ModelError` if a candidate fails.
        """
        start = self._sample * self._candidates
        replies = self._agent.act_all(view, range(start, start + self._candidates))
        actions = [candidate.action for candidate in replies]
        distinct = list(dict.fromkeys(action for action in actions if action is not None))
        needs_verdicts = self._pick.needs_judge and (
            len(distinct) > 1 or any(changed_nothing(view, action) for action in distinct)
        )
        opinions = {opinion.action: opinion for opinion in self._judge(view, distinct)} if needs_verdicts else {}
        index = self._take(view, replies, opinions)
        choice = Choice(candidates=tuple(_candidate(candidate, opinions) for candidate in replies), taken=index)
        usages = [*(opinion.usage for opinion in opinions.values()), *(candidate.usage for candidate in replies)]
        usage = sum(usages, Usage())
        return replies[index].model_copy(update={"usage": usage, "choice": choice})

    def _judge(self, view: AgentView, actions: Sequence[str]) -> list[CriticOpinion]:
        conversation: Sequence[Message] = self._agent.conversation(view)
        if self._critic is None:
            return IntuitiveCritic(self._agent.model).score(conversation, actions)
        # Token ids belong to the agent's model: another model reads the text.
        return self._critic.score([message.model_copy(update={"tokens": None}) for message in conversation], actions)

    def _take(self, view: AgentView, replies: Sequence[AgentReply], opinions: dict[str, CriticOpinion]) -> int:
        candidates = CandidateSet(
            actions=[candidate.action for candidate in replies],
            dice=Dice(f"{self._seed} {view.task_id} {self._sample} {len(view.turns)}"),
            judged=opinions,
            logprobs=[candidate.tokens.logprobs if candidate.tokens else None for candidate in replies],
            abstain_below=self._abstain_below,
        )
        index = self._pick.take(candidates)
        if not isinstance(index, int) or not 0 <= index < len(replies):
            raise AgentError(f"the rule {self._pick.name} took candidate {str(index)[:20]} of 0 to {len(replies) - 1}")
        return index


def changed_nothing(view: AgentView, action: str) -> bool:
    """Return whether an action was already sent and answered by a text known before."""
    seen_texts = {view.initial_observation}
    for turn in view.turns:
        if turn.action == action and turn.observation in seen_texts:
            return True
        seen_texts.add(turn.observation)
    return False


def _candidate(reply: AgentReply, opinions: dict[str, CriticOpinion]) -> Candidate:
    opinion = opinions.get(reply.action) if reply.action is not None else None
    return Candidate(
        action=reply.action,
        verdict=None if opinion is None else opinion.verdict or "neither",
        p_correct=None if opinion is None else opinion.p_correct,
        logprob=math.fsum(reply.tokens.logprobs) if reply.tokens else None,
    )
