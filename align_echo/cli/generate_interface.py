"""`align-echo generate-interface`: ALIGN's loop with the probe (no model), with chat models, or with both (hybrid).

Not here: the work (`align_echo/align/generation.py`).
"""

from __future__ import annotations

from typing import Annotated

import typer

from align_echo.agents.players import about
from align_echo.align import generation
from align_echo.align.generation import BackendName, plan_generation
from align_echo.align.loop import ITERATIONS
from align_echo.cli import options
from align_echo.cli.console import leave, run_display, run_folder, stdout
from align_echo.errors import ModelError
from align_echo.evaluate.in_play import FOLDER, nothing_written, play_generated, result_lines
from align_echo.evaluate.tables import rules_table
from align_echo.run_dir import agent_details


def generate_interface(
    env: options.Env,
    backend: Annotated[BackendName, typer.Option(help="auto: hybrid if a model can write, else probe.")] = "auto",
    model: options.Model = None,
    analyzer_model: Annotated[str | None, typer.Option("--analyzer-model", help="Default: --model.")] = None,
    optimizer_model: Annotated[str | None, typer.Option("--optimizer-model", help="Default: --model.")] = None,
    base_url: options.BaseUrl = None,
    max_tokens: options.MaxTokens = None,
    agent: options.Agent = None,
    agent_preset: options.AgentPreset = None,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="Most iterations.")] = ITERATIONS,
    tasks_per_iteration: Annotated[
        int | None, typer.Option("--tasks-per-iteration", min=1, help="Default: the paper's number.")
    ] = None,
    play_tasks: Annotated[
        int | None,
        typer.Option("--play-tasks", min=0, help="Tasks at the end: without it, with its placebo, with it; 0: none."),
    ] = None,
    allow_untested: Annotated[bool, typer.Option("--allow-untested", help="Keep rules hybrid cannot test.")] = False,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
    data_root: options.DataRoot = None,
) -> None:
    """Find misalignments in failed episodes by experiment, write an interface, and measure its effect in play."""
    plan = plan_generation(
        env, backend=backend, model=model, analyzer_model=analyzer_model, optimizer_model=optimizer_model,
        base_url=base_url, max_tokens=max_tokens, agent=agent, agent_preset=agent_preset, iterations=iterations,
        tasks_per_iteration=tasks_per_iteration, seed=seed, workers=workers, data_root=data_root,
        allow_untested=allow_untested, play_tasks=play_tasks,
    )  # fmt: skip
    path = run_folder(out, resume, "generate", plan.world.spec.name)
    with run_display(path, resume=resume) as display:
        generated = generation.generate_interface(plan, path, resume=resume, progress=display)
        summary = play_generated(plan, generated, path, progress=display)
    if generated.interface.provenance.rules:
        stdout().print(rules_table(generated.interface.provenance.rules))
    print(plan.about_backend, about(plan.player, agent_details(path)), *result_lines(plan, summary, path), sep="\n")
    if problem := nothing_written(plan, summary, path):
        raise ModelError(problem)
    broken = summary.in_play is not None and not summary.in_play.works
    leave(agent_broke=display.agent_broke, trouble=f"the interface did not work: {path / FOLDER}" * broken)
