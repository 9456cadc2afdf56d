"""What happens in a generation run, for the event log and for whoever shows the progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from align_echo.types import Fault, Frozen

EventKind = Literal[
    "run-started",
    "iteration-started",
    "trajectory",
    "misalignments",
    "interface",
    "iteration-finished",
    "run-finished",
    "note",
]


class Event(Frozen):
    """One event. `message` is a whole sentence for people; `done` of `total` counts within the iteration.

    "trajectory": `done` of `total` episodes are over, `task_id`, `won` (None: it broke) and `fault`
    are of this one.
    "misalignments": `total` new ones. "interface": `path` of the file written. "note": something worth knowing.
    `time` is when the event was logged (ISO 8601, UTC); empty for one that is not in `events.jsonl`.
    """

    kind: EventKind
    message: str
    iteration: int = 0
    done: int = 0
    total: int = 0
    task_id: str = ""
    won: bool | None = None
    path: str = ""
    fault: Fault | None = None
    time: str = ""


OnEvent = Callable[[Event], None]
