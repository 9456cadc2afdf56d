"""Which actions are right in a state, by the environment's oracle: what critics of actions learn from.

An action is right if it brings the goal nearer by the oracle's count. In ALFWorld, where a player cannot know where a
thing is, looking into furniture that was not looked into is right as well, for as long as something that the task needs
was never seen. All else is wrong: what is refused, repeated, or leads away. Left out: environments whose oracle cannot
tell how far the goal is from everywhere (`EnvironmentSpec.measures_distance`).
"""

from __future__ import annotations

import gymnasium as gym

from align_echo.agents.novices.household import Belief, name_of, read_goal
from align_echo.critic.verdict import Verdict
from align_echo.rollout import base_env, extend, start_view, take_turn
from align_echo.types import AgentReply, AgentView, Trajectory
from align_echo.wrappers.alfworld.spec import is_invalid


def labels_of(env: gym.Env[str, str], trajectory: Trajectory) -> list[Verdict | None]:
    """A label for each turn of an episode, which is played again in `env`, an environment like the one it was made in.

    None where the reply held no action, where the goal could not be reached, and from where the episode does not come
    out as it did. Raises `EngineError` as a step does.
    """
    view = start_view(env, trajectory.task_id, "", trajectory.seed)
    found: list[Verdict | None] = []
    for step in trajectory.steps:
        found.append(None if step.action is None else label(env, view, step.action))
        again = take_turn(env, AgentReply(text=step.reply, action=step.action, problem=step.problem))
        if again.observation != step.observation:
            break
        view = extend(view, again)
    return found + [None] * (len(trajectory.steps) - len(found))


def label(env: gym.Env[str, str], view: AgentView, action: str) -> Verdict | None:
    """Whether the action is right in the environment's present state, which `view` shows and which stays as it is.

    The action goes to the engine as it is, past an interface. None where the goal cannot be reached from here, so that
    no action is right. Raises `EngineError` as a step does, and once the episode is over.
    """
    base = base_env(env)
    before = base.oracle().distance()
    if before is None:
        return None
    here = base.snapshot()
    try:
        observation, _, _, _, _ = base.step(action)
        after = base.oracle().distance()
    finally:
        base.restore(here)
    nearer = after is not None and after < before
    explores = base.contract.environment == "alfworld" and not is_invalid(observation) and _explores(view, action)
    return "correct" if nearer or explores else "wrong"


def _explores(view: AgentView, action: str) -> bool:
    """Whether a household action looks into furniture while something that the task needs was never seen."""
    goal = read_goal(view.goal)
    place = action.strip().removeprefix("go to ").removeprefix("open ")
    if goal is None or place == action.strip():
        return False
    belief = Belief.from_intro(view.initial_observation)
    stood: set[str] = set()
    seen: set[str] = set()
    for turn in view.turns:
        belief.update(turn.observation, goal.dest)
        seen |= {thing for things in belief.contents.values() for thing in things}
        stood.add((turn.action or "").removeprefix("go to "))
    kinds = [name_of(thing) for thing in seen]
    missing = kinds.count(goal.obj) < goal.copies or (bool(goal.tool) and goal.tool not in kinds)
    fresh = place not in belief.contents and (action.strip().startswith("open ") or place not in stood)
    return missing and fresh
