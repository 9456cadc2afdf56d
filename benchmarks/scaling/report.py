"""Set-ups of one machine, of 8 GPUs and of 64, and the table of what a simulation says of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.scaling.figures import Figures, Setup
from benchmarks.scaling.simulate import RESOURCES, Step, bound, publication, simulate

HERE = Path(__file__).parent
FILES = {"here": HERE / "here.yaml", "gpu": HERE / "gpu.yaml", "scienceworld": HERE / "scienceworld.yaml"}
"""Figures that come along, by name."""

MEBIBYTE = 2**20

HEAD = (
    "| set-up | GPUs, engines + learners | cores | environments | s a step: play, learn, publish | turns/s | busy: "
    + ", ".join(RESOURCES)
    + " | scarcest | MiB in, out | $ a million turns |"
)


def setups(figures: Figures, gpus: int, environments: int, cores: int, episodes: int) -> dict[str, Setup]:
    """The three ways to use so many GPUs: in turn, divided, and divided with the next harvest played ahead.

    How they are divided is what `step_seconds` finds fastest.
    """
    in_turn = Setup(
        environments=environments, cores=cores, episodes=episodes, engines=gpus, learners=gpus, colocated=True
    )
    if gpus == 1:
        return {"1 GPU, in turn": in_turn}
    divided = {
        name: min(
            (
                in_turn.model_copy(
                    update={"engines": count, "learners": gpus - count, "ahead": ahead, "colocated": False}
                )
                for count in range(1, gpus)
            ),
            key=lambda setup: step_seconds(figures, setup),
        )
        for name, ahead in (("divided", False), ("divided, ahead", True))
    }
    return {f"{gpus} GPUs, {name}": setup for name, setup in {"in turn": in_turn, **divided}.items()}


def capacities(figures: Figures) -> dict[str, float]:
    """Turns a second that one unit of each resource could do if it had nothing to wait for."""
    turns = sum(figures.turns) / len(figures.turns)
    context = figures.opening_tokens / turns + figures.observation_tokens
    seconds = {
        "cores": figures.reset_seconds / turns + figures.step_seconds,
        "engines": figures.reply_tokens / figures.best_rate + context / figures.reading,
        "learners": (context + figures.reply_tokens) / figures.learning,
        "driver": figures.driver_seconds / turns,
        "link": figures.turn_bytes / figures.link_bytes,
    }
    return {name: 1 / second if second else float("inf") for name, second in seconds.items()}


def capacity_table(figures: Figures) -> str:
    """Markdown: what one unit does, and how many of it keep up with 64 GPUs that are divided evenly by their work."""
    each = capacities(figures)
    whole = 64 / (1 / each["engines"] + 1 / each["learners"])
    lines = [f"| resource | turns/s of one | of it for {whole:,.0f} turns/s |", "|---|---|---|"]
    lines += [f"| {name} | {each[name]:,.0f} | {whole / each[name]:,.2f} |" for name in RESOURCES]
    return "\n".join(lines)


def step_seconds(figures: Figures, setup: Setup) -> float:
    """Seconds of a step without a simulation, by the work of its scarcest resource: to choose between set-ups."""
    turns = sum(figures.turns) / len(figures.turns)
    tokens = figures.opening_tokens + turns * (figures.observation_tokens + figures.reply_tokens)
    play, learn = bound(figures, setup), setup.episodes * tokens / (figures.learning * setup.learners)
    return (max(play, learn) if setup.ahead else play + learn) + publication(figures, setup)[0]


SIZES = {
    "here": [(1, 8, 1, 32)],
    "gpu": [(1, 64, 16, 256), (8, 1024, 64, 1024), (64, 10_000, 512, 10_000)],
    "scienceworld": [(1, 64, 16, 256), (8, 1024, 64, 1024), (64, 10_000, 512, 10_000)],
}
"""(GPUs, environments, cores, episodes a harvest) by the figures' name; `here` an engine and a learner on cores."""


def table(figures: Figures, named: Mapping[str, Setup], *, steps: int, seed: int) -> str:
    """Markdown, a line a set-up."""
    lines = [HEAD, "|" + "---|" * HEAD.count(" |")]
    lines += [_line(name, setup, simulate(figures, setup, steps=steps, seed=seed)) for name, setup in named.items()]
    return "\n".join(lines)


def _line(name: str, setup: Setup, step: Step) -> str:
    gpus = f"{setup.gpus} in turn" if setup.colocated else f"{setup.engines} + {setup.learners}"
    cells = [
        name,
        gpus,
        f"{setup.cores:,}",
        f"{setup.environments:,}",
        f"{step.seconds:.1f}: {step.harvest:.1f}, {step.learn:.1f}, {step.publish:.2f}",
        f"{step.turns_a_second:,.0f}",
        ", ".join(f"{step.busy[resource]:.0%}" for resource in RESOURCES),
        step.scarcest,
        f"{step.bytes_in / MEBIBYTE:,.1f}, {step.bytes_out / MEBIBYTE:,.1f}",
        f"{step.dollars:,.2f}",
    ]
    return "| " + " | ".join(cells) + " |"
