"""What the probe says when it learns nothing: what it looked for and at, and what share of the answers may refuse."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym

from align_echo.align.loop import generate
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.findings import nothing_found
from align_echo.align.run_folder import RunFolder, ending
from align_echo.interface.contract import identity
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView
from tests.align.room_world import SPEC
from tests.annex_env import CONTRACT as ANNEX
from tests.annex_env import TASK_IDS as ANNEX_TASKS
from tests.annex_env import AnnexEnv
from tests.room_env import CONTRACT, TASK_IDS, MuteEnv, RoomEnv, instead_of


class Scripted:
    """Says the same actions in every episode, again and again."""

    name = "scripted"

    def __init__(self, *actions: str) -> None:
        self.actions = actions

    def act(self, view: AgentView) -> AgentReply:
        action = self.actions[len(view.turns) % len(self.actions)]
        return AgentReply(text=action, action=action)


def noted(make: type[RoomEnv], *actions: str) -> str:
    """What the probe notes of an agent's failures in the two rooms."""
    failed = run_tasks(make, Scripted(*actions), TASK_IDS, split="train")
    notes: list[str] = []
    backend = ProbeBackend(lambda: make(10**6), TASK_IDS, note=notes.append)
    assert backend.analyze(failed, [], identity(CONTRACT)) == []
    assert len(notes) == 1
    assert "nothing to align" not in notes[0]
    assert "no proof" in notes[0]
    return notes[0]


def test_an_agent_stuck_on_one_action_is_told_the_share_of_its_refusals():
    note = noted(RoomEnv, *["take unicorn 1"] * 7, "look", "look")
    assert note.startswith(
        "none of the known kinds was found in 2 failed episodes (40 answers to 2 different actions). Yet "
        '40 of 40 answers (100%) were one of 2 texts: "Nothing happens." 32 times, to `take unicorn 1` alone, '
        '"You are in the kitchen. You see a mug 1." 8 times, to `look` alone; '
    )


def test_in_a_silent_world_the_repeated_answers_are_told():
    note = noted(MuteEnv, "take unicorn 1", "look", "take unicorn 1")
    assert "40 of 40 answers (100%) were one text" in note
    assert "38 of 40 answers (95%) were the answer before again, so to `look`, `take unicorn 1`" in note


class QuotingEnv(AnnexEnv):
    """An engine whose refusals name a thing, and repeat what was said."""

    def _act(self, action: str):
        state = super()._act(action)
        told = f"The clock will not let you {action}!" if state.observation == "Eh?" else state.observation
        return self._answer(told)


def test_refusals_that_quote_the_action_are_told_with_an_example():
    def make() -> gym.Env[str, str]:
        return QuotingEnv()

    failed = run_tasks(make, Scripted("ping elf", "brief", "grasp elf", "peer"), ANNEX_TASKS[:2], split="train")
    notes: list[str] = []
    backend = ProbeBackend(lambda: QuotingEnv(10**6), ANNEX_TASKS[2:6], note=notes.append)
    assert backend.analyze(failed, [], identity(ANNEX)) == []
    assert '40 of 80 answers (50%) quoted the action: "The clock will not let you ...!", to `ping elf` and' in notes[0]


def test_where_no_answer_came_again_that_is_said():
    failed = run_tasks(RoomEnv, Scripted("go to study", "take book 1"), TASK_IDS[:1], split="train")
    short = [episode.model_copy(update={"steps": episode.steps[:2]}) for episode in failed]
    assert "1 failed episode (2 answers to 2 different actions); no answer was frequent" in nothing_found(short)


def test_a_run_keeps_the_note_and_ends_with_no_promise(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    backend = ProbeBackend(lambda: MuteEnv(10**6), TASK_IDS, note=folder.note)
    made = generate(instead_of(SPEC, MuteEnv), Scripted("take unicorn 1", "look"), backend, folder, iterations=3)
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    notes = [event["message"] for event in events if event["kind"] == "note"]
    assert ["were the answer before again" in note for note in notes] == [True]
    assert "found no new misalignment of the kinds that it looks for, which is no proof" in ending(made.summary)
