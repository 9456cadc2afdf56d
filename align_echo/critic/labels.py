"""Which actions are right in a state, by the environment's oracle: what critics of actions learn from. Three rules.

    expert     the action is the expert's own next one (GAIA, paper 3, section 3.2)
    nearer     it brings the goal nearer by the oracle's count. Where a player has to search, because it cannot know
               where a thing is, an action that `explores` is right as well (`TextEnv.explores`)
    continues  it is the expert's own, or the expert, who goes on after it, reaches the goal with at most `allowance`
               actions more than without it: found by trying, also where no distance is measured

All else is wrong: what is refused, repeated, or leads away. Left out: how far two rules agree (`agreement.py`), and a
label where the oracle cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import gymnasium as gym

from align_echo.critic.verdict import Verdict
from align_echo.errors import EngineError, UsageError
from align_echo.rollout import replay
from align_echo.session import base_env
from align_echo.types import AgentView, Step, Trajectory
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv, TryingOracle

Rule = Literal["expert", "nearer", "continues"]

ALLOWANCE = 0
"""What an action that is not the expert's own may cost: with 0 it does the work of one of the expert's, with 1 every
action that does no harm is right, a look or a refused one too."""

MOST_ACTIONS = 200
"""Of an expert that goes on by itself, before it counts as lost."""


def rules_of(spec: EnvironmentSpec) -> tuple[Rule, ...]:
    """The rules that an environment's actions are labelled by."""
    return ("expert", "nearer") if spec.measures_distance else ("expert", "continues")


def default_rule(spec: EnvironmentSpec) -> Rule:
    """`nearer` where the environment measures distance, else `continues`."""
    return "nearer" if spec.measures_distance else "continues"


def labels_of(
    env: gym.Env[str, str], trajectory: Trajectory, rule: Rule, *, allowance: int = ALLOWANCE
) -> list[Verdict | None]:
    """A label for each turn of an episode, which is played again in `env`, an environment like the one it was made in.

    None where the reply held no action, where the oracle cannot tell, and from where the episode does not come out as
    it did. Raises as `label` does.
    """

    def look(view: AgentView, step: Step) -> Verdict | None:
        return None if step.action is None else label(env, view, step.action, rule, allowance=allowance)

    verdicts = list(replay(env, trajectory, look))
    return verdicts + [None] * (len(trajectory.steps) - len(verdicts))


def label(
    env: gym.Env[str, str], view: AgentView, action: str, rule: Rule, *, allowance: int = ALLOWANCE
) -> Verdict | None:
    """The label of one action, as `labels` gives it."""
    return labels(env, view, [action], rule, allowance=allowance)[0]


def labels(
    env: gym.Env[str, str], view: AgentView, actions: Sequence[str], rule: Rule, *, allowance: int = ALLOWANCE
) -> list[Verdict | None]:
    """Whether each action is right in the environment's present state, which `view` shows and which stays as it is.

    Actions go to the engine as they are, past an interface. None where the rule cannot tell: the expert has no next
    action, or the goal cannot be reached from here, so that no action is right. Raises `EngineError` as a step does,
    and once the episode is over; `UsageError` for a rule that the environment does not have.
    """
    base = base_env(env)
    if base.over:
        raise EngineError("the episode is over: call reset()")
    if rule == "nearer":
        return _nearer(base, view, actions)
    own = base.oracle().expert_action()
    if rule == "continues":
        return _continues(base, actions, own, allowance)
    return [None if own is None else _verdict(base.as_read(action) == base.as_read(own)) for action in actions]


# ---------------------------------------------------------------- nearer


def _nearer(base: TextEnv, view: AgentView, actions: Sequence[str]) -> list[Verdict | None]:
    if isinstance(base.oracle(), TryingOracle):
        name = base.contract.environment
        raise UsageError(f"{name} does not measure how far the goal is: take the rule continues or expert")
    before = base.oracle().distance()
    if before is None:
        return [None] * len(actions)
    verdicts: list[Verdict | None] = []
    for action in actions:
        state = base.snapshot()
        try:
            observation, _, _, _, _ = base.step(action)
            after = base.oracle().distance()
        finally:
            base.restore(state)
        searches = not base.refuses(observation) and base.explores(view, action, observation)
        verdicts.append(_verdict(searches or (after is not None and after < before)))
    return verdicts


# ---------------------------------------------------------------- continues


def _continues(base: TextEnv, actions: Sequence[str], own: str | None, allowance: int) -> list[Verdict | None]:
    oracle = base.oracle()
    foreign = [action for action in dict.fromkeys(actions) if own is None or base.as_read(action) != base.as_read(own)]
    if isinstance(oracle, TryingOracle):
        cheap = {action: oracle.costs_at_most(action, allowance) for action in foreign}
    else:
        cheap = _tried(base, foreign, allowance)
    return [_verdict(cheap.get(action, True)) for action in actions]


def _tried(base: TextEnv, actions: Sequence[str], allowance: int) -> dict[str, bool | None]:
    """Whether each action costs at most so much: the expert plays on without it, and then with it.

    A refused action changes nothing and costs 1, whatever an expert that keeps notes makes of it.
    """
    limit = base.step_limit
    state = base.snapshot()
    base.step_limit = state.turns + 2 * MOST_ACTIONS
    try:
        before = _expert_takes(base, MOST_ACTIONS)
        cheap: dict[str, bool | None] = dict.fromkeys(actions)
        for action in actions if before is not None else ():
            base.restore(state)
            observation, _, _, _, _ = base.step(action)
            refused = base.refuses(observation)
            most = (before or 0) - 1 + allowance
            cheap[action] = allowance > 0 if refused else _expert_takes(base, most) is not None
        return cheap
    finally:
        base.step_limit = limit
        base.restore(state)


def _expert_takes(base: TextEnv, most: int) -> int | None:
    """Actions of the expert from here to the goal, which it then has played; None if that takes more than `most`."""
    for count in range(most + 1):
        if base.state.won:
            return count
        action = None if base.over or count == most else base.oracle().expert_action()
        if action is None:
            break
        base.step(action)
    return None


def _verdict(right: bool | None) -> Verdict | None:
    return None if right is None else "correct" if right else "wrong"
