"""Evaluate a critic: its verdicts on labelled actions, and the success of best-of-N selection in the same states.

Every selection rule chooses among the first n of the same candidates, so that rules and numbers of candidates are
compared state by state. A step succeeds if the chosen action is correct. GAIA (paper 3, figure 4) compares that with
pass@N, the limit of a perfect critic. Not here: playing under a critic, where states diverge (`align-echo evaluate
--best-of`).
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
from align_echo.critic.opinion import CriticOpinion
from align_echo.critic.selection import RULES, CandidateSet, SelectionRule
from align_echo.critic.verdict import Verdict
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.gaia.labelling import LabelledEpisode, proposed_actions, turn_candidates
from align_echo.intervals import Floats, Percent, Points, bootstrap
from align_echo.types import Candidate, Frozen, Trajectory

Flags = npt.NDArray[np.bool_]

CEILING: Final = "pass"
"""Name of pass@N in the place of a rule."""


@dataclass(frozen=True)
class JudgedState:
    """A state with candidates. `labels` are those of the labelled actions, `opinions` the critic's."""

    task: str
    candidates: tuple[Candidate, ...]
    labels: Mapping[str, Verdict]
    opinions: Mapping[str, CriticOpinion]


class SelectionResult(Frozen):
    """Percent of states in which a correct action is chosen from the first `n` candidates, over tasks.

    `rule` names one of `selection.RULES`, or "pass" for pass@n. `gain` is over the first candidate alone, in points.
    """

    rule: str
    candidates: PositiveInt
    success: Percent
    gain: Points


class TrialResult(Frozen):
    """A critic's report on the candidates of `states` with complete labels, and the success of selection by rule and
    number of candidates, up to the most available in all states.
    """

    label_rule: Rule
    critic: CriticReport
    states: NonNegativeInt
    curve: tuple[SelectionResult, ...]


def collect_states(
    played: Sequence[Trajectory],
    labelled: Sequence[LabelledEpisode],
    opinions: Sequence[Mapping[str, CriticOpinion]],
    rule: Rule,
) -> list[JudgedState]:
    """Collect the states in which all actions have a label. `opinions` are by turn, over all episodes in order.

    A state without any action counts as well: no rule can choose a correct one there.
    """
    by_turn = iter(opinions)
    states = []
    for trajectory, labels in zip(played, labelled, strict=True):
        for step, actions in zip(trajectory.steps, labels.turns, strict=True):
            turn_opinions = next(by_turn)
            known_labels = {action.action: label for action in actions if (label := action.label(rule)) is not None}
            no_action = bool(turn_candidates(step)) and not proposed_actions(step)
            if no_action or (known_labels and len(known_labels) == len(actions)):
                states.append(JudgedState(trajectory.task_id, turn_candidates(step), known_labels, turn_opinions))
    return states


def measure_trial(states: Sequence[JudgedState], rule: Rule, *, temperature: float = 1.0, seed: int = 0) -> TrialResult:
    """Compute the report and the curve. Raises `UsageError` without any state."""
    if not any(state.labels for state in states):
        raise UsageError(f"no state has candidates that are all labelled by the rule {rule!r}")
    rows = [
        LabelledVerdict(state.task, action_type(action), label, opinion.verdict, opinion.logit)
        for state in states
        for action, label in state.labels.items()
        if (opinion := state.opinions.get(action)) is not None
    ]
    return TrialResult(
        label_rule=rule,
        critic=report(rows, temperature, seed=seed),
        states=len(states),
        curve=tuple(curve(states, temperature=temperature, seed=seed)),
    )


def curve(states: Sequence[JudgedState], *, temperature: float = 1.0, seed: int = 0) -> list[SelectionResult]:
    """Compute every rule's success at every number of candidates available in all states."""
    largest = min(len(state.candidates) for state in states)
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
    single = correct_choices(states, "first", 1)
    return [
        _success(rule, n, states, correct_choices(states, rule, n, temperature=temperature, seed=seed), single, seed)
        for n in range(1, largest + 1)
        for rule in (*rules, CEILING)
    ]


def correct_choices(
    states: Sequence[JudgedState], rule: str, n: int, *, temperature: float = 1.0, seed: int = 0
) -> Flags:
    """Return for each state [S] whether a rule's choice from the first n is correct; for `CEILING`, whether any is."""
    if rule == CEILING:
        return np.asarray([any(_is_right(state, action) for action in _actions(state, n)) for state in states])
    selection_rule = RULES.get(rule)
    return np.asarray([_is_right(state, _taken(selection_rule, state, n, temperature, seed)) for state in states])


def pick_candidate(
    rule: SelectionRule,
    actions: Sequence[str | None],
    opinions: Mapping[str, CriticOpinion],
    *,
    temperature: float,
    dice: Dice,
    logprobs: Sequence[Sequence[float] | None] = (),
) -> int:
    """Choose a candidate by a rule, with `opinions` and `logprobs` if the rule needs them.

    Raises `UsageError` as the rules in `selection.py`.
    """
    judged = {action: opinion.at(temperature) for action, opinion in opinions.items()} if rule.needs_judge else {}
    return rule.take(CandidateSet(actions, dice, judged, logprobs))


def _taken(rule: SelectionRule, state: JudgedState, n: int, temperature: float, seed: int) -> str | None:
    actions = _actions(state, n)
    dice = Dice(f"{seed} {state.task} {actions}")
    logprobs = [None if candidate.logprob is None else [candidate.logprob] for candidate in state.candidates[:n]]
    return actions[pick_candidate(rule, actions, state.opinions, temperature=temperature, dice=dice, logprobs=logprobs)]


def _actions(state: JudgedState, n: int) -> list[str | None]:
    return [candidate.action for candidate in state.candidates[:n]]


def _is_right(state: JudgedState, action: str | None) -> bool:
    return action is not None and state.labels.get(action) == "correct"


def _success(
    rule: str, n: int, states: Sequence[JudgedState], right_S: Flags, single_S: Flags, seed: int
) -> SelectionResult:
    index_by_task = {task: index for index, task in enumerate(dict.fromkeys(state.task for state in states))}
    task_S = np.asarray([index_by_task[state.task] for state in states])

    def by_task(values_S: Flags) -> Floats:
        return np.bincount(task_S, weights=values_S.astype(np.float64), minlength=len(index_by_task)).astype(np.float64)

    all_S = np.ones(len(states), dtype=np.bool_)
    sums = {"right": by_task(right_S), "single": by_task(single_S), "states": by_task(all_S)}
    success = bootstrap(sums, lambda of: 100 * of["right"] / of["states"], seed=seed, bounds=(0, 100))
    gain = bootstrap(
        sums, lambda of: 100 * (of["right"] - of["single"]) / of["states"], seed=seed, bounds=(-100, 100)
    )
    return SelectionResult(rule=rule, candidates=n, success=success, gain=gain)
