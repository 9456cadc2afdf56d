"""`align-echo grid`: one command, one table, one folder a cell; what is finished is not played again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.cli.grid import _show
from align_echo.evaluate.comparison import VariantComparison
from align_echo.evaluate.grid import GridSummary
from align_echo.interface.contract import identity, save_interface
from align_echo.rollout.batches import ATTEMPTS
from align_echo.types import Trajectory
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld.env import JavaSimulator
from tests.play import source

GRID = ["grid", "--env", "alfworld", "--agent", "novice", "--interface", "probe", "--tasks", "2"]
TWO_AGENTS = [*GRID, "--agent", "vanilla", "--model", "novice"]


def identity_file(folder: Path, name: str) -> Path:
    return save_interface(identity(environment(name).contract), folder / "given", name)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}


def summary(folder: str) -> GridSummary:
    return GridSummary.model_validate_json(Path(folder, "summary.json").read_text())


BAD = {
    "unknown environment": (["--env", "narnia", *GRID[3:]], "unknown environment 'narnia'"),
    "unknown agent": ([*GRID[1:], "--agent", "bond"], "unknown agent 'bond'"),
    "agent twice": ([*GRID[1:], "--agent", "novice"], "--agent novice is there twice"),
    "environment twice": ([*GRID[1:], "--env", "align_echo/ALFWorld-v0"], "--env alfworld is there twice"),
    "no tasks": ([*GRID[1:-1], "0"], "alfworld: the split has 134 tasks: ask for 1 to 134, not 0"),
    "too many tasks in one of two": ([*GRID[1:-1], "135"], "alfworld: the split has 134 tasks"),
    "no such interface": ([*GRID[1:5], "--interface", "nosuch"], "no interface named alfworld/nosuch"),
    "no such interface in the second": (
        ["--env", "alfworld", "--env", "webshop", "--agent", "novice", "--interface", "alfworld/probe"],
        "made for alfworld, does not fit webshop: it calls",
    ),
    "nothing to compare": ([*GRID[1:5], "--interface", "none"], "a grid plays without and with an interface"),
    "no key": ([*GRID[1:], "--agent", "react", "--model", "m"], "set OPENAI_API_KEY"),
    "no novice of that kind": (
        ["--env", "webshop", "--agent", "novice-careful", "--interface", "given/webshop.py"],
        "there is no scripted novice-careful for webshop",
    ),
    "temperature of no model": ([*GRID[1:], "--temperature", "1"], "no agent of this grid asks a model"),
    "resume of nothing": ([*GRID[1:], "--resume"], "nothing to resume in out"),
    "missing environment": (GRID[3:], "--env"),
    "missing interface": (["--env", "alfworld", "--agent", "novice"], "--interface"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_status_2_and_nothing_written(case, run, tmp_path):
    identity_file(tmp_path, "webshop")
    arguments, message = BAD[case]
    before = files(tmp_path)
    status, out, err = run("grid", *arguments, "--out", "out")
    assert (status, err.count("\n"), out) == (2, 1, ""), err
    assert message in err
    assert files(tmp_path) == before
    assert not Path("out").exists()


def test_a_temperature_is_that_of_the_agents_that_ask_a_model(run):
    status, _, err = run(*TWO_AGENTS, "--tasks", "1", "--temperature", "0.5", "--out", "run")
    assert status == 0, err
    config = json.loads(Path("run/alfworld/vanilla/config.json").read_text())
    assert config["agent_details"]["temperature"] == "0.5"
    status, _, err = run(*TWO_AGENTS, "--tasks", "1", "--temperature", "0.6", "--out", "run", "--resume")
    assert (status, "was started with temperature = 0.5, not 0.6" in err) == (2, True), err


def test_an_extra_that_is_not_installed_is_said_before_anything_runs(run, monkeypatch, tmp_path):
    identity_file(tmp_path, "scienceworld")
    java_pool(JavaSimulator).close()  # none that other tests left running
    monkeypatch.setattr("align_echo.wrappers.java.find_spec", lambda name: None)
    arguments = ["--env", "scienceworld", "--agent", "expert", "--interface", "given/scienceworld.py"]
    status, _, err = run("grid", *arguments, "--out", "out")
    assert status == 2
    assert err == (
        "align-echo: ScienceWorld needs an extra: pip install '.[scienceworld]' in a checkout of align-echo\n"
    )
    assert not Path("out").exists()


@pytest.mark.long
def test_one_command_gives_one_table_a_summary_and_a_folder_a_cell(run):
    status, out, err = run(*TWO_AGENTS, "--out", "run")
    assert status == 0, err
    assert "a scripted stand-in for a small model, NOT a language model" in out
    assert "agent: vanilla, model novice (scripted, not a language model)" in out
    lines = ("without", "placebo", "with", "change", "over placebo")
    for word in ("alfworld", "novice", "vanilla", *lines, "consec. invalid", "as shown"):
        assert word in out
    assert "faults: none" in out
    assert "…" not in out
    parts = {f"trajectories/{name}.jsonl" for name in ("none", "placebo", "full")}
    cell = {"config.json", "summary.json", *parts}
    assert files(Path("run/alfworld/novice")) == cell
    assert files(Path("run/alfworld/vanilla")) == {*cell, "calls.jsonl"}
    assert {path.name for path in Path("run").iterdir()} == {"config.json", "summary.json", "alfworld"}
    grid = summary("run")
    assert [(cell.environment, cell.agent, cell.tasks) for cell in grid.cells] == [
        ("alfworld", "novice", 2),
        ("alfworld", "vanilla", 2),
    ]
    for played in grid.cells:
        measured = VariantComparison.model_validate_json(Path("run", played.folder, "summary.json").read_text())
        assert played.without.success is not None
        assert played.change is not None
        success, points = measured.variants["none"].success_rate, measured.differences["full"].success_points
        assert (played.without.success.value, played.without.success.n) == (success.value, 2)
        assert played.change.success == points
        assert set(measured.tasks) == set(json.loads(Path("run/config.json").read_text())["tasks"]["alfworld"])


def test_where_no_text_tells_a_refusal_the_table_says_so_and_the_summary_has_no_figure(run, tmp_path):
    interface = identity_file(tmp_path, "webshop")
    status, out, err = run(
        *("grid", "--env", "webshop", "--agent", "expert", "--interface", interface, "--tasks", "2", "--out", "run")
    )
    assert status == 0, err
    (row,) = [line for line in out.splitlines() if line.startswith("webshop")]
    assert row.split()[-4:] == ["not", "defined"] * 2
    assert "refused in webshop: not defined" in out
    (cell,) = summary("run").cells
    assert cell.change is not None
    assert (cell.without.consecutive_invalid, cell.with_interface.consecutive_invalid_shown) == (None, None)
    assert cell.change.consecutive_invalid is None
    assert cell.without.score is not None
    assert cell.without.score.value == 1.0


@pytest.mark.long
def test_a_stopped_grid_goes_on_where_it_stopped(run, stop_after_first_episode):
    status, _, err = run(*TWO_AGENTS, "--out", "run")
    assert status == 130
    assert err.splitlines()[-1].endswith("--resume --out run")
    kept = Path("run/alfworld/novice/trajectories/none.jsonl").read_text()

    status, _, err = run(*TWO_AGENTS, "--out", "run")  # without --resume it is left alone
    assert (status, "--resume" in err) == (2, True)
    status, _, err = run(*GRID, "--resume", "--out", "run")
    assert (status, "was started with agents" in err) == (2, True)

    status, _, err = run(*TWO_AGENTS, "--resume", "--out", "run")
    assert status == 0, err
    assert Path("run/alfworld/novice/trajectories/none.jsonl").read_text().startswith(kept)
    assert len(stop_after_first_episode) == 12  # two agents, three sides, two tasks: none twice


def test_a_grid_without_a_placebo_goes_on_without(run):
    assert run(*GRID, "--no-placebo", "--out", "run")[0] == 0
    assert not Path("run/alfworld/novice/trajectories/placebo.jsonl").exists()
    (cell,) = summary("run").cells
    assert (cell.placebo, cell.over_placebo) == (None, None)
    status, out, err = run(*GRID, "--resume", "--out", "run")  # what an older version began has no placebo either
    assert (status, out, err.count("\n"), "was started without placebo, not with true" in err) == (2, "", 1, True)
    assert run(*GRID, "--no-placebo", "--resume", "--out", "run")[0] == 0


@pytest.mark.long
def test_finished_cells_are_not_played_again(run, monkeypatch):
    assert run(*TWO_AGENTS, "--out", "run")[0] == 0
    before = Path("run/summary.json").read_text()
    Path("run/summary.json").unlink()
    played = "align_echo.evaluate.playing.Experiment.play_variants"
    monkeypatch.setattr(played, lambda *arguments: pytest.fail("a finished cell is played"))
    status, out, err = run(*TWO_AGENTS, "--resume", "--out", "run")
    assert status == 0, err
    assert err.count("finished earlier") == 2
    assert "change" in out
    assert Path("run/summary.json").read_text() == before


def test_a_cell_that_an_older_version_finished_is_measured_anew_and_not_played(run, tmp_path):
    Path("mine.py").write_text(source("raise RuntimeError('no')"))
    command = [*GRID[:5], "--interface", "mine.py", "--tasks", "1", "--no-placebo", "--out", "run"]
    assert run(*command)[0] == 1
    file = Path("run/alfworld/novice/summary.json")
    older = json.loads(file.read_text())
    for variant in older["variants"].values():
        del variant["conduct"], variant["forged"]
    file.write_text(json.dumps(older))
    played = {path: path.read_text() for path in Path("run").rglob("*.jsonl")}
    status, out, err = run(*command, "--resume")
    assert (status, "did not work: 50 of 50 turns" in out) == (1, True), err
    assert {path: path.read_text() for path in Path("run").rglob("*.jsonl")} == played


@pytest.fixture
def broken_on(monkeypatch):
    """Task -> how many more actions on it break ALFWorld's engine."""
    broken: dict[str, int] = {}
    act = AlfworldEnv._act

    def broken_act(env, action):
        if broken.get(env._task_id, 0) > 0:
            broken[env._task_id] -= 1
            raise OSError("the disk is gone")
        return act(env, action)

    monkeypatch.setattr(AlfworldEnv, "_act", broken_act)
    return broken


@pytest.mark.long
def test_faults_are_counted_kept_out_of_the_figures_and_played_again(run, broken_on):
    assert run(*GRID, "--out", "whole")[0] == 0
    tasks = json.loads(Path("whole/config.json").read_text())["tasks"]["alfworld"]
    broken_on[tasks[0]] = 100
    status, out, err = run(*GRID, "--out", "run")
    assert status == 0, err
    assert "faults: alfworld novice: 1 without, 1 placebo, 1 with" in out
    grid = summary("run")
    assert (grid.faults, grid.cells[0].without.episodes, grid.cells[0].without.faults) == (3, 1, 1)
    lines = Path("run/alfworld/novice/trajectories/none.jsonl").read_text().splitlines()
    faults = [Trajectory.model_validate_json(line).fault for line in lines]
    assert [fault.message for fault in faults if fault] == [
        "the engine of alfworld failed: OSError: the disk is gone",
    ]
    broken_on.clear()
    assert run(*GRID, "--resume", "--out", "run")[0] == 0
    assert summary("run") == summary("whole")


@pytest.mark.long
def test_a_cell_of_nothing_but_faults_is_a_row_without_figures(run, broken_on):
    assert run(*GRID, "--out", "whole")[0] == 0
    broken_on.update(dict.fromkeys(json.loads(Path("whole/config.json").read_text())["tasks"]["alfworld"], 100))
    status, out, err = run(*GRID, "--out", "run")
    assert status == 0, err
    (cell,) = summary("run").cells
    assert (cell.without.episodes, cell.without.faults, cell.without.success, cell.change) == (0, 2, None, None)
    assert "faults: alfworld novice: 2 without, 2 placebo, 2 with" in out
    broken_on.clear()
    assert run(*GRID, "--resume", "--out", "run")[0] == 0
    assert summary("run") == summary("whole")


@pytest.mark.long
def test_a_side_of_nothing_but_faults_is_played_again_and_the_other_is_not(run, broken_on):
    assert run(*GRID, "--out", "whole")[0] == 0
    tasks = json.loads(Path("whole/config.json").read_text())["tasks"]["alfworld"]
    broken_on.update(dict.fromkeys(tasks, ATTEMPTS))  # the side that is played first
    assert run(*GRID, "--out", "run")[0] == 0
    (cell,) = summary("run").cells
    assert (cell.without.episodes, cell.without.faults, cell.with_interface.episodes) == (0, 2, 2)
    status, _, err = run(*GRID, "--resume", "--out", "run")
    assert status == 0, err
    assert "interface: both: 2 episodes, 2 of them finished earlier" in err
    assert summary("run") == summary("whole")



def test_no_figure_is_cut_off_where_names_are_long(run, capsys):
    assert run(*GRID, "--out", "run")[0] == 0
    played = summary("run")
    cells = tuple(cell.model_copy(update={"environment": "somebodys_package:" + "E" * 40}) for cell in played.cells)
    _show(played.model_copy(update={"cells": cells}), (), Path("run"))
    assert "…" not in capsys.readouterr().out
