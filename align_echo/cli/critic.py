"""`align-echo critic`: collect labelled actions, train a critic on them, and evaluate it (GAIA).

Not here: the work (`align_echo/gaia`, for screens `align_echo/gaia/gui`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from align_echo.agents import options
from align_echo.agents.options import VerbConfig
from align_echo.cli.console import cost, leave, resumable, run_display, run_folder, say, stdout
from align_echo.cli.options import DryRun, Out, Resume, takes
from align_echo.critic.calibration import LEAST_TEMPERATURE, CriticReport
from align_echo.critic.labels import LABEL_RULES
from align_echo.errors import MissingDataError, UsageError
from align_echo.evaluate.forecast import forecast_plan
from align_echo.evaluate.tables import plain_table
from align_echo.gaia import collect as collecting
from align_echo.gaia import flywheel as wheels
from align_echo.gaia.collect import CollectionConfig, CollectionSummary, plan_collection
from align_echo.gaia.examples import LEAST_ACTIONS, examples_file
from align_echo.gaia.fit.folder import CRITIC, Epochs, LearningRate, SettingsFile, WeightsName, read_settings
from align_echo.gaia.fit.intuitive import TrainingSummary, fit, read_fit_settings
from align_echo.gaia.flywheel import FlywheelConfig, FlywheelSummary, critic_folder, plan_flywheel
from align_echo.gaia.gui.fit import TINY, fit_screens
from align_echo.gaia.gui.recording import RecordingResult, record_episodes
from align_echo.gaia.gui.screens import RuleAccuracy, ScreenTrialResult
from align_echo.gaia.gui.trial import trial_on_screens
from align_echo.gaia.presets import presets
from align_echo.gaia.trial import BaselineComparison, LabelRuleName, PickNames, TrialConfig, TrialResult, run_trial
from align_echo.intervals import Estimate
from align_echo.models.choosing import ModelName, read_name
from align_echo.models.local import POCKET
from align_echo.registry import quantity
from align_echo.report.plots import figure
from align_echo.rollout.display import Display, note
from align_echo.rollout.faults import overstepped, tell, verdict
from align_echo.train.needs import require_pictures, require_training

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

critic = typer.Typer(help="Collect labelled actions, train a critic on them, evaluate it.")

class ScreenTrialConfig(VerbConfig):
    """Options of `align-echo critic gui-steps`."""

    predictions: Annotated[
        Path | None, Field(description="An agent's predictions; default: predictions.jsonl there.")
    ] = None
    judge: Annotated[Path | None, Field(description="Folder of a critic of screens.")] = None
    candidates: Annotated[
        int | None, Field(ge=1, description="Most candidates of a step; default: as all steps have.")
    ] = None
    pick: PickNames = ()
    seed: options.Seed = 0


class CriticTrainingConfig(VerbConfig):
    """Options of `align-echo critic train`."""

    examples: Annotated[
        tuple[Path, ...], Field(description="A collection's folder; may be given several times.")
    ] = ()
    recording: Annotated[
        Path | None, Field(description="Instead: a step dataset's folder, for a critic on screens.")
    ] = None
    predictions: Annotated[
        tuple[Path, ...],
        Field(description="Predictions for --recording; repeatable. Default: its predictions.jsonl."),
    ] = ()
    model: Annotated[
        str | None, Field(description="Initial model: a model's folder, pocket or, for screens, tiny-vl.")
    ] = None
    rule: LabelRuleName = None
    weights: WeightsName = None
    lr: LearningRate = None
    epochs: Epochs = None
    config: SettingsFile = None
    held_out: Annotated[float, Field(description="Share of tasks held out of training.")] = 0.1
    reasoning: Annotated[
        bool, Field(description="Train a critic that writes a reason before its verdict, by GRPO.")
    ] = False
    least: Annotated[int, Field(ge=1, description="Fewest training actions allowed.")] = LEAST_ACTIONS
    seed: Annotated[int | None, Field(ge=0, description="Seed of all random draws; default: 0.")] = None

    @property
    def changes(self) -> dict[str, object]:
        """Return the settings named by options, None for unset ones."""
        epochs = {} if self.reasoning else {"epochs": self.epochs}
        return {"weights": self.weights, "lr": self.lr, "seed": self.seed, **epochs}

    def check(self) -> None:
        """Raise `UsageError` for contradictory options and an unknown rule, `MissingDataError` for a missing file."""
        examples, recording = bool(self.examples), self.recording is not None
        if examples == recording or (self.predictions and not recording) or (self.rule and recording):
            raise UsageError("give --examples, with a --rule if need be, or --recording, with --predictions if need be")
        if self.reasoning and recording:
            raise UsageError("a critic that reasons reads text: --reasoning is for --examples")
        if self.reasoning and self.epochs is not None:
            raise UsageError("--epochs is not for --reasoning, which counts steps: set `steps` in --config")
        if self.rule is not None:
            LABEL_RULES.get(self.rule)
        for path in self.examples:
            examples_file(path)
        settings = () if self.config is None or str(self.config) in presets() else (self.config,)
        for path in (*self.predictions, *settings):
            if not path.is_file():
                raise MissingDataError(f"there is no file {path}")
        if self.recording is not None and not self.recording.is_dir():
            raise MissingDataError(f"there is no folder {self.recording}")


@critic.command("collect")
@takes(CollectionConfig)
def collect(
    config: CollectionConfig, out: Out = None, resume: Resume = False, dry_run: DryRun = False
) -> None:
    """Play tasks with several candidates a turn, label them by the environment's oracle, write them as Parquet."""
    plan = plan_collection(config)
    if dry_run:
        print(*forecast_plan(plan.evaluation).lines, sep="\n")
        return
    path = run_folder(out, resume, "collect", plan.evaluation.spec.name)
    with run_display(path, resume=resume) as display:
        collected = collecting.collect(plan, path, resume=resume, progress=display)
    show_collected(collected)
    cost(collected.usage, display.spent)
    conducts = {config.interface: collected.conduct}
    for line in tell(conducts):
        print(line)
    say(f"written: {path / 'examples.parquet'}, and the episodes and labels beside it")
    leave(agent_broke="agent" in collected.faults_by_source, trouble=verdict(conducts), warning=overstepped(conducts))


@critic.command("train")
@takes(CriticTrainingConfig)
def train(config: CriticTrainingConfig, out: Out = None, resume: Resume = False) -> None:
    """Train a critic on collected actions, one token each, and calibrate it on held-out tasks."""
    config.check()
    require_training()
    if config.recording:
        require_pictures()
    start = read_name(config.model or (TINY if config.recording else POCKET))
    path = run_folder(out, resume, "critic", Path(start.text).name)
    with resumable(path), Display() as display:
        if config.recording:
            _train_on_screens(config, config.recording, start, path, resume, display)
        elif config.reasoning:
            _train_to_reason(config, start, path, resume, display)
        else:
            _train(config, start, path, resume, display)


def _train(config: CriticTrainingConfig, model: ModelName, path: Path, resume: bool, display: Display) -> None:
    from align_echo.train.role_models import find_source

    named = config.config is not None or any(value is not None for value in config.changes.values())
    settings = read_fit_settings(find_source(model), config.config, config.changes) if named else None
    fitted = fit(
        config.examples, path, model=model, rule=config.rule, settings=settings, share=config.held_out,
        least=config.least, resume=resume, progress=display,
    )  # fmt: skip
    show_fitted(fitted)
    say(f"written: {path / CRITIC}, to be named as --judge")


def _train_to_reason(
    config: CriticTrainingConfig, model: ModelName, path: Path, resume: bool, display: Display
) -> None:
    from align_echo.gaia.fit.reasoning import ReasoningSettings, fit_reasoning

    fitted = fit_reasoning(
        config.examples, path, model=model, rule=config.rule,
        settings=read_settings(ReasoningSettings, config.config, config.changes),
        share=config.held_out, least=config.least, resume=resume, progress=display,
    )  # fmt: skip
    if fitted.held_out is None:
        print("no task was held out: the critic is not tested")
    else:
        show_report(fitted.held_out, "held-out tasks, as many correct as wrong ones")
    say(f"written: {path / CRITIC}, to be named as --judge with --reasoning")


def _train_on_screens(
    config: CriticTrainingConfig, recording: Path, model: ModelName, path: Path, resume: bool, display: Display
) -> None:
    from align_echo.gaia.gui.learning import VisionSettings

    fitted = fit_screens(
        recording, path, predictions=config.predictions, model=model,
        settings=read_settings(VisionSettings, config.config, config.changes),
        share=config.held_out, least=config.least, resume=resume, progress=display,
    )  # fmt: skip
    show_held_out(fitted.held_out, fitted.temperature, "episode")
    say(f"written: {path / CRITIC}, to be named as --judge of align-echo critic gui-steps")


@critic.command("evaluate")
@takes(TrialConfig)
def evaluate(config: TrialConfig, out: Out = None, resume: Resume = False) -> None:
    """Measure a critic on collected actions, and the success of best-of-N selection by it, for every N."""
    path = run_folder(out, resume, "trial", "critic")
    with resumable(path), Display() as display:
        result = run_trial(config, path, resume=resume, progress=display)
    show_trial(result)
    cost(None, display.spent)
    say(f"written: {path / 'summary.json'}")


@critic.command("gui-record")
def gui_record(
    episodes: Annotated[Path, typer.Argument(help="Episodes on MiniWoB: a folder of collect or evaluate.")],
    out: Annotated[
        Path,
        typer.Option("--out", help="The step dataset: a folder that does not exist yet."),
    ],
) -> None:
    """Replay episodes of MiniWoB and write their turns as a step dataset, with screenshots and predictions."""
    with Display() as display:
        recording = record_episodes(episodes, out, progress=display)
    show_recording(recording)
    say(f"written: {out}, for align-echo critic gui-steps and critic train --recording")


@critic.command("gui-steps")
@takes(ScreenTrialConfig)
def gui_steps(
    config: ScreenTrialConfig,
    folder: Annotated[Path, typer.Argument(help="A step dataset: steps.jsonl and screens/.")],
    out: Out = None,
    resume: Resume = False,
) -> None:
    """Score predicted actions on a step dataset: type, grounding, success, and best-of-N under a critic."""
    path = run_folder(out, resume, "gui-steps", folder.name)
    with resumable(path), Display() as display:
        result = trial_on_screens(
            folder, path, predictions=config.predictions, judge=config.judge, candidates=config.candidates,
            picks=config.pick, seed=config.seed, resume=resume, progress=display,
        )  # fmt: skip
    show_screens(result)
    say(f"written: {path / 'summary.json'}")


@critic.command("flywheel")
@takes(FlywheelConfig)
def flywheel(config: FlywheelConfig, out: Out = None, resume: Resume = False) -> None:
    """Collect, train and evaluate a critic, and repeat under its guidance, for some rounds."""
    plan = plan_flywheel(config)
    path = run_folder(out, resume, "flywheel", plan.spec.name)
    with run_display(path, resume=resume) as display:
        summary = wheels.run_flywheel(plan, path, resume=resume, progress=display, watch=show_part)
    show_flywheel(summary)
    cost(summary.usage, display.spent)
    say(f"written: {path / 'summary.json'}; the last critic is {critic_folder(path, plan.rounds)}")
    leave(agent_broke=any("agent" in round_record.collected.faults_by_source for round_record in summary.rounds))
