"""Training games without end: rooms of the training floor plans with goals drawn by seed, in files of a folder.

Their trial numbers begin where no shipped list of games comes to, so none of them is a task of any split.
"""

from __future__ import annotations

from pathlib import Path

from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.wrappers.alfworld.games import SEEN, floor_plan, game_id, goals_for, read_id, write_game
from align_echo.wrappers.alfworld.routes import TaskParameters
from align_echo.wrappers.alfworld.spec import TASK_TYPES, TRAJECTORY

FIRST_NUMBER = 100_000


class DrawnGames:
    """`count` games drawn with a seed, spread over the six task types and the floor plans of training."""

    label = "drawn training games"

    def __init__(self, seed: str, count: int, folder: Path) -> None:
        dice = Dice(f"pocket games {seed}")
        self._folder = folder
        self._ids = [_drawn(dice, FIRST_NUMBER + number, list(TASK_TYPES)[number % 6]) for number in range(count)]

    def ids(self, split: str) -> list[str]:
        """All of them, whatever the split."""
        return list(self._ids)

    def folder(self, task_id: str) -> Path:
        """The folder of a game, written when first asked for. Raises `UsageError` for one that was not drawn."""
        if task_id not in self._ids:
            raise UsageError(f"{task_id!r} was not drawn")
        folder = self._folder / task_id
        if not (folder / TRAJECTORY).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in write_game(task_id).items():
                (folder / name).write_text(text, encoding="utf-8")
        return folder


def other_goals(task_id: str, dice: Dice, count: int) -> list[TaskParameters]:
    """Goals that make sense in the room of a drawn game, of as many types as can be; the room may lack their things."""
    plan, _, _ = read_id(task_id)
    types = [goals for goals in (goals_for(plan, task_type) for task_type in TASK_TYPES) if goals]
    return [dice.pick(types[number % len(types)]) for number in range(count)]


def _drawn(dice: Dice, number: int, task_type: str) -> str:
    while True:
        plan = floor_plan(dice.pick(SEEN))
        goals = goals_for(plan, task_type)
        if goals:
            return game_id("train", dice.pick(goals), plan.number, number)
