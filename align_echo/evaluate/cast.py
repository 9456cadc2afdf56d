"""Who plays an evaluation and who judges it: agents and models, made from a plan.

Left out: what was asked for (`plan.py`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.players import build_agent, chat_model, details_of, endpoint_on_record, require_expert
from align_echo.agents.spec import AgentSetting
from align_echo.critic.best_of import BestOf
from align_echo.critic.drawn import Drawn
from align_echo.critic.reasoning import Reasoner
from align_echo.critic.scoring import Critic, Scorer, read_calibration
from align_echo.errors import UsageError
from align_echo.evaluate.folder import Config
from align_echo.evaluate.plan import Plan, Truncation, drawn_for
from align_echo.models.names import folder_of, is_local
from align_echo.types import Agent, ChatModel


class Cast:
    """The chat models of a plan, by role. One that has several roles is loaded once.

    Replies from an endpoint are cached and logged in the run's folder, by role. Those of a local model cost nothing to
    draw again, and stand whole in the trajectories and reviews.
    """

    def __init__(self, plan: Plan, path: Path) -> None:
        from align_echo.jsonl import JsonlFile
        from align_echo.models import ReplyCache

        self._plan = plan
        self._cache, self._log = ReplyCache(path / "cache"), JsonlFile(path / "calls.jsonl")
        self._loaded: dict[str, ChatModel] = {}

    def of(self, role: str, name: str) -> ChatModel:
        """The model of a name in a role. Raises what `chat_model` does."""
        from align_echo.models import RecordingModel

        if name not in self._loaded:
            plan = self._plan
            self._loaded[name] = chat_model(name, spec=plan.spec, base_url=self._url(name), seed=plan.seed)
        model = self._loaded[name]
        return model if is_local(name) else RecordingModel(model, role=role, cache=self._cache, log=self._log)

    def _url(self, name: str) -> str | None:
        """`--base-url` is for the models that are asked at one; where none is, `chat_model` refuses it."""
        url = self._plan.base_url
        at_endpoint = [model for model in self._plan.models if endpoint_on_record(model, url)]
        return None if at_endpoint and name not in at_endpoint else url


def build_player(plan: Plan, models: Cast) -> Agent:
    """The plan's agent. Raises `UsageError`, also if it would play every episode of a task alike, and for the expert
    in tasks that have none.
    """
    if plan.player.agent.needs_expert:
        require_expert(plan.spec, plan.split, plan.task_ids, plan.data_root)
    model = models.of("agent", plan.player.model) if plan.player.model else None
    setting = AgentSetting(
        plan.spec,
        plan.split,
        plan.data_root,
        plan.seed,
        model if model is None or plan.truncation is None else truncated(model, plan.truncation),
        plan.temperature,
        plan.max_tokens,
    )
    player = build_agent(plan.player.agent, setting)
    asked = {
        "--episodes-per-task": plan.samples > 1,
        "--refine-rounds": plan.refining is not None,
        "--best-of": plan.best_of > 1,
    }
    drawing = next((option for option, there in asked.items() if there), None)
    if drawing is None:
        return player
    if not (isinstance(player, ChatAgent) and player.temperature > 0):
        raise UsageError(f"{drawing} needs an agent that draws: a chat model, with --temperature above 0")
    if plan.best_of == 1:
        return player
    return BestOf(
        player,
        plan.best_of,
        _critic(plan, models, player),
        pick=plan.pick,
        abstain_below=plan.abstain_below,
        seed=plan.seed,
    )


def _critic(plan: Plan, models: Cast, player: ChatAgent) -> Critic | None:
    """Who judges candidates; None for the agent's own model in one word, or where nothing is judged."""
    if plan.reasoning:
        return Reasoner(models.of("judge", plan.judge) if plan.judge else player.model)
    return scorer_of(models.of("judge", plan.judge), plan.judge) if plan.judge else None


def truncated(model: ChatModel, truncation: Truncation) -> ChatModel:
    """The model, drawing from fewer tokens. Raises `UsageError` for one that is asked at an endpoint."""
    from align_echo.models.local.chat import LocalModel

    if not isinstance(model, LocalModel):
        raise UsageError(f"--top-k and --top-p are for local models: {model.name} draws as its endpoint is set up")
    return replace(model, top_k=truncation.top_k, top_p=truncation.top_p)


def scorer_of(model: ChatModel, name: str) -> Scorer:
    """A model as a critic, calibrated where its folder says how. Raises `UsageError` for a calibration that is damaged.
    """
    folder = folder_of(name)
    return Scorer(model, read_calibration(folder).temperature if folder else 1.0)


def drawn_otherwise(plan: Plan, player: Agent) -> list[str]:
    """A line where candidates are drawn in another way than those that the judge learned from."""
    learned = drawn_for(plan.judge)
    if not learned or not isinstance(player, BestOf):
        return []
    local, cut = plan.player.model is not None and is_local(plan.player.model), plan.truncation or Truncation(0, 1.0)
    here = Drawn(
        temperature=player.agent.temperature,
        top_k=cut.top_k if local else None,
        top_p=cut.top_p if local else None,
    )
    if all(drawn == here for drawn in learned):
        return []
    told = " and ".join(dict.fromkeys(map(str, learned)))
    mislead = "its verdicts may mislead"
    return [f"warning: the critic learned from candidates drawn {told}; these are drawn {here}: {mislead}"]


def config_of(plan: Plan, player: Agent) -> Config:
    """What `config.json` holds; a resumed evaluation must ask for the same."""
    return {**plan.config, "agent_details": {**details_of(player)}}
