"""What a run of ALIGN says of itself: why it ended, what came of an iteration, how an episode went.

A rule that was written was tried in experiments of its own. Whether an agent gained by it, only play tells
(`evaluate/in_play.py`), so that nothing here is called resolved.
"""

from __future__ import annotations

from align_echo.align.events import Event
from align_echo.align.run_folder import IterationRecord, RunSummary
from align_echo.faults import fault_text
from align_echo.grammar import quantity
from align_echo.intervals import Estimate
from align_echo.types import Trajectory


def ending(summary: RunSummary) -> str:
    """Why a run ended and what came of it, in one line."""
    last = summary.iterations[-1]
    failed, played = quantity(last.failed, "episode"), quantity(last.tasks, "episode")
    why = {
        "no-failures": "every training task of the last iteration was won",
        "no-misalignments": f"in the {failed} that failed last, the {summary.backend} backend found no "
        "new misalignment of the kinds that it looks for, which is no proof that there is none",
        "iteration-limit": f"the iterations are used up; {last.failed} of {played} of the last one failed",
    }[summary.stopped]
    broke = f" ({_broken(last.faults)})" if last.faults else ""
    rules = f"rules written for {summary.addressed}"
    return f"{why}{broke}; {quantity(summary.misalignments, 'misalignment')} found, {rules}"


def iteration_line(record: IterationRecord) -> str:
    """What came of an iteration, in one line."""
    found = quantity(record.misalignments, "misalignment")
    words = {
        "written": f"rules were written for {record.addressed} of {found}",
        "unchanged": f"no rule was written for {found}; the old interface is kept",
        "no-failures": "no episode failed",
        "no-misalignments": "no new misalignment was found",
    }
    played = f"{record.failed} of {quantity(record.tasks, 'episode')} failed"
    broke = f", {_broken(record.faults)}" if record.faults else ""
    return f"iteration {record.iteration}: {played}{broke}; {words[record.outcome]}"


def given_up_line(label: str, share: Estimate, better: str, better_share: Estimate) -> str:
    """Why a run ends with an earlier version than its last, with both shares."""
    return f"{label} lost {_lost(share)}, and {better} {_lost(better_share)}, which is clearly less: that one is kept"


def _broken(faults: int) -> str:
    return f"{faults} broke and {'was' if faults == 1 else 'were'} left out"


def _lost(share: Estimate) -> str:
    return f"{round(share.value * share.n / 100)} of {quantity(share.n, 'episode')}"


def episode_event(trajectory: Trajectory, iteration: int, done: int, total: int) -> Event:
    """The event of an episode that has ended."""
    won: bool | None = trajectory.won
    ended = "won" if trajectory.won else "not won"
    if trajectory.fault is not None:
        won = None
        ended = f"broke and is left out ({fault_text(trajectory.fault)})"
    return Event(
        kind="trajectory",
        message=f"{trajectory.task_id}: {ended} after {quantity(len(trajectory.steps), 'action')}",
        iteration=iteration,
        done=done,
        total=total,
        task_id=trajectory.task_id,
        won=won,
        fault=trajectory.fault,
    )
