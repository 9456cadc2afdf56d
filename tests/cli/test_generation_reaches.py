"""Every option of `generate-interface`, seen where it acts: at the models that are asked, and in what is played.

`SCENES` is the table (`tests/reach.py`): a new option needs a row in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from align_echo.cli.main import main
from align_echo.models.names import ModelName
from align_echo.types import Completion, Message
from align_echo.workers.choice import play_tasks
from tests.align.hybrid import test_hybrid
from tests.align.room_world import BOOK, CHECKS, EXPERIMENTS, GOOD_CODE, MUG, SPEC, code, findings, naive_agent
from tests.cli import test_agents, test_cli, test_generate
from tests.reach import Case, Row, Scene, check, options, unseen


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """The mug is left out where the seed is odd."""
    return [BOOK, MUG] if seed % 2 == 0 else [BOOK]


ROOM = replace(SPEC, training_tasks=training_tasks)
ANNEX = replace(ROOM, name="annex")
HERE = "tests.cli.test_generation_reaches"


def role_of(messages: Sequence[Message]) -> str:
    """Who is asked: a role of ALIGN's, or the agent."""
    roles = {
        "You find out why an agent fails.": "analyzer",
        "You find out why an agent fails in": "hypotheses",
        "You check by experiments": "checker",
        "You write the interface": "optimizer",
    }
    return next((role for words, role in roles.items() if messages[0].content.startswith(words)), "agent")


def answer(messages: Sequence[Message]) -> str:
    """What a model of each role says to a conversation."""
    role, turn = role_of(messages), sum(message.role == "assistant" for message in messages)
    if role == "agent":
        return naive_agent({"messages": [message.model_dump() for message in messages]})
    analysis = [findings(), *EXPERIMENTS, findings(support="2, 3, 5, 7")]
    replies = {"analyzer": analysis, "checker": CHECKS, "optimizer": [code(GOOD_CODE)], "hypotheses": ["none"]}
    return replies[role][min(turn, len(replies[role]) - 1)]


@dataclass
class Asked:
    """A question to a model of a name."""

    model: str
    role: str
    words: str
    temperature: float
    max_tokens: int


@dataclass
class Generated:
    """What a run did."""

    folder: Path
    status: int = 0
    asked: list[Asked] = field(default_factory=list)
    loaded: set[tuple[str | None, int]] = field(default_factory=set)
    workers: list[int] = field(default_factory=list)

    def models(self, *roles: str) -> str:
        """The names of the models that roles were asked of."""
        return " ".join(sorted({asked.model for asked in self.asked if asked.role in roles}))

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


@dataclass
class Listening:
    """A model that keeps what it is asked."""

    name: str
    record: Generated

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        words = " ".join(message.content for message in messages)
        self.record.asked.append(Asked(self.name, role_of(messages), words, temperature, max_tokens))
        return Completion(text=answer(messages))


def row(option: str, see: Callable[[Generated], Any], *cases: Case) -> Row[Generated]:
    return Row(option, see, cases)


def roles(made: Generated) -> str:
    """The roles of ALIGN's that were asked."""
    return " ".join(sorted({asked.role for asked in made.asked} - {"agent"}))


def limits(made: Generated) -> list[int]:
    """The bounds of replies."""
    return sorted({asked.max_tokens for asked in made.asked})


def is_react(made: Generated) -> bool:
    return any("Thought: what" in asked.words for asked in made.asked)


MODELS = {"analyzer_model": "analyst", "optimizer_model": "author"}
LLM = {"env": f"{HERE}:ROOM", "model": "player", "backend": "llm", "iterations": 1, "play_tasks": 0}

SCENES: dict[str, Scene[Generated]] = {
    "models": Scene(
        LLM,
        [
            row("env", lambda made: made.summary["environment"], (f"{HERE}:ROOM", "room"), (f"{HERE}:ANNEX", "annex")),
            row("model", lambda made: made.models("agent"), ("player", "player"), ("other", "other")),
            row("analyzer_model", lambda made: made.models("analyzer"), ("analyst", "analyst"), (None, "other")),
            row("optimizer_model", lambda made: made.models("optimizer"), (None, "player"), ("writer", "writer")),
            row(
                "base_url",
                lambda made: " ".join({str(url) for url, _ in made.loaded}),
                *((None, "None"), ("http://a/v1", "http://a/v1")),
            ),
            row("max_tokens", limits, (300, [300]), (400, [400])),
            row("agent", is_react, ("vanilla", False), ("react", True)),
            row("tasks_per_iteration", lambda made: len(made.tasks), (2, 2), (1, 1)),
            row("workers", lambda made: made.workers[0], (2, 2), (3, 3)),
        ],
    ),
    "iterations": Scene(LLM, [row("iterations", lambda made: len(made.summary["iterations"]), (1, 1), (2, 2))]),
    "play": Scene(LLM, [row("play_tasks", lambda made: len(made.played), (0, 0), (1, 3))]),
    "backends": Scene(
        {**LLM, **MODELS}, [row("backend", roles, ("llm", "analyzer checker optimizer"), ("hybrid", "hypotheses"))]
    ),
    "by itself": Scene(
        {**LLM, **MODELS}, [row("backend", roles, ("llm", "analyzer checker optimizer"), ("auto", "hypotheses"))]
    ),
    "no model": Scene(LLM, [row("backend", roles, ("hybrid", "hypotheses"), ("probe", ""))]),
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

    def load(name: ModelName, base_url: str | None = None, *, seed: int = 0, processes: int = 0) -> Listening:
        records[-1].loaded.add((base_url, seed))
        return Listening(name.text, records[-1])

    def played(workers: Any, *given: Any, **options: Any) -> Any:
        records[-1].workers.append(workers.count)
        return play_tasks(workers, *given, **options)

    monkeypatch.setattr("align_echo.models.load_model", load)
    monkeypatch.setattr("align_echo.align.loop.play_tasks", played)

    def call(values: dict[str, Any], number: int) -> Generated:
        records.append(Generated(tmp_path / str(number)))
        records[-1].status = main(["generate-interface", *arguments({**values, "out": records[-1].folder})])
        return records[-1]

    return call


@pytest.mark.parametrize("name", SCENES)
def test_options_of_generation_act(name, generate):
    check(SCENES[name], generate)


def test_every_option_of_generation_is_seen_where_it_acts():
    apart = {
        "agent_preset": test_agents.test_bad_input_is_one_line_and_nothing_written,
        "seed": test_another_seed_plays_other_tasks_and_draws_otherwise,
        "allow_untested": test_hybrid.test_without_the_option_an_untested_hypothesis_is_left_out,
        "out": test_generate.test_a_chat_model_plays_and_every_exchange_is_kept,
        "resume": test_generate.test_a_stopped_run_goes_on_and_ends_as_an_uninterrupted_one,
        "data_root": test_cli.test_bad_input_is_one_line_status_2_and_nothing_written,
    }
    assert unseen(options("generate-interface"), SCENES.values(), apart) == []


def test_another_seed_plays_other_tasks_and_draws_otherwise(generate):
    first, other = (generate({**LLM, "seed": seed}, seed) for seed in (0, 1))
    assert (sorted(first.tasks), other.tasks) == (sorted([BOOK, MUG]), [BOOK])
    assert {seed for _, seed in first.loaded} == {0}
    assert {seed for _, seed in other.loaded} == {1}
