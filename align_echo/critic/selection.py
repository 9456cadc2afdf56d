"""Rules that choose one of N candidates: by the critic (GAIA, paper 3, section 3.2, equation 4), and baselines.

Candidates of one state are given by their actions, in the order drawn: None for a reply without an action; an action
may occur several times. Every rule takes at least one candidate and returns the index of one with an action, or 0 if
there is none. Ties go to the first. Pass@N is the limit of a perfect critic. Not here: drawing candidates and asking
the critic (`best_of.py`), and calibration (`calibration.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from align_echo.critic.opinion import CriticOpinion
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.grammar import with_article
from align_echo.registry import Registry

LogprobKind = Literal["reply", "token"]
SURE = 1e-12
"""Distance from 0 or 1 at which probabilities are clipped."""


@dataclass(frozen=True)
class CandidateSet:
    """The input of a rule: the candidates' `actions` in the order drawn (None: the reply held none), the opinion on
    each distinct action (`judged`), and each reply's token log-probabilities, if known.

    `dice` is seeded by the state; `abstain_below` is a probability in [0, 1] (`by_critic`).
    """

    actions: Sequence[str | None]
    dice: Dice
    judged: Mapping[str, CriticOpinion] = field(default_factory=dict)
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


def _read_rule(name: str, rule: object) -> SelectionRule:
    if not isinstance(rule, SelectionRule):
        kind = with_article(type(rule).__name__)
        raise UsageError(f"{name} is {kind}, not an align_echo.critic.selection.SelectionRule")
    return rule


RULES: Registry[SelectionRule] = Registry("rule of selection", "align_echo.selection_rules", _read_rule)


def by_critic(actions: Sequence[str | None], judged: Mapping[str, CriticOpinion], abstain_below: float = 0.0) -> int:
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
    opinions = {
        index: judged[action] for index in usable if (action := actions[index]) is not None and action in judged
    }
    p_correct = {index: opinion.p_correct for index, opinion in opinions.items() if opinion.verdict == "correct"}
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
    actions: Sequence[str | None], judged: Mapping[str, CriticOpinion], logprobs: Sequence[Sequence[float] | None]
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


def _log_odds(opinion: CriticOpinion | None) -> float:
    if opinion is None or opinion.p_correct is None:
        return 0.0
    p = min(max(opinion.p_correct, SURE), 1 - SURE)
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
