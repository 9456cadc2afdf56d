"""Play a grid: environments x agents, each without an interface, with its placebo and with it.

Every cell is an evaluation's folder, `<out>/<environment>/<agent>/`; finished cells are reused. Not here: the grid's
figures (`grid.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from align_echo import __version__
from align_echo.agents.players import (
    AgentChoice,
    about,
    choose_agent,
    choose_preset,
    choose_turns,
    describe_agent,
    model_on_record,
)
from align_echo.agents.presets import AgentPreset
from align_echo.errors import UsageError
from align_echo.evaluate.cast import build_plan_agent, evaluation_config, model_loader
from align_echo.evaluate.comparison import BASELINE, PLACEBO, VariantComparison, build_variants
from align_echo.evaluate.folder import Config, EvaluationFolder, check_folder, open_folder
from align_echo.evaluate.grid import WITH, GridCell, GridSummary, build_cell, build_grid, measure
from align_echo.evaluate.plan import EvaluationPlan, switches_on_record
from align_echo.evaluate.playing import play_variants
from align_echo.evaluate.selection import pick_tasks
from align_echo.files import write_atomically
from align_echo.interface import Interface
from align_echo.models.names import ModelName, read_name
from align_echo.progress import SILENT, Progress
from align_echo.regular_files import read_text
from align_echo.runs import interface_fingerprints
from align_echo.session import try_reset
from align_echo.types import Agent, Trajectory
from align_echo.workers.choice import Workers, choose_workers, read_workers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec


@dataclass(frozen=True)
class GridPlan:
    """Checked settings of a grid. Interfaces and tasks are by environment."""

    environments: tuple[EnvironmentSpec, ...]
    players: tuple[AgentChoice, ...]
    interface: str
    interfaces: dict[str, Interface]
    tasks: dict[str, list[str]]
    base_url: str | None
    seed: int
    temperature: float | None = None
    placebo: bool = True
    max_tokens: int | None = None
    preset: AgentPreset | None = None
    workers: Workers | None = None

    @property
    def model(self) -> ModelName | None:
        """Return the one model of all agents with a model."""
        return next((player.model for player in self.players if player.model), None)

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
            **model_on_record(self.model, self.base_url),
            "seed": self.seed,
            **({} if self.temperature is None else {"temperature": self.temperature}),
            **({"placebo": True} if self.placebo else {}),
            **switches_on_record(self.interfaces.values()),
            **({} if self.max_tokens is None else {"max_tokens": self.max_tokens}),
            **({"agent_preset": self.preset.name} if self.preset else {}),
        }


def play_grid(
    axes: GridPlan, path: Path, *, resume: bool = False, progress: Progress = SILENT
) -> tuple[GridSummary, list[str]]:
    """Play every unfinished cell of the folder. Returns the grid, and a line about each agent.

    Raises as `playing.play`; invalid settings are refused before anything is written.
    """
    check_folder(path, axes.config, resume=resume)
    plans = {
        path / spec.name / player.agent.name: _plan(axes, spec, player)
        for spec in axes.environments
        for player in axes.players
    }
    agents = {folder: build_plan_agent(plan, model_loader(plan, folder)) for folder, plan in plans.items()}
    for folder, plan in plans.items():
        if _has_config(folder):
            check_folder(folder, evaluation_config(plan, agents[folder]), resume=True)
    for spec in axes.environments:
        try_reset(spec, axes.tasks[spec.name][0], split=spec.test_split, data_root=None)
    lock = open_folder(path, axes.config, resume=resume)
    who_plays = {folder: about(plan.player, describe_agent(agents[folder])) for folder, plan in plans.items()}
    cells = []
    for number, (folder, plan) in enumerate(plans.items(), start=1):
        progress.say(f"cell {number} of {len(plans)}: {plan.spec.name}, {who_plays[folder]}")
        cells.append(_play_cell(plan, agents[folder], folder, path, progress))
    grid = build_grid(
        cells,
        model=axes.model.on_record if axes.model else None,
        interface=axes.interface,
        seed=axes.seed,
        tasks=max(map(len, axes.tasks.values())),
    )
    write_atomically(path / "summary.json", grid.model_dump_json(indent=2) + "\n")
    lock.close()
    return grid, list(dict.fromkeys(who_plays.values()))


def read_axes(
    env: Sequence[str],
    agent: Sequence[str],
    interface: str,
    *,
    tasks: int,
    model: str | None = None,
    base_url: str | None = None,
    seed: int = 0,
    temperature: float | None = None,
    placebo: bool = True,
    retract: bool = True,
    max_tokens: int | None = None,
    agent_preset: str | None = None,
    workers: int | str | None = None,
) -> GridPlan:
    """Check the settings: every environment has the interface and the tasks, every agent its model.

    Raises `UsageError`, `InterfaceError`.
    """
    specs = tuple(environment(name) for name in env)
    for axis, names in (("--env", [spec.name for spec in specs]), ("--agent", agent)):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise UsageError(f"{axis} {repeated[0]} is there twice: name each once")
    model_name = read_name(model) if model else None
    players = tuple(choose_agent(name, model_name, [spec.name for spec in specs]) for name in agent)
    if temperature is not None and not any(player.model for player in players):
        raise UsageError("no agent of this grid asks a model: leave --temperature out")
    return GridPlan(
        environments=specs,
        players=players,
        interface=interface,
        interfaces={spec.name: _interface(spec, interface, retract) for spec in specs},
        tasks={spec.name: pick_test_tasks(spec, tasks, seed) for spec in specs},
        base_url=base_url,
        seed=seed,
        temperature=temperature,
        placebo=placebo,
        max_tokens=max_tokens,
        preset=choose_preset(agent_preset, players),
        workers=read_workers(workers),
    )


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
    turns = choose_turns(None, preset, spec)
    return EvaluationPlan(
        spec=spec.with_settings(turns=turns),
        split=spec.test_split,
        task_ids=axes.tasks[spec.name],
        interface=interface.name,
        variants={name: variant for name, variant in build_variants(interface).items() if name in sides},
        player=player,
        base_url=axes.base_url,
        seed=axes.seed,
        workers=choose_workers(axes.workers, player),
        data_root=None,
        temperature=axes.temperature if player.model else None,
        max_tokens=axes.max_tokens if player.model else None,
        preset=preset,
        turns=turns,
    )


def _has_config(folder: Path) -> bool:
    return (folder / "config.json").exists()


def play_comparison(
    plan: EvaluationPlan, agent: Agent, path: Path, progress: Progress, *, baseline: Sequence[Trajectory] = ()
) -> VariantComparison | None:
    """Play the unfinished part of an evaluation, and measure it; None if no episode had a score.

    `baseline` are the episodes without an interface, if the plan does not play them itself.
    """
    comparison = _read_finished(path)
    if comparison is not None:
        progress.say("finished earlier")
        return comparison
    folder = EvaluationFolder(path, evaluation_config(plan, agent), resume=_has_config(path))
    trajectories = ({BASELINE: baseline} if baseline else {}) | play_variants(plan, agent, folder, progress)
    progress.status("replaying the actions in the plain environment")
    comparison, is_complete = measure(plan.spec, trajectories, seed=plan.seed)
    if comparison is not None and is_complete:
        folder.finish(comparison)
    return comparison


def _play_cell(plan: EvaluationPlan, agent: Agent, cell_path: Path, grid_path: Path, progress: Progress) -> GridCell:
    """Play the unfinished part of a cell, and measure it."""
    return build_cell(
        plan.spec,
        play_comparison(plan, agent, cell_path, progress),
        {name: interface.label if interface else BASELINE for name, interface in plan.variants.items()},
        agent=plan.player.agent.name,
        tasks=len(plan.task_ids),
        folder=str(cell_path.relative_to(grid_path)),
    )


def _read_finished(folder: Path) -> VariantComparison | None:
    """Read the result of an earlier run, unless it has broken episodes, which are played again.

    Results of an older version without the interface's conduct are computed again.
    """
    try:
        comparison = VariantComparison.model_validate_json(read_text(folder / "summary.json"))
    except (OSError, ValueError):
        return None
    incomplete = any(variant.faults or not variant.conduct.resets for variant in comparison.variants.values())
    return None if incomplete else comparison
