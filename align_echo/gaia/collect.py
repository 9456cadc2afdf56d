"""Collect training data for a critic: play tasks with several candidates a turn, label all, write examples.

Not here: training (`fit`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
from pydantic import Field

from align_echo.agents import options
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.options import ModelConfig, PayingConfig
from align_echo.agents.players import (
    AgentChoice,
    build_agent,
    choose_agent,
    default_model,
    refuse_tools,
    require_expert,
)
from align_echo.agents.privileged import EXPERT
from align_echo.agents.spec import AgentSetting
from align_echo.base.files import write_atomically
from align_echo.base.jsonl import JsonlFile
from align_echo.base.plain_yaml import json_object
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import SamplingSettings
from align_echo.critic.best_of import CRITIC, FIRST, BestOf, LedAgent
from align_echo.critic.labels import label_rules
from align_echo.errors import MissingDataError, UsageError
from align_echo.evaluate.comparison import BASELINE
from align_echo.evaluate.folder import Config
from align_echo.evaluate.plan import (
    EvaluationPlan,
    SamplingLimits,
    agents_model,
    model_named,
    pick_tasks,
    refuse_script,
)
from align_echo.evaluate.playing import Experiment
from align_echo.gaia.examples import (
    FILE,
    Conversation,
    LabelledEpisode,
    build_examples,
    deduplicate,
    label_episode,
    proposed_actions,
    require_parquet,
    rule_for,
    turn_candidates,
    write_examples,
)
from align_echo.intervals import Percent, scored, success_rate
from align_echo.models.choosing import ModelName, refuse_idle_base_url
from align_echo.models.reply_tokens import JUDGED, PLAYING, find_reply_tokens, read_reply_tokens, with_reply_tokens
from align_echo.models.spending import RoleSpending, Spending, check_limits
from align_echo.rollout.faults import InterfaceConduct, fault_text, faults_by_source, summarize_conduct
from align_echo.types import Agent, Frozen, Trajectory, Usage
from align_echo.workers.ray_cluster import Workers, choose_workers, read_workers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

# ---------------------------------------------------------------- A collection

PART = "played"
LABELS = "labels.jsonl"


class LabelCounts(Frozen):
    """Counts of distinct actions labelled correct and wrong by a rule, and of undecided ones."""

    correct: int
    wrong: int
    unknown: int


class CollectionSummary(Frozen):
    """Summary of a collection. `examples` counts distinct actions in distinct conversations, `proposed` also
    repetitions in other episodes; `labels` is by rule, `conduct` is the interface's. `unlabelled` counts turns with
    candidates but without examples, because the engine failed twice or the replay differed from the record.
    `at_endpoints` is as in `VariantComparison`.
    """

    environment: str
    split: str
    agent: str
    tasks: int
    episodes: int
    faults: int
    faults_by_source: dict[str, int] = Field(default_factory=dict)
    conduct: InterfaceConduct = InterfaceConduct()
    success_rate: Percent
    turns: int
    candidates: int
    unlabelled: int
    proposed: int
    examples: int
    exploring: int
    labels: dict[str, LabelCounts]
    usage: Usage = Usage()
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)


def label_all(
    make_env: Callable[[], gym.Env[str, str]],
    played: Sequence[Trajectory],
    folder: Path,
    *,
    rules: Sequence[str],
    on_episode: Callable[[int], None] = lambda number: None,
) -> list[LabelledEpisode]:
    """Label all episodes without a fault by these rules, in order; labels already in the folder are reused.

    `on_episode` is called with the number of each newly labelled episode, from 1.
    """
    file = JsonlFile(folder / LABELS)
    known = {(labelled.task_id, labelled.sample): labelled for labelled in file.read(LabelledEpisode)}
    episodes: list[LabelledEpisode] = []
    env = make_env()
    try:
        for number, trajectory in enumerate(scored(played), start=1):
            labelled = known.get((trajectory.task_id, trajectory.sample))
            if labelled is None or not labelled.belongs_to(trajectory):
                on_episode(number)
                labelled = label_episode(env, trajectory, rules)
                file.append(labelled)
            episodes.append(labelled)
    finally:
        env.close()
    return episodes


def finish(
    played: Sequence[Trajectory],
    labelled: Sequence[LabelledEpisode],
    conversation: Conversation,
    folder: Path,
    *,
    action_format: str,
    weights: str,
    number: int = 1,
    at_endpoints: dict[str, RoleSpending] | None = None,
) -> CollectionSummary:
    """Write the examples and the summary. Raises `UsageError` if no episode was played to its end."""
    trajectories = scored(played)
    if not trajectories:
        fault = next(
            (fault_text(trajectory.fault) for trajectory in played if trajectory.fault is not None), "none was played"
        )
        raise UsageError(f"all {len(played)} episodes broke, so there is nothing to learn from; the first: {fault}")
    examples = [
        example
        for trajectory, labels in zip(trajectories, labelled, strict=True)
        for example in build_examples(
            trajectory, labels, conversation, action_format=action_format, weights=weights, number=number
        )
    ]
    distinct = deduplicate(examples)
    write_examples(distinct, folder / FILE)
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    collected = CollectionSummary(
        environment=trajectories[0].environment,
        split=trajectories[0].split,
        agent=trajectories[0].agent,
        tasks=len({trajectory.task_id for trajectory in trajectories}),
        episodes=len(trajectories),
        faults=len(played) - len(trajectories),
        faults_by_source=faults_by_source(played),
        conduct=summarize_conduct(trajectories),
        success_rate=success_rate(trajectories),
        turns=len(steps),
        candidates=sum(len(turn_candidates(step)) for step in steps),
        unlabelled=sum(
            bool(proposed_actions(step)) and not actions
            for trajectory, labels in zip(trajectories, labelled, strict=True)
            for step, actions in zip(trajectory.steps, labels.turns, strict=True)
        ),
        proposed=len(examples),
        examples=len(distinct),
        exploring=sum(example.explores for example in distinct),
        labels={
            rule: _shares([example.label(rule) for example in distinct])
            for rule in dict.fromkeys(rule for example in distinct for rule in example.labels)
        },
        usage=sum((trajectory.usage for trajectory in played), Usage()),
        at_endpoints=at_endpoints or {},
    )
    write_atomically(folder / "summary.json", collected.model_dump_json(indent=2) + "\n")
    return collected


def _shares(labels: Sequence[str | None]) -> LabelCounts:
    counts = Counter(labels)
    return LabelCounts(correct=counts["correct"], wrong=counts["wrong"], unknown=counts[None])


def read_sampling_settings(folder: Path) -> SamplingSettings | None:
    """Read a collection's sampling settings; None if its folder does not record them."""
    config = json_object(folder / "config.json") or {}
    details, top_k, top_p = config.get("agent_details"), config.get("top_k"), config.get("top_p")
    if top_k is None and config.get("base_url") is None:
        top_k, top_p = 0, 1.0
    try:
        return SamplingSettings(temperature=float(details["temperature"]), top_k=top_k, top_p=top_p)  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        return None


def default_episode_rule(episodes: Iterable[tuple[Trajectory, LabelledEpisode]]) -> str:
    """Return the default label rule of labelled episodes. Raises as `rule_for`."""
    return rule_for(
        (trajectory.environment, action)
        for trajectory, labelled in episodes
        for turn in labelled.turns
        for action in turn
    )


def read_collection(folder: Path) -> tuple[list[Trajectory], list[LabelledEpisode]]:
    """Read the episodes without a fault and their labels, in the same order.

    Raises `MissingDataError` for an incomplete collection, `UsageError` for damaged files.
    """
    if not (folder / "summary.json").is_file() or not (folder / LABELS).is_file():
        raise MissingDataError(f"{folder} holds no finished collection: run align-echo critic collect --out {folder}")
    played = scored(JsonlFile(folder / "trajectories" / f"{PART}.jsonl").read(Trajectory))
    known = {(labels.task_id, labels.sample): labels for labels in JsonlFile(folder / LABELS).read(LabelledEpisode)}
    pairs = [(trajectory, known.get((trajectory.task_id, trajectory.sample))) for trajectory in played]
    labelled = [labels for trajectory, labels in pairs if labels is not None and labels.belongs_to(trajectory)]
    if not labelled or len(labelled) < len(played):
        raise MissingDataError(f"{folder} lacks labels of episodes: go on with align-echo critic collect --resume")
    return played, labelled


# ---------------------------------------------------------------- collect training data for a critic

TOP_K, TOP_P = 30, 0.8
"""Sampling defaults of GAIA (paper 3, section 4.1)."""

States = Literal["agent", "expert", "mixed"]
"""Whose actions are carried out: the agent's, the expert's as in GAIA's datasets, or either in half of the episodes."""

CollectedTasks = Annotated[int, Field(ge=1, description="Number of tasks of the split.")]
ModelTemperature = Annotated[float, Field(ge=0, description="Temperature of the agent's model.")]
TopK = Annotated[int | None, Field(ge=0, description="For a local model; default: 30, 0 disables it.")]
TopP = Annotated[float | None, Field(ge=0, le=1, description="For a local model; default: 0.8.")]
ActionSource = Annotated[
    States, Field(description="Whose actions are carried out: agent (the chosen candidate), expert, or mixed.")
]

OWN = {"expert": 0.0, "mixed": 0.5}
"""Share of episodes without the expert as leader."""


@dataclass(frozen=True)
class CandidateSettings:
    """Sampling settings of candidates. `critic` names the critic that chooses among them, possibly the agent's own
    model; None takes the first.

    `top_k` and `top_p` None mean the paper's values for a local model; an endpoint uses its own.
    """

    candidates: int
    temperature: float
    top_k: int | None
    top_p: float | None
    critic: ModelName | None
    states: States = "agent"

    def truncation(self, model: ModelName | None) -> SamplingLimits | None:
        """Return the sampling truncation for a model; None for no truncation."""
        is_set = self.top_k is not None or self.top_p is not None
        if not is_set and (model is None or not model.is_local):
            return None
        return SamplingLimits(TOP_K if self.top_k is None else self.top_k, TOP_P if self.top_p is None else self.top_p)

    def on_record(self) -> dict[str, Any]:
        """Return the settings under the keys of `config.json`."""
        return {
            "candidates": self.candidates,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "judge": self.critic and self.critic.text,
            "states": self.states,
        }

    def critic_for(self, player: AgentChoice) -> ModelName | None:
        """Return the model name of the critic, None for the agent's own model or no critic.

        Raises `UsageError` for settings that allow no sampling or judging.
        """
        if not player.agent.asks_model:
            raise UsageError(f"the agent {player.agent.name} asks no model and cannot draw: name another with --agent")
        if not math.isfinite(self.temperature) or (self.candidates > 1 and self.temperature == 0):
            raise UsageError(f"--candidates {self.candidates} needs a --temperature above 0, not {self.temperature}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p is above 0 and at most 1 (off), not {self.top_p}")
        if self.critic is None:
            return None
        if self.candidates == 1:
            raise UsageError("--judge needs candidates to take from: --candidates above 1")
        refuse_script("--judge", self.critic)
        return None if self.critic == player.model else self.critic


class CollectionConfig(ModelConfig, PayingConfig):
    """Options of `align-echo critic collect`."""

    env: options.Env
    agent: options.Agent = None
    model: options.Model = Field(default_factory=default_model)
    split: options.TrainSplit = None
    tasks: CollectedTasks = 100
    episodes_per_task: Annotated[int, Field(ge=1, description="Episodes of each task.")] = 1
    candidates: Annotated[int, Field(ge=1, description="Replies drawn by the agent every turn.")] = 8
    temperature: ModelTemperature = 1.0
    top_k: TopK = None
    top_p: TopP = None
    judge: Annotated[
        str | None,
        Field(description="Critic that chooses the candidate to send, or self; default: the first is sent."),
    ] = None
    max_tokens: options.MaxTokens = None
    turns: options.Turns = None
    tools: options.Tools = False
    states: ActionSource = "agent"
    rule: Annotated[
        str | None, Field(description="A label rule of your own, besides the environment's: module:NAME.")
    ] = None
    interface: options.InterfaceName = "none"
    retract: options.Retract = True
    base_url: options.BaseUrl = None
    seed: options.Seed = 0
    workers: options.WorkerCount = None
    data_root: options.DataRoot = None


@dataclass(frozen=True)
class CollectionPlan:
    """A collection with all names resolved: the episodes to play, how candidates are drawn, and a label rule of the
    user's own.
    """

    evaluation: EvaluationPlan
    drawing: CandidateSettings
    rule: str | None = None


def plan_collection(config: CollectionConfig) -> CollectionPlan:
    """Resolve the names of a collection's options and check the options. Raises as `build_collection`."""
    spec = environment(config.env).with_settings(turns=config.turns)
    split = spec.check_split(config.split or spec.train_split)
    model = agents_model(config.model, config.judge, config.base_url)
    player = choose_agent(config.agent, model, (spec.name,), config.base_url, config.chat)
    critic = model_named(config.judge, player, config.base_url) if config.judge else None
    writes = critic is not None and not critic.is_local
    tokens = read_reply_tokens(config.max_tokens, JUDGED if writes else PLAYING)
    drawing = CandidateSettings(
        candidates=config.candidates,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        critic=critic and with_reply_tokens(critic, "judge", tokens),
        states=config.states,
    )
    evaluation = build_collection(
        spec,
        player,
        drawing,
        split=split,
        task_ids=pick_tasks(
            spec.tasks(split, config.data_root), config.tasks, task_type=spec.task_type, seed=config.seed
        ),
        samples=config.episodes_per_task,
        interface=config.interface,
        retract=config.retract,
        seed=config.seed,
        workers=read_workers(config.workers),
        data_root=config.data_root,
        max_tokens=find_reply_tokens(tokens, "agent", player.model),
        turns=config.turns,
    )
    evaluation = replace(evaluation, limits=config.spending_limits)
    refuse_idle_base_url(config.base_url, evaluation.models)
    check_limits(evaluation.limits, evaluation.models)
    if config.tools:
        refuse_tools(player)
        evaluation = replace(evaluation, tools=True)
    return CollectionPlan(evaluation, drawing, config.rule)


def build_collection(
    spec: EnvironmentSpec,
    player: AgentChoice,
    drawing: CandidateSettings,
    *,
    split: str,
    task_ids: Sequence[str],
    samples: int = 1,
    interface: str = "none",
    retract: bool = True,
    seed: int = 0,
    workers: Workers | None = None,
    data_root: Path | None = None,
    max_tokens: int | None = None,
    turns: int | None = None,
) -> EvaluationPlan:
    """Build the plan of a collection from tasks of a split. `turns` is the requested step limit, which `spec` has.

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
        seed=seed,
        workers=choose_workers(workers, player),
        data_root=data_root,
        temperature=drawing.temperature,
        max_tokens=max_tokens,
        turns=turns,
        samples=samples,
        best_of=drawing.candidates,
        critic=drawing.critic_for(player),
        pick=CRITIC if drawing.critic else FIRST,
        truncation=drawing.truncation(player.model),
    )


def collect(
    collection: CollectionPlan,
    path: Path,
    *,
    resume: bool = False,
    number: int = 1,
    progress: Progress = SILENT,
    spending: Spending | None = None,
) -> CollectionSummary:
    """Play a plan, label it and write a collection; parts already in the folder are reused. `number` is the flywheel's
    round. Actions are labelled by the rules of the registry, and by the plan's own rule too. `spending` is as in
    `Experiment`.

    Raises as `evaluate.playing.play`.
    """
    plan, drawing, rule = collection.evaluation, collection.drawing, collection.rule
    experiment = Experiment(plan, path, resume=resume, progress=progress, spending=spending)
    agent = experiment.agent
    if not isinstance(agent, BestOf | ChatAgent):
        raise UsageError(f"the agent {plan.player.agent.name} asks no model: candidates are a chat model's replies")
    ours = label_rules(plan.spec)
    rules = label_rules(plan.spec, [rule] if rule else [])
    config: Config = {
        "command": "critic collect",
        "top_k": plan.truncation.top_k if plan.truncation else None,
        "top_p": plan.truncation.top_p if plan.truncation else None,
        "states": drawing.states,
        "round": number,
        **({"rule": rule} if rules != ours else {}),
    }
    (interface,) = plan.variants.values()
    with experiment.begin(config, warn=False).folder:
        led = _led(plan, drawing, agent)
        played = experiment.play(PART, interface, plan.episodes, title="episodes", agent=led)
        labelled = label_all(
            lambda: plan.spec.make(plan.split, interface=interface, data_root=plan.data_root),
            played,
            path,
            rules=rules,
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
            at_endpoints=experiment.spending.by_role if spending is None else None,
        )


def _led(plan: EvaluationPlan, drawing: CandidateSettings, agent: BestOf | ChatAgent) -> Agent:
    """Return the agent itself, or the agent behind an expert leader."""
    if drawing.states not in OWN:
        return agent
    expert = build_agent(EXPERT, AgentSetting(plan.spec, plan.split, plan.data_root, plan.seed))
    return LedAgent(agent, expert, own=OWN[drawing.states])
