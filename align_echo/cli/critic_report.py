"""Print the results of the critic's verbs. Not here: computing the figures."""

from __future__ import annotations

from collections.abc import Mapping

from align_echo.cli.console import stdout
from align_echo.critic.calibration import LEAST_TEMPERATURE, CriticReport
from align_echo.display import note
from align_echo.evaluate.tables import plain_table
from align_echo.gaia.baselines import BaselineComparison
from align_echo.gaia.collection import CollectionSummary
from align_echo.gaia.figures import TrialResult
from align_echo.gaia.fit.intuitive import TrainingSummary
from align_echo.gaia.flywheel import FlywheelSummary
from align_echo.grammar import quantity
from align_echo.gui.recording import RecordingResult
from align_echo.gui.screens import RuleAccuracy, ScreenTrialResult
from align_echo.intervals import Estimate
from align_echo.report.plots import figure


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
    print(f"{trial.steps:,} steps of {trial.episodes:,} episodes; {trial.unparsed} of {trial.candidates:,} candidates "
          "are no actions")
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
