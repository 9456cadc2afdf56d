"""Every option of `generate-interface`, seen where it acts: at the models that are asked, and in what is played.

`SCENES` is the table (`tests/reach.py`): a new option needs a row in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from align_echo.cli.main import main
from align_echo.models.endpoint import DEFAULT_BASE_URL
from align_echo.workers.ray_cluster import play_tasks
from tests.align import test_budget
from tests.align.hybrid import test_hybrid
from tests.align.room_world import BOOK, MUG
from tests.cli import test_cli, test_generate, test_spending
from tests.cli.room_models import Heard, listen
from tests.cli.test_request_fields import SEEN
from tests.reach import Case, Row, Scene, check, options, unseen

WORLDS = "tests.cli.room_models"


@dataclass
class Generated(Heard):
    """What a run did."""

    folder: Path = Path()
    workers: list[int] = field(default_factory=list)

    @property
    def summary(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return read

    @property
    def played(self) -> list[str]:
        """The episodes that were played with what was made and without it."""
        files = sorted(self.folder.glob("in-play/trajectories/*.jsonl"))
        return [line for file in files for line in file.read_text().splitlines()]

    @property
    def tasks(self) -> list[str]:
        """The tasks of the first iteration."""
        (file,) = self.folder.glob("iterations/1/trajectories.jsonl")
        return [json.loads(line)["task_id"] for line in file.read_text().splitlines()]


def row(option: str, see: Callable[[Generated], Any], *cases: Case) -> Row[Generated]:
    return Row(option, see, cases)


def is_react(made: Generated) -> bool:
    return any("Thought: what" in asked.words for asked in made.asked)


def left_out(made: Generated) -> int:
    """Return how often the agent is shown some of its turns, in the iteration and in the play at the end."""
    return sum("left out here" in asked.words for asked in made.asked if asked.role == "agent")


def longest(made: Generated) -> tuple[int, int]:
    """Return the turns of the longest episode of the iteration, and of the play at the end."""
    (file,) = made.folder.glob("iterations/1/trajectories.jsonl")
    first, last = (
        max(len(json.loads(line)["steps"]) for line in lines) for lines in (file.read_text().splitlines(), made.played)
    )
    return first, last


def plan_requests(made: Generated) -> tuple[int, list[str]]:
    """Return how many episodes were played at the end, and how the agent was asked for plans in all episodes."""
    ways = {"There is no plan yet: begin this reply": "in a reply", "Do not act yet. First write a plan": "by a call"}
    asked = [asked.words for asked in made.asked if asked.role == "agent"]
    return len(made.played), [way for words, way in ways.items() if any(words in each for each in asked)]


def ended(made: Generated) -> str:
    """Return the budget that ended a run."""
    return str(made.summary["budget"]["ended_by"])


MODELS = {"analyzer_model": "analyst", "optimizer_model": "author"}
LLM = {"env": f"{WORLDS}:ROOM", "model": "player", "backend": "llm", "iterations": 1, "play_tasks": 0}

SCENES: dict[str, Scene[Generated]] = {
    "models": Scene(
        LLM,
        [
            row(
                "env",
                lambda made: made.summary["environment"],
                *((f"{WORLDS}:ROOM", "room"), (f"{WORLDS}:ANNEX", "annex")),
            ),
            row("model", lambda made: made.models("agent"), ("player", "player"), ("other", "other")),
            row("analyzer_model", lambda made: made.models("analyzer"), ("analyst", "analyst"), (None, "other")),
            row("optimizer_model", lambda made: made.models("optimizer"), (None, "player"), ("writer", "writer")),
            row("base_url", lambda made: made.base_urls, (None, DEFAULT_BASE_URL), ("http://a/v1", "http://a/v1")),
            row("max_tokens", lambda made: made.limits, (300, [300]), (400, [400])),
            row("agent", is_react, ("vanilla", False), ("react", True)),
            row("tasks_per_iteration", lambda made: len(made.tasks), (2, 2), (1, 1)),
            row("workers", lambda made: made.workers[0], (2, 2), (3, 3)),
        ],
    ),
    "preset": Scene(
        {**LLM, "play_tasks": 1},
        [row("agent_preset", lambda made: made.limits_of("agent"), (None, [512]), ("align-paper", [1024]))],
    ),
    "preset, in messages": Scene(
        {**LLM, "agent": "planning", "play_tasks": 1},
        [row("agent_preset", plan_requests, (None, (3, ["in a reply"])), ("align-paper", (3, ["by a call"])))],
    ),
    "history": Scene(
        {**LLM, "play_tasks": 1},
        [
            row("history_turns", left_out, (9, 0), (1, 20)),
            row("history_tokens", left_out, (4000, 0), (256, 20)),
        ],
    ),
    "iterations": Scene(LLM, [row("iterations", lambda made: len(made.summary["iterations"]), (1, 1), (2, 2))]),
    "turns": Scene({**LLM, "play_tasks": 1}, [row("turns", longest, (6, (6, 6)), (8, (8, 8)))]),
    "play": Scene(LLM, [row("play_tasks", lambda made: len(made.played), (0, 0), (1, 3))]),
    "budget of steps": Scene(
        {**LLM, "backend": "probe", "model": None, "agent": "random"},
        [row("max_engine_steps", ended, (None, ""), (5, "engine-steps"))],
    ),
    "budget of seconds": Scene(LLM, [row("max_seconds", ended, (None, ""), (1e-9, "seconds"))]),
    "budget of tokens": Scene(LLM, [row("max_tokens_total", ended, (None, ""), (1, "tokens"))]),
    "backends": Scene(
        {**LLM, **MODELS},
        [row("backend", lambda made: made.roles, ("llm", "analyzer checker optimizer"), ("hybrid", "hypotheses"))],
    ),
    "by itself": Scene(
        {**LLM, **MODELS},
        [row("backend", lambda made: made.roles, ("llm", "analyzer checker optimizer"), ("auto", "hypotheses"))],
    ),
    "no model": Scene(LLM, [row("backend", lambda made: made.roles, ("hybrid", "hypotheses"), ("probe", ""))]),
}


def arguments(values: dict[str, Any]) -> list[str]:
    written = []
    for name, value in values.items():
        if value is not None:
            written += [f"--{name.replace('_', '-')}", str(value)]
    return written


@pytest.fixture
def generate(monkeypatch, tmp_path):
    """Generate with options, and say what was done."""
    records: list[Generated] = []

    def played(workers: Any, *given: Any, **options: Any) -> Any:
        records[-1].workers.append(workers.count)
        return play_tasks(workers, *given, **options)

    listen(monkeypatch, records)
    monkeypatch.setattr("align_echo.align.loop.play_tasks", played)

    def call(values: dict[str, Any], number: int) -> Generated:
        records.append(Generated(folder=tmp_path / str(number)))
        limited = "max_tokens_total" in values and values["max_tokens_total"]
        status = main(["generate-interface", *arguments({**values, "out": records[-1].folder})])
        assert status == (2 if limited else 0)
        return records[-1]

    return call


@pytest.mark.parametrize("name", SCENES)
def test_options_of_generation_act(name, generate):
    check(SCENES[name], generate)


def test_every_option_of_generation_is_seen_where_it_acts():
    apart = {
        **SEEN,
        "seed": test_another_seed_plays_other_tasks_and_draws_otherwise,
        "allow_untested": test_hybrid.test_without_the_option_an_untested_hypothesis_is_left_out,
        "out": test_generate.test_a_chat_model_plays_and_every_exchange_is_kept,
        "resume": test_generate.test_a_stopped_run_goes_on_and_ends_as_an_uninterrupted_one,
        "dry_run": test_budget.test_a_dry_run_says_what_replays_cost_and_writes_nothing,
        **{option: test for option, test in test_spending.LIMITS.items() if option != "max_tokens_total"},
        "data_root": test_cli.test_bad_input_is_one_line_status_2_and_nothing_written,
    }
    assert unseen(options("generate-interface"), SCENES.values(), apart) == []


def test_another_seed_plays_other_tasks_and_draws_otherwise(generate):
    first, other = (generate({**LLM, "seed": seed}, seed) for seed in (0, 1))
    assert (sorted(first.tasks), other.tasks) == (sorted([BOOK, MUG]), [BOOK])
    assert {seed for _, seed in first.loaded} == {0}
    assert {seed for _, seed in other.loaded} == {1}
