"""What saturates first on many machines: `python -m benchmarks.scaling [here|gpu|scienceworld|FILE]`.

Simulates steps of training (`simulate.py`) by the figures of single machines and prints a table for one machine, for 8
GPUs and for 64 with 10,000 environments: how long a step takes, which share of it each resource works, what goes over
the network, what a million turns cost. Before it there is what one unit of each could do alone. Every figure says
whether it was measured or assumed; `--show` prints them, `--set NAME=VALUE` changes one.

`--measure FILE` measures those that this machine can tell, in CPU seconds on one thread, with the pocket model on
ALFWorld, and writes the file. GPU figures are not among them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml

from align_echo.errors import UsageError
from benchmarks.scaling.figures import Figures, Setup, read_figures
from benchmarks.scaling.report import FILES, SIZES, capacity_table, setups, table


def changes(pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE, values in YAML. Raises `UsageError` for another form."""
    wrong = next((pair for pair in pairs if "=" not in pair), None)
    if wrong is not None:
        raise UsageError(f"--set {wrong}: write NAME=VALUE")
    return {name: yaml.safe_load(value) for name, _, value in (pair.partition("=") for pair in pairs)}


def named_setups(figures: Figures, name: str) -> dict[str, Setup]:
    """Those that a table shows of figures by name; of a file's, those of GPUs."""
    sizes = SIZES.get(name, SIZES["gpu"])
    if name == "here":
        (_, environments, cores, episodes), = sizes
        waiting = Setup(environments=environments, cores=cores, engines=1, learners=1, episodes=episodes)
        ahead = waiting.model_copy(update={"ahead": True})
        return {"one core each": waiting, "one core each, ahead": ahead}
    return {key: setup for size in sizes for key, setup in setups(figures, *size).items()}


def main() -> None:
    """Simulate and print, or measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="?", default="gpu", help="a name or a file (default gpu)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another value of a figure")
    parser.add_argument("--steps", type=int, default=2, help="steps of each set-up (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="(default 0)")
    parser.add_argument("--show", action="store_true", help="print the figures and their sources, and simulate nothing")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure on this machine and write FILE")
    given = parser.parse_args()
    try:
        if given.measure:
            from benchmarks.scaling.measure import measured, written

            written(given.measure, measured(given.seed))
            return
        figures = read_figures(FILES.get(given.figures, Path(given.figures)), changes(given.set))
        if given.show:
            for name, source in figures.sources.items():
                print(f"{name}: {getattr(figures, name)}; {source}")
            return
        print(capacity_table(figures), end="\n\n")
        print(table(figures, named_setups(figures, given.figures), steps=given.steps, seed=given.seed))
    except UsageError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
