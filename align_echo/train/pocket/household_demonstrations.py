"""Chats of the household teacher as the vanilla agent holds them: alone, and under an interface.

Left out: critiques and verdicts (`critiques.py`, `verdicts.py`), which are made from episodes played here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import gymnasium as gym

from align_echo.agents.conversation import said
from align_echo.agents.vanilla import Vanilla
from align_echo.models.scripted import ScriptedModel
from align_echo.rollout import Episode, extend, run_episode
from align_echo.train.demonstrations import Demonstration
from align_echo.train.pocket.household import CAREFUL, CARELESS, TOLD, Habits, Teacher
from align_echo.types import AgentView, Message, Step, Trajectory
from align_echo.wrappers.alfworld.data import Source
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.alfworld.spec import SPEC
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.catalogue import resolve_interface
from align_echo.wrappers.dice import Dice

INTERFACE = "probe"
"""The shipped interface whose rules and feedback the model learns to heed."""

LONGEST = 45
"""Episodes with more turns are left out: they hold a search that found nothing for long."""

_NAMED_STEP = re.compile(r"does not work yet: you need to `(?P<step>[^`]+)` first\.")
_NAMED_WORD = re.compile(r"is not understood; write `(?P<step>[^`]+)` instead\.")
OTHER_WORDS = (
    "you must first {step}.",
    "before that, {step}.",
    "try `{step}` first.",
    "the next step should be: {step}.",
    "this needs another step first: `{step}`.",
    "use `{step}` before you try again.",
)
"""Other wordings of feedback that names the next command, so that the model heeds interfaces it was not shown."""

_VANILLA = Vanilla(ScriptedModel(()))
"""Words the chats; never asked."""


@dataclass(frozen=True)
class Rooms:
    """The same games without an interface, with its feedback alone, and with its rules too."""

    raw: gym.Env[str, str]
    feedback: gym.Env[str, str]
    full: gym.Env[str, str]

    @classmethod
    def of(cls, games: Source) -> Rooms:
        """One engine each."""
        found = resolve_interface(SPEC, INTERFACE)
        if found is None:
            raise ValueError(f"there is no interface {INTERFACE!r} of {SPEC.name}")
        without_rules = found.model_copy(update={"use_rules": False})
        return cls(
            AlfworldEnv(games, SPEC.train_split),
            AlignWrapper(AlfworldEnv(games, SPEC.train_split), without_rules),
            AlignWrapper(AlfworldEnv(games, SPEC.train_split), found),
        )

    def close(self) -> None:
        """Give the engines back."""
        for env in (self.raw, self.feedback, self.full):
            env.close()


def episodes_of(rooms: Rooms, task: str, dice: Dice) -> list[Demonstration]:
    """What is shown of one game: a careful episode, two careless ones, and two under the interface."""
    played = [
        ("careful", rooms.raw, CAREFUL),
        ("careless", rooms.raw, CARELESS),
        ("careless", rooms.raw, CARELESS),
        ("told", rooms.full, TOLD),
        ("hinted", rooms.feedback, CARELESS if dice.chance(0.5) else TOLD),
    ]
    found = []
    for number, (name, env, habits) in enumerate(played):
        one = Dice(f"{task} {number} {dice.below(10**9)}")
        trajectory, kept = play(env, task, one, habits)
        if kept:
            reworded = name == "hinted" and one.chance(0.6)
            found.append(demonstration(f"alfworld.{name}", reword(trajectory, one) if reworded else trajectory))
    return found


def play(
    env: gym.Env[str, str],
    task: str,
    dice: Dice,
    habits: Habits,
    *,
    critique: str = "",
    search_first: tuple[str, ...] = (),
) -> tuple[Trajectory, bool]:
    """An episode of a new teacher, and whether it is fit to be shown: won in time, or lost by a habit before its end.
    """
    teacher = Teacher(dice, habits, search_first=search_first)
    episode = Episode(task, critique=critique)
    trajectory = run_episode(env, teacher, episode, split=SPEC.train_split, action_format=SPEC.action_format)
    if trajectory.won:
        return trajectory, len(trajectory.steps) <= LONGEST
    if teacher.forgot_at is None:
        return trajectory, False
    cut = trajectory.model_copy(update={"steps": trajectory.steps[: teacher.forgot_at + 4]})
    return cut, len(cut.steps) <= LONGEST


def view_before(trajectory: Trajectory, turn: int) -> AgentView:
    """What the agent knew before a turn, counted from 0."""
    view = AgentView(
        task_id=trajectory.task_id,
        action_format=SPEC.action_format,
        goal=trajectory.goal,
        rules=trajectory.rules,
        initial_observation=trajectory.initial_observation,
        critique=trajectory.critique,
    )
    for step in trajectory.steps[:turn]:
        view = extend(view, step)
    return view


def chat_before(trajectory: Trajectory, turn: int) -> list[Message]:
    """The vanilla agent's chat before a turn, counted from 0."""
    return _VANILLA.conversation(view_before(trajectory, turn))


def demonstration(kind: str, trajectory: Trajectory) -> Demonstration:
    """The whole episode as the vanilla agent's chat; every reply is imitated."""
    last = len(trajectory.steps) - 1
    messages = (*chat_before(trajectory, last), said(trajectory.steps[last].reply))
    return Demonstration(kind=kind, messages=messages, weights=(1.0,) * len(trajectory.steps))


def reword(trajectory: Trajectory, dice: Dice) -> Trajectory:
    """The same episode with the interface's feedback in other words."""
    return trajectory.model_copy(update={"steps": tuple(_reworded(step, dice) for step in trajectory.steps)})


def _reworded(step: Step, dice: Dice) -> Step:
    named = _NAMED_STEP.search(step.observation) or _NAMED_WORD.search(step.observation)
    if named is None:
        return step
    before = step.observation[: step.observation.index("`")]
    words = dice.pick(OTHER_WORDS).format(step=named["step"])
    return step.model_copy(update={"observation": f"{before}{words[0].upper()}{words[1:]}"})
