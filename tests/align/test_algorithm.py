"""Algorithm 1 itself, with a backend that finds one misalignment in each iteration and never resolves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from align_echo.agents.reasoning import Vanilla
from align_echo.align.loop import GenerationResult, generate
from align_echo.align.run_folder import Event, RunFolder
from align_echo.interface.contract import Interface, load_interface
from align_echo.models import ScriptedModel
from align_echo.types import Misalignment, Trajectory
from tests.align.room_world import BOOK, MUG, SPEC


def other_tasks_each_iteration(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    return [BOOK] if iteration % 2 else [MUG]


WORLD = replace(SPEC, training_tasks=other_tasks_each_iteration)


class Finder:
    """Finds `rule <n>` in iteration n, and notes it in the code."""

    name = "finder"

    def __init__(self) -> None:
        self.requests: list[tuple[list[str], list[str], int]] = []

    def describe(self) -> dict[str, str]:
        return {"model.finder": "m", "prompt.finder/find": "abc", "depth": "2"}

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        tasks, rules = [trajectory.task_id for trajectory in failed], [misalignment.rule for misalignment in known]
        self.requests.append((tasks, rules, interface.provenance.iterations))
        misalignment = Misalignment(
            task_id=failed[0].task_id,
            action_type="a",
            action="look",
            intent="i",
            rule=f"rule {len(known) + 1}",
            sufficient_feedback="f",
        )
        return [misalignment]

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        return interface.model_copy(update={"name": "made", "source": f"{interface.source}# {new[0].rule}\n"})


def play(path: Path, *, resume: bool = False, stop_after: int = 0) -> tuple[GenerationResult, Finder]:
    finder, seen = Finder(), 0

    def watch(event: Event) -> None:
        nonlocal seen
        seen += event.kind == "iteration-finished"
        if stop_after and seen == stop_after:
            raise KeyboardInterrupt

    agent = Vanilla(ScriptedModel(lambda messages: "look"))
    return generate(WORLD, agent, finder, RunFolder(path), iterations=3, resume=resume, on_event=watch), finder


def test_each_iteration_builds_on_the_one_before(tmp_path: Path) -> None:
    made, finder = play(tmp_path)
    assert finder.requests == [([BOOK], [], 0), ([MUG], ["rule 1"], 1), ([BOOK], ["rule 1", "rule 2"], 2)]
    assert made.summary.stopped == "iteration-limit"
    assert made.interface.source.endswith("# rule 1\n# rule 2\n# rule 3\n")
    labels = [(iteration.interface_before, iteration.interface_after) for iteration in made.summary.iterations]
    assert labels[0][0].startswith("identity@")
    assert labels[0][1] == labels[1][0] != labels[1][1] == labels[2][0]


def test_the_record_says_how_the_interface_was_made(tmp_path: Path) -> None:
    play(tmp_path)
    record = load_interface(tmp_path / "interface.py").provenance
    assert (record.backend, record.agent, record.iterations) == ("finder", "vanilla(scripted)", 3)
    assert record.training_tasks == (BOOK, MUG)
    assert record.models == {"finder": "m", "agent": "scripted"}
    assert record.prompt_hashes["finder/find"] == "abc"
    assert "python" in record.versions
    assert load_interface(tmp_path / "iterations/1/interface.py").provenance.training_tasks == (BOOK,)


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_run_that_was_stopped_between_iterations_ends_the_same(tmp_path: Path, stop_after: int) -> None:
    expected, _ = play(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path / "run", stop_after=stop_after)
    made, finder = play(tmp_path / "run", resume=True)
    assert made == expected
    assert len(finder.requests) == 3 - stop_after
