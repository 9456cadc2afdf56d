"""`align-echo critic`: collect labelled actions, train a critic on them, and evaluate it (GAIA).

Not here: the work (`align_echo/gaia`, for screens `align_echo/gaia/gui`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from align_echo.agents.players import choose_agent
from align_echo.cli import options
from align_echo.cli.console import leave, resumable, run_display, run_folder, say, stdout
from align_echo.critic.calibration import LEAST_TEMPERATURE, CriticReport
from align_echo.critic.labels import LABEL_RULES
from align_echo.errors import UsageError
from align_echo.evaluate.plan import model_named, pick_tasks
from align_echo.evaluate.tables import plain_table
from align_echo.gaia import collect as collecting
from align_echo.gaia import flywheel as wheels
from align_echo.gaia.collect import CandidateSettings, CollectionSummary, States, plan_collection
from align_echo.gaia.examples import LEAST_ACTIONS
from align_echo.gaia.fit.folder import CRITIC, read_settings
from align_echo.gaia.fit.intuitive import TrainingSummary, fit, read_fit_settings
from align_echo.gaia.flywheel import Begin, FlywheelConfig, FlywheelSummary, critic_folder
from align_echo.gaia.gui.fit import TINY, fit_screens
from align_echo.gaia.gui.recording import RecordingResult, record_episodes
from align_echo.gaia.gui.screens import RuleAccuracy, ScreenTrialResult
from align_echo.gaia.gui.trial import trial_on_screens
from align_echo.gaia.trial import BaselineComparison, TrialResult, run_trial
from align_echo.intervals import Estimate
from align_echo.models.choosing import ModelName, read_name
from align_echo.models.local import POCKET
from align_echo.registry import quantity
from align_echo.report.plots import figure
from align_echo.rollout.display import Display, note
from align_echo.rollout.faults import overstepped, tell, verdict
from align_echo.train.needs import require_pictures, require_training
from align_echo.workers.ray_cluster import read_workers
from align_echo.wrappers.catalogue import environment

# ---------------------------------------------------------------- print the results of the critic's verbs


def show_part(part: CollectionSummary | TrainingSummary | TrialResult) -> None:
    """Print a part of a flywheel."""
    if isinstance(part, CollectionSummary):
        show_collected(part)
    elif isinstance(part, TrainingSummary):
        show_fitted(part)
    else:
        show_trial(part)


def show_fitted(fitted: TrainingSummary) -> None:
    """Print the report of an intuitive critic on held-out tasks."""
    show_held_out(fitted.held_out, fitted.temperature, "task")
    show_baselines(fitted.baselines)


def show_collected(collected: CollectionSummary) -> None:
    """Print the outcome of the episodes, and the labels by rule."""
    played = f"{quantity(collected.episodes, 'episode')} of {quantity(collected.tasks, 'task')}"
    print(f"{played} ({collected.faults} more broke), {percent(collected.success_rate)} won")
    print(f"{collected.turns:,} turns, {collected.candidates:,} candidates, {collected.examples:,} distinct examples")
    if collected.unlabelled:
        print(f"{collected.unlabelled:,} turns have no labels: they did not come out again as they had, or broke twice")
    table = plain_table("labels by rule")
    for head in ("rule", "correct", "wrong", "cannot tell"):
        table.add_column(head)
    for rule, shares in collected.labels.items():
        if shares.correct or shares.wrong:
            table.add_row(rule, f"{shares.correct:,}", f"{shares.wrong:,}", f"{shares.unknown:,}")
    stdout().print(table)


def show_baselines(baselines: Mapping[str, BaselineComparison]) -> None:
    """Print the baselines on the same actions, and whether the critic is shown to be better."""
    for name, compared in baselines.items():
        lead = f"{compared.lead.value:+.1f} points {compared.lead.interval(signed=True)}"
        print(f"{name}: {percent(compared.accuracy)}; the critic is {lead} from it")
    beaten = [name for name, compared in baselines.items() if compared.lead.sign > 0]
    if len(beaten) < len(baselines):
        unbeaten = " and ".join(name for name in baselines if name not in beaten)
        note(f"warning: this critic is not shown to beat {unbeaten}: collect more, or train longer, before it is used")


def show_held_out(held_out: CriticReport | None, temperature: float, unit: str) -> None:
    """Print a critic's report on held-out data, counted by `unit`: "task" or "episode"."""
    if held_out is None:
        print(f"no {unit} was held out: the critic is neither tested nor calibrated, its temperature is 1")
        return
    show_report(held_out, f"held-out {unit}s, as many correct as wrong ones")
    if temperature < 2 * LEAST_TEMPERATURE:
        note("its logits separate the held-out actions: these are too few to calibrate on, hold out more")


def show_report(report: CriticReport, about: str) -> None:
    """Print a critic's figures, and the confusion by type of action."""
    print(f"{report.n:,} actions of {report.accuracy.n} {about}; {report.unreadable} verdicts could not be read")
    print(f"accuracy {percent(report.accuracy)}, of the better constant answer {report.constant_accuracy:.1f}%")
    if report.auroc is not None:
        print(f"area under the ROC curve {figure(report.auroc, 3)}")
    elif report.with_logit:
        print("area under the ROC curve: not defined, the actions with probabilities are all correct or all wrong")
    if report.before is not None and report.after is not None:
        line = f"expected calibration error {report.before.ece:.3f}, at temperature {report.temperature:.2f} "
        print(f"{line}{report.after.ece:.3f}")
    table = plain_table("correct | wrong actions, by verdict")
    for head in ("action", "judged correct", "judged wrong", "no verdict"):
        table.add_column(head)
    for kind, confusion in report.confusion.items():
        correct = f"{confusion.correct_as_correct} | {confusion.wrong_as_correct}"
        table.add_row(
            kind, correct, f"{confusion.correct_as_wrong} | {confusion.wrong_as_wrong}", str(confusion.no_verdict)
        )
    stdout().print(table)


def show_trial(trial: TrialResult) -> None:
    """Print the report, and step success by rule and number of candidates."""
    show_report(trial.critic, "tasks, every distinct candidate")
    rules = list(dict.fromkeys(success.rule for success in trial.curve))
    table = plain_table(f"right action taken, % of {trial.states:,} states, by the rule {trial.label_rule!r}")
    for head in ("candidates", *rules):
        table.add_column(head)
    for n in sorted({success.candidates for success in trial.curve}):
        by_rule = {success.rule: success.success for success in trial.curve if success.candidates == n}
        table.add_row(str(n), *(percent(by_rule[rule]) for rule in rules))
    stdout().print(table)


def percent(rate: Estimate) -> str:
    """Format a rate in percent with its interval."""
    return f"{rate.value:.1f}% {rate.interval()}"


def show_flywheel(summary: FlywheelSummary) -> None:
    """Print the flywheel's references, and its rounds."""
    print(f"held-out states: a single draw is right in {percent(summary.single)}, pass@N {percent(summary.ceiling)}")
    table = plain_table("rounds, on held-out tasks")
    heads = ("round", "learned from", "accuracy", "AUROC", "calibration error", "right action taken", "over one draw")
    for head in heads:
        table.add_column(head)
    for round_record in summary.rounds:
        report = round_record.trial.critic
        table.add_row(
            str(round_record.number),
            f"{round_record.fitted.learned_from:,}",
            percent(report.accuracy),
            "-" if report.auroc is None else f"{report.auroc.value:.3f}",
            "-" if report.after is None else f"{report.after.ece:.3f}",
            percent(round_record.best.success),
            figure(round_record.best.gain, signed=True),
        )
    stdout().print(table)


def show_screens(trial: ScreenTrialResult) -> None:
    """Print the figures of the first candidates, the critic's report, and every rule by number of candidates."""
    print(
        f"{trial.steps:,} steps of {trial.episodes:,} episodes; {trial.unparsed} of {trial.candidates:,} candidates "
        "are no actions"
    )
    if trial.critic is not None:
        show_report(trial.critic, "episodes, every distinct action")
    table = plain_table("% of the steps (GR: of those with a click of the right type)")
    for head in ("candidates", "rule", "Type", "GR", "SR", "SR gain"):
        table.add_column(head)
    for point in trial.curve:
        if point.candidates > 1 or point is trial.curve[0]:
            table.add_row(*_row(point))
    stdout().print(table)


def _row(point: RuleAccuracy) -> tuple[str, ...]:
    rule = "first" if point.candidates == 1 else point.rule
    grounding = "-" if point.grounding is None else percent(point.grounding)
    rates = percent(point.type), grounding, percent(point.success)
    return str(point.candidates), rule, *rates, f"{point.gain.value:+.1f}"


def show_recording(recording: RecordingResult) -> None:
    """Print the outcome of the replayed episodes."""
    print(f"{recording.steps:,} steps of {recording.episodes:,} episodes;", end=" ")
    print(f"in {recording.no_expert:,} turns the expert knows no action")
    if recording.changed:
        print(f"{recording.changed} of {recording.episodes} episodes did not come out again as they had, and end there")
    if recording.broken:
        print(f"in {recording.broken} of {recording.episodes} episodes the browser failed, and they end there")


# ---------------------------------------------------------------- `align-echo critic`

Changes = Mapping[str, object]
"""Settings by the names of their options, None for unset ones."""

critic = typer.Typer(help="Collect labelled actions, train a critic on them, evaluate it.", no_args_is_help=True)

Candidates = Annotated[int, typer.Option("--candidates", min=1, help="Replies drawn by the agent every turn.")]
TopK = Annotated[int | None, typer.Option("--top-k", min=0, help="For a local model; default: 30, 0 disables it.")]
TopP = Annotated[float | None, typer.Option("--top-p", min=0, max=1, help="For a local model; default: 0.8.")]
WhoseStates = Annotated[
    States,
    typer.Option("--states", help="Whose actions are carried out: agent (the chosen candidate), expert, or mixed."),
]
Tasks = Annotated[int, typer.Option("--tasks", min=1, help="Number of tasks of the split.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="YAML of settings, or small or paper-gaia; default: by the model's size."),
]
LabelRule = Annotated[
    str | None,
    typer.Option(
        "--rule", help=f"Label rule: {', '.join(LABEL_RULES.entries())}, or module:NAME; default: the environment's."
    ),
]
Picks = Annotated[
    list[str] | None,
    typer.Option("--pick", help="A rule of selection to compare with the registry's: module:NAME; repeatable."),
]
Examples = Annotated[list[Path], typer.Option("--examples", help="A collection's folder; may be given several times.")]


@critic.command("collect")
def collect(
    env: options.Env,
    agent: options.Agent = None,
    model: options.Model = None,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's training split.")] = None,
    tasks: Tasks = 100,
    episodes_per_task: Annotated[int, typer.Option("--episodes-per-task", min=1, help="Episodes of each task.")] = 1,
    candidates: Candidates = 8,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Temperature of the agent's model.")] = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    judge: Annotated[
        str | None,
        typer.Option("--judge", help="Critic that chooses the candidate to send, or self; default: the first is sent."),
    ] = None,
    states: WhoseStates = "agent",
    rule: Annotated[
        str | None, typer.Option("--rule", help="A label rule of your own, besides the environment's: module:NAME.")
    ] = None,
    interface: options.Interface = "none",
    retract: options.Retract = True,
    base_url: options.BaseUrl = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
    data_root: options.DataRoot = None,
) -> None:
    """Play tasks with several candidates a turn, label them by the environment's oracle, write them as Parquet."""
    spec = environment(env)
    split = split or spec.train_split
    path = run_folder(out, resume, "collect", spec.name)
    player = choose_agent(agent, model, (spec.name,))
    drawing = CandidateSettings(
        candidates, temperature, top_k, top_p, model_named(judge, player) if judge else None, states
    )
    plan = plan_collection(
        spec, player, drawing, split=split, samples=episodes_per_task, interface=interface, retract=retract,
        task_ids=pick_tasks(spec.tasks(split, data_root), tasks, task_type=spec.task_type, seed=seed),
        base_url=base_url, seed=seed, workers=read_workers(workers), data_root=data_root,
    )  # fmt: skip
    with run_display(path, resume=resume) as display:
        collected = collecting.collect(plan, drawing, path, resume=resume, rule=rule, progress=display)
    show_collected(collected)
    conducts = {interface: collected.conduct}
    for line in tell(conducts):
        print(line)
    say(f"written: {path / 'examples.parquet'}, and the episodes and labels beside it")
    leave(agent_broke="agent" in collected.faults_by_source, trouble=verdict(conducts), warning=overstepped(conducts))


@critic.command("train")
def train(
    examples: Annotated[
        list[Path] | None, typer.Option("--examples", help="A collection's folder; may be given several times.")
    ] = None,
    recording: Annotated[
        Path | None, typer.Option("--recording", help="Instead: a step dataset's folder, for a critic on screens.")
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option("--predictions", help="Predictions for --recording; repeatable. Default: its predictions.jsonl."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Initial model: a model's folder, pocket or, for screens, tiny-vl."),
    ] = None,
    rule: LabelRule = None,
    weights: Annotated[str | None, typer.Option("--weights", help="lora or full; default: the preset's.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate; default: the preset's.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Epochs; default: the preset's.")] = None,
    config: Config = None,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of tasks held out of training.")] = 0.1,
    reasoning: Annotated[
        bool, typer.Option("--reasoning", help="Train a critic that writes a reason before its verdict, by GRPO.")
    ] = False,
    least: Annotated[int, typer.Option("--least", min=1, help="Fewest training actions allowed.")] = LEAST_ACTIONS,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of all random draws; default: 0.")] = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Train a critic on collected actions, one token each, and calibrate it on held-out tasks."""
    if bool(examples) == bool(recording) or (predictions and not recording) or (rule and recording):
        raise UsageError("give --examples, with a --rule if need be, or --recording, with --predictions if need be")
    if reasoning and recording:
        raise UsageError("a critic that reasons reads text: --reasoning is for --examples")
    if reasoning and epochs is not None:
        raise UsageError("--epochs is not for --reasoning, which counts steps: set `steps` in --config")
    require_training()
    if recording:
        require_pictures()
    start = read_name(model or (TINY if recording else POCKET))
    path = run_folder(out, resume, "critic", Path(start.text).name)
    changes = {"weights": weights, "lr": lr, "seed": seed, **({} if reasoning else {"epochs": epochs})}
    if recording:
        _train_on_screens(path, recording, predictions or [], start, config, changes, held_out, least, resume)
    elif reasoning:
        _train_to_reason(path, examples or [], start, rule, config, changes, held_out, least, resume)
    else:
        _train(path, examples or [], start, rule, config, changes, held_out, least, resume)


def _train(
    path: Path, examples: list[Path], model: ModelName, rule: str | None, config: Path | None, changes: Changes,
    share: float, least: int, resume: bool,
) -> None:  # fmt: skip
    from align_echo.train.role_models import find_source

    named = config is not None or any(value is not None for value in changes.values())
    settings = read_fit_settings(find_source(model), config, changes) if named else None
    with resumable(path), Display() as display:
        fitted = fit(
            examples, path, model=model, rule=rule, settings=settings, share=share, least=least,
            resume=resume, progress=display,
        )  # fmt: skip
    show_fitted(fitted)
    say(f"written: {path / CRITIC}, to be named as --judge")


def _train_to_reason(
    path: Path, examples: list[Path], model: ModelName, rule: str | None, config: Path | None, changes: Changes,
    share: float, least: int, resume: bool,
) -> None:  # fmt: skip
    from align_echo.gaia.fit.reasoning import ReasoningSettings, fit_reasoning

    settings = read_settings(ReasoningSettings, config, changes)
    with resumable(path), Display() as display:
        fitted = fit_reasoning(
            examples, path, model=model, rule=rule, settings=settings, share=share, least=least,
            resume=resume, progress=display,
        )  # fmt: skip
    if fitted.held_out is None:
        print("no task was held out: the critic is not tested")
    else:
        show_report(fitted.held_out, "held-out tasks, as many correct as wrong ones")
    say(f"written: {path / CRITIC}, to be named as --judge with --reasoning")


def _train_on_screens(
    path: Path, recording: Path, predictions: list[Path], model: ModelName, config: Path | None, changes: Changes,
    share: float, least: int, resume: bool,
) -> None:  # fmt: skip
    from align_echo.gaia.gui.learning import VisionSettings

    settings = read_settings(VisionSettings, config, changes)
    with resumable(path), Display() as display:
        fitted = fit_screens(
            recording, path, predictions=predictions, model=model, settings=settings, share=share, least=least,
            resume=resume, progress=display,
        )  # fmt: skip
    show_held_out(fitted.held_out, fitted.temperature, "episode")
    say(f"written: {path / CRITIC}, to be named as --judge of align-echo critic gui-steps")


@critic.command("evaluate")
def evaluate(
    judge: Annotated[str, typer.Option("--judge", help="The critic: a model's name or folder.")],
    examples: Examples,
    rule: LabelRule = None,
    pick: Picks = None,
    env: Annotated[str | None, typer.Option("--env", help="Your own environment, if used: module:Name.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Your own agent, if used: module:Name.")] = None,
    reasoning: options.Reasoning = False,
    votes: Annotated[
        int | None, typer.Option("--votes", min=1, help="With --reasoning: verdicts per action; default: 1, greedy.")
    ] = None,
    base_url: options.BaseUrl = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Measure a critic on collected actions, and the success of best-of-N selection by it, for every N."""
    if votes is not None and not reasoning:
        raise UsageError("--votes counts reasoned verdicts: add --reasoning")
    path = run_folder(out, resume, "trial", "critic")
    with resumable(path), Display() as display:
        result = run_trial(
            judge, examples, path, rule=rule, picks=pick or (), env=env, agent=agent, base_url=base_url, seed=seed,
            votes=(votes or 1) if reasoning else None, resume=resume, progress=display,
        )  # fmt: skip
    show_trial(result)
    say(f"written: {path / 'summary.json'}")


@critic.command("gui-record")
def gui_record(
    episodes: Annotated[Path, typer.Argument(help="Episodes on MiniWoB: a folder of collect or evaluate.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", parser=options.folder, metavar="<path>", help="The step dataset: a folder that does not exist yet."
        ),
    ],
) -> None:
    """Replay episodes of MiniWoB and write their turns as a step dataset, with screenshots and predictions."""
    with Display() as display:
        recording = record_episodes(episodes, out, progress=display)
    show_recording(recording)
    say(f"written: {out}, for align-echo critic gui-steps and critic train --recording")


@critic.command("gui-steps")
def gui_steps(
    folder: Annotated[Path, typer.Argument(help="A step dataset: steps.jsonl and screens/.")],
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="An agent's predictions; default: predictions.jsonl there.")
    ] = None,
    judge: Annotated[Path | None, typer.Option("--judge", help="Folder of a critic of screens.")] = None,
    candidates: Annotated[
        int | None, typer.Option("--candidates", min=1, help="Most candidates of a step; default: as all steps have.")
    ] = None,
    pick: Picks = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Score predicted actions on a step dataset: type, grounding, success, and best-of-N under a critic."""
    path = run_folder(out, resume, "gui-steps", folder.name)
    with resumable(path), Display() as display:
        result = trial_on_screens(
            folder, path, predictions=predictions, judge=judge, candidates=candidates, picks=pick or (), seed=seed,
            resume=resume, progress=display,
        )  # fmt: skip
    show_screens(result)
    say(f"written: {path / 'summary.json'}")


@critic.command("flywheel")
def flywheel(
    env: options.Env,
    agent: options.Agent = None,
    model: options.Model = None,
    critic_model: Annotated[
        str, typer.Option("--critic-model", help="Initial model of the critic: pocket or a model's folder.")
    ] = POCKET,
    begin: Annotated[
        Begin, typer.Option("--begin", help="Later rounds begin with: start (--critic-model) or last (critic before).")
    ] = "start",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of rounds.")] = 2,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's training split.")] = None,
    tasks: Tasks = 100,
    test_split: Annotated[
        str | None, typer.Option("--test-split", help="Default: the environment's test split.")
    ] = None,
    test_tasks: Annotated[int, typer.Option("--test-tasks", min=1, help="Tasks of the test split, played once.")] = 50,
    test_candidates: Annotated[
        int | None, typer.Option("--test-candidates", min=2, help="Candidates of the test; default: as --candidates.")
    ] = None,
    candidates: Annotated[int, typer.Option("--candidates", min=2, help="Replies drawn by the agent every turn.")] = 8,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Temperature of the agent's model.")] = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    states: WhoseStates = "agent",
    rule: LabelRule = None,
    pick: Picks = None,
    weights: Annotated[str | None, typer.Option("--weights", help="lora or full; default: the preset's.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate; default: the preset's.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Epochs; default: the preset's.")] = None,
    config: Config = None,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of tasks for the calibration.")] = 0.1,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Collect, train and evaluate a critic, and repeat under its guidance, for some rounds."""
    require_training()
    from align_echo.train.role_models import find_source

    spec, start = environment(env), read_name(critic_model)
    path = run_folder(out, resume, "flywheel", spec.name)
    changes: Changes = {"weights": weights, "lr": lr, "epochs": epochs, "seed": seed}
    settings = FlywheelConfig(
        spec=spec,
        player=choose_agent(agent, model, (spec.name,)),
        settings=read_fit_settings(find_source(start), config, changes),
        critic=start,
        split=split or spec.train_split,
        test_split=test_split or spec.test_split,
        drawing=CandidateSettings(candidates, temperature, top_k, top_p, None, states),
        test_candidates=test_candidates or candidates,
        share=held_out,
        rounds=rounds, tasks=tasks, test_tasks=test_tasks, begin=begin, rule=rule,
        picks=tuple(pick or ()), seed=seed,
        workers=read_workers(workers),
    )  # fmt: skip
    with run_display(path, resume=resume) as display:
        summary = wheels.run_flywheel(settings, path, resume=resume, progress=display, watch=show_part)
    show_flywheel(summary)
    say(f"written: {path / 'summary.json'}; the last critic is {critic_folder(path, rounds)}")
    leave(agent_broke=any("agent" in round_record.collected.faults_by_source for round_record in summary.rounds))
