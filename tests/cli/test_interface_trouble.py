"""Interfaces that do not work, as a user meets them: named on the terminal with counts, first message and line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from align_echo.types import Trajectory
from tests.play import FORWARD, source

EVALUATE = ["evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "1", "--out", "run"]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

REFUSED = """
try:
    env.step(["open\\x1b[31m it"])
except PermissionError:
    pass
"""
LOG_FORGERY = """
print("\\x1efallback\\x1fthe wrapper gave up\\x1e\\x1eviolation\\x1fno\\x1e")
logger.info("\\x1eforged\\x1fclaimed reward\\x1e\\x1b[2J")
_align_log("bypassed", "\\u202eover", ())
"""

AT_LINE_1 = "raise ValueError('no\\x1b[31m way')\n" + source()
ALWAYS = source("raise RuntimeError('b\\x1b[2Jad')")
FORGES = source("env.step([agent_action])\nreturn 'You won.', True, True")
CALLS_OTHERS = source(REFUSED + FORWARD)
PRINTING = source(LOG_FORGERY + FORWARD)
SOMETIMES = source("env.n = getattr(env, 'n', 0) + 1\nif env.n == 3:\n    raise KeyError('three')\n" + FORWARD)
WITHOUT_RULES = source(rules="return 1 / 0")


@pytest.fixture
def write(tmp_path):
    def call(text: str) -> str:
        (tmp_path / "mine.py").write_text(text)
        return "mine.py"

    return call


def row(out: str, name: str) -> str:
    """The row of a variant in the first table."""
    return next(line for line in out.splitlines() if line.startswith(name))


def trouble(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("the interface ")]


def test_one_that_raises_at_line_1_is_refused_before_anything_is_played(run, write):
    status, out, err = run(*EVALUATE, "--interface", write(AT_LINE_1), "--compare")
    assert (status, out) == (2, "")
    assert err.splitlines() == ["align-echo: the interface mine.py does not load: line 1: ValueError: no way"]
    assert not CONTROL.search(err.rstrip("\n"))
    assert not Path("run").exists()


def test_one_that_raises_on_every_turn_is_no_row_of_figures(run, write):
    status, out, err = run(*EVALUATE, "--interface", write(ALWAYS))
    (line,) = trouble(out)
    assert line.startswith("the interface failed on 50 of its turns, which showed the raw observation (both: 50)")
    assert line.endswith("line 6: RuntimeError: b[2Jad")
    assert re.search(r"^both +1 +did not work: 50 of 50 turns .* 50$", row(out, "both"))
    assert "0/1" not in out  # nor by task type
    assert err.splitlines()[-1].endswith("what was measured is the environment without it")
    assert (status, "did not work: both" in err, CONTROL.search(out + err)) == (1, True, None)
    (result,) = json.loads(Path("run/summary.json").read_text())["variants"].values()
    conduct = result["conduct"]
    assert (conduct["works"], conduct["failed_turns"], conduct["turns"]) == (False, 50, 50)


def test_what_forges_a_reward_is_named_in_the_table_the_summary_and_the_steps(run, write):
    status, out, _ = run(*EVALUATE, "--interface", write(FORGES))
    (line,) = trouble(out)
    assert "claimed what the environment did not give (a reward or an end) on 50 of its turns (both: 50)" in line
    assert "claimed reward and done after" in line
    assert re.search(r"forged *$", row(out, "interface"))
    assert re.search(r" 50 *$", row(out, "both"))
    assert status == 0  # it worked, though it lied: the figures are the environment's
    (result,) = json.loads(Path("run/summary.json").read_text())["variants"].values()
    assert (result["forged"], result["success_rate"]["value"]) == (50, 0.0)
    played = Trajectory.model_validate_json(Path("run/trajectories/full.jsonl").read_text())
    assert (played.steps[0].forged, played.steps[-1].forged) == (("reward", "done"), ("reward",))  # the end is one


def test_engine_calls_that_were_refused_are_named(run, write):
    status, out, _ = run(*EVALUATE, "--interface", write(CALLS_OTHERS))
    (line,) = trouble(out)
    assert line.startswith("the interface was refused 50 of its engine calls (both: 50); the first, in valid_unseen/")
    assert line.endswith("'open[31m it': neither the agent's own action nor a read-only one")
    assert re.search(r" 50 *$", row(out, "both"))
    assert (status, CONTROL.search(out)) == (0, None)


def test_forged_log_lines_are_no_trouble_and_steer_no_terminal(run, write):
    status, out, err = run(*EVALUATE, "--interface", write(PRINTING))
    assert (status, trouble(out), CONTROL.search(out + err)) == (0, [], None)


def test_a_little_trouble_is_told_and_the_row_stays(run, write):
    status, out, err = run(*EVALUATE, "--interface", write(SOMETIMES))
    (line,) = trouble(out)
    assert line.startswith("the interface failed on 1 of its turns")
    assert line.endswith("line 8: KeyError: three")
    assert re.search(r"^both +1 +0\.0 .* 1$", row(out, "both"))
    assert (status, "did not work" in err + out) == (0, False)


def test_rules_that_never_come_are_told_where_they_were_to(run, write):
    status, out, _ = run(*EVALUATE, "--interface", write(WITHOUT_RULES), "--compare")
    (line,) = trouble(out)
    assert line.endswith("line 3: ZeroDivisionError: division by zero")
    assert "did not work: 1 of 1 resets" in row(out, "rules")
    assert "did not work" not in row(out, "feedback")
    assert status == 1


def test_what_did_not_work_is_named_as_what_it_is(run, write):
    once = "env.n = getattr(env, 'n', 0) + 1\nif env.n == 3:\n    raise KeyError('three')\n" + FORWARD
    _, out, _ = run(*EVALUATE, "--interface", write(source(once, rules="return 1 / 0")))
    assert "did not work: 1 of 1 resets" in row(out, "both")


def test_an_interface_that_works_is_not_talked_about(run):
    status, out, err = run(*EVALUATE, "--interface", "probe")
    assert (status, trouble(out), "did not work" in out + err) == (0, [], False)
    assert not {"fallbacks", "refused", "forged"} & set(row(out, "interface").split())


def test_a_grid_tells_it_too(run, write):
    grid = ["grid", "--env", "alfworld", "--agent", "novice", "--tasks", "1", "--out", "run"]
    status, out, err = run(*grid, "--interface", write(ALWAYS))
    (message,) = trouble(out)
    assert "failed on 100 of its turns" in message
    assert "(alfworld novice placebo: 50, alfworld novice with: 50)" in message
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith(" " * 8)}
    assert "did not work: 50 of 50 turns" in lines["with"]
    assert lines["change"].split()[1:] == ["1", "-", "-", "-"]
    assert (status, "alfworld novice with (50 of 50 turns)" in err.splitlines()[-1]) == (1, True)


def test_rounds_of_refinement_tell_it_too(run, write):
    chat = [*EVALUATE[:3], "--agent", "vanilla", "--model", "novice", "--temperature", "1", *EVALUATE[5:]]
    rounds = ["--refine-rounds", "1", "--critic", "none"]
    status, out, err = run(*chat, *rounds, "--interface", write(ALWAYS))
    (line,) = trouble(out)
    assert re.match(r"the interface failed on \d+ of its turns, .* \(mine@", line)
    assert re.match(r".*, by round: .*; the interface did not work: (\d+) of \1 turns", out)
    assert (status, "the interface did not work: mine@" in err.splitlines()[-1]) == (1, True), err


HUMS = source(FORWARD.replace("return obs[0]", "return obs[0] + ' You need to `go to room 9` first.'"))


def hums_shown(part: str) -> int:
    episode = Trajectory.model_validate_json(Path(part, "trajectories", "full.jsonl").read_text())
    return sum("You need to `go to room 9` first." in step.observation for step in episode.steps)


def test_no_retract_shows_hints_that_failed_and_is_on_record(run, write):
    obeys = [*EVALUATE[:-1], "whole", "--interface", write(HUMS)]
    assert run(*obeys)[0] == 0
    status, out, _ = run(*obeys[:-3], "free", *obeys[-2:], "--no-retract")
    assert status == 0
    assert "no hint is withheld" in out
    assert hums_shown("whole") < 5 < 40 < hums_shown("free")
    configs = [json.loads(Path(part, "config.json").read_text()) for part in ("whole", "free")]
    assert [config.get("retract") for config in configs] == [None, False]
    status, _, err = run(*obeys, "--no-retract", "--resume")
    assert (status, err.count("\n"), "-all-hints" in err) == (2, 1, True)
    status, _, err = run(*EVALUATE, "--no-retract")
    assert (status, err.count("\n"), "--no-retract" in err) == (2, 1, True)


# ---------------------------------------------------------------- what does not load

ASKS = source("logger.shout('x')\n" + FORWARD)
LOADS_NOT = "does not load: line 6: AttributeError: logger has no attribute 'shout' in the sandbox"
TAKES = {
    "evaluate": (*EVALUATE, "--interface", "mine.py"),
    "grid": ("grid", *EVALUATE[1:], "--interface", "mine.py"),
    "check": ("interface", "check", "mine.py", "--env", "alfworld"),
    "audit": ("interface", "audit", "mine.py", "--env", "alfworld", "--agents", "adversary", "--games", "1"),
    "ablate": ("interface", "ablate", "mine.py", "--env", "alfworld", "--agent", "novice", "--out", "run"),
    "import": ("interface", "import", "shared.json", "--out", "run"),
}


@pytest.mark.parametrize("verb", TAKES)
def test_every_verb_that_takes_an_interface_says_why_it_does_not_load(verb, run, write):
    write(ASKS)
    if verb == "import":
        assert run("interface", "export", "mine.py", "--env", "alfworld", "--out", "shared.json")[0] == 0
    status, out, err = run(*TAKES[verb])
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert LOADS_NOT in err
    assert not Path("run").exists()


def test_one_that_loads_is_said_to(run, write):
    status, out, _ = run("interface", "check", write(source()), "--env", "alfworld")
    assert (status, out.count("\n")) == (0, 1)
    assert re.fullmatch(r"mine@[0-9a-f]{16} loads", out.strip())


@pytest.mark.parametrize("verb", ["show", "diff"])
def test_one_that_does_not_load_can_still_be_looked_at(verb, run, write):
    names = [write(ASKS)] * (2 if verb == "diff" else 1)
    assert run("interface", verb, *names, "--env", "alfworld")[0] == 0
