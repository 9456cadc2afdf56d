"""`align-echo evaluate`: play tasks under an interface, or under all its variants, and print the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from align_echo.cli import options
from align_echo.cli.agents import about, choose_player, refuse_idle_model, workers_for
from align_echo.cli.console import Display, cost, leave, new_folder, note, resumable, stdout
from align_echo.cli.plan import (
    Models,
    Plan,
    build_player,
    choose_judge,
    choose_truncation,
    config_of,
    drawn_otherwise,
    play_part,
    try_reset,
)
from align_echo.cli.refine import choose_refining, refine, refining_on_record, show_rounds
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import BASELINE, PLACEBO, Comparison, compare, variants_of
from align_echo.evaluate.folder import EvaluationFolder, check_folder
from align_echo.evaluate.selection import pick_tasks
from align_echo.evaluate.tables import NAMES, tables
from align_echo.interface import Interface
from align_echo.sandbox import printable
from align_echo.trouble import Conduct, overstepped, tell, verdict
from align_echo.types import Agent, ChoiceCounts, Trajectory, Usage
from align_echo.wrappers.catalogue import check_split, environment, resolve_interface
from align_echo.wrappers.catalogue import tasks as list_tasks


def evaluate(
    env: options.Env,
    agent: options.Agent = None,
    interface: Annotated[str, typer.Option("--interface", help="none, a shipped name, or a .py file.")] = "none",
    rules: Annotated[bool, typer.Option("--rules/--no-rules", help="InferRules on or off.")] = True,
    feedback: Annotated[bool, typer.Option("--feedback/--no-feedback", help="WrapStep on or off.")] = True,
    compare_all: Annotated[
        bool, typer.Option("--compare", help="All: no interface, its placebo, rules only, feedback only, both.")
    ] = False,
    placebo: options.Placebo = True,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's test split.")] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", help="How many; default: all of the split.")] = None,
    episodes_per_task: Annotated[
        int, typer.Option("--episodes-per-task", min=1, help="Each a sample of its own; needs a temperature above 0.")
    ] = 1,
    best_of: options.BestOf = 1,
    judge: options.Judge = None,
    pick: options.Pick = "critic",
    reasoning: options.Reasoning = False,
    abstain_below: options.AbstainBelow = 0.0,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    refine_rounds: options.RefineRounds = None,
    critic: options.Critic = None,
    critic_form: options.CriticForm = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = None,
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
    refuse_idle_model(chosen, model)
    refining = choose_refining(refine_rounds, critic, critic_form, chosen, compare_all=compare_all)
    judged_by = choose_judge(best_of, judge, chosen, pick=pick, abstain_below=abstain_below, reasoning=reasoning)
    plan = Plan(
        spec=spec,
        split=split,
        interface=interface,
        variants=choose_variants(
            resolve_interface(spec, interface),
            rules=rules,
            feedback=feedback,
            compare_all=compare_all,
            placebo=placebo,
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
        max_tokens=max_tokens,
        samples=episodes_per_task,
        best_of=best_of,
        judge=judged_by,
        pick=pick,
        reasoning=reasoning,
        abstain_below=abstain_below,
        truncation=choose_truncation(chosen, judged_by, top_k, top_p),
        refining=refining,
    )
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    path = out or new_folder("evaluate", spec.name)
    models = Models(plan, path)
    player = build_player(plan, models)
    config = {**config_of(plan, player), **refining_on_record(refining, models)}
    check_folder(path, config, resume=resume)
    try_reset(spec, plan.task_ids[0], split=split, data_root=data_root)
    folder = EvaluationFolder(path, config, resume=resume)
    note(about(plan.player, player))
    for line in drawn_otherwise(plan, player):
        note(line)
    if plan.refining is None:
        with resumable(path), Display() as display:
            trajectories = play(plan, player, folder, display)
            display.status("replaying the actions in the plain environment")
            result = compare(spec, trajectories, seed=seed, data_root=data_root)
        summary = folder.finish(result)
        conducts = {NAMES[name]: one.conduct for name, one in result.variants.items()}
        _show(plan, player, result, conducts)
    else:
        with resumable(path), Display() as display:
            rounds = refine(plan, plan.refining, player, models, folder, display)
        summary = folder.finish(rounds)
        conducts = {rounds.interface: rounds.conduct}
        show_rounds(plan, player, rounds)
    print(f"written: {summary} and the trajectories beside it")
    leave(agent_broke=display.agent_broke, trouble=verdict(conducts), warning=overstepped(conducts))


def choose_variants(
    interface: Interface | None, *, rules: bool, feedback: bool, compare_all: bool, placebo: bool = True
) -> dict[str, Interface | None]:
    """The variants to play, by name. Raises `UsageError` for switches that leave nothing to play or to compare."""
    if not placebo and not compare_all:
        raise UsageError("--no-placebo leaves a variant of --compare out: add --compare")
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
        return {name: one for name, one in found.items() if placebo or name != PLACEBO}
    name = "full" if rules and feedback else "rules" if rules else "feedback"
    return {name: found[name]}


def play(plan: Plan, agent: Agent, folder: EvaluationFolder, display: Display) -> dict[str, list[Trajectory]]:
    """Play every variant of the plan that is not finished in the folder; all episodes by variant."""
    return {
        name: play_part(
            plan,
            agent,
            interface,
            plan.episodes,
            part=name,
            title=f"interface: {NAMES[name]}",
            folder=folder,
            display=display,
        )
        for name, interface in plan.variants.items()
    }


def _show(plan: Plan, player: Agent, result: Comparison, conducts: Mapping[str, Conduct]) -> None:
    console = stdout()
    for table in tables(result):
        console.print(table)
        console.print()
    for line in tell(conducts):
        print(line)
    interface = next((one for one in plan.variants.values() if one is not None), None)
    if interface is not None:
        rules = interface.provenance.rules
        tried = f"{sum(rule.evidence.support for rule in rules)} experiments for, "
        tried += f"{sum(rule.evidence.refuted for rule in rules)} against"
        print(f"interface: {plan.interface} ({interface.name}@{interface.content_hash}), made by ", end="")
        print(f"{printable(interface.provenance.backend)}, {len(rules)} rules on record ({tried})")
    print(about(plan.player, player))
    if result.games:
        print(f"games: {result.games}")
    choices = [one.choices for one in result.variants.values() if one.choices is not None]
    if choices:
        total = sum(choices, ChoiceCounts())
        print(f"verdicts: {total.correct:,} correct, {total.wrong:,} wrong, {total.no_verdict:,} that were none")
        if total.repeated:
            print(f"in {total.repeated:,} turns all candidates repeated an action that had changed nothing;", end=" ")
            print(f"the critic called {total.repeated_wrong:,} of them wrong and had no other to take")
    cost(sum((one.usage for one in result.variants.values()), Usage()))
