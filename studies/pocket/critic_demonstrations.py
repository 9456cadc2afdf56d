"""The critics' roles in ALFWorld, and the agent's under a critique: attempt -> critique -> refined attempt; verdicts.

Attempts are those of a careless teacher that has few turns, so that most of them fail.
"""

from __future__ import annotations

import gymnasium as gym

from align_echo.critic.labels import label
from align_echo.critic.language import Form, parse_critique
from align_echo.dice import Dice
from align_echo.rollout import view_before
from align_echo.session import base_env
from align_echo.train.sft import Demonstration
from align_echo.types import Trajectory
from align_echo.wrappers.alfworld import SPEC
from align_echo.wrappers.alfworld.routes import TaskParameters
from studies.pocket.critiques import critique_demonstration
from studies.pocket.household import CAREFUL, CARELESS
from studies.pocket.household_demonstrations import demonstration, play
from studies.pocket.verdicts import verdict_demonstration

FEWEST_TURNS, MOST_TURNS = 8, 30
LATEST_VERDICT = 10
"""Verdicts are asked within this many turns: each costs the whole chat before it."""


def reviewed(env: gym.Env[str, str], task: str, dice: Dice, goal: TaskParameters) -> list[Demonstration]:
    """An attempt's critique and, where that gives advice and it led to success, the refined attempt."""
    attempt = play(env, task, dice, CARELESS, goal=goal, turns=FEWEST_TURNS + dice.below(MOST_TURNS - FEWEST_TURNS))
    form: Form = "icrl" if dice.chance(0.35) else "echo"
    chat, advice = critique_demonstration(attempt.trajectory, dice, form)
    critique = parse_critique(chat.messages[-1].content, form)
    if critique.is_none:
        return [chat] if dice.chance(0.4) else []
    refined = play(env, task, dice, CAREFUL, goal=goal, critique=critique.advice, search_first=advice.search_first)
    return [chat, demonstration("alfworld.refined", refined)] if refined.fit else [chat]


def judged(env: gym.Env[str, str], trajectory: Trajectory, dice: Dice) -> list[Demonstration]:
    """A right and a wrong action at one turn of an episode that was played in `env`; [] if there are not both."""
    turn = dice.below(min(len(trajectory.steps), LATEST_VERDICT))
    env.reset(seed=0, options={"task": trajectory.task_id})
    for step in trajectory.steps[:turn]:
        env.step(step.action or "")
    view = view_before(trajectory, turn, SPEC.action_format)
    by_verdict: dict[str, Demonstration] = {}
    for action in (trajectory.steps[turn].action or "", *_others(env, trajectory, turn, dice)):
        verdict = label(env, view, action, "nearer")
        if verdict is not None and verdict not in by_verdict:
            by_verdict[verdict] = verdict_demonstration(view, action, verdict)
    return list(by_verdict.values()) if len(by_verdict) == 2 else []


def _others(env: gym.Env[str, str], trajectory: Trajectory, turn: int, dice: Dice) -> list[str]:
    """Other actions for the same state: one sent before or later in the episode, and ones that would be carried out."""
    elsewhere = [step.action or "" for number, step in enumerate(trajectory.steps) if number != turn]
    admissible = sorted(base_env(env).state.admissible_actions or ())
    return dice.shuffled(elsewhere)[:2] + dice.shuffled(admissible)[:4]
