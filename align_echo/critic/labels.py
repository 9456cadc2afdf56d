"""Labels of actions in a state by the environment's oracle, to train critics on. Three rules:

    expert     the action is the expert's own next action (GAIA, paper 3, section 3.2)
    nearer     it reduces the oracle's distance to the goal. An exploring action is correct too if the player has to
               search because it cannot know where an object is (`TextEnv.explores`)
    continues  it is the expert's own action, or the expert, continuing after it, reaches the goal with at most
               `allowance` more actions than without it. Found by simulation, so no distance is needed

All other actions are wrong: refused, repeated, or leading away.
There is no label if the oracle cannot decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import gymnasium as gym

from align_echo.critic.verdict import Verdict
from align_echo.errors import EngineError, UsageError
from align_echo.intervals import Estimate, clustered_rate
from align_echo.rollout import replay
from align_echo.session import base_env
from align_echo.types import AgentView, Frozen, Step, Trajectory
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv, TryingOracle

Rule = Literal["expert", "nearer", "continues"]

ALLOWANCE = 0
"""Extra cost allowed for an action other than the expert's. With 0 it must replace an expert action; with 1 every
harmless action is correct, even a look or a refused action."""

MOST_ACTIONS = 200
"""Most actions of a continuing expert before it counts as lost."""


def label_rules(spec: EnvironmentSpec) -> tuple[Rule, ...]:
    """Return the label rules available in an environment."""
    return ("expert", "nearer") if spec.measures_distance else ("expert", "continues")


def default_rule(spec: EnvironmentSpec) -> Rule:
    """Return `nearer` if the environment measures distance, else `continues`."""
    return "nearer" if spec.measures_distance else "continues"


def label_turns(
    env: gym.Env[str, str], trajectory: Trajectory, rule: Rule, *, allowance: int = ALLOWANCE
) -> list[Verdict | None]:
    """Label each turn of an episode by replaying it in `env`, an environment of the same kind.

    None for a reply without an action, if the oracle cannot decide, and from the turn on where the replay differs from
    the record. Raises as `label` does.
    """

    def look(view: AgentView, step: Step) -> Verdict | None:
        return None if step.action is None else label(env, view, step.action, rule, allowance=allowance)

    verdicts = list(replay(env, trajectory, look))
    return verdicts + [None] * (len(trajectory.steps) - len(verdicts))


def label(
    env: gym.Env[str, str], view: AgentView, action: str, rule: Rule, *, allowance: int = ALLOWANCE
) -> Verdict | None:
    """Label a single action as `labels` does."""
    return labels(env, view, [action], rule, allowance=allowance)[0]


def labels(
    env: gym.Env[str, str], view: AgentView, actions: Sequence[str], rule: Rule, *, allowance: int = ALLOWANCE
) -> list[Verdict | None]:
    """Label each action in the environment's present state. `view` shows that state, and `env` is left unchanged.

    Actions go directly to the engine, past an interface. None if the rule cannot decide: the expert has no next action,
    or the goal is unreachable from here, so that no action is correct. Raises `EngineError` as a step does, and after
    the end of the episode; `UsageError` for a rule not available in the environment.
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
    distinct = dict.fromkeys(actions)
    candidates = [action for action in distinct if own is None or base.as_read(action) != base.as_read(own)]
    if isinstance(oracle, TryingOracle):
        affordable = {action: oracle.costs_at_most(action, allowance) for action in candidates}
    else:
        affordable = _simulate(base, candidates, allowance)
    return [_verdict(affordable.get(action, True)) for action in actions]


def _simulate(base: TextEnv, actions: Sequence[str], allowance: int) -> dict[str, bool | None]:
    """Return whether each action costs at most the allowance: the expert plays on without it, and then after it.

    A refused action changes nothing and costs 1, even if the expert keeps state of its own.
    """
    limit = base.step_limit
    state = base.snapshot()
    base.step_limit = state.turns + 2 * MOST_ACTIONS
    try:
        before = _count_expert_actions(base, MOST_ACTIONS)
        affordable: dict[str, bool | None] = dict.fromkeys(actions)
        for action in actions if before is not None else ():
            base.restore(state)
            observation, _, _, _, _ = base.step(action)
            refused = base.refuses(observation)
            most = (before or 0) - 1 + allowance
            affordable[action] = allowance > 0 if refused else _count_expert_actions(base, most) is not None
        return affordable
    finally:
        base.step_limit = limit
        base.restore(state)


def _count_expert_actions(base: TextEnv, most: int) -> int | None:
    """Let the expert play to the goal and count its actions; None if it needs more than `most`."""
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


# ---------------------------------------------------------------- agreement

ANSWERS = ("correct", "wrong", "none")


class LabelPair(Frozen):
    """An action in a state of a task, with its label by two rules; None if a rule cannot decide.

    `explores`: it looks into new furniture while an object needed for the task is still unseen
    (`labels.explores_here`).
    """

    environment: str
    task_id: str
    action_type: str
    first: Verdict | None
    second: Verdict | None
    explores: bool = False


class RuleAgreement(Frozen):
    """Agreement over some of the rows.

    `n`: rows with a label from both rules. `agree`: percent of these with equal labels, with its 95% interval over
    tasks (`agree.n` tasks). `by_chance`: expected percent for independent rules with the same rates of correct (Cohen,
    Educ. Psychol. Meas. 20(1), 1960). Both are None if n is 0. `counts`: rows by both labels, all nine combinations,
    e.g. "correct/wrong" for correct by the first rule and wrong by the second; "none" if a rule could not decide.
    """

    n: int
    agree: Estimate | None
    by_chance: float | None
    counts: dict[str, int]


class EnvironmentAgreement(Frozen):
    """Agreement of two rules in one environment: over all rows, over exploring steps and the others, and by action
    type.
    """

    environment: str
    rules: tuple[Rule, Rule]
    all: RuleAgreement
    exploring: RuleAgreement
    other: RuleAgreement
    by_action_type: dict[str, RuleAgreement]


def agreement(rows: Iterable[LabelPair], rules: tuple[Rule, Rule]) -> list[EnvironmentAgreement]:
    """Compute the agreement of two rules per environment, in order of first appearance; action types sorted by name.

    `rules` names the rules of `first` and `second`.
    """
    groups: dict[str, list[LabelPair]] = {}
    for row in rows:
        groups.setdefault(row.environment, []).append(row)
    return [_environment_agreement(name, group, rules) for name, group in groups.items()]


def _environment_agreement(name: str, rows: Sequence[LabelPair], rules: tuple[Rule, Rule]) -> EnvironmentAgreement:
    types = sorted({row.action_type for row in rows})
    return EnvironmentAgreement(
        environment=name,
        rules=rules,
        all=_summarize(rows),
        exploring=_summarize([row for row in rows if row.explores]),
        other=_summarize([row for row in rows if not row.explores]),
        by_action_type={kind: _summarize([row for row in rows if row.action_type == kind]) for kind in types},
    )


def _summarize(rows: Sequence[LabelPair]) -> RuleAgreement:
    both = [row for row in rows if row.first is not None and row.second is not None]
    matches_by_task: dict[str, list[bool]] = {}
    for row in both:
        matches_by_task.setdefault(row.task_id, []).append(row.first == row.second)
    hits = [sum(matches) for matches in matches_by_task.values()]
    sizes = [len(matches) for matches in matches_by_task.values()]
    pairs = Counter(f"{row.first or 'none'}/{row.second or 'none'}" for row in rows)
    return RuleAgreement(
        n=len(both),
        agree=clustered_rate(hits, sizes) if both else None,
        by_chance=_by_chance(both) if both else None,
        counts={f"{first}/{second}": pairs[f"{first}/{second}"] for first in ANSWERS for second in ANSWERS},
    )


def _by_chance(rows: Sequence[LabelPair]) -> float:
    first = sum(row.first == "correct" for row in rows) / len(rows)
    second = sum(row.second == "correct" for row in rows) / len(rows)
    return 100 * (first * second + (1 - first) * (1 - second))
