"""`EvaluationPlan`: an evaluation with all names resolved and all options checked.

`plan_evaluation` resolves the options of `EvaluationConfig`; the other verbs that play build their plans themselves.
Not here: playing (`playing.py`, `refinement.py`).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated

from pydantic import Field

from align_echo.agents import options
from align_echo.agents.conversation import WHOLE_HISTORY, ChatAgent, HistoryBounds
from align_echo.agents.options import ModelConfig, PayingConfig
from align_echo.agents.players import (
    AgentChoice,
    build_agent,
    chat_model,
    choose_agent,
    choose_preset,
    choose_turns,
    default_model,
    describe_agent,
    model_on_record,
    refuse_idle_model,
    refuse_tools,
    require_expert,
)
from align_echo.agents.presets import AgentPreset
from align_echo.agents.spec import AgentSetting
from align_echo.critic.ask import Critic, SamplingSettings, read_calibration, read_sampling
from align_echo.critic.best_of import CRITIC, RULES, BestOf, SelectionRule
from align_echo.critic.language import ECHO, FORMS, CritiqueForm
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import BASELINE, PLACEBO, build_variants
from align_echo.evaluate.folder import Config
from align_echo.interface.contract import Interface
from align_echo.models.choosing import ModelName, read_name, refuse_idle_base_url
from align_echo.models.reply_tokens import JUDGED, PLAYING, find_reply_tokens, read_reply_tokens, with_reply_tokens
from align_echo.models.spending import NO_LIMITS, Spending, SpendingLimits, check_limits
from align_echo.rollout.session import Episode
from align_echo.run_dir import interface_fingerprints
from align_echo.types import Agent, ChatModel
from align_echo.version import __version__
from align_echo.workers.ray_cluster import ONE_THREAD, Workers, choose_workers, read_workers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

# ---------------------------------------------------------------- pick some tasks of a split


def pick_tasks(
    task_ids: Sequence[str], count: int | None, *, task_type: Callable[[str], str], seed: int = 0
) -> list[str]:
    """Pick `count` tasks (None: all), in the order of `task_ids`; each type gets its share, to within one.

    Raises `UsageError` if there are fewer than `count`.
    """
    if count is None:
        return list(task_ids)
    return pick_round_tasks(task_ids, count, 1, task_type=task_type, seed=seed)


def pick_round_tasks(
    task_ids: Sequence[str], count: int, number: int, *, task_type: Callable[[str], str], seed: int = 0
) -> list[str]:
    """Pick tasks for a round (from 1) as `pick_tasks` does, without repeats of earlier rounds while there are new
    tasks.

    Raises `UsageError` if there are fewer than `count`.
    """
    if not 1 <= count <= len(task_ids):
        raise UsageError(f"the split has {len(task_ids)} tasks: ask for 1 to {len(task_ids)}, not {count}")
    rng = random.Random(seed)
    groups: dict[str, list[str]] = {}
    for task in task_ids:
        groups.setdefault(task_type(task), []).append(task)
    shuffled = [rng.sample(group, len(group)) for _, group in sorted(groups.items())]
    spread = [task for task in chain.from_iterable(zip_longest(*shuffled)) if task is not None]
    picked = {spread[index % len(spread)] for index in range((number - 1) * count, number * count)}
    return [task for task in task_ids if task in picked]


# ---------------------------------------------------------------- `EvaluationPlan`

SELF = "self"
"""Name of the agent's own model in options for models."""

NO_CRITIC = "none"


@dataclass(frozen=True)
class RefinementPlan:
    """Settings of refinement rounds. `critic` names a model; None for fresh attempts without a critic."""

    rounds: int
    critic: ModelName | None
    form: CritiqueForm


@dataclass(frozen=True)
class SamplingLimits:
    """Sampling restrictions of a local model: the `top_k` likeliest tokens (0: all), and the nucleus of mass `top_p`.
    """

    top_k: int
    top_p: float


@dataclass(frozen=True)
class EvaluationPlan:
    """An evaluation with all settings checked.

    `interface` is the display name of the variants' interface; `critic` names the critic of candidates, None for
    the agent's own, or without judging. `engine` and `turns` are the requested values; `spec` already includes them.
    """

    spec: EnvironmentSpec
    split: str
    task_ids: list[str]
    interface: str
    variants: dict[str, Interface | None]
    player: AgentChoice
    seed: int = 0
    workers: Workers = ONE_THREAD
    data_root: Path | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    judge_tokens: int | None = None
    history: HistoryBounds = WHOLE_HISTORY
    tools: bool = False
    limits: SpendingLimits = NO_LIMITS
    preset: AgentPreset | None = None
    engine: str | None = None
    turns: int | None = None
    samples: int = 1
    best_of: int = 1
    critic: ModelName | None = None
    pick: SelectionRule = CRITIC
    reasoning: bool = False
    abstain_below: float = 0.0
    truncation: SamplingLimits | None = None
    refining: RefinementPlan | None = None

    @property
    def models(self) -> list[ModelName]:
        """Return the names of all models in use, the agent's first."""
        refining_critic = self.refining.critic if self.refining else None
        return list(dict.fromkeys(filter(None, (self.player.model, self.critic, refining_critic))))

    @property
    def episodes(self) -> list[Episode]:
        """Return every episode of a variant, task by task."""
        return [Episode(task, sample) for task in self.task_ids for sample in range(self.samples)]

    @property
    def config(self) -> Config:
        """Return the content of `config.json`, without the agent's details and refinement rounds."""
        return {
            "command": "evaluate",
            "align_echo": __version__,
            "environment": self.spec.name,
            "split": self.split,
            "tasks": list(self.task_ids),
            "interfaces": {name: interface.label if interface else "none" for name, interface in self.variants.items()},
            "interface_contents": interface_fingerprints(self.variants),
            **({"interface_named": self.interface} if any(self.variants.values()) else {}),
            "agent": self.player.agent.name,
            **model_on_record(self.player.model),
            **({"agent_preset": self.preset.name} if self.preset else {}),
            **({"tools": True} if self.tools else {}),
            **({} if self.engine is None else {"engine": self.engine}),
            **({} if self.turns is None else {"turns": self.turns}),
            "episodes_per_task": self.samples,
            "seed": self.seed,
            **switches_on_record(self.variants.values()),
            **({"top_k": self.truncation.top_k, "top_p": self.truncation.top_p} if self.truncation else {}),
            "games": self.spec.games(self.data_root),
            "data_root": str(self.data_root.absolute()) if self.data_root else None,
            **({"declared": dict(self.spec.declared)} if self.spec.declared else {}),
        }


class EvaluationConfig(ModelConfig, PayingConfig):
    """Options of `align-echo evaluate`."""

    env: options.Env
    agent: options.Agent = None
    interface: options.InterfaceName = "none"
    rules: Annotated[bool, Field(description="InferRules on or off.")] = True
    feedback: Annotated[bool, Field(description="WrapStep on or off.")] = True
    retract: options.Retract = True
    compare: Annotated[
        bool, Field(description="All variants: no interface, placebo, rules only, feedback only, both.")
    ] = False
    placebo: options.Placebo = True
    halves: Annotated[bool, Field(description="With --compare, also rules only and feedback only.")] = True
    split: options.TestSplit = None
    tasks: options.TaskCount = None
    episodes_per_task: Annotated[
        int, Field(ge=1, description="Samples of each task; needs a temperature above 0.")
    ] = 1
    best_of: Annotated[
        int, Field(ge=1, description="Candidates a turn; the best by a critic's verdict is sent.")
    ] = 1
    judge: Annotated[
        str | None, Field(description="Critic of --best-of, named as for --model; default: the agent's own.")
    ] = None
    pick: Annotated[
        str,
        Field(
            description=f"Rule to choose among --best-of's candidates: {', '.join(RULES.entries())}, or module:NAME."
        ),
    ] = CRITIC.name
    reasoning: options.Reasoning = False
    abstain_below: Annotated[
        float, Field(ge=0, le=1, description="Take the first candidate if the critic is less sure of all.")
    ] = 0.0
    top_k: Annotated[
        int | None,
        Field(ge=0, description="Top-k sampling of a local model, 0 disables it; default: as --judge's data."),
    ] = None
    top_p: Annotated[
        float | None,
        Field(
            ge=0, le=1, description="Top-p sampling of a local model, 1 disables it; default: as in --judge's data."
        ),
    ] = None
    refine_rounds: Annotated[
        int | None, Field(ge=1, description="Rounds in which failed tasks are criticised and played again.")
    ] = None
    critic: Annotated[
        str | None,
        Field(description="For --refine-rounds: a model as for --model, self, or none for fresh attempts."),
    ] = None
    critic_form: Annotated[
        str | None,
        Field(description=f"The critic's prompt: {', '.join(FORMS.entries())}, or module:NAME. Default: echo."),
    ] = None
    model: options.Model = Field(default_factory=default_model)
    base_url: options.BaseUrl = None
    dtype: options.Dtype = None
    temperature: options.Temperature = None
    max_tokens: options.MaxTokens = None
    history_turns: options.HistoryTurns = None
    history_tokens: options.HistoryTokens = None
    tools: options.Tools = False
    agent_preset: options.Preset = None
    engine: Annotated[
        str | None, Field(description="Engine of the environment; default: its first one.")
    ] = None
    turns: options.Turns = None
    seed: options.Seed = 0
    workers: options.WorkerCount = None
    data_root: options.DataRoot = None


def plan_evaluation(config: EvaluationConfig) -> EvaluationPlan:
    """Resolve the names of an evaluation's options and check the options.

    Raises `UsageError` for unknown names and contradictory options, `InterfaceError` for an interface that cannot be
    loaded, `MissingDataError` for missing data of an environment.
    """
    spec = environment(config.env)
    split = spec.check_split(config.split or spec.test_split)
    model = agents_model(config.model, config.judge or config.critic, config.base_url)
    player = choose_agent(config.agent, model, (spec.name,), config.base_url, config.chat)
    if config.dtype:
        player = player.in_precision(config.dtype)
    refuse_idle_model(player, config.model)
    preset = choose_preset(config.agent_preset, (player,))
    turns = choose_turns(config.turns, preset, spec)
    spec = spec.with_settings(engine=config.engine, turns=turns)
    refining = choose_refining(config, player)
    rule = RULES.get(config.pick)
    critic = choose_critic(config, player, rule)
    writes = config.reasoning or (refining is not None and refining.critic is not None)
    judge = None if writes or config.best_of == 1 or not rule.needs_judge else critic or player.model
    thinks = judge is not None and not judge.is_local
    tokens = read_reply_tokens(config.max_tokens, JUDGED if writes or thinks else PLAYING)
    if judge is not None and "judge" in tokens:
        critic = with_reply_tokens(judge, "judge", tokens)
    variants = choose_variants(config, spec.interface(config.interface, retract=config.retract))
    if not config.retract and not any(variants.values()):
        raise UsageError("--no-retract lets an interface withhold no hint: add --interface NAME or PATH")
    plan = EvaluationPlan(
        spec=spec,
        split=split,
        task_ids=pick_tasks(
            spec.tasks(split, config.data_root), config.tasks, task_type=spec.task_type, seed=config.seed
        ),
        interface=config.interface,
        variants=variants,
        player=player,
        seed=config.seed,
        workers=choose_workers(read_workers(config.workers), player),
        data_root=config.data_root,
        temperature=config.temperature,
        max_tokens=find_reply_tokens(tokens, "agent", player.model),
        judge_tokens=find_reply_tokens(tokens, "judge", refining.critic if refining else critic or player.model),
        history=HistoryBounds(config.history_turns, config.history_tokens),
        limits=config.spending_limits,
        tools=config.tools,
        preset=preset,
        engine=config.engine,
        turns=turns,
        samples=config.episodes_per_task,
        best_of=config.best_of,
        critic=critic,
        pick=rule,
        reasoning=config.reasoning,
        abstain_below=config.abstain_below,
        truncation=choose_truncation(player, critic, config.top_k, config.top_p),
        refining=refining,
    )
    refuse_idle_base_url(config.base_url, plan.models)
    if config.tools:
        refuse_tools(player)
    check_limits(plan.limits, plan.models)
    return plan


def switches_on_record(interfaces: Iterable[Interface | None]) -> dict[str, bool]:
    """Return the `config.json` entries of non-default interface switches."""
    return {"retract": False} if any(interface and not interface.retract for interface in interfaces) else {}


def choose_variants(config: EvaluationConfig, interface: Interface | None) -> dict[str, Interface | None]:
    """Choose the variants to play, by name. Raises `UsageError` for switches that leave nothing to play or to compare.
    """
    rules, feedback = config.rules, config.feedback
    if not config.placebo and not config.compare:
        raise UsageError("--no-placebo leaves a variant of --compare out: add --compare")
    if not config.halves and not config.compare:
        raise UsageError("--no-halves leaves variants of --compare out: add --compare")
    if config.compare and not (rules and feedback):
        raise UsageError("--compare plays every variant: leave out --no-rules and --no-feedback")
    if interface is None:
        if config.compare:
            raise UsageError("--compare needs an interface to compare with: add --interface NAME or PATH")
        if not (rules and feedback):
            raise UsageError("--no-rules and --no-feedback need an interface: add --interface NAME or PATH")
        return {BASELINE: None}
    if not rules and not feedback:
        raise UsageError("with --no-rules and --no-feedback nothing is left: say --interface none")
    variants = build_variants(interface)
    if config.compare:
        left_out = {PLACEBO: not config.placebo, "rules": not config.halves, "feedback": not config.halves}
        return {name: variant for name, variant in variants.items() if not left_out.get(name)}
    name = "full" if rules and feedback else "rules" if rules else "feedback"
    return {name: variants[name]}


def choose_refining(config: EvaluationConfig, player: AgentChoice) -> RefinementPlan | None:
    """Choose the refinement rounds; None for none. Raises `UsageError` for contradictory options."""
    rounds, critic, form = config.refine_rounds, config.critic, config.critic_form
    if rounds is None:
        if critic is not None or form is not None:
            raise UsageError("--critic and --critic-form are for rounds of refinement: add --refine-rounds K")
        return None
    if config.compare:
        raise UsageError("--refine-rounds plays one variant: leave --compare out")
    if critic is None:
        raise UsageError("--refine-rounds needs a critic: add --critic self, a model's NAME, or none")
    if critic == NO_CRITIC:
        if form is not None:
            raise UsageError("--critic none asks nobody: leave --critic-form out")
        return RefinementPlan(rounds, None, ECHO)
    chosen = model_named(critic, player, config.base_url)
    if chosen is None:
        raise UsageError(f"the agent {player.agent.name} has no model of its own: name one with --critic, or none")
    refuse_script("--critic", chosen)
    return RefinementPlan(rounds, chosen, FORMS.get(form) if form else ECHO)


def choose_critic(config: EvaluationConfig, player: AgentChoice, pick: SelectionRule) -> ModelName | None:
    """Choose the critic of candidates; None for the agent's own model, or without a critic.

    Raises `UsageError` for a critic without candidates, and for a script, which can only play.
    """
    judge, reasoning, abstain_below = config.judge, config.reasoning, config.abstain_below
    flags = {
        "--judge": judge is not None,
        "--pick": pick != CRITIC,
        "--reasoning": reasoning,
        "--abstain-below": abstain_below > 0,
    }
    option = next((option for option, is_set in flags.items() if is_set), None)
    if config.best_of == 1:
        if option is not None:
            raise UsageError(f"{option} needs candidates to choose from: add --best-of N")
        return None
    if pick.needs_logprobs and not (player.model and player.model.is_local):
        raise UsageError(f"--pick {pick.name} needs a local model, which tells how probable its replies are")
    if not pick.needs_judge:
        if judge is not None or abstain_below > 0 or reasoning:
            raise UsageError(f"--pick {pick.name} asks no critic: leave --judge, --reasoning and --abstain-below out")
        return None
    if pick.needs_logprobs and (reasoning or abstain_below > 0):
        raise UsageError(f"--pick {pick.name} goes by probabilities alone: leave --reasoning and --abstain-below out")
    if reasoning and abstain_below > 0:
        raise UsageError("--abstain-below needs probabilities, which --reasoning has none of: leave one of them out")
    chosen = model_named(judge or SELF, player, config.base_url)
    refuse_script("--judge", chosen)
    return None if chosen == player.model else chosen


def agents_model(model: str | None, judge: str | None, base_url: str | None) -> ModelName | None:
    """Resolve the name of an agent's model; None without one. A path is a folder of this machine beside a judge that is
    asked at the endpoint.
    """
    beside = judge is not None and judge != SELF and read_name(judge, base_url, served=False).kind == "endpoint"
    return read_name(model, base_url, served=not beside) if model else None


def model_named(text: str, player: AgentChoice, base_url: str | None) -> ModelName | None:
    """Resolve a user's model name; "self" is the agent's own model, None for an agent without one.

    A path is a folder of this machine beside an agent whose model is asked at the endpoint.
    """
    served = player.model is None or player.model.endpoint is None
    return player.model if text == SELF else read_name(text, base_url, served=served)


def choose_truncation(
    player: AgentChoice, critic: ModelName | None, top_k: int | None, top_p: float | None
) -> SamplingLimits | None:
    """Choose the sampling restrictions: the requested ones; else those of the critic's training data, if unique; else
    None.

    Raises `UsageError` for a model at an endpoint, and for an invalid share.
    """
    local = player.model is not None and player.model.is_local
    if top_k is not None or top_p is not None:
        if not local:
            raise UsageError("--top-k and --top-p are for local models: others draw as their endpoint is set up")
        if top_p is not None and not 0 < top_p <= 1:
            raise UsageError(f"--top-p is above 0 and at most 1 (off), not {top_p}")
        return SamplingLimits(top_k or 0, 1.0 if top_p is None else top_p)
    settings = {(drawn.top_k, drawn.top_p) for drawn in read_critic_sampling(critic)}
    (setting,) = settings if len(settings) == 1 else [(None, None)]
    return (
        SamplingLimits(setting[0], setting[1]) if local and setting[0] is not None and setting[1] is not None else None
    )


def read_critic_sampling(critic: ModelName | None) -> tuple[SamplingSettings, ...]:
    """Read the sampling settings of a critic's training data; empty if its folder does not record them."""
    return read_sampling(critic.folder) if critic and critic.folder else ()


def refuse_script(option: str, model: ModelName | None) -> None:
    """Raise `UsageError` for the model name of a scripted novice."""
    if model is not None and model.is_scripted:
        raise UsageError(f"the model {model.on_record} can only play: name another with {option}")


# ---------------------------------------------------------------- build agents and models

Models = Callable[[str, ModelName], ChatModel]
"""Maps a role ("agent", "judge", "critic") and a model's name to the model. Raises as `chat_model`."""


def model_loader(plan: EvaluationPlan, path: Path, spending: Spending) -> Models:
    """Return a loader of the plan's chat models, metered by `spending`. A model with several roles is loaded once.

    Replies of an endpoint are cached and logged in the run's folder, by role. Those of a local model cost nothing to
    repeat, and are complete in the trajectories and critiques.
    """
    from align_echo.models import CallLog, RecordingModel, ReplyCache

    cache, log = ReplyCache(path / "cache"), CallLog(path / "calls.jsonl")

    @functools.cache
    def load(name: ModelName) -> ChatModel:
        return chat_model(name, spec=plan.spec, seed=plan.seed, processes=plan.workers.model_processes)

    def model_of(role: str, name: ModelName) -> ChatModel:
        model = load(name)
        if name.is_local:
            return model
        return RecordingModel(model, role=role, cache=cache, log=log, meter=spending.meter(name))

    return model_of


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
        plan.history,
        plan.tools,
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


def _critic(plan: EvaluationPlan, models: Models, player: ChatAgent) -> Critic | None:
    """Build the critic of candidates; None for the agent's own model in one word, or without a critic."""
    if plan.reasoning:
        model = models("judge", plan.critic) if plan.critic else player.model
        return Critic(model, votes=1, max_tokens=plan.judge_tokens)
    return build_critic(models("judge", plan.critic), plan.critic) if plan.critic else None


def truncated(model: ChatModel, truncation: SamplingLimits) -> ChatModel:
    """Restrict the model to fewer tokens. Raises `UsageError` for a model at an endpoint."""
    from align_echo.models.local.chat import LocalModel

    if not isinstance(model, LocalModel):
        raise UsageError(f"--top-k and --top-p are for local models: {model.name} draws as its endpoint is set up")
    return replace(model, top_k=truncation.top_k, top_p=truncation.top_p)


def build_critic(model: ChatModel, name: ModelName) -> Critic:
    """Build a critic from a model, calibrated if its folder says so. Raises `UsageError` for a damaged calibration."""
    return Critic(model, read_calibration(name.folder).temperature if name.folder else 1.0)


def sampling_warnings(plan: EvaluationPlan, player: Agent) -> list[str]:
    """Return a warning if candidates are sampled differently from the critic's training data."""
    training_settings = read_critic_sampling(plan.critic)
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
