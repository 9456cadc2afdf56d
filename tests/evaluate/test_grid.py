"""Cells of a grid: what they take from a comparison, where they have no figure, and how the table shows it."""

from __future__ import annotations

import dataclasses

from rich.console import Console

from align_echo.evaluate.grid import GridCell, GridSummary, build_cell, build_grid, grid_table, measure
from align_echo.types import Fault, Step, Trajectory, Usage
from align_echo.wrappers.catalogue import environment
from tests.room_env import TASK_IDS, UnlistedEnv, instead_of

SPEC = instead_of(environment("alfworld"))
"""The replay's environment is the two-room world: the figures are about counting, not about ALFWorld."""

MUTE = dataclasses.replace(instead_of(SPEC, UnlistedEnv), is_invalid=None)
LABELS = {"none": "none", "full": "mine@1"}


def episode(task: str, actions: list[str], *, score: float, shown: str = "Fine.", fault: bool = False) -> Trajectory:
    usage = Usage(prompt_tokens=10)
    return Trajectory(
        environment="alfworld",
        split="valid_unseen",
        task_id=task,
        agent="test",
        goal="",
        initial_observation="",
        steps=tuple(Step(reply=a, action=a, observation=shown, raw_observation="", usage=usage) for a in actions),
        won=score == 1.0,
        score=score,
        fault=Fault(source="environment", error="EngineError", message="gone") if fault else None,
    )


BEFORE = [episode(task, ["fly"] * 4, score=0.25, shown="Nothing happens.") for task in TASK_IDS]
AFTER = [episode(TASK_IDS[0], ["look"] * 4, score=1.0), episode(TASK_IDS[1], ["fly"] * 4, score=0.5)]


def cell(before: list[Trajectory], after: list[Trajectory], spec=SPEC) -> GridCell:
    comparison, _ = measure(spec, {"none": before, "full": after}, seed=0)
    return build_cell(spec, comparison, LABELS, agent="test", tasks=2, folder="alfworld/test")


def grid(*cells: GridCell) -> GridSummary:
    return build_grid(cells, model=None, interface="mine", seed=0, tasks=2)


def printed(summary: GridSummary) -> str:
    console = Console(width=140, record=True)
    console.print(grid_table(summary))
    return console.export_text()


def test_a_cell_has_both_sides_and_the_paired_change():
    shown = cell(BEFORE, AFTER)
    assert shown.without.success is not None
    assert shown.with_interface.score is not None
    assert shown.change is not None
    assert (shown.without.success.value, shown.with_interface.score.value) == (0.0, 0.75)
    assert (shown.change.tasks, shown.change.success.value, shown.change.score.value) == (2, 50.0, 0.5)
    assert shown.change.success.low >= 0  # paired: nothing got worse on any task


def test_the_share_by_replay_stands_beside_what_the_agent_saw():
    after = cell(BEFORE, AFTER).with_interface
    assert after.consecutive_invalid is not None
    assert after.consecutive_invalid_shown is not None
    assert (after.consecutive_invalid.value, after.consecutive_invalid_shown.value) == (50.0, 0.0)


def test_every_rate_has_its_n_and_an_interval_around_it():
    shown = cell(BEFORE, AFTER)
    assert shown.change is not None
    rates = [
        figure for figure in (*dict(shown.without).values(), *dict(shown.change).values()) if hasattr(figure, "ci95")
    ]
    assert len(rates) == 7
    alike = [rate for rate in rates if rate.ci95 is None]
    assert alike == [shown.without.score], "two tasks of one score say nothing of how scores spread"
    assert all(rate.n == 2 and rate.low <= rate.value <= rate.high for rate in rates)


def test_where_no_text_tells_a_refusal_there_is_no_share():
    shown = cell(BEFORE, AFTER, MUTE)
    assert shown.change is not None
    shares = (shown.without.consecutive_invalid, shown.with_interface.consecutive_invalid_shown)
    assert (*shares, shown.change.consecutive_invalid) == (None, None, None)
    assert shown.change.success.value == 50.0
    assert printed(grid(shown)).splitlines()[2].split()[-4:] == ["not", "defined"] * 2


def test_a_side_of_nothing_but_faults_has_no_figure_and_the_other_keeps_its_own():
    broken = [
        trajectory.model_copy(update={"fault": Fault(source="model", error="E", message="m")}) for trajectory in AFTER
    ]
    shown = cell(BEFORE, broken)
    assert (shown.with_interface.episodes, shown.with_interface.faults, shown.with_interface.score) == (0, 2, None)
    assert shown.with_interface.interface == "mine@1"
    assert shown.without.episodes == 2
    assert shown.change is None
    assert grid(shown, cell(BEFORE, AFTER)).faults == 2


def test_what_was_not_measured_whole_is_said():
    broken = [
        trajectory.model_copy(update={"fault": Fault(source="model", error="E", message="m")}) for trajectory in AFTER
    ]
    assert measure(SPEC, {"none": BEFORE, "full": AFTER}, seed=0)[1]
    assert not measure(SPEC, {"none": BEFORE, "full": broken}, seed=0)[1]
    assert measure(SPEC, {"none": broken, "full": broken}, seed=0) == (None, False)


def test_the_table_has_three_lines_a_cell_and_the_summary_reads_back():
    summary = grid(cell(BEFORE, AFTER), cell(AFTER, BEFORE))
    words = [line.split() for line in printed(summary).splitlines()]
    assert [line[:3] for line in words if "without" in line[:3]] == [["alfworld", "test", "without"]] * 2
    assert sum(line[:1] == ["with"] for line in words) == 2
    assert [line[:2] + line[5:6] for line in words if line[:1] == ["change"]] == [
        ["change", "2", "+50.0"],
        ["change", "2", "-50.0"],
    ]
    assert GridSummary.model_validate_json(summary.model_dump_json()) == summary
    assert summary.usage.prompt_tokens == 320


def test_the_placebo_stands_between_and_the_interface_is_set_against_it():
    middle = [episode(task, ["fly"] * 4, score=0.5) for task in TASK_IDS]
    comparison, _ = measure(SPEC, {"none": BEFORE, "placebo": middle, "full": AFTER}, seed=0)
    labels = {"none": "none", "placebo": "mine@1-placebo", "full": "mine@1"}
    shown = build_cell(SPEC, comparison, labels, agent="test", tasks=2, folder="alfworld/test")
    assert (shown.placebo is not None and shown.placebo.interface) == "mine@1-placebo"
    assert shown.change is not None
    assert shown.over_placebo is not None
    assert (shown.change.score.value, shown.over_placebo.score.value) == (0.5, 0.25)
    lines = printed(grid(shown)).splitlines()[2:7]
    assert [line.replace("alfworld", "").replace("test", "").split()[0] for line in lines] == [
        *("without", "placebo", "with", "change"),
        "over",
    ]
    assert "over" not in printed(grid(cell(BEFORE, AFTER)))
