"""How it is known which actions were refused, and that no figure stands where it is not known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

import align_echo
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import VariantComparison, compare
from align_echo.evaluate.grid import build_cell, build_grid, cell_lines, refusals_lines
from align_echo.evaluate.tables import tables, undefined
from align_echo.rollout.answers import NONSENSE
from align_echo.rollout.refusals import EpisodeOutcomes, RefusalCounts, RefusalJudge, play_judge
from align_echo.rollout.session import Session
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec
from tests.shelf_env import (
    REFUSED,
    Counting,
    Listing,
    ListingForms,
    ListingSome,
    ListingSomeLids,
    OtherWords,
    Quiet,
    Shelf,
    Ticking,
)

TEST = range(200, 206)
WAY = ("loosen {}", "open {}", "take {}")
"""What wins, with the jar that is wanted."""


def spec_of(kind: type[Shelf], **declared: Any) -> EnvironmentSpec:
    name = f"tests.shelf_env:{kind.__name__}"
    return align_echo.TextEnvironment(kind, step_limit=12, **declared).spec(name)


def play(spec: EnvironmentSpec, task: str, *actions: str, split: str = "test") -> Trajectory:
    """An episode of these actions; "{}" stands for the jar that is wanted."""
    with Session(spec.make(split), agent="script", split=split) as session:
        wanted = session.reset(task).initial_observation.rpartition("the ")[2].split()[0]
        for action in actions:
            if not session.over:
                session.step(action.format(wanted))
        return session.trajectory()


def replays(kind: type[Shelf], *episodes: tuple[str, ...], **declared: Any) -> list[EpisodeOutcomes]:
    spec = spec_of(kind, **declared)
    played = [play(spec, str(task), *actions) for task, actions in zip(TEST, episodes, strict=False)]
    judge = RefusalJudge(spec, [episode.task_id for episode in played])
    return [episode for _, episode in judge.episodes({"": played})]


def judged(kind: type[Shelf], *episodes: tuple[str, ...], **declared: Any) -> RefusalCounts:
    refusals = RefusalCounts()
    for episode in replays(kind, *episodes, **declared):
        refusals.add(episode)
    return refusals


def outcomes(kind: type[Shelf], *episodes: tuple[str, ...], **declared: Any) -> tuple[str, list[str]]:
    found = replays(kind, *episodes, **declared)
    return found[0].known, [" ".join(outcome[0] for outcome in episode.outcomes) for episode in found]


STUCK = ("open {}",) * 6
TRIES = ("open {}", "take {}", "loosen {}", "take {}", "open {}", "take {}")


def test_what_is_declared_comes_first():
    declared = {"is_invalid": lambda text: text.startswith("There is no jar")}
    assert outcomes(Listing, STUCK, TRIES, **declared) == ("declared", ["r r r r r r", "r r e r e e"])


def test_an_action_that_is_not_listed_was_refused_whatever_the_words():
    assert outcomes(Listing, STUCK, TRIES) == ("listed", ["r r r r r r", "r r e r e e"])


def test_a_list_reads_actions_as_the_engine_does():
    assert outcomes(Listing, ("LOOSEN {}", "open {}"))[1] == ["e e"]


def test_a_list_that_lacks_what_had_an_effect_tells_nothing_of_what_else_it_lacks():
    assert outcomes(ListingSome, TRIES) == ("listed", ["u u e u e e"])  # the last gained, and was not listed
    assert outcomes(ListingSome, STUCK) == ("listed", ["r r r r r r"])
    assert outcomes(ListingSomeLids, ("open {}", "loosen {}", "open {}")) == ("listed", ["u e e"])


def test_a_list_that_changes_by_itself_refutes_nothing():
    assert outcomes(Ticking, TRIES) == ("listed", ["r r e r e e"])


def test_a_list_of_forms_is_no_list_of_what_is_possible():
    known, (stuck,) = outcomes(ListingForms, STUCK)
    assert (known, set(stuck.split())) == ("listed", {"u"})
    assert judged(ListingForms, STUCK).in_runs is None


@pytest.mark.parametrize("kind", [Shelf, Counting])
def test_refusals_are_inferred_where_effects_are_seen(kind):
    assert outcomes(kind, STUCK, TRIES) == ("inferred", ["r r r r r r", "r r e r e e"])


def test_refusals_in_other_words_than_nonsense_gets_are_not_called_effects():
    """Every answer is an error, and none of them is what nonsense is answered."""
    found = judged(OtherWords, STUCK, ("open {}", "take {}") * 3)
    assert found.known == "inferred"
    assert found.in_runs is found.shown_in_runs is None
    shares = found.shares
    assert shares is not None
    assert (shares.answers, shares.repeated, shares.at_least, shares.at_most) == (12, 100.0, 0.0, 100.0)
    assert shares.unchanged == pytest.approx(100 * 10 / 12)


def test_the_page_before_again_tells_nothing():
    known, (episode,) = outcomes(Quiet, ("open {}", "loosen {}", "take {}", "open {}", "take {}"))
    assert (known, episode) == ("inferred", "u u u e e")  # the third shows again what the second was answered


def test_an_end_without_a_gain_tells_nothing():
    assert outcomes(Shelf, ("open {}", "loosen {}", "open {}", "take {}"))[1] == ["r e e e"]
    wrong = ("open red", "loosen red", "open red", "take red")  # the first test task wants another jar
    assert outcomes(Shelf, wrong)[1] == ["r e e u"]


def test_words_of_one_answer_are_no_effect_where_none_was_seen():
    assert set(outcomes(OtherWords, ("open red", "take blue"))[1][0].split()) == {"u"}


def test_what_cannot_change_the_figure_does_not_hide_it():
    episodes = (STUCK, ("open blue", "loosen blue", "open blue", "take blue"))
    assert any("unknown" in episode.outcomes for episode in replays(Shelf, *episodes))
    found = judged(Shelf, *episodes)
    assert found.in_runs is not None
    assert not found.is_certain


# ---------------------------------------------------------------- where nonsense is said


@pytest.mark.parametrize(
    ("declared", "split"),
    [
        ({}, "test"),
        ({}, "train"),
        ({"splits": {"test": TEST}, "train_split": "test"}, "test"),
        ({"splits": {"train": TEST}, "test_split": "train"}, "train"),
        ({"splits": {"train": range(3), "test": TEST, "again": TEST}}, "again"),
    ],
)
def test_nonsense_is_said_in_no_task_that_is_measured_or_for_tests(declared, split):
    class Heard(Shelf):
        said: list[tuple[int, str]] = []  # noqa: RUF012 - the record of this test

    spec = align_echo.TextEnvironment(Heard, step_limit=12, **declared).spec("heard")
    tasks = spec.tasks(split)[:3]
    played = [play(spec, task, *TRIES, split=split) for task in tasks]
    measured = compare(spec, {"none": played}).variants["none"]
    said = {seed for seed, action in Heard.said if action in NONSENSE}
    apart = {*map(int, tasks), *map(int, spec.tasks(spec.test_split))}
    assert not said & apart
    others = [task for task in spec.tasks(spec.train_split) if int(task) not in apart]
    assert bool(said) == bool(others)
    if not others:
        assert (measured.refusals, measured.consecutive_invalid) == ("", None)


def test_an_engine_that_breaks_on_nonsense_tells_nothing_of_refusals():
    class Brittle(Shelf):
        def refuse(self, action: str) -> Any:
            if action in NONSENSE:
                raise ValueError(action)
            return super().refuse(action)

    found = judged(Brittle, STUCK)
    assert (found.known, found.in_runs) == ("", None)


# ---------------------------------------------------------------- one figure everywhere


def shown(comparison: VariantComparison) -> str:
    console = Console(width=150, record=True)
    for table in tables(comparison):
        console.print(table)
    return console.export_text()


@pytest.mark.parametrize(
    ("kind", "known", "value"),
    [
        (Listing, "listed", 200 / 3),
        (Shelf, "inferred", 200 / 3),
        (OtherWords, "inferred", None),
        (Quiet, "inferred", None),
    ],
)
def test_python_tables_summary_grid_and_training_say_the_same(kind, known, value):
    spec = spec_of(kind)
    episodes = [play(spec, str(task), *actions) for task, actions in zip(TEST, (STUCK, TRIES), strict=False)]
    environment(spec.name)  # who says its name may have it looked up
    comparison = compare(spec, {"none": episodes, "full": episodes})
    result = comparison.variants["none"]
    stored = json.loads(comparison.model_dump_json())["variants"]["none"]
    counted = play_judge(spec)(episodes)
    cell = build_cell(spec, comparison, {"none": "none", "full": "x"}, agent="script", tasks=2, folder="f")
    row = next(line for line in shown(comparison).splitlines() if line.startswith("none "))
    lines = refusals_lines(build_grid([cell], model=None, interface="x", seed=0, tasks=2).cells)
    assert (comparison.refusals, stored["refusals"], cell.without.refusals) == (known,) * 3
    if value is None:
        with pytest.raises(UsageError, match=r"not defined.*have words that come again"):
            align_echo.consecutive_invalid_share(episodes)
        assert (result.consecutive_invalid, stored["consecutive_invalid"], counted.in_runs) == (None, None, None)
        assert stored["answers"]["answers"] == 12
        assert row.count("not defined") == cell_lines(cell)[0].count("not defined") == 2
        assert comparison.differences["full"].invalid_points is None
        assert any("not defined" in line for line in undefined(comparison))
        assert any("is not defined: of 12 answers" in line for line in lines)
    else:
        assert align_echo.consecutive_invalid_share(episodes) == pytest.approx(value)
        assert result.consecutive_invalid is not None
        assert result.consecutive_invalid.value == pytest.approx(value)
        assert counted.in_runs == 8
        assert stored["answers"] is None
        assert " 66.7 [" in row
        assert cell_lines(cell)[0][4].startswith("66.7 [")
    assert len([line for line in shown(comparison).splitlines() if line.startswith("refused: ")]) == 1
    assert len([line for line in lines if line.startswith("refused in ")]) == 1


def test_what_was_inferred_is_judged_on_what_the_agent_was_shown_too():
    spec = spec_of(Shelf)
    played = play(spec, "200", *STUCK)
    told = [step.model_copy(update={"observation": "Loosen it first."}) for step in played.steps]
    reworded = played.model_copy(update={"steps": tuple(told)})
    other = play(spec, "201", "loosen {}")
    result = compare(spec, {"none": [played], "placebo": [other], "full": [reworded]}).variants
    assert [result[name].consecutive_invalid_shown.value for name in ("none", "full")] == [100.0, 0.0]  # type: ignore[union-attr]
    assert played.steps[0].observation == REFUSED


def test_other_words_on_undecided_answers_make_no_figure_of_what_was_shown():
    """Under a placebo each undecided answer has more words than the environment's: it stays undecided."""
    spec = spec_of(OtherWords)
    played = play(spec, "200", *(("open {}", "take {}") * 3))
    told = [step.model_copy(update={"observation": f"{step.observation} So it is."}) for step in played.steps]
    placebo = played.model_copy(update={"steps": tuple(told)})
    result = compare(spec, {"none": [played, play(spec, "201", *STUCK)], "placebo": [placebo]}).variants
    assert [each.consecutive_invalid for each in result.values()] == [None, None]
    assert [each.consecutive_invalid_shown for each in result.values()] == [None, None]


def test_an_environment_that_answers_all_in_the_words_of_nonsense_tells_nothing_of_refusals():
    class Silent(Shelf):
        def step(self, action: str) -> Any:
            return ("Noted.", *super().step(action)[1:])

    spec = align_echo.TextEnvironment(Silent, step_limit=12).spec("silent")
    effects, stuck = play(spec, "200", "loosen {}", "open {}"), play(spec, "201", *STUCK)
    result = compare(spec, {"none": [effects], "full": [stuck]}).variants
    for variant in result.values():
        assert (variant.refusals, variant.consecutive_invalid, variant.consecutive_invalid_shown) == ("", None, None)
        assert variant.answers is not None
        assert (variant.answers.repeated, variant.answers.at_least) == (100, 0)


def test_an_answer_in_other_words_tells_of_all_variants():
    spec = spec_of(Shelf)
    stuck, other = play(spec, "200", *STUCK), play(spec, "201", "loosen {}", "open {}")
    alone, beside = (
        compare(spec, played).variants["none"].consecutive_invalid
        for played in ({"none": [stuck]}, {"none": [stuck], "full": [other]})
    )
    assert alone is None
    assert beside is not None
    assert beside.value == 100
