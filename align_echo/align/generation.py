"""Plan and run interface generation: check options, then build the agent, backend and models.

Not here: the loop (`loop.py`), the backends (`probe`, `llm`, `hybrid`) and the printed results.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from pydantic import Field

from align_echo.agents import options
from align_echo.agents.conversation import HistoryBounds
from align_echo.agents.options import ModelConfig, PayingConfig
from align_echo.agents.players import (
    AgentChoice,
    about,
    build_agent,
    chat_model,
    choose_agent,
    choose_preset,
    choose_turns,
    default_model,
    describe_agent,
    refuse_idle_model,
    require_expert,
)
from align_echo.agents.presets import AgentPreset
from align_echo.agents.spec import NO_STEP_LIMIT, AgentSetting
from align_echo.align.budget import WRITING_SHARE, Budget, BudgetLimits, RoleMeter
from align_echo.align.hybrid.backend import HybridBackend
from align_echo.align.llm.backend import LlmBackend
from align_echo.align.llm.replies import LEAST_WRITING, LlmSettings
from align_echo.align.loop import ITERATIONS, Backend, GenerationResult, TrainingSplit, generate
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.cases import count_walks
from align_echo.align.probe.effects.learner import count_steps
from align_echo.align.probe.effects.trials import WALK
from align_echo.align.run_folder import Event, OnEvent, RunFolder
from align_echo.align.showing import describe_actions
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import EngineError, UsageError
from align_echo.models.choosing import ModelName, read_name
from align_echo.models.endpoint import ReplyTokens, Role
from align_echo.models.reply_tokens import PLAYING, ROLES, find_reply_tokens, read_reply_tokens
from align_echo.models.spending import Spending, check_limits, is_paid, open_spending
from align_echo.registry import quantity
from align_echo.rollout.session import base_env, try_reset
from align_echo.types import Agent, ChatModel, Frozen
from align_echo.workers.ray_cluster import RayWorkers, Workers, choose_workers, read_workers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.copies import draw_action
from align_echo.wrappers.plain import PlainEnv
from align_echo.wrappers.text_env import TextEnv

MOST_PLAYED = 20
"""Default limit on tasks played after generation."""

BackendName = Literal["auto", "probe", "llm", "hybrid"]
Chosen = Literal["probe", "llm", "hybrid"]


@dataclass(frozen=True)
class GenerationPlan:
    """Checked inputs of a generation run.

    `chosen` is the resolved backend. `analyzer` and `optimizer` name models; None for the probe. `fresh` holds the
    training tasks for testing rules. `verify=False` skips the llm backend's experiments (the paper's ablation).
    `play_count` is the number of tasks played afterwards to measure the interface (`evaluate/in_play.py`); 0 for none.
    """

    config: GenerationConfig
    world: TrainingSplit
    player: AgentChoice
    chosen: Chosen
    analyzer: ModelName | None
    optimizer: ModelName | None
    fresh: list[str]
    preset: AgentPreset | None
    workers: Workers
    verify: bool
    play_count: int
    limits: BudgetLimits

    @property
    def models(self) -> list[ModelName]:
        """Return the names of all models in use, the agent's first."""
        return list(dict.fromkeys(filter(None, (self.player.model, self.analyzer, self.optimizer))))

    @property
    def about_unchecked(self) -> str:
        """Return a line about models at endpoints, which a plan does not ask; "" without any."""
        names = [str(name) for name in self.models if is_paid(name)]
        return f"not checked: whether {', '.join(names)} can be reached and takes the key" if names else ""

    @property
    def history(self) -> HistoryBounds:
        """Return the bounds of the history that the agent's model sees."""
        return HistoryBounds(self.config.history_turns, self.config.history_tokens)

    def reply_tokens(self, role: Role) -> int | None:
        """Return the most tokens of a reply in a role; None for its default, and for a role without a model."""
        name = {"agent": self.player.model, "analyzer": self.analyzer, "optimizer": self.optimizer}.get(role)
        return find_reply_tokens(read_reply_tokens(self.config.max_tokens, ROLES), role, name) if name else None

    @property
    def about_tasks(self) -> str:
        """Return a note if an iteration has fewer tasks than requested, else ""."""
        asked = self.config.tasks_per_iteration
        if asked is None or (tasks := len(self.world.tasks(1, self.config.seed, asked))) >= asked:
            return ""
        return (
            f"{quantity(asked, 'task')} an iteration were asked for, and {tasks} are played: "
            f"{self.world.spec.name} has no more for an iteration"
        )

    @property
    def about_play(self) -> str:
        """Return a note on the cost of the final play; "" for none."""
        if not self.play_count:
            return ""
        asks = ", each of which asks the model" if self.player.model and not self.player.model.is_scripted else ""
        episodes = f"3 x {self.play_count} episodes of at most {self.world.spec.step_limit} turns{asks}"
        return f"a new interface is played at the end: {episodes} (--play-tasks N for others, 0 for none)"

    @property
    def about_backend(self) -> str:
        """Return a line that names the backend, the reason and the models."""
        if self.chosen != "probe":
            why = " (auto: a model is configured)" if self.config.backend == "auto" else ""
            return f"backend: {self.chosen}{why}, analyzer {self.analyzer}, optimizer {self.optimizer}"
        why = "auto: no language model is configured; " if self.config.backend == "auto" else ""
        return f"backend: probe ({why}no language model is asked)"


class GenerationConfig(ModelConfig, PayingConfig):
    """Options of `align-echo generate-interface`."""

    env: options.Env
    backend: Annotated[BackendName, Field(description="auto: hybrid if a model can write, else probe.")] = "auto"
    model: options.Model = Field(default_factory=default_model)
    analyzer_model: Annotated[str | None, Field(description="Default: --model.")] = None
    optimizer_model: Annotated[str | None, Field(description="Default: --model.")] = None
    base_url: options.BaseUrl = None
    max_tokens: options.MaxTokens = None
    turns: options.Turns = None
    history_turns: options.HistoryTurns = None
    history_tokens: options.HistoryTokens = None
    agent: options.Agent = None
    agent_preset: options.Preset = None
    iterations: Annotated[int, Field(ge=1, description="Most iterations.")] = ITERATIONS
    tasks_per_iteration: Annotated[
        int | None, Field(ge=1, description="Default: the paper's number; at most the environment's number.")
    ] = None
    play_tasks: Annotated[
        int | None,
        Field(ge=0, description="Tasks at the end: without it, with its placebo, with it; 0: none."),
    ] = None
    allow_untested: Annotated[bool, Field(description="Keep rules hybrid cannot test.")] = False
    max_engine_steps: Annotated[int | None, Field(ge=1, description="Most engine steps.")] = None
    max_seconds: Annotated[float | None, Field(gt=0, description="Most seconds.")] = None
    seed: options.Seed = 0
    workers: options.WorkerCount = None
    data_root: options.DataRoot = None


def plan_generation(
    config: GenerationConfig, *, player: AgentChoice | None = None, verify: bool = True
) -> GenerationPlan:
    """Resolve the names of a generation's options and check the options. `verify` is as in `GenerationPlan`.

    `player` is the agent with its model if they are resolved already: the options for them are not read then.

    Raises `UsageError` for unknown names and conflicting options, and `MissingDataError` if the environment's data are
    missing.
    """
    spec = environment(config.env)
    default, analyzer, optimizer = (
        read_name(name, config.base_url) if name else None
        for name in (None if player else config.model, config.analyzer_model, config.optimizer_model)
    )
    if config.chat.options and not player:
        if default is None:
            raise UsageError(f"{config.chat.options}: of which model? add --model NAME")
        default = read_name(default, chat=config.chat)
    default = player.model if player else default
    chosen = choose_backend(config.backend, default, analyzer, optimizer)
    player = player or choose_agent(config.agent, default, (spec.name,))
    preset = choose_preset(config.agent_preset, (player,))
    spec = spec.with_settings(turns=choose_turns(config.turns, preset, spec))
    asks = chosen != "probe"
    analyzer, optimizer = (analyzer or default, optimizer or default) if asks else (None, None)
    names = [name for name in (player.model, analyzer, optimizer) if name]
    if config.base_url and not any(name.endpoint for name in names):
        raise UsageError("no model of this run is asked at an endpoint: leave --base-url out")
    if asks:
        refuse_unfit_writers(analyzer, optimizer, chosen)
    else:
        refuse_idle_model(player, config.model)
        if not spec.lists_actions:
            raise UsageError(f"{spec.name} lists no actions, which the probe needs to know: use --backend llm")
    if config.max_tokens and not names:
        raise UsageError("this run asks no model: leave --max-tokens out")
    writers: dict[Role, ModelName | None] = {"analyzer": analyzer, "optimizer": optimizer}
    _refuse_few_tokens(read_reply_tokens(config.max_tokens, ("agent", *writers) if asks else PLAYING), writers)
    if config.max_tokens_total and not names:
        raise UsageError("this run asks no model: leave --max-tokens-total out")
    check_limits(config.spending_limits.model_copy(update={"tokens": None}), names)
    if not verify and chosen != "llm":
        raise UsageError("the probe is nothing but experiments: only the llm backend can leave them out")
    if config.allow_untested and chosen != "hybrid":
        raise UsageError("only the hybrid backend has untested hypotheses: leave --allow-untested out")
    world = TrainingSplit(spec, config.data_root)
    seed, iterations, count = config.seed, config.iterations, config.tasks_per_iteration
    if player.agent.needs_expert:
        rounds = [world.tasks(number, seed, count) for number in range(1, iterations + 1)]
        require_expert(spec, world.split, list(dict.fromkeys(chain(*rounds))), config.data_root)
    return GenerationPlan(
        config=config,
        world=world,
        player=player,
        chosen=chosen,
        analyzer=analyzer,
        optimizer=optimizer,
        fresh=fresh_tasks(world, iterations, seed),
        preset=preset,
        workers=choose_workers(read_workers(config.workers), player),
        verify=verify,
        play_count=_play_count(world, config.play_tasks, seed, count),
        limits=BudgetLimits(
            engine_steps=config.max_engine_steps,
            seconds=config.max_seconds,
            **config.spending_limits.model_dump(),
        ),
    )


def _refuse_few_tokens(tokens: ReplyTokens, writers: Mapping[Role, ModelName | None]) -> None:
    """Raise `UsageError` for a limit below which nothing can be written."""
    for role, name in writers.items():
        if name and (found := find_reply_tokens(tokens, role, name)) and found < LEAST_WRITING:
            raise UsageError(
                f"--max-tokens: the {role} needs {LEAST_WRITING} at least, not {found}; a smaller limit for the agent "
                f"alone is agent={found}"
            )


def _play_count(world: TrainingSplit, asked: int | None, seed: int, limit: int | None) -> int:
    """Return the number of tasks to play at the end.

    By default this is an iteration's number of tasks, at most `MOST_PLAYED`.
    """
    every = len(world.spec.tasks(world.split, world.data_root))
    if asked is None:
        return min(len(world.tasks(1, seed, limit)), MOST_PLAYED, every)
    if not 0 <= asked <= every:
        raise UsageError(f"--play-tasks {asked}: the split {world.split} has {every} tasks, and 0 plays none")
    return asked


def generate_interface(
    plan: GenerationPlan,
    path: Path,
    *,
    resume: bool = False,
    progress: Progress = SILENT,
    spending: Spending | None = None,
) -> GenerationResult:
    """Find misalignments in failed episodes, write rules for them, and save the interface to a folder.

    `spending` is that of a larger run, of which this is a part.

    Raises `UsageError` if the folder holds something else, before writing anything; `AgentError`, `EngineError` or
    `ModelError` for persistent failures.
    """
    folder = RunFolder(path)
    folder.check(resume=resume)
    world = plan.world
    forecast, limits = price_experiments(plan)
    spending = spending or open_spending(limits.of_endpoints, plan.models, path)
    progress.watch(spending)
    budget = Budget(limits, before=folder.spent(limits) if resume else None, spending=spending)
    models = _model_loader(folder, plan, budget)
    setting = AgentSetting(
        world.spec,
        world.split,
        world.data_root,
        plan.config.seed,
        models("agent", plan.player.model),
        max_tokens=plan.reply_tokens("agent"),
        preset=plan.preset,
        history=plan.history,
    )
    agent = build_agent(plan.player.agent, setting)
    about_agent = about(plan.player, describe_agent(agent))
    made_of = filter(None, (plan.about_backend, about_agent, plan.about_tasks, plan.about_play))
    try_reset(world.spec, plan.fresh[0], split=world.split, data_root=world.data_root)
    return generate(
        world.spec,
        agent,
        _backend(plan, agent, models, folder, progress, budget),
        folder,
        seed=plan.config.seed,
        iterations=plan.config.iterations,
        tasks_per_iteration=plan.config.tasks_per_iteration,
        data_root=world.data_root,
        player=plan.player.agent.name,
        workers=plan.workers,
        resume=resume,
        on_event=_report_progress(progress, [*made_of, *forecast]),
        budget=budget,
    )


def price_experiments(plan: GenerationPlan, *, always: bool = False) -> tuple[list[str], BudgetLimits]:
    """Measure the price of the probe's experiments; return lines about it and the run's limits.

    Without `always`, nothing is said where states need no replays and the limits suffice. Raises as
    `generate_interface`.
    """
    if plan.chosen == "llm":
        return [], plan.limits
    tasks = plan.world.tasks(1, plan.config.seed, plan.config.tasks_per_iteration)
    price = measure_price(plan.world, len(tasks), len(plan.fresh), plan.config.iterations)
    limits = price.limits(plan.limits)
    lines = [price.in_words] if always or price.replays or price.about_limits(plan.limits) else []
    return [line for line in (*lines, price.about_limits(plan.limits)) if line], limits


def fresh_tasks(world: TrainingSplit, iterations: int, seed: int) -> list[str]:
    """Draw training tasks for testing rules from three draws outside iterations 1 to `iterations`."""
    draws = (0, iterations + 1, iterations + 2)
    return list(dict.fromkeys(task_id for draw in draws for task_id in world.tasks(draw, seed)))


def choose_backend(
    asked: BackendName, model: ModelName | None, analyzer: ModelName | None, optimizer: ModelName | None
) -> Chosen:
    """Resolve `auto`: hybrid if a model is named for a role or for all roles, else probe.

    Other names are returned unchanged. Raises `UsageError` for a role's model with the probe, which uses none.
    """
    named = [name for name in (analyzer, optimizer) if name]
    if asked == "probe" and named:
        raise UsageError("the probe asks no model: leave --analyzer-model and --optimizer-model out")
    if asked != "auto":
        return asked
    return "hybrid" if named or (model and not model.only_plays) else "probe"


def refuse_unfit_writers(analyzer: ModelName | None, optimizer: ModelName | None, chosen: Chosen) -> None:
    """Raise `UsageError` if a role of the chosen backend lacks a model or has one that can only play."""
    if not (analyzer and optimizer):
        lacking = "--optimizer-model" if analyzer else "--analyzer-model" if optimizer else "--model"
        both = "" if lacking == "--model" else " (or --model NAME for both)"
        raise UsageError(f"the {chosen} backend needs a chat model: add {lacking} NAME{both} or set ALIGN_ECHO_MODEL")
    for name in (analyzer, optimizer):
        if name.only_plays:
            raise UsageError(
                f"the model {name.on_record} can only play: add --analyzer-model and --optimizer-model, "
                "or --backend probe"
            )


Models = Callable[[str, ModelName | None], ChatModel | None]
"""Maps a role and a model's name to the model, whose replies are recorded in the run folder; None to None."""


def _model_loader(folder: RunFolder, plan: GenerationPlan, budget: Budget) -> Models:
    """Return a loader of the run's models. A model with several roles is loaded once."""
    analysis = 1 - WRITING_SHARE if plan.chosen == "llm" else 1.0
    shares = {"agent": None, "analyzer": analysis, "optimizer": 1.0}

    @cache
    def load(name: ModelName) -> ChatModel:
        processes = plan.workers.model_processes
        return chat_model(name, spec=plan.world.spec, seed=plan.config.seed, processes=processes)

    def model(role: str, name: ModelName | None) -> ChatModel | None:
        if name is None:
            return None
        return folder.record(load(name), role, RoleMeter(budget, shares[role], budget.meter(name)))

    return model


def _backend(
    plan: GenerationPlan, agent: Agent, models: Models, folder: RunFolder, progress: Progress, budget: Budget
) -> Backend:
    analyzer, optimizer = models("analyzer", plan.analyzer), models("optimizer", plan.optimizer)
    world = plan.world
    if analyzer is None or optimizer is None:
        return _probe(plan, progress, budget, folder.note)
    analysis_tokens = plan.reply_tokens("analyzer") or LlmSettings().max_tokens
    writing_tokens = plan.reply_tokens("optimizer") or LlmSettings().max_tokens
    settings = LlmSettings(
        verify=plan.verify,
        max_tokens=analysis_tokens,
        optimizer_max_tokens=None if writing_tokens == analysis_tokens else writing_tokens,
    )
    if plan.chosen == "hybrid":
        return HybridBackend(
            _probe(plan, progress, budget, folder.note),
            plan.fresh,
            analyzer_model=analyzer,
            optimizer_model=optimizer,
            action_format=describe_actions(world.spec),
            settings=settings,
            is_invalid=world.spec.is_invalid,
            allow_untested=plan.config.allow_untested,
            seed=plan.config.seed,
            note=folder.note,
            on_progress=progress.status,
            save=folder.save_unfinished,
        )
    return LlmBackend(
        world,
        agent,
        analyzer_model=analyzer,
        optimizer_model=optimizer,
        settings=settings,
        seed=plan.config.seed,
        budget=budget,
        note=folder.note,
    )


def _probe(
    plan: GenerationPlan, progress: Progress, budget: Budget, note: Callable[[str], None] | None = None
) -> ProbeBackend:
    world = plan.world
    return ProbeBackend(
        lambda: world.spec.make_env(split=world.split, data_root=world.data_root, step_limit=NO_STEP_LIMIT),
        plan.fresh,
        seed=plan.config.seed,
        on_progress=progress.status,
        note=note,
        processes=1 if isinstance(plan.workers, RayWorkers) else plan.workers.count,
        budget=budget,
        action_format=world.spec.action_format,
        tools=world.spec.tools,
    )


def _report_progress(progress: Progress, made_of: Sequence[str]) -> OnEvent:
    """Report loop events as progress; print the run's description when it starts."""

    def show(event: Event) -> None:
        if event.kind == "run-started":
            for line in made_of:
                progress.say(line)
        elif event.kind == "iteration-started":
            progress.stage(f"iteration {event.iteration}", event.total, event.done)
        elif event.kind == "trajectory":
            progress.episode(event.won)
            if event.fault is not None:
                progress.broke(event.task_id, event.fault)
        elif event.kind != "run-finished":
            progress.say(event.message)

    return show


PRICED_TASKS = 2
PRICED_TURNS = WALK
RETURNS = (0.5, 1.0, 0.75, 0.25)
"""Tasks, turns of an episode as long as the walks of trials, and parts of it that are returned to for the price."""

STEPS_PER_WALK = (250, 7_000)
"""Engine steps for a walk and the trials along it: in small worlds, and in ALFWorld."""

LEARNING_SECONDS = (0.0001, 0.0005)
"""Least and most work of the probe itself for an engine step, by the length of pages."""

RESTORED_SECONDS = 0.001
"""A return to a state by a declared `restore`, for comparison."""

USUAL_SECONDS = 600.0
"""Limit of an environment from outside that may take longer, if none is given."""


class ExperimentPrice(Frozen):
    """Seconds of a step and of a return to a state, the way of returning, and the least and most engine steps expected.

    `plain`: the environment is a `gymnasium.Env` from outside.
    """

    step: float
    fork: float
    way: str
    replays: bool
    plain: bool
    least: int
    most: int

    @property
    def seconds(self) -> tuple[float, float]:
        """Least and most seconds expected."""
        low, high = (self.step + self.fork + own for own in LEARNING_SECONDS)
        return self.least * low, self.most * high

    @property
    def in_words(self) -> str:
        """Return the price in a line, and what `save` and `restore` make of it if they halve it."""
        least, most = self.seconds
        steps = f"{self.least:,} to {self.most:,} engine steps"
        line = f"experiments: {steps}, {_minutes(least)} to {_minutes(most)}; states are returned to {self.way}"
        if not self.replays:
            return line
        restored = self.most * (self.step + RESTORED_SECONDS + LEARNING_SECONDS[1])
        if restored > most / 2:
            return line
        return f"{line}: declare save and restore to make it at most {_minutes(restored)}"

    def limits(self, asked: BudgetLimits) -> BudgetLimits:
        """Return the limits asked for, or `USUAL_SECONDS` where an environment from outside may take longer."""
        timed = asked.seconds is not None or asked.engine_steps is not None
        if self.plain and not timed and self.seconds[1] > USUAL_SECONDS:
            return asked.model_copy(update={"seconds": USUAL_SECONDS})
        return asked

    def about_limits(self, asked: BudgetLimits) -> str:
        """Return a note if the most steps or seconds expected exceed their limit, "" otherwise."""
        limits, beyond = self.limits(asked), []
        if limits.engine_steps is not None and self.most > limits.engine_steps:
            beyond.append(f"{quantity(limits.engine_steps, 'engine step')} (--max-engine-steps)")
        if limits.seconds is not None and self.seconds[1] > limits.seconds:
            beyond.append(f"{limits.seconds:.0f} seconds (--max-seconds)")
        if not beyond:
            return ""
        return (
            f"that may be more than the budget of {' and '.join(beyond)}: "
            "walks are shorter and tasks fewer, as the first walk shows"
        )


def measure_price(world: TrainingSplit, tasks: int, fresh: int, iterations: int) -> ExperimentPrice:
    """Play two tasks and return to a state in each. `tasks` and `fresh` count the tasks of the experiments."""
    steps: list[float] = []
    forks: list[float] = []
    env = base_env(world.spec.make_env(split=world.split, data_root=world.data_root, step_limit=NO_STEP_LIMIT))
    try:
        for task_id in world.spec.tasks(world.split, world.data_root)[:PRICED_TASKS]:
            _measure_in(env, task_id, world.spec.action_format, steps, forks)
        way, replays, plain = env.fork_way, env.replays, isinstance(env, PlainEnv)
        lists = plain and env.state.admissible_actions is not None
    finally:
        env.close()
    walks = count_walks(tasks, fresh)
    least, most = (each * walks for each in STEPS_PER_WALK)
    if plain:
        turns = world.spec.turns or world.spec.step_limit
        least, most = count_steps(iterations, tasks * turns, lists=lists)
    step, fork = median(steps or [0.0]), median(forks or [0.0])
    return ExperimentPrice(step=step, fork=fork, way=way, replays=replays, plain=plain, least=least, most=most)


def _measure_in(env: TextEnv, task_id: str, action_format: str, steps: list[float], forks: list[float]) -> None:
    rng = random.Random(task_id)
    env.reset(seed=0, options={"task": task_id})
    moments = [env.snapshot()]
    while not env.over and len(moments) <= PRICED_TURNS:
        action = draw_action(rng, env.state.admissible_actions, action_format, env.state.observation)
        start = time.perf_counter()
        env.step(action)
        steps.append(time.perf_counter() - start)
        moments.append(env.snapshot())
    try:
        for count, share in enumerate((*RETURNS, *RETURNS)):
            start = time.perf_counter()
            env.restore(moments[round(share * (len(moments) - 1))])
            if count >= len(RETURNS):  # the first ones may try copies
                forks.append(time.perf_counter() - start)
    except EngineError:
        return  # it does not repeat itself: the probe says so


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
