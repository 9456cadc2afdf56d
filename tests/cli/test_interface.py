"""`align-echo interface`: what became of an interface's hints, and what later runs know of it."""

from __future__ import annotations

import json
from typing import Any

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


@pytest.mark.long
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
        (["show", "probe", "--env", "alfworld", "--run", "nowhere"], "there is no folder nowhere"),
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


# ---------------------------------------------------------------- audit

AUDIT = ["interface", "audit", "--env", "alfworld", "--games", "2", "--turns", "6"]


@pytest.mark.long
def test_the_shipped_interface_tells_every_speaker_the_truth(run, tmp_path):
    speakers = "adversary,random,expert-slips,novice"
    status, out, _ = run(*AUDIT, "probe", "--agents", speakers, "--out", "audit.json")
    assert status == 0, out
    made = json.loads((tmp_path / "audit.json").read_text())
    assert [speaker["speaker"] for speaker in made["speakers"]] == speakers.split(",")
    for speaker in made["speakers"]:
        total = speaker["total"]
        assert total["right"] > 0
        assert (total["wrong"], speaker["circles"], speaker["broken"], speaker["examples"]) == (0, 0, 0, [])
        assert f"{speaker['speaker']}: 2 games" in out
    run(*AUDIT, "probe", "--agents", speakers, "--out", "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "audit.json").read_text()


def test_one_that_lies_is_found_out_by_every_speaker(run, lies, tmp_path):
    status, out, err = run(*AUDIT, lies, "--agents", "adversary,random,expert-slips", "--out", "audit.json")
    assert status == 1
    assert "claims did not hold when they were tried" in err.splitlines()[-1]
    for speaker in json.loads((tmp_path / "audit.json").read_text())["speakers"]:
        assert (speaker["total"]["right"], speaker["total"]["share"]["value"]) == (0, 0.0)
        assert speaker["total"]["wrong"] > 5
    assert "did not hold: do: alfworld/valid_unseen" in out or "go to hell 1" in out


def test_an_audit_in_which_nothing_was_tried_is_no_pass(run, tmp_path):
    says = source("obs, reward, done, info = env.step([agent_action])\nreturn obs[0] + SAID, info['won'][0], done[0]")
    for said, messages in (("''", "0 messages"), ("' That is how things are.'", "messages")):
        (tmp_path / "silent.py").write_text(f"SAID = {said}\n{says}")
        status, out, err = run(*AUDIT, "silent.py", "--agents", "random")
        assert status == 3
        assert "none of its claims was tried: that is no pass" in out
        assert err.splitlines()[-1].startswith("nothing was tested: ")
        assert messages in err.splitlines()[-1]


GATE = '''
import gymnasium as gym


class Gate(gym.Env):
    """A gate with a key, that lists what can be done and answers what cannot be done with whatever."""

    observation_space = action_space = gym.spaces.Text(200)

    def reset(self, *, seed=None, options=None):
        self.key = False
        return "A gate, and a key on a nail.", {"admissible_actions": self.listed()}

    def listed(self):
        walks = ["walk north", "walk east", "walk south", "walk west"]
        return [*walks, *(["open gate", "drop key"] if self.key else ["grab key"])]

    def step(self, action):
        taken = action in self.listed()
        won = taken and action == "open gate"
        if taken and "key" in action:
            self.key = action == "grab key"
        text = "Done." if taken else f"Hm ({len(action)})."
        return text, float(won), won, False, {"admissible_actions": self.listed()}
'''
GATE_SOURCE = '''
def InferRules(init_obs, task):
    return ""


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, reward, done, info = env.step(agent_action)
    if obs == "Done." and "key" in agent_action:
        env.key = agent_action == "grab key"
    elif agent_action == "open gate" and not getattr(env, "key", False):
        obs = obs + " It is locked. You have to {step} first."
    return obs, reward, done
'''


@pytest.mark.parametrize(("step", "right"), [("grab key", True), ("kick gate", False)])
def test_a_strangers_environment_is_audited_though_no_text_tells_a_refusal(run, tmp_path, monkeypatch, step, right):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gateworld.py").write_text(GATE)
    (tmp_path / "gate.py").write_text(GATE_SOURCE.replace("{step}", step))
    made = ["interface", "audit", "gate.py", "--env", "gateworld:Gate", "--agents", "adversary,random", "--games", "8"]
    status, out, _ = run(*made, "--out", "audit.json", "--turns", "12")
    assert status == (0 if right else 1), out
    for speaker in json.loads((tmp_path / "audit.json").read_text())["speakers"]:
        total = speaker["total"]
        assert (total["right"] > 0, total["wrong"] > 0) == (right, not right), out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["probe", "--agents", "nobody"], "unknown speaker 'nobody'; known: adversary, random, pocket, expert-slips, "),
        (["probe", "--agents", "expert-slip"], "did you mean expert-slips"),
        (["probe", "--split", "nowhere"], "no split 'nowhere'"),
        (["none"], "name an interface"),
    ],
)
def test_what_cannot_be_audited_is_one_line(run, arguments, line):
    status, _, err = run(*AUDIT, *arguments)
    assert status == 2
    assert line in err.splitlines()[-1]


# ---------------------------------------------------------------- audit of rules told up front, and of own episodes

DESK = ["interface", "audit", "desk.py", "--env", "tests.desk_env:PLAIN", "--games", "3", "--turns", "6"]
DESK_SOURCE = '''
def InferRules(init_obs, task):
    return {told!r}


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, reward, done, info = env.step(agent_action)
    if obs.startswith("Refused: no weight"):
        obs = obs + {said!r}
    return obs, reward, done
'''


@pytest.fixture
def desk(run, tmp_path):
    """An interface of the desk by its texts, and a run of an agent that sends before it weighs."""
    (tmp_path / "hasty.py").write_text(HASTY)
    status, _, err = run(
        *("evaluate", "--env", "tests.desk_env:PLAIN", "--agent", "hasty:Hasty", "--tasks", "3", "--out", "own")
    )
    assert status == 0, err

    def write(told: str = "", said: str = "") -> None:
        (tmp_path / "desk.py").write_text(DESK_SOURCE.format(told=told, said=said))

    return write


HASTY = '''
from align_echo.types import AgentReply

WAY = ("send", "label", "seal", "weigh", "label", "label")


class Hasty:
    """Sends first, and seals before it weighs."""

    name = "hasty"

    def act(self, view):
        action = WAY[len(view.turns)]
        return AgentReply(text=action, action=action)
'''


@pytest.mark.parametrize("own", [["--run", "own"], ["--agents", "hasty:Hasty"]], ids=["recorded", "played"])
@pytest.mark.parametrize(
    ("told", "said", "status", "line"),
    [
        ("- Before `send` you need to `weigh`", "", 0, "told up front: 1 rule, 1 of them tried, 3 trials"),
        ("- Before `weigh` you need to `seal`\n- Before `label` you need to `seal`", "", 1, "1 of 1 orders obeyed"),
        ("- Write `weigh` instead of `send`", "", 0, "told up front: 1 rule, 1 of them tried, 3 trials"),
        ("- Write `send` instead of `seal`", "", 1, "`send` is refused where `seal` is understood"),
        ("- Parcels are heavy", "", 3, "told up front: 1 rule, 0 of them tried, 0 trials"),
        ("", " You need to `weigh` first.", 0, "3 of 3 orders obeyed"),
        ("", " You need to `stamp` first.", 1, "did not hold: do: "),
        ("", " Have patience.", 3, "0 of 0 orders obeyed"),
    ],
)
def test_an_audit_ends_by_what_an_agents_own_episodes_show(run, desk, own, told, said, status, line):
    if "weigh` you need to `seal" in told:
        line = "is possible without `seal`"
    desk(told, said)
    ended, out, err = run(*DESK, *own)
    assert ended == status, out + err
    assert line in out
    assert ("nothing was tested: " in err) == (status == 3)
    assert ("did not hold when they were tried" in err) == (status == 1)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_stopped_audit_has_the_status_of_a_stop_and_what_it_found_by_then(run, desk, monkeypatch, tmp_path, is_late):
    from align_echo.evaluate.audit.audit import Auditor

    played, plays = list[str](), Auditor.play

    def play(self: Auditor, task: str, **how: Any) -> None:
        if played or not is_late:
            raise KeyboardInterrupt
        played.append(task)
        plays(self, task, **how)

    desk()
    monkeypatch.setattr(Auditor, "play", play)
    status, _, err = run(*DESK, "--agents", "adversary", "--out", "audit.json")
    assert status == 130
    assert "nothing was tested" not in err
    assert json.loads((tmp_path / "audit.json").read_text())["stopped"]


def test_orders_of_which_none_is_obeyed_are_no_pass(run, desk, monkeypatch):
    desk("", " You need to `weigh` first. Nothing called `attic` was seen so far.")
    monkeypatch.setattr("align_echo.evaluate.audit.audit.Auditor._taken", lambda self, action: None)
    status, _, err = run(*DESK, "--run", "own")
    assert status == 3
    assert "0 of 3 orders obeyed" in err


def test_a_run_without_episodes_here_is_one_line(run, desk):
    desk()
    status, _, err = run(*DESK[:2], "probe", "--env", "alfworld", "--run", "own")
    assert status == 2
    assert err.splitlines()[-1].endswith("own holds no whole episode in alfworld: name the folder of a run that played")
