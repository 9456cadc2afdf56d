"""`align-echo generate-interface`: ALIGN's loop with one of two backends: the probe (no model) or chat models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from align_echo.align.backend import Backend
from align_echo.align.events import Event, Progress
from align_echo.align.loop import ITERATIONS, Generated, generate, told
from align_echo.align.run_folder import RunFolder
from align_echo.align.world import World
from align_echo.cli import options
from align_echo.cli.agents import (
    NO_STEP_LIMIT,
    Player,
    about,
    build_agent,
    chat_model,
    choose_player,
    endpoint_on_record,
    is_scripted,
    model_on_record,
    refuse_idle_model,
    workers_for,
)
from align_echo.cli.console import Display, leave, new_folder, resumable, stdout
from align_echo.cli.plan import try_reset
from align_echo.errors import ModelError, UsageError
from align_echo.models.names import POCKET, has_endpoint
from align_echo.types import Agent, ChatModel
from align_echo.wrappers.catalogue import environment

BackendName = Literal["auto", "probe", "llm"]
Chosen = Literal["probe", "llm"]


@dataclass(frozen=True)
class Models:
    """Names of the chat models by role; None where a role needs none."""

    agent: str | None
    analyzer: str | None
    optimizer: str | None
    base_url: str | None


def generate_interface(
    env: options.Env,
    backend: Annotated[
        BackendName,
        typer.Option("--backend", help="auto takes llm when a model that can write interfaces is named, else probe."),
    ] = "auto",
    model: options.Model = None,
    analyzer_model: Annotated[str | None, typer.Option("--analyzer-model", help="Default: --model.")] = None,
    optimizer_model: Annotated[str | None, typer.Option("--optimizer-model", help="Default: --model.")] = None,
    base_url: options.BaseUrl = None,
    max_tokens: options.MaxTokens = None,
    agent: options.Agent = None,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="At most so many.")] = ITERATIONS,
    tasks_per_iteration: Annotated[
        int | None, typer.Option("--tasks-per-iteration", min=1, help="Default: the paper's number.")
    ] = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
    data_root: options.DataRoot = None,
) -> None:
    """Find misalignments in failed episodes by experiment and write the interface that resolves them."""
    spec = environment(env)
    chosen = choose_backend(backend, model, analyzer_model, optimizer_model)
    played_by = choose_player(agent, model, (spec.name,))
    models = choose_models(chosen, played_by, model, analyzer_model, optimizer_model, base_url)
    if chosen == "probe":
        refuse_idle_model(played_by, model)
    if max_tokens and not (models.agent or models.analyzer):
        raise UsageError("this run asks no model: leave --max-tokens out")
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    path = out or new_folder("generate", spec.name)
    folder = RunFolder(path)
    folder.check(resume=resume)
    world = World(spec, data_root)
    fresh = fresh_tasks(world, iterations, seed)
    player = build_agent(
        played_by.agent,
        _agent_model(folder, models, world, seed),
        spec=spec,
        split=world.split,
        data_root=data_root,
        seed=seed,
        max_tokens=max_tokens if models.agent else None,
    )
    try_reset(spec, fresh[0], split=world.split, data_root=data_root)
    made_of = (_about_backend(backend, chosen, models), about(played_by, player))
    with resumable(path), Display() as display:
        made_by = _backend(chosen, world, player, folder, models, max_tokens, seed, fresh, display)
        result = generate(
            spec,
            player,
            made_by,
            folder,
            seed=seed,
            iterations=iterations,
            tasks_per_iteration=tasks_per_iteration,
            data_root=data_root,
            workers=workers or workers_for(played_by),
            resume=resume,
            progress=_shown_on(display, made_of),
        )
    _show(result)
    print(*made_of, sep="\n")
    print(f"interface: {path / result.summary.interface_file}")
    asked = f" --model {models.agent}" if models.agent else ""
    if models.agent and models.base_url and endpoint_on_record(models.agent, models.base_url):
        asked += f" --base-url {models.base_url}"
    print(f"to measure it: align-echo evaluate --env {spec.name} --agent {played_by.agent}{asked} --compare", end=" ")
    print(f"--interface {path / result.summary.interface_file}")
    if result.summary.misalignments and not result.summary.improved:
        raise ModelError(
            f"{result.summary.misalignments} misalignments were found and none was resolved: the interface in {path} "
            "changes nothing; name another --optimizer-model, and another folder"
        )
    leave(agent_broke=display.agent_broke)


def fresh_tasks(world: World, iterations: int, seed: int) -> list[str]:
    """Training tasks for testing rules on: three draws that none of the loop's iterations (1 to `iterations`) uses."""
    draws = (0, iterations + 1, iterations + 2)
    return list(dict.fromkeys(task_id for draw in draws for task_id in world.tasks(draw, seed)))


def choose_backend(
    asked: BackendName, model: str | None, analyzer: str | None = None, optimizer: str | None = None
) -> Chosen:
    """The backend that was asked for; for auto, llm when a language model is named for one of its roles or for all, and
    probe otherwise. Raises `UsageError` for a role's model that the probe would not ask.
    """
    named = [one for one in (analyzer, optimizer) if one]
    if asked == "probe" and named:
        raise UsageError("the probe asks no model: leave --analyzer-model and --optimizer-model out")
    if asked != "auto":
        return asked
    return "llm" if named or (model and can_write(model)) else "probe"


def can_write(model: str) -> bool:
    """Whether a model may be Analyzer and Optimizer: a script and the pocket model can only play."""
    return not is_scripted(model) and model != POCKET


def choose_models(
    backend: Chosen,
    played_by: Player,
    model: str | None,
    analyzer: str | None,
    optimizer: str | None,
    base_url: str | None,
) -> Models:
    """The models by role. Raises `UsageError` if a role of the llm backend has none."""
    llm = backend == "llm"
    found = Models(
        agent=played_by.model,
        analyzer=(analyzer or model) if llm else None,
        optimizer=(optimizer or model) if llm else None,
        base_url=base_url,
    )
    names = filter(None, (found.agent, found.analyzer, found.optimizer))
    if base_url and not any(endpoint_on_record(name, base_url) for name in names):
        raise UsageError("no model of this run is asked at an endpoint: leave --base-url out")
    if llm and not (found.analyzer and found.optimizer):
        lacking = "--optimizer-model" if found.analyzer else "--analyzer-model" if found.optimizer else "--model"
        others = "" if lacking == "--model" else " (or --model NAME for both)"
        raise UsageError(f"the llm backend needs a chat model: add {lacking} NAME{others} or set ALIGN_ECHO_MODEL")
    for name in filter(None, (found.analyzer, found.optimizer)):
        if not can_write(name):
            raise UsageError(
                f"the model {model_on_record(name)} can only play: add --analyzer-model and --optimizer-model, "
                "or --backend probe"
            )
    return found


def _agent_model(folder: RunFolder, models: Models, world: World, seed: int) -> ChatModel | None:
    """The agent's model; None for an agent that asks none."""
    if models.agent is None:
        return None
    base_url = models.base_url if endpoint_on_record(models.agent, models.base_url) else None
    model = chat_model(models.agent, spec=world.spec, base_url=base_url, seed=seed)
    return folder.record(model, "agent")


def _model(folder: RunFolder, name: str | None, role: str, models: Models, seed: int) -> ChatModel | None:
    """A model whose replies are kept in the run's folder; None where the role needs none."""
    if name is None:
        return None
    from align_echo.models import load_model

    base_url = models.base_url if has_endpoint(name) else None
    return folder.record(load_model(name, base_url=base_url, seed=seed), role)


def _backend(
    chosen: Chosen,
    world: World,
    agent: Agent,
    folder: RunFolder,
    models: Models,
    max_tokens: int | None,
    seed: int,
    fresh: list[str],
    display: Display,
) -> Backend:
    analyzer = _model(folder, models.analyzer, "analyzer", models, seed)
    optimizer = _model(folder, models.optimizer, "optimizer", models, seed)
    if analyzer is not None and optimizer is not None:
        from align_echo.align.llm.backend import LlmBackend
        from align_echo.align.llm.settings import LlmSettings

        return LlmBackend(
            world,
            agent,
            analyzer_model=analyzer,
            optimizer_model=optimizer,
            settings=LlmSettings(max_tokens=max_tokens) if max_tokens else None,
            seed=seed,
            note=folder.note,
        )
    from align_echo.align.probe.backend import ProbeBackend

    module = world.spec.module()
    return ProbeBackend(
        lambda: module.make_env(split=world.split, data_root=world.data_root, step_limit=NO_STEP_LIMIT),
        fresh,
        seed=seed,
        on_progress=display.status,
    )


def _shown_on(display: Display, made_of: tuple[str, str]) -> Progress:
    """Events of the loop, as the command line shows them. What the run is made of is said once it has begun."""

    def show(event: Event) -> None:
        if event.kind == "run-started":
            display.say("\n".join(made_of))
        elif event.kind == "iteration-started":
            display.stage(f"iteration {event.iteration}", event.total, event.done)
        elif event.kind == "trajectory":
            display.episode(bool(event.won))
            if event.fault is not None:
                display.broke(event.task_id, event.fault)
        elif event.kind != "run-finished":
            display.say(event.message)

    return show


def _about_backend(asked: BackendName, chosen: Chosen, models: Models) -> str:
    """One line for the record: which backend, why, and which models."""
    if chosen == "llm":
        why = " (auto: a model is configured)" if asked == "auto" else ""
        return f"backend: llm{why}, analyzer {models.analyzer}, optimizer {models.optimizer}"
    why = "auto: no language model is configured; " if asked == "auto" else ""
    return f"backend: probe ({why}no language model is asked)"


def _show(result: Generated) -> None:
    """The rules with the experiments behind each, and how the run ended."""
    rules = result.interface.provenance.rules
    if rules:
        table = Table(title="Rules and the experiments behind them", title_justify="left", title_style="bold")
        table.box, table.pad_edge, table.padding = None, False, (0, 2, 0, 0)
        table.add_column("rule", overflow="fold")
        for heading in ("for", "against", "tasks"):
            table.add_column(heading, justify="right")
        for rule in rules:
            counts = rule.evidence.support, rule.evidence.refuted, rule.evidence.tasks
            table.add_row(Text(rule.text), *map(str, counts))
        stdout().print(table)
    summary = result.summary
    print(f"stopped after {len(summary.iterations)} iterations ({summary.stopped}): {told(summary)}")
    for unresolved in result.interface.provenance.unresolved:
        print(f"not resolved: {unresolved}")
    if not summary.improved:
        print("no new interface was written: the one below changes nothing")
    tokens = summary.usage.prompt_tokens + summary.usage.completion_tokens
    if tokens:
        print(f"tokens: {tokens:,}; cost: ${summary.usage.cost_usd:.4f} where the price is known")
