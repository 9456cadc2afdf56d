"""Which version of an interface a run of ALIGN ends with: the last, unless an earlier one was played clearly better.

Versions are played on different training tasks, a few in each iteration, so that one more failure says nothing: the
last version is given up only where the 95% intervals of the two shares of failures do not overlap. A version is known
by the hash of its source: its label changes with what becomes of its hints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from align_echo.align.run_folder import IterationRecord
from align_echo.intervals import Estimate, wilson


def best_iteration(records: Sequence[IterationRecord]) -> int:
    """The number of the iteration that made the best version; 0 for the one that the run began with."""
    if not records:
        return 0
    made_in = {records[0].version_before: 0}
    made_in |= {record.version_after: record.iteration for record in records if record.outcome == "written"}
    last, shares = records[-1].version_after, shares_of_failures(records)
    if last not in shares:
        return made_in[last]
    best = min(shares, key=lambda version: (shares[version].value, version != last))
    return made_in[best if _clearly_less(shares[best], shares[last]) else last]


def shares_of_failures(records: Sequence[IterationRecord]) -> dict[str, Estimate]:
    """By version that was played, the percent of its episodes that were lost; `n` is how many it was played in."""
    failed: Counter[str] = Counter()
    played: Counter[str] = Counter()
    for record in records:
        failed[record.version_before] += record.failed
        played[record.version_before] += record.tasks - record.faults
    return {version: wilson(failed[version], count) for version, count in played.items() if count}


def _clearly_less(share: Estimate, other: Estimate) -> bool:
    """Whether a share is less than another, with no overlap of their intervals."""
    return share.high < other.low
