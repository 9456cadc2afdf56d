"""`align-echo interface`: what became of an interface's hints, and what later runs know of it."""

from __future__ import annotations

import json

import pytest

from tests.play import source

EVALUATE = ["evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "6", "--out", "run"]
LIES = source(
    """
    obs, reward, done, info = env.step([agent_action])
    text = " You need to `go to hell 1` first." if obs[0] == "Nothing happens." else ""
    return obs[0] + text, info["won"][0], done[0]
    """
)
RULE = "you need to `go to _` first."


@pytest.fixture
def lies(tmp_path):
    (tmp_path / "lies.py").write_text(LIES)
    return "lies.py"


def hints(tmp_path, run: str, variant: str = "full") -> list[dict[str, object]]:
    made = json.loads((tmp_path / run / "summary.json").read_text())["variants"][variant]["hints"]
    return list(made)


def test_what_does_not_come_true_is_told_counted_and_remembered_only_when_asked(run, lies, tmp_path):
    status, out, _ = run(*EVALUATE, "--interface", lies)
    assert status == 0
    assert "gave hints that were followed and did not come true, and was silenced on them, in 6 of the episodes" in out
    (count,) = hints(tmp_path, "run")
    assert (count["rule"], count["failed"], count["silenced"]) == (RULE, 6, 6)
    assert count["fired"] == count["followed"] == 6

    status, out, _ = run("interface", "show", lies, "--env", "alfworld", "--run", "run")
    assert status == 0
    assert next(line for line in out.splitlines() if line.startswith(RULE)).split()[-5:] == ["6", "6", "0", "6", "6"]
    assert "Record of earlier runs" not in run("interface", "show", lies, "--env", "alfworld")[1]

    run("interface", "show", lies, "--env", "alfworld", "--run", "run", "--keep")
    assert f"silenced from the start: {RULE}" in run("interface", "show", lies, "--env", "alfworld")[1]
    _, out, _ = run(*EVALUATE[:-1], "again", "--interface", lies)
    assert "-1-silenced" in (tmp_path / "again" / "config.json").read_text()
    (count,) = hints(tmp_path, "again")
    assert (count["fired"], count["followed"], count["silenced"]) == (0, 0, 6)


def test_an_interface_that_is_right_is_said_nothing_of(run, tmp_path):
    _, out, _ = run(*EVALUATE, "--interface", "probe")
    assert "silenced" not in out
    assert "did not come true" not in out
    assert sum(int(str(count["came_true"])) for count in hints(tmp_path, "run")) > 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["show", "probe", "--env", "alfworld", "--keep"], "name its folder with --run"),
        (["show", "none", "--env", "alfworld"], "name an interface"),
        (["show", "probe", "--env", "alfworld", "--run", "nowhere"], "no episode of nowhere was played under"),
    ],
)
def test_what_cannot_be_shown_is_one_line(run, arguments, line):
    status, _, err = run("interface", *arguments)
    assert status == 2
    assert line in err
    assert len(err.splitlines()) == 1


def test_the_record_of_a_shipped_interface_is_not_touched(run):
    run(*EVALUATE, "--interface", "probe")
    status, _, err = run("interface", "show", "probe", "--env", "alfworld", "--run", "run", "--keep")
    assert status == 2
    assert "beside a .py file of your own" in err
