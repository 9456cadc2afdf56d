"""An engine that breaks is a fault on the trajectory: tried again, then counted apart, never a score of zero."""

from __future__ import annotations

import pytest

from align_echo.intervals import scored
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.catalogue import environments
from tests.conformance.subjects import BREAK, NONSENSE, actions_of, frozen, frozen_tasks, play_expert, raw


class Saboteur:
    """Follows a plan, and breaks the engine after the first action of its first `times` episodes; before it, where the
    plan has no other."""

    name = "saboteur"

    def __init__(self, env, plan: list[str], break_engine, times: int) -> None:
        self.env, self.plan, self.break_engine, self.times = env, plan, break_engine, times
        self.before = min(1, len(plan) - 1)

    def act(self, view: AgentView) -> AgentReply:
        if len(view.turns) == self.before and self.times > 0:
            self.times -= 1
            self.break_engine(self.env)
        action = self.plan[len(view.turns)]
        return AgentReply(text=action, action=action)


def frozen_plan(spec) -> list[str]:
    """The expert's actions in the first recorded episode, which it need not plan again."""
    recorded = actions_of(frozen(spec)[0]["steps"])
    return [action for action in recorded if action not in NONSENSE and not spec.contract.is_read_only(action)]


def test_every_environment_says_how_its_engine_is_broken():
    assert set(BREAK) == set(environments())


def test_a_broken_engine_costs_one_attempt_and_not_the_episode(spec):
    env = raw(spec)
    task = frozen_tasks(spec)[0]
    agent = Saboteur(env, frozen_plan(spec), BREAK[spec.name], times=1)
    played = run_episode(env, agent, task, split=spec.test_split)
    assert agent.times == 0
    assert played.fault is None
    assert (played.score, played.won, played.terminated) == (1.0, True, True)
    env.close()


def test_an_engine_that_stays_broken_is_a_typed_fault_in_one_line_and_has_no_score(spec):
    env = raw(spec)
    task = frozen_tasks(spec)[0]
    agent = Saboteur(env, frozen_plan(spec), BREAK[spec.name], times=100)
    played = run_episode(env, agent, task, split=spec.test_split)
    assert played.fault is not None
    assert (played.fault.source, played.fault.error) == ("environment", "EngineError")
    assert played.fault.message
    assert "\n" not in played.fault.message
    assert len(played.steps) == agent.before
    assert not played.won
    assert scored([played]) == []
    env.close()


@pytest.mark.long
def test_the_same_environment_plays_on_after_a_fault(spec):
    env = raw(spec)
    task = frozen_tasks(spec)[0]
    gold = play_expert(env, task)
    run_episode(env, Saboteur(env, actions_of(gold), BREAK[spec.name], times=100), task, split=spec.test_split)
    assert play_expert(env, task)[-1].score == 1.0
    env.close()
