"""MiniWoB from the command line, offline: the scripted novice, alone and as a model of which the best of N is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from align_echo.cli.main import main
from align_echo.errors import EngineError
from align_echo.gaia.gui.recording import record
from align_echo.types import Trajectory
from align_echo.wrappers.miniwob.env import MiniWoBEnv
from tests.wrappers.miniwob.conftest import needs_browser

pytestmark = needs_browser

EVALUATE = ["evaluate", "--env", "miniwob", "--split", "expert_test", "--tasks", "3", "--workers", "1", "--out", "run"]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def played(folder) -> list[Trajectory]:
    lines = (folder / "run" / "trajectories" / "none.jsonl").read_text().splitlines()
    return [Trajectory.model_validate_json(line) for line in lines]


@pytest.mark.long
def test_the_novice_is_evaluated_and_its_refused_actions_are_counted(elsewhere):
    assert main([*EVALUATE, "--agent", "novice"]) == 0
    figures = json.loads((elsewhere / "run" / "summary.json").read_text())["variants"]["none"]
    assert (figures["episodes"], figures["faults"]) == (3, 0)
    assert figures["consecutive_invalid"] is not None
    assert len({episode.task_id.split("/")[0] for episode in played(elsewhere)}) == 3


@pytest.mark.long
def test_the_best_of_several_candidates_of_the_novice_is_sent(elsewhere):
    best = ["--agent", "vanilla", "--model", "novice", "--temperature", "1", "--best-of", "4", "--pick", "majority"]
    assert main([*EVALUATE, *best]) == 0
    steps = [step for episode in played(elsewhere) for step in episode.steps]
    assert all(step.choice is not None and len(step.choice.candidates) == 4 for step in steps)
    assert any(len({candidate.action for candidate in step.choice.candidates}) > 1 for step in steps if step.choice)


def steps_of(folder) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "data" / "steps.jsonl").read_text().splitlines()]


@pytest.mark.long
def test_the_expert_wins_all_and_its_recorded_steps_are_all_right(elsewhere, capsys):
    pytest.importorskip("PIL")
    assert main([*EVALUATE, "--agent", "expert"]) == 0
    assert all(episode.won for episode in played(elsewhere))
    assert main(["critic", "gui-record", "run", "--out", "data"]) == 0
    assert "episodes again" in capsys.readouterr().err
    assert main(["critic", "gui-record", "run", "--out", "data"]) == 2
    assert "episodes again" not in capsys.readouterr().err
    assert main(["critic", "gui-steps", "data", "--out", "scored"]) == 0
    summary = json.loads((elsewhere / "scored" / "summary.json").read_text())
    assert summary["steps"] == summary["candidates"] == sum(len(episode.steps) for episode in played(elsewhere))
    first = summary["first"]
    assert (first["type"]["value"], first["success"]["value"], summary["unparsed"]) == (100, 100, 0)
    assert "come out again" not in capsys.readouterr().out


@pytest.mark.long
def test_candidates_of_a_turn_become_its_predictions_and_what_changed_is_left_out(elsewhere, capsys):
    pytest.importorskip("PIL")
    best = ["--agent", "vanilla", "--model", "novice", "--temperature", "1", "--best-of", "4", "--pick", "majority"]
    assert main([*EVALUATE, *best]) == 0
    file = elsewhere / "run" / "trajectories" / "none.jsonl"
    first, second, third = played(elsewhere)
    changed = first.model_copy(update={"steps": (first.steps[0].model_copy(update={"observation": "?"}), *first.steps)})
    begun = second.model_copy(update={"initial_observation": "?"})
    file.write_text("".join(episode.model_dump_json() + "\n" for episode in (changed, begun, third)))
    assert main(["critic", "gui-record", "run", "--out", "data"]) == 0
    assert "2 of 3 episodes did not come out again" in capsys.readouterr().out
    lines = (elsewhere / "data" / "predictions.jsonl").read_text().splitlines()
    proposed = {record["step"]: record["candidates"] for record in map(json.loads, lines)}
    assert {len(some) for some in proposed.values()} == {4}
    steps = steps_of(elsewhere)
    assert list(proposed) == [step["id"] for step in steps]
    assert {step["episode"] for step in steps} == {third.task_id}


class Gone(MiniWoBEnv):
    """A browser that does not start."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        raise EngineError("Chromium does not start")


@pytest.mark.long
def test_where_the_browser_fails_the_expert_is_not_to_blame(elsewhere):
    assert main([*EVALUATE, "--agent", "novice"]) == 0
    with pytest.raises(EngineError, match="does not start"):
        record(lambda: Gone("expert_test"), played(elsewhere), elsewhere / "data")
    assert not (elsewhere / "data").exists()


TOLD = {"environment": "miniwob", "split": "expert_test", "task_id": "click-test/0", "agent": "a", "goal": "g"}


def write(folder, *changes: dict[str, object]) -> None:
    """Episodes of no step, each with a change."""
    (folder / "run" / "trajectories").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(TOLD | {"initial_observation": "?"} | change) + "\n" for change in changes]
    (folder / "run" / "trajectories" / "none.jsonl").write_text("".join(lines))


@pytest.mark.long
def test_where_nothing_comes_out_again_the_expert_is_not_to_blame(elsewhere, capsys):
    step = {"reply": "x", "action": "click(80, 130)", "observation": "", "raw_observation": "", "usage": {}}
    changes: dict[str, dict[str, object]]
    changes = {"no episode came out again": {"steps": [step]}, "no task": {"task_id": "a"}}
    for reason, change in changes.items():
        write(elsewhere, change)
        assert main(["critic", "gui-record", "run", "--out", "data"]) == 2
        assert reason in capsys.readouterr().err
        assert not (elsewhere / "data").exists()


@pytest.mark.parametrize(("change", "reason"), [({}, "holds sample 0"), ({"split": "train"}, "of several splits")])
def test_episodes_of_several_splits_and_one_that_is_there_twice_are_refused_before_any_is_played(
    elsewhere, capsys, change, reason
):
    write(elsewhere, {}, change)
    assert main(["critic", "gui-record", "run", "--out", "data"]) == 2
    shown = capsys.readouterr().err
    assert reason in shown
    assert "episodes again" not in shown


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"environment": "alfworld"}, "holds episodes of alfworld"),
        ({"interface": "mine"}, "under an interface"),
        ({"fault": {"source": "environment", "error": "EngineError", "message": ""}}, "no episode that was played"),
    ],
)
def test_episodes_that_have_no_screens_are_refused(elsewhere, capsys, change, reason):
    write(elsewhere, change)
    assert main(["critic", "gui-record", "run", "--out", "data"]) == 2
    assert reason in capsys.readouterr().err
    assert not (elsewhere / "data").exists()


def test_several_kinds_of_episodes_and_none_and_a_folder_that_is_there_are_refused(elsewhere, capsys):
    assert main(["critic", "gui-record", "run", "--out", "data"]) == 2
    assert "run holds no trajectories" in capsys.readouterr().err
    (elsewhere / "run" / "trajectories").mkdir(parents=True)
    for name in ("none", "full"):
        (elsewhere / "run" / "trajectories" / f"{name}.jsonl").write_text("")
    assert main(["critic", "gui-record", "run", "--out", "data"]) == 2
    assert "several kinds of episodes: name one of" in capsys.readouterr().err
