"""A preset reaches what is played, whichever verb names it: turns by environment, and agents that have its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.agents.players import describe_agent
from align_echo.align.generation import GenerationConfig, plan_generation
from align_echo.errors import UsageError
from align_echo.evaluate.grid import GridConfig, _plan, plan_grid
from align_echo.evaluate.in_play import evaluate_command
from align_echo.evaluate.plan import EvaluationConfig, EvaluationPlan, build_plan_agent, plan_evaluation
from align_echo.evaluate.study import plan_study
from align_echo.evaluate.study_file import StudyFile
from align_echo.models import ScriptedModel
from align_echo.rollout.session import base_env

PRESET = "align-paper"


def agent_details(plan: EvaluationPlan) -> dict[str, str]:
    return describe_agent(build_plan_agent(plan, lambda role, name: ScriptedModel([])))


def step_limit(plan: EvaluationPlan) -> int:
    env = plan.spec.make(plan.split)
    env.close()
    return base_env(env).step_limit


def test_an_evaluation_is_played_by_the_preset_unless_it_says_otherwise():
    asked = {"agent": "react", "model": "novice", "agent_preset": PRESET, "tasks": 1}
    plan = plan_evaluation(EvaluationConfig(env="alfworld", **asked))  # type: ignore[arg-type]
    assert (step_limit(plan), plan.spec.step_limit, plan.config["turns"]) == (100, 100, 100)
    assert agent_details(plan)["preset"] == PRESET
    changed = {**asked, "turns": 7, "max_tokens": 999, "temperature": 0.5}
    other = plan_evaluation(EvaluationConfig(env="alfworld", **changed))  # type: ignore[arg-type]
    told = agent_details(other)
    assert (step_limit(other), told["max_tokens"], told["temperature"], told["replies"]) == (7, "999", "0.5", "raw")
    plain = plan_evaluation(EvaluationConfig(env="alfworld", agent="react", model="novice", tasks=1))
    assert (step_limit(plain), "turns" in plain.config, "preset" in agent_details(plain)) == (50, False, False)


@pytest.mark.parametrize("turns", [0, -3, True])
def test_an_episode_without_a_turn_is_refused(turns):
    with pytest.raises(UsageError, match="--turns: must be"):
        plan_evaluation(EvaluationConfig(env="alfworld", agent="novice", turns=turns))


def test_a_grid_plays_by_it_only_the_agents_that_ask_a_model():
    config = GridConfig(
        env=("alfworld",), agent=("react", "novice"), interface="probe", tasks=1, model="novice", agent_preset=PRESET
    )
    axes = plan_grid(config)
    plans = {player.agent.name: _plan(axes, axes.environments[0], player) for player in axes.players}
    assert {name: step_limit(plan) for name, plan in plans.items()} == {"react": 100, "novice": 50}
    assert agent_details(plans["react"])["preset"] == PRESET
    assert axes.config["agent_preset"] == PRESET


def test_a_study_plays_and_learns_by_it():
    agents = [{"agent": "planning", "model": "novice"}, "novice"]
    asked = {"environments": ["alfworld"], "agents": agents, "interface": "generate", "agent_preset": PRESET}
    plan = plan_study(StudyFile.model_validate(asked))
    by_agent = {each.player.agent.name: each for each in plan.evaluations.values()}
    assert {name: step_limit(each) for name, each in by_agent.items()} == {"planning": 100, "novice": 50}
    assert agent_details(by_agent["planning"])["plan_call"] == "True"
    learned = {each.player.agent.name: each for each in plan.generations.values()}
    assert (learned["planning"].preset, learned["novice"].preset) == (by_agent["planning"].preset, None)
    assert plan.config["agent_preset"] == PRESET


def test_a_study_names_the_key_of_a_preset_that_nobody_has():
    file = {"environments": ["alfworld"], "agents": ["react"], "interface": "probe", "agent_preset": "mine"}
    with pytest.raises(UsageError, match="unknown agent preset 'mine'"):
        plan_study(StudyFile.model_validate(file))
    novices = StudyFile.model_validate({**file, "agents": ["novice"], "agent_preset": PRESET})
    with pytest.raises(UsageError, match="no agent of this study asks a model: leave agent_preset out"):
        plan_study(novices)


def test_an_interface_is_learned_with_the_presets_turns_and_agent():
    config = GenerationConfig(env="alfworld", backend="probe", agent="react", model="novice", agent_preset=PRESET)
    plan = plan_generation(config)
    env = plan.world.env()
    env.close()
    assert base_env(env).step_limit == 100
    assert plan.preset is not None
    command = evaluate_command(plan, Path("mine.py"))
    assert "--model novice --agent-preset align-paper" in command


def test_the_command_that_measures_an_interface_asks_where_the_agents_model_is_asked_now():
    asked = {"backend": "probe", "agent": "vanilla", "model": "looker", "base_url": "http://moved:1/v1"}
    plan = plan_generation(GenerationConfig(env="alfworld", **asked))  # type: ignore[arg-type]
    command = evaluate_command(plan, Path("mine.py"))
    assert "--agent vanilla --model looker --base-url http://moved:1/v1 --compare" in command
