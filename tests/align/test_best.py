"""A run ends with the best version that was played, and never with a worse one because it came later."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from align_echo.align.loop import GenerationResult, best_iteration, generate
from align_echo.align.run_folder import IterationOutcome, IterationRecord, RunFolder
from align_echo.interface.contract import Interface, RuleRecord, identity, load_interface
from align_echo.types import AgentReply, AgentView, Misalignment, Trajectory
from tests.align.hybrid.station import SPEC
from tests.station_env import TASK_IDS, StationEnv


def records(*played: tuple[int, int, IterationOutcome]) -> list[IterationRecord]:
    """Iterations from (failed, tasks, outcome); each "written" one makes a new version."""
    version, made = 0, []
    for number, (failed, tasks, outcome) in enumerate(played, start=1):
        before = f"v@{version}"
        version = number if outcome == "written" else version
        made.append(
            IterationRecord(
                iteration=number,
                outcome=outcome,
                tasks=tasks,
                failed=failed,
                faults=0,
                interface_before=before,
                interface_after=f"v@{version}",
            )
        )
    return made


@pytest.mark.parametrize(
    ("played", "best"),
    [
        ([(16, 18, "written"), (2, 18, "written"), (1, 18, "unchanged")], 2),
        ([(16, 18, "written"), (2, 18, "written"), (17, 18, "unchanged")], 1),
        ([(16, 18, "written"), (2, 18, "written"), (17, 18, "written"), (17, 18, "no-misalignments")], 1),
        ([(2, 18, "written"), (18, 18, "no-misalignments")], 0),
        ([(9, 18, "written"), (7, 18, "written"), (10, 18, "no-misalignments")], 2),
        ([(16, 18, "written"), (2, 18, "written")], 2),
        ([(16, 18, "unchanged")], 0),
        ([(0, 18, "no-failures")], 0),
        ([(1, 1, "written"), (1, 1, "written"), (0, 1, "no-failures")], 2),
    ],
)
def test_the_last_version_is_given_up_only_for_one_that_is_clearly_better(
    played: list[tuple[int, int, IterationOutcome]], best: int
) -> None:
    assert best_iteration(records(*played)) == best


def label(source: str, extra: str = "", name: str = "probe") -> str:
    return f"{name}@{source * 16}{extra}"


def test_a_version_is_known_by_its_source_and_not_by_its_label() -> None:
    silenced = records((20, 20, "written"), (15, 20, "written"), (11, 20, "no-misalignments"))
    before = [label("a", name="identity"), label("b"), label("c")]
    after = [label("b"), label("c"), label("c", "-1-silenced")]
    of_older_runs = [
        record.model_copy(update={"interface_before": old, "interface_after": new})
        for record, old, new in zip(silenced, before, after, strict=True)
    ]
    assert best_iteration(of_older_runs) == 2, "what is known of its hints makes it no other version"
    sources = [("a", "b"), ("b", "c"), ("c", "c")]
    same_label = [
        record.model_copy(
            update={"interface_before": "x@0", "interface_after": "x@0", "source_before": old, "source_after": new}
        )
        for record, (old, new) in zip(silenced, sources, strict=True)
    ]
    assert best_iteration(same_label) == 2, "one label is not one version"


def test_a_version_that_is_written_again_is_the_one_that_was_played() -> None:
    again = records((2, 18, "written"), (1, 18, "written"), (18, 18, "written"), (2, 18, "unchanged"))
    sources = [("a", "b"), ("b", "c"), ("c", "b"), ("b", "b")]
    played = [
        record.model_copy(update={"source_before": old, "source_after": new})
        for record, (old, new) in zip(again, sources, strict=True)
    ]
    assert best_iteration(played) == 3


def test_records_of_older_runs_are_read_in_todays_words() -> None:
    old = {"iteration": 1, "outcome": "improved", "tasks": 2, "failed": 2, "faults": 0, "misalignments": 2}
    old |= {"resolved": 1, "interface_before": label("a"), "interface_after": label("b", "-2-silenced-placebo")}
    record = IterationRecord.model_validate_json(json.dumps(old))
    assert (record.outcome, record.addressed) == ("written", 1)
    assert (record.version_before, record.version_after) == ("a" * 16, "b" * 16)


class Reader:
    """Knows the way, and goes it if its rules say so, but in the last of the tasks."""

    name = "reader"

    def act(self, view: AgentView) -> AgentReply:
        env = StationEnv()
        env.reset(options={"task": view.task_id})
        pod = env._gems[4]
        way = [f"board deck {pod}", f"unseal pod {pod}", f"fetch gem 4 out pod {pod}"]
        way += ["board deck 1", "unseal pod 1", "stow gem 4 into pod 1"]
        lost = "GO" not in view.rules or view.task_id == TASK_IDS[-1]
        action = "scan" if lost else way[min(len(view.turns), 5)]
        return AgentReply(text=action, action=action)


class Author:
    """Finds something new in every failure; its first interface helps, its second does not."""

    name = "author"
    calls_it = "author"

    def describe(self) -> dict[str, str]:
        return {}

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        return [
            Misalignment(
                task_id=failed[0].task_id,
                action_type="scan",
                action="scan",
                intent="",
                rule=f"rule {len(known) + 1}",
                sufficient_feedback="",
            )
        ]

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        word = "GO" if not interface.provenance.rules else "STAY"
        source = identity(interface.contract).source.replace("return ''", f"return {word!r}")
        provenance = interface.provenance.model_copy(
            update={"rules": (*interface.provenance.rules, RuleRecord(text=new[0].text, evidence=new[0].evidence))}
        )
        return interface.model_copy(update={"name": self.calls_it, "source": source, "provenance": provenance})


def test_a_worse_interface_that_came_later_is_not_what_the_run_ends_with(tmp_path: Path) -> None:
    spec = replace(SPEC, training_tasks=lambda *, data_root, iteration, seed: list(TASK_IDS))

    def run(iterations: int, *, resume: bool = False) -> GenerationResult:
        path = tmp_path / str(iterations)
        return generate(spec, Reader(), Author(), RunFolder(path), iterations=iterations, resume=resume)

    made = run(3)
    assert [record.failed for record in made.summary.iterations] == [12, 1, 12]
    assert "'GO'" in made.interface.source
    assert load_interface(tmp_path / "3/interface.py").source == made.interface.source
    assert (made.summary.addressed, made.summary.rules, made.summary.written) == (1, 1, True)
    said = (tmp_path / "3/events.jsonl").read_text()
    lost = r"author@\w+ lost 12 of 12 episodes, and author@\w+ 1 of 12 episodes, .*that one is kept"
    assert re.search(lost, said)
    assert run(3, resume=True).summary == made.summary
    assert "'STAY'" in run(2).interface.source, "what was not played yet is not judged"


def test_an_interface_is_another_by_its_source_whatever_it_is_called(tmp_path: Path) -> None:
    author = Author()
    author.calls_it = "identity"
    spec = replace(SPEC, training_tasks=lambda *, data_root, iteration, seed: list(TASK_IDS))
    made = generate(spec, Reader(), author, RunFolder(tmp_path / "run"), iterations=2)
    assert made.summary.written
    assert made.summary.rules > 0
