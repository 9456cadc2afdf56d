"""`align-echo evaluate`: play tasks under an interface, or under all its variants, and print the figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from align_echo import __version__
from align_echo.agents.conversation import ChatAgent
from align_echo.align.backend import Described
from align_echo.cli import options
from align_echo.cli.agents import (
    Player,
    about,
    build_agent,
    chat_model,
    choose_player,
    endpoint_on_record,
    model_on_record,
    workers_for,
)
from align_echo.cli.console import Display, new_folder, note, resumable, stdout
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import BASELINE, Comparison, compare, run_variant, variants_of
from align_echo.evaluate.folder import Config, EvaluationFolder, check_folder
from align_echo.evaluate.selection import pick_tasks
from align_echo.evaluate.tables import NAMES, tables
from align_echo.interface import Interface
from align_echo.models.names import is_local
from align_echo.types import Agent, ChatModel, Trajectory
from align_echo.wrappers.catalogue import EnvironmentSpec, check_split, environment, make, resolve_interface
from align_echo.wrappers.catalogue import tasks as list_tasks
from align_echo.wrappers.data_source import games_of


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
    samples: int = 1

    @property
    def config(self) -> Config:
        """What `config.json` holds; a resumed run must ask for the same."""
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
            "games": games_of(self.spec, self.data_root),
            "data_root": str(self.data_root.absolute()) if self.data_root else None,
        }


def evaluate(
    env: options.Env,
    agent: options.Agent = None,
    interface: Annotated[str, typer.Option("--interface", help="none, a shipped name, or a .py file.")] = "none",
    rules: Annotated[bool, typer.Option("--rules/--no-rules", help="InferRules on or off.")] = True,
    feedback: Annotated[bool, typer.Option("--feedback/--no-feedback", help="WrapStep on or off.")] = True,
    compare_all: Annotated[
        bool, typer.Option("--compare", help="All four: no interface, rules only, feedback only, both.")
    ] = False,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's test split.")] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", help="How many; default: all of the split.")] = None,
    episodes_per_task: Annotated[
        int, typer.Option("--episodes-per-task", min=1, help="Each a sample of its own; needs a temperature above 0.")
    ] = 1,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    temperature: options.Temperature = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
    data_root: options.DataRoot = None,
) -> None:
    """Play tasks with an agent and print success and consecutive invalid actions, with 95% intervals."""
    spec = environment(env)
    split = check_split(spec, split or spec.test_split)
    chosen = choose_player(agent, model, (spec.name,))
    plan = Plan(
        spec=spec,
        split=split,
        interface=interface,
        variants=choose_variants(
            resolve_interface(spec, interface), rules=rules, feedback=feedback, compare_all=compare_all
        ),
        task_ids=pick_tasks(
            list_tasks(env, split=split, data_root=data_root), tasks, task_type=spec.task_type, seed=seed
        ),
        player=chosen,
        base_url=base_url,
        seed=seed,
        workers=workers or workers_for(chosen),
        data_root=data_root,
        temperature=temperature,
        samples=episodes_per_task,
    )
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    path = out or new_folder("evaluate", spec.name)
    player = build_player(plan, path)
    config = config_of(plan, player)
    check_folder(path, config, resume=resume)
    try_reset(spec, plan.task_ids[0], split=split, data_root=data_root)
    folder = EvaluationFolder(path, config, resume=resume)
    note(about(plan.player, player))
    with resumable(path), Display() as display:
        trajectories = play(plan, player, folder, display)
        display.status("replaying the actions in the plain environment")
        result = compare(spec, trajectories, seed=seed, data_root=data_root)
    summary = folder.finish(result)
    _show(plan, player, result)
    print(f"written: {summary} and the trajectories beside it")


def try_reset(spec: EnvironmentSpec, task: str, *, split: str, data_root: Path | None) -> None:
    """Start a task: what an environment lacks is said before anything is written. Raises what it raises."""
    env = make(spec.name, split=split, data_root=data_root)
    try:
        env.reset(options={"task": task})
    finally:
        env.close()


def choose_variants(
    interface: Interface | None, *, rules: bool, feedback: bool, compare_all: bool
) -> dict[str, Interface | None]:
    """The variants to play, by name. Raises `UsageError` for switches that leave nothing to play or to compare."""
    if compare_all and not (rules and feedback):
        raise UsageError("--compare plays every variant: leave out --no-rules and --no-feedback")
    if interface is None:
        if compare_all:
            raise UsageError("--compare needs an interface to compare with: add --interface NAME or PATH")
        if not (rules and feedback):
            raise UsageError("--no-rules and --no-feedback need an interface: add --interface NAME or PATH")
        return {BASELINE: None}
    if not rules and not feedback:
        raise UsageError("with --no-rules and --no-feedback nothing is left: say --interface none")
    found = variants_of(interface)
    if compare_all:
        return found
    name = "full" if rules and feedback else "rules" if rules else "feedback"
    return {name: found[name]}


def build_player(plan: Plan, path: Path) -> Agent:
    """The plan's agent. Raises `UsageError`, also if it would play every episode of a task alike."""
    player = build_agent(
        plan.player.agent,
        _load_model(plan, path),
        spec=plan.spec,
        split=plan.split,
        data_root=plan.data_root,
        seed=plan.seed,
        temperature=plan.temperature,
    )
    if plan.samples > 1 and not (isinstance(player, ChatAgent) and player.temperature > 0):
        raise UsageError("--episodes-per-task needs an agent that draws: a chat model, with --temperature above 0")
    return player


def config_of(plan: Plan, player: Agent) -> Config:
    """What `config.json` holds; a resumed evaluation must ask for the same."""
    details = player.describe() if isinstance(player, Described) else {}
    return {**plan.config, "agent_details": {**details}}


def _load_model(plan: Plan, path: Path) -> ChatModel | None:
    """The agent's model; None for a scripted agent.

    Replies from an endpoint are cached and logged in the run's folder. Those of a local model cost nothing to draw
    again, and stand whole in the trajectories.
    """
    name = plan.player.model
    if name is None:
        return None
    from align_echo.jsonl import JsonlFile
    from align_echo.models import RecordingModel, ReplyCache

    model = chat_model(name, spec=plan.spec, base_url=plan.base_url, seed=plan.seed)
    if is_local(name):
        return model
    return RecordingModel(model, role="agent", cache=ReplyCache(path / "cache"), log=JsonlFile(path / "calls.jsonl"))


def play(plan: Plan, agent: Agent, folder: EvaluationFolder, display: Display) -> dict[str, list[Trajectory]]:
    """Play every variant of the plan that is not finished in the folder; all episodes by variant."""
    played: dict[str, list[Trajectory]] = {}
    for name, interface in plan.variants.items():
        finished = folder.finished(name)
        display.stage(f"interface: {NAMES[name]}", plan.samples * len(plan.task_ids), len(finished))

        def ended(trajectory: Trajectory, name: str = name) -> None:
            folder.add(name, trajectory)
            display.episode(trajectory.won)

        played[name] = run_variant(
            plan.spec,
            agent,
            interface,
            plan.task_ids,
            split=plan.split,
            samples=plan.samples,
            seed=plan.seed,
            workers=plan.workers,
            data_root=plan.data_root,
            finished=finished,
            on_trajectory=ended,
        )
    return played


def _show(plan: Plan, player: Agent, result: Comparison) -> None:
    console = stdout()
    for table in tables(result):
        console.print(table)
        console.print()
    interface = next((one for one in plan.variants.values() if one is not None), None)
    if interface is not None:
        rules = interface.provenance.rules
        tried = f"{sum(rule.evidence.support for rule in rules)} experiments for, "
        tried += f"{sum(rule.evidence.refuted for rule in rules)} against"
        print(f"interface: {plan.interface} ({interface.name}@{interface.content_hash}), made by ", end="")
        print(f"{interface.provenance.backend}, {len(rules)} rules on record ({tried})")
    print(about(plan.player, player))
    if result.games:
        print(f"games: {result.games}")
    spent = [one.usage for one in result.variants.values()]
    if any(usage.prompt_tokens for usage in spent):
        tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in spent)
        print(f"tokens: {tokens:,}; cost: ${sum(usage.cost_usd for usage in spent):.4f} where the price is known")
