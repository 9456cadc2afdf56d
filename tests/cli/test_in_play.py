"""The last line of `generate-interface`: what was written changes something in play, or it is said that it does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from align_echo.align.run_folder import RunFolder, RunSummary
from align_echo.evaluate.comparison import VariantComparison
from align_echo.evaluate.in_play import HARMFUL, play_line, verdict_on_play
from align_echo.intervals import wilson
from align_echo.rollout.display import Display

VAULT = "tests.vault_env:VAULT"
LEARN = ["generate-interface", "--env", VAULT, "--tasks-per-iteration", "3", "--iterations", "2", "--out", "run"]


def learn(run, agent: str, *more: str) -> tuple[str, str, dict[str, Any]]:
    """Standard output, standard error, and the run's summary."""
    status, out, err = run(*LEARN, "--agent", f"tests.vault_env:{agent}", *more)
    assert status == 0, err
    return out, err, json.loads(Path("run/summary.json").read_text())


def test_rules_that_help_nobody_are_called_written_and_not_resolved(run, hardly_any_fresh_tasks):
    out, err, summary = learn(run, "Stubborn")
    last = out.splitlines()[-1]
    rests_on = "3 tasks of train, none of them used to make it; it spoke on 0 of 24 refusals, in 0 of 3 episodes"
    assert last.startswith(f"in play ({rests_on}): won, %: 0.0 [0, 56] without it, ")
    assert re.search(r"rules written for \d+ \([\d,]+ experiments for, 0 against, at most \d+ tasks a rule; 0 of", out)
    assert summary["coverage"]["tasks"] >= 3
    assert "0.0 [0, 56] with its placebo, 0.0 [0, 56] with it; over its placebo +0.0" in last
    assert last.endswith(": written, and no episode improved")
    assert summary["written"]
    assert summary["addressed"] == summary["misalignments"] > 0
    assert (summary["in_play"]["better"], summary["in_play"]["tasks"]) == (0, 3)
    said = out + err + Path("run/summary.json").read_text() + Path("run/events.jsonl").read_text()
    assert not re.search(r"\bresolve[sd]?\b|\bimproved\"", said)
    assert err.index("is played at the end: 3 x 3 episodes of at most 8 turns") < err.index("iteration 1: ")


def test_an_agent_that_gains_is_counted_beside_the_placebo(run, few_fresh_tasks):
    out, _, summary = learn(run, "Obedient")
    last = out.splitlines()[-1]
    assert "0.0 [0, 56] without it, 0.0 [0, 56] with its placebo, 100.0 [44, 100] with it" in last
    assert "; over its placebo +100.0" in last
    assert ": 3 of 3 episodes improved" in last
    assert re.search(r"; it spoke on ([1-9]\d*) of \1 refusals, in 3 of 3 episodes\): won", last)
    spoke = {name: summary["in_play"][name] for name in ("spoken_episodes", "spoken", "spoken_refusals")}
    assert spoke["spoken_episodes"] == 3
    assert spoke["spoken"] == spoke["spoken_refusals"] > 0
    comparison = VariantComparison.model_validate_json(Path("run/in-play/summary.json").read_text())
    assert set(comparison.variants) == {"none", "placebo", "full"}
    assert comparison.split == "train"
    iterations = [json.loads(line)["task_id"] for file in Path("run/iterations").glob("*/trajectories.jsonl")
                  for line in file.read_text().splitlines()]  # fmt: skip
    assert not set(comparison.tasks) & set(iterations)
    played = Path("run/in-play/trajectories/full.jsonl").read_text()
    out, _, again = learn(run, "Obedient", "--resume")
    assert (out.splitlines()[-1], again) == (last, summary), "what was played is not played again"
    assert Path("run/in-play/trajectories/full.jsonl").read_text() == played
    assert run("view", "run", "--out", "all.html")[0] == 0


@pytest.mark.long
def test_a_run_that_is_stopped_in_its_play_goes_on_there(run, hardly_any_fresh_tasks, monkeypatch):
    shown = Display.episode

    def stop(display: Display, won: bool) -> None:
        shown(display, won)
        if display._title == "interface: placebo":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Display, "episode", stop)
        status, _, err = run(*LEARN, "--agent", "tests.vault_env:Stubborn")
    assert (status, err.splitlines()[-1].endswith("--resume --out run")) == (130, True)
    summary = json.loads(Path("run/summary.json").read_text())
    assert (summary["written"], summary["in_play"]) == (True, None)
    without = Path("run/in-play/trajectories/none.jsonl").read_text()
    out, _, summary = learn(run, "Stubborn", "--resume")
    assert out.splitlines()[-1].endswith("written, and no episode improved")
    assert Path("run/in-play/trajectories/none.jsonl").read_text() == without
    assert summary["in_play"]["episodes"] == 9


def test_fewer_tasks_than_were_asked_for_an_iteration_are_said(run):
    asked = ["generate-interface", "--env", VAULT, "--agent", "tests.vault_env:Clever", "--iterations", "1"]
    for number, said in ((50, True), (20, False)):
        status, _, err = run(*asked, "--tasks-per-iteration", str(number), "--out", f"run-{number}")
        assert status == 0, err
        line = f"50 tasks an iteration were asked for, and 20 are played: {VAULT} has no more for an iteration"
        assert (line in err.splitlines()) is said
        assert "iteration 1: 20 episodes" in err


def test_what_was_not_written_is_not_offered(run):
    status, out, err = run(*LEARN, "--agent", "tests.vault_env:Clever")
    assert status == 0, err
    assert "stopped after 1 iteration (no-failures)" in out
    assert out.splitlines()[-1] == "in play: no new interface was written, so nothing changes"
    assert "interface: " not in out.replace("in play: ", "")
    assert "to measure it further" not in out


def test_fewer_tasks_at_the_end_than_were_asked_for_are_said(run, hardly_any_fresh_tasks, monkeypatch):
    from align_echo.evaluate import in_play

    used = in_play.tasks_used
    monkeypatch.setattr(in_play, "tasks_used", lambda plan, made: {*used(plan, made), *map(str, range(197))})
    _, err, summary = learn(run, "Stubborn", "--play-tasks", "4")
    assert "3 tasks and not 4 are played at the end: the run left no more of train that the" in err
    assert summary["in_play"]["tasks"] == 3


def test_what_was_not_played_is_said_to_be_unknown(run, hardly_any_fresh_tasks):
    out, err, summary = learn(run, "Obedient", "--play-tasks", "0")
    assert out.splitlines()[-1] == "in play: not played, so what the interface changes for the agent is not known"
    assert "played at the end" not in err
    assert summary["in_play"] is None
    assert not Path("run/in-play").exists()


def test_more_tasks_than_there_are_is_one_line_and_nothing_is_written(run):
    status, _, err = run(*LEARN, "--agent", "tests.vault_env:Obedient", "--play-tasks", "201")
    assert (status, err.count("\n")) == (2, 1)
    assert "the split train has 200 tasks, and 0 plays none" in err
    assert not Path("run").exists()


def summary_of(better: int, worse: int, over: tuple[float, float], **more: object) -> RunSummary:
    rate = wilson(1, 4)
    won, score = (dict.fromkeys(("none", "placebo", "full"), share) for share in (rate, rate.scaled(0.01)))
    over_placebo = {"value": sum(over) / 2, "n": 4, "ci95": over}
    in_play = {"split": "train", "tasks": 4, "episodes": 12, "won": won, "score": score, "over_none": over_placebo}
    in_play |= {"over_placebo": over_placebo, "better": better, "worse": worse, **more}
    return RunSummary.model_validate(
        {"environment": "e", "backend": "probe", "agent": "a", "seed": 0, "stopped": "no-failures", "iterations": (),
         "misalignments": 1, "rules": 1, "interface": "i", "interface_file": "i.py", "written": True, "roles": {},
         "usage": {}, "in_play": in_play}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("better", "worse", "over", "said"),
    [
        (0, 0, (0.0, 0.0), "written, and no episode improved"),
        (0, 3, (-0.9, 0.1), "written, and no episode improved, 3 got worse"),
        (0, 3, (-0.9, -0.1), f"0 of 4 episodes improved, 3 got worse; {HARMFUL}"),
        (2, 1, (-0.2, 0.4), "2 of 4 episodes improved, 1 got worse; not shown to be more than its placebo does"),
        (3, 0, (0.1, 0.4), "3 of 4 episodes improved"),
    ],
)
def test_a_verdict_claims_what_was_measured(better, worse, over, said):
    played = summary_of(better, worse, over).in_play
    assert played is not None
    assert verdict_on_play(played) == said


def test_the_line_says_what_the_figures_rest_on():
    known = play_line(summary_of(1, 0, (0.1, 0.4), known=3, faults=2))
    assert "4 tasks of train, 3 of them used to make it; 2 episodes broke and are left out" in known
    assert play_line(summary_of(1, 0, (0.1, 0.4), works=False)).startswith("in play: the interface did not work")


def test_a_summary_of_an_older_run_is_read(tmp_path):
    old = json.loads(summary_of(0, 0, (0.0, 0.0)).model_dump_json(exclude={"in_play", "written", "addressed"}))
    (tmp_path / "summary.json").write_text(json.dumps({**old, "resolved": 7, "improved": True}))
    read = RunFolder(tmp_path).summary()
    assert read is not None
    assert (read.addressed, read.written, read.in_play) == (7, True, None)
