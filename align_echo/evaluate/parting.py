"""One game played twice, turn by turn from where the two episodes part: what an interface changed, as text.

    lines = parting(before, after)

Left out: which turns an interface spoke on for no effect, and games of which both were won or both lost.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

from align_echo.evaluate.comparison import BASELINE
from align_echo.evaluate.tables import NAMES
from align_echo.jsonl import JsonlFile
from align_echo.sandbox.session import printable
from align_echo.types import Step, Trajectory

MOST_TURNS = 8
"""Different turns that are shown of each episode from where they part; a turn that is repeated counts once."""
LONGEST = 300
"""Characters that are shown of an observation."""
WIDTH = 110


def parting_of_run(path: Path) -> list[str]:
    """The game of a comparison that best shows what the whole interface changed, as lines; no lines where none does.

    `path` is the comparison's folder. Of the games lost without the interface and won with it, the one won in the
    fewest turns is shown. Raises `UsageError` for a damaged file of trajectories.
    """
    before, after = (JsonlFile(path / "trajectories" / f"{name}.jsonl").read(Trajectory) for name in (BASELINE, "full"))
    pair = telling_pair(before, after)
    names = (f"interface: {NAMES[BASELINE]}", f"interface: {NAMES['full']}")
    return [] if pair is None else ["", *parting(*pair, names=names), ""]


def telling_pair(before: Iterable[Trajectory], after: Iterable[Trajectory]) -> tuple[Trajectory, Trajectory] | None:
    """The same episode lost before and won after, in the fewest turns; None where there is none."""
    lost = {_key(played): played for played in before if played.fault is None and not played.won}
    won = [played for played in after if played.fault is None and played.won and _key(played) in lost]
    best = min(won, key=lambda played: (len(played.steps), _key(played)), default=None)
    return None if best is None else (lost[_key(best)], best)


def parting(before: Trajectory, after: Trajectory, *, names: tuple[str, str] = ("before", "after")) -> list[str]:
    """Two episodes of one task as lines: how many turns are the same, then each from there, under its name."""
    same = parts_at(before, after)
    lines = [f"One task twice: {printable(before.task_id)}", *_wrapped("task: ", before.goal)]
    lines += [f"the same until turn {same}"] if same else []
    for name, played in zip(names, (before, after), strict=True):
        how = "won" if played.won else "not won"
        lines += ["", f"{name}: {how}, {len(played.steps)} turns; from turn {same + 1}:"]
        lines += _turns(played.steps, same)
    return lines


def parts_at(before: Trajectory, after: Trajectory) -> int:
    """How many turns from the first are the same in action and observation."""
    pairs = zip(before.steps, after.steps, strict=False)
    return next(
        (turn for turn, (one, other) in enumerate(pairs) if _shown(one) != _shown(other)),
        min(len(before.steps), len(after.steps)),
    )


def _turns(steps: Sequence[Step], first: int) -> Iterator[str]:
    """The turns from `first` on, counted from 0; a turn that is repeated at once is shown once, with how often."""
    number = first
    runs = [list(run) for _, run in groupby(steps[first:], key=_shown)]
    for run in islice(runs, MOST_TURNS):
        again = f"   ({len(run)} times)" if len(run) > 1 else ""
        yield f"{number + 1:4}  > {printable(run[0].action or run[0].reply)}{again}"
        yield from _wrapped("        ", run[0].observation)
        number += len(run)
    if number < len(steps):
        yield f"      ... and {len(steps) - number} turns more"


def _wrapped(lead: str, text: str) -> list[str]:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."
    return textwrap.wrap(printable(shown), WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _shown(step: Step) -> tuple[str, str]:
    return step.action or step.reply, step.observation


def _key(played: Trajectory) -> tuple[str, int]:
    return played.task_id, played.sample
