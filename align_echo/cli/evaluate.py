"""`align-echo evaluate`: play tasks under an interface, or under all its variants, and print the figures.

Not here: the work (`align_echo/evaluate`).
"""

from __future__ import annotations

from pathlib import Path

from align_echo.agents.players import about
from align_echo.cli.console import cost, leave, run_display, run_folder, say, stdout
from align_echo.cli.options import DryRun, Out, Resume, takes
from align_echo.evaluate.comparison import VariantComparison
from align_echo.evaluate.forecast import forecast_plan
from align_echo.evaluate.plan import EvaluationConfig, EvaluationPlan, plan_evaluation
from align_echo.evaluate.playing import play
from align_echo.evaluate.refinement import RefinementResult, refine, rounds_table
from align_echo.evaluate.tables import NAMES, interface_line, remarks, show_parting, tables, verdicts_given
from align_echo.rollout.faults import InterfaceConduct, overstepped, tell, verdict
from align_echo.run_dir import agent_details


@takes(EvaluationConfig)
def evaluate(
    config: EvaluationConfig, out: Out = None, resume: Resume = False, dry_run: DryRun = False
) -> None:
    """Play tasks with an agent and print success and consecutive invalid actions, with 95% intervals."""
    plan = plan_evaluation(config)
    if dry_run:
        print(*forecast_plan(plan).lines, sep="\n")
        return
    path = run_folder(out, resume, "evaluate", plan.spec.name)
    with run_display(path, resume=resume) as display:
        if plan.refining is None:
            result = play(plan, path, resume=resume, progress=display)
        else:
            rounds = refine(plan, plan.refining, path, resume=resume, progress=display)
    conducts = _show(plan, path, result) if plan.refining is None else _show_rounds(plan, path, rounds)
    usage = rounds.usage + rounds.critic_usage if plan.refining else result.usage
    cost(usage, display.spent)
    if plan.refining is None:
        print("".join(f"{line}\n" for line in show_parting(path)), end="")
    say(f"written: {path / 'summary.json'} and the trajectories beside it; to read them: align-echo view {path}")
    leave(agent_broke=display.agent_broke, trouble=verdict(conducts), warning=overstepped(conducts))


def _show(plan: EvaluationPlan, path: Path, result: VariantComparison) -> dict[str, InterfaceConduct]:
    """Print the tables and any trouble, and return the conduct of each variant."""
    console = stdout()
    conducts = {NAMES[name]: variant.conduct for name, variant in result.variants.items()}
    for table in tables(result):
        console.print(table)
        console.print()
    for line in (*remarks(result), *tell(conducts)):
        say(line)
    interfaces = [interface_line(plan.interface, each) for each in plan.variants.values() if each is not None][:1]
    games = [f"games: {result.games}"] if result.games else []
    for line in (*interfaces, about(plan.player, agent_details(path)), *games, *verdicts_given(result)):
        say(line)
    return conducts


def _show_rounds(plan: EvaluationPlan, path: Path, rounds: RefinementResult) -> dict[str, InterfaceConduct]:
    stdout().print(rounds_table(rounds))
    print()
    critic = plan.refining.critic if plan.refining else None
    asked = f"{critic.on_record}, form {rounds.critic_form}" if critic else "none, fresh attempts"
    lines = [*tell({rounds.interface: rounds.conduct}), about(plan.player, agent_details(path)), f"critic: {asked}"]
    lines += [f"interface: {rounds.interface}"] if rounds.interface != "none" else []
    print(*lines, *([f"games: {rounds.games}"] if rounds.games else []), sep="\n")
    return {rounds.interface: rounds.conduct}
