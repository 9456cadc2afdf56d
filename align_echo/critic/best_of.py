"""Best-of-N (GAIA, paper 3, section 3.2): draw N candidates and choose by a critic, or by another rule.

Every turn the agent draws N candidate replies. If the rule needs a critic, each distinct action is judged; equation 4
chooses by the verdicts, other rules combine them with the agent's own log-probabilities. If all candidates give the
same action there is no choice, and it is judged only if it repeats an action without effect, to record the loop.
Candidates and verdicts are computed in batches if the models can. The chosen reply stays as sampled, with its token
ids, so that a conversation remains exact to the token. Not here: asking (`ask.py`), and training (`align_echo.gaia`).
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.presets import EpisodeRules
from align_echo.base.dice import Dice
from align_echo.critic.ask import ActionQuestion, Critic, UnreadVerdicts, Verdict, ask
from align_echo.errors import AgentError, ModelError, UsageError
from align_echo.models.recording import describe_model
from align_echo.registry import Registry, with_article
from align_echo.types import (
    Agent,
    AgentReply,
    AgentView,
    Candidate,
    Choice,
    Usage,
)

# ---------------------------------------------------------------- rules that choose one of N candidates

LogprobKind = Literal["reply", "token"]
SURE = 1e-12
"""Distance from 0 or 1 at which probabilities are clipped."""


@dataclass(frozen=True)
class CandidateSet:
    """The input of a rule: the candidates' `actions` in the order drawn (None: the reply held none), the verdict on
    each distinct action (`judged`), and each reply's token log-probabilities, if known.

    `dice` is seeded by the state; `abstain_below` is a probability in [0, 1] (`by_critic`).
    """

    actions: Sequence[str | None]
    dice: Dice
    judged: Mapping[str, Verdict] = field(default_factory=dict)
    logprobs: Sequence[Sequence[float] | None] = ()
    abstain_below: float = 0.0


@dataclass(frozen=True)
class SelectionRule:
    """A rule by name. `take` returns the index of a candidate. The flags say what the rule needs: verdicts on each
    distinct action, log-probabilities of replies, or random draws alone.
    """

    name: str
    take: Callable[[CandidateSet], int]
    needs_judge: bool = False
    needs_logprobs: bool = False
    draws: bool = False

    def pick(self, candidates: CandidateSet) -> int:
        """Return the index that the rule takes. Raises `AgentError` for an index of no candidate."""
        index, last = self.take(candidates), len(candidates.actions) - 1
        if not isinstance(index, int) or not 0 <= index <= last:
            raise AgentError(f"the rule {self.name} took candidate {str(index)[:20]} of 0 to {last}")
        return index


def _read_rule(name: str, rule: object) -> SelectionRule:
    if not isinstance(rule, SelectionRule):
        kind = with_article(type(rule).__name__)
        raise UsageError(f"{name} is {kind}, not an align_echo.critic.best_of.SelectionRule")
    return rule


RULES: Registry[SelectionRule] = Registry("rule of selection", "align_echo.selection_rules", _read_rule)


RULE_ORDER = ("critic", "placebo", "random", "majority", "logprob", "tilted")
"""Our rules in the order of tables; others follow."""


def by_critic(actions: Sequence[str | None], judged: Mapping[str, Verdict], abstain_below: float = 0.0) -> int:
    """Choose the candidate with the highest p(correct) among those judged correct; without any, the first with an
    action.

    GAIA (paper 3) equation 4. With `abstain_below` above 0, the first with an action is also taken if the highest
    p(correct) is below it. Probabilities count only if all candidates judged correct have one; otherwise these are
    tied. An action missing from `judged` has no verdict. Raises `UsageError` for no candidate, or a threshold outside
    [0, 1].
    """
    if not 0 <= abstain_below <= 1:
        raise UsageError(f"abstain_below is a probability in [0, 1], not {abstain_below}")
    usable = _usable_indices(actions)
    verdicts = {
        index: judged[action] for index in usable if (action := actions[index]) is not None and action in judged
    }
    p_correct = {index: verdict.p_correct for index, verdict in verdicts.items() if verdict.label == "correct"}
    known = {index: p for index, p in p_correct.items() if p is not None}
    if not p_correct:
        return usable[0]
    if len(known) < len(p_correct):
        return min(p_correct)
    best = max(known, key=known.__getitem__)
    return best if known[best] >= abstain_below else usable[0]


def first(actions: Sequence[str | None]) -> int:
    """Choose the first candidate with an action, like an agent that draws once. Raises `UsageError` for no candidate.
    """
    return _usable_indices(actions)[0]


def at_random(actions: Sequence[str | None], dice: Dice) -> int:
    """Choose uniformly among candidates with an action: an action drawn twice is twice as likely.

    Raises `UsageError` for no candidate.
    """
    return dice.pick(_usable_indices(actions))


def by_placebo(actions: Sequence[str | None], dice: Dice) -> int:
    """Choose uniformly among distinct actions, however often each was drawn, and return its first candidate.

    This is the control for a critic of distinct actions: a critic without knowledge. Raises `UsageError` for no
    candidate.
    """
    usable = _usable_indices(actions)
    distinct = list(dict.fromkeys(actions[index] for index in usable))
    return actions.index(dice.pick(distinct))


def by_majority(actions: Sequence[str | None]) -> int:
    """Choose the first candidate of the most frequent action (Wang et al., ICLR 2023: self-consistency).

    Raises `UsageError` for no candidate.
    """
    votes = Counter(actions)
    return max(_usable_indices(actions), key=lambda index: votes[actions[index]])


def by_logprob(
    actions: Sequence[str | None], logprobs: Sequence[Sequence[float] | None], of: LogprobKind = "reply"
) -> int:
    """Choose the candidate most likely under the agent itself. `logprobs[i]` [T_i] are those of reply i's tokens.

    "reply" compares their sums, which favours short replies; "token" their means. Raises `UsageError` for no candidate,
    a different number of entries, or a candidate with an action whose log-probabilities are missing or above 0.
    """
    likelihood = _likelihood(actions, logprobs, of)
    return max(likelihood, key=likelihood.__getitem__)


def by_tilted(
    actions: Sequence[str | None], judged: Mapping[str, Verdict], logprobs: Sequence[Sequence[float] | None]
) -> int:
    """Choose the candidate with the highest log-probability plus the critic's log-odds, log p(correct) - log p(wrong).

    This is the likeliest under the agent's own distribution tilted by the critic's odds, as a reward tilts the
    reference policy in KL-regularised learning (Rafailov et al., NeurIPS 2023, equation 4, with beta 1). An action
    without a probability has even odds, whatever the verdict. Raises `UsageError` as `by_logprob` does.
    """
    tilted = {
        index: likelihood + _log_odds(judged.get(actions[index] or ""))
        for index, likelihood in _likelihood(actions, logprobs, "reply").items()
    }
    return max(tilted, key=tilted.__getitem__)


def _log_odds(verdict: Verdict | None) -> float:
    if verdict is None or verdict.p_correct is None:
        return 0.0
    p = min(max(verdict.p_correct, SURE), 1 - SURE)
    return math.log(p / (1 - p))


def _likelihood(
    actions: Sequence[str | None], logprobs: Sequence[Sequence[float] | None], of: LogprobKind
) -> dict[int, float]:
    if len(logprobs) != len(actions):
        raise UsageError(f"{len(actions)} candidates and log-probabilities of {len(logprobs)}: give one entry to each")
    likelihood: dict[int, float] = {}
    for index in _usable_indices(actions):
        tokens = logprobs[index] or ()
        if actions[index] is not None and not (tokens and all(token <= 0 for token in tokens)):
            raise UsageError(f"candidate {index} lacks log-probabilities of at most 0: use a model that gives them")
        likelihood[index] = math.fsum(tokens) / (max(len(tokens), 1) if of == "token" else 1)
    return likelihood


def pass_at_k(drawn: int, correct: int, k: int) -> float:
    """Estimate pass@k in [0, 1] without bias: 1 - C(drawn - correct, k) / C(drawn, k).

    The share of subsets of k candidates with a correct one (Chen et al. 2021, "Evaluating Large Language Models Trained
    on Code", equation 1). Computed in integers with one division, so no count is too large. Raises `UsageError` unless
    0 <= correct <= drawn and 1 <= k <= drawn.
    """
    if not (0 <= correct <= drawn and 1 <= k <= drawn):
        raise UsageError(f"pass@k needs 0 <= correct <= drawn and 1 <= k <= drawn, not {correct} of {drawn} at k = {k}")
    subsets = math.comb(drawn, k)
    return (subsets - math.comb(drawn - correct, k)) / subsets


def _usable_indices(actions: Sequence[str | None]) -> list[int]:
    """Return the indices of candidates with an action, or [0] without any. Raises `UsageError` for no candidate."""
    if not actions:
        raise UsageError("there is no candidate to take")
    return [index for index, action in enumerate(actions) if action is not None] or [0]


CRITIC = SelectionRule(
    "critic", lambda pool: by_critic(pool.actions, pool.judged, pool.abstain_below), needs_judge=True
)
TILTED = SelectionRule(
    "tilted",
    lambda pool: by_tilted(pool.actions, pool.judged, pool.logprobs),
    needs_judge=True,
    needs_logprobs=True,
)
FIRST = SelectionRule("first", lambda pool: first(pool.actions))
RANDOM = SelectionRule("random", lambda pool: at_random(pool.actions, pool.dice), draws=True)
PLACEBO = SelectionRule("placebo", lambda pool: by_placebo(pool.actions, pool.dice), draws=True)
MAJORITY = SelectionRule("majority", lambda pool: by_majority(pool.actions))
LOGPROB = SelectionRule("logprob", lambda pool: by_logprob(pool.actions, pool.logprobs), needs_logprobs=True)


# ---------------------------------------------------------------- best-of-N (GAIA, paper 3, section 3.2)


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
        critic: Critic | None = None,
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
        self._unread = UnreadVerdicts()

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
        critic = self._critic or Critic(self._agent.model)
        details = {"abstain_below": str(self._abstain_below), **critic.describe()}
        return describe_model("judge", critic.model) | details

    def act(self, view: AgentView) -> AgentReply:
        """Return the chosen reply; `usage` sums over candidates and verdicts. Raises `ModelError` if a candidate or a
        verdict fails.
        """
        start = self._sample * self._candidates
        replies = self._agent.act_all(view, range(start, start + self._candidates))
        actions = [candidate.action for candidate in replies]
        distinct = list(dict.fromkeys(action for action in actions if action is not None))
        needs_verdicts = self._pick.needs_judge and (
            len(distinct) > 1 or any(changed_nothing(view, action) for action in distinct)
        )
        verdicts = {verdict.action: verdict for verdict in self._judge(view, distinct)} if needs_verdicts else {}
        index = self._take(view, replies, verdicts)
        choice = Choice(candidates=tuple(_candidate(candidate, verdicts) for candidate in replies), taken=index)
        usages = [*(verdict.usage for verdict in verdicts.values()), *(candidate.usage for candidate in replies)]
        usage = sum(usages, Usage())
        return replies[index].model_copy(update={"usage": usage, "choice": choice})

    def _judge(self, view: AgentView, actions: Sequence[str]) -> list[Verdict]:
        critic, conversation = self._critic, self._agent.conversation(view)
        if critic is not None:  # token ids belong to the agent's model: another model reads the text
            conversation = [message.model_copy(update={"tokens": None}) for message in conversation]
        asked = critic or Critic(self._agent.model)
        verdicts = ask(asked, [ActionQuestion(conversation, action) for action in actions])
        fault = next((verdict.fault for verdict in verdicts if verdict.fault is not None), None)
        if fault is not None:
            raise ModelError(f"no verdict on the candidates: {fault.message}")
        self._unread.add(asked, verdicts)
        return verdicts

    def _take(self, view: AgentView, replies: Sequence[AgentReply], verdicts: dict[str, Verdict]) -> int:
        candidates = CandidateSet(
            actions=[candidate.action for candidate in replies],
            dice=Dice(f"{self._seed} {view.task_id} {self._sample} {len(view.turns)}"),
            judged=verdicts,
            logprobs=[candidate.tokens.logprobs if candidate.tokens else None for candidate in replies],
            abstain_below=self._abstain_below,
        )
        return self._pick.pick(candidates)


def changed_nothing(view: AgentView, action: str) -> bool:
    """Return whether an action was already sent and answered by a text known before."""
    seen_texts = {view.initial_observation}
    for turn in view.turns:
        if turn.action == action and turn.observation in seen_texts:
            return True
        seen_texts.add(turn.observation)
    return False


def _candidate(reply: AgentReply, verdicts: dict[str, Verdict]) -> Candidate:
    verdict = verdicts.get(reply.action) if reply.action is not None else None
    return Candidate(
        action=reply.action,
        verdict=None if verdict is None else verdict.label or "neither",
        p_correct=None if verdict is None else verdict.p_correct,
        logprob=math.fsum(reply.tokens.logprobs) if reply.tokens else None,
    )


# ---------------------------------------------------------------- an agent led by another one's actions


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
        candidates = proposed.choice.candidates if proposed.choice else (_led_candidate(proposed),)
        if proposed.action == action:
            return proposed.model_copy(update={"choice": proposed.choice or Choice(candidates=candidates, taken=0)})
        choice = Choice(candidates=candidates, taken=None)
        return AgentReply(text=action or "", action=action, usage=proposed.usage, choice=choice)


def _led_candidate(reply: AgentReply) -> Candidate:
    return Candidate(action=reply.action, logprob=math.fsum(reply.tokens.logprobs) if reply.tokens else None)
