"""`align-echo show` as a user meets it: what a run holds, one episode turn by turn, hostile text, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from align_echo.cli.main import main
from align_echo.interface.contract import Provenance, RuleRecord
from align_echo.types import Evidence, Usage
from tests.report.view.episodes import LAST, RECORD, RICH, broken, episode, hostile, lost, write

LABEL = "mine@0123456789abcdef"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of three tasks by a script."""
    folder = tmp_path_factory.mktemp("played") / "first"
    assert main(["evaluate", "--env", "m3tooleval", "--agent", "novice", "--tasks", "3", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def station(tmp_path: Path) -> Path:
    """A run of two parts with all that there is to show, and the interface's rules beside them."""
    folder = tmp_path / "station"
    write(folder / "trajectories/none.jsonl", [lost("station/10"), broken("station/11"), lost("station/2")])
    full = [episode("station/10", interface=LABEL, rules="Unseal first."), episode("station/10", sample=1)]
    write(folder / "trajectories/full.jsonl", full)
    rule = RuleRecord(text=RECORD, evidence=Evidence(support=40, refuted=1, tasks=7))
    made = Provenance(environment="station", backend="probe", content_hash=LABEL[5:], rules=(rule,))
    (folder / "interface.json").write_text(json.dumps({"provenance": made.model_dump(mode="json")}))
    (folder / "config.json").write_text(json.dumps({"interfaces": {"none": "none", "full": LABEL}}))
    return folder


def test_a_run_is_listed_part_by_part(run, station):
    status, out, err = run("show", station)
    assert (status, err) == (0, "")
    none, full = out.split("\n\n")
    assert none.splitlines() == [
        "none: 3 episodes, 0 won, 2 lost, 1 broken; interface: none",
        "  lost   0.000     2 turns  station/10",
        "  fault      -     1 turn   station/11",
        "  lost   0.000     2 turns  station/2",
    ]
    assert full.splitlines()[0] == f"full: 2 episodes, 2 won, 0 lost, 0 broken; interface: {LABEL}, none"
    assert full.splitlines()[2] == "  won    1.000     3 turns  station/10 sample 1"
    assert run("show", station, "--part", "full")[1] == full


def test_the_list_is_bounded(run, tmp_path):
    write(tmp_path / "a.jsonl", [episode(f"x/{number}") for number in range(100)])
    lines = run("show", tmp_path / "a.jsonl")[1].splitlines()
    assert (len(lines), lines[-1]) == (62, "  ... and 40 more")
    assert len(run("show", tmp_path / "a.jsonl", "--most", 5)[1].splitlines()) == 7
    for step in range(1, 31):
        write(tmp_path / "trained" / "rollouts" / f"{step}.jsonl", [episode(f"x/{number}") for number in range(5)])
    lines = run("show", tmp_path / "trained")[1].splitlines()
    assert (lines.count("  ... and 2 more"), len(lines)) == (20, 121)
    assert lines[-1] == "... and 10 more parts, from rollouts/21 to rollouts/30"


def test_a_run_of_an_agent_is_shown_turn_by_turn(run, played):
    status, out, _ = run("show", played)
    task = out.splitlines()[1].split()[-1]
    assert (status, len(re.findall(r" turns? +\S+/test-", out))) == (0, 3)
    status, out, _ = run("show", played, task)
    first = json.loads((played / "trajectories/none.jsonl").read_text().splitlines()[0])
    assert (status, out.splitlines()[0]) == (0, f"{task}, sample 0, first: none")
    assert re.findall(r"^ +(\d+)  > ", out, flags=re.MULTILINE)[0] == "1"
    assert f", {len(first['steps'])} turns; agent novice, interface none" in out
    assert first["steps"][0]["action"] in out
    assert " ".join(first["goal"].split()) in " ".join(out.split())


def test_an_episode_is_shown_with_all_that_is_told_of_a_turn(run, station):
    status, out, err = run("show", station, "station/10", "--part", "full")
    assert (status, err) == (0, "")
    turns = out.split("\n\n")
    assert turns[0].splitlines() == [
        "station/10, sample 0, station: full",
        f"won, score 1, 3 turns, 1,234 tokens; agent novice, interface {LABEL}",
        "task: stow gem 4 into pod 1",
        "rules told up front: Unseal first.",
        "You float in a station.",
    ]
    assert [line.strip() for line in turns[1].splitlines()] == [
        "1  > stow gem 4 into pod 1",
        "[3 engine calls, 1,234 tokens]",
        "reply: I think.",
        "stow gem 4 into pod 1",
        "Denied. Before `stow gem 4 into pod 1` you need to `unseal pod 1`.",
        "raw: Denied.",
        "interface error: line 3: it broke",
        "violation: board deck 9: not the agent's action",
        "forged by the interface: reward",
        "candidate 1: wrong p(correct) 0.25 log p -3.50: scan",
        "* candidate 2: correct p(correct) 0.75 log p -1.50: stow gem 4 into pod 1",
        "rule (shown, followed, silenced, did not come true): before `stow _ into _` you need to `unseal _`.",
        "on record: Before `stow X into Y` you need to `unseal Y`, when `scan` shows it (40 experiments for,",
        "1 against, 7 tasks)",
    ]
    assert "raw: the environment was not asked\n        no action: no action line" in turns[2]
    assert turns[3].splitlines() == ["   3  > scan", "        [reward +1, score 1, ended]", "        You float."]
    assert turns[4] == "the same task: none sample 0 (lost); full sample 1 (won)\n"


def test_what_an_oracle_called_the_actions_is_shown(run, tmp_path):
    write(tmp_path / "run/trajectories/played.jsonl", [episode("x/1", LAST)])
    labelled = {"task_id": "x/1", "sample": 0, "turns": [[{"action": "scan", "expert": "wrong", "nearer": "correct"}]]}
    (tmp_path / "run/labels.jsonl").write_text(json.dumps(labelled) + "\n")
    assert "\n        oracle: expert: wrong, nearer: correct: scan\n" in run("show", tmp_path / "run", "x/1")[1]


def test_a_turn_that_is_repeated_is_shown_once(run, tmp_path):
    scan = LAST.model_copy(update={"terminated": False, "usage": Usage(prompt_tokens=7)})
    write(tmp_path / "a.jsonl", [episode("x/1", RICH, scan, scan, LAST, LAST.model_copy(update={"usage": Usage()}))])
    out = run("show", tmp_path / "a.jsonl", "x/1")[1]
    assert re.findall(r"^ +(\d+)  > (.+)", out, flags=re.MULTILINE) == [
        ("1", "stow gem 4 into pod 1"), ("2", "scan"), ("4", "scan"),
    ]  # fmt: skip
    assert out.count("the same until turn 3 (2 times)") == out.count("the same until turn 5 (2 times)") == 1


def test_tokens_that_the_server_did_not_tell_are_none(run, tmp_path):
    silent = LAST.model_copy(update={"usage": Usage(prompt_tokens=None, completion_tokens=None, cost_usd=None)})
    write(tmp_path / "a.jsonl", [episode("x/1", RICH, silent)])
    out = run("show", tmp_path / "a.jsonl", "x/1")[1]
    assert out.count("tokens not told]") == 1, "the turn"
    assert "2 turns, tokens not told" in out, "the episode"
    assert "1,234 tokens" in out, "a turn that is known"


def test_a_part_of_an_id_will_do_and_a_sample_can_be_named(run, station):
    assert run("show", station, "ION/2")[1].startswith("station/2, sample 0, station: none\nlost, score 0, 2 turns")
    assert run("show", station, "10", "--sample", 1)[1].startswith("station/10, sample 1, station: full\n")
    fault = run("show", station, "station/11")[1]
    assert "fault, no score, 1 turn" in fault
    assert "fault: the model broke: no answer came" in fault


def test_what_a_critic_said_is_shown_with_the_attempt(run, tmp_path):
    write(tmp_path / "run/trajectories/round-0.jsonl", [lost()])
    write(tmp_path / "run/trajectories/round-1.jsonl", [episode(sample=1, critique="Look first.")])
    review = {"form": "echo", "critique": {"reason": "Too early.", "suggestions": ["Look first."]}}
    record = {"attempt": {"task_id": "station/0", "sample": 0, "critique": ""}, "review": review}
    (tmp_path / "run/reviews").mkdir()
    (tmp_path / "run/reviews/round-1.jsonl").write_text(json.dumps(record) + "\n")
    assert "\ncritic: Too early.\n  advice: Look first.\n" in run("show", tmp_path / "run", "station/0")[1]
    second = run("show", tmp_path / "run", "station/0", "--part", "round-1")[1]
    assert "\ncritique of an earlier attempt: Look first.\n" in second
    assert "critic: " not in second


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (["nowhere"], "there is no folder or file nowhere: name the folder of a run, or a .jsonl file of episodes"),
        (["."], ". holds no episodes: name the folder of a run, or a .jsonl file of episodes"),
        (["station", "--part", "ful"], "there is no part 'ful' here; did you mean 'full'? there are 'none', 'full'"),
        (["alone", "--part", "nope"], "there is no part 'nope' here; there is only 'none'"),
        (["station", "sun"], "no task here has 'sun' in its id; there are station/10, station/11, station/2"),
        (["station", "1"], "'1' is in the ids of 2 tasks, name more of it: station/10, station/11"),
        (["station", "10", "--sample", "7"], "station/10 has no sample 7 here; it has 0, 1"),
        (["station", "11", "--part", "full"], "no task here has '11' in its id; there are station/10"),
    ],
)
def test_bad_input_is_refused_in_one_line(run, station, arguments, refused, tmp_path, monkeypatch):
    if arguments == ["."]:
        (tmp_path / "bare").mkdir()
        monkeypatch.chdir(tmp_path / "bare")
    write(tmp_path / "alone/trajectories/none.jsonl", [lost()])
    assert run("show", *arguments) == (2, "", f"align-echo: {refused}\n")


def test_a_part_without_an_episode_that_can_be_read_is_told(run, station):
    (station / "trajectories/none.jsonl").write_text("no json\n")
    refused = "align-echo: the part 'none' has no episode that can be read\n"
    assert run("show", station, "look", "--part", "none") == (2, "", refused)


def test_hostile_text_steers_nothing_and_a_damaged_line_is_said(run, tmp_path):
    file = hostile(tmp_path / "run/trajectories/none.jsonl")
    for number in (None, *range(9)):
        status, out, err = run("show", tmp_path / "run", *([f"task/{number}"] if number is not None else []))
        assert status == 0
        assert [sign for sign in out if not (sign.isprintable() or sign == "\n")] == []
        assert err == f"{file} line 10 is damaged and left out: environment: it is missing\n"
        assert len(out) < 100_000
        assert max(map(len, out.splitlines())) < 500
    assert "half \ufffd a character shown" in out
    assert "... and 998,006 characters more" in run("show", tmp_path / "run", "task/7")[1]
