"""`align-echo study`: one file, its tables and its folder; what is finished is not made again, bad files are refused.

Left out: how interfaces are learned (`test_generate.py`) and a grid's figures (`test_grid.py`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.cli.console import new_folder
from align_echo.evaluate.study import StudySummary, plan_study
from align_echo.evaluate.study_file import studies
from align_echo.interface.contract import identity, save_interface
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.catalogue import environment
from tests.align.endpoint import Reply, serve

SHIPPED = (
    "environments: [alfworld, webshop]\nagents: [novice]\ninterface: probe\ntasks: 2\nablations: [rules, feedback]\n"
)
LEARNED = (
    "environments: [alfworld]\nagents: [novice, expert]\ninterface: generate\niterations: 1\n"
    "tasks_per_iteration: 1\ntasks: 2\ntransfer: [[novice, expert]]\n"
)
VERIFICATION = "ablations: [verification]\n"
AGENT = "agents.0: an agent is a name or {agent: NAME, model: NAME}, without "
MISREAD = "can be misread: write a number in plain digits"
REACT = SHIPPED.replace("[novice]", "[{agent: react, model: novice}, {agent: react, model: novice-stubborn}]")
BY_MODEL = LEARNED.partition("transfer")[0] + "backend: llm\n"
TWO_REACTS = "{agent: react, model: novice} or {agent: react, model: novice-stubborn}"


def summary(folder: str) -> StudySummary:
    return StudySummary.model_validate_json(Path(folder, "summary.json").read_text())


def write(text: str) -> str:
    Path("mine.yaml").write_text(text)
    return "mine.yaml"


def files(folder: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


BAD = {
    "unknown key": (SHIPPED + "colour: red\n", "mine.yaml: colour: there is no such setting"),
    "no mapping": ("[a]", "mine.yaml must hold names and values"),
    "no YAML": ("a: [1,\nb: 2", "mine.yaml is no YAML: line 2: expected ',' or ']'"),
    "half a hexadecimal": (SHIPPED.replace("tasks: 2", "tasks: 0x_"), f"mine.yaml: line 4: '0x_' {MISREAD}"),
    "no such month": (SHIPPED.replace("tasks: 2", "tasks: 2024-13-01"), "mine.yaml: tasks: "),
    "5000 digits": (SHIPPED.replace("tasks: 2", f"tasks: {'7' * 5000}"), f"7...' {MISREAD}"),
    "no integer": (SHIPPED + "x: !!int abc\n", f"mine.yaml: line 6: 'abc' {MISREAD}"),
    "no float": (SHIPPED + "x: !!float abc\n", f"mine.yaml: line 6: 'abc' {MISREAD}"),
    "no boolean": (SHIPPED + "x: !!bool abc\n", "mine.yaml: line 6: 'abc' can be misread: write true or false"),
    "no time": (SHIPPED + "x: !!timestamp abc\n", "mine.yaml: x: there is no such setting"),
    "base 60": (SHIPPED.replace("tasks: 2", "tasks: 1:2"), f"mine.yaml: line 4: '1:2' {MISREAD}"),
    "octal": (SHIPPED.replace("tasks: 2", "tasks: 010"), f"mine.yaml: line 4: '010' {MISREAD}"),
    "a set": (SHIPPED.replace("[novice]", "!!set {novice}"), "mine.yaml: line 2: the tag"),
    "true tasks": (SHIPPED.replace("tasks: 2", "tasks: true"), "mine.yaml: tasks: must be a whole number"),
    "true temperature": (REACT + "temperature: true\n", "mine.yaml: temperature: write a number"),
    "a key twice": (SHIPPED + "tasks: 3\n", "mine.yaml: line 6: the key 'tasks' is there twice"),
    "no list": (SHIPPED.replace("[alfworld, webshop]", "webshop"), "mine.yaml: environments: write a list: [webshop]"),
    "no list of ablations": (SHIPPED.replace("[rules, feedback]", "rules"), "ablations: write a list: [rules]"),
    "empty ablations": (
        SHIPPED.replace("[rules, feedback]", ""),
        "mine.yaml: ablations: nothing is there: write a list",
    ),
    "empty list": (SHIPPED.replace("[novice]", "[]"), "mine.yaml: agents: the list is empty: name at least one"),
    "transfer without pairs": (
        LEARNED.replace("[[novice, expert]]", "[novice, expert]"),
        "transfer.0: write a pair: [[",
    ),
    "workers without end": (SHIPPED + "workers: 100000000\n", "mine.yaml: workers: must be at most"),
    "no tasks": (SHIPPED.replace("tasks: 2", "tasks: 0"), "mine.yaml: tasks: "),
    "too many tasks": (SHIPPED.replace("tasks: 2", "tasks: 135"), "alfworld: the split has 134 tasks"),
    "misspelt key": (
        "environments: [alfworld]\nagents: [novice]\nfoo: 1\n",
        "mine.yaml: interface: it is missing; foo: there is no such setting",
    ),
    "missing key": ("environments: [alfworld]\nagents: [novice]\n", "mine.yaml: interface: it is missing"),
    "unknown environment": (SHIPPED.replace("webshop", "narnia"), "unknown environment 'narnia'"),
    "environment twice": (SHIPPED.replace("webshop", "alfworld"), "environments: alfworld is there twice"),
    "unknown agent": (SHIPPED.replace("novice", "bond"), "unknown agent 'bond'"),
    "an agent of other keys": (SHIPPED.replace("[novice]", "[{agent: novice, mood: glad}]"), f"{AGENT}mood"),
    "a misspelt key of an agent": (SHIPPED.replace("[novice]", "[{agent: novice, modle: x}]"), f"{AGENT}modle"),
    "a player under two names": (
        SHIPPED.replace("[novice]", "[react, {agent: react, model: novice}]"),
        "agents: react and {agent: react, model: novice} are one player: name each once",
    ),
    "one of several of a name": (
        REACT.replace("interface: probe", "interface: generate")
        + "transfer: [[react, {agent: react, model: novice}]]\n",
        f"transfer: react is not among the agents: write it as there, {TWO_REACTS}",
    ),
    "a model of no use": (SHIPPED.replace("[novice]", "[{agent: novice, model: m}]"), "novice asks no model"),
    "no such novice": (SHIPPED.replace("novice", "novice-careful"), "for webshop; use another agent or model\n"),
    "no interface": (SHIPPED.replace("probe", "none"), "a study plays without and with an interface"),
    "no such interface": (SHIPPED.replace("probe", "nosuch"), "no interface named alfworld/nosuch"),
    "two ways to give a seed": (SHIPPED + "seed: 1\nseeds: [1, 2]\n", "seeds: seed is there too"),
    "no such ablation": (SHIPPED.replace("[rules", "[sleep"), "mine.yaml: ablations.0: "),
    "temperature of no model": (SHIPPED + "temperature: 1\n", "no agent of this study asks a model"),
    "tokens of no model": (SHIPPED + "max_tokens: 300\n", "no model is asked in this study: leave max_tokens out"),
    "address of no model": (
        SHIPPED + "base_url: nonsense\n",
        "is asked at an endpoint in this study: leave base_url out",
    ),
    "learning that is not done": (SHIPPED + "iterations: 2\n", "iterations: nothing is learned in this study"),
    "transfer of what is shipped": (SHIPPED + "transfer: [[novice, novice]]\n", "transfer: novice plays its own"),
    "transfer to a stranger": (LEARNED.replace("expert]]", "random]]"), "random is not among the agents"),
    "no model to learn with": (BY_MODEL, "needs a chat model: add analyzer_model and optimizer_model\n"),
    "half a model to learn with": (BY_MODEL + "optimizer_model: m\n", "needs a chat model: add analyzer_model: NAME\n"),
    "a model of the probe": (LEARNED + "analyzer_model: m\n", "leave analyzer_model and optimizer_model out"),
    "a script to learn with": (
        BY_MODEL + "analyzer_model: novice\noptimizer_model: m\n",
        "can only play: add analyzer_model and optimizer_model, or backend: probe",
    ),
    "what the probe cannot leave out": (LEARNED + VERIFICATION, "verification: alfworld, novice: the probe is"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_line_status_2_and_nothing_written(case, run):
    text, message = BAD[case]
    status, out, err = run("study", write(text), "--out", "out")
    assert (status, err.count("\n"), out) == (2, 1, ""), err
    assert message in err
    assert {path.name for path in Path().iterdir()} == {"mine.yaml"}


def test_an_interface_that_does_not_parse_is_named(run):
    Path("broken.py").write_text("def (")
    text = SHIPPED.replace("probe", "./broken.py")
    status, _, err = run("study", write(text), "--out", "out")
    assert (status, err.count("\n"), Path("out").exists()) == (2, 1, False)
    assert "interface: ./broken.py: interface code does not parse: line 1" in err


def test_the_ending_of_a_file_is_read_without_regard_to_case(run):
    Path("D.YAML").write_text(SHIPPED + "colour: red\n")
    assert "D.YAML: colour: there is no such setting" in run("study", "D.YAML")[2]


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_no_folder(name, run):
    refused = "align-echo: --out: it is empty: give it a path; see align-echo study --help\n"
    assert run("study", "offline", "--out", name) == (2, "", refused)
    assert list(Path().iterdir()) == []


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own():
    assert len({new_folder("study", "offline") for _ in range(5)}) == 5


def test_a_name_that_no_study_has_is_answered_with_those_there_are(run):
    status, _, err = run("study", "ofline", "--out", "out")
    assert (status, err.count("\n")) == (2, 1)
    assert "unknown study 'ofline'; did you mean offline? known: offline, probe; your own is a FILE.yaml" in err
    assert "there is no file nowhere.yaml" in run("study", "nowhere.yaml")[2]


def test_studies_that_come_along_can_be_played():
    for name in studies():
        plan = plan_study(name)
        assert len({evaluation.spec.name for evaluation in plan.evaluations.values()}) == 3
        assert {"main", "rules", "feedback"} < {part.partition(", seed ")[0] for part in plan.parts}


@pytest.mark.long
def test_a_file_gives_tables_and_a_summary_and_the_same_seed_gives_them_again(run):
    status, out, err = run("study", write(SHIPPED), "--out", "run")
    assert status == 0, err
    assert "interface probe, its rules alone (without WrapStep)" in out
    assert "interface probe, its feedback alone (without InferRules)" in out
    assert "faults: none" in out
    assert "…" not in out
    played = summary("run")
    assert list(played.parts) == ["main", "rules", "feedback"]
    for grid in played.parts.values():
        assert [(cell.environment, cell.agent, cell.tasks) for cell in grid.cells] == [
            ("alfworld", "novice", 2),
            ("webshop", "novice", 2),
        ]
    whole, half = (played.parts[name].cells[0] for name in ("main", "feedback"))
    assert whole.without == half.without
    assert whole.placebo == half.placebo
    assert half.with_interface.interface == f"{whole.with_interface.interface}-rules"
    for variant in ("none", "placebo", "rules", "feedback", "full"):
        assert Path(f"run/evaluations/webshop/novice/trajectories/{variant}.jsonl").exists()
    tables = Path("run/study.md").read_text()
    assert "- placebo: the same interface with neutral words for its own; it is worth what it adds" in tables
    assert tables.count("| alfworld | novice | without | 2 |") == 3
    assert tables.count("| webshop | novice | over placebo | 2 |") == 3

    assert run("study", "mine.yaml", "--out", "again")[0] == 0
    assert Path("again/study.md").read_text() == tables
    assert summary("again") == played
    assert files("again") == files("run")


def test_a_study_is_not_gone_on_with_once_its_interface_is_another(run):
    code = identity(environment("alfworld").contract)
    save_interface(code, Path(), "mine_interface")
    text = SHIPPED.replace(", webshop", "").replace("interface: probe", "interface: ./mine_interface.py")
    assert run("study", write(text), "--out", "run")[0] == 0
    Path("run/summary.json").unlink()
    save_interface(code.model_copy(update={"source": code.source + "# another\n"}), Path(), "mine_interface")
    status, _, err = run("study", "mine.yaml", "--out", "run", "--resume")
    assert (status, err.count("\n"), "was started with interfaces" in err) == (2, 1, True), err


@pytest.mark.long
def test_a_stopped_study_goes_on_and_makes_nothing_twice(run, hardly_any_fresh_tasks, stop_after_first_episode):
    text = LEARNED.replace("tasks: 2", "tasks: 1")
    status, _, err = run("study", write(text), "--out", "run")
    assert status == 130
    assert err.splitlines()[-1].endswith("--resume --out run")
    status, _, err = run("study", "mine.yaml", "--out", "run")  # without --resume it is left alone
    assert (status, err.count("\n"), "--resume" in err) == (2, 1, True), err
    status, _, err = run("study", write(text + "seed: 1\n"), "--resume", "--out", "run")
    assert (status, err.count("\n"), "was started with seed = 0, not 1" in err) == (2, 1, True), err
    both = text.replace("[novice, expert]", "[novice, expert, {agent: react, model: novice}]", 1)
    status, _, err = run("study", write(both), "--resume", "--out", "run")
    shown = "agents = [novice, expert], not [novice, expert, {agent: react, model: novice}]; resume"
    assert (status, err.count("\n"), shown in err) == (2, 1, True), err

    status, out, err = run("study", write(text), "--resume", "--out", "run")
    assert status == 0, err
    # Two interfaces from one episode each, three sides of two agents, and two sides of what one has from the other.
    assert len(stop_after_first_episode) == 2 + 6 + 2
    assert "Without and with the interface that novice learned" in out
    played = summary("run")
    assert list(played.parts) == ["main", "transfer novice > expert"]
    (guest,) = played.parts["transfer novice > expert"].cells
    own = {cell.agent: cell for cell in played.parts["main"].cells}
    assert guest.agent == "expert"
    assert guest.without == own["expert"].without
    assert guest.with_interface.interface == own["novice"].with_interface.interface
    assert guest.folder == "transfer/alfworld/novice-to-expert"
    assert set(played.learned) == {"interfaces/alfworld/novice", "interfaces/alfworld/expert"}

    before = Path("run/summary.json").read_text()
    Path("run/summary.json").unlink()
    assert run("study", "mine.yaml", "--resume", "--out", "run")[0] == 0
    assert len(stop_after_first_episode) == 10
    assert Path("run/summary.json").read_text() == before


@pytest.mark.long
def test_every_seed_has_tables_of_its_own_and_faults_are_told_and_played_again(run, monkeypatch):
    text = SHIPPED.replace(", webshop", "").replace("tasks: 2", "tasks: 1").replace("[rules, feedback]", "[]")
    plan = plan_study(write(f"{text}seeds: [3, 5]\n"))
    assert run("study", "mine.yaml", "--out", "whole")[0] == 0
    (broken,) = plan.evaluations["evaluations/seed-5/alfworld/novice"].task_ids
    with monkeypatch.context() as patch:
        act = AlfworldEnv._act

        def broken_act(env, action):
            if env._task_id == broken:
                raise OSError("the disk is gone")
            return act(env, action)

        patch.setattr(AlfworldEnv, "_act", broken_act)
        status, out, err = run("study", "mine.yaml", "--out", "run")
    assert status == 0, err
    assert "faults: alfworld novice: 1 without, 1 placebo, 1 with; in no figure above (main, seed 5)" in out
    assert (summary("run").faults, list(summary("run").parts)) == (3, ["main, seed 3", "main, seed 5"])
    assert run("study", "mine.yaml", "--out", "run", "--resume")[0] == 0
    assert summary("run") == summary("whole")
    assert json.loads(Path("run/config.json").read_text())["seeds"] == [3, 5]


@pytest.mark.long
def test_interfaces_of_a_chat_model_are_learned_with_and_without_verification(run):
    """A model at an endpoint that looks around and finds no misalignment."""

    def answer(request):
        about_misalignments = "misalignment" in str(request["messages"])
        return Reply("<misalignments>none</misalignments>" if about_misalignments else "look")

    text = LEARNED.partition("transfer")[0].replace("tasks: 2", "tasks: 1")
    text = text.replace("novice, expert", "{agent: vanilla, model: content}")
    with serve({"content": answer}) as endpoint:
        text += f"backend: llm\nbase_url: {endpoint.url}\nablations: [verification]\nplacebo: false\nworkers: 1\n"
        status, out, err = run("study", write(text), "--out", "run")
    assert status == 0, err
    assert "the interface that each agent learned without verification" in out
    assert "interfaces/unverified/alfworld/vanilla-content" in out
    assert "nothing was learned: it changes nothing" in out
    (guest,) = summary("run").parts["verification"].cells
    assert (guest.agent, guest.without.episodes, guest.with_interface.episodes) == ("vanilla(content)", 1, 1)
    details = [
        json.loads(Path("run/interfaces", kind, "config.json").read_text())["backend_details"]["verify"]
        for kind in ("alfworld/vanilla-content", "unverified/alfworld/vanilla-content")
    ]
    assert details == ["True", "False"]
