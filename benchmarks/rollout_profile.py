"""Where a rollout's time goes: `python -m benchmarks.rollout_profile [--episodes 32] [--picture FILE.png]`.

The pocket model plays ALFWorld's training games under the shipped interface (`alfworld/probe`), on threads of one
process and one thread of torch. A thread of its own looks every few milliseconds at what each thread is doing, and puts
the CPU time that it has used since down to the innermost part of the package that it is in (Linux alone tells that of
threads). So a share is one of CPU time. Prints a table, then one JSON line: `value` is the share of the model's forward
passes; there is nothing to hold it against, so `baseline` and `ratio` are null.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

import align_echo
from align_echo.agents.vanilla import Vanilla
from align_echo.models import load_model
from align_echo.rollout import run_tasks
from align_echo.wrappers.catalogue import environment

SPEC = environment("alfworld")
EVERY = 0.005
"""Seconds from one look to the next."""

PARTS = {
    "forward passes": (
        "models/local/slot_attention",
        "models/local/shared_columns",
        "models/local/pocket_model",
        "site-packages/torch/nn",
    ),
    "drawing tokens": ("models/local/sampling",),
    "the engine's slots and rows": ("models/local/",),
    "encoding text": ("site-packages/tokenizers",),
    "interface, in the sandbox": ("align_echo/sandbox", "pydantic_monty", "site-packages/pydantic_monty"),
    "the game": ("wrappers/alfworld",),
    "wrappers and hints": ("wrappers/", "align_echo/hints", "align_echo/interface"),
    "agent and episode": ("align_echo/agents", "align_echo/session", "align_echo/rollout", "align_echo/types"),
}
"""By a part's name, what a path in the code holds; the first part that fits a frame is the one it counts for."""


def part_of(frame: FrameType | None) -> str:
    """The part that the innermost frame is in which is in any."""
    while frame is not None:
        path = frame.f_code.co_filename
        for part, places in PARTS.items():
            if any(place in path for place in places):
                return part
        frame = frame.f_back
    return "the rest"


def cpu_seconds(thread: threading.Thread) -> float:
    """What a thread has used so far; 0 once it has ended."""
    try:
        told = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
    except OSError:
        return 0.0
    return int(told.split()[0]) / 1e9


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Within, all threads but the one that looks are looked at: the CPU seconds of each part."""
    seen: dict[str, float] = defaultdict(float)
    over, before = threading.Event(), {thread: cpu_seconds(thread) for thread in threading.enumerate()}

    def watch() -> None:
        while not over.wait(EVERY):
            frames = sys._current_frames()
            for thread in threading.enumerate():
                if thread is not threading.current_thread():
                    used = cpu_seconds(thread)
                    seen[part_of(frames.get(thread.ident or 0))] += max(0.0, used - before.get(thread, 0.0))
                    before[thread] = used

    looking = threading.Thread(target=watch, daemon=True)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def draw(shares: dict[str, float], file: Path, title: str) -> None:
    """One bar a part, the longest first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.45 * len(shares) + 1), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh(list(shares)[::-1], list(shares.values())[::-1], color="#4063d8")
    axes.bar_label(bars, fmt="%.1f%%", padding=3)
    axes.set_xlim(0, 1.15 * max(shares.values()))
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.xaxis.set_visible(False)
    figure.savefig(file, dpi=110)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32, help="(default 32)")
    parser.add_argument("--workers", type=int, default=16, help="episodes at once (default 16)")
    parser.add_argument("--interface", default="alfworld/probe", help="(default alfworld/probe; none for none)")
    parser.add_argument("--picture", type=Path, help="draw the shares into this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    interface = SPEC.interface(given.interface)
    agent = Vanilla(load_model("pocket"), temperature=0.0, max_tokens=64)
    tasks = list(align_echo.tasks("alfworld", split="train"))[: given.episodes + given.workers]

    def play(chosen: list[str]) -> int:
        played = run_tasks(
            lambda: SPEC.make("train", interface=interface, step_limit=30),
            agent,
            chosen,
            split="train",
            action_format=SPEC.action_format,
            workers=given.workers,
        )
        return sum(len(trajectory.steps) for trajectory in played)

    play(tasks[given.episodes :])  # warms up
    clock, cpu = time.perf_counter(), time.process_time()
    with watched() as seen:
        turns = play(tasks[: given.episodes])
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    total = sum(seen.values())
    shares = {part: 100 * seen[part] / total for part in sorted(seen, key=lambda part: -seen[part])}
    print("| part | share of CPU time |\n|---|---|")
    for part, share in shares.items():
        print(f"| {part} | {share:.1f}% |")
    print(f"\n{given.episodes} episodes, {turns} turns in {clock:.1f} s, {cpu:.1f} CPU s")
    if given.picture:
        draw(shares, given.picture, f"A rollout's CPU time: {given.episodes} games, {turns} turns, {cpu:.0f} CPU s")
    share = round(shares.get("forward passes", 0.0), 1)
    record = {"name": "forward passes in a rollout", "value": share, "unit": "%", "baseline": None, "ratio": None}
    print(json.dumps({**record, "n": turns, "seconds": round(clock, 1), "cpu_s": round(cpu, 1)}))


if __name__ == "__main__":
    main()
