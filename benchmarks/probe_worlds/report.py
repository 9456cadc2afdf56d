"""Figures over measured worlds: a table by feature, the record of each world, and the line that sums up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from align_echo.errors import UsageError
from align_echo.intervals import Estimate, clustered_rate, ratio
from align_echo.reading import json_object
from benchmarks.probe_worlds.features import Features
from benchmarks.probe_worlds.measure import ARMS, Measured
from benchmarks.probe_worlds.worlds import make_world

GROUPS: dict[str, Callable[[Features], str]] = {
    "all": lambda _: "",
    "names": lambda features: features.spelling,
    "refusal": lambda features: features.refusal,
    "lists": lambda features: "actions" if features.listed else "nothing",
    "listing": lambda features: _listing(features),
    "depth": lambda features: str(features.depth),
    "looks": lambda features: "some" if features.looks else "none",
    "states": lambda features: "shown" if features.shown else "hidden",
    "agents": lambda features: "err" if features.misaligned else "err nowhere",
}
HEAD = ("feature", "value", "worlds", "there", "recall % [95%]", "false per 100 worlds", "taught nothing", *ARMS)


def _listing(features: Features) -> str:
    if features.listed:
        return "listed"
    return "offered" if features.offers else "neither"


def recall(worlds: Sequence[Measured]) -> Estimate | None:
    """Percent of the true rules that were found, with worlds as clusters; None where there are none to find."""
    counts = [(sum(world.learned.values()), sum(world.there.values())) for world in worlds]
    counts = [(learned, there) for learned, there in counts if there]
    if not counts:
        return None
    return clustered_rate([learned for learned, _ in counts], [there for _, there in counts])


def table(worlds: Sequence[Measured]) -> str:
    """One table by feature. "taught nothing" counts worlds for which the interface
    has no rule; success is that of the obedient
    agent and of the ordinary one, in percent of the test tasks."""
    rows = [HEAD, tuple("---" for _ in HEAD)]
    for feature, value_of in GROUPS.items():
        for value in sorted({value_of(measured.world.features) for measured in worlds}):
            group = [measured for measured in worlds if value_of(measured.world.features) == value]
            rows.append(_row(feature, value, group))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(feature: str, value: str, group: Sequence[Measured]) -> tuple[str, ...]:
    share = recall(group)
    share_in_words = f"{share.value:.0f} {share.interval(0)}" if share else "nothing there"
    success = (" / ".join(f"{rate:.0f}" for rate in _success(group, arm).values()) for arm in ARMS)
    return (
        *(feature, value, str(len(group))),
        str(sum(sum(measured.there.values()) for measured in group)),
        share_in_words,
        f"{100 * sum(len(measured.false) for measured in group) / len(group):.0f}",
        str(sum(not measured.claimed for measured in group)),
        *success,
    )


def _success(group: Sequence[Measured], arm: str) -> dict[str, float]:
    """Percent of the test tasks won, by agent."""
    tasks = sum(measured.tasks for measured in group)
    agents = group[0].won
    return {agent: 100 * sum(measured.won[agent][arm] for measured in group) / tasks for agent in agents}


def over_placebo(worlds: Sequence[Measured], agent: str) -> Estimate:
    """Points of success that the interfaces add to their placebos, for an agent, with worlds as clusters. Raises
    `UsageError` for no world."""
    added = [100.0 * (measured.won[agent]["with"] - measured.won[agent]["placebo"]) for measured in worlds]
    return ratio(added, [float(measured.tasks) for measured in worlds])


def gains(worlds: Sequence[Measured]) -> str:
    """What the interfaces add to their placebos, by agent, where agents err and where they do not."""
    lines = []
    for err, name in ((True, "err"), (False, "err nowhere")):
        group = [measured for measured in worlds if measured.world.features.misaligned is err]
        for agent in group[0].won if group else ():
            gain = over_placebo(group, agent)
            interval = f"{gain.value:+.1f} points {gain.interval()}"
            lines.append(f"{agent} agent over placebo where agents {name}: {interval}, {gain.n} worlds")
    return "\n".join(lines)


def summary(worlds: Sequence[Measured]) -> dict[str, Any]:
    """The last line, the figures by sort of rule, and the record of every world."""
    return {"result": last_line(worlds), "by_sort": by_sort(worlds), "worlds": [record(world) for world in worlds]}


def by_sort(worlds: Sequence[Measured]) -> dict[str, dict[str, int]]:
    """True rules that are there and that were found, by sort, of worlds that list their actions."""
    listed = [measured for measured in worlds if measured.world.features.listed]
    sorts = dict.fromkeys(sort for measured in listed for sort in measured.there)
    return {
        sort: {
            "there": sum(measured.there[sort] for measured in listed),
            "found": sum(measured.learned[sort] for measured in listed),
        }
        for sort in sorts
    }


def record(measured: Measured) -> dict[str, Any]:
    """One world as JSON."""
    counts = {"there": measured.there, "learned": measured.learned, "claimed": measured.claimed}
    return {
        "seed": measured.world.seed,
        "features": asdict(measured.world.features),
        **counts,
        "false": list(measured.false),
        "refused": measured.refused,
        "tasks": measured.tasks,
        "won": measured.won,
        "engine_steps": measured.engine_steps,
    }


def read(file: Path) -> list[Measured]:
    """The worlds of a summary that was written. Raises `UsageError` for another file."""
    known = json_object(file)
    if known is None or "worlds" not in known:
        raise UsageError(f"{file} is no summary of made-up worlds")
    same = ("there", "learned", "claimed", "refused", "tasks", "won", "engine_steps")
    return [
        Measured(
            world=replace(make_world(world["seed"]), features=Features(**world["features"])),
            false=tuple(world["false"]),
            **{name: world[name] for name in same},
        )
        for world in known["worlds"]
    ]


def last_line(worlds: Sequence[Measured]) -> dict[str, Any]:
    """The recall where actions are listed; beside it as the baseline 0, what knowing nothing finds."""
    listed = [measured for measured in worlds if measured.world.features.listed]
    share = recall(listed)
    return {
        "name": "recall of the probe on made-up worlds that list their actions",
        "value": None if share is None else round(share.value, 1),
        "ci95": None if share is None or share.ci95 is None else [round(end, 1) for end in share.ci95],
        "unit": "percent of true rules",
        "baseline": 0.0,
        "ratio": None,
        "n": 0 if share is None else share.n,
    }
