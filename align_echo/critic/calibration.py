"""How good and how honest a critic's probabilities are: temperature, calibration error, and a report of its verdicts.

A logit is z = log P(correct) - log P(wrong) of one judged action, a label is 1 for a correct action and 0 for a wrong
one; both come as arrays [M]. Logits are held within `MOST_LOGIT` on either side, so that one certain error costs much
but not infinitely much. Left out: asking the critic (`scoring.py`), what is right (`labels.py`), and
choosing by probabilities (`selection.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import Field, NonNegativeInt, PositiveInt

from align_echo.critic.verdict import Verdict
from align_echo.errors import UsageError
from align_echo.intervals import Area, Estimate, Floats, Percent, bootstrap_times, clustered_rate
from align_echo.types import Frozen

MOST_LOGIT = 50.0
LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 100.0
"""Within these a temperature is fitted. Labels that the logits separate would ask for 0, reversed ones for infinity."""

BISECTIONS = 60
RESAMPLES = 1000
"""Of the interval of the area under the ROC curve, each of which sorts all actions."""

BINS = 15
"""Of equal width, in which probabilities are held against what is true."""

OTHER = "other"
_TYPE = re.compile(r"([a-z][a-z0-9_]{0,15})(?: (to|up|down|at|in|on|around))?(?![^ \[(])")

_MARKED = re.compile(r"<([a-z][a-z0-9_]{0,15})>.*</\1>|([a-z][a-z0-9_]{0,15}):(?= |$)|\\([a-z]{1,16})\{")


# ---------------------------------------------------------------- probabilities


def fit_temperature(logits_M: npt.ArrayLike, labels_M: npt.ArrayLike) -> float:
    """The temperature T at which sigmoid(z / T) has the least negative log-likelihood (Guo et al., ICML 2017).

    It is convex in 1 / T: the zero of its slope is found by bisection between `LEAST_TEMPERATURE`, where it ends if the
    signs of the logits give the labels, and `MOST_TEMPERATURE`, where it ends if they tell nothing of them. 1 where
    all logits are 0, so that no temperature changes anything. Never worse than T = 1. Raises `UsageError` as
    `negative_log_likelihood` does.
    """
    signed_M = _signed(*_checked(logits_M, labels_M))

    def rises(inverse: float) -> bool:
        """Whether the negative log-likelihood rises with 1 / T from here: its slope is mean(-s sigmoid(-s / T))."""
        return float(np.mean(-signed_M * np.exp(-np.logaddexp(0, signed_M * inverse)))) > 0

    if not signed_M.any():
        return 1.0
    low, high = 1 / MOST_TEMPERATURE, 1 / LEAST_TEMPERATURE
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if rises(middle) else (middle, high)
    return 1 / math.sqrt(low * high)


def calibrated(logits_M: npt.ArrayLike, temperature: float) -> Floats:
    """P(correct) [M] = sigmoid(z / T). Raises `UsageError` for a NaN, or a temperature that is not above 0."""
    return np.exp(-np.logaddexp(0, -_held(logits_M) / _positive(temperature)))


def at_share(logits_M: npt.ArrayLike, share: float) -> Floats:
    """The logits [M] where a `share` of the actions is correct, of a critic that learned from as many of either class.

    By Bayes' rule the log-odds of the share are added (Elkan, IJCAI 2001). The order of actions stays; which side of 0
    they are on does not. Raises `UsageError` for a NaN, or a share that is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise UsageError(f"the share of correct actions lies between 0 and 1, not {share}")
    return _held(logits_M) + math.log(share / (1 - share))


def negative_log_likelihood(logits_M: npt.ArrayLike, labels_M: npt.ArrayLike, temperature: float = 1.0) -> float:
    """Mean over the M actions of -log P(label), in nats, with P(correct) = sigmoid(z / T).

    Raises `UsageError` for no action, arrays that do not match, a NaN, a label other than 0 and 1, or a temperature
    that is not above 0.
    """
    signed_M = _signed(*_checked(logits_M, labels_M))
    return float(np.mean(np.logaddexp(0, -signed_M / _positive(temperature))))


def expected_calibration_error(p_M: npt.ArrayLike, labels_M: npt.ArrayLike, bins: int = BINS) -> float:
    """By how much P(correct) misses the share of correct actions, in [0, 1], over bins of equal width.

    The mean over actions of |mean label - mean p| of their bin; a bin holds its upper edge, the first one 0 too
    (Naeini et al., AAAI 2015). Raises `UsageError` for no action, fewer than one bin, arrays that do not match, a
    probability outside [0, 1], or a label other than 0 and 1.
    """
    p_M, labels_M, bin_M = _binned(p_M, labels_M, bins)
    return float(np.abs(np.bincount(bin_M, weights=labels_M - p_M)).sum() / len(p_M))


class Bin(Frozen):
    """Some of the actions, by P(correct): how many, how many of them are correct, and the mean P(correct) of them."""

    actions: PositiveInt
    correct: NonNegativeInt
    p_correct: float = Field(ge=0, le=1)


def reliability(p_M: npt.ArrayLike, labels_M: npt.ArrayLike, bins: int = BINS) -> tuple[Bin, ...]:
    """The bins of `expected_calibration_error` that hold any action, by rising P(correct). Raises as that does."""
    p_M, labels_M, bin_M = _binned(p_M, labels_M, bins)
    return tuple(
        Bin(
            actions=int(inside.sum()),
            correct=int(labels_M[inside].sum()),
            p_correct=float(p_M[inside].mean()),
        )
        for inside in (bin_M == number for number in np.unique(bin_M))
    )


def _binned(
    p_M: npt.ArrayLike, labels_M: npt.ArrayLike, bins: int
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Probabilities and labels, checked, and the number of the bin of each."""
    p_M, labels_M = _checked(p_M, labels_M)
    if bins < 1 or p_M.min() < 0 or p_M.max() > 1:
        raise UsageError("a calibration error needs at least one bin, and probabilities in [0, 1]")
    return p_M, labels_M, np.maximum(np.ceil(p_M * bins).astype(np.int64) - 1, 0)


def _held(logits_M: npt.ArrayLike) -> Floats:
    held_M = np.clip(np.asarray(logits_M, dtype=np.float64), -MOST_LOGIT, MOST_LOGIT)
    if np.isnan(held_M).any():
        raise UsageError("a value is NaN: leave out actions that the critic gave no probabilities for")
    return held_M


def _checked(values_M: npt.ArrayLike, labels_M: npt.ArrayLike) -> tuple[Floats, Floats]:
    held_M, truth_M = _held(values_M), np.asarray(labels_M, dtype=np.float64)
    if held_M.ndim != 1 or held_M.shape != truth_M.shape or not len(held_M):
        raise UsageError(f"give one label to each of one or more actions, not shapes {held_M.shape}, {truth_M.shape}")
    if not np.isin(truth_M, (0.0, 1.0)).all():
        raise UsageError("a label is 1 for a correct action and 0 for a wrong one, nothing else")
    return held_M, truth_M


def _signed(held_M: Floats, labels_M: Floats) -> Floats:
    """The logit of each label [M]: above 0 where the critic is right."""
    return np.where(labels_M == 1, held_M, -held_M)


def _positive(temperature: float) -> float:
    if not 0 < temperature < math.inf:
        raise UsageError(f"a temperature must be above 0 and finite, not {temperature}")
    return temperature


# ---------------------------------------------------------------- the report


@dataclass(frozen=True)
class LabelledVerdict:
    """What a critic said of one action, and what is true.

    `task` tells tasks apart, of several environments too; `verdict` is None where it cannot be read, `logit` where the
    critic gave no probabilities.
    """

    task: str
    action_type: str
    label: Verdict
    verdict: Verdict | None
    logit: float | None = None


class Confusion(Frozen):
    """How many actions were judged how: `correct_as_wrong` are correct ones that were judged wrong."""

    correct_as_correct: NonNegativeInt
    correct_as_wrong: NonNegativeInt
    wrong_as_correct: NonNegativeInt
    wrong_as_wrong: NonNegativeInt
    no_verdict: NonNegativeInt


class Calibration(Frozen):
    """The expected calibration error in [0, 1] and the negative log-likelihood in nats.

    `bins` are those of the error; summaries of older versions have none.
    """

    ece: float = Field(ge=0, le=1)
    nll: float
    bins: tuple[Bin, ...] = ()


class CriticReport(Frozen):
    """A critic on `n` labelled actions.

    `unreadable` of them have no verdict, which counts as an error. `accuracy` is in percent, as is `constant_accuracy`:
    that of the better of the two constant answers. What follows is over the `with_logit` actions that have one: the
    area under the ROC curve in [0, 1] (None where one class is missing), and the calibration `before` (T = 1) and
    `after` division by `temperature` (None where there is no logit). Intervals take tasks as clusters. `confusion` is
    by type of action.
    """

    n: NonNegativeInt
    unreadable: NonNegativeInt
    accuracy: Percent
    constant_accuracy: float = Field(ge=0, le=100)
    with_logit: NonNegativeInt
    auroc: Area | None
    temperature: float
    before: Calibration | None
    after: Calibration | None
    confusion: dict[str, Confusion]


def report(rows: Sequence[LabelledVerdict], temperature: float, *, seed: int = 0) -> CriticReport:
    """The figures of a critic; `temperature` is that of `fit_temperature`, fitted on tasks other than these.

    Raises `UsageError` for no row, a NaN, or a temperature that is not above 0.
    """
    _positive(temperature)
    if not rows:
        raise UsageError("there is no judged action to report on")
    by_task: dict[str, list[bool]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row.verdict == row.label)
    right = sum(row.label == "correct" for row in rows)
    accuracy = clustered_rate([sum(group) for group in by_task.values()], [len(group) for group in by_task.values()])
    rated = [(row.task, row.logit, float(row.label == "correct")) for row in rows if row.logit is not None]
    logits_M, labels_M = [logit for _, logit, _ in rated], [label for _, _, label in rated]
    return CriticReport(
        n=len(rows),
        unreadable=sum(row.verdict is None for row in rows),
        accuracy=accuracy,
        constant_accuracy=100 * max(right, len(rows) - right) / len(rows),
        with_logit=len(rated),
        auroc=area_under_roc(logits_M, labels_M, [task for task, _, _ in rated], seed=seed) if rated else None,
        temperature=temperature,
        before=calibration(logits_M, labels_M) if rated else None,
        after=calibration(logits_M, labels_M, temperature) if rated else None,
        confusion=confusion(rows),
    )


def calibration(logits_M: npt.ArrayLike, labels_M: npt.ArrayLike, temperature: float = 1.0) -> Calibration:
    """How honest sigmoid(z / T) is. Raises `UsageError` as `negative_log_likelihood` does."""
    p_M = calibrated(logits_M, temperature)
    return Calibration(
        ece=expected_calibration_error(p_M, labels_M),
        nll=negative_log_likelihood(logits_M, labels_M, temperature),
        bins=reliability(p_M, labels_M),
    )


def area_under_roc(
    logits_M: npt.ArrayLike,
    labels_M: npt.ArrayLike,
    tasks: Sequence[str],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate | None:
    """The share of (correct, wrong) pairs of actions that the logits order rightly, ties half, in [0, 1].

    With a percentile interval from resampling whole tasks; resamples of one class alone are left out. `tasks` names
    each action's task [M]. None where all labels are the same. Raises `UsageError` as `negative_log_likelihood` does.
    """
    held_M, truth_M = _checked(logits_M, labels_M)
    if len(tasks) != len(truth_M):
        raise UsageError(f"{len(truth_M)} actions and {len(tasks)} tasks: name the task of each action")
    if len(np.unique(truth_M)) < 2:
        return None
    places = {task: index for index, task in enumerate(dict.fromkeys(tasks))}
    highest_first_M = np.argsort(-held_M)
    held_M, truth_M = held_M[highest_first_M], truth_M[highest_first_M]
    task_M = np.asarray([places[task] for task in tasks])[highest_first_M]

    def area(times: npt.NDArray[np.int64]) -> float:
        times_M = times[task_M]
        kept_M = times_M > 0
        return _area(held_M[kept_M], truth_M[kept_M], times_M[kept_M])

    return bootstrap_times(area, len(places), seed=seed, resamples=resamples)


def _area(held_M: Floats, truth_M: Floats, times_M: npt.NDArray[np.int64]) -> float:
    """The area of actions that come highest first, each counted so many times; NaN where all labels are the same.

    It is that of scikit-learn's `roc_auc_score` to the last bit, which checks its arguments for most of its time.
    """
    last_of_ties = np.append(np.flatnonzero(np.diff(held_M)), len(held_M) - 1)
    right, wrong = (np.cumsum(part_M * times_M)[last_of_ties] for part_M in (truth_M, 1 - truth_M))
    if not right[-1] or not wrong[-1]:
        return math.nan
    if len(right) > 2:  # points on a line between two others make no difference but for rounding
        corners = np.concatenate(([True], (np.diff(right, 2) != 0) | (np.diff(wrong, 2) != 0), [True]))
        right, wrong = right[corners], wrong[corners]
    height, width = (np.concatenate(([0.0], part)) / part[-1] for part in (right, wrong))
    return float((np.diff(width) * (height[1:] + height[:-1]) / 2.0).sum())


def confusion(rows: Sequence[LabelledVerdict]) -> dict[str, Confusion]:
    """Labels against verdicts by type of action, types in alphabetical order."""
    by_type: dict[str, Confusion] = {}
    for kind in sorted({row.action_type for row in rows}):
        pairs = [(row.label, row.verdict) for row in rows if row.action_type == kind]
        by_type[kind] = Confusion(
            correct_as_correct=pairs.count(("correct", "correct")),
            correct_as_wrong=pairs.count(("correct", "wrong")),
            wrong_as_correct=pairs.count(("wrong", "correct")),
            wrong_as_wrong=pairs.count(("wrong", "wrong")),
            no_verdict=sum(verdict is None for _, verdict in pairs),
        )
    return by_type


def action_type(env_action: str) -> str:
    """The words that a form of action begins with: "go to desk 1" is of type "go to", "click[Buy Now]" of "click",
    "long_press(3, 4)" of "long_press".

    The first word with the preposition behind it, if any, in small letters; `OTHER` for what begins with no word. A
    pair of tags, a label or a command that marks the whole action is its type: "<search>red</search>" is of type
    "search", "Answer: 7" of "answer". It knows no environment: what one would refuse has a type too.
    """
    text = " ".join(env_action.lower().split())
    marked = _MARKED.match(text)
    if marked:
        return str(marked[marked.lastindex or 0])
    match = _TYPE.match(text)
    return " ".join(filter(None, match.groups())) if match else OTHER
