"""`align-echo generate-interface`: ALIGN's loop with the probe (no model), with chat models, or with both (hybrid).

Left out: the work (`align_echo/align/generation.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.agents.players import about
from align_echo.align import generation
from align_echo.align.generation import BackendName, Generation, plan_generation
from align_echo.align.loop import ITERATIONS, Generated, told
from align_echo.cli import options
from align_echo.cli.console import Display, leave, resumable, run_folder, stdout
from align_echo.errors import ModelError
from align_echo.evaluate.tables import rules_table
from align_echo.runs import agent_details


def generate_interface(
    env: options.Env,
    backend: Annotated[BackendName, typer.Option(help="auto: hybrid where a model can write, else probe.")] = "auto",
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
    allow_untested: Annotated[bool, typer.Option("--allow-untested", help="Keep what hybrid cannot try.")] = False,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
    data_root: options.DataRoot = None,
) -> None:
    """Find misalignments in failed episodes by experiment and write the interface that resolves them."""
    plan = plan_generation(
        env, backend=backend, model=model, analyzer_model=analyzer_model, optimizer_model=optimizer_model,
        base_url=base_url, max_tokens=max_tokens, agent=agent, iterations=iterations,
        tasks_per_iteration=tasks_per_iteration, seed=seed, workers=workers, data_root=data_root,
        allow_untested=allow_untested,
    )  # fmt: skip
    path = run_folder(out, resume, "generate", plan.world.spec.name)
    with resumable(path), Display() as display:
        result = generation.generate_interface(plan, path, resume=resume, progress=display)
    _show(result)
    print(plan.about_backend, about(plan.player, agent_details(path)), sep="\n")
    _say_how_to_measure(plan, path / result.summary.interface_file)
    if result.summary.misalignments and not result.summary.improved:
        raise ModelError(
            f"{result.summary.misalignments} misalignments were found and none was resolved: the interface in {path} "
            "changes nothing; name another --optimizer-model, and another folder"
        )
    leave(agent_broke=display.agent_broke)


def _say_how_to_measure(plan: Generation, interface: Path) -> None:
    model = plan.player.model
    print(f"interface: {interface}")
    options = f" --model {model}" if model else ""
    if model and plan.base_url and model.endpoint(plan.base_url):
        options += f" --base-url {plan.base_url}"
    environment, agent = plan.world.spec.name, plan.player.agent.name
    print(f"to measure it: align-echo evaluate --env {environment} --agent {agent}{options} --compare", end=" ")
    print(f"--interface {interface}")


def _show(result: Generated) -> None:
    """The rules with the experiments behind each, and how the run ended."""
    if result.interface.provenance.rules:
        stdout().print(rules_table(result.interface.provenance.rules))
    summary = result.summary
    print(f"stopped after {len(summary.iterations)} iterations ({summary.stopped}): {told(summary)}")
    for unresolved in result.interface.provenance.unresolved:
        print(f"not resolved: {unresolved}")
    if not summary.improved:
        print("no new interface was written: the one below changes nothing")
    tokens = summary.usage.prompt_tokens + summary.usage.completion_tokens
    if tokens:
        print(f"tokens: {tokens:,}; cost: ${summary.usage.cost_usd:.4f} where the price is known")
