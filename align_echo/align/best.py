"""Which version of an interface a run of ALIGN ends with: the last, unless an earlier one was played clearly better.

Versions are played on different training tasks, a few in each iteration, so that one more failure says nothing: the
last version is given up only where the 95% intervals of the two shares of failures do not overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from align_echo.align.run_folder import IterationRecord
from align_echo.intervals import Estimate, wilson


def best_iteration(records: Sequence[IterationRecord]) -> int:
    """The number of the iteration that made the best version; 0 for the one that the run began with."""
    failed: Counter[str] = Counter()
    played: Counter[str] = Counter()
    made_in = {records[0].interface_before: 0} if records else {}
    for record in records:
        failed[record.interface_before] += record.failed
        played[record.interface_before] += record.tasks - record.faults
        if record.outcome == "improved":
            made_in[record.interface_after] = record.iteration
    last = records[-1].interface_after if records else ""
    shares = {label: wilson(failed[label], played[label]) for label in made_in if played[label]}
    if last not in shares:
        return made_in.get(last, 0)
    best = min(shares, key=lambda label: (shares[label].value, label != last))
    return made_in[best if _clearly_less(shares[best], shares[last]) else last]


def _clearly_less(share: Estimate, other: Estimate) -> bool:
    """Whether a share is less than another, with no overlap of their intervals."""
    return share.high < other.low
