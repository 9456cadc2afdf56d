"""Chats of the household teacher as the vanilla agent holds them: alone, and under an interface.

Left out: critiques and verdicts (`critiques.py`, `verdicts.py`), which are made from episodes played here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

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
        episode = play(env, task, one, habits)
        if episode.fit:
            reworded = name == "hinted" and one.chance(0.6)
            found.append(demonstration(f"alfworld.{name}", reword(episode, one) if reworded else episode))
    return found


@dataclass(frozen=True)
class Played:
    """A teacher's episode: whether it is fit to be shown, and the turns, counted from 0, that are not to be imitated.
    """

    trajectory: Trajectory
    fit: bool
    astray: frozenset[int]


def play(
    env: gym.Env[str, str],
    task: str,
    dice: Dice,
    habits: Habits,
    *,
    critique: str = "",
    search_first: tuple[str, ...] = (),
) -> Played:
    """An episode of a new teacher. Fit to be shown: won in time, or lost by a habit and cut soon after that."""
    teacher = Teacher(dice, habits, search_first=search_first)
    episode = Episode(task, critique=critique)
    trajectory = run_episode(env, teacher, episode, split=SPEC.train_split, action_format=SPEC.action_format)
    lost = not trajectory.won and teacher.forgot_at is not None
    if lost and teacher.forgot_at is not None:
        trajectory = trajectory.model_copy(update={"steps": trajectory.steps[: teacher.forgot_at + 4]})
    fit = (trajectory.won or lost) and len(trajectory.steps) <= LONGEST
    return Played(trajectory, fit, frozenset(teacher.astray))


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


def demonstration(kind: str, played: Played) -> Demonstration:
    """The whole episode as the vanilla agent's chat; every reply is imitated but those that went astray."""
    steps = played.trajectory.steps
    messages = (*chat_before(played.trajectory, len(steps) - 1), said(steps[-1].reply))
    weights = tuple(0.0 if turn in played.astray else 1.0 for turn in range(len(steps)))
    return Demonstration(kind=kind, messages=messages, weights=weights)


def reword(played: Played, dice: Dice) -> Played:
    """The same episode with the interface's feedback in other words."""
    steps = tuple(_reworded(step, dice) for step in played.trajectory.steps)
    return replace(played, trajectory=played.trajectory.model_copy(update={"steps": steps}))


def _reworded(step: Step, dice: Dice) -> Step:
    named = _NAMED_STEP.search(step.observation) or _NAMED_WORD.search(step.observation)
    if named is None:
        return step
    before = step.observation[: step.observation.index("`")]
    words = dice.pick(OTHER_WORDS).format(step=named["step"])
    return step.model_copy(update={"observation": f"{before}{words[0].upper()}{words[1:]}"})
