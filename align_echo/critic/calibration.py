"""Quality and calibration of a critic's probabilities: temperature, calibration error, and a report of its verdicts.

A logit is z = log P(correct) - log P(wrong) of one judged action. A label is 1 for a correct action and 0 for a wrong
one. Both are arrays [M]. Logits are clipped to `MOST_LOGIT` on either side, so that one certain error has a large but
finite cost. Not here: asking the critic (`ask.py`), labels (`labels.py`), and choosing by probabilities
(`best_of.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import Field, NonNegativeInt, PositiveInt

from align_echo.critic.ask import Label
from align_echo.errors import UsageError
from align_echo.intervals import Area, Estimate, Floats, Percent, bootstrap_times, clustered_rate
from align_echo.types import Frozen

MOST_LOGIT = 50.0
LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 100.0
"""Range of fitted temperatures. Perfectly separated labels would need 0, reversed ones infinity."""

BISECTIONS = 60
RESAMPLES = 1000
"""Bootstrap resamples for the interval of the area under the ROC curve."""

BINS = 15
"""Bins of equal width for the calibration error."""

OTHER = "other"
_TYPE = re.compile(r"([a-z][a-z0-9_]{0,15})(?: (to|up|down|at|in|on|around))?(?![^ \[(])")

_MARKED = re.compile(r"<([a-z][a-z0-9_]{0,15})>.*</\1>|([a-z][a-z0-9_]{0,15}):(?= |$)|\\([a-z]{1,16})\{")


# ---------------------------------------------------------------- probabilities


def fit_temperature(logits_M: npt.ArrayLike, labels_M: npt.ArrayLike) -> float:
    """Fit the temperature T with the least negative log-likelihood of sigmoid(z / T) (Guo et al., ICML 2017).

    The loss is convex in 1 / T, so bisection finds the zero of its slope, between `LEAST_TEMPERATURE` (the result if
    the signs of the logits equal the labels) and `MOST_TEMPERATURE` (the result if they carry no information). Returns
    1 if all logits are 0. Never worse than T = 1. Raises `UsageError` as `negative_log_likelihood` does.
    """
    signed_M = _label_logits(*_validate(logits_M, labels_M))

    def rises(inverse: float) -> bool:
        """Return whether the loss rises with 1 / T from here: its slope is mean(-s sigmoid(-s / T))."""
        return float(np.mean(-signed_M * np.exp(-np.logaddexp(0, signed_M * inverse)))) > 0

    if not signed_M.any():
        return 1.0
    low, high = 1 / MOST_TEMPERATURE, 1 / LEAST_TEMPERATURE
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if rises(middle) else (middle, high)
    return 1 / math.sqrt(low * high)


def correct_probabilities(logits_M: npt.ArrayLike, temperature: float) -> Floats:
    """Compute P(correct) [M] = sigmoid(z / T). Raises `UsageError` for a NaN, or a temperature not above 0."""
    return np.exp(-np.logaddexp(0, -_clip_logits(logits_M) / _require_positive(temperature)))


def shift_to_share(logits_M: npt.ArrayLike, share: float) -> Floats:
    """Shift logits [M] from balanced training classes to a `share` of correct actions.

    By Bayes' rule the log-odds of the share are added (Elkan, IJCAI 2001). The order of actions is unchanged; their
    signs may change. Raises `UsageError` for a NaN, or a share not between 0 and 1.
    """
    if not 0 < share < 1:
        raise UsageError(f"the share of correct actions lies between 0 and 1, not {share}")
    return _clip_logits(logits_M) + math.log(share / (1 - share))


def negative_log_likelihood(logits_M: npt.ArrayLike, labels_M: npt.ArrayLike, temperature: float = 1.0) -> float:
    """Compute the mean over the M actions of -log P(label), in nats, with P(correct) = sigmoid(z / T).

    Raises `UsageError` for no action, arrays of different shapes, a NaN, a label other than 0 and 1, or a temperature
    not above 0.
    """
    signed_M = _label_logits(*_validate(logits_M, labels_M))
    return float(np.mean(np.logaddexp(0, -signed_M / _require_positive(temperature))))


def expected_calibration_error(p_M: npt.ArrayLike, labels_M: npt.ArrayLike, bins: int = BINS) -> float:
    """Compute the mean gap between P(correct) and the share of correct actions, in [0, 1], over bins of equal width.

    The mean over actions of |mean label - mean p| of their bin; a bin includes its upper edge, the first also 0 (Naeini
    et al., AAAI 2015). Raises `UsageError` for no action, fewer than one bin, arrays of different shapes, a probability
    outside [0, 1], or a label other than 0 and 1.
    """
    p_M, labels_M, bin_M = _assign_bins(p_M, labels_M, bins)
    return float(np.abs(np.bincount(bin_M, weights=labels_M - p_M)).sum() / len(p_M))


class ReliabilityBin(Frozen):
    """Actions with similar P(correct): their number, the number of correct ones, and their mean P(correct)."""

    actions: PositiveInt
    correct: NonNegativeInt
    p_correct: float = Field(ge=0, le=1)


def reliability(p_M: npt.ArrayLike, labels_M: npt.ArrayLike, bins: int = BINS) -> tuple[ReliabilityBin, ...]:
    """Return the non-empty bins of `expected_calibration_error`, by rising P(correct). Raises as it does."""
    p_M, labels_M, bin_M = _assign_bins(p_M, labels_M, bins)
    return tuple(
        ReliabilityBin(
            actions=int(inside.sum()),
            correct=int(labels_M[inside].sum()),
            p_correct=float(p_M[inside].mean()),
        )
        for inside in (bin_M == number for number in np.unique(bin_M))
    )


def _assign_bins(
    p_M: npt.ArrayLike, labels_M: npt.ArrayLike, bins: int
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Validate probabilities and labels, and compute the bin of each."""
    p_M, labels_M = _validate(p_M, labels_M)
    if bins < 1 or p_M.min() < 0 or p_M.max() > 1:
        raise UsageError("a calibration error needs at least one bin, and probabilities in [0, 1]")
    return p_M, labels_M, np.maximum(np.ceil(p_M * bins).astype(np.int64) - 1, 0)


def _clip_logits(logits_M: npt.ArrayLike) -> Floats:
    clipped_M = np.clip(np.asarray(logits_M, dtype=np.float64), -MOST_LOGIT, MOST_LOGIT)
    if np.isnan(clipped_M).any():
        raise UsageError("a value is NaN: leave out actions that the critic gave no probabilities for")
    return clipped_M


def _validate(values_M: npt.ArrayLike, labels_M: npt.ArrayLike) -> tuple[Floats, Floats]:
    clipped_M, truth_M = _clip_logits(values_M), np.asarray(labels_M, dtype=np.float64)
    if clipped_M.ndim != 1 or clipped_M.shape != truth_M.shape or not len(clipped_M):
        shapes = f"{clipped_M.shape}, {truth_M.shape}"
        raise UsageError(f"give one label to each of one or more actions, not shapes {shapes}")
    if not np.isin(truth_M, (0.0, 1.0)).all():
        raise UsageError("a label is 1 for a correct action and 0 for a wrong one, nothing else")
    return clipped_M, truth_M


def _label_logits(clipped_M: Floats, labels_M: Floats) -> Floats:
    """Compute the logit of each label [M]: above 0 if the critic is right."""
    return np.where(labels_M == 1, clipped_M, -clipped_M)


def _require_positive(temperature: float) -> float:
    if not 0 < temperature < math.inf:
        raise UsageError(f"a temperature must be above 0 and finite, not {temperature}")
    return temperature


# ---------------------------------------------------------------- the report


@dataclass(frozen=True)
class LabelledVerdict:
    """A critic's verdict on one action, with the true label.

    `task` is unique across environments. `verdict` is None if it cannot be parsed, `logit` if the critic gave no
    probabilities.
    """

    task: str
    action_type: str
    label: Label
    verdict: Label | None
    logit: float | None = None


class ConfusionCounts(Frozen):
    """Confusion counts: `correct_as_wrong` counts correct actions judged wrong."""

    correct_as_correct: NonNegativeInt
    correct_as_wrong: NonNegativeInt
    wrong_as_correct: NonNegativeInt
    wrong_as_wrong: NonNegativeInt
    no_verdict: NonNegativeInt


class CalibrationResult(Frozen):
    """Expected calibration error in [0, 1] and negative log-likelihood in nats.

    `bins` are those of the error; summaries of older versions have none.
    """

    ece: float = Field(ge=0, le=1)
    nll: float
    bins: tuple[ReliabilityBin, ...] = ()


class CriticReport(Frozen):
    """A critic's figures on `n` labelled actions.

    `unreadable` actions have no verdict, which counts as an error. `accuracy` is in percent, as is `constant_accuracy`,
    the accuracy of the better constant answer. The remaining figures are over the `with_logit` actions: the area under
    the ROC curve in [0, 1] (None with one class only), and the calibration `before` (T = 1) and `after` division by
    `temperature` (None without logits). Intervals treat tasks as clusters. `confusion` is by action type.
    """

    n: NonNegativeInt
    unreadable: NonNegativeInt
    accuracy: Percent
    constant_accuracy: float = Field(ge=0, le=100)
    with_logit: NonNegativeInt
    auroc: Area | None
    temperature: float
    before: CalibrationResult | None
    after: CalibrationResult | None
    confusion: dict[str, ConfusionCounts]


def report(rows: Sequence[LabelledVerdict], temperature: float, *, seed: int = 0) -> CriticReport:
    """Compute a critic's figures; `temperature` comes from `fit_temperature`, fitted on other tasks.

    Raises `UsageError` for no row, a NaN, or a temperature not above 0.
    """
    _require_positive(temperature)
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


def calibration(logits_M: npt.ArrayLike, labels_M: npt.ArrayLike, temperature: float = 1.0) -> CalibrationResult:
    """Measure the calibration of sigmoid(z / T). Raises `UsageError` as `negative_log_likelihood` does."""
    p_M = correct_probabilities(logits_M, temperature)
    return CalibrationResult(
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
    """Compute the share of (correct, wrong) pairs of actions in the right order by logit, ties half, in [0, 1].

    The percentile interval resamples whole tasks and skips resamples with a single class. `tasks` names each action's
    task [M]. None if all labels are equal. Raises `UsageError` as `negative_log_likelihood` does.
    """
    clipped_M, truth_M = _validate(logits_M, labels_M)
    if len(tasks) != len(truth_M):
        raise UsageError(f"{len(truth_M)} actions and {len(tasks)} tasks: name the task of each action")
    if len(np.unique(truth_M)) < 2:
        return None
    index_by_task = {task: index for index, task in enumerate(dict.fromkeys(tasks))}
    highest_first_M = np.argsort(-clipped_M)
    clipped_M, truth_M = clipped_M[highest_first_M], truth_M[highest_first_M]
    task_M = np.asarray([index_by_task[task] for task in tasks])[highest_first_M]

    def area(times: npt.NDArray[np.int64]) -> float:
        times_M = times[task_M]
        drawn_M = times_M > 0
        return _area(clipped_M[drawn_M], truth_M[drawn_M], times_M[drawn_M])

    return bootstrap_times(area, len(index_by_task), seed=seed, resamples=resamples)


def _area(logits_M: Floats, truth_M: Floats, times_M: npt.NDArray[np.int64]) -> float:
    """Compute the area for actions sorted by falling logit, with a count for each; NaN if all labels are equal.

    Equal to scikit-learn's `roc_auc_score` to the last bit, without its slow argument checks.
    """
    last_of_ties = np.append(np.flatnonzero(np.diff(logits_M)), len(logits_M) - 1)
    right, wrong = (np.cumsum(part_M * times_M)[last_of_ties] for part_M in (truth_M, 1 - truth_M))
    if not right[-1] or not wrong[-1]:
        return math.nan
    if len(right) > 2:  # points on a line between two others make no difference but for rounding
        corners = np.concatenate(([True], (np.diff(right, 2) != 0) | (np.diff(wrong, 2) != 0), [True]))
        right, wrong = right[corners], wrong[corners]
    height, width = (np.concatenate(([0.0], part)) / part[-1] for part in (right, wrong))
    return float((np.diff(width) * (height[1:] + height[:-1]) / 2.0).sum())


def confusion(rows: Sequence[LabelledVerdict]) -> dict[str, ConfusionCounts]:
    """Count labels against verdicts by action type, types in alphabetical order."""
    by_type: dict[str, ConfusionCounts] = {}
    for kind in sorted({row.action_type for row in rows}):
        pairs = [(row.label, row.verdict) for row in rows if row.action_type == kind]
        by_type[kind] = ConfusionCounts(
            correct_as_correct=pairs.count(("correct", "correct")),
            correct_as_wrong=pairs.count(("correct", "wrong")),
            wrong_as_correct=pairs.count(("wrong", "correct")),
            wrong_as_wrong=pairs.count(("wrong", "wrong")),
            no_verdict=sum(verdict is None for _, verdict in pairs),
        )
    return by_type


def action_type(env_action: str) -> str:
    """Return the first words of an action: "go to desk 1" has type "go to", "click[Buy Now]" "click", "long_press(3,
    4)" "long_press".

    The type is the first word with the preposition after it, if any, in lower case; `OTHER` if the action begins with
    no word. For an action in a pair of tags, with a label or in a command, these give the type: "<search>red</search>"
    has type "search", "Answer: 7" "answer". It is independent of the environment: refused actions have a type too.
    """
    text = " ".join(env_action.lower().split())
    marked = _MARKED.match(text)
    if marked:
        return str(marked[marked.lastindex or 0])
    match = _TYPE.match(text)
    return " ".join(filter(None, match.groups())) if match else OTHER
