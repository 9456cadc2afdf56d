"""A critic on trial: its verdicts on labelled actions, and what best-of-N under it would have sent in the same states.

Every rule of selection chooses among the first n of the same candidates, so that rules and numbers of candidates are
compared state by state. A step succeeds if the action taken is right; GAIA (paper 3, figure 4) sets that against
pass@N, what a critic that never errs would reach. Left out: playing on under a critic, where states are no longer the
same (`align-echo evaluate --best-of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeInt, PositiveInt

from align_echo.critic.calibration import CriticReport, LabelledVerdict, action_type, report
from align_echo.critic.labels import Rule
from align_echo.critic.opinion import Opinion
from align_echo.critic.selection import RULES, CandidateSet, SelectionRule
from align_echo.critic.verdict import Verdict
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.gaia.labelling import LabelledEpisode, candidates_of, proposed
from align_echo.intervals import Floats, Percent, Points, bootstrap
from align_echo.types import Candidate, Frozen, Trajectory

Flags = npt.NDArray[np.bool_]

CEILING: Final = "pass"
"""In the place of a rule: pass@N."""


@dataclass(frozen=True)
class JudgedState:
    """A moment with candidates. `labels` are those of the actions that have one, `opinions` the critic's."""

    task: str
    candidates: tuple[Candidate, ...]
    labels: Mapping[str, Verdict]
    opinions: Mapping[str, Opinion]


class Success(Frozen):
    """Of the states, in how many a right action is taken of the first `n` candidates: percent, over tasks.

    `rule` names one of `selection.RULES`, or "pass" for pass@n. `gain` is over the first candidate alone, in points.
    """

    rule: str
    candidates: PositiveInt
    success: Percent
    gain: Points


class Trial(Frozen):
    """A critic on the candidates of `states`, each of which has a label for every action, and what it is worth in
    selection: by rule and number of candidates, up to the most that all states have.
    """

    label_rule: Rule
    critic: CriticReport
    states: NonNegativeInt
    curve: tuple[Success, ...]


def states_of(
    played: Sequence[Trajectory],
    labelled: Sequence[LabelledEpisode],
    opinions: Sequence[Mapping[str, Opinion]],
    rule: Rule,
) -> list[JudgedState]:
    """The states of episodes in which all actions have a label; `opinions` are by turn, over all episodes in order.

    A state in which no reply held an action is one as well: no rule can take a right one there.
    """
    by_turn = iter(opinions)
    states = []
    for trajectory, labels in zip(played, labelled, strict=True):
        for step, actions in zip(trajectory.steps, labels.turns, strict=True):
            of_turn = next(by_turn)
            known = {action.action: label for action in actions if (label := action.label(rule)) is not None}
            none = bool(candidates_of(step)) and not proposed(step)
            if none or (known and len(known) == len(actions)):
                states.append(JudgedState(trajectory.task_id, candidates_of(step), known, of_turn))
    return states


def measured(states: Sequence[JudgedState], rule: Rule, *, temperature: float = 1.0, seed: int = 0) -> Trial:
    """The report and the curve. Raises `UsageError` where there is no state to look at."""
    if not any(state.labels for state in states):
        raise UsageError(f"no state has candidates that are all labelled by the rule {rule!r}")
    rows = [
        LabelledVerdict(state.task, action_type(action), label, opinion.verdict, opinion.logit)
        for state in states
        for action, label in state.labels.items()
        if (opinion := state.opinions.get(action)) is not None
    ]
    return Trial(
        label_rule=rule,
        critic=report(rows, temperature, seed=seed),
        states=len(states),
        curve=tuple(curve(states, temperature=temperature, seed=seed)),
    )


def curve(states: Sequence[JudgedState], *, temperature: float = 1.0, seed: int = 0) -> list[Success]:
    """Every rule at every number of candidates that all states have, one after the other."""
    most = min(len(state.candidates) for state in states)
    rules = ["critic", "placebo", "random", "majority"]
    if all(
        candidate.logprob is not None
        for state in states
        for candidate in state.candidates
        if candidate.action is not None
    ):
        rules.append("logprob")
        if all(opinion.logit is not None for state in states for opinion in state.opinions.values()):
            rules.append("tilted")
    single = right_of(states, "first", 1)
    return [
        _success(rule, n, states, right_of(states, rule, n, temperature=temperature, seed=seed), single, seed)
        for n in range(1, most + 1)
        for rule in (*rules, CEILING)
    ]


def right_of(
    states: Sequence[JudgedState], rule: str, n: int, *, temperature: float = 1.0, seed: int = 0
) -> Flags:
    """Whether in each state [S] the action is right that a rule takes of the first n; for `CEILING`, whether any is."""
    if rule == CEILING:
        return np.asarray([any(_is_right(state, action) for action in _actions(state, n)) for state in states])
    by = RULES.get(rule)
    return np.asarray([_is_right(state, _taken(by, state, n, temperature, seed)) for state in states])


def picked(
    rule: SelectionRule,
    actions: Sequence[str | None],
    opinions: Mapping[str, Opinion],
    *,
    temperature: float,
    dice: Dice,
    logprobs: Sequence[Sequence[float] | None] = (),
) -> int:
    """Which candidate a rule takes. A rule that needs a judge goes by `opinions`, one that needs log-probabilities by
    `logprobs`. Raises `UsageError` as the rules in `selection.py`.
    """
    judged = {action: opinion.at(temperature) for action, opinion in opinions.items()} if rule.needs_judge else {}
    return rule.take(CandidateSet(actions, dice, judged, logprobs))


def _taken(rule: SelectionRule, state: JudgedState, n: int, temperature: float, seed: int) -> str | None:
    actions = _actions(state, n)
    dice = Dice(f"{seed} {state.task} {actions}")
    logprobs = [None if candidate.logprob is None else [candidate.logprob] for candidate in state.candidates[:n]]
    return actions[picked(rule, actions, state.opinions, temperature=temperature, dice=dice, logprobs=logprobs)]


def _actions(state: JudgedState, n: int) -> list[str | None]:
    return [candidate.action for candidate in state.candidates[:n]]


def _is_right(state: JudgedState, action: str | None) -> bool:
    return action is not None and state.labels.get(action) == "correct"


def _success(rule: str, n: int, states: Sequence[JudgedState], right_S: Flags, single_S: Flags, seed: int) -> Success:
    places = {task: index for index, task in enumerate(dict.fromkeys(state.task for state in states))}
    task_S = np.asarray([places[state.task] for state in states])

    def by_task(values_S: Flags) -> Floats:
        return np.bincount(task_S, weights=values_S.astype(np.float64), minlength=len(places)).astype(np.float64)

    every_S = np.ones(len(states), dtype=np.bool_)
    sums = {"right": by_task(right_S), "single": by_task(single_S), "states": by_task(every_S)}
    success = bootstrap(sums, lambda of: 100 * of["right"] / of["states"], seed=seed, bounds=(0, 100))
    gain = bootstrap(
        sums, lambda of: 100 * (of["right"] - of["single"]) / of["states"], seed=seed, bounds=(-100, 100)
    )
    return Success(rule=rule, candidates=n, success=success, gain=gain)
