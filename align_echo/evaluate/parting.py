"""Two episodes of one game, turn by turn from the point where they diverge, to show an interface's effect as text.

    lines = parting(before, after)

Not here: hints without effect, and games with the same outcome.
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
"""Most different turns of each episode after they diverge; a repeated turn counts once."""
LONGEST = 300
"""Most characters of an observation."""
WIDTH = 110


def show_parting(path: Path) -> list[str]:
    """Show the game of a comparison that best illustrates the interface's effect, as lines; empty without such a game.

    `path` is the comparison's folder. Of the games lost without the interface and won with it, the one with the fewest
    turns is shown. Raises `UsageError` for a damaged file of trajectories.
    """
    before, after = (JsonlFile(path / "trajectories" / f"{name}.jsonl").read(Trajectory) for name in (BASELINE, "full"))
    pair = telling_pair(before, after)
    names = (f"interface: {NAMES[BASELINE]}", f"interface: {NAMES['full']}")
    return [] if pair is None else ["", *parting(*pair, names=names), ""]


def telling_pair(before: Iterable[Trajectory], after: Iterable[Trajectory]) -> tuple[Trajectory, Trajectory] | None:
    """Find the episode lost before and won after in the fewest turns; None without any."""
    lost = {_key(episode): episode for episode in before if episode.fault is None and not episode.won}
    won = [episode for episode in after if episode.fault is None and episode.won and _key(episode) in lost]
    best = min(won, key=lambda episode: (len(episode.steps), _key(episode)), default=None)
    return None if best is None else (lost[_key(best)], best)


def parting(before: Trajectory, after: Trajectory, *, names: tuple[str, str] = ("before", "after")) -> list[str]:
    """Print two episodes of one task as lines: the number of common turns, then the rest of each, under its name."""
    same = parts_at(before, after)
    lines = [f"One task twice: {printable(before.task_id)}", *_wrapped("task: ", before.goal)]
    lines += [f"the same until turn {same}"] if same else []
    for name, trajectory in zip(names, (before, after), strict=True):
        outcome = "won" if trajectory.won else "not won"
        lines += ["", f"{name}: {outcome}, {len(trajectory.steps)} turns; from turn {same + 1}:"]
        lines += _turns(trajectory.steps, same)
    return lines


def parts_at(before: Trajectory, after: Trajectory) -> int:
    """Count the common turns from the start, by action and observation."""
    pairs = zip(before.steps, after.steps, strict=False)
    return next(
        (turn for turn, (left, right) in enumerate(pairs) if _turn_key(left) != _turn_key(right)),
        min(len(before.steps), len(after.steps)),
    )


def _turns(steps: Sequence[Step], first: int) -> Iterator[str]:
    """Print the turns from `first` on, counted from 0; a turn repeated at once is printed once, with its count."""
    number = first
    runs = [list(run) for _, run in groupby(steps[first:], key=_turn_key)]
    for run in islice(runs, MOST_TURNS):
        again = f"   ({len(run)} times)" if len(run) > 1 else ""
        yield f"{number + 1:4}  > {printable(run[0].action or run[0].reply)}{again}"
        yield from _wrapped("        ", run[0].observation)
        number += len(run)
    if number < len(steps):
        yield f"      ... and {len(steps) - number} turns more"


def _wrapped(lead: str, text: str) -> list[str]:
    flat = " ".join(text.split())
    flat = flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 3]}..."
    return textwrap.wrap(printable(flat), WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _turn_key(step: Step) -> tuple[str, str]:
    return step.action or step.reply, step.observation


def _key(trajectory: Trajectory) -> tuple[str, int]:
    return trajectory.task_id, trajectory.sample
