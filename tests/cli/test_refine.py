"""`align-echo evaluate --refine-rounds` as a user meets it: rounds, what is kept, going on after a stop, bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from align_echo.evaluate.folder import CritiqueRecord
from align_echo.evaluate.refinement import RefinementResult
from align_echo.models import CallLog
from align_echo.rollout.display import Display
from align_echo.types import Trajectory
from tests.align.endpoint import Endpoint, Status, serve

ADVICE = "Look into every drawer. 1. Begin with the first."
GOOD = f"<reason>You gave up early.</reason>\n<suggestions>\n- {ADVICE}\n</suggestions>"

COMMAND = [
    *("evaluate", "--env", "alfworld", "--agent", "vanilla", "--model", "novice", "--temperature", "0.5"),
    *("--tasks", "4", "--refine-rounds", "2"),
]


@pytest.fixture
def endpoint(monkeypatch) -> Iterator[Endpoint]:
    """A critic that says something useful, one that says nothing that can be read, one that is down."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with serve({"wise": lambda _: GOOD, "vague": lambda _: "Well done!", "down": lambda _: Status(400)}) as served:
        yield served


def records(file: str, kind: Any) -> list[Any]:
    return [kind.model_validate_json(line) for line in Path(file).read_text().splitlines()]


def played(folder: str, number: int) -> list[Trajectory]:
    return records(f"{folder}/trajectories/round-{number}.jsonl", Trajectory)


def summary(folder: str) -> RefinementResult:
    return RefinementResult.model_validate_json(Path(folder, "summary.json").read_text())


@pytest.mark.long
def test_without_a_critic_what_failed_is_played_anew(run):
    status, out, err = run(*COMMAND, "--critic", "none", "--out", "run")
    assert status == 0, err
    first, second = played("run", 0), played("run", 1)
    lost = {trajectory.task_id for trajectory in first if not trajectory.won}
    assert 0 < len(lost) < 4
    assert {trajectory.task_id for trajectory in second} == lost
    assert {(trajectory.sample, trajectory.critique) for trajectory in second} == {(1, "")}
    refinement = summary("run")
    assert (refinement.critic, refinement.critic_form, len(refinement.rounds)) == (None, None, 3)
    assert [result.played for result in refinement.rounds[:2]] == [4, len(lost)]
    assert refinement.rounds[0].success_rate.value == 25.0 * (4 - len(lost))
    assert "critic: none, fresh attempts" in out
    assert "round 1: " in err
    assert not Path("run/reviews").exists()


@pytest.mark.long
def test_a_critic_at_an_endpoint_is_heard_and_on_record(run, endpoint):
    status, out, err = run(*COMMAND, "--critic", "wise", "--base-url", endpoint.url, "--out", "run")
    assert status == 0, err
    assert {trajectory.critique for trajectory in played("run", 1)} == {ADVICE}
    reviews = records("run/reviews/round-1.jsonl", CritiqueRecord)
    assert {reviewed.attempt.task_id for reviewed in reviews} == {trajectory.task_id for trajectory in played("run", 1)}
    calls = [record for record in CallLog(Path("run/calls.jsonl")).read() if record.role == "critic"]
    assert {(call.model, call.reply) for call in calls} == {("wise", GOOD)}
    assert len(calls) == len(endpoint.asked("wise")) == sum(result.played for result in summary("run").rounds[1:])
    assert summary("run").critic_usage.prompt_tokens == 10 * len(calls)
    details = json.loads(Path("run/config.json").read_text())["critic_details"]
    assert (details["model.critic"], details["base_url.critic"], details["form"]) == ("wise", endpoint.url, "echo")
    assert "critic: wise, form echo" in out


@pytest.mark.long
def test_critiques_that_cannot_be_read_are_counted_and_the_episode_played_without(run, endpoint):
    command = [*COMMAND, "--critic", "vague", "--critic-form", "icrl", "--base-url", endpoint.url]
    status, _, err = run(*command, "--out", "run")
    assert status == 0, err
    result = summary("run").rounds[1]
    assert result.unread == result.played > 0
    unread = f"{result.unread} of {result.unread}"
    assert f"critiques before round 1: {unread} could not be read; the first: the reply must be one line" in err
    assert {each.critique for each in played("run", 1)} == {""}


@pytest.mark.long
def test_a_critic_that_is_down_is_waited_for_and_nothing_is_played_in_its_place(run, endpoint):
    status, _, err = run(*COMMAND, "--critic", "down", "--base-url", endpoint.url, "--out", "run")
    assert status == 0, err
    rounds = summary("run").rounds
    assert [result.played for result in rounds] == [4, 0, 0]
    assert rounds[1].unanswered == rounds[2].unanswered > 0
    assert not Path("run/trajectories/round-1.jsonl").exists()


@pytest.mark.long
@pytest.mark.parametrize("after", [1, 5, 6])
def test_a_stopped_run_goes_on_and_ends_with_the_same_figures(after, run, endpoint, monkeypatch):
    command = [*COMMAND, "--critic", "wise", "--base-url", endpoint.url, "--episodes-per-task", "2"]
    assert run(*command, "--out", "whole")[0] == 0
    asked, shown = len(endpoint.asked("wise")), Display.episode
    ended: list[bool] = []

    def episode(display: Display, won: bool) -> None:
        ended.append(won)
        shown(display, won)
        if len(ended) == after + 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "episode", episode)
    assert run(*command, "--out", "run")[0] == 130
    status, _, err = run(*command, "--resume", "--out", "run")
    assert status == 0, err
    assert Path("run/summary.json").read_text() == Path("whole/summary.json").read_text()
    assert len(ended) == sum(result.played for result in summary("whole").rounds)  # none was played twice
    assert len(endpoint.asked("wise")) == 2 * asked
    for number in range(3):
        assert [trajectory.model_dump_json() for trajectory in played("run", number)] == [
            trajectory.model_dump_json() for trajectory in played("whole", number)
        ]


@pytest.mark.long
def test_a_run_that_is_stopped_among_its_critiques_asks_for_none_twice(run, endpoint, monkeypatch):
    command = [*COMMAND, "--critic", "wise", "--base-url", endpoint.url, "--workers", "1"]
    shown = Display.status
    stopped: list[str] = []

    def status(display: Display, text: str) -> None:
        shown(display, text)
        if text.startswith("critiques before round 1: 1 of") and not stopped:
            stopped.append(text)
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "status", status)
    assert run(*command, "--out", "run")[0] == 130
    assert len(records("run/reviews/round-1.jsonl", CritiqueRecord)) == 1
    Path("run/cache").rename("elsewhere")  # what is kept must do without the cache of replies
    assert run(*command, "--resume", "--out", "run")[0] == 0
    assert len(endpoint.asked("wise")) == len(
        [call for call in CallLog(Path("run/calls.jsonl")).read() if call.role == "critic"]
    )
    kept = [
        record.attempt for number in (1, 2) for record in records(f"run/reviews/round-{number}.jsonl", CritiqueRecord)
    ]
    assert len(kept) == len(set(kept)) == len(endpoint.asked("wise"))


BASE = COMMAND[:-2]
BAD = {
    "no critic": ([*BASE, "--refine-rounds", "1"], "--refine-rounds needs a critic: add --critic self"),
    "a critic without rounds": ([*BASE, "--critic", "none"], "add --refine-rounds K"),
    "a form without rounds": ([*BASE, "--critic-form", "icrl"], "add --refine-rounds K"),
    "a form of nobody": ([*COMMAND, "--critic", "none", "--critic-form", "echo"], "leave --critic-form out"),
    "an unknown form": ([*COMMAND, "--critic", "x", "--critic-form", "haiku"], "haiku"),
    "all variants": ([*COMMAND, "--critic", "none", "--interface", "probe", "--compare"], "leave --compare out"),
    "an agent that does not draw": (
        [*(word if word != "0.5" else "0" for word in COMMAND), "--critic", "none"],
        "--refine-rounds needs an agent that draws",
    ),
    "an agent without a model": (
        ["evaluate", "--env", "alfworld", "--agent", "novice", "--refine-rounds", "1", "--critic", "self"],
        "the agent novice has no model of its own",
    ),
    "a script as the critic": ([*COMMAND, "--critic", "self"], "can only play: name another with --critic"),
    "a critic without a key": ([*COMMAND, "--critic", "gpt-x"], "set OPENAI_API_KEY"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_written(case, run):
    arguments, message = BAD[case]
    status, out, err = run(*arguments, "--out", "out")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    assert message in err
    assert not Path("out").exists()
