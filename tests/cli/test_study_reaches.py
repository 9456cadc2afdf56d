"""Every key of a study's file, seen where it acts: at the models that are asked, in what is learned and played.

`SCENES` is the table (`tests/reach.py`): a new key needs a row in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from align_echo.cli.main import main
from align_echo.evaluate.study_file import StudyFile
from align_echo.models.endpoint import DEFAULT_BASE_URL
from align_echo.workers.ray_cluster import play_tasks
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.align.room_world import BOOK, GOOD_CODE, MUG
from tests.cli import test_request_fields
from tests.cli.room_models import Heard, listen
from tests.reach import Case, Row, Scene, check, fields, unseen

ROOM = "tests.cli.room_models:ROOM"
PLAYER, OTHER = ({"agent": "vanilla", "model": name} for name in ("player", "other"))


@dataclass
class Studied(Heard):
    """What a study did: `workers` of every part that was played, `retracts` of the interfaces that were."""

    folder: Path = Path()
    workers: list[int] = field(default_factory=list)
    retracts: set[bool] = field(default_factory=set)

    def paths(self, pattern: str) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob(pattern))

    @property
    def parts(self) -> str:
        return " ".join(sorted(json.loads((self.folder / "summary.json").read_text())["parts"]))

    @property
    def tasks(self) -> set[str]:
        """The tasks that were played without an interface."""
        files = sorted(self.folder.glob("evaluations/**/trajectories/none.jsonl"))
        return {json.loads(line)["task_id"] for file in files for line in file.read_text().splitlines()}

    @property
    def trained(self) -> int:
        """The tasks of an iteration that an interface was learned from."""
        (file,) = self.folder.glob("interfaces/room/*/iterations/1/trajectories.jsonl")
        return len(file.read_text().splitlines())

    @property
    def longest(self) -> int:
        """The turns of the longest episode without an interface."""
        files = sorted(self.folder.glob("evaluations/**/trajectories/none.jsonl"))
        return max(len(json.loads(line)["steps"]) for file in files for line in file.read_text().splitlines())

    @property
    def temperatures(self) -> list[float]:
        """Those of the agent's replies."""
        return sorted({asked.temperature for asked in self.asked if asked.role == "agent"})


def row(key: str, see: Callable[[Studied], Any], *cases: Case) -> Row[Studied]:
    return Row(key, see, cases)


def roles(study: Studied) -> str:
    return study.roles


WRITERS = "analyzer checker optimizer"
SHIPPED = {"environments": [ROOM], "agents": [PLAYER], "interface": "./good.py", "tasks": 2}
LEARNED = {**SHIPPED, "interface": "generate", "backend": "llm", "iterations": 1}
BY_MODELS = {**LEARNED, "analyzer_model": "analyst", "optimizer_model": "author"}

SCENES: dict[str, Scene[Studied]] = {
    "what is played": Scene(
        SHIPPED,
        [
            row(
                "environments",
                lambda study: study.paths("evaluations/*")[0],
                *(([ROOM], "evaluations/room"), (["tests.cli.room_models:ANNEX"], "evaluations/annex")),
            ),
            row("agents", lambda study: study.models("agent"), ([PLAYER], "player"), ([OTHER], "other")),
            row("tasks", lambda study: len(study.tasks), (2, 2), (1, 1)),
            row("placebo", lambda study: bool(study.paths("**/placebo.jsonl")), (True, True), (False, False)),
            row("retract", lambda study: study.retracts == {True}, (True, True), (False, False)),
            row("ablations", lambda study: study.parts, ([], "main"), (["rules", "feedback"], "feedback main rules")),
            row("base_url", lambda study: study.base_urls, (None, DEFAULT_BASE_URL), ("http://a/v1", "http://a/v1")),
            row("temperature", lambda study: study.temperatures, (0.3, [0.3]), (0.9, [0.9])),
            row("max_tokens", lambda study: study.limits, (300, [300]), (400, [400])),
            row("workers", lambda study: study.workers[0], (2, 2), (3, 3)),
        ],
    ),
    "turns": Scene(SHIPPED, [row("turns", lambda study: study.longest, (2, 2), (3, 3))]),
    "preset": Scene(
        SHIPPED, [row("agent_preset", lambda study: study.limits, (None, [512]), ("align-paper", [1024]))]
    ),
    "seeds": Scene(
        SHIPPED, [row("seeds", lambda study: len(study.paths("evaluations/seed-*")), ([3], 0), ([3, 4], 2))]
    ),
    "interface": Scene(
        SHIPPED,
        [row("interface", lambda study: bool(study.paths("interfaces/*")), ("./good.py", False), ("generate", True))],
    ),
    "what is learned": Scene(
        LEARNED,
        [
            row("analyzer_model", lambda study: study.models("analyzer"), (None, "player"), ("analyst", "analyst")),
            row("optimizer_model", lambda study: study.models("optimizer"), (None, "player"), ("author", "author")),
            row("iterations", lambda study: len(study.paths("interfaces/room/*/iterations/*")), (1, 1), (2, 2)),
            row("tasks_per_iteration", lambda study: study.trained, (1, 1), (2, 2)),
        ],
    ),
    "backends": Scene(BY_MODELS, [row("backend", roles, ("llm", WRITERS), ("hybrid", "hypotheses"))]),
    "by itself": Scene(BY_MODELS, [row("backend", roles, ("llm", WRITERS), ("auto", "hypotheses"))]),
    "no model": Scene(LEARNED, [row("backend", roles, ("llm", WRITERS), ("probe", ""))]),
    "without experiments": Scene(
        BY_MODELS, [row("ablations", lambda study: study.parts, ([], "main"), (["verification"], "main verification"))]
    ),
    "transfer": Scene(
        {**LEARNED, "agents": [PLAYER, OTHER]},
        [
            row(
                "transfer",
                lambda study: study.parts,
                *(([], "main"), ([[PLAYER, OTHER]], "main transfer vanilla(player) > vanilla(other)")),
            )
        ],
    ),
}


@pytest.fixture
def study(monkeypatch, tmp_path):
    """Play a study from a file of its own, and say what was done."""
    Path("good.py").write_text(GOOD_CODE)
    records: list[Studied] = []
    make = AlignWrapper.__init__

    def played(workers: Any, *given: Any, **options: Any) -> None:
        records[-1].workers.append(workers.count)
        play_tasks(workers, *given, **options)

    def made(wrapper: AlignWrapper, env: Any, interface: Any, **options: Any) -> None:
        records[-1].retracts.add(interface.retract)
        make(wrapper, env, interface, **options)

    listen(monkeypatch, records)
    monkeypatch.setattr("align_echo.evaluate.playing.play_tasks", played)
    monkeypatch.setattr(AlignWrapper, "__init__", made)

    def call(values: dict[str, Any], number: int) -> Studied:
        records.append(Studied(folder=tmp_path / str(number)))
        Path("mine.yaml").write_text(yaml.safe_dump(values))
        assert main(["study", "mine.yaml", "--out", str(records[-1].folder)]) == 0
        return records[-1]

    return call


@pytest.mark.parametrize("name", SCENES)
def test_keys_of_a_study_act(name, study):
    check(SCENES[name], study)


def test_every_key_of_a_study_is_seen_where_it_acts():
    named = test_request_fields.test_models_that_a_study_names_are_asked_with_the_fields
    apart: dict[str, Callable[..., object]] = {
        "seed": test_another_seed_learns_from_other_tasks_with_other_draws,
        **dict.fromkeys(("reasoning_effort", "extra_body", "template_args"), named),
    }
    assert unseen(fields(StudyFile), SCENES.values(), apart) == []


def test_another_seed_learns_from_other_tasks_with_other_draws(study):
    first, other = (study({**LEARNED, "seed": seed}, seed) for seed in (0, 1))
    assert (first.trained, other.trained) == (len([BOOK, MUG]), len([BOOK]))
    assert [{seed for _, seed in each.loaded} for each in (first, other)] == [{0}, {1}]
