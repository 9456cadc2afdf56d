"""Which of N candidates is taken: by the critic (GAIA, paper 3, section 3.2, equation 4), with it, and by baselines.

Candidates of one state are given by their actions, in the order drawn: None where a reply held no action, and one
action may come several times. Every rule gives the index of the candidate that it takes, at least one being given: a
candidate with an action, or 0 where none has one. Ties go to the first given. Pass@N is what a critic that never errs
would reach. Left out: drawing candidates and asking the judge (`best_of.py`), and what a probability is worth
(`calibration.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from align_echo.critic.opinion import Opinion
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.grammar import with_article
from align_echo.registry import Registry

LogprobOf = Literal["reply", "token"]
SURE = 1e-12
"""How near to 0 or 1 a probability counts."""


@dataclass(frozen=True)
class CandidateSet:
    """The candidates of one state, as a rule sees them: their `actions` in the order drawn (None: the reply held none),
    what was `judged` of each distinct action, and each reply's log-probabilities by token, where they are known.

    `dice` is seeded by the state, `abstain_below` a probability in [0, 1] (`by_critic`).
    """

    actions: Sequence[str | None]
    dice: Dice
    judged: Mapping[str, Opinion] = field(default_factory=dict)
    logprobs: Sequence[Sequence[float] | None] = ()
    abstain_below: float = 0.0


@dataclass(frozen=True)
class SelectionRule:
    """A rule by its name. `take` gives the index of a candidate. What it does not need is not asked for: a verdict on
    each distinct action, the log-probabilities of replies. One that `draws` goes by dice alone."""

    name: str
    take: Callable[[CandidateSet], int]
    needs_judge: bool = False
    needs_logprobs: bool = False
    draws: bool = False


def _read(name: str, rule: object) -> SelectionRule:
    if not isinstance(rule, SelectionRule):
        kind = with_article(type(rule).__name__)
        raise UsageError(f"{name} is {kind}, not an align_echo.critic.selection.SelectionRule")
    return rule


RULES: Registry[SelectionRule] = Registry("rule of selection", "align_echo.selection_rules", _read)


def by_critic(actions: Sequence[str | None], judged: Mapping[str, Opinion], abstain_below: float = 0.0) -> int:
    """Of the candidates judged correct the one of highest p(correct); the first with an action if none is.

    GAIA (paper 3) equation 4. With `abstain_below` above 0, the first with an action is taken as well if the highest
    p(correct) is below it. Probabilities count only if all that are judged correct have one: without, these are tied,
    and the judge's word stands. An action that `judged` does not hold has no verdict. Raises `UsageError` for no
    candidate, or a threshold outside [0, 1].
    """
    if not 0 <= abstain_below <= 1:
        raise UsageError(f"abstain_below is a probability in [0, 1], not {abstain_below}")
    usable = _usable(actions)
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
    """The first candidate with an action: an agent that draws once. Raises `UsageError` for no candidate."""
    return _usable(actions)[0]


def at_random(actions: Sequence[str | None], dice: Dice) -> int:
    """Any candidate with an action, all alike likely: an action that was drawn twice is twice as likely.

    Raises `UsageError` for no candidate.
    """
    return dice.pick(_usable(actions))


def by_placebo(actions: Sequence[str | None], dice: Dice) -> int:
    """The first candidate of any action, all actions alike likely however often they were drawn: a judge of distinct
    actions who knows nothing, and so the control of one that is said to know something.

    Raises `UsageError` for no candidate.
    """
    usable = _usable(actions)
    distinct = list(dict.fromkeys(actions[index] for index in usable))
    return actions.index(dice.pick(distinct))


def by_majority(actions: Sequence[str | None]) -> int:
    """The first candidate of the action that was drawn most often (Wang et al., ICLR 2023: self-consistency).

    Raises `UsageError` for no candidate.
    """
    votes = Counter(actions)
    return max(_usable(actions), key=lambda index: votes[actions[index]])


def by_logprob(
    actions: Sequence[str | None], logprobs: Sequence[Sequence[float] | None], of: LogprobOf = "reply"
) -> int:
    """The candidate that the agent itself holds most likely. `logprobs[i]` [T_i] are those of reply i's tokens.

    "reply" compares their sums, which favour short replies, "token" their means. Raises `UsageError` for no candidate,
    other than one entry for each, or a candidate with an action whose log-probabilities are missing or above 0.
    """
    likelihood = _likelihood(actions, logprobs, of)
    return max(likelihood, key=likelihood.__getitem__)


def by_tilted(
    actions: Sequence[str | None], judged: Mapping[str, Opinion], logprobs: Sequence[Sequence[float] | None]
) -> int:
    """The candidate of highest log-probability plus the critic's log-odds, log p(correct) - log p(wrong).

    That is the likeliest under the agent's own distribution when it is tilted by the critic's odds, as a reward tilts
    the reference policy that learning must stay near (Rafailov et al., NeurIPS 2023, equation 4, with beta 1): each
    knows what the other may not. An action without a probability has even odds, whatever the verdict. Raises
    `UsageError` as `by_logprob` does.
    """
    tilted = {
        index: likelihood + _log_odds(judged.get(actions[index] or ""))
        for index, likelihood in _likelihood(actions, logprobs, "reply").items()
    }
    return max(tilted, key=tilted.__getitem__)


def _log_odds(opinion: Opinion | None) -> float:
    if opinion is None or opinion.p_correct is None:
        return 0.0
    p = min(max(opinion.p_correct, SURE), 1 - SURE)
    return math.log(p / (1 - p))


def _likelihood(
    actions: Sequence[str | None], logprobs: Sequence[Sequence[float] | None], of: LogprobOf
) -> dict[int, float]:
    if len(logprobs) != len(actions):
        raise UsageError(f"{len(actions)} candidates and log-probabilities of {len(logprobs)}: give one entry to each")
    likelihood: dict[int, float] = {}
    for index in _usable(actions):
        tokens = logprobs[index] or ()
        if actions[index] is not None and not (tokens and all(token <= 0 for token in tokens)):
            raise UsageError(f"candidate {index} lacks log-probabilities of at most 0: use a model that gives them")
        likelihood[index] = math.fsum(tokens) / (max(len(tokens), 1) if of == "token" else 1)
    return likelihood


def pass_at_k(drawn: int, correct: int, k: int) -> float:
    """Pass@k in [0, 1] without bias: 1 - C(drawn - correct, k) / C(drawn, k), from `correct` of `drawn` candidates.

    The share of subsets of k candidates that hold a correct one (Chen et al. 2021, "Evaluating Large Language Models
    Trained on Code", equation 1). It is counted in integers and divided once, so no count is too large. Raises
    `UsageError` unless 0 <= correct <= drawn and 1 <= k <= given.
    """
    if not (0 <= correct <= drawn and 1 <= k <= drawn):
        raise UsageError(f"pass@k needs 0 <= correct <= drawn and 1 <= k <= drawn, not {correct} of {drawn} at k = {k}")
    subsets = math.comb(drawn, k)
    return (subsets - math.comb(drawn - correct, k)) / subsets


def _usable(actions: Sequence[str | None]) -> list[int]:
    """The candidates to take from: those with an action, the first where none has one. Raises `UsageError`."""
    if not actions:
        raise UsageError("there is no candidate to take")
    return [index for index, action in enumerate(actions) if action is not None] or [0]


CRITIC = SelectionRule(
    "critic", lambda given: by_critic(given.actions, given.judged, given.abstain_below), needs_judge=True
)
TILTED = SelectionRule(
    "tilted",
    lambda given: by_tilted(given.actions, given.judged, given.logprobs),
    needs_judge=True,
    needs_logprobs=True,
)
FIRST = SelectionRule("first", lambda given: first(given.actions))
RANDOM = SelectionRule("random", lambda given: at_random(given.actions, given.dice), draws=True)
PLACEBO = SelectionRule("placebo", lambda given: by_placebo(given.actions, given.dice), draws=True)
MAJORITY = SelectionRule("majority", lambda given: by_majority(given.actions))
LOGPROB = SelectionRule("logprob", lambda given: by_logprob(given.actions, given.logprobs), needs_logprobs=True)
