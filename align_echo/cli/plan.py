"""What an evaluation is: everything asked for, checked, with its agent and its models. `evaluate` and `grid` share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from align_echo import __version__
from align_echo.agents.conversation import ChatAgent
from align_echo.align.backend import Described
from align_echo.cli.agents import (
    Player,
    build_agent,
    chat_model,
    endpoint_on_record,
    is_scripted,
    model_on_record,
    require_expert,
)
from align_echo.cli.console import Display
from align_echo.critic.best_of import BestOf
from align_echo.critic.drawn import Drawn, read_drawn
from align_echo.critic.language import Form
from align_echo.critic.reasoning import Reasoner
from align_echo.critic.scoring import Critic, Scorer, read_calibration
from align_echo.critic.selection import JUDGING, WEIGHING, Picking
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import run_variant
from align_echo.evaluate.folder import Config, EvaluationFolder
from align_echo.interface import Interface
from align_echo.models.names import folder_of, is_local
from align_echo.rollout import Episode
from align_echo.types import Agent, ChatModel, Trajectory
from align_echo.wrappers.catalogue import EnvironmentSpec, make
from align_echo.wrappers.data_source import games_of

SELF = "self"
"""In the place of a model's name: the agent's own."""


@dataclass(frozen=True)
class Refining:
    """Rounds of refinement that were asked for. `critic` is a model's name; None for fresh attempts without one."""

    rounds: int
    critic: str | None
    form: Form


@dataclass(frozen=True)
class Truncation:
    """Which tokens a local model draws from: the `top_k` likeliest (0: all), and of them those that make up `top_p`."""

    top_k: int
    top_p: float


@dataclass(frozen=True)
class Plan:
    """An evaluation whose every input was checked."""

    spec: EnvironmentSpec
    split: str
    task_ids: list[str]
    interface: str
    variants: dict[str, Interface | None]
    player: Player
    base_url: str | None
    seed: int
    workers: int
    data_root: Path | None
    temperature: float | None = None
    max_tokens: int | None = None
    samples: int = 1
    best_of: int = 1
    judge: str | None = None
    pick: Picking = "critic"
    reasoning: bool = False
    abstain_below: float = 0.0
    truncation: Truncation | None = None
    refining: Refining | None = None

    @property
    def models(self) -> list[str]:
        """Names of all models that are asked, the agent's first."""
        critic = self.refining.critic if self.refining else None
        return list(dict.fromkeys(filter(None, (self.player.model, self.judge, critic))))

    @property
    def episodes(self) -> list[Episode]:
        """Every episode of a variant, task by task."""
        return [Episode(task, sample) for task in self.task_ids for sample in range(self.samples)]

    @property
    def config(self) -> Config:
        """What `config.json` holds, but for what the agent is made of and rounds of refinement."""
        return {
            "command": "evaluate",
            "align_echo": __version__,
            "environment": self.spec.name,
            "split": self.split,
            "tasks": list(self.task_ids),
            "interfaces": {name: one.label if one else "none" for name, one in self.variants.items()},
            "agent": self.player.agent,
            "model": model_on_record(self.player.model),
            "base_url": endpoint_on_record(self.player.model, self.base_url),
            "episodes_per_task": self.samples,
            "seed": self.seed,
            **({"top_k": self.truncation.top_k, "top_p": self.truncation.top_p} if self.truncation else {}),
            "games": games_of(self.spec, self.data_root),
            "data_root": str(self.data_root.absolute()) if self.data_root else None,
        }


class Models:
    """The chat models of a plan. One that plays several roles is loaded once.

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
        at_endpoint = [one for one in self._plan.models if endpoint_on_record(one, url)]
        return None if at_endpoint and name not in at_endpoint else url


def build_player(plan: Plan, models: Models) -> Agent:
    """The plan's agent. Raises `UsageError`, also if it would play every episode of a task alike, and for the expert
    in tasks that have none.
    """
    if plan.player.agent == "expert":
        require_expert(plan.spec, plan.split, plan.task_ids, plan.data_root)
    model = models.of("agent", plan.player.model) if plan.player.model else None
    player = build_agent(
        plan.player.agent,
        model if model is None or plan.truncation is None else truncated(model, plan.truncation),
        spec=plan.spec,
        split=plan.split,
        data_root=plan.data_root,
        seed=plan.seed,
        temperature=plan.temperature,
        max_tokens=plan.max_tokens,
    )
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


def _critic(plan: Plan, models: Models, player: ChatAgent) -> Critic | None:
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


def choose_judge(
    best_of: int, judge: str | None, player: Player, *, pick: Picking, abstain_below: float, reasoning: bool = False
) -> str | None:
    """The name of the model that judges candidates; None for the agent's own, or where nothing is judged.

    Raises `UsageError` for a judge of nothing, and for a script, which can only play.
    """
    asked = {
        "--judge": judge is not None,
        "--pick": pick != "critic",
        "--reasoning": reasoning,
        "--abstain-below": abstain_below > 0,
    }
    option = next((option for option, there in asked.items() if there), None)
    if best_of == 1:
        if option is not None:
            raise UsageError(f"{option} needs candidates to choose from: add --best-of N")
        return None
    if pick in WEIGHING and not (player.model and is_local(player.model)):
        raise UsageError(f"--pick {pick} needs a local model, which tells how probable its replies are")
    if pick not in JUDGING:
        if judge is not None or abstain_below > 0 or reasoning:
            raise UsageError(f"--pick {pick} asks no critic: leave --judge, --reasoning and --abstain-below out")
        return None
    if pick == "tilted" and (reasoning or abstain_below > 0):
        raise UsageError("--pick tilted goes by probabilities alone: leave --reasoning and --abstain-below out")
    if reasoning and abstain_below > 0:
        raise UsageError("--abstain-below needs probabilities, which --reasoning has none of: leave one of them out")
    refuse_script("--judge", player.model if judge in (None, SELF) else judge)
    return None if judge in (SELF, player.model) else judge


def choose_truncation(player: Player, judge: str | None, top_k: int | None, top_p: float | None) -> Truncation | None:
    """From which tokens the agent's model draws: those asked for; else those of the data that the judge learned from,
    where that was drawn in one way; else None, for all. Raises `UsageError` for a model that is asked at an endpoint,
    and for what is no share.
    """
    local = player.model is not None and is_local(player.model)
    if top_k is not None or top_p is not None:
        if not local:
            raise UsageError("--top-k and --top-p are for local models: others draw as their endpoint is set up")
        if top_p is not None and not 0 < top_p <= 1:
            raise UsageError(f"--top-p is above 0 and at most 1 (off), not {top_p}")
        return Truncation(top_k or 0, 1.0 if top_p is None else top_p)
    ways = {(one.top_k, one.top_p) for one in _drawn(judge)}
    (way,) = ways if len(ways) == 1 else [(None, None)]
    return Truncation(way[0], way[1]) if local and way[0] is not None and way[1] is not None else None


def drawn_otherwise(plan: Plan, player: Agent) -> list[str]:
    """A line where candidates are drawn in another way than those that the judge learned from."""
    learned = _drawn(plan.judge)
    if not learned or not isinstance(player, BestOf):
        return []
    local, cut = plan.player.model is not None and is_local(plan.player.model), plan.truncation or Truncation(0, 1.0)
    here = Drawn(
        temperature=player.agent.temperature,
        top_k=cut.top_k if local else None,
        top_p=cut.top_p if local else None,
    )
    if all(one == here for one in learned):
        return []
    told = " and ".join(dict.fromkeys(str(one) for one in learned))
    mislead = "its verdicts may mislead"
    return [f"warning: the critic learned from candidates drawn {told}; these are drawn {here}: {mislead}"]


def _drawn(judge: str | None) -> tuple[Drawn, ...]:
    folder = folder_of(judge) if judge else None
    return read_drawn(folder) if folder else ()


def refuse_script(option: str, model: str | None) -> None:
    """Raises `UsageError` for a model's name that stands for a scripted novice."""
    if is_scripted(model):
        raise UsageError(f"the model {model_on_record(model)} can only play: name another with {option}")


def config_of(plan: Plan, player: Agent) -> Config:
    """What `config.json` holds; a resumed evaluation must ask for the same."""
    details = player.describe() if isinstance(player, Described) else {}
    return {**plan.config, "agent_details": {**details}}


def try_reset(spec: EnvironmentSpec, task: str, *, split: str, data_root: Path | None) -> None:
    """Start a task: what an environment lacks is said before anything is written. Raises what it raises."""
    env = make(spec.name, split=split, data_root=data_root)
    try:
        env.reset(options={"task": task})
    finally:
        env.close()


def play_part(
    plan: Plan,
    player: Agent,
    interface: Interface | None,
    episodes: Sequence[Episode],
    *,
    part: str,
    title: str,
    folder: EvaluationFolder,
    display: Display,
) -> list[Trajectory]:
    """The episodes of a part of a folder, in order, shown and kept as they end; what is in the folder is not played."""
    finished = folder.finished(part, episodes)
    display.stage(title, len(episodes), len(finished))

    def ended(trajectory: Trajectory) -> None:
        folder.add(part, trajectory)
        display.episode(trajectory.won)
        if trajectory.fault is not None:
            display.broke(trajectory.task_id, trajectory.fault)

    return run_variant(
        plan.spec,
        player,
        interface,
        episodes,
        split=plan.split,
        seed=plan.seed,
        workers=plan.workers,
        data_root=plan.data_root,
        finished=finished,
        on_trajectory=ended,
    )
