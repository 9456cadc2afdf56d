"""`align-echo interface`: show, check, audit, compare, ablate, export, import and bind interfaces.

Not here: the work (`align_echo/evaluate/in_play.py`, `align_echo/evaluate/interface_diff.py`,
`align_echo/evaluate/ablation.py`, `align_echo/evaluate/audit`, `align_echo/interface/sharing.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.base import halting
from align_echo.base.files import write_atomically
from align_echo.cli.console import cost, leave, new_folder, run_display, run_folder, say, stdout
from align_echo.cli.options import DataRoot, Env, Out, Resume, Seed, takes
from align_echo.errors import UsageError, printable
from align_echo.evaluate.ablation import (
    AblationConfig,
    ablate,
    ablation_lines,
    ablation_table,
    arm_conducts,
    plan_ablation,
)
from align_echo.evaluate.audit.report import audit_interface, default_speakers, recorded_episodes
from align_echo.evaluate.in_play import count_run_hints, keep_record
from align_echo.evaluate.interface_diff import diff_interfaces, diff_lines
from align_echo.evaluate.tables import audit_lines, audit_table, hints_table, provenance_lines, rules_table
from align_echo.interface.contract import Interface
from align_echo.interface.hints import silenced_by
from align_echo.interface.sandbox.loading import check_loads
from align_echo.interface.sharing import (
    bind_interface,
    command_for,
    export_interface,
    import_interface,
    read_bindable,
    read_shared,
    refuse_record_name,
)
from align_echo.rollout.display import Display, note
from align_echo.rollout.faults import overstepped, tell, verdict
from align_echo.rollout.refusals import RefusalJudge
from align_echo.wrappers.catalogue import environment

interface = typer.Typer(name="interface", help="Inspect interfaces, measure their rules, and share them.")
Name = Annotated[str, typer.Argument(help="A shipped name or a .py file.")]


@interface.command("show")
def show(
    name: Name,
    env: Env,
    run: Annotated[
        Path | None, typer.Option("--run", help="Folder of evaluate or generate-interface: show how its hints did.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Add --run's counts to the record of a .py file, for later runs.")
    ] = False,
) -> None:
    """Show an interface's rules with the experiments behind each, and how its hints did."""
    if keep and run is None:
        raise UsageError("--keep keeps what a run counted: name its folder with --run DIR")
    chosen = _load_named(name, env)
    counted = None if run is None else count_run_hints(chosen, run)
    print(printable("\n".join(provenance_lines(chosen))))
    if chosen.provenance.rules:
        stdout().print(rules_table(chosen.provenance.rules))
    for unresolved in chosen.provenance.unresolved:
        print(f"no rule stood its experiments for: {printable(unresolved)}")
    if counted is not None:
        stdout().print(hints_table(counted, f"Hints in the episodes of {run}"))
        chosen = keep_record(chosen, Path(name), counted) if keep else chosen
    if chosen.record:
        stdout().print(hints_table(chosen.record, "Record of earlier runs, with which every episode begins"))
    for rule in sorted(silenced_by(chosen.record)):
        print(f"silenced from the start: {printable(rule)}")


@interface.command("check")
def check(name: Name, env: Env) -> None:
    """Load an interface in the sandbox without an episode; code that cannot run there is reported with its line."""
    chosen = _load_named(name, env)
    check_loads(chosen, name)
    print(f"{printable(chosen.name)}@{chosen.content_hash} loads")


@interface.command("audit")
def audit(
    name: Name,
    env: Env,
    agents: Annotated[
        str | None,
        typer.Option("--agents", help="Speakers, with commas: adversary, random, pocket, expert-slips, or an agent."),
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's test split.")] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="Folder of a run: its agents' episodes are played again.")
    ] = None,
    games: Annotated[int | None, typer.Option("--games", min=1, help="Games; default: all of the split.")] = None,
    turns: Annotated[int, typer.Option("--turns", min=1, help="Steps of the walk in each game.")] = 30,
    per_state: Annotated[int, typer.Option("--per-state", min=1, help="Actions sent in each state of the walk.")] = 3,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="A .json file for all figures and examples.")] = None,
    data_root: DataRoot = None,
) -> None:
    """Test an interface's messages, and its rules told up front, in copies of the state. Exit status 1: something was
    false; 3: nothing was tested.
    """
    spec, chosen = environment(env), _load_named(name, env)
    check_loads(chosen, name)
    if out is not None:
        refuse_record_name(out)
    recorded = [] if run is None else recorded_episodes(spec, run, split)
    speakers = [speaker.strip() for speaker in agents.split(",")] if agents else []
    speakers = speakers if agents or recorded else default_speakers(spec)
    task_ids = spec.tasks(split or spec.test_split, data_root)
    if games is not None and games > len(task_ids):
        note(f"{games} games were asked for, and {split or spec.test_split} has {len(task_ids)}: all are played")
    with Display() as display:
        result = audit_interface(
            spec, chosen, speakers, refused=RefusalJudge(spec, task_ids, data_root).text_test, split=split, games=games,
            recorded=recorded, turns=turns, per_state=per_state, seed=seed, data_root=data_root, progress=display,
        )  # fmt: skip
    if out is not None:
        write_atomically(out, result.model_dump_json(indent=2) + "\n")
    print(f"{result.interface} on {result.environment} {result.split}, {result.turns} turns a game, seed {result.seed}")
    stdout().print(audit_table(result))
    print(*audit_lines(result), sep="\n")
    if result.problem and (result.untrue or not result.stopped):
        note(result.problem)
    raise typer.Exit(halting.status() if result.stopped else result.status)


@interface.command("diff")
def diff(first: Name, second: Name, env: Env, data_root: DataRoot = None) -> None:
    """Show the differences of two interfaces: rules text, rules and evidence, source."""
    left, right = _load_named(first, env), _load_named(second, env)
    for line in diff_lines(diff_interfaces(environment(env), left, right, data_root)):
        print(line)


@interface.command("ablate")
@takes(AblationConfig)
def ablate_rules(config: AblationConfig, name: Name, out: Out = None, resume: Resume = False) -> None:
    """Measure each rule: play an interface without one rule at a time, with all rules, and as a placebo."""
    plan = plan_ablation(name, config)
    path = run_folder(out, resume, "ablate", plan.spec.name)
    with run_display(path, resume=resume) as display:
        result = ablate(plan, path, seeds=config.seed, groups=config.groups, resume=resume, progress=display)
    conducts = arm_conducts(result)
    stdout().print(ablation_table(result))
    print(*ablation_lines(result), *tell(conducts), sep="\n")
    cost(result.usage, display.spent)
    say(f"written: {path / 'summary.json'} and the trajectories beside it")
    leave(agent_broke=display.agent_broke, trouble=verdict(conducts), warning=overstepped(conducts))


@interface.command("export")
def export(
    name: Name,
    env: Env,
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    data_root: DataRoot = None,
) -> None:
    """Write an interface into one file to share: source, provenance, evidence and record, with a hash over all."""
    chosen = _load_named(name, env)
    if export_interface(chosen, out, games=environment(env).games(data_root)):
        note("the source held a key or a password: it is taken out, and the hash is another one")
    say(f"written: {out}, with {chosen.name}@{read_shared(out).content_hash}; align-echo interface import reads it")


@interface.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="File of align-echo interface export.")], out: Out = None
) -> None:
    """Check the hash of an exported file, show its provenance, and write it for evaluate --interface."""
    imported = read_shared(file)
    check_loads(imported, str(file))
    written = import_interface(imported, out or new_folder("import", imported.contract.environment))
    print(printable("\n".join(provenance_lines(imported))))
    print("the hash is right: the file is whole; who made it, and whether it is true, it does not tell")
    say(f"written: {written}; next: {printable(command_for(imported.contract.environment, written))}")


@interface.command("bind")
def bind(name: Name, env: Env, out: Out = None) -> None:
    """Copy an interface for an environment it was not generated for, with that environment's contract and action
    format.
    """
    spec = environment(env)
    named = name if "/" in name or name.endswith(".py") else f"{spec.name}/{name}"
    copied = read_bindable(named, spec.name, spec.contract)
    written = bind_interface(copied, spec.contract, spec.action_format, out or new_folder("bind", spec.name))
    say(f"written: {written}; next: {printable(command_for(spec.name, written))}")


def _load_named(name: str, env: str) -> Interface:
    interface_or_none = environment(env).read_interface(name)
    if interface_or_none is None:
        raise UsageError("'none' is the plain environment: name an interface")
    return interface_or_none
