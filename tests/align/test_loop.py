"""Algorithm 1 with the llm backend over HTTP: what comes out, and that no fault on the way loses the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.reasoning import Vanilla
from align_echo.align.llm.backend import LlmBackend
from align_echo.align.llm.replies import LlmSettings
from align_echo.align.loop import GenerationResult, TrainingSplit, generate
from align_echo.align.run_folder import Event, OnEvent, RunFolder
from align_echo.errors import ModelError, UsageError
from align_echo.interface.contract import Interface, load_interface
from align_echo.models.client import RetryPolicy
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.types import ChatModel, Misalignment, Trajectory
from align_echo.workers.ray_cluster import ThreadWorkers
from tests.align.endpoint import Answer, Drop, Endpoint, Raw, Reply, Script, Status, serve
from tests.align.room_world import (
    ANALYZER,
    BOOK,
    CHECKS,
    EXPERIMENTS,
    GOOD_CODE,
    HINT,
    SPEC,
    code,
    findings,
    naive_agent,
    operation,
)
from tests.play import source

OPTIMIZER = [code(GOOD_CODE)]
Wrap = Callable[[ChatModel], ChatModel]


def scripts(analyzer: Script = ANALYZER, optimizer: Script = OPTIMIZER) -> dict[str, Script]:
    return {"agent": naive_agent, "analyzer": unattacked(analyzer), "optimizer": optimizer}


def unattacked(script: Script) -> Script:
    """A script whose model proposes no counter-experiment when it is asked for some."""
    others = None if callable(script) else iter(script)

    def answer(request: dict[str, Any]) -> Answer:
        if request["messages"][0]["content"].startswith("Somebody makes claims"):
            return "[]"
        if others is None:
            return script(request)  # type: ignore[operator]
        return next(others, Status(400, body='{"error": {"message": "script used up"}}'))

    return answer


def run(
    endpoint: Endpoint,
    path: Path,
    *,
    resume: bool = False,
    on_event: OnEvent | None = None,
    settings: LlmSettings | None = None,
    iterations: int = 3,
    wrap: Wrap = lambda model: model,
    workers: int = 1,
    seed: int = 0,
) -> GenerationResult:
    folder = RunFolder(path)

    def model(role: str) -> ChatModel:
        inner = OpenAICompatibleModel(
            role, base_url=endpoint.url, retry=RetryPolicy(attempts=4), wait=lambda seconds: None
        )
        return folder.record(wrap(inner), role)

    agent = Vanilla(model("agent"))
    backend = LlmBackend(
        TrainingSplit(SPEC),
        agent,
        analyzer_model=model("analyzer"),
        optimizer_model=model("optimizer"),
        settings=settings,
        note=folder.note,
    )
    return generate(
        SPEC,
        agent,
        backend,
        folder,
        iterations=iterations,
        resume=resume,
        on_event=on_event,
        workers=ThreadWorkers(workers),
        seed=seed,
    )


def notes(path: Path) -> str:
    events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    return "\n".join(event["message"] for event in events if event["kind"] == "note")


def test_a_whole_run_finds_proves_and_resolves_the_misalignment(tmp_path: Path) -> None:
    events: list[Event] = []
    with serve(scripts()) as endpoint:
        made = run(endpoint, tmp_path / "run", on_event=events.append)
    assert made.summary.stopped == "no-failures"
    assert [(iteration.outcome, iteration.failed) for iteration in made.summary.iterations] == [
        ("written", 1),
        ("no-failures", 0),
    ]
    (rule,) = made.interface.provenance.rules
    seen = "Seen in 1 task, not shown to be a rule"
    assert rule.text == f"take object: {seen}: an object can be taken only in its own room"
    assert (rule.evidence.support, rule.evidence.tasks, rule.untested) == (4, 1, True)
    assert "no finding can be tested in 3 tasks: the run has 2 tasks" in notes(tmp_path / "run")
    kinds = [event.kind for event in events]
    assert kinds[0] == "run-started"
    assert kinds[-1] == "run-finished"
    assert kinds.count("trajectory") == 4
    assert {"iteration-started", "misalignments", "interface", "iteration-finished"} <= set(kinds)


def test_the_folder_holds_everything(tmp_path: Path) -> None:
    with serve(scripts()) as endpoint:
        made = run(endpoint, tmp_path)
    stored = load_interface(tmp_path / "interface.py")
    assert stored.source == made.interface.source == GOOD_CODE
    assert stored.provenance.models == {"agent": "agent", "analyzer": "analyzer", "optimizer": "optimizer"}
    assert "analyzer/propose" in stored.provenance.prompt_hashes
    assert "vanilla/system" in stored.provenance.prompt_hashes
    asked, in_all = stored.provenance.usage.prompt_tokens, made.summary.usage.prompt_tokens
    assert asked is not None
    assert in_all is not None
    assert 0 < asked < in_all
    names = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert {
        *("config.json", "events.jsonl", "calls.jsonl", "summary.json", "interface.py", "interface.json"),
        *(f"iterations/1/{name}" for name in ("trajectories.jsonl", "misalignments.json", "iteration.json")),
        *("iterations/1/interface.py", "iterations/1/interface.json", "iterations/2/trajectories.jsonl"),
    } <= names
    assert not [name for name in names if Path(name).name.startswith(".")]
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert {call["role"] for call in calls} == {"agent", "analyzer", "optimizer"}
    assert sum(not call["cached"] for call in calls) == len(endpoint.requests)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert sum(role["requests"] for role in summary["roles"].values()) == len(endpoint.requests)
    assert summary["usage"]["prompt_tokens"] == 10 * len(endpoint.requests)
    assert summary["roles"]["agent"]["price_known"] is False


def test_the_models_are_told_what_they_need(tmp_path: Path) -> None:
    with serve(scripts()) as endpoint:
        run(endpoint, tmp_path)
    proposal = endpoint.asked("analyzer")[0]["messages"]
    assert SPEC.action_format in proposal[0]["content"]
    assert "def WrapStep(env, init_obs, task, agent_action, logger)" in proposal[0]["content"]
    assert "Nothing happens." in proposal[1]["content"]
    assert "Action: go to study\nObservation: You arrive" in proposal[1]["content"], "the expert's way"
    writing = endpoint.asked("optimizer")[0]
    assert HINT in writing["messages"][1]["content"]
    assert writing["temperature"] == 0.2
    assert {request["temperature"] for request in endpoint.asked("agent")} == {0.0}
    last = endpoint.asked("agent")[-1]["messages"][0]["content"]
    assert "Objects can be taken only in their own room." in last, "the new rules reach the agent"


BAD_SYNTAX = code("def InferRules(init_obs, task):\n    return (\n")
NO_WRAP = code("def InferRules(init_obs, task):\n    return ''\n")
FAILS_AT_LOAD = code("import socket\n" + GOOD_CODE)
FAILS_AT_RUN = code(GOOD_CODE.replace("text = obs[0]", "text = obs[0] + unknown_name"))
FORBIDDEN = code(GOOD_CODE.replace("env.step([agent_action])", "env.step(['take mug 1'])"))
CUT = Reply("<code>\ndef InferRules(init_obs", finish_reason="length")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("Here you are:\ndef InferRules(): ...", "<code> is missing"),
        ("<code>" + GOOD_CODE, "not closed"),
        ("<code></code>", "empty"),
        (CUT, "cut off"),
        ("", "<code> is missing"),
        (BAD_SYNTAX, "does not parse"),
        (NO_WRAP, "no function WrapStep"),
        (FAILS_AT_LOAD, "socket"),
        (FAILS_AT_RUN, "unknown_name"),
        (FORBIDDEN, "take mug 1"),
    ],
)
def test_a_bad_reply_of_the_optimizer_goes_back_with_the_reason(tmp_path: Path, answer: Answer, told: str) -> None:
    with serve(scripts(optimizer=[answer, code(GOOD_CODE)])) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.summary.stopped == "no-failures"
    assert told in endpoint.asked("optimizer")[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("I saw nothing special.", "<misalignments> is missing"),
        (findings().replace("</misalignments>", ""), "not closed"),
        (findings().replace("<intent>", ""), "<intent> is missing"),
        (findings().replace(BOOK, "room/none"), BOOK),
        (findings().replace("new-logic", "novel"), "<kind>"),
        (Reply(findings(), finish_reason="length"), "cut off"),
        ("<think>hm", "cut off while thinking"),
    ],
)
def test_a_bad_analysis_goes_back_with_the_reason(tmp_path: Path, answer: Answer, told: str) -> None:
    with serve(scripts(analyzer=[answer, *ANALYZER])) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.summary.stopped == "no-failures"
    assert told in endpoint.asked("analyzer")[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("Let me think.", "neither <operation> nor"),
        (operation("look_around"), "is no operation"),
        (operation("init_simulator"), "needs an <argument>"),
        (operation("reset_simulator") + "<argument>a</argument><argument>b</argument>", "exactly once"),
        (operation("reset_simulator") + findings("1"), "both"),
        (findings(support=""), "cites no experiment"),
        (findings(support="1"), "cites experiment 1"),
        (findings(support="99"), "cites experiment 99"),
        (findings(support="all"), "experiment numbers"),
    ],
)
def test_a_bad_move_in_the_verification_goes_back_with_the_reason(tmp_path: Path, answer: Answer, told: str) -> None:
    moves = [findings(), *EXPERIMENTS[:1], answer, *ANALYZER[2:]]
    with serve(scripts(analyzer=moves)) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.summary.stopped == "no-failures"
    assert told in endpoint.asked("analyzer")[3]["messages"][-1]["content"]


def test_a_message_may_hold_several_operations_and_brings_all_their_outcomes(tmp_path: Path) -> None:
    with serve(scripts(analyzer=[findings(), "\n".join(EXPERIMENTS), findings(support="2, 3, 5, 7"), *CHECKS])) as one:
        made = run(one, tmp_path / "one")
    with serve(scripts()) as each:
        assert run(each, tmp_path / "each").interface.content_hash == made.interface.content_hash
    assert len(each.asked("analyzer")) - len(one.asked("analyzer")) == len(EXPERIMENTS) - 1
    outcomes = one.asked("analyzer")[2]["messages"][-1]["content"]
    for number in range(1, 8):
        assert f"Experiment {number} (" in outcomes
    assert "The argument was read as: take book 1\nObservation: You take" in outcomes
    assert "You may carry out 23 more operations" in outcomes


def test_operations_after_a_failed_one_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    rash = "\n".join([operation("execute_agent_action", "look"), *EXPERIMENTS])
    with serve(scripts(analyzer=[findings(), rash, *EXPERIMENTS, findings(support="3, 4, 6, 8"), *CHECKS])) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.summary.stopped == "no-failures"
    outcomes = endpoint.asked("analyzer")[2]["messages"][-1]["content"]
    assert "Experiment 2" not in outcomes
    assert "Your message held 8 operations. The last 7 were not carried out: at most 8" in outcomes
    assert "You may carry out 29 more operations" in outcomes


def test_mistakes_in_using_the_tools_are_answered_not_raised(tmp_path: Path) -> None:
    slips = [
        operation("get_next_agent_action"),
        operation("execute_agent_action", "look"),
        operation("change_last_action_observation", "x"),
        operation("reset_simulator"),
        operation("init_simulator", "room/no-such-task"),
    ]
    analyzer = [findings(), *slips, *EXPERIMENTS, findings(support="7, 8"), *CHECKS]
    with serve(scripts(analyzer=analyzer)) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.summary.stopped == "no-failures"
    answers = [request["messages"][-1]["content"] for request in endpoint.asked("analyzer")[2:7]]
    assert all("could not be carried out" in answer for answer in answers)
    assert "there is no task 'room/no-such-task'" in answers[-1]


FAULTS: list[Answer] = [
    Status(429, {"Retry-After": "2"}),
    Status(500),
    Status(503, body="<html>"),
    Drop(),
    Drop(halfway=True),
    Raw(""),
    Raw("{]"),
    Raw('{"choices": []}'),
]


@pytest.mark.parametrize("role", ["agent", "analyzer", "optimizer"])
def test_faults_of_the_endpoint_do_not_show_in_the_result(tmp_path: Path, role: str) -> None:
    with serve(scripts()) as endpoint:
        expected = run(endpoint, tmp_path / "calm")
    calm = scripts()
    faulty = Storm(calm[role])
    with serve({**calm, role: faulty}) as endpoint:
        made = run(endpoint, tmp_path / "storm")
    assert faulty.raged
    assert made.interface.source == expected.interface.source
    assert made.summary.iterations == expected.summary.iterations


class Storm:
    """Two faults before every answer, of all kinds in turn."""

    def __init__(self, script: Script) -> None:
        self._script = script if callable(script) else iter(script)
        self.raged = 0

    def __call__(self, request: dict[str, object]) -> Answer:
        self.raged += 1
        if self.raged % 3:
            return FAULTS[self.raged % len(FAULTS)]
        return self._script(request) if callable(self._script) else next(self._script)


def test_an_interface_that_fails_its_check_is_refined(tmp_path: Path) -> None:
    silent = GOOD_CODE.replace(f' + " {HINT}"', "")
    objection = "<resolved>no</resolved><refinement>the answer names no room</refinement>"
    analyzer = [*ANALYZER[:-1], objection, *CHECKS]
    with serve(scripts(analyzer=analyzer, optimizer=[code(silent), code(GOOD_CODE)])) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.interface.source == GOOD_CODE
    assert "the answer names no room" in endpoint.asked("optimizer")[1]["messages"][-1]["content"]


def test_a_yes_without_an_experiment_is_sent_back(tmp_path: Path) -> None:
    yes = "<resolved>yes</resolved>"
    with serve(scripts(analyzer=[*ANALYZER[: -len(CHECKS)], yes, *CHECKS])) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.summary.stopped == "no-failures"
    assert "no experiment was carried out" in endpoint.asked("analyzer")[11]["messages"][-1]["content"]


def test_without_verification_the_best_of_several_samples_is_taken(tmp_path: Path) -> None:
    other = findings(rule="the book is glued")
    bad = code(GOOD_CODE.replace(HINT, "Try again."))
    analyzer = ["no tags", "no tags", other, findings(), "<choice>3</choice>", "<choice>2</choice>"]
    optimizer = [bad, code(GOOD_CODE), BAD_SYNTAX, BAD_SYNTAX, "<choice>2</choice>"]
    settings = LlmSettings(verify=False, samples=3, format_tries=2, code_tries=2)
    with serve(scripts(analyzer=analyzer, optimizer=optimizer)) as endpoint:
        made = run(endpoint, tmp_path, settings=settings)
    assert made.interface.source == GOOD_CODE
    assert [rule.text for rule in made.interface.provenance.rules] == [
        "take object: an object can be taken only in its own room"
    ]
    assert len(endpoint.asked("analyzer")) == 6
    assert endpoint.asked("analyzer")[0]["temperature"] == 0.5
    assert "analysis 1 of 3 gave nothing" in notes(tmp_path)


def test_a_dead_endpoint_ends_the_run_in_one_line_and_it_can_be_resumed(tmp_path: Path) -> None:
    down = [True]

    def agent(request: dict[str, object]) -> Answer:
        return Status(500) if down[0] else naive_agent(request)

    with serve({**scripts(), "agent": agent}) as endpoint:
        with pytest.raises(ModelError, match="every episode of iteration 1 broke") as caught:
            run(endpoint, tmp_path)
        assert "\n" not in str(caught.value)
        down[0] = False
        assert run(endpoint, tmp_path, resume=True).summary.stopped == "no-failures"


def test_an_episode_that_breaks_is_left_out_and_counted(tmp_path: Path) -> None:
    def agent(request: dict[str, object]) -> Answer:
        return Status(500) if "bring the mug" in str(request["messages"]) else naive_agent(request)

    events: list[Event] = []
    with serve({**scripts(), "agent": agent}) as endpoint:
        made = run(endpoint, tmp_path, on_event=events.append)
    episodes = [event for event in events if event.kind == "trajectory"]
    assert [event.won for event in episodes] == [None, False, None, True]
    assert "gave no reply in 4 attempts" in episodes[0].message
    counts = [(record.tasks, record.failed, record.faults) for record in made.summary.iterations]
    assert counts == [(2, 1, 1), (2, 0, 1)]


def test_a_refused_key_is_told_at_once(tmp_path: Path) -> None:
    with serve({**scripts(), "agent": lambda request: Status(401)}) as endpoint:
        with pytest.raises(UsageError, match="refuses the key"):
            run(endpoint, tmp_path)
        assert len(endpoint.requests) == 1


def test_a_misalignment_that_is_known_is_not_reported_again(tmp_path: Path) -> None:
    silent = GOOD_CODE.replace(f' + " {HINT}"', "")
    again = "An object can be  TAKEN only in its own room"
    analyzer = [*ANALYZER, findings(rule=again), *EXPERIMENTS, findings(support="2", rule=again)]
    with serve(scripts(analyzer=analyzer, optimizer=[code(silent)])) as endpoint:
        made = run(endpoint, tmp_path)
    assert [record.outcome for record in made.summary.iterations] == ["written", "no-misalignments"]
    assert made.summary.misalignments == 1


class Clumsy:
    """A backend whose interface breaks on every turn."""

    name = "clumsy"

    def describe(self) -> dict[str, str]:
        return {}

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        return [
            Misalignment(task_id=BOOK, action_type="take", action="take", intent="", rule="", sufficient_feedback="")
        ]

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        return interface.model_copy(update={"source": source("raise RuntimeError('never mind')")})


def test_an_interface_that_fails_in_the_loop_is_told(tmp_path: Path) -> None:
    with serve({"agent": lambda request: "> look"}) as endpoint:
        agent = Vanilla(OpenAICompatibleModel("agent", base_url=endpoint.url))
        generate(SPEC, agent, Clumsy(), RunFolder(tmp_path / "run"), iterations=2)
    (told,) = notes(tmp_path / "run").splitlines()
    turns = 2 * SPEC.step_limit
    assert told.startswith(f"the interface failed on {turns} of its turns, which showed the raw observation (identity@")
    assert told.endswith(": RuntimeError: never mind")
