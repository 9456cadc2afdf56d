"""Temperature, calibration error and the report of a critic: cases by hand, extremes, and what always holds."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from align_echo.critic.calibration import (
    LEAST_TEMPERATURE,
    MOST_LOGIT,
    MOST_TEMPERATURE,
    OTHER,
    CalibrationResult,
    ConfusionCounts,
    CriticReport,
    LabelledVerdict,
    action_type,
    area_under_roc,
    correct_probabilities,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
    report,
    shift_to_share,
)
from align_echo.errors import UsageError
from align_echo.intervals import Estimate, clustered_rate
from align_echo.wrappers.catalogue import environments

logits = st.floats(-60, 60)
judged = st.lists(st.tuples(logits, st.integers(0, 1)), min_size=1, max_size=30)


def split(pairs: list[tuple[float, int]]) -> tuple[list[float], list[int]]:
    return [one for one, _ in pairs], [two for _, two in pairs]


# ---------------------------------------------------------------- temperature


def test_a_critic_that_is_right_three_times_in_four_is_cooled_to_that():
    temperature = fit_temperature([5.0, 5.0, 5.0, 5.0, -5.0, -5.0, -5.0, -5.0], [1, 1, 1, 0, 0, 0, 0, 1])
    assert temperature == pytest.approx(5 / math.log(3))
    assert correct_probabilities([5.0, -5.0], temperature) == pytest.approx([0.75, 0.25])


def test_labels_drawn_from_tempered_logits_give_that_temperature_back():
    generator = np.random.default_rng(0)
    logits_M = generator.normal(scale=4.0, size=20_000)
    labels_M = generator.random(20_000) < correct_probabilities(logits_M, 2.5)
    assert fit_temperature(logits_M, labels_M) == pytest.approx(2.5, rel=0.05)


@given(judged)
def test_the_fitted_temperature_is_never_worse_than_none_nor_than_its_neighbours(pairs):
    logits_M, labels_M = split(pairs)
    fitted = fit_temperature(logits_M, labels_M)
    least = negative_log_likelihood(logits_M, labels_M, fitted)
    assert LEAST_TEMPERATURE * (1 - 1e-12) <= fitted <= MOST_TEMPERATURE * (1 + 1e-12)
    for other in (1.0, *np.clip([0.99 * fitted, 1.01 * fitted, 0.2, 5.0], LEAST_TEMPERATURE, MOST_TEMPERATURE)):
        assert least <= negative_log_likelihood(logits_M, labels_M, other) + 1e-12


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 1)), min_size=2, max_size=30), st.floats(0.2, 8))
def test_logits_that_are_scaled_scale_the_temperature(pairs, scale):
    mixed = [(4.0, 1), (4.0, 1), (4.0, 1), (4.0, 0)] * len(pairs)  # with these most fits lie within the bounds
    logits_M, labels_M = split([*pairs, *mixed])
    fitted = fit_temperature(logits_M, labels_M)
    within = 0.1 < fitted < 10
    event("within the bounds" if within else "at a bound")
    if within:
        assert fit_temperature(scale * np.array(logits_M), labels_M) == pytest.approx(scale * fitted, rel=1e-6)


@given(judged)
def test_the_temperature_does_not_care_which_answer_is_called_correct(pairs):
    logits_M, labels_M = split(pairs)
    mirrored = fit_temperature([-logit for logit in logits_M], [1 - label for label in labels_M])
    assert mirrored == fit_temperature(logits_M, labels_M)


def test_where_no_temperature_is_best_the_bounds_are():
    assert fit_temperature([3.0, -1e-3], [1, 0]) == pytest.approx(LEAST_TEMPERATURE)
    assert fit_temperature([30.0, -40.0], [1, 0]) == pytest.approx(LEAST_TEMPERATURE)
    assert fit_temperature([2.0, -3.0], [0, 1]) == pytest.approx(MOST_TEMPERATURE)
    assert fit_temperature([0.0, 0.0], [0, 1]) == 1.0


def test_one_class_alone_is_fitted_as_well():
    assert fit_temperature([1.0, 2.0], [1, 1]) == pytest.approx(LEAST_TEMPERATURE)
    assert fit_temperature([1.0, 2.0], [0, 0]) == pytest.approx(MOST_TEMPERATURE)
    assert LEAST_TEMPERATURE < fit_temperature([4.0, 4.0, -1.0], [1, 1, 1]) < MOST_TEMPERATURE


def test_infinite_logits_are_held():
    held = fit_temperature([MOST_LOGIT, -MOST_LOGIT, 2.0], [1, 1, 1])
    assert fit_temperature([math.inf, -math.inf, 2.0], [1, 1, 1]) == held
    assert negative_log_likelihood([-math.inf], [1]) == pytest.approx(MOST_LOGIT)
    assert correct_probabilities([math.inf, -math.inf], 1.0) == pytest.approx([1.0, 0.0])


def test_probabilities_are_exact_far_from_0():
    with np.errstate(all="raise"):
        found = correct_probabilities([0.0, 1.0, -1.0, -40.0, 49.0], 1.0)
    assert found == pytest.approx([0.5, 1 / (1 + math.exp(-1)), 1 / (1 + math.e), math.exp(-40), 1.0], rel=1e-12)
    assert correct_probabilities([3.0], 2.0) == pytest.approx(correct_probabilities([1.5], 1.0))


def test_where_right_actions_are_rarer_than_in_what_was_learned_from_a_critic_has_to_be_surer():
    # sure by 4 to 1 among as many of both; one right action for four wrong ones takes that away
    assert shift_to_share([math.log(4), 0.0], 0.2) == pytest.approx([0.0, -math.log(4)])
    assert shift_to_share([math.log(4), 0.0], 0.5) == pytest.approx([math.log(4), 0.0])


def test_a_share_makes_probabilities_honest_where_classes_are_not_as_many():
    p_even = np.array([0.9, 0.6, 0.2])  # of right actions, per possible look; the rest of the looks are of wrong ones
    right, wrong = p_even / p_even.sum(), (1 - p_even) / (1 - p_even).sum()
    among_even = right / (right + wrong)
    among_rare = 0.1 * right / (0.1 * right + 0.9 * wrong)
    found = correct_probabilities(shift_to_share(np.log(among_even / (1 - among_even)), 0.1), 1.0)
    assert found == pytest.approx(among_rare)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(UsageError, match="share"):
        shift_to_share([0.0], share)


def test_the_likelihood_by_hand():
    found = negative_log_likelihood([math.log(3), math.log(3)], [1, 0])
    assert found == pytest.approx(-(math.log(0.75) + math.log(0.25)) / 2)
    assert negative_log_likelihood([2 * math.log(3)] * 2, [1, 0], 2.0) == pytest.approx(found)


@pytest.mark.parametrize(
    ("logits_M", "labels_M"),
    [([], []), ([1.0], [1, 0]), ([math.nan], [1]), ([1.0], [2]), ([1.0], [math.nan]), ([[1.0]], [[1]])],
)
def test_arrays_that_cannot_be_are_refused(logits_M, labels_M):
    for function in (fit_temperature, negative_log_likelihood, expected_calibration_error):
        with pytest.raises(UsageError):
            function(logits_M, labels_M)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_temperature_is_refused(temperature):
    with pytest.raises(UsageError, match="temperature must be above 0"):
        correct_probabilities([1.0], temperature)
    with pytest.raises(UsageError, match="temperature must be above 0"):
        negative_log_likelihood([1.0], [1], temperature)


# ---------------------------------------------------------------- calibration error


def test_the_calibration_error_by_hand():
    # (0, 0.5]: mean p 0.3, half correct; (0.5, 1]: mean p 0.8, all correct
    assert expected_calibration_error([0.2, 0.4, 0.7, 0.9], [0, 1, 1, 1], bins=2) == pytest.approx(0.2)
    assert expected_calibration_error([0.2, 0.4, 0.7, 0.9], [0, 1, 1, 1], bins=1) == pytest.approx(0.2)
    assert expected_calibration_error([0.1, 0.9], [1, 0], bins=1) == pytest.approx(0.0)
    assert expected_calibration_error([0.1, 0.9], [1, 0], bins=2) == pytest.approx(0.9)


def test_a_bin_holds_its_upper_edge_and_the_first_one_0():
    assert expected_calibration_error([0.5, 0.3], [0, 1], bins=2) == pytest.approx(0.1)
    assert expected_calibration_error([0.0, 0.4], [1, 0], bins=2) == pytest.approx(0.3)
    assert expected_calibration_error([1.0, 0.6], [1, 0], bins=2) == pytest.approx(0.3)


def test_the_bins_are_fifteen_unless_said_otherwise():
    p_M, labels_M = [0.41, 0.45, 0.9], [1, 0, 1]
    assert expected_calibration_error(p_M, labels_M) == expected_calibration_error(p_M, labels_M, bins=15)
    assert expected_calibration_error(p_M, labels_M) != expected_calibration_error(p_M, labels_M, bins=14)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=40), st.integers(1, 20))
def test_the_calibration_error_agrees_with_its_definition(pairs, bins):
    inside: list[list[tuple[float, int]]] = [[] for _ in range(bins)]
    for p, label in pairs:
        inside[max(math.ceil(p * bins) - 1, 0)].append((p, label))
    wanted = 0.0
    for held in filter(None, inside):
        mean_p, mean_label = (sum(column) / len(held) for column in zip(*held, strict=True))
        wanted += len(held) / len(pairs) * abs(mean_label - mean_p)
    p_M, labels_M = split(pairs)
    found = expected_calibration_error(p_M, labels_M, bins)
    assert 0 <= found <= 1
    assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("p", "bins"), [(1.1, 15), (-0.1, 15), (0.5, 0)])
def test_no_probabilities_and_no_bins_are_refused(p, bins):
    with pytest.raises(UsageError, match=r"probabilities in \[0, 1\]"):
        expected_calibration_error([p], [1], bins)


# ---------------------------------------------------------------- the report


def area(logits_M: npt.ArrayLike, labels_M: npt.ArrayLike, tasks: Sequence[str], resamples: int = 99) -> Estimate:
    found = area_under_roc(logits_M, labels_M, tasks, resamples=resamples)
    assert found is not None
    return found


ROWS = [
    LabelledVerdict("t1", "go to", "correct", "correct", 2.0),
    LabelledVerdict("t1", "go to", "wrong", "correct", 1.0),
    LabelledVerdict("t1", "take", "wrong", "wrong", -3.0),
    LabelledVerdict("t2", "take", "correct", None, 0.0),
    LabelledVerdict("t2", "go to", "correct", "wrong", -1.0),
    LabelledVerdict("t3", "look", "wrong", None),
]


def test_the_bins_of_a_diagram_hold_their_upper_edge_and_make_the_calibration_error():
    p_M, labels_M = [0.0, 0.1, 0.5, 0.9, 1.0], [0, 1, 1, 0, 1]
    bins = reliability(p_M, labels_M, 2)
    assert [(inside.actions, inside.correct) for inside in bins] == [(3, 2), (2, 1)]
    assert [inside.p_correct for inside in bins] == pytest.approx([0.2, 0.95])
    missed = sum(abs(inside.correct - inside.actions * inside.p_correct) for inside in bins)
    assert missed / 5 == pytest.approx(expected_calibration_error(p_M, labels_M, 2))
    assert [inside.actions for inside in reliability([0.2, 0.95], [1, 1])] == [1, 1], "empty bins are left out"


def test_the_report_by_hand():
    found = report(ROWS, temperature=2.0)
    assert (found.n, found.unreadable, found.with_logit, found.temperature) == (6, 2, 5, 2.0)
    assert found.accuracy == clustered_rate([2, 0, 0], [3, 2, 1])
    assert found.accuracy.value == pytest.approx(100 / 3)
    assert found.constant_accuracy == 50.0
    assert found.auroc is not None
    assert found.auroc.value == pytest.approx(4 / 6)  # correct 2, 0, -1 against wrong 1, -3
    assert found.auroc.n == 2  # the third task has no logit
    rated = [2.0, 1.0, -3.0, 0.0, -1.0], [1, 0, 0, 1, 1]
    for part, temperature in ((found.before, 1.0), (found.after, 2.0)):
        p_M = correct_probabilities(rated[0], temperature)
        ece, bins = expected_calibration_error(p_M, rated[1]), reliability(p_M, rated[1])
        assert part == CalibrationResult(ece=ece, nll=negative_log_likelihood(*rated, temperature), bins=bins)
    assert found.confusion == {
        "go to": ConfusionCounts(
            correct_as_correct=1, correct_as_wrong=1, wrong_as_correct=1, wrong_as_wrong=0, no_verdict=0
        ),
        "look": ConfusionCounts(
            correct_as_correct=0, correct_as_wrong=0, wrong_as_correct=0, wrong_as_wrong=0, no_verdict=1
        ),
        "take": ConfusionCounts(
            correct_as_correct=0, correct_as_wrong=0, wrong_as_correct=0, wrong_as_wrong=1, no_verdict=1
        ),
    }
    assert CriticReport.model_validate_json(found.model_dump_json()) == found


def test_what_cannot_be_measured_is_none():
    found = report([LabelledVerdict("t1", "look", "correct", "correct", 1.0)], 1.0)
    assert (found.auroc, found.constant_accuracy) == (None, 100.0)
    assert found.before == found.after is not None
    found = report([LabelledVerdict("t1", "look", "correct", "correct")], 1.0)
    assert (found.auroc, found.before, found.after, found.with_logit) == (None, None, None, 0)


def test_a_report_on_nothing_is_refused():
    with pytest.raises(UsageError, match="no judged action"):
        report([], 1.0)
    with pytest.raises(UsageError, match="temperature must be above 0"):
        report(ROWS, 0.0)
    with pytest.raises(UsageError, match="name the task"):
        area_under_roc([1.0, 2.0], [1, 0], ["t1"])


@given(
    st.lists(
        st.builds(
            LabelledVerdict,
            st.sampled_from(["t1", "t2"]),
            st.sampled_from(["go to", "take"]),
            st.sampled_from(["correct", "wrong"]),
            st.sampled_from(["correct", "wrong", None]),
        ),
        min_size=1,
    )
)
def test_every_judged_action_stands_once_in_the_confusion(rows):
    found = report(rows, 1.0)
    counts = [one.model_dump() for one in found.confusion.values()]
    assert sum(sum(one.values()) for one in counts) == found.n
    assert sum(one["no_verdict"] for one in counts) == found.unreadable
    right = sum(count["correct_as_correct"] + count["wrong_as_wrong"] for count in counts)
    labels = [row.label for row in rows]
    assert found.constant_accuracy == 100 * max(labels.count("correct"), labels.count("wrong")) / found.n
    assert found.accuracy.value == pytest.approx(100 * right / found.n)


def test_the_area_is_that_of_pairs_ordered_rightly_and_infinite_logits_count():
    assert area([math.inf, 1.0, 1.0, -math.inf], [1, 1, 0, 0], list("abcd")).value == pytest.approx(3.5 / 4)
    assert area([-1.0, 1.0], [1, 0], ["a", "b"]).value == 0.0
    assert area_under_roc([1.0, 2.0], [0, 0], ["a", "b"]) is None


def test_the_interval_of_the_area_takes_tasks_as_clusters():
    generator = np.random.default_rng(1)
    labels_M = generator.random(40) < 0.5
    logits_M = generator.normal(size=40) + labels_M
    four_logits_M, four_labels_M = np.tile(logits_M, 4), np.tile(labels_M, 4)
    tasks = [str(index) for index in range(160)]
    alone = area(logits_M, labels_M, tasks[:40], resamples=200)
    again = area(four_logits_M, four_labels_M, tasks[:40] * 4, resamples=200)
    assert again.ci95 == pytest.approx(alone.ci95)
    assert again.value == pytest.approx(alone.value)
    assert alone.low < alone.value < alone.high
    apart = area(four_logits_M, four_labels_M, tasks, resamples=200)
    assert apart.high - apart.low < 0.7 * (alone.high - alone.low)


def test_the_interval_of_the_area_is_that_of_actions_repeated_as_often_as_their_task_was_drawn():
    generator = np.random.default_rng(2)
    task_M, labels_M = np.repeat(np.arange(8), 3), np.tile([0, 1, 1, 0], 6)
    logits_M = generator.normal(size=24).round(1) + 0.8 * labels_M
    areas = []
    for times in np.random.default_rng(0).multinomial(8, np.full(8, 1 / 8), size=200):
        drawn_M = np.repeat(np.arange(24), times[task_M])
        correct = logits_M[drawn_M][labels_M[drawn_M] == 1][:, None]
        wrong = logits_M[drawn_M][labels_M[drawn_M] == 0][None, :]
        areas.append(((correct > wrong) + 0.5 * (correct == wrong)).mean())
    found = area(logits_M, labels_M, [str(task) for task in task_M], resamples=200)
    assert found.ci95 == pytest.approx(np.percentile(areas, [2.5, 97.5]))


def test_resamples_of_one_class_are_left_out_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert area([2.0, 1.0, 3.0], [1, 0, 1], ["a", "b", "c"]).ci95 is None


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.floats(-MOST_LOGIT, MOST_LOGIT) | st.integers(-3, 3), st.integers(0, 1), st.integers(0, 5)),
        min_size=2,
        max_size=40,
    )
)
def test_the_area_of_every_resample_is_that_of_scikit_learn_to_the_last_bit(rows):
    score = pytest.importorskip("sklearn.metrics").roc_auc_score
    held_M, truth_M, times_M = (np.asarray(column) for column in zip(*rows, strict=True))
    times_M[0] += not times_M.any()  # a resample counts some action
    compared: list[tuple[float, float]] = []

    def of_both(area: Callable[[npt.NDArray[np.int64]], float], tasks: int, **_: int) -> None:
        kept_M = times_M > 0
        wanted = math.nan
        if len(set(truth_M[kept_M])) == 2:
            wanted = score(truth_M[kept_M], held_M[kept_M], sample_weight=times_M[kept_M])
        compared.append((area(times_M), wanted))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("align_echo.critic.calibration.bootstrap_times", of_both)
        area_under_roc(held_M, truth_M, [str(number) for number in range(len(rows))])
    assert len(compared) == (len(set(truth_M)) == 2)
    assert all(found == wanted or (math.isnan(found) and math.isnan(wanted)) for found, wanted in compared)


def test_neither_selection_nor_calibration_loads_what_the_base_install_lacks():
    code = (
        "import sys, align_echo.critic.calibration, align_echo.critic.best_of\n"
        "print([name for name in ('torch', 'transformers', 'sklearn', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- types of actions


@pytest.mark.parametrize("spec", environments().values(), ids=lambda spec: spec.name)
def test_every_form_of_action_is_of_the_type_that_it_begins_with(spec):
    lines = [line for line in spec.action_format.splitlines()[1:] if not line.endswith(".")]
    forms = [form.strip() for line in lines for form in line.split("|")]
    forms = forms or re.findall(r"\\\w+\{\w+\}", spec.action_format)
    assert forms
    for form in forms:
        marked = re.match(r"<(\w+)>|(\w+): |\\(\w+)\{", form)
        words = re.findall(r"^\w+(?: (?:to|up|down|at|in|on|around)\b)?", form)
        kind = next(filter(None, marked.groups())).lower() if marked else words[0]
        blank = r"(?<=\w\{)\w+" if form.startswith("\\") else r"\{[^}]*\}|OBJ|LOC"
        assert action_type(re.sub(blank, "red mug 1", form)) == kind


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("  Go  to desk 1\n", "go to"),
        ("go tobacco", "go"),
        ("Search[in red]", "search"),
        ("click[< Prev]", "click"),
        ("click(12, 34)", "click"),
        ("press_back()", "press_back"),
        ("", OTHER),
        ("7", OTHER),
        ("<think> look", OTHER),
        ("<Search>red mug</search>", "search"),
        ("Action: caesar_decode, b, 1 End Action", "action"),
        ("Answer: 7", "answer"),
        ("12:30", OTHER),
        ("\\boxed{7}", "boxed"),
        ("look.", OTHER),
        ("a" * 200, OTHER),
    ],
)
def test_the_type_of_an_action(action, kind):
    assert action_type(action) == kind
