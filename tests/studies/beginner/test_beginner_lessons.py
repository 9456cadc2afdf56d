"""What the beginner learns from: of drawn games alone, every kind, in the forms that it is asked in."""

from __future__ import annotations

from pathlib import Path

import pytest

import align_echo
from align_echo.critic.language import parse_critique
from studies.beginner.lessons import lessons
from studies.pocket.household import REFUSAL
from studies.pocket.household_demonstrations import DrawnGames

pytestmark = pytest.mark.long


def test_a_room_shows_every_kind_and_is_no_task_of_a_split(monkeypatch):
    folders: list[str] = []
    write = DrawnGames.folder

    def noted(games: DrawnGames, task: str) -> Path:
        folders.append(task)
        return write(games, task)

    monkeypatch.setattr(DrawnGames, "folder", noted)
    shown = [lesson for seed in (1, 2) for lesson in lessons(seed, 1)]
    kinds = {lesson.kind.removeprefix("alfworld.") for lesson in shown}
    assert kinds - {"refined", "told"} == {"careful", "hinted", "critique"}
    assert folders
    assert set(folders).isdisjoint(
        task for split in ("train", "valid_seen", "valid_unseen") for task in align_echo.tasks("alfworld", split=split)
    )
    stays = 0
    for lesson in shown:
        if lesson.kind == "alfworld.critique":
            parse_critique(lesson.messages[-1].content, "icrl" if "Next time" in lesson.messages[0].content else "echo")
        if lesson.kind == "alfworld.told":
            assert "# Rules of this environment" in lesson.messages[0].content
        if lesson.kind == "alfworld.hinted":
            assert "# Rules of this environment" not in lesson.messages[0].content
        if not lesson.kind.endswith(("critique", "refined")):
            answers = [message.content for message in lesson.messages if message.role == "user"][1:]
            refused = [answer.startswith(REFUSAL) for answer in answers]
            assert all(weight == 0.0 for weight, bad in zip(lesson.weights, refused, strict=False) if bad)
            stays += sum(refused)
    assert stays, "the chats hold what follows a refusal"
