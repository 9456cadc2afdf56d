"""What the beginner learns from: chats of the household teacher and its critic, in rooms of the training floor plans.

Made by the makers of the pocket model's corpus, with another share of each kind: a pretrained model makes mistakes of
its own, so it imitates nothing that was refused and reads how to go on after it. Left out: WebShop, verdicts, words
that say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from align_echo.base.dice import Dice
from align_echo.train.sft import Demonstration
from align_echo.types import AgentView
from studies.pocket.corpus import drawn_rooms, reviewed
from studies.pocket.household import CAREFUL, CARELESS, REFUSAL, TOLD, Teacher
from studies.pocket.household_demonstrations import Played, Rooms, demonstration, other_goals, play, reword

REVIEWS_A_GAME = 8
REWORDED = 0.3
TOLD_GAMES = 0.2
"""Share of rooms with an episode under the rules, whose prompt is as long as the rest of the room."""
STAYS = 0.1
"""How likely a turn goes to where the player is already."""


class Restless(Teacher):
    """Now and then goes to where it is already, which is not to be imitated."""

    def _choose(self, view: AgentView) -> str:
        self._refused.pop(f"go to {self._at}", None)  # of a place that it reached
        if self._at and not self._commanded and self._dice.chance(STAYS):
            self.astray.add(len(view.turns))
            return f"go to {self._at}"
        return super()._choose(view)


def lessons(seed: int, games: int) -> Iterator[Demonstration]:
    """Yield the chats of so many drawn rooms."""
    with drawn_rooms(f"beginner {seed}", games) as (rooms, drawn):
        for task in drawn.ids(""):
            dice = Dice(f"beginner {seed} {task}")
            yield from _played(rooms, task, dice)
            for goal in other_goals(task, dice, REVIEWS_A_GAME):
                yield from reviewed(rooms.raw, task, dice, goal)


def _played(rooms: Rooms, task: str, dice: Dice) -> Iterator[Demonstration]:
    """Yield three careful episodes alone, two under feedback, in some rooms one under rules too."""
    kinds = (
        *[("careful", rooms.raw, CAREFUL)] * 3,
        ("hinted", rooms.feedback, TOLD),
        ("hinted", rooms.feedback, CARELESS),
        *[("told", rooms.full, TOLD)] * dice.chance(TOLD_GAMES),
    )
    goals = dice.shuffled(other_goals(task, dice, len(kinds)))
    for number, ((name, env, habits), goal) in enumerate(zip(kinds, goals, strict=True)):
        own_dice = Dice(f"{task} {number} {dice.below(10**9)}")
        episode = play(env, task, own_dice, habits, goal=goal, teacher=Restless)
        if episode.fit and episode.trajectory.won:
            if name == "hinted" and own_dice.chance(REWORDED):
                episode = reword(episode, own_dice)
            yield demonstration(f"alfworld.{name}", _without_refused(episode))


def _without_refused(played: Played) -> Played:
    """Return the episode with each refused turn among those that are not to be imitated."""
    steps = enumerate(played.trajectory.steps)
    refused = {turn for turn, step in steps if step.observation.startswith(REFUSAL)}
    return replace(played, astray=played.astray | refused)
