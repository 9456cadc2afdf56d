"""A grid of environments x agents, without and with an interface: its cells, summary and table.

A cell is a `VariantComparison` of these and the interface's placebo on the same tasks. Not here: their folders
(`folder.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt
from rich.table import Table

from align_echo.agents import options
from align_echo.agents.catalogue import AGENTS
from align_echo.agents.conversation import WHOLE_HISTORY, HistoryBounds
from align_echo.agents.options import ModelConfig, PayingConfig
from align_echo.agents.players import (
    AgentChoice,
    choose_agent,
    choose_preset,
    choose_turns,
    default_model,
    model_on_record,
)
from align_echo.agents.presets import AgentPreset
from align_echo.base.files import read_text
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import (
    BASELINE,
    PLACEBO,
    VariantComparison,
    VariantDifference,
    VariantResult,
    build_variants,
    compare,
)
from align_echo.evaluate.folder import Config, EvaluationDir
from align_echo.evaluate.plan import (
    EvaluationPlan,
    pick_tasks,
    switches_on_record,
)
from align_echo.evaluate.playing import Experiment
from align_echo.evaluate.tables import NOT_DEFINED, WORTH, cell, failed_on, plain_table, refusals_line
from align_echo.interface.contract import Interface
from align_echo.intervals import Percent, Points, Score, ScoreChange, SharePoints
from align_echo.models.choosing import ModelName, read_name, refuse_idle_base_url
from align_echo.models.endpoint import ReplyTokens
from align_echo.models.reply_tokens import find_reply_tokens, read_reply_tokens
from align_echo.models.spending import NO_LIMITS, RoleSpending, Spending, SpendingLimits, check_limits, open_spending
from align_echo.rollout.faults import InterfaceConduct
from align_echo.rollout.refusals import AnswerShares, Known
from align_echo.rollout.session import try_reset
from align_echo.run_dir import CONFIG, SUMMARY, interface_fingerprints
from align_echo.types import Agent, Frozen, Trajectory, Usage
from align_echo.version import __version__
from align_echo.workers.ray_cluster import Workers, choose_workers, read_workers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

WITH = "full"
"""The variant compared with the baseline: both halves of the interface."""

CAPTION = (
    "scores in 0 to 1, all else in %, with 95% intervals; change: with minus without, paired by task;\n"
    "consec. invalid: % of actions in runs of >= 2 refused, by replay; as shown: judged on what the agent saw"
)
OVER_PLACEBO = "over placebo: with minus placebo, paired by task"
CAPTION_PLACEBO = f"{OVER_PLACEBO}\n{WORTH}"


class CellSide(Frozen):
    """A cell without the interface, with it, or with its placebo. None: no episode finished, or undefined.

    `score` is in [0, 1]; `success`, `consecutive_invalid` (by replay) and `consecutive_invalid_shown` are percent.
    `refusals` says how refused actions are known ("" if they are not), and `answers` gives partial counts if some are
    unknown. `conduct` reports failures of the interface; if it does not work, the figures are the raw environment's.
    """

    interface: str
    episodes: NonNegativeInt
    faults: NonNegativeInt
    faults_by_source: dict[str, NonNegativeInt] = Field(default_factory=dict)
    conduct: InterfaceConduct = InterfaceConduct()
    score: Score | None = None
    success: Percent | None = None
    consecutive_invalid: Percent | None = None
    consecutive_invalid_shown: Percent | None = None
    refusals: Known | Literal[""] = ""
    answers: AnswerShares | None = None


class CellChange(Frozen):
    """With minus without, or minus the placebo, paired on the `tasks` finished by both.

    All but `score` in percentage points.
    """

    tasks: NonNegativeInt
    score: ScoreChange
    success: Points
    consecutive_invalid: SharePoints | None


class GridCell(Frozen):
    """One environment and one agent. `folder` is an evaluation's, relative to the grid's; `tasks` is the requested
    number.

    `change` is over no interface, `over_placebo` over the placebo; that and `placebo` are None without a placebo.
    """

    environment: str
    split: str
    games: str
    agent: str
    folder: str
    tasks: NonNegativeInt
    without: CellSide
    placebo: CellSide | None = None
    with_interface: CellSide
    change: CellChange | None
    over_placebo: CellChange | None = None
    usage: Usage

    @property
    def sides(self) -> dict[str, CellSide]:
        """Return the played sides, by their names in the table."""
        middle = {} if self.placebo is None else {PLACEBO: self.placebo}
        return {"without": self.without, **middle, "with": self.with_interface}


class GridSummary(Frozen):
    """All cells. `model` is None if no agent of the grid asks one; `faults` counts broken episodes.

    `at_endpoints` is as in `VariantComparison`.
    """

    model: str | None
    interface: str
    seed: int
    tasks: NonNegativeInt
    faults: NonNegativeInt
    usage: Usage
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)
    cells: tuple[GridCell, ...]


def measure(
    spec: EnvironmentSpec, played: Mapping[str, Sequence[Trajectory]], *, seed: int
) -> tuple[VariantComparison | None, bool]:
    """Compare the variants with any finished episode (None: there is none), and return whether all variants have one.
    """
    known = {name: episodes for name, episodes in played.items() if any(episode.fault is None for episode in episodes)}
    return (compare(spec, known, seed=seed) if known else None), len(known) == len(played)


def build_cell(
    spec: EnvironmentSpec,
    comparison: VariantComparison | None,
    labels: Mapping[str, str],
    *,
    agent: str,
    tasks: int,
    folder: str,
    variant: str = WITH,
) -> GridCell:
    """Build the cell of a comparison of `variant` with the baseline.

    `labels` names the interface of each variant, including variants without figures.
    """
    results = comparison.variants if comparison else {}
    known = comparison.refusals if comparison else ""
    sides = {name: _side(results.get(name), label, tasks, known) for name, label in labels.items()}
    return GridCell(
        environment=spec.name,
        split=spec.test_split,
        games=spec.games(None),
        agent=agent,
        folder=folder,
        tasks=tasks,
        without=sides[BASELINE],
        placebo=sides.get(PLACEBO),
        with_interface=sides[variant],
        change=_change(comparison.differences.get(variant)) if comparison else None,
        over_placebo=_change(comparison.over_placebo.get(variant)) if comparison else None,
        usage=sum((result.usage for result in results.values()), Usage()),
    )


def build_grid(cells: Sequence[GridCell], *, model: str | None, interface: str, seed: int, tasks: int) -> GridSummary:
    """Build the summary of all cells."""
    return GridSummary(
        model=model,
        interface=interface,
        seed=seed,
        tasks=tasks,
        faults=sum(side.faults for cell in cells for side in cell.sides.values()),
        usage=sum((cell.usage for cell in cells), Usage()),
        cells=tuple(cells),
    )


def _side(result: VariantResult | None, label: str, tasks: int, known: Known | Literal[""]) -> CellSide:
    if result is None:
        return CellSide(interface=label, episodes=0, faults=tasks)
    return CellSide(
        interface=label,
        episodes=result.episodes,
        faults=result.faults,
        faults_by_source=result.faults_by_source,
        conduct=result.conduct,
        score=result.mean_score,
        success=result.success_rate,
        consecutive_invalid=result.consecutive_invalid,
        consecutive_invalid_shown=result.consecutive_invalid_shown,
        refusals=result.refusals or known,
        answers=result.answers,
    )


def _change(difference: VariantDifference | None) -> CellChange | None:
    if difference is None:
        return None
    return CellChange(
        tasks=difference.tasks,
        score=difference.score,
        success=difference.success_points,
        consecutive_invalid=difference.invalid_points,
    )


# ---------------------------------------------------------------- the table


HEADINGS = ("environment", "agent", "interface", "n", "score", "success", "consec. invalid", "as shown")
"""Columns of a grid's table; the first three are text."""


def grid_table(grid: GridSummary) -> Table:
    """Build the table: a row per cell, with a line for each of its sides and for the change over each control."""
    table = plain_table(f"Without and with the interface {grid.interface}")
    controlled = any(grid_cell.placebo for grid_cell in grid.cells)
    table.caption, table.caption_justify = f"{CAPTION}\n{CAPTION_PLACEBO}" if controlled else CAPTION, "left"
    for heading in HEADINGS[:3]:
        table.add_column(heading, no_wrap=True)
    for heading in HEADINGS[3:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for grid_cell in grid.cells:
        columns = zip(*cell_lines(grid_cell), strict=True)
        table.add_row(grid_cell.environment, grid_cell.agent, *("\n".join(column) for column in columns))
    return table


def cell_lines(grid_cell: GridCell) -> list[tuple[str, ...]]:
    """Build the lines of a cell in a table: its sides and changes, under `HEADINGS` from the third on."""
    lines = [(name, *_figures(side)) for name, side in grid_cell.sides.items()]
    lines += [("change", *_changes(grid_cell.change, grid_cell.with_interface))]
    if grid_cell.placebo:
        lines += [("over placebo", *_changes(grid_cell.over_placebo, grid_cell.with_interface, grid_cell.placebo))]
    return lines


def faults_line(grid_cell: GridCell, names: Collection[str] = ("without", PLACEBO, "with")) -> str:
    """Report the broken episodes of these sides of a cell; "" without any."""
    sides = {name: side for name, side in grid_cell.sides.items() if name in names}
    if not any(side.faults for side in sides.values()):
        return ""
    broken = ", ".join(f"{side.faults} {name}" for name, side in sides.items())
    return f"faults: {grid_cell.environment} {grid_cell.agent}: {broken}; in no figure above"


def refusals_lines(cells: Iterable[GridCell]) -> list[str]:
    """Describe for each environment how refused actions are known, and for each side the partial counts if some are
    unknown.
    """
    lines: dict[str, None] = {}
    for grid_cell in cells:
        for name, side in grid_cell.sides.items():
            if side.refusals or (side.episodes and side.consecutive_invalid is None):
                lines[refusals_line(side.refusals, grid_cell.environment)] = None
            if side.answers is not None:
                where = f"{grid_cell.environment} {grid_cell.agent} {name}"
                lines[f"consec. invalid of {where} is not defined: {side.answers.in_words}"] = None
    return list(lines)


def _figures(side: CellSide) -> tuple[str, ...]:
    """Format a side's n, score, success and shares."""
    if not side.conduct.works:
        return (str(side.episodes), "-", failed_on(side.conduct), "-", "-")
    missing = NOT_DEFINED if side.episodes else "-"
    shares = (cell(share, missing=missing) for share in (side.consecutive_invalid, side.consecutive_invalid_shown))
    return (str(side.episodes), cell(side.score, digits=3), cell(side.success), *shares)


def _changes(change: CellChange | None, *sides: CellSide) -> tuple[str, ...]:
    """Format the changes in n, score, success and shares; empty if an interface on either side did not work."""
    if change is None or not all(side.conduct.works for side in sides):
        return (str(change.tasks if change else 0), "-", "-", "-", "")
    invalid = cell(change.consecutive_invalid, signed=True, missing=NOT_DEFINED)
    figures = cell(change.success, signed=True), invalid
    return (str(change.tasks), cell(change.score, digits=3, signed=True), *figures, "")


# ---------------------------------------------------------------- play a grid


@dataclass(frozen=True)
class GridPlan:
    """Checked settings of a grid. Interfaces and tasks are by environment."""

    environments: tuple[EnvironmentSpec, ...]
    players: tuple[AgentChoice, ...]
    interface: str
    interfaces: dict[str, Interface]
    tasks: dict[str, list[str]]
    seed: int
    temperature: float | None = None
    placebo: bool = True
    max_tokens: ReplyTokens = field(default_factory=dict)
    history: HistoryBounds = WHOLE_HISTORY
    preset: AgentPreset | None = None
    turns: int | None = None
    workers: Workers | None = None
    limits: SpendingLimits = NO_LIMITS

    @property
    def models(self) -> list[ModelName]:
        """Return the models of all agents with a model."""
        return [player.model for player in self.players if player.model]

    @property
    def model(self) -> ModelName | None:
        """Return the one model of all agents with a model."""
        return next(iter(self.models), None)

    @property
    def config(self) -> Config:
        """Return the content of the grid's `config.json`; the cells have their own."""
        return {
            "command": "grid",
            "align_echo": __version__,
            "environments": [spec.name for spec in self.environments],
            "agents": [player.agent.name for player in self.players],
            "interfaces": {name: interface.label for name, interface in self.interfaces.items()},
            "interface_contents": interface_fingerprints(self.interfaces),
            "tasks": {name: list(ids) for name, ids in self.tasks.items()},
            **model_on_record(self.model),
            "seed": self.seed,
            **({} if self.temperature is None else {"temperature": self.temperature}),
            **({"placebo": True} if self.placebo else {}),
            **switches_on_record(self.interfaces.values()),
            **({"max_tokens": agent} if (agent := self.max_tokens.get("agent")) else {}),
            **self.history.describe(),
            **({"agent_preset": self.preset.name} if self.preset else {}),
            **({} if self.turns is None else {"turns": self.turns}),
        }


def play_grid(
    axes: GridPlan, path: Path, *, resume: bool = False, progress: Progress = SILENT
) -> tuple[GridSummary, list[str]]:
    """Play every unfinished cell of the folder. Returns the grid, and a line about each agent.

    Raises as `playing.play`; invalid settings are refused before anything is written.
    """
    run_dir = EvaluationDir(path, axes.config, resume=resume)
    run_dir.check()
    spending = open_spending(axes.limits, axes.models, path)
    experiments = [
        open_experiment(plan, path / plan.spec.name / plan.player.agent.name, progress, spending=spending)
        for plan in cell_plans(axes)
    ]
    for spec in axes.environments:
        try_reset(spec, axes.tasks[spec.name][0], split=spec.test_split, data_root=None)
    with run_dir:
        cells = []
        for number, experiment in enumerate(experiments, start=1):
            progress.say(f"cell {number} of {len(experiments)}: {experiment.plan.spec.name}, {experiment.line}")
            cells.append(_play_cell(experiment, path))
        grid = build_grid(
            cells,
            model=axes.model.on_record if axes.model else None,
            interface=axes.interface,
            seed=axes.seed,
            tasks=max(map(len, axes.tasks.values())),
        )
        grid = grid.model_copy(update={"at_endpoints": spending.by_role})
        run_dir.finish(grid)
    return grid, list(dict.fromkeys(experiment.line for experiment in experiments))


class GridConfig(ModelConfig, PayingConfig):
    """Options of `align-echo grid`."""

    env: Annotated[tuple[str, ...], Field(min_length=1, description="An environment; repeat it for more.")]
    agent: Annotated[
        tuple[str, ...],
        Field(min_length=1, description=f"An agent; repeat it for more: {', '.join(AGENTS.entries())}."),
    ]
    interface: Annotated[str, Field(description="A shipped name, looked up in each environment.")]
    tasks: Annotated[int, Field(description="Tasks of each environment's test split.")] = 20
    model: options.Model = Field(default_factory=default_model)
    base_url: options.BaseUrl = None
    temperature: options.Temperature = None
    placebo: options.Placebo = True
    retract: options.Retract = True
    max_tokens: options.MaxTokens = None
    history_turns: options.HistoryTurns = None
    history_tokens: options.HistoryTokens = None
    turns: options.Turns = None
    agent_preset: options.Preset = None
    seed: options.Seed = 0
    workers: options.WorkerCount = None


def plan_grid(config: GridConfig) -> GridPlan:
    """Check the options: every environment has the interface and the tasks, every agent its model.

    Raises `UsageError`, `InterfaceError`.
    """
    specs = tuple(environment(name) for name in config.env)
    for axis, names in (("--env", [spec.name for spec in specs]), ("--agent", config.agent)):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise UsageError(f"{axis} {repeated[0]} is there twice: name each once")
    model_name = read_name(config.model, config.base_url, chat=config.chat) if config.model else None
    if config.chat.options and not model_name:
        raise UsageError(f"{config.chat.options}: of which model? add --model NAME")
    players = tuple(choose_agent(name, model_name, [spec.name for spec in specs]) for name in config.agent)
    refuse_idle_base_url(config.base_url, [player.model for player in players if player.model])
    if config.temperature is not None and not any(player.model for player in players):
        raise UsageError("no agent of this grid asks a model: leave --temperature out")
    grid = GridPlan(
        environments=specs,
        players=players,
        interface=config.interface,
        interfaces={spec.name: _interface(spec, config.interface, config.retract) for spec in specs},
        tasks={spec.name: pick_test_tasks(spec, config.tasks, config.seed) for spec in specs},
        seed=config.seed,
        temperature=config.temperature,
        placebo=config.placebo,
        max_tokens=read_reply_tokens(config.max_tokens),
        history=HistoryBounds(config.history_turns, config.history_tokens),
        preset=choose_preset(config.agent_preset, players),
        turns=config.turns,
        workers=read_workers(config.workers),
        limits=config.spending_limits,
    )
    check_limits(grid.limits, grid.models)
    return grid


def _interface(spec: EnvironmentSpec, name: str, retract: bool) -> Interface:
    interface = spec.interface(name, retract=retract)
    if interface is None:
        raise UsageError("a grid plays without and with an interface: name one, e.g. --interface probe")
    return interface


def pick_test_tasks(spec: EnvironmentSpec, count: int, seed: int) -> list[str]:
    """Pick tasks of an environment's test split. Raises `UsageError` naming the environment."""
    ids = spec.tasks(spec.test_split)
    try:
        return pick_tasks(ids, count, task_type=spec.task_type, seed=seed)
    except UsageError as error:
        raise UsageError(f"{spec.name}: {error}") from error


def _plan(axes: GridPlan, spec: EnvironmentSpec, player: AgentChoice) -> EvaluationPlan:
    """Build the evaluation plan of one cell."""
    interface = axes.interfaces[spec.name]
    sides = (BASELINE, PLACEBO, WITH) if axes.placebo else (BASELINE, WITH)
    preset = axes.preset if player.model else None
    turns = choose_turns(axes.turns, preset, spec)
    return EvaluationPlan(
        spec=spec.with_settings(turns=turns),
        split=spec.test_split,
        task_ids=axes.tasks[spec.name],
        interface=interface.name,
        variants={name: variant for name, variant in build_variants(interface).items() if name in sides},
        player=player,
        seed=axes.seed,
        workers=choose_workers(axes.workers, player),
        data_root=None,
        temperature=axes.temperature if player.model else None,
        max_tokens=find_reply_tokens(axes.max_tokens, "agent", player.model) if player.model else None,
        preset=preset,
        history=axes.history if player.model else WHOLE_HISTORY,
        turns=turns,
    )


def cell_plans(axes: GridPlan) -> list[EvaluationPlan]:
    """Return the evaluation plan of each cell."""
    return [_plan(axes, spec, player) for spec in axes.environments for player in axes.players]


def open_experiment(
    plan: EvaluationPlan, path: Path, progress: Progress, *, spending: Spending, agent: Agent | None = None
) -> Experiment:
    """Open a subfolder's experiment, resumed if it has begun. Raises `UsageError` for a folder of something else."""
    has_begun = (path / CONFIG).exists()
    experiment = Experiment(plan, path, resume=has_begun, progress=progress, agent=agent, spending=spending)
    if has_begun:
        experiment.check()
    return experiment


def play_comparison(experiment: Experiment, *, baseline: Sequence[Trajectory] = ()) -> VariantComparison | None:
    """Play the unfinished part of an experiment, and measure it; None if no episode had a score.

    `baseline` are the episodes without an interface, if the plan does not play them itself.
    """
    plan, progress = experiment.plan, experiment.progress
    comparison = _read_finished(experiment.path)
    if comparison is not None:
        progress.say("finished earlier")
        return comparison
    with experiment.begin_quietly() as folder:
        trajectories = ({BASELINE: baseline} if baseline else {}) | experiment.play_variants()
        progress.status("replaying the actions in the plain environment")
        comparison, is_complete = measure(plan.spec, trajectories, seed=plan.seed)
        if comparison is not None and is_complete:
            folder.finish(comparison)
    return comparison


def _play_cell(experiment: Experiment, grid_path: Path) -> GridCell:
    """Play the unfinished part of a cell, and measure it."""
    plan = experiment.plan
    return build_cell(
        plan.spec,
        play_comparison(experiment),
        {name: interface.label if interface else BASELINE for name, interface in plan.variants.items()},
        agent=plan.player.agent.name,
        tasks=len(plan.task_ids),
        folder=str(experiment.path.relative_to(grid_path)),
    )


def _read_finished(folder: Path) -> VariantComparison | None:
    """Read the result of an earlier run, unless it has broken episodes, which are played again.

    Results of an older version without the interface's conduct are computed again.
    """
    try:
        comparison = VariantComparison.model_validate_json(read_text(folder / SUMMARY))
    except (OSError, ValueError):
        return None
    incomplete = any(variant.faults or not variant.conduct.resets for variant in comparison.variants.values())
    return None if incomplete else comparison
