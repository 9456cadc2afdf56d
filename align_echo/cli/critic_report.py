"""How a critic's report and its trial are shown. Left out: the figures."""

from __future__ import annotations

from align_echo.cli.console import stdout
from align_echo.critic.calibration import CriticReport
from align_echo.evaluate.tables import plain_table
from align_echo.flywheel.trial import Trial
from align_echo.intervals import Estimate


def show_report(report: CriticReport, about: str) -> None:
    """The figures of a critic, and the confusion by type of action."""
    print(f"{report.n:,} actions of {report.accuracy.n} {about}; {report.unreadable} verdicts could not be read")
    print(f"accuracy {percent(report.accuracy)}, of the better constant answer {report.constant_accuracy:.1f}%")
    if report.auroc is not None:
        low, high = report.auroc.ci95
        print(f"area under the ROC curve {report.auroc.value:.3f} [{low:.3f}, {high:.3f}]")
    if report.before is not None and report.after is not None:
        shown = f"expected calibration error {report.before.ece:.3f}, at temperature {report.temperature:.2f} "
        print(f"{shown}{report.after.ece:.3f}")
    table = plain_table("correct | wrong actions, by verdict")
    for head in ("action", "judged correct", "judged wrong", "no verdict"):
        table.add_column(head)
    for kind, one in report.confusion.items():
        correct = f"{one.correct_as_correct} | {one.wrong_as_correct}"
        table.add_row(kind, correct, f"{one.correct_as_wrong} | {one.wrong_as_wrong}", str(one.no_verdict))
    stdout().print(table)


def show_trial(trial: Trial) -> None:
    """The report, and step success by rule and number of candidates."""
    show_report(trial.critic, "tasks, every distinct candidate")
    rules = list(dict.fromkeys(one.rule for one in trial.curve))
    table = plain_table(f"right action taken, % of {trial.states:,} states, by the rule {trial.label_rule!r}")
    for head in ("candidates", *rules):
        table.add_column(head)
    for n in sorted({one.candidates for one in trial.curve}):
        by_rule = {one.rule: one.success for one in trial.curve if one.candidates == n}
        table.add_row(str(n), *(percent(by_rule[rule]) for rule in rules))
    stdout().print(table)


def percent(rate: Estimate) -> str:
    """With the interval."""
    return f"{rate.value:.1f}% [{rate.ci95[0]:.1f}, {rate.ci95[1]:.1f}]"
