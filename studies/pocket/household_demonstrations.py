"""Chats of the household teacher as the vanilla agent holds them: alone, and under an interface.

Games are drawn by seed in rooms of the training floor plans. Their trial numbers begin where no shipped list comes to,
so none is a task of any split. Left out: critiques and verdicts (`critiques.py`), made from episodes played here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium as gym

from align_echo.agents.conversation import assistant_message
from align_echo.agents.reasoning import Vanilla
from align_echo.base.dice import Dice
from align_echo.errors import UsageError
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import view_before
from align_echo.rollout.session import extend, start_view, take_turn
from align_echo.train.sft import Demonstration
from align_echo.types import AgentView, Step, Trajectory
from align_echo.wrappers.alfworld import SPEC
from align_echo.wrappers.alfworld.data import GameSource
from align_echo.wrappers.alfworld.env import TASK_PREFIX, AlfworldEnv
from align_echo.wrappers.alfworld.games import SEEN, floor_plan, game_id, goals_for, read_id, sentence, write_game
from align_echo.wrappers.alfworld.routes import TaskParameters
from align_echo.wrappers.alfworld.spec import TASK_TYPES, TRAJECTORY
from align_echo.wrappers.align_wrapper import AlignWrapper
from studies.pocket.household import CAREFUL, CARELESS, REFUSAL, TOLD, Habits, Teacher
from studies.pocket.wordings import wordings

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


INTERFACE = "probe"
"""The shipped interface whose rules and feedback the model learns to heed."""

LONGEST = 45
"""Episodes with more turns are left out: they hold a search that found nothing for long."""

SHOWN_AFTER = 8
"""Turns that are shown of an episode that a habit has lost."""

_NAMED_STEP = re.compile(r"does not work yet: you need to `(?P<step>[^`]+)` first\.")
_NAMED_WORD = re.compile(r"is not understood; write `(?P<step>[^`]+)` instead\.")
(OTHER_WORDS,) = wordings("household_demonstrations")

Remark = Callable[[Teacher, AgentView], str]
"""Words the refusal on the view's last turn; may tell the teacher what to do or that the words say nothing."""

_VANILLA = Vanilla(ScriptedModel(()))
"""Words the chats; never asked."""


@dataclass(frozen=True)
class Rooms:
    """The same games without an interface, with its feedback alone, and with its rules too."""

    raw: gym.Env[str, str]
    feedback: gym.Env[str, str]
    full: gym.Env[str, str]

    @classmethod
    def of(cls, games: GameSource) -> Rooms:
        """One engine each."""
        interface = SPEC.interface(INTERFACE)
        if interface is None:
            raise ValueError(f"there is no interface {INTERFACE!r} of {SPEC.name}")
        without_rules = interface.model_copy(update={"use_rules": False})
        return cls(
            AlfworldEnv(games, SPEC.train_split),
            AlignWrapper(AlfworldEnv(games, SPEC.train_split), without_rules),
            AlignWrapper(AlfworldEnv(games, SPEC.train_split), interface),
        )

    def close(self) -> None:
        """Give the engines back."""
        for env in (self.raw, self.feedback, self.full):
            env.close()


def episodes_of(rooms: Rooms, task: str, dice: Dice) -> list[Demonstration]:
    """What is shown of one room: one careful episode, five careless ones, six under the interface."""
    played = [
        ("careful", rooms.raw, CAREFUL),
        *[("careless", rooms.raw, CARELESS)] * 5,
        *[("told", rooms.full, TOLD)] * 3,
        *[("hinted", rooms.feedback, CARELESS)] * 2,
        ("hinted", rooms.feedback, TOLD),
    ]
    demonstrations_made = []
    goals = dice.shuffled(other_goals(task, dice, len(played)))
    for number, ((name, env, habits), goal) in enumerate(zip(played, goals, strict=True)):
        own_dice = Dice(f"{task} {number} {dice.below(10**9)}")
        episode = play(env, task, own_dice, habits, goal=goal)
        if episode.fit:
            reworded = name == "hinted" and own_dice.chance(0.6)
            demonstrations_made.append(
                demonstration(f"alfworld.{name}", reword(episode, own_dice) if reworded else episode)
            )
    return demonstrations_made


@dataclass(frozen=True)
class Played:
    """A teacher's episode: whether it is fit to be shown, and the turns (from 0) that are not to be imitated."""

    trajectory: Trajectory
    fit: bool
    astray: frozenset[int]


def play(
    env: gym.Env[str, str],
    task: str,
    dice: Dice,
    habits: Habits,
    *,
    goal: TaskParameters,
    turns: int = SPEC.step_limit,
    critique: str = "",
    search_first: tuple[str, ...] = (),
    rules: str | None = None,
    remark: Remark | None = None,
    teacher: type[Teacher] = Teacher,
) -> Played:
    """An episode of a new teacher with a goal of its own in the room of a game, whatever the game's own goal is.

    `rules` stand in place of the interface's; `remark` words what follows a refusal that came without words. Fit to be
    shown: done in time, or lost by a habit and cut soon after that.
    """
    player = teacher(dice, habits, search_first=search_first)
    view = with_goal(start_view(env, task, SPEC.action_format, seed=0), sentence(goal, dice), critique)
    view = view if rules is None else view.model_copy(update={"rules": rules})
    header, steps = view, list[Step]()
    while len(steps) < turns and not (steps and (player.done or steps[-1].terminated)):
        step = take_turn(env, player.act(view))
        player.follow(extend(view, step))
        if remark is not None and step.observation == REFUSAL:
            step = step.model_copy(update={"observation": remark(player, extend(view, step))})
        steps.append(step)
        view = extend(view, step)
    done = bool(steps) and player.done
    lost = player.lost_at is not None
    if player.lost_at is not None:
        steps = steps[: player.lost_at + SHOWN_AFTER]
    trajectory = Trajectory(
        environment=SPEC.name,
        split=SPEC.train_split,
        task_id=task,
        agent=player.name,
        goal=header.goal,
        rules=header.rules,
        critique=critique,
        initial_observation=header.initial_observation,
        steps=tuple(steps),
        score=float(done),
        won=done,
    )
    return Played(trajectory, (done or lost) and len(steps) <= LONGEST, frozenset(player.astray))


def with_goal(view: AgentView, stated: str, critique: str) -> AgentView:
    """The same room with another task, in the words of the environment."""
    room = view.initial_observation.rpartition(TASK_PREFIX)[0]
    stated = stated.strip().rstrip(".") + "."
    return view.model_copy(
        update={"goal": stated, "initial_observation": f"{room}{TASK_PREFIX}{stated}", "critique": critique}
    )


def demonstration(kind: str, played: Played) -> Demonstration:
    """The whole episode as the vanilla agent's chat; every reply is imitated but those that went astray."""
    steps = played.trajectory.steps
    view = view_before(played.trajectory, len(steps) - 1, SPEC.action_format)
    messages = (*_VANILLA.conversation(view), assistant_message(steps[-1].reply))
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
