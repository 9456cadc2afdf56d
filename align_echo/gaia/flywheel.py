"""The flywheel: collect, train, evaluate, and again under the new critic (GAIA, paper 3, section 3.3).

    config.json                   the settings; a resumed flywheel must have the same
    held-out/                     a collection on the test split, never used for training
    round-<r>/collection/         of the training split; from round 2 on, guided by the critic before
    round-<r>/critic/             trained on the collections of all rounds so far, from the start or the critic before
    round-<r>/trial/              that critic on the held-out collection
    summary.json                  `FlywheelSummary`, written last

A part with its own summary.json is finished and reused. Not here: the parts (`collect.py`, `fit`, `trial.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from align_echo.agents import options
from align_echo.agents.options import ModelConfig, PayingConfig
from align_echo.agents.players import AgentChoice, choose_agent, default_model
from align_echo.base.files import read_bytes
from align_echo.base.plain_yaml import first_wrong, json_object
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.labels import label_rules
from align_echo.errors import UsageError
from align_echo.evaluate.folder import EvaluationDir
from align_echo.evaluate.plan import pick_round_tasks
from align_echo.gaia.collect import (
    ActionSource,
    CandidateSettings,
    CollectedTasks,
    CollectionPlan,
    CollectionSummary,
    ModelTemperature,
    TopK,
    TopP,
    build_collection,
    collect,
)
from align_echo.gaia.examples import check_share
from align_echo.gaia.fit.folder import CRITIC, Epochs, LearningRate, SettingsFile, WeightsName
from align_echo.gaia.fit.intuitive import TrainingSummary, check_learner, fit, read_fit_settings
from align_echo.gaia.trial import (
    CEILING,
    LabelRuleName,
    PickNames,
    SelectionResult,
    TrialConfig,
    TrialResult,
    compared_rules,
    run_trial,
)
from align_echo.intervals import Percent
from align_echo.models.choosing import ModelName, read_name, refuse_idle_base_url
from align_echo.models.local import POCKET
from align_echo.models.reply_tokens import find_reply_tokens, read_reply_tokens
from align_echo.models.spending import NO_LIMITS, RoleSpending, Spending, SpendingLimits, check_limits, open_spending
from align_echo.train.needs import require_training
from align_echo.types import Frozen, Usage
from align_echo.version import __version__
from align_echo.workers.ray_cluster import Workers, read_workers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

if TYPE_CHECKING:
    from align_echo.gaia.fit.learning import FitSettings

COMMAND = "critic flywheel"
Summary = TypeVar("Summary", bound=Frozen)
Begin = Literal["start", "last"]
"""Initial weights of a later round's critic: those of the first round, or the critic of the round before."""

Watch = Callable[[CollectionSummary | TrainingSummary | TrialResult], None]

SEEDS_APART = 1000
"""Offset between the seeds of two rounds."""


def unwatched(part: CollectionSummary | TrainingSummary | TrialResult) -> None:
    """Do nothing: a `Watch` for callers who read the parts from their folders."""


@dataclass(frozen=True)
class FlywheelPlan:
    """A flywheel with all names resolved.

    `tasks` of `split` are played in every round with the candidates of `drawing`, and `test_tasks` of `test_split` once
    with `test_candidates`. Critics start from the model `critic` and train with `settings`; `picks` are rules of
    selection to compare beside those of the registry. The `states` of `drawing` apply to the first round and the tests;
    later rounds follow the critic.
    """

    spec: EnvironmentSpec
    player: AgentChoice
    settings: FitSettings
    critic: ModelName
    split: str
    test_split: str
    drawing: CandidateSettings
    test_candidates: int
    rounds: int = 2
    tasks: int = 100
    test_tasks: int = 50
    begin: Begin = "start"
    rule: str | None = None
    picks: tuple[str, ...] = ()
    share: float = 0.1
    seed: int = 0
    workers: Workers | None = None
    max_tokens: int | None = None
    turns: int | None = None
    limits: SpendingLimits = NO_LIMITS

    def on_record(self) -> dict[str, Any]:
        """Return the content of `config.json`."""
        return {
            "command": COMMAND,
            "align_echo": __version__,
            "env": self.spec.name,
            "agent": self.player.agent.name,
            "model": self.player.model and self.player.model.text,
            **(self.player.model.chat.on_record if self.player.model else {}),
            "critic": self.critic.text,
            "begin": self.begin,
            "rounds": self.rounds,
            "split": self.split,
            "tasks": self.tasks,
            "test_split": self.test_split,
            "test_tasks": self.test_tasks,
            "test_candidates": self.test_candidates,
            "rule": self.rule,
            "share": self.share,
            "seed": self.seed,
            **self.drawing.on_record(),
            "settings": self.settings.model_dump(mode="json"),
            **({"pick": list(self.picks)} if self.picks else {}),
            **({} if self.max_tokens is None else {"max_tokens": self.max_tokens}),
            **({} if self.turns is None else {"turns": self.turns}),
        }

    def check(self) -> None:
        """Raise `UsageError` for settings that allow no sampling or labelling, or for splits with common tasks."""
        check_disjoint(self.spec, self.split, self.test_split)
        self.drawing.critic_for(self.player)
        check_share(self.share)
        label_rules(self.spec, [self.rule] if self.rule else [])
        compared_rules(self.picks)

    def tasks_of(self, split: str, count: int, number: int) -> list[str]:
        """Choose a round's tasks, `count` of a split."""
        ids = self.spec.tasks(split)
        return pick_round_tasks(ids, count, number, task_type=self.spec.task_type, seed=self.seed)


class FlywheelConfig(ModelConfig, PayingConfig):
    """Options of `align-echo critic flywheel`."""

    env: options.Env
    agent: options.Agent = None
    model: options.Model = Field(default_factory=default_model)
    base_url: options.BaseUrl = None
    critic_model: Annotated[
        str, Field(description="Initial model of the critic: pocket or a model's folder.")
    ] = POCKET
    begin: Annotated[
        Begin,
        Field(description="Later rounds begin with: start (--critic-model) or last (critic before)."),
    ] = "start"
    rounds: Annotated[int, Field(ge=1, description="Number of rounds.")] = 2
    split: options.TrainSplit = None
    tasks: CollectedTasks = 100
    test_split: options.TestSplit = None
    test_tasks: Annotated[int, Field(ge=1, description="Tasks of the test split, played once.")] = 50
    test_candidates: Annotated[
        int | None, Field(ge=2, description="Candidates of the test; default: as --candidates.")
    ] = None
    candidates: Annotated[int, Field(ge=2, description="Replies drawn by the agent every turn.")] = 8
    temperature: ModelTemperature = 1.0
    max_tokens: options.MaxTokens = None
    turns: options.Turns = None
    top_k: TopK = None
    top_p: TopP = None
    states: ActionSource = "agent"
    rule: LabelRuleName = None
    pick: PickNames = ()
    weights: WeightsName = None
    lr: LearningRate = None
    epochs: Epochs = None
    config: SettingsFile = None
    held_out: Annotated[float, Field(description="Share of tasks for the calibration.")] = 0.1
    seed: options.Seed = 0
    workers: options.WorkerCount = None


def plan_flywheel(config: FlywheelConfig) -> FlywheelPlan:
    """Resolve the names of a flywheel's options. Raises `UsageError`, `MissingExtraError` without the extra train."""
    require_training()
    from align_echo.train.role_models import find_source

    spec = environment(config.env).with_settings(turns=config.turns)
    start = read_name(config.critic_model)
    player = choose_agent(config.agent, config.model, (spec.name,), config.base_url, config.chat)
    models = [player.model] if player.model else []
    refuse_idle_base_url(config.base_url, models)
    check_limits(config.spending_limits, models)
    changes = {"weights": config.weights, "lr": config.lr, "epochs": config.epochs, "seed": config.seed}
    return FlywheelPlan(
        spec=spec,
        player=player,
        settings=read_fit_settings(find_source(start), config.config, changes),
        critic=start,
        split=config.split or spec.train_split,
        test_split=config.test_split or spec.test_split,
        drawing=CandidateSettings(
            config.candidates, config.temperature, config.top_k, config.top_p, None, config.states
        ),
        test_candidates=config.test_candidates or config.candidates,
        rounds=config.rounds,
        tasks=config.tasks,
        test_tasks=config.test_tasks,
        begin=config.begin,
        rule=config.rule,
        picks=config.pick,
        share=config.held_out,
        seed=config.seed,
        workers=read_workers(config.workers),
        max_tokens=find_reply_tokens(read_reply_tokens(config.max_tokens), "agent", player.model),
        turns=config.turns,
        limits=config.spending_limits,
    )


class FlywheelRound(Frozen):
    """A round: its collection, its critic's training and evaluation on held-out tasks, and the share of states in which
    the critic's choice among all candidates is correct.
    """

    number: int
    collected: CollectionSummary
    fitted: TrainingSummary
    trial: TrialResult
    best: SelectionResult


class FlywheelSummary(Frozen):
    """All rounds, with the references on the held-out states: a single draw, and pass@N."""

    environment: str
    agent: str
    seed: int
    single: Percent
    ceiling: Percent
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)
    rounds: tuple[FlywheelRound, ...]

    @property
    def usage(self) -> Usage:
        """What the collections of all rounds spent."""
        return sum((each.collected.usage for each in self.rounds), Usage())


def run_flywheel(
    plan: FlywheelPlan,
    path: Path,
    *,
    resume: bool = False,
    progress: Progress = SILENT,
    watch: Watch = unwatched,
) -> FlywheelSummary:
    """Run all rounds of a flywheel. `watch` is called with each part when it is finished, or if it was finished before.

    Raises as the parts do, and `UsageError` for a folder of something else.
    """
    plan.check()
    tests = plan.tasks_of(plan.test_split, plan.test_tasks, 1)
    tasks_by_round = [plan.tasks_of(plan.split, plan.tasks, number) for number in range(1, plan.rounds + 1)]
    _plan(_test_plan(plan), plan.test_split, tests, plan.seed)
    _plan(plan, plan.split, tasks_by_round[0], plan.seed)
    stored_config = _as_stored(path, json.loads(json.dumps(plan.on_record())))
    run_dir = EvaluationDir(path, stored_config, resume=resume)
    run_dir.check()
    if not critic_folder(path, 1).is_dir():
        check_learner(plan.critic)
    models = [plan.player.model] if plan.player.model else []
    spending = open_spending(plan.limits, models, path)
    progress.watch(spending)
    with run_dir:
        watch(_collect(path / "held-out", _test_plan(plan), plan.test_split, tests, plan.seed, progress, spending))
        rounds: list[FlywheelRound] = []
        critic: ModelName | None = None
        for number, tasks in enumerate(tasks_by_round, start=1):
            progress.say(f"round {number} of {plan.rounds}")
            record, critic = _round(path, plan, number, tasks, critic, progress, watch, spending)
            rounds.append(record)
        last = rounds[-1].trial
        flywheel = FlywheelSummary(
            environment=plan.spec.name,
            agent=rounds[0].collected.agent,
            seed=plan.seed,
            single=_find_success(last, "critic", 1).success,
            ceiling=_find_success(last, CEILING, _most_candidates(last)).success,
            at_endpoints=spending.by_role,
            rounds=tuple(rounds),
        )
        run_dir.finish(flywheel)
    return flywheel


def critic_folder(path: Path, number: int) -> Path:
    """Return the folder of a round's critic."""
    return path / f"round-{number}" / "critic" / CRITIC


def check_disjoint(spec: EnvironmentSpec, split: str, test_split: str) -> None:
    """Raise `UsageError` for an unknown split, or for two splits with common tasks."""
    for name in (split, test_split):
        spec.check_split(name)
    shared = {*spec.tasks(split)} & {*spec.tasks(test_split)}
    if shared:
        raise UsageError(
            f"the splits {split} and {test_split} of {spec.name} share {len(shared)} tasks: test on another one"
        )


def _as_stored(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Adapt the settings to an older flywheel, which stored null for an unnamed agent and model."""
    stored = json_object(path / "config.json") or {}
    return config | {key: None for key in ("agent", "model") if key in stored and stored[key] is None}


def _round(
    path: Path,
    plan: FlywheelPlan,
    number: int,
    tasks: list[str],
    last_critic: ModelName | None,
    progress: Progress,
    watch: Watch,
    spending: Spending,
) -> tuple[FlywheelRound, ModelName]:
    """Run a round, guided by the critic of the round before, and return its record and new critic."""
    folder = path / f"round-{number}"
    guided = replace(plan.drawing, critic=last_critic, states="agent")
    round_plan = replace(plan, drawing=guided) if last_critic else plan
    seed = plan.seed + SEEDS_APART * number
    collected = _collect(
        folder / "collection", round_plan, plan.split, tasks, seed, progress, spending, number=number
    )
    watch(collected)
    start = last_critic if last_critic and plan.begin == "last" else plan.critic
    collections = [path / f"round-{earlier}" / "collection" for earlier in range(1, number + 1)]
    fitted = _fit(folder / "critic", plan, start, collections, progress)
    watch(fitted)
    critic = read_name(str(critic_folder(path, number)))
    trial_result = _run_trial(folder / "trial", plan, critic, path / "held-out", progress)
    watch(trial_result)
    best = _find_success(trial_result, "critic", _most_candidates(trial_result))
    return FlywheelRound(number=number, collected=collected, fitted=fitted, trial=trial_result, best=best), critic


def _test_plan(plan: FlywheelPlan) -> FlywheelPlan:
    return replace(plan, drawing=replace(plan.drawing, candidates=plan.test_candidates))


def _collect(
    folder: Path,
    plan: FlywheelPlan,
    split: str,
    tasks: list[str],
    seed: int,
    progress: Progress,
    spending: Spending,
    *,
    number: int = 1,
) -> CollectionSummary:
    if (folder / "summary.json").is_file():
        return _summary(CollectionSummary, folder)
    collection = _plan(plan, split, tasks, seed)
    return collect(
        collection, folder, resume=_has_config(folder), number=number, progress=progress, spending=spending
    )


def _plan(plan: FlywheelPlan, split: str, tasks: list[str], seed: int) -> CollectionPlan:
    """Plan a collection. Raises as `build_collection`."""
    evaluation = build_collection(
        plan.spec,
        plan.player,
        plan.drawing,
        split=split,
        task_ids=tasks,
        seed=seed,
        workers=plan.workers,
        max_tokens=plan.max_tokens,
        turns=plan.turns,
    )
    return CollectionPlan(evaluation, plan.drawing, plan.rule)


def _fit(
    folder: Path, plan: FlywheelPlan, start: ModelName, collections: list[Path], progress: Progress
) -> TrainingSummary:
    if (folder / "summary.json").is_file():
        return _summary(TrainingSummary, folder)
    return fit(
        collections,
        folder,
        model=start,
        rule=plan.rule,
        settings=plan.settings,
        share=plan.share,
        least=1,
        resume=_has_config(folder),
        progress=progress,
    )


def _run_trial(
    folder: Path, plan: FlywheelPlan, critic: ModelName, held_out: Path, progress: Progress
) -> TrialResult:
    if (folder / "summary.json").is_file():
        return _summary(TrialResult, folder)
    config = TrialConfig(
        judge=critic, examples=(held_out,), rule=plan.rule, pick=plan.picks, seed=plan.seed
    )
    return run_trial(config, folder, resume=_has_config(folder), progress=progress)


def _summary(kind: type[Summary], folder: Path) -> Summary:
    """Read the summary of a finished part. Raises `UsageError` if it is damaged."""
    try:
        return kind.model_validate_json(read_bytes(folder / "summary.json"))
    except ValidationError as error:
        raise UsageError(
            f"{folder / 'summary.json'} is damaged ({first_wrong(error)}): delete it and resume"
        ) from error


def _has_config(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def _most_candidates(result: TrialResult) -> int:
    return max(success.candidates for success in result.curve)


def _find_success(result: TrialResult, rule: str, candidates: int) -> SelectionResult:
    return next(
        success for success in result.curve if (success.rule, success.candidates) == (rule, candidates)
    )
