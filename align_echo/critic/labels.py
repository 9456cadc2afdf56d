"""Labels of actions in a state by the environment's oracle, to train critics on. Our rules (`LABEL_RULES`):

    expert     the action is the expert's own next action (GAIA, paper 3, section 3.2)
    nearer     it reduces the oracle's distance to the goal. An exploring action is correct too if the player has to
               search because it cannot know where an object is (`TextEnv.explores`)
    continues  it is the expert's own action, or the expert, continuing after it, reaches the goal with at most
               `allowance` more actions than without it. Found by simulation, so no distance is needed

All other actions are wrong: refused, repeated, or leading away. There is no label if the oracle cannot decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import gymnasium as gym

from align_echo.critic.ask import WORDS, Label
from align_echo.errors import EngineError, UsageError
from align_echo.intervals import Estimate, clustered_rate
from align_echo.registry import Registry, attempt, quantity, with_article
from align_echo.rollout.batches import replay
from align_echo.rollout.session import base_env
from align_echo.types import AgentView, Frozen, Step, Trajectory
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv, TryingOracle

OURS = ("expert", "nearer", "continues")
"""Rules with a key of their own in recorded labels."""

MOST_ACTIONS = 200
"""Most actions of a continuing expert before it counts as lost."""


def _anywhere(spec: EnvironmentSpec) -> bool:
    return True


@dataclass(frozen=True)
class LabelRule:
    """A rule by name. `label(env, view, actions)` returns "correct", "wrong" or None (undecided) for each action.

    `env` is in the state that `view` shows, with its oracle and the hidden state; the rule leaves it as it was
    (`snapshot`, `restore`). `fits` says in which environments the rule is used.
    """

    name: str
    label: Callable[[TextEnv, AgentView, Sequence[str]], Sequence[Label | None]]
    fits: Callable[[EnvironmentSpec], bool] = _anywhere

    def labels(self, env: TextEnv, view: AgentView, actions: Sequence[str]) -> list[Label | None]:
        """Label the actions. Raises `UsageError` if the rule breaks, or returns anything else than labels."""
        labels = attempt(lambda: list(self.label(env, view, actions)), f"the label rule {self.name} broke")
        if len(labels) != len(actions) or any(label not in (*WORDS, None) for label in labels):
            raise UsageError(
                f"the label rule {self.name} returned {str(labels)[:60]}, not correct, wrong or None for each of "
                f"{quantity(len(actions), 'action')}"
            )
        return labels


def _read_rule(name: str, rule: object) -> LabelRule:
    if not isinstance(rule, LabelRule):
        kind = with_article(type(rule).__name__)
        raise UsageError(f"{name} is {kind}, not an align_echo.critic.labels.LabelRule")
    return replace(rule, name=name)


LABEL_RULES: Registry[LabelRule] = Registry("label rule", "align_echo.label_rules", _read_rule)


def label_rules(spec: EnvironmentSpec, also: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the label rules used in an environment: those of the registry that fit, and `also` these.

    Raises `UsageError` for one of these that is unknown, or does not fit.
    """
    known = dict.fromkeys((*OURS, *LABEL_RULES.entries()))
    rules = tuple(name for name in known if LABEL_RULES.get(name).fits(spec))
    for name in also:
        if not LABEL_RULES.get(name).fits(spec):
            raise UsageError(f"{spec.name} is not labelled by the rule {name}: choose {' or '.join(rules)}")
    return tuple(dict.fromkeys((*rules, *also)))


def default_rule(spec: EnvironmentSpec) -> str:
    """Return `nearer` if the environment measures distance, else `continues`."""
    return "nearer" if spec.measures_distance else "continues"


def label_turns(env: gym.Env[str, str], trajectory: Trajectory, rule: str) -> list[Label | None]:
    """Label each turn of an episode by replaying it in `env`, an environment of the same kind.

    None for a reply without an action, if the oracle cannot decide, and from the turn on where the replay differs from
    the record. Raises as `label` does.
    """

    def look(view: AgentView, step: Step) -> Label | None:
        return None if step.action is None else label(env, view, step.action, rule)

    verdicts = list(replay(env, trajectory, look))
    return verdicts + [None] * (len(trajectory.steps) - len(verdicts))


def label(env: gym.Env[str, str], view: AgentView, action: str, rule: str) -> Label | None:
    """Label a single action as `labels` does."""
    return labels(env, view, [action], rule)[0]


def labels(env: gym.Env[str, str], view: AgentView, actions: Sequence[str], rule: str) -> list[Label | None]:
    """Label each action in the environment's present state. `view` shows that state, and `env` is left unchanged.

    Actions go directly to the engine, past an interface. None if the rule cannot decide: the expert has no next action,
    or the goal is unreachable from here, so that no action is correct. Raises `EngineError` as a step does, and after
    the end of the episode; `UsageError` for an unknown rule, and one not available in the environment.
    """
    base = base_env(env)
    if base.over:
        raise EngineError("the episode is over: call reset()")
    return LABEL_RULES.get(rule).labels(base, view, actions)


# ---------------------------------------------------------------- expert


def by_expert(base: TextEnv, view: AgentView, actions: Sequence[str]) -> list[Label | None]:
    """Label by the rule `expert`."""
    own = base.oracle().expert_action()
    return [None if own is None else _verdict(base.as_read(action) == base.as_read(own)) for action in actions]


# ---------------------------------------------------------------- nearer


def by_distance(base: TextEnv, view: AgentView, actions: Sequence[str]) -> list[Label | None]:
    """Label by the rule `nearer`. Raises `UsageError` if the environment measures no distance."""
    if isinstance(base.oracle(), TryingOracle):
        name = base.contract.environment
        raise UsageError(f"{name} does not measure how far the goal is: take the rule continues or expert")
    before = base.oracle().distance()
    if before is None:
        return [None] * len(actions)
    verdicts: list[Label | None] = []
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


def by_continuing(base: TextEnv, view: AgentView, actions: Sequence[str], *, allowance: int = 0) -> list[Label | None]:
    """Label by the rule `continues`, with an extra cost of at most `allowance` for an action.

    With 0 it must replace an expert action; with 1 every harmless action is correct, even a look or a refused action.
    """
    oracle = base.oracle()
    own = oracle.expert_action()
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


def _verdict(right: bool | None) -> Label | None:
    return None if right is None else "correct" if right else "wrong"


EXPERT = LabelRule("expert", by_expert)
NEARER = LabelRule("nearer", by_distance, fits=lambda spec: spec.measures_distance)
CONTINUES = LabelRule("continues", by_continuing, fits=lambda spec: not spec.measures_distance)


# ---------------------------------------------------------------- agreement of two label rules

ANSWERS = ("correct", "wrong", "none")


class LabelPair(Frozen):
    """An action in a state of a task, with its label by two rules; None if a rule cannot decide.

    `explores`: it looks into new furniture while an object needed for the task is still unseen
    (`labels.explores_here`).
    """

    environment: str
    task_id: str
    action_type: str
    first: Label | None
    second: Label | None
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
    rules: tuple[str, str]
    all: RuleAgreement
    exploring: RuleAgreement
    other: RuleAgreement
    by_action_type: dict[str, RuleAgreement]


def agreement(rows: Iterable[LabelPair], rules: tuple[str, str]) -> list[EnvironmentAgreement]:
    """Compute the agreement of two rules per environment, in order of first appearance; action types sorted by name.

    `rules` names the rules of `first` and `second`.
    """
    groups: dict[str, list[LabelPair]] = {}
    for row in rows:
        groups.setdefault(row.environment, []).append(row)
    return [_environment_agreement(name, group, rules) for name, group in groups.items()]


def _environment_agreement(name: str, rows: Sequence[LabelPair], rules: tuple[str, str]) -> EnvironmentAgreement:
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
