"""Build the agents and models of an evaluation from its plan.

Not here: the plan (`plan.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.players import build_agent, chat_model, describe_agent, require_expert
from align_echo.agents.spec import AgentSetting
from align_echo.critic.best_of import BestOf
from align_echo.critic.drawn import SamplingSettings
from align_echo.critic.reasoning import ReasoningCritic
from align_echo.critic.scoring import ActionCritic, IntuitiveCritic, read_calibration
from align_echo.errors import UsageError
from align_echo.evaluate.folder import Config
from align_echo.evaluate.plan import EvaluationPlan, SamplingLimits, read_judge_sampling
from align_echo.models.names import ModelName
from align_echo.types import Agent, ChatModel

Models = Callable[[str, ModelName], ChatModel]
"""Maps a role ("agent", "judge", "critic") and a model's name to the model. Raises as `chat_model`."""


def model_loader(plan: EvaluationPlan, path: Path) -> Models:
    """Return a loader of the plan's chat models. A model with several roles is loaded once.

    Replies of an endpoint are cached and logged in the run's folder, by role. Those of a local model cost nothing to
    repeat, and are complete in the trajectories and reviews.
    """
    from align_echo.models import CallLog, RecordingModel, ReplyCache

    cache, log = ReplyCache(path / "cache"), CallLog(path / "calls.jsonl")

    @functools.cache
    def load(name: ModelName) -> ChatModel:
        return chat_model(
            name,
            spec=plan.spec,
            base_url=_base_url(plan, name),
            seed=plan.seed,
            processes=plan.workers.model_processes,
        )

    def model_of(role: str, name: ModelName) -> ChatModel:
        model = load(name)
        return model if name.is_local else RecordingModel(model, role=role, cache=cache, log=log)

    return model_of


def _base_url(plan: EvaluationPlan, name: ModelName) -> str | None:
    """Return `--base-url` for models asked at an endpoint; without any, `chat_model` refuses it."""
    at_endpoint = [model for model in plan.models if model.endpoint(plan.base_url)]
    return None if at_endpoint and name not in at_endpoint else plan.base_url


def build_plan_agent(plan: EvaluationPlan, models: Models) -> Agent:
    """Build the plan's agent. Raises `UsageError`, also if it would play all episodes of a task identically, and for
    the expert in tasks without one.
    """
    if plan.player.agent.needs_expert:
        require_expert(plan.spec, plan.split, plan.task_ids, plan.data_root)
    model = models("agent", plan.player.model) if plan.player.model else None
    setting = AgentSetting(
        plan.spec,
        plan.split,
        plan.data_root,
        plan.seed,
        model if model is None or plan.truncation is None else truncated(model, plan.truncation),
        plan.temperature,
        plan.max_tokens,
        plan.preset,
    )
    agent = build_agent(plan.player.agent, setting)
    needs_draws = {
        "--episodes-per-task": plan.samples > 1,
        "--refine-rounds": plan.refining is not None,
        "--best-of": plan.best_of > 1,
    }
    option = next((option for option, is_set in needs_draws.items() if is_set), None)
    if option is None:
        return agent
    if not (isinstance(agent, ChatAgent) and agent.temperature > 0):
        raise UsageError(f"{option} needs an agent that draws: a chat model, with --temperature above 0")
    if plan.best_of == 1:
        return agent
    return BestOf(
        agent,
        plan.best_of,
        _critic(plan, models, agent),
        pick=plan.pick,
        abstain_below=plan.abstain_below,
        seed=plan.seed,
    )


def _critic(plan: EvaluationPlan, models: Models, player: ChatAgent) -> ActionCritic | None:
    """Build the judge of candidates; None for the agent's own model in one word, or without judging."""
    if plan.reasoning:
        return ReasoningCritic(models("judge", plan.judge) if plan.judge else player.model)
    return build_critic(models("judge", plan.judge), plan.judge) if plan.judge else None


def truncated(model: ChatModel, truncation: SamplingLimits) -> ChatModel:
    """Restrict the model to fewer tokens. Raises `UsageError` for a model at an endpoint."""
    from align_echo.models.local.chat import LocalModel

    if not isinstance(model, LocalModel):
        raise UsageError(f"--top-k and --top-p are for local models: {model.name} draws as its endpoint is set up")
    return replace(model, top_k=truncation.top_k, top_p=truncation.top_p)


def build_critic(model: ChatModel, name: ModelName) -> IntuitiveCritic:
    """Build a critic from a model, calibrated if its folder says so. Raises `UsageError` for a damaged calibration."""
    return IntuitiveCritic(model, read_calibration(name.folder).temperature if name.folder else 1.0)


def sampling_warnings(plan: EvaluationPlan, player: Agent) -> list[str]:
    """Return a warning if candidates are sampled differently from the judge's training data."""
    training_settings = read_judge_sampling(plan.judge)
    if not training_settings or not isinstance(player, BestOf):
        return []
    local, cut = plan.player.model is not None and plan.player.model.is_local, plan.truncation or SamplingLimits(0, 1.0)
    settings = SamplingSettings(
        temperature=player.agent.temperature,
        top_k=cut.top_k if local else None,
        top_p=cut.top_p if local else None,
    )
    if all(trained == settings for trained in training_settings):
        return []
    before = " and ".join(dict.fromkeys(map(str, training_settings)))
    mislead = "its verdicts may mislead"
    return [f"warning: the critic learned from candidates drawn {before}; these are drawn {settings}: {mislead}"]


def evaluation_config(plan: EvaluationPlan, player: Agent) -> Config:
    """Return the content of `config.json`; a resumed evaluation must have the same."""
    return {**plan.config, "agent_details": {**describe_agent(player)}}
