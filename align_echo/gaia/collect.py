"""Collect training data for a critic: play tasks with several candidates a turn, label all, write examples.

Not here: the folder's content (`collection.py`), and training (`fit`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.players import AgentChoice, about, build_agent, describe_agent, require_expert
from align_echo.agents.privileged import EXPERT
from align_echo.agents.spec import AgentSetting
from align_echo.critic.best_of import BestOf
from align_echo.critic.labels import label_rules
from align_echo.critic.led import LedAgent
from align_echo.critic.selection import CRITIC, FIRST
from align_echo.errors import UsageError
from align_echo.evaluate.cast import build_plan_agent, evaluation_config, model_loader
from align_echo.evaluate.comparison import BASELINE
from align_echo.evaluate.folder import EvaluationFolder, check_folder
from align_echo.evaluate.plan import EvaluationPlan, SamplingLimits, refuse_script
from align_echo.evaluate.playing import play_part
from align_echo.gaia.collection import PART, CollectionSummary, finish, label_all
from align_echo.gaia.examples import require_parquet
from align_echo.models.names import ModelName
from align_echo.progress import SILENT, Progress
from align_echo.session import try_reset
from align_echo.types import Agent
from align_echo.workers.choice import Workers, choose_workers
from align_echo.wrappers.environment import EnvironmentSpec

TOP_K, TOP_P = 30, 0.8
"""Sampling defaults of GAIA (paper 3, section 4.1)."""

States = Literal["agent", "expert", "mixed"]
"""Whose actions are carried out: the agent's, the expert's as in GAIA's datasets, or either in half of the episodes."""

OWN = {"expert": 0.0, "mixed": 0.5}
"""Share of episodes without the expert as leader."""


@dataclass(frozen=True)
class CandidateSettings:
    """Sampling settings of candidates. `judge` names the critic that chooses among them, possibly the agent's own
    model; None takes the first.

    `top_k` and `top_p` None mean the paper's values for a local model; an endpoint uses its own.
    """

    candidates: int
    temperature: float
    top_k: int | None
    top_p: float | None
    judge: ModelName | None
    states: States = "agent"

    def truncation(self, model: ModelName | None) -> SamplingLimits | None:
        """Return the sampling truncation for a model; None for no truncation."""
        is_set = self.top_k is not None or self.top_p is not None
        if not is_set and (model is None or not model.is_local):
            return None
        return SamplingLimits(TOP_K if self.top_k is None else self.top_k, TOP_P if self.top_p is None else self.top_p)

    def judged_by(self, player: AgentChoice) -> ModelName | None:
        """Return the model name of the judge, None for the agent's own model or no judge.

        Raises `UsageError` for settings that allow no sampling or judging.
        """
        if not player.agent.asks_model:
            raise UsageError(f"the agent {player.agent.name} asks no model and cannot draw: name another with --agent")
        if not math.isfinite(self.temperature) or (self.candidates > 1 and self.temperature == 0):
            raise UsageError(f"--candidates {self.candidates} needs a --temperature above 0, not {self.temperature}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p is above 0 and at most 1 (off), not {self.top_p}")
        if self.judge is None:
            return None
        if self.candidates == 1:
            raise UsageError("--judge needs candidates to take from: --candidates above 1")
        refuse_script("--judge", self.judge)
        return None if self.judge == player.model else self.judge


def plan_collection(
    spec: EnvironmentSpec,
    player: AgentChoice,
    drawing: CandidateSettings,
    *,
    split: str,
    task_ids: Sequence[str],
    samples: int = 1,
    interface: str = "none",
    retract: bool = True,
    base_url: str | None = None,
    seed: int = 0,
    workers: Workers | None = None,
    data_root: Path | None = None,
) -> EvaluationPlan:
    """Plan a collection from tasks of a split.

    Raises `UsageError` for settings that allow no sampling, judging or labelling, `MissingExtraError` without the extra
    for examples, `InterfaceError`.
    """
    require_parquet()
    spec.check_split(split)
    has_expert = any(map(spec.has_expert, task_ids))  # also if it is not installed: its actions are labels
    if not spec.measures_distance and not has_expert:
        raise UsageError(
            f"{spec.name} has no oracle to label actions by: declare its expert, or a distance to the goal, in an "
            "align_echo.TextEnvironment"
        )
    if drawing.states in OWN:
        require_expert(spec, split, task_ids, data_root)
    return EvaluationPlan(
        spec=spec,
        split=split,
        interface=interface,
        variants={BASELINE: spec.interface(interface, retract=retract)},
        task_ids=list(task_ids),
        player=player,
        base_url=base_url,
        seed=seed,
        workers=choose_workers(workers, player),
        data_root=data_root,
        temperature=drawing.temperature,
        samples=samples,
        best_of=drawing.candidates,
        judge=drawing.judged_by(player),
        pick=CRITIC if drawing.judge else FIRST,
        truncation=drawing.truncation(player.model),
    )


def collect(
    plan: EvaluationPlan,
    drawing: CandidateSettings,
    path: Path,
    *,
    resume: bool = False,
    number: int = 1,
    progress: Progress = SILENT,
) -> CollectionSummary:
    """Play a plan, label it and write a collection; parts already in the folder are reused. `number` is the flywheel's
    round.

    Raises as `evaluate.playing.play`.
    """
    agent = build_plan_agent(plan, model_loader(plan, path))
    if not isinstance(agent, BestOf | ChatAgent):
        raise UsageError(f"the agent {plan.player.agent.name} asks no model: candidates are a chat model's replies")
    config = {
        **evaluation_config(plan, agent),
        "command": "critic collect",
        "top_k": plan.truncation.top_k if plan.truncation else None,
        "top_p": plan.truncation.top_p if plan.truncation else None,
        "states": drawing.states,
        "round": number,
    }
    check_folder(path, config, resume=resume)
    try_reset(plan.spec, plan.task_ids[0], split=plan.split, data_root=plan.data_root)
    folder = EvaluationFolder(path, config, resume=resume)
    progress.say(about(plan.player, describe_agent(agent)))
    (interface,) = plan.variants.values()
    played = play_part(
        plan,
        _led(plan, drawing, agent),
        interface,
        plan.episodes,
        part=PART,
        title="episodes",
        folder=folder,
        progress=progress,
    )
    labelled = label_all(
        lambda: plan.spec.make(plan.split, interface=interface, data_root=plan.data_root),
        played,
        path,
        rules=label_rules(plan.spec),
        on_episode=lambda episode: progress.status(f"labelling the candidates: episode {episode} of {len(played)}"),
    )
    return finish(
        played,
        labelled,
        (agent.agent if isinstance(agent, BestOf) else agent).conversation,
        path,
        action_format=plan.spec.action_format,
        weights=agent.describe().get("weights.agent", ""),
        number=number,
    )


def _led(plan: EvaluationPlan, drawing: CandidateSettings, agent: BestOf | ChatAgent) -> Agent:
    """Return the agent itself, or the agent behind an expert leader."""
    if drawing.states not in OWN:
        return agent
    expert = build_agent(EXPERT, AgentSetting(plan.spec, plan.split, plan.data_root, plan.seed))
    return LedAgent(agent, expert, own=OWN[drawing.states])
