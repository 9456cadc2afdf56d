"""Step success over the number of candidates, by rule of selection: pooled over seeds, as table, plot and JSON.

The states are those of each seed's held-out collection. Intervals resample seeds and, within each, tasks. Left out:
episodes (`benchmarks.learning.report`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from align_echo.critic.scoring import read_calibration
from align_echo.gaia.collection import default_episode_rule, read_collection
from align_echo.gaia.figures import CEILING, JudgedState, collect_states, correct_choices
from align_echo.gaia.flywheel import critic_folder
from align_echo.gaia.opinions import read_opinions
from align_echo.intervals import RESAMPLES
from benchmarks.flywheel.runs import CANDIDATES

Table = npt.NDArray[np.float64]
BY_ROUND: dict[str, str] = {"round {}": "critic", "round {} tilted": "tilted"}
BASELINES: tuple[str, ...] = ("placebo", "random", "majority", "logprob", CEILING)


class CurvePoint(BaseModel):
    """Of all states, the share in which `rule` takes a right action of the first `candidates`; 0 to 1.

    `gain` is over a single draw, `n` counts states.
    """

    rule: str
    candidates: int
    value: float
    ci95: tuple[float, float]
    gain: float
    gain_ci95: tuple[float, float]
    n: int


@dataclass(frozen=True)
class JudgedStates:
    """What a seed's critics would have taken: the same states with the opinions of each round."""

    by_round: tuple[list[JudgedState], ...]
    temperatures: tuple[float, ...]


def judged_states(wheel: Path, rounds: int) -> JudgedStates:
    """Of a finished flywheel."""
    played, labelled = read_collection(wheel / "held-out")
    rule = default_episode_rule(zip(played, labelled, strict=True))
    found = [
        collect_states(played, labelled, read_opinions(played, wheel / f"round-{number}" / "trial"), rule)
        for number in range(1, rounds + 1)
    ]
    temperatures = (read_calibration(critic_folder(wheel, number)).temperature for number in range(1, rounds + 1))
    return JudgedStates(tuple(found), tuple(temperatures))


def points(seeds: Sequence[JudgedStates]) -> list[CurvePoint]:
    """The curves: the critic of each round, alone and tilting the agent's choice, the other rules, and pass@N."""
    rounds = len(seeds[0].by_round)
    single = [_by_task(seed.by_round[0], "first", 1) for seed in seeds]
    found = []
    for number in range(rounds):
        for name, rule in BY_ROUND.items():
            for n in range(1, CANDIDATES + 1):
                right = [_by_task(seed.by_round[number], rule, n, seed.temperatures[number]) for seed in seeds]
                found.append(_point(name.format(number + 1), n, right, single))
    for rule in BASELINES:
        for n in range(1, CANDIDATES + 1):
            found.append(_point(rule, n, [_by_task(seed.by_round[0], rule, n) for seed in seeds], single))
    return found


def compared(seeds: Sequence[JudgedStates]) -> list[CurvePoint]:
    """With all candidates, the last round's critic over the first's and over log-probability, and its tilt over
    log-probability: `gain` is over that.
    """
    last = len(seeds[0].by_round)
    pairs = (
        (f"round {last} over round 1", _with_all(seeds, "critic", last), _with_all(seeds, "critic", 1)),
        (f"round {last} over logprob", _with_all(seeds, "critic", last), _with_all(seeds, "logprob", 1)),
        (f"round {last} tilted over logprob", _with_all(seeds, "tilted", last), _with_all(seeds, "logprob", 1)),
    )
    return [_point(name, CANDIDATES, right, against) for name, right, against in pairs]


def _with_all(seeds: Sequence[JudgedStates], rule: str, number: int) -> list[Table]:
    return [_by_task(seed.by_round[number - 1], rule, CANDIDATES, seed.temperatures[number - 1]) for seed in seeds]


def _by_task(states: Sequence[JudgedState], rule: str, n: int, temperature: float = 1.0) -> Table:
    """[tasks, 2]: right actions, and states."""
    right_S = correct_choices(states, rule, n, temperature=temperature)
    places = {task: index for index, task in enumerate(dict.fromkeys(state.task for state in states))}
    table = np.zeros((len(places), 2))
    for state, right in zip(states, right_S, strict=True):
        table[places[state.task]] += (right, 1)
    return table


def _point(rule: str, n: int, right: Sequence[Table], against: Sequence[Table]) -> CurvePoint:
    both = [np.concatenate([one, other[:, :1]], axis=1) for one, other in zip(right, against, strict=True)]
    draw = np.random.default_rng(0)
    drawn = [_sums(both, draw) for _ in range(RESAMPLES)]
    total = np.concatenate(both).sum(axis=0)
    values, gains = [sums[0] / sums[1] for sums in drawn], [(sums[0] - sums[2]) / sums[1] for sums in drawn]
    return CurvePoint(
        rule=rule,
        candidates=n,
        value=total[0] / total[1],
        ci95=_ends(values),
        gain=(total[0] - total[2]) / total[1],
        gain_ci95=_ends(gains),
        n=int(total[1]),
    )


def _sums(tables: Sequence[Table], draw: np.random.Generator) -> Table:
    """[3]: the sums over tasks drawn within seeds that are drawn."""
    chosen = [tables[place] for place in draw.integers(len(tables), size=len(tables))]
    drawn = [one[draw.integers(len(one), size=len(one))] for one in chosen]
    return np.asarray(np.concatenate(drawn).sum(axis=0))


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)


def table_of(found: Sequence[CurvePoint]) -> str:
    """A row for each rule, a column for each number of candidates, percent; then the gain with all over one draw."""
    heads = "".join(f" {n} |" for n in range(1, CANDIDATES + 1))
    lines = [f"| rule |{heads} gain with {CANDIDATES} |", "|---" * (CANDIDATES + 2) + "|"]
    for rule in dict.fromkeys(point.rule for point in found):
        row = [point for point in found if point.rule == rule]
        last = row[-1]
        low, high = (100 * end for end in last.gain_ci95)
        cells = "".join(f" {100 * point.value:.1f} |" for point in row)
        lines.append(f"| {rule} |{cells} {100 * last.gain:+.1f} [{low:+.1f}, {high:+.1f}] |")
    return "\n".join(lines)


def plot(found: Sequence[CurvePoint], title: str, file: Path) -> None:
    """The curves with their intervals, as SVG. The same points give the same file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": title, "font.size": 9}):
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for rule in dict.fromkeys(point.rule for point in found):
            row = [point for point in found if point.rule == rule]
            n, value = [point.candidates for point in row], [100 * point.value for point in row]
            style = "--" if rule == CEILING else "-" if rule.startswith("round") else ":"
            axes.plot(n, value, style, label="pass@N" if rule == CEILING else rule)
            low, high = ([100 * point.ci95[end] for point in row] for end in (0, 1))
            axes.fill_between(n, low, high, alpha=0.12)
        axes.set(xlabel="candidates", ylabel="states in which a right action is taken, %", title=title)
        axes.legend()
        figure.savefig(file, format="svg", metadata={"Date": None})
