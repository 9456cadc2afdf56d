"""`align-echo generate-interface`: ALIGN's loop with the probe (no model), with chat models, or with both (hybrid).

Not here: the work (`align_echo/align/generation.py`).
"""

from __future__ import annotations

from align_echo.agents.players import about
from align_echo.align import generation
from align_echo.align.generation import GenerationConfig, plan_generation, price_experiments
from align_echo.cli.console import leave, run_display, run_folder, stdout
from align_echo.cli.options import DryRun, Out, Resume, takes
from align_echo.errors import ModelError
from align_echo.evaluate.forecast import forecast_generation
from align_echo.evaluate.in_play import FOLDER, nothing_written, play_generated, result_lines
from align_echo.evaluate.tables import rules_table
from align_echo.run_dir import agent_details


@takes(GenerationConfig)
def generate_interface(
    config: GenerationConfig, out: Out = None, resume: Resume = False, dry_run: DryRun = False
) -> None:
    """Find misalignments in failed episodes by experiment, write an interface, and measure its effect in play."""
    plan = plan_generation(config)
    if dry_run:
        lines = [plan.about_backend, plan.about_tasks, plan.about_play, *price_experiments(plan, always=True)[0]]
        lines += [*forecast_generation(plan).lines, plan.about_unchecked]
        print(*filter(None, lines), sep="\n")
        return
    path = run_folder(out, resume, "generate", plan.world.spec.name)
    with run_display(path, resume=resume) as display:
        generated = generation.generate_interface(plan, path, resume=resume, progress=display)
        summary = play_generated(plan, generated, path, progress=display)
    if generated.interface.provenance.rules:
        stdout().print(rules_table(generated.interface.provenance.rules))
    results = result_lines(plan, summary, path, display.spent)
    print(plan.about_backend, about(plan.player, agent_details(path)), *results, sep="\n")
    if problem := nothing_written(plan, summary, path):
        raise ModelError(problem)
    if refusal := summary.budget.refusal:
        raise refusal
    broken = summary.in_play is not None and not summary.in_play.works
    leave(agent_broke=display.agent_broke, trouble=f"the interface did not work: {path / FOLDER}" * broken)
