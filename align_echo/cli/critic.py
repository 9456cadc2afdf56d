"""`align-echo critic`: collect labelled actions, train an intuitive critic on them, and put it on trial (GAIA).

Left out: the work of each verb (`collect.py`, `fit.py`, `critic_evaluate.py`; on screens `gui_record.py`,
`fit_screens.py` and `gui_steps.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.cli import options
from align_echo.cli.collect import Drawing, States, collect_into
from align_echo.cli.console import leave, new_folder
from align_echo.cli.critic_evaluate import evaluate_critic_into
from align_echo.cli.fit import fit_into
from align_echo.cli.fit_reasoning import fit_reasoning_into
from align_echo.cli.fit_screens import fit_screens_into
from align_echo.cli.flywheel import Begin, Wheel, turn
from align_echo.cli.gui_record import gui_record_into
from align_echo.cli.gui_steps import gui_steps_into
from align_echo.critic.labels import Rule
from align_echo.errors import UsageError
from align_echo.evaluate.selection import pick_tasks
from align_echo.flywheel.screens import PREDICTIONS
from align_echo.trouble import overstepped, verdict
from align_echo.wrappers.catalogue import environment

critic = typer.Typer(help="Collect labelled actions, train an intuitive critic, put it on trial.", no_args_is_help=True)

Candidates = Annotated[int, typer.Option("--candidates", min=1, help="Replies that the agent draws every turn.")]
TopK = Annotated[int | None, typer.Option("--top-k", min=0, help="Of a local model's draws; default 30, 0 is off.")]
TopP = Annotated[float | None, typer.Option("--top-p", min=0, max=1, help="Of a local model's draws; default 0.8.")]
WhoseStates = Annotated[
    States,
    typer.Option("--states", help="Whose actions are carried out: agent (the candidate sent), expert, or mixed."),
]
Tasks = Annotated[int, typer.Option("--tasks", min=1, help="How many of the split are played.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="YAML of settings, or small or paper-gaia; default: by the model's size."),
]
LabelRule = Annotated[
    Rule | None, typer.Option("--rule", help="What is right: expert, nearer or continues; default: the environment's.")
]
Examples = Annotated[
    list[Path], typer.Option("--examples", help="A collection's folder; may be given several times.")
]


@critic.command("collect")
def collect(
    env: options.Env,
    agent: options.Agent = None,
    model: options.Model = None,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's training split.")] = None,
    tasks: Tasks = 100,
    episodes_per_task: Annotated[int, typer.Option("--episodes-per-task", min=1, help="Episodes of each task.")] = 1,
    candidates: Candidates = 8,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of the agent's model.")] = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    guide: Annotated[
        str | None,
        typer.Option("--guide", help="A critic that takes the candidate to send, or self; default: the first is sent."),
    ] = None,
    states: WhoseStates = "agent",
    interface: Annotated[str, typer.Option("--interface", help="none, a shipped name, or a .py file.")] = "none",
    base_url: options.BaseUrl = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
    data_root: options.DataRoot = None,
) -> None:
    """Play tasks with several candidates a turn, label every one by the environment's oracle, write them as Parquet."""
    path = _folder(out, resume, "collect", env)
    spec = environment(env)
    split = split or spec.train_split
    all_tasks = spec.tasks(split, data_root)
    drawing = Drawing(candidates, temperature, top_k, top_p, guide, states)
    collected = collect_into(
        path,
        env,
        agent=agent,
        model=model,
        split=split,
        task_ids=pick_tasks(all_tasks, tasks, task_type=spec.task_type, seed=seed),
        samples=episodes_per_task,
        drawing=drawing,
        interface=interface,
        base_url=base_url,
        seed=seed,
        workers=workers,
        data_root=data_root,
        resume=resume,
    )
    conducts = {interface: collected.conduct}
    leave(
        agent_broke="agent" in collected.faults_by_source, trouble=verdict(conducts), warning=overstepped(conducts)
    )


@critic.command("train")
def train(
    examples: Annotated[
        list[Path] | None, typer.Option("--examples", help="A collection's folder; may be given several times.")
    ] = None,
    steps: Annotated[
        Path | None, typer.Option("--steps", help="Instead: a step dataset's folder, for a critic on screens.")
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option("--predictions", help="On --steps; may be given several times. Default: its predictions.jsonl."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="What it begins as: a model's folder, pocket or, on screens, tiny-vl."),
    ] = None,
    rule: LabelRule = None,
    weights: Annotated[str | None, typer.Option("--weights", help="lora or full; default: the preset's.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate; default: the preset's.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Default: the preset's.")] = None,
    config: Config = None,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of the tasks that is not learned from.")] = 0.1,
    reasoning: Annotated[
        bool, typer.Option("--reasoning", help="A critic that writes a reason before its verdict, by GRPO.")
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of every draw; default: 0.")] = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Train a critic on collected actions, one token each, and calibrate it on tasks that it did not learn from."""
    if bool(examples) == bool(steps) or (predictions and not steps) or (rule and steps):
        raise UsageError("give --examples, with a --rule if need be, or --steps, with --predictions if need be")
    if reasoning and steps:
        raise UsageError("a critic that reasons reads text: --reasoning is for --examples")
    if reasoning and epochs is not None:
        raise UsageError("--epochs is not for --reasoning, which counts steps: set `steps` in --config")
    begun = model or ("tiny-vl" if steps else "pocket")
    path = _folder(out, resume, "critic", Path(begun).name)
    changes = {"weights": weights, "lr": lr, "seed": seed, **({} if reasoning else {"epochs": epochs})}
    if steps:
        fit_screens_into(
            path, steps, predictions or (), model=begun, config=config, changes=changes, share=held_out, resume=resume
        )
        return
    fitting = fit_reasoning_into if reasoning else fit_into
    fitting(
        path, examples or (), model=begun, rule=rule, config=config, changes=changes, share=held_out, resume=resume
    )


@critic.command("evaluate")
def evaluate(
    judge: Annotated[str, typer.Option("--critic", help="The critic: a model's name or folder.")],
    examples: Examples,
    rule: LabelRule = None,
    reasoning: options.Reasoning = False,
    votes: Annotated[
        int | None, typer.Option("--votes", min=1, help="Of --reasoning: verdicts on each action; default 1, greedy.")
    ] = None,
    base_url: options.BaseUrl = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """How right a critic is on collected actions, and what best-of-N under it would have sent, for every N."""
    if votes is not None and not reasoning:
        raise UsageError("--votes counts reasoned verdicts: add --reasoning")
    path = _folder(out, resume, "trial", "critic")
    asked = (votes or 1) if reasoning else None
    evaluate_critic_into(path, judge, examples, rule=rule, base_url=base_url, seed=seed, votes=asked, resume=resume)


@critic.command("gui-record")
def gui_record(
    episodes: Annotated[Path, typer.Argument(help="Episodes on MiniWoB: a folder of collect or evaluate.")],
    out: Annotated[Path, typer.Option("--out", help="The step dataset: a folder that is not there yet.")],
) -> None:
    """Play episodes on MiniWoB again and write their turns as a step dataset, with screenshots and predictions."""
    gui_record_into(out, episodes)


@critic.command("gui-steps")
def gui_steps(
    folder: Annotated[Path, typer.Argument(help="A step dataset: steps.jsonl and screens/.")],
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="What an agent proposed; default: predictions.jsonl there.")
    ] = None,
    judge: Annotated[Path | None, typer.Option("--critic", help="The folder of a critic on screens.")] = None,
    candidates: Annotated[
        int | None, typer.Option("--candidates", min=1, help="At most so many of a step; default: as all steps have.")
    ] = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Score predicted actions on a step dataset: type, grounding, success, and best-of-N under a critic."""
    path = _folder(out, resume, "gui-steps", folder.name)
    file = predictions or folder / PREDICTIONS
    gui_steps_into(path, folder, file, critic=judge, most=candidates, seed=seed, resume=resume)


@critic.command("flywheel")
def flywheel(
    env: options.Env,
    agent: options.Agent = None,
    model: options.Model = None,
    critic_model: Annotated[
        str, typer.Option("--critic", help="What the critic begins as: pocket or a model's folder.")
    ] = "pocket",
    begin: Annotated[
        Begin, typer.Option("--begin", help="In later rounds: start, as --critic, or last, as the critic before.")
    ] = "start",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How often it turns.")] = 2,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's training split.")] = None,
    tasks: Tasks = 100,
    test_split: Annotated[
        str | None, typer.Option("--test-split", help="Default: the environment's test split.")
    ] = None,
    test_tasks: Annotated[int, typer.Option("--test-tasks", min=1, help="Of the test split, played once.")] = 50,
    test_candidates: Annotated[
        int | None, typer.Option("--test-candidates", min=2, help="Drawn there; default: as --candidates.")
    ] = None,
    candidates: Annotated[int, typer.Option("--candidates", min=2, help="Replies that the agent draws a turn.")] = 8,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of the agent's model.")] = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    states: WhoseStates = "agent",
    rule: LabelRule = None,
    weights: Annotated[str | None, typer.Option("--weights", help="lora or full; default: the preset's.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate; default: the preset's.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Default: the preset's.")] = None,
    config: Config = None,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of tasks for the calibration.")] = 0.1,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Collect, train, put on trial; then again under the critic that came out, for some rounds."""
    path = _folder(out, resume, "flywheel", env)
    wheel = Wheel(
        env=env,
        agent=agent,
        model=model,
        critic=critic_model,
        begin=begin,
        rounds=rounds,
        split=split or environment(env).train_split,
        tasks=tasks,
        test_split=test_split or environment(env).test_split,
        test_tasks=test_tasks,
        drawing=Drawing(candidates, temperature, top_k, top_p, None, states),
        test_candidates=test_candidates or candidates,
        rule=rule,
        config=config,
        settings={"weights": weights, "lr": lr, "epochs": epochs, "seed": seed},
        share=held_out,
        seed=seed,
        workers=workers,
    )
    turned = turn(path, wheel, resume=resume)
    leave(agent_broke=any("agent" in one.collected.faults_by_source for one in turned.rounds))


def _folder(out: Path | None, resume: bool, verb: str, what: str) -> Path:
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    return out or new_folder(verb, what)
