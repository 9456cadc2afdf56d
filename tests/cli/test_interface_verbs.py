"""`align-echo interface diff`, `ablate`, `export` and `import`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from align_echo.agents.spec import AgentSetting
from align_echo.base.jsonl import JsonlFile
from align_echo.evaluate.ablation import build_arms, list_switches, replay_without_rules, without_rules
from align_echo.evaluate.plan import EvaluationConfig, plan_evaluation
from align_echo.interface.contract import Interface, load_interface, save_interface
from align_echo.rollout.batches import run_tasks
from align_echo.types import Trajectory
from tests.play import source

GO = "Before `examine X` you need to `go to X`"
KEPT = (GO, "Before `move X to Y` you need to `go to Y`", "`use X` is allowed when")
"""The beginnings of three rules: one that decides tasks, one that may, one that never speaks."""
ABLATE = ["interface", "ablate", "few.py", "--env", "alfworld", "--agent", "novice", "--tasks", "3", "--out", "run"]


@pytest.fixture
def few(tmp_path):
    """The shipped interface with three of its rules, in a file."""
    shipped = load_interface("alfworld/probe")
    dropped = [rule for rule in list_switches(shipped) if not rule.startswith(KEPT)]
    return load_interface(save_interface(without_rules(shipped, dropped, "few"), tmp_path, "few"))


def worth(tmp_path) -> dict[str, dict[str, Any]]:
    rules = json.loads((tmp_path / "run" / "summary.json").read_text())["rules"]
    return {rule["rules"][0]: rule for rule in rules}


# ---------------------------------------------------------------- ablate


@pytest.mark.long
def test_a_rule_is_worth_what_is_lost_without_it(run, few, tmp_path):
    status, out, err = run(*ABLATE)
    assert status == 0, err
    rules = worth(tmp_path)
    assert len(rules) == 3
    go, silent = rules[GO], next(rule for text, rule in rules.items() if text.startswith("`use X`"))
    assert go["fired"] > 0
    assert go["played"] == 3
    assert (silent["fired"], silent["played"], silent["worth"]["value"]) == (0, 0, 0)
    assert "1 of 3 never spoke in these episodes, so they are worth nothing here and were not played" in out
    assert "as its placebo; the whole is worth" in out
    assert '"Nothing happens." answers every refused action alike' in out.partition("cannot be switched off alone")[2]
    assert not (tmp_path / "run" / "trajectories" / f"without-{silent['number']}.jsonl").exists()
    played = {path.stem: JsonlFile(path).read(Trajectory) for path in (tmp_path / "run" / "trajectories").iterdir()}
    lost = sum(a.won - b.won for a, b in zip(played["full"], played[f"without-{go['number']}"], strict=True))
    assert go["worth"]["value"] == pytest.approx(100 * lost / 3)
    assert {episode.interface.rpartition("-")[2] for episode in played["placebo"]} == {"placebo"}


def test_an_episode_that_is_not_played_anew_would_have_gone_just_so(few):
    plan = plan_evaluation(EvaluationConfig(env="alfworld", agent="novice", interface="few.py", tasks=2))
    agent = plan.player.agent.build(AgentSetting(plan.spec, plan.split, None, 0, None, None, None))

    def play(interface: Interface) -> list[Trajectory]:
        spec = plan.spec
        return run_tasks(
            lambda: spec.make(plan.split, interface=interface),
            agent,
            plan.episodes,
            split=plan.split,
            action_format=spec.action_format,
        )

    whole = play(few)
    skipped = 0
    for arm in build_arms(few):
        anew = play(arm.interface)
        for replayed, before, after in zip(replay_without_rules(plan, arm, whole), whole, anew, strict=True):
            if not replayed.is_other:
                skipped += 1
                assert [step.observation for step in after.steps] == [step.observation for step in before.steps]
                assert (after.won, after.score, after.rules) == (before.won, before.score, before.rules)
    assert skipped > 0


@pytest.mark.long
def test_one_that_was_stopped_goes_on_where_it_was(run, few, tmp_path, stop_after_first_episode):
    fewer = ["2" if word == "3" else word for word in ABLATE]
    status, _, err = run(*fewer)
    assert status == 130
    assert "--resume --out run" in err
    assert run(*fewer)[0] == 2
    assert run(*fewer, "--resume")[0] == 0
    first = (tmp_path / "run" / "summary.json").read_text()
    episodes = len(stop_after_first_episode)
    assert run(*fewer, "--resume")[0] == 0
    assert len(stop_after_first_episode) == episodes  # all of it was there
    assert (tmp_path / "run" / "summary.json").read_text() == first


def test_rules_about_one_action_are_switched_off_together(few):
    arms = build_arms(few, groups=True)
    assert [(arm.action, len(arm.rules)) for arm in arms] == [
        ("examine {0}", 1), ("move {0} to {1}", 1), ("use {0}", 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["hand.py"], "evaluate --compare plays rules only and feedback only"),
        (["none"], "name an interface"),
        (["probe", "--seed", "1", "--seed", "1"], "a seed is there twice"),
        (["probe", "--split", "nowhere"], "no split 'nowhere'"),
        (["nowhere.py"], "there is no interface file"),
    ],
)
def test_what_cannot_be_ablated_is_one_line_and_nothing_is_written(run, tmp_path, arguments, line):
    (tmp_path / "hand.py").write_text(source())
    status, _, err = run("interface", "ablate", *arguments, "--env", "alfworld", "--agent", "novice", "--out", "run")
    assert status == 2
    assert line in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- diff


def test_two_that_are_the_same_are_said_to_be(run, few):
    status, out, _ = run("interface", "diff", "few.py", "few.py", "--env", "alfworld")
    assert (status, out.splitlines()) == (0, [f"identical: {few.label} and {few.label}"])


def test_rules_evidence_and_what_is_told_up_front_are_compared(run, few, tmp_path):
    less = without_rules(few, [GO], "less")
    first, *others = less.provenance.rules
    other = first.model_copy(update={"evidence": first.evidence.model_copy(update={"support": 7})})
    changed = less.provenance.model_copy(update={"rules": (other, *others), "seed": 5})
    save_interface(less.model_copy(update={"provenance": changed}), tmp_path, "less")
    status, out, _ = run("interface", "diff", "few.py", "less.py", "--env", "alfworld")
    assert status == 0
    lines = out.splitlines()
    assert "-- Before `examine X` you may need to `go to X`" in lines
    assert f"- {GO} (2430 for, 0 against, 14 tasks)" in lines
    assert any(line.startswith("~ ") and line.endswith("-> 7 for, 0 against, 16 tasks") for line in lines)
    assert "seed: 0 -> 5" in lines
    assert any(line.startswith("@@") for line in lines)


def test_hostile_text_does_nothing_on_the_terminal(run, tmp_path):
    for name, text in (("a", "\x1b]0;owned\x07"), ("b", "\u202ereversed")):
        (tmp_path / f"{name}.py").write_text(source(f"'{text}'\nreturn '', False, False").replace("\n", "\r\n"))
    status, out, _ = run("interface", "diff", "a.py", "b.py", "--env", "alfworld")
    assert status == 0
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(out)
    assert "\\x1b]0;owned\\x07" in out
    assert "\\u202ereversed'\\r" in out


def test_rules_that_fail_are_told_of(run, tmp_path):
    (tmp_path / "a.py").write_text(source())
    (tmp_path / "b.py").write_text(source(rules="return 1 / 0"))
    status, out, _ = run("interface", "diff", "a.py", "b.py", "--env", "alfworld")
    assert status == 0
    assert "(InferRules failed: line" in out


# ---------------------------------------------------------------- export, import


def test_what_is_handed_on_is_the_same_interface(run, few, tmp_path):
    status, out, _ = run("interface", "export", "few.py", "--env", "alfworld", "--out", "few.json.txt")
    assert status == 0
    status, out, _ = run("interface", "import", "few.json.txt", "--out", "there")
    assert status == 0
    assert f"few@{few.content_hash}, for alfworld, made by probe" in out
    assert "align-echo evaluate --env alfworld --interface there/few.py" in out
    assert "identical" in run("interface", "diff", "few.py", "there/few.py", "--env", "alfworld")[1]


@pytest.mark.parametrize("verb", ["export", "audit"])
def test_no_file_is_written_where_it_would_be_an_interfaces_record(run, tmp_path, verb):
    (tmp_path / "mine.py").write_text(source())
    status, _, err = run("interface", verb, "mine.py", "--env", "alfworld", "--out", "mine.json")
    assert (status, err) == (
        2, "align-echo: mine.json would be read as the record of the interface mine.py: name another file with --out\n"
    )  # fmt: skip
    assert not (tmp_path / "mine.json").exists()


def test_a_file_that_was_changed_is_refused_and_nothing_written(run, few, tmp_path):
    run("interface", "export", "few.py", "--env", "alfworld", "--out", "shared.json")
    file = tmp_path / "shared.json"
    file.write_text(file.read_text().replace("Nothing happens.", "Nothing at all."))
    status, _, err = run("interface", "import", "shared.json", "--out", "there")
    assert status == 2
    assert len(err.splitlines()) == 1
    assert "another SHA-256" in err
    assert not (tmp_path / "there").exists()


# ---------------------------------------------------------------- show


def test_where_an_interface_came_from_is_shown_with_its_rules(run, few):
    _, out, _ = run("interface", "show", "few.py", "--env", "alfworld")
    assert "made with: agent novice; seed 0, 8 iterations, 198 training tasks" in out
    counts = r"rules on record: [\d,]+ experiments for, 0 against, at most \d+ tasks a rule; 0 of 4 rules not confirmed"
    assert re.search(counts, out)
    assert next(line for line in out.splitlines() if GO in line).split()[-3:] == ["2430", "0", "14"]
