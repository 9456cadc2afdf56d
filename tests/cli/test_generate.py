"""`generate-interface` as a user meets it: the probe on real games, and chat models behind a local endpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import align_echo
from align_echo.align.generation import GenerationConfig, plan_generation
from align_echo.evaluate.comparison import VariantComparison
from align_echo.interface.contract import identity
from align_echo.models import CallLog
from align_echo.wrappers.alfworld.spec import CONTRACT
from tests.align.endpoint import Endpoint, Reply, Script, Status, serve
from tests.align.room_world import code, operation

GENERATE = [
    *("generate-interface", "--env", "alfworld", "--agent", "novice"),
    *("--iterations", "1", "--tasks-per-iteration", "2"),
]
LEARN = [*GENERATE[:-1], "6"]
"""Two games are enough to see what the command line does, six for the probe to find something."""


@pytest.mark.long
def test_the_probe_writes_an_interface_that_evaluate_takes(run, few_fresh_tasks):
    """The whole of `make demo`, smaller: fewer games to learn on, and fewer to test the rules on."""
    status, out, err = run(*LEARN, "--out", "run")
    assert status == 0, err
    assert "auto: no language model is configured" in out
    assert "NOT a language model" in out
    assert "interface: run/interface.py" in out
    interface = align_echo.load_interface("run/interface.py")
    assert interface.provenance.backend == "probe"
    assert interface.provenance.rules
    spoke = r"it spoke on \d+ of \d+ refusals, in 6 of 6 episodes"
    last = rf"in play \(6 tasks of train, none of them used to make it; {spoke}\): won, %: "
    assert re.match(last, out.splitlines()[-1])
    assert interface.provenance.versions["games"] == "embedded games, generator 1"
    assert json.loads(Path("run/config.json").read_text())["games"] == "embedded games, generator 1"
    assert json.loads(Path("run/summary.json").read_text())["written"]
    evaluate = ["evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "1"]
    status, out, err = run(*evaluate, "--interface", "run/interface.py", "--out", "after")
    assert status == 0, err
    assert "made by probe" in out


def test_where_the_probe_finds_nothing_it_says_what_it_looked_at(run):
    command = ["generate-interface", "--env", "m3tooleval", "--backend", "probe", "--agent", "novice", "--out", "run"]
    status, out, err = run(*command)
    assert status == 0, err
    assert "none of the known kinds was found" in err
    assert out.splitlines()[-1] == "in play: no new interface was written, so nothing changes"


@pytest.mark.long
def test_a_stopped_run_goes_on_and_ends_as_an_uninterrupted_one(run, hardly_any_fresh_tasks, stop_after_first_episode):
    status, _, err = run(*GENERATE, "--out", "run")
    assert status == 130
    assert err.splitlines()[-1].endswith("--resume --out run")
    assert not Path("run/interface.py").exists()
    status, _, err = run(*GENERATE, "--out", "run")  # without --resume it is left alone
    assert (status, err.count("\n"), "--resume" in err) == (2, 1, True)
    status, _, err = run(*GENERATE, "--seed", "1", "--resume", "--out", "run")
    assert (status, err.count("\n"), "seed" in err) == (2, 1, True)
    status, _, err = run(*GENERATE, "--resume", "--out", "run")
    assert status == 0, err
    of_iterations, of_play = 2, 3 * 2
    assert len(stop_after_first_episode) == of_iterations + of_play  # the first episode was not played again
    assert run(*GENERATE, "--out", "whole")[0] == 0
    assert Path("run/interface.py").read_text() == Path("whole/interface.py").read_text()


@pytest.fixture
def endpoint():
    """Models at a local endpoint: "looker" answers "look", "mumbler" nothing usable, "locked" refuses the key;
    "content" finds no misalignment, proposes nothing and looks."""
    scripts: dict[str, Script] = {
        "looker": lambda _: Reply("look"),
        "mumbler": lambda _: Reply("hm"),
        "content": lambda request: Reply(contented(str(request["messages"]))),
        "locked": lambda _: Status(401),
        "gone": lambda _: Status(400),
    }
    with serve(scripts) as server:
        yield server


def contented(messages: str) -> str:
    if "<hypotheses>" in messages:
        return "<hypotheses>[]</hypotheses>"
    return "<misalignments>none</misalignments>" if "misalignment" in messages else "look"


def asks(endpoint: Endpoint, model: str) -> list[str]:
    return ["--model", model, "--base-url", endpoint.url]


VANILLA = ["evaluate", "--env", "alfworld", "--agent", "vanilla", "--tasks", "2", "--workers", "1", "--out", "run"]


def test_a_chat_model_plays_and_every_exchange_is_kept(run, endpoint):
    status, out, err = run(*VANILLA, *asks(endpoint, "looker"))
    assert status == 0, err
    assert "agent: vanilla, model looker" in out
    assert "1,500 tokens" in out  # 2 tasks of 50 turns, 15 tokens a turn
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text())
    assert summary.agent == "vanilla(looker)"
    calls = CallLog(Path("run/calls.jsonl")).read()
    assert {call.reply for call in calls} == {"look"}
    assert len(calls) == 100


def test_a_stopped_evaluation_pays_for_nothing_twice(run, endpoint, stop_after_first_episode):
    assert run(*VANILLA, *asks(endpoint, "looker"))[0] == 130
    assert run(*VANILLA, "--resume", *asks(endpoint, "looker"))[0] == 0
    assert len(endpoint.requests) == 100


@pytest.mark.parametrize(("model", "message"), [("locked", "refuses the key (401)"), ("nosuch", "is not there (404)")])
def test_a_refused_key_or_model_is_one_line_and_status_2(run, endpoint, model, message):
    status, out, err = run(*VANILLA, *asks(endpoint, model))
    assert status == 2
    assert message in err.splitlines()[-1]
    assert "Traceback" not in err
    assert out == ""


def test_a_model_that_refuses_every_request_is_a_clear_error_that_can_be_resumed(run, endpoint):
    status, _, err = run(*VANILLA, *asks(endpoint, "gone"))
    assert status == 2
    assert "no episode of variant 'none' finished without a fault" in err.splitlines()[-1]
    status, _, err = run(*GENERATE, "--agent", "vanilla", "--out", "made", *asks(endpoint, "gone"))
    assert status == 2
    assert "--resume --out made" in err.splitlines()[-1]
    assert err.splitlines()[-1].count("--resume") == 1


@pytest.mark.parametrize("first", ["locked", "gone"])
@pytest.mark.parametrize(
    "command", [VANILLA, [*GENERATE, "--backend", "probe", "--agent", "vanilla", "--workers", "1", "--out", "run"]]
)
def test_a_command_that_finished_nothing_can_be_repeated_as_it_is(run, endpoint, first, command):
    assert run(*command, *asks(endpoint, first))[0] == 2
    assert Path("run/config.json").exists()
    status, _, err = run(*command, *asks(endpoint, "looker"))
    assert status == 0, err
    assert (status, run(*command, *asks(endpoint, "looker"))[0]) == (0, 2)  # now there is something to lose
    record = json.loads(Path("run/config.json").read_text())
    assert "looker" in str(record)
    assert "scripted fault" not in Path("run/calls.jsonl").read_text()


def test_the_endpoint_is_on_record_and_an_evaluation_is_not_resumed_at_another(run, endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "mumbler")
    assert run(*VANILLA, "--base-url", endpoint.url)[0] == 0
    assert endpoint.url in Path("run/config.json").read_text()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    status, _, err = run(*VANILLA, "--resume")
    assert (status, "base_url" in err, "http://127.0.0.1:9/v1" in err) == (2, True, True), err
    assert run(*VANILLA, "--resume", "--base-url", endpoint.url)[0] == 0


LLM = [*GENERATE, "--backend", "llm", "--agent", "vanilla", "--workers", "1", "--out", "run"]


def test_a_run_goes_on_with_the_same_models_at_another_address_and_pays_nothing_twice(run, endpoint):
    mumble = ["--analyzer-model", "mumbler", "--optimizer-model", "content"]
    status, _, err = run(*LLM, *asks(endpoint, "looker"), *mumble)
    assert (status, "the analysis of" in err.splitlines()[-1]) == (2, True), err
    paid = len(endpoint.requests)
    none = "<misalignments>none</misalignments>"
    with serve({"looker": lambda _: Reply("look"), "mumbler": lambda _: none}) as moved:
        status, _, err = run(*LLM, "--resume", "--model", "looker", "--base-url", moved.url, *mumble)
        assert status == 0, err
        assert f"were asked at {endpoint.url} and are asked at {moved.url} from here on" in err
        assert [request["model"] for request in moved.requests] == ["mumbler"]
        again = run(*LLM, "--resume", *asks(endpoint, "looker"), *mumble)
        assert again[0] == 0, again
    assert len(endpoint.requests) == paid


@pytest.mark.parametrize("stray", ["notes.txt", "cache/ab/reply.json", "iterations/1/iteration.json", "summary.json"])
@pytest.mark.parametrize("command", [VANILLA, [*GENERATE, "--agent", "vanilla", "--out", "run"]])
def test_a_folder_with_anything_else_in_it_is_left_alone(run, endpoint, stray, command):
    assert run(*command, *asks(endpoint, "locked"))[0] == 2
    file = Path("run", stray)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    status, _, err = run(*command, *asks(endpoint, "looker"))
    assert (status, "is not empty" in err) == (2, True)
    assert file.read_text() == "mine"


def test_a_base_url_that_no_model_is_asked_at_is_refused(run):
    status, out, err = run(*GENERATE, "--model", "novice", "--base-url", "http://127.0.0.1:9/v1", "--out", "run")
    assert (status, out, "leave --base-url out" in err) == (2, "", True), err
    assert not Path("run").exists()


@pytest.mark.long
def test_auto_takes_the_hybrid_backend_when_a_model_is_configured(run, endpoint, monkeypatch, hardly_any_fresh_tasks):
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "content")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    status, out, err = run(*GENERATE[:-1], "1", "--out", "run")
    assert status == 0, err
    assert "backend: hybrid (auto: a model is configured), analyzer content, optimizer content" in out
    assert "0 hypotheses proposed by content" in err


def test_a_model_that_finds_nothing_changes_nothing(run, endpoint):
    status, out, err = run(*GENERATE, "--backend", "llm", "--out", "run", *asks(endpoint, "content"))
    assert status == 0, err
    assert "backend: llm, analyzer content, optimizer content" in out
    assert "(no-misalignments): in the 2 episodes that failed last, the llm backend found no new misalignment" in out
    assert out.splitlines()[-1] == "in play: no new interface was written, so nothing changes"
    assert "agent: novice (a scripted stand-in" in out
    assert align_echo.load_interface("run/interface.py").provenance.rules == ()


@pytest.mark.parametrize("model", ["mumbler", "gone"])
def test_an_analysis_that_breaks_is_no_success(run, endpoint, model):
    generate = [*GENERATE, "--backend", "llm", "--agent", "novice", "--out", "run", *asks(endpoint, model)]
    status, out, err = run(*generate)
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert "the analysis of" in last
    assert "--resume --out run" in last
    assert not Path("run/summary.json").exists()
    paid = len(endpoint.requests)
    status, _, err = run(*generate, "--resume")
    assert (status, len(endpoint.requests) > paid) == (2, True), err


ROLES = ["--analyzer-model", "content", "--optimizer-model", "content"]


def test_auto_takes_the_hybrid_backend_when_its_roles_have_models():
    plan = plan_generation(GenerationConfig(env="alfworld", analyzer_model="content", optimizer_model="other"))
    assert plan.about_backend == "backend: hybrid (auto: a model is configured), analyzer content, optimizer other"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (ROLES[:2], "the hybrid backend needs a chat model: add --optimizer-model NAME (or --model NAME for both)"),
        (ROLES[2:], "the hybrid backend needs a chat model: add --analyzer-model NAME (or --model NAME for both)"),
        (["--backend", "probe", *ROLES], "the probe asks no model: leave --analyzer-model and --optimizer-model out"),
        (["--backend", "probe", "--allow-untested"], "only the hybrid backend has untested hypotheses"),
        (["--backend", "probe", "--model", "gpt-x"], "the agent novice asks no model: leave --model out"),
    ],
)
def test_a_model_that_is_missing_or_not_asked_is_said_in_one_line(run, more, told):
    status, out, err = run(*GENERATE, *more, "--out", "run")
    assert (status, out, err.count("\n"), told in err) == (2, "", 1, True), err
    assert not Path("run").exists()


def test_an_agent_that_asks_no_model_refuses_one_that_is_named_and_not_one_of_the_machine(run, monkeypatch):
    evaluate = ["evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "1", "--out", "run"]
    status, out, err = run(*evaluate, "--model", "gpt-x")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "the agent novice asks no model: leave --model out" in err
    assert not Path("run").exists()
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "gpt-x")
    assert run(*evaluate)[0] == 0


def doubter(request: dict[str, Any]) -> str:
    """Finds a misalignment in the first failed task, tries it once, and holds every interface for useless."""
    texts = [message["content"] for message in request["messages"]]
    task = re.search(r"## Task (\S+)|\(task (\S+),", texts[1])
    assert task is not None
    name, analysing = task[1] or task[2], "# Failed episodes" in texts[1]
    if len(texts) == 2 and analysing:
        return found(name, "")
    if "(execute_agent_action)" in texts[-1]:
        cites = "<support>2</support>"
        return found(name, cites) if analysing else "<resolved>no</resolved><refinement>more</refinement>"
    begun = "(init_simulator)" in texts[-1]
    return operation("execute_agent_action", "sing") if begun else operation("init_simulator", name)


def found(task: str, cites: str) -> str:
    return (
        f"<misalignments><misalignment><task_id>{task}</task_id><action_type>sing</action_type><action>sing</action>"
        f"<intent>i</intent><rule>no singing</rule><sufficient_feedback>f</sufficient_feedback><kind>new-logic</kind>"
        f"{cites}</misalignment></misalignments>"
    )


def test_a_run_that_resolves_nothing_of_what_it_found_is_no_success(run):
    author = [code(f"{identity(CONTRACT).source}# version {number}\n") for number in range(4)]
    with serve({"doubter": doubter, "author": author}) as server:
        models = ["--analyzer-model", "doubter", "--optimizer-model", "author", "--base-url", server.url]
        status, out, err = run(*GENERATE, "--backend", "llm", *models, "--out", "run")
    assert status == 2, err
    assert "1 misalignment found, rules written for 0" in out
    assert "1 misalignment was found and no rule was written for any" in err.splitlines()[-1]
    assert "another --optimizer-model" in err.splitlines()[-1]
    summary = json.loads(Path("run/summary.json").read_text())
    assert (summary["misalignments"], summary["addressed"], summary["written"]) == (1, 0, False)
