"""`align-echo grid`: environments x agents, each without an interface, with its placebo and with it, as one table.

Every cell is an evaluation's folder, `<out>/<environment>/<agent>/`; what is finished there is not played again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from align_echo import __version__
from align_echo.cli import options
from align_echo.cli.agents import (
    AGENTS,
    Player,
    about,
    choose_player,
    endpoint_on_record,
    model_on_record,
    workers_for,
)
from align_echo.cli.console import Display, cost, leave, new_folder, resumable, stdout
from align_echo.cli.evaluate import play
from align_echo.cli.plan import Models, Plan, build_player, config_of, try_reset
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import BASELINE, PLACEBO, Comparison, variants_of
from align_echo.evaluate.folder import Config, EvaluationFolder, check_folder
from align_echo.evaluate.grid import WITH, Cell, Grid, cell_of, grid_of, measure, table_of
from align_echo.evaluate.selection import pick_tasks
from align_echo.interface import Interface, write_atomically
from align_echo.locking import FolderLock
from align_echo.trouble import Conduct, overstepped, tell, verdict
from align_echo.types import Agent
from align_echo.wrappers.catalogue import EnvironmentSpec, environment, resolve_interface
from align_echo.wrappers.catalogue import tasks as list_tasks

DEFAULT_TASKS = 20


@dataclass(frozen=True)
class Axes:
    """What was asked for, checked. Interfaces and tasks are by environment."""

    environments: tuple[EnvironmentSpec, ...]
    players: tuple[Player, ...]
    interfaces: dict[str, Interface]
    tasks: dict[str, list[str]]
    base_url: str | None
    seed: int
    temperature: float | None = None
    placebo: bool = True
    max_tokens: int | None = None

    @property
    def model(self) -> str | None:
        """The one model of all agents that ask one."""
        return next((player.model for player in self.players if player.model), None)

    @property
    def config(self) -> Config:
        """What the grid's `config.json` holds; the cells have their own."""
        return {
            "command": "grid",
            "align_echo": __version__,
            "environments": [spec.name for spec in self.environments],
            "agents": [player.agent for player in self.players],
            "interfaces": {name: interface.label for name, interface in self.interfaces.items()},
            "tasks": {name: list(ids) for name, ids in self.tasks.items()},
            "model": model_on_record(self.model),
            "base_url": endpoint_on_record(self.model, self.base_url),
            "seed": self.seed,
            **({} if self.temperature is None else {"temperature": self.temperature}),
            **({"placebo": True} if self.placebo else {}),
            **({} if self.max_tokens is None else {"max_tokens": self.max_tokens}),
        }


@dataclass(frozen=True)
class Planned:
    """A cell to play: its evaluation, its agent, its folder."""

    plan: Plan
    agent: Agent
    path: Path

    @property
    def about(self) -> str:
        return about(self.plan.player, self.agent)

    @property
    def config(self) -> Config:
        return config_of(self.plan, self.agent)

    @property
    def begun(self) -> bool:
        return (self.path / "config.json").exists()


def grid(
    env: Annotated[list[str], typer.Option("--env", help="An environment; repeat it for more.")],
    agent: Annotated[list[str], typer.Option("--agent", help=f"Who plays; repeat it for more: {', '.join(AGENTS)}.")],
    interface: Annotated[str, typer.Option("--interface", help="A shipped name, looked up in each environment.")],
    tasks: Annotated[int, typer.Option("--tasks", help="How many of each environment's test split.")] = DEFAULT_TASKS,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    temperature: options.Temperature = None,
    placebo: options.Placebo = True,
    max_tokens: options.MaxTokens = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Play environments x agents, without and with an interface, and print one table."""
    axes = read_axes(
        env,
        agent,
        interface,
        tasks=tasks,
        model=model,
        base_url=base_url,
        seed=seed,
        temperature=temperature,
        placebo=placebo,
    )
    axes = replace(axes, max_tokens=max_tokens)
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    path = out or new_folder("grid", "-".join(axes.interfaces))
    check_folder(path, axes.config, resume=resume)
    planned = [_planned(axes, spec, one, path, workers) for spec in axes.environments for one in axes.players]
    for one in planned:
        if one.begun:
            check_folder(one.path, one.config, resume=True)
    for spec in axes.environments:
        try_reset(spec, axes.tasks[spec.name][0], split=spec.test_split, data_root=None)
    path.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(path)
    write_atomically(path / "config.json", json.dumps(axes.config, indent=2) + "\n")
    with resumable(path), Display() as display:
        cells = []
        for number, one in enumerate(planned, start=1):
            display.say(f"cell {number} of {len(planned)}: {one.plan.spec.name}, {one.about}")
            cells.append(_play_cell(one, path, display))
    summary = grid_of(cells, model=model_on_record(axes.model), interface=interface, seed=seed, tasks=tasks)
    conducts = _finish(summary, list(dict.fromkeys(one.about for one in planned)), path)
    lock.close()
    leave(agent_broke=display.agent_broke, trouble=verdict(conducts), warning=overstepped(conducts))


def read_axes(
    env: Sequence[str],
    agent: Sequence[str],
    interface: str,
    *,
    tasks: int,
    model: str | None,
    base_url: str | None,
    seed: int,
    temperature: float | None = None,
    placebo: bool = True,
) -> Axes:
    """What was asked for, checked: every environment has the interface and the tasks, every agent its model.

    Raises `UsageError`, `InterfaceError`.
    """
    specs = tuple(environment(name) for name in env)
    for axis, names in (("--env", [spec.name for spec in specs]), ("--agent", agent)):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise UsageError(f"{axis} {twice[0]} is there twice: name each once")
    players = tuple(choose_player(name, model, [spec.name for spec in specs]) for name in agent)
    if temperature is not None and not any(player.model for player in players):
        raise UsageError("no agent of this grid asks a model: leave --temperature out")
    return Axes(
        environments=specs,
        players=players,
        interfaces={spec.name: _interface(spec, interface) for spec in specs},
        tasks={spec.name: _tasks(spec, tasks, seed) for spec in specs},
        base_url=base_url,
        seed=seed,
        temperature=temperature,
        placebo=placebo,
    )


def _interface(spec: EnvironmentSpec, name: str) -> Interface:
    found = resolve_interface(spec, name)
    if found is None:
        raise UsageError("a grid plays without and with an interface: name one, e.g. --interface probe")
    return found


def _tasks(spec: EnvironmentSpec, count: int, seed: int) -> list[str]:
    ids = list_tasks(spec.name, split=spec.test_split)
    try:
        return pick_tasks(ids, count, task_type=spec.task_type, seed=seed)
    except UsageError as error:
        raise UsageError(f"{spec.name}: {error}") from error


def _planned(axes: Axes, spec: EnvironmentSpec, player: Player, path: Path, workers: int | None) -> Planned:
    interface = axes.interfaces[spec.name]
    sides = (BASELINE, PLACEBO, WITH) if axes.placebo else (BASELINE, WITH)
    plan = Plan(
        spec=spec,
        split=spec.test_split,
        task_ids=axes.tasks[spec.name],
        interface=interface.name,
        variants={name: one for name, one in variants_of(interface).items() if name in sides},
        player=player,
        base_url=axes.base_url,
        seed=axes.seed,
        workers=workers or workers_for(player),
        data_root=None,
        temperature=axes.temperature if player.model else None,
        max_tokens=axes.max_tokens if player.model else None,
    )
    folder = path / spec.name / player.agent
    return Planned(plan, build_player(plan, Models(plan, folder)), folder)


def _play_cell(one: Planned, path: Path, display: Display) -> Cell:
    """Play what is not finished of a cell, and measure it."""
    plan = one.plan
    comparison = _measured(one)
    if comparison is not None:
        display.say("finished earlier")
    else:
        folder = EvaluationFolder(one.path, one.config, resume=one.begun)
        trajectories = play(plan, one.agent, folder, display)
        display.status("replaying the actions in the plain environment")
        comparison, whole = measure(plan.spec, trajectories, seed=plan.seed)
        if comparison is not None and whole:
            folder.finish(comparison)
    return cell_of(
        plan.spec,
        comparison,
        {name: interface.label if interface else BASELINE for name, interface in plan.variants.items()},
        agent=plan.player.agent,
        tasks=len(plan.task_ids),
        folder=str(one.path.relative_to(path)),
    )


def _measured(one: Planned) -> Comparison | None:
    """What an earlier run measured, unless an episode broke then: those are played again.

    An older version did not look at the interface's conduct: what it played is measured anew.
    """
    try:
        found = Comparison.model_validate_json((one.path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return None if any(one.faults or not one.conduct.resets for one in found.variants.values()) else found


def _finish(summary: Grid, played_by: Sequence[str], path: Path) -> dict[str, Conduct]:
    """Write and print the summary: how the interface behaved in each side of each cell."""
    file = write_atomically(path / "summary.json", summary.model_dump_json(indent=2) + "\n")
    table, console = table_of(summary), stdout()
    console.width = max(console.width, console.measure(table).maximum)  # longer lines rather than figures cut off
    console.print(table)
    print()
    print(*played_by, sep="\n")
    for cell in summary.cells:
        broken = [f"{side.faults} {name}" for name, side in cell.sides.items()]
        if any(side.faults for side in cell.sides.values()):
            print(f"faults: {cell.environment} {cell.agent}: {', '.join(broken)}; in no figure above")
    if not summary.faults:
        print("faults: none")
    conducts = {
        f"{cell.environment} {cell.agent} {name}": side.conduct
        for cell in summary.cells
        for name, side in cell.sides.items()
    }
    for line in tell(conducts):
        print(line)
    cost(summary.usage)
    print(f"written: {file} and a folder for each cell beside it")
    return conducts
