"""`align-echo interface show` and `audit`: what an interface's rules rest on, and whether its messages are true.

Left out: the work (`align_echo/evaluate/hint_record.py`, `align_echo/align/audit`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.align.audit.report import Audit, audit_interface, default_speakers
from align_echo.cli import options
from align_echo.cli.console import Display, leave, stdout
from align_echo.errors import UsageError
from align_echo.evaluate.hint_record import keep_record, record_of_run
from align_echo.evaluate.refusals import refusal_test
from align_echo.evaluate.tables import audit_table, hints_table, rules_table
from align_echo.files import write_atomically
from align_echo.hints import silenced_by
from align_echo.interface import Interface
from align_echo.sandbox.session import printable
from align_echo.wrappers.catalogue import environment

interface = typer.Typer(name="interface", help="Look at an interface: its rules, and whether what it says is true.")
Name = Annotated[str, typer.Argument(help="A shipped name or a .py file.")]


@interface.command("show")
def show(
    name: Name,
    env: options.Env,
    run: Annotated[
        Path | None, typer.Option("--run", help="A folder of evaluate or generate-interface: what became of its hints.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Add --run's counts to the record that later runs of a .py file begin with.")
    ] = False,
) -> None:
    """Show an interface's rules with the experiments behind each, and what became of its hints."""
    if keep and run is None:
        raise UsageError("--keep keeps what a run counted: name its folder with --run DIR")
    shown = _named(name, env)
    print(f"{shown.name}@{shown.content_hash}, made by {printable(shown.provenance.backend)}")
    if shown.provenance.rules:
        stdout().print(rules_table(shown.provenance.rules))
    for unresolved in shown.provenance.unresolved:
        print(f"not resolved: {printable(unresolved)}")
    if run is not None:
        record = record_of_run(shown, run)
        stdout().print(hints_table(record, f"Hints in the episodes of {run}"))
        shown = keep_record(shown, Path(name), record) if keep else shown
    if shown.record:
        stdout().print(hints_table(shown.record, "Record of earlier runs, with which every episode begins"))
    for rule in sorted(silenced_by(shown.record)):
        print(f"silenced from the start: {printable(rule)}")


@interface.command("audit")
def audit(
    name: Name,
    env: options.Env,
    agents: Annotated[
        str | None,
        typer.Option("--agents", help="Who speaks, with commas: adversary, random, pocket, expert-slips, or an agent."),
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's test split.")] = None,
    games: Annotated[int | None, typer.Option("--games", min=1, help="How many; default: all of the split.")] = None,
    turns: Annotated[int, typer.Option("--turns", min=1, help="Steps of the walk in each game.")] = 30,
    per_state: Annotated[int, typer.Option("--per-state", min=1, help="Things said in each state of the walk.")] = 3,
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="A .json file for all figures and examples.")] = None,
    data_root: options.DataRoot = None,
) -> None:
    """Try every claim of an interface's messages in a fork of the state, with speakers that its making never met."""
    spec, audited = environment(env), _named(name, env)
    speakers = [speaker.strip() for speaker in agents.split(",")] if agents else default_speakers(spec)
    refusals = refusal_test(spec, data_root)
    with Display() as display:
        result = audit_interface(
            spec, audited, speakers, refused=refusals.is_invalid if refusals else None, split=split, games=games,
            turns=turns, per_state=per_state, seed=seed, data_root=data_root, progress=display,
        )  # fmt: skip
    if out is not None:
        write_atomically(out, result.model_dump_json(indent=2) + "\n")
    _show_audit(result)
    leave(agent_broke=False, trouble=f"{result.untrue} claims did not hold when they were tried" * (result.untrue > 0))


def _show_audit(result: Audit) -> None:
    print(f"{result.interface} on {result.environment} {result.split}, {result.turns} turns a game, seed {result.seed}")
    stdout().print(audit_table(result))
    for spoken in result.speakers:
        said = f"{spoken.utterances:,} things said, {spoken.refusals:,} refused, {spoken.messages:,} messages"
        print(f"{spoken.speaker}: {spoken.games} games, {said};")
        print(f"  {sum(spoken.chains.values()):,} orders obeyed, {spoken.circles:,} in a circle or in vain;", end="")
        print(f" the interface failed on {spoken.broken:,} turns")
        for example in spoken.examples[:5]:
            print(f"  did not hold: {printable(example)}")
    if result.stopped:
        print("stopped: this is what was found until then")


def _named(name: str, env: str) -> Interface:
    made = environment(env).interface(name)
    if made is None:
        raise UsageError("'none' is the plain environment: name an interface")
    return made
