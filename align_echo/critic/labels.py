"""Which actions are right in a state, by the environment's oracle: what critics of actions learn from. Three rules.

    expert     the action is the expert's own next one (GAIA, paper 3, section 3.2)
    nearer     it brings the goal nearer by the oracle's count. In ALFWorld, where a player cannot know where a thing
               is, looking into furniture that was not looked into is right as well, for as long as something that the
               task needs was never seen
    continues  it is the expert's own, or the expert, who goes on after it, reaches the goal with at most `allowance`
               actions more than without it: found by trying, also where no distance is measured

All else is wrong: what is refused, repeated, or leads away. Left out: how far two rules agree (`agreement.py`), and a
label where the oracle cannot tell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import gymnasium as gym

from align_echo.agents.novices.household import Belief, name_of, read_goal
from align_echo.critic.verdict import Verdict
from align_echo.errors import EngineError, UsageError
from align_echo.rollout import replay
from align_echo.session import base_env
from align_echo.types import AgentView, Step, Trajectory
from align_echo.wrappers.alfworld.spec import is_invalid
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv, TryingOracle

Rule = Literal["expert", "nearer", "continues"]

ALLOWANCE = 0
"""What an action that is not the expert's own may cost: with 0 it does the work of one of the expert's, with 1 every
action that does no harm is right, a look or a refused one too."""

MOST_ACTIONS = 200
"""Of an expert that goes on by itself, before it counts as lost."""

EXAMINE = "examine "
LOOKING = ("go to ", "open ", EXAMINE)
"""How ALFWorld's actions begin that may show what is in or on furniture."""


def default_rule(name: str) -> Rule:
    """`nearer` where the environment measures distance, else `continues`. Raises `UsageError` for an unknown name."""
    return "nearer" if environment(name).measures_distance else "continues"


def rule_for(environments: Collection[str]) -> Rule:
    """The default rule of the environments. Raises `UsageError` where it is not one and the same."""
    rules = {name: default_rule(name) for name in sorted(environments)}
    if len(set(rules.values())) > 1:
        told = ", ".join(f"{name}: {rule}" for name, rule in rules.items())
        raise UsageError(f"the collections are of environments with other default rules ({told}): choose with --rule")
    return next(iter(rules.values()))


def labels_of(
    env: gym.Env[str, str], trajectory: Trajectory, rule: Rule, *, allowance: int = ALLOWANCE
) -> list[Verdict | None]:
    """A label for each turn of an episode, which is played again in `env`, an environment like the one it was made in.

    None where the reply held no action, where the oracle cannot tell, and from where the episode does not come out as
    it did. Raises as `label` does.
    """

    def look(view: AgentView, step: Step) -> Verdict | None:
        return None if step.action is None else label(env, view, step.action, rule, allowance=allowance)

    found = list(replay(env, trajectory, look))
    return found + [None] * (len(trajectory.steps) - len(found))


def label(
    env: gym.Env[str, str], view: AgentView, action: str, rule: Rule, *, allowance: int = ALLOWANCE
) -> Verdict | None:
    """`labels` of one action."""
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


def explores_here(env: gym.Env[str, str], view: AgentView, action: str) -> bool:
    """`explores` in the environment's present state, which stays as it is; False but in ALFWorld. Raises `EngineError`.
    """
    base = base_env(env)
    if not _is_household(base):
        return False
    if not action.strip().startswith(EXAMINE) or base.over:
        return explores(view, action)
    here = base.snapshot()
    try:
        answer, _, _, _, _ = base.step(action)
    finally:
        base.restore(here)
    return explores(view, action, answer)


def explores(view: AgentView, action: str, answer: str = "") -> bool:
    """Whether an ALFWorld action looks into new furniture while something that the task needs was never seen.

    It reads what the player could read, so it does not see whether the action is refused. Going to furniture counts
    once, opening it until its inside was seen. Examining is how one looks at what stands beside the furniture that one
    went to: it counts where the engine's `answer` tells for the first time what is there, or that it is closed.
    """
    goal = read_goal(view.goal)
    said = action.strip()
    way = next((one for one in LOOKING if said.startswith(one)), None)
    if goal is None or way is None:
        return False
    place = said.removeprefix(way)
    belief = Belief.from_intro(view.initial_observation)
    stood: set[str] = set()
    seen: set[str] = set()
    for turn in view.turns:
        belief.update(turn.observation, goal.dest)
        seen |= {thing for things in belief.contents.values() for thing in things}
        stood.add((turn.action or "").removeprefix("go to "))
    kinds = [name_of(thing) for thing in seen]
    missing = kinds.count(goal.obj) < goal.copies or (bool(goal.tool) and goal.tool not in kinds)
    known = {"go to ": place in stood, "open ": False, EXAMINE: place in belief.closed}
    fresh = place not in belief.contents and not known[way]
    belief.update(answer, goal.dest)
    told = way != EXAMINE or place in belief.contents or place in belief.closed
    return missing and fresh and told


# ---------------------------------------------------------------- nearer


def _nearer(base: TextEnv, view: AgentView, actions: Sequence[str]) -> list[Verdict | None]:
    if isinstance(base.oracle(), TryingOracle):
        name = base.contract.environment
        raise UsageError(f"{name} does not measure how far the goal is: take the rule continues or expert")
    before = base.oracle().distance()
    if before is None:
        return [None] * len(actions)
    found: list[Verdict | None] = []
    for action in actions:
        here = base.snapshot()
        try:
            observation, _, _, _, _ = base.step(action)
            after = base.oracle().distance()
        finally:
            base.restore(here)
        new = _is_household(base) and not is_invalid(observation) and explores(view, action, observation)
        found.append(_verdict(new or (after is not None and after < before)))
    return found


# ---------------------------------------------------------------- continues


def _continues(base: TextEnv, actions: Sequence[str], own: str | None, allowance: int) -> list[Verdict | None]:
    oracle = base.oracle()
    foreign = [one for one in dict.fromkeys(actions) if own is None or base.as_read(one) != base.as_read(own)]
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
    here = base.snapshot()
    base.step_limit = here.turns + 2 * MOST_ACTIONS
    try:
        before = _expert_takes(base, MOST_ACTIONS)
        found: dict[str, bool | None] = dict.fromkeys(actions)
        for action in actions if before is not None else ():
            base.restore(here)
            observation, _, _, _, _ = base.step(action)
            refused = _is_household(base) and is_invalid(observation)
            most = (before or 0) - 1 + allowance
            found[action] = allowance > 0 if refused else _expert_takes(base, most) is not None
        return found
    finally:
        base.step_limit = limit
        base.restore(here)


def _expert_takes(base: TextEnv, most: int) -> int | None:
    """Actions of the expert from here to the goal, which it then has played; None if that takes more than `most`."""
    for taken in range(most + 1):
        if base.state.won:
            return taken
        action = None if base.over or taken == most else base.oracle().expert_action()
        if action is None:
            break
        base.step(action)
    return None


def _is_household(base: TextEnv) -> bool:
    return base.contract.environment == "alfworld"


def _verdict(right: bool | None) -> Verdict | None:
    return None if right is None else "correct" if right else "wrong"
