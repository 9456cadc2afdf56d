"""What the beginner learns from: chats of the household teacher and its critic, in rooms of the training floor plans.

Made by the makers of the pocket model's corpus, with another share of each kind: a pretrained model makes mistakes of
its own, and needs fewer of those of the careless teacher. Left out: WebShop, verdicts, words that say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from align_echo.base.dice import Dice
from align_echo.train.sft import Demonstration
from studies.pocket.corpus import drawn_rooms, reviewed
from studies.pocket.household import CAREFUL, CARELESS, TOLD
from studies.pocket.household_demonstrations import Rooms, demonstration, other_goals, play, reword

REVIEWS_A_GAME = 3
REWORDED = 0.3


def lessons(seed: int, games: int) -> Iterator[Demonstration]:
    """Yield the chats of so many drawn rooms."""
    with drawn_rooms(f"beginner {seed}", games) as (rooms, drawn):
        for task in drawn.ids(""):
            dice = Dice(f"beginner {seed} {task}")
            yield from _played(rooms, task, dice)
            for goal in other_goals(task, dice, REVIEWS_A_GAME):
                yield from reviewed(rooms.raw, task, dice, goal)


def _played(rooms: Rooms, task: str, dice: Dice) -> Iterator[Demonstration]:
    """Yield four careful episodes and a careless one alone, three under feedback, one under rules too."""
    kinds = (
        *[("careful", rooms.raw, CAREFUL)] * 4,
        ("careless", rooms.raw, CARELESS),
        *[("hinted", rooms.feedback, TOLD)] * 2,
        ("hinted", rooms.feedback, CARELESS),
        ("told", rooms.full, TOLD),
    )
    goals = dice.shuffled(other_goals(task, dice, len(kinds)))
    for number, ((name, env, habits), goal) in enumerate(zip(kinds, goals, strict=True)):
        own_dice = Dice(f"{task} {number} {dice.below(10**9)}")
        episode = play(env, task, own_dice, habits, goal=goal)
        if episode.fit:
            if name == "hinted" and own_dice.chance(REWORDED):
                episode = reword(episode, own_dice)
            yield demonstration(f"alfworld.{name}", episode)
