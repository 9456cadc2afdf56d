"""Comparing variants on the same tasks: pairing, faults, what is written, resuming."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from rich.console import Console

from align_echo.errors import UsageError
from align_echo.evaluate import comparison as comparing
from align_echo.evaluate.comparison import VariantComparison, build_variants, compare
from align_echo.evaluate.folder import Config, EvaluationDir, PartSetting
from align_echo.evaluate.tables import cell, residue_lines, tables, undefined, unplayed
from align_echo.interface.contract import identity
from align_echo.intervals import Estimate
from align_echo.rollout.session import Episode
from align_echo.types import Fault, Step, Trajectory
from align_echo.wrappers.catalogue import environment
from tests.room_env import CONTRACT, UnlistedEnv, instead_of

SPEC = instead_of(environment("alfworld"))
"""The replay's environment is the two-room world: the figures are about counting, not about ALFWorld."""

MUTE = dataclasses.replace(instead_of(SPEC, UnlistedEnv), is_invalid=None)


def episode(task: str, actions: list[str], *, won: bool, kind: str = "a", fault: bool = False) -> Trajectory:
    return Trajectory(
        environment="alfworld",
        split="valid_unseen",
        task_id=task,
        task_type=kind,
        agent="test",
        goal="",
        initial_observation="",
        steps=tuple(Step(reply=a, action=a, observation="Fine.", raw_observation="Fine.") for a in actions),
        won=won,
        score=float(won),
        fault=Fault(source="model", error="ModelError", message="gone") if fault else None,
    )


MUG, BOOK = "room/mug-to-study", "room/book-to-kitchen"
BEFORE = [episode(MUG, ["fly"] * 4, won=False), episode(BOOK, ["look"] * 4, won=False, kind="b")]
AFTER = [episode(MUG, ["look", "fly", "fly", "look"], won=True), episode(BOOK, ["look"] * 4, won=False, kind="b")]


def test_a_figure_of_one_task_has_no_interval():
    assert cell(Estimate(value=84.0, n=1, ci95=(84.0, 84.0))) == "84.0 -"
    assert cell(Estimate(value=84.0, n=2, ci95=(72.0, 91.0))) == "84.0 [72, 91]"


def test_each_variant_and_its_paired_difference():
    result = compare(SPEC, {"none": BEFORE, "full": AFTER})
    assert result.variants["none"].success_rate.value == 0
    assert result.variants["full"].success_rate.value == 50
    before, after = result.variants["none"], result.variants["full"]
    assert before.consecutive_invalid is not None
    assert after.consecutive_invalid is not None
    assert after.consecutive_invalid_shown is not None
    assert (before.consecutive_invalid.value, after.consecutive_invalid.value) == (50, 25)
    assert after.consecutive_invalid_shown.value == 0  # the agent was shown "Fine."
    difference = result.differences["full"]
    assert (difference.tasks, difference.success_points.value) == (2, 50)
    assert difference.invalid_points is not None
    assert difference.invalid_points.value == -25
    assert difference.invalid_reduction is not None
    assert difference.invalid_reduction.value == 50
    assert result.variants["full"].success_by_type["a"].value == 100


def test_each_half_and_the_whole_are_paired_with_the_placebo_too():
    middle = [BEFORE[0], changed(BEFORE[1], won=True, score=1.0)]
    result = compare(SPEC, {"none": BEFORE, "placebo": middle, "rules": BEFORE, "full": AFTER})
    assert (list(result.differences), list(result.over_placebo)) == (["placebo", "rules", "full"], ["rules", "full"])
    assert [difference.success_points.value for difference in result.differences.values()] == [50, 0, 50]
    assert [difference.success_points.value for difference in result.over_placebo.values()] == [-50, 0]
    text = shown(result)
    assert [line.split()[0] for line in text.splitlines()[2:6]] == ["none", "placebo", "rules", "both"]
    assert "Against the placebo, paired by task" in text
    assert "it is worth what it adds to its placebo" in text
    assert compare(SPEC, {"none": BEFORE, "full": AFTER}).over_placebo == {}


def failing(trajectory: Trajectory, count: int) -> Trajectory:
    steps = [step.model_copy(update={"interface_error": "line 7: no"}) for step in trajectory.steps[:count]]
    return changed(trajectory, steps=(*steps, *trajectory.steps[count:]))


def test_an_interface_works_that_failed_on_a_tenth_of_its_turns_and_no_more():
    long = episode(MUG, ["look"] * 20, won=True)
    by_count = {count: compare(SPEC, {"none": [long], "full": [failing(long, count)]}) for count in (2, 3)}
    assert (by_count[2].variants["full"].conduct.works, by_count[3].variants["full"].conduct.works) == (True, False)
    assert "did not work" not in shown(by_count[2])
    assert len(re.findall(r"^both +(?:1 +)?did not work: 3 of 20 turns", shown(by_count[3]), re.MULTILINE)) == 2
    assert by_count[3].variants["full"].success_rate.value == 100  # what was measured stays in the summary


def test_against_a_placebo_that_did_not_work_nothing_is_shown():
    long = episode(MUG, ["look"] * 20, won=True)
    result = compare(SPEC, {"none": [long], "placebo": [failing(long, 20)], "full": [long]})
    assert "Against the placebo" not in shown(result)


def test_pairs_are_made_by_task_and_not_by_position():
    result = compare(SPEC, {"none": BEFORE, "full": AFTER[::-1]})
    # unpaired, the interval of a difference over two tasks could reach -100; paired, nothing got worse
    assert result.differences["full"].success_points.low >= 0


def test_a_task_with_a_fault_in_one_variant_is_out_of_the_difference_and_counted():
    broken = [episode(MUG, [], won=False, fault=True), AFTER[1]]
    result = compare(SPEC, {"none": BEFORE, "full": broken})
    assert result.variants["full"].faults == 1
    assert result.variants["full"].success_rate.n == 1
    assert result.differences["full"].tasks == 1
    assert result.differences["full"].invalid_reduction is None  # the remaining task had no invalid action


def test_nothing_but_faults_is_an_error_that_names_the_first():
    with pytest.raises(UsageError, match="the first: the model broke: gone"):
        compare(SPEC, {"none": [episode(MUG, [], won=False, fault=True)]})


def test_where_no_text_tells_a_refusal_there_is_no_share_and_the_tables_say_so():
    result = compare(MUTE, {"none": BEFORE, "full": AFTER})
    full, difference = result.variants["full"], result.differences["full"]
    assert (full.consecutive_invalid, full.consecutive_invalid_shown) == (None, None)
    assert (difference.invalid_points, difference.invalid_reduction) == (None, None)
    assert (full.success_rate.value, difference.success_points.value) == (50, 50)
    console = Console(width=80, record=True)
    for table in tables(result):
        console.print(table)
    row = next(line for line in console.export_text().splitlines() if line.startswith("both"))
    assert row.split()[-5:-1] == ["not", "defined"] * 2
    assert undefined(result)[0].startswith("consec. invalid of none is not defined: of 8 answers 100.0% have")


def test_variants_switch_off_halves_of_the_same_interface():
    variants = build_variants(identity(CONTRACT))
    assert list(variants) == list(comparing.VARIANTS)
    assert variants["none"] is None
    labels = [variant.label for variant in variants.values() if variant is not None]
    assert len(set(labels)) == 4
    assert len({variant.content_hash for variant in variants.values() if variant is not None}) == 1


def test_the_tables_show_every_variant_and_type():
    console = Console(width=80, record=True)
    for table in tables(compare(SPEC, {"none": BEFORE, "full": AFTER})):
        console.print(table)
    text = console.export_text()
    assert "…" not in text  # nothing is cut off on a narrow terminal
    assert "both" in text
    assert "50.0 [" in text
    assert "+50.0" in text
    assert "1/1" in text


CONFIG: Config = {"agent": "test", "seed": 0}
SETTING = PartSetting(BEFORE[0].environment, BEFORE[0].split, BEFORE[0].agent, 0, None)


def test_the_folder_keeps_episodes_as_they_end_and_survives_a_kill_in_the_middle_of_a_line(tmp_path):
    folder = EvaluationDir(tmp_path / "out", CONFIG).begin()
    part = folder.part("none", [Episode(MUG), Episode(BOOK)], SETTING)
    part.add(BEFORE[0])
    part.add(episode(BOOK, [], won=False, fault=True))
    file = tmp_path / "out" / "trajectories" / "none.jsonl"
    file.write_text(file.read_text() + BEFORE[1].model_dump_json()[:100])
    again = EvaluationDir(tmp_path / "out", CONFIG, resume=True).begin()
    episodes = [Episode(trajectory.task_id) for trajectory in BEFORE]
    part = again.part("none", episodes, SETTING)
    assert list(part) == BEFORE[:1]  # the fault and the half line are to be played again
    assert part.missing == episodes[1:]
    part.add(BEFORE[1])
    assert list(part) == list(again.part("none", episodes, SETTING)) == BEFORE
    assert (part[1], part[-2:]) == (BEFORE[1], BEFORE)
    assert list(again.part("full", episodes, SETTING)) == []


def test_the_summary_reads_back(tmp_path):
    result = compare(SPEC, {"none": BEFORE, "full": AFTER})
    path = EvaluationDir(tmp_path / "out", CONFIG).begin().finish(result)
    assert VariantComparison.model_validate_json(path.read_text()) == result
    assert set(json.loads(path.read_text())["variants"]["none"]["success_rate"]) == {"value", "n", "ci95"}


def test_the_summary_of_an_older_version_reads_back():
    result = compare(SPEC, {"none": BEFORE, "full": AFTER})
    older = result.model_dump(mode="json", exclude={"over_placebo": True, "variants": {"__all__": NEW_KEYS}})
    assert not NEW_KEYS & set(older["variants"]["full"])
    assert shown(VariantComparison.model_validate(older)) == shown(result)


NEW_KEYS = {"conduct", "forged"}


def test_a_folder_in_use_or_of_another_run_is_refused_and_left_as_it_was(tmp_path):
    EvaluationDir(tmp_path, CONFIG).begin()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="--resume"):
        EvaluationDir(tmp_path, CONFIG).begin()
    with pytest.raises(UsageError, match="seed = 0, not 1"):
        EvaluationDir(tmp_path, {"agent": "test", "seed": 1}, resume=True).begin()
    with pytest.raises(UsageError, match="nothing to resume"):
        EvaluationDir(tmp_path / "fresh", CONFIG, resume=True).begin()
    assert sorted(tmp_path.rglob("*")) == before


def changed(trajectory: Trajectory, **update: object) -> Trajectory:
    return trajectory.model_copy(update=update)


def shown(result: VariantComparison) -> str:
    console = Console(width=160, record=True)
    for table in tables(result):
        console.print(table)
    return console.export_text()


def test_replies_without_an_action_cut_off_replies_and_full_contexts_are_told_as_what_they_are():
    steps = BEFORE[0].steps
    cut = steps[0].model_copy(update={"action": None, "cut_off": True})
    mute = steps[0].model_copy(update={"action": None})
    trajectories = [changed(BEFORE[0], steps=(cut, mute, *steps[2:])), changed(BEFORE[1], context_overflow=True)]
    result = compare(SPEC, {"none": trajectories})
    figures = result.variants["none"]
    assert figures.unparsed is not None
    assert figures.cut_off is not None
    assert (figures.unparsed.value, figures.cut_off.value, figures.context_overflows, figures.faults) == (
        25.0,
        12.5,
        1,
        0,
    )
    assert figures.success_rate.n == 2  # a full context is the agent's loss, in the figures
    assert ("no action, %" in shown(result), "cut off, %" in shown(result), "overflows" in shown(result)) == (True,) * 3
    assert "cut off" not in shown(compare(SPEC, {"none": BEFORE}))


def test_replies_that_signs_were_taken_off_are_counted_by_sign_and_said():
    def dressed(*signs: str) -> Step:
        return Step(reply="look", action="look", observation="Fine.", raw_observation="Fine.", residue=signs)

    steps = (dressed("</s>"), dressed("</s>", "U+200B"), dressed(), dressed())
    broken = AFTER[1].model_copy(update={"steps": steps, "fault": Fault(source="model", error="E", message="gone")})
    after = [AFTER[0].model_copy(update={"steps": steps}), broken]
    result = compare(SPEC, {"none": BEFORE, "full": after})
    assert residue_lines(result) == [
        "both: 2 of 4 replies had signs taken off that are no part of them: </s> in 2, U+200B in 1"
    ]
    many = AFTER[0].model_copy(update={"steps": (dressed(*"abcdefg"),)})
    assert residue_lines(compare(SPEC, {"none": [many]}))[0].endswith("e in 1, and others")


def test_where_no_turn_was_played_nothing_is_claimed_of_refused_actions():
    full = [changed(trajectory, steps=(), won=False, context_overflow=True) for trajectory in BEFORE]
    result = compare(SPEC, {"none": BEFORE, "full": full})
    figures, difference = result.variants["full"], result.differences["full"]
    assert (figures.consecutive_invalid, figures.consecutive_invalid_shown, figures.unplayed) == (None, None, len(full))
    assert (difference.invalid_points, difference.invalid_reduction) == (None, None)
    (line,) = unplayed(result)
    assert line.startswith(f"both: no turn was played in {len(full)} of {len(full)} episodes")
    assert unplayed(compare(SPEC, {"none": BEFORE})) == []


def test_several_episodes_of_a_task_are_one_task_in_intervals_and_differences():
    again = [changed(trajectory, sample=1) for trajectory in BEFORE]
    won = [changed(AFTER[0], sample=sample, won=sample == 0, score=float(sample == 0)) for sample in (0, 1)]
    result = compare(SPEC, {"none": [*BEFORE, *again], "full": [*won, *[changed(AFTER[1], sample=i) for i in (0, 1)]]})
    assert (result.variants["full"].episodes, result.variants["full"].success_rate.n) == (4, 2)
    assert result.differences["full"].tasks == 2
    assert result.differences["full"].success_points.value == 25
    assert re.search(r"^a +0/1 +0\.5/1$", shown(result), re.MULTILINE)


def test_episodes_that_are_finished_are_known_by_task_and_sample(tmp_path):
    folder = EvaluationDir(tmp_path / "out", CONFIG).begin()
    episodes = [Episode(task, sample) for task in (MUG, BOOK) for sample in range(2)]
    folder.part("none", episodes, SETTING).add(changed(BEFORE[0], sample=1))
    part = folder.part("none", episodes, SETTING)
    assert [(missing.task_id, missing.sample) for missing in part.missing] == [(MUG, 0), (BOOK, 0), (BOOK, 1)]
    for missing in reversed(part.missing):
        part.add(changed(episode(missing.task_id, [], won=False), sample=missing.sample))
    played = [(trajectory.task_id, trajectory.sample) for trajectory in part]
    assert played == [(MUG, 0), (MUG, 1), (BOOK, 0), (BOOK, 1)]
