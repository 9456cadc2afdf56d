"""How long a page of 10,000 episodes takes to open: `python -m benchmarks.viewer_open [--episodes N] [--rounds N]`.

Episodes of the scripted novice on M3ToolEval, each told apart by its id, are packed as `align-echo view` does. Headless
Chromium opens the page from disk in every round, and by turns a plain one with the same JSON inlined, uncompressed, and
every row in the list. Timed in the page: from the start of loading to the frame after the list is there and answers,
and from a click on the last row to the frame with its episode. Prints a table, then one JSON line: `value` is the
median of the first, `baseline` the plain page's. `interval` is that from the least to the most of the rounds: it holds
the median with 95% from 6 rounds on. On a machine that does other things wall time is theirs too: `load` is that of the
last minute for each processor, `processor_s` what the page's own thread took until the list was there. Without Chromium
the line says what is `missing`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.errors import EngineError, MissingDataError, MissingExtraError
from align_echo.rollout import run_tasks
from align_echo.view.packing import write_page
from align_echo.wrappers.miniwob.chromium import BrowserProcess
from benchmarks.rounds import at_least_one

ENVIRONMENT, PLAYED = "m3tooleval", 60
LIMIT = 2.0
"""Seconds within which the list is to be usable."""

PLAIN = """<!doctype html><meta charset="utf-8"><title>plain</title><ul id="list"></ul><pre id="shown"></pre>
<script type="application/json" id="data">[DATA]</script>
<script>
for (const episode of JSON.parse(document.getElementById("data").textContent)) {
  const row = document.createElement("li");
  row.className = "row";
  row.textContent = `${episode.won ? "won" : "lost"} ${episode.task_id}`;
  row.onclick = () => {
    document.getElementById("shown").textContent = JSON.stringify(episode, null, 1);
    document.getElementById("shown").className = "turn";
  };
  document.getElementById("list").append(row);
}
document.body.dataset.ready = "yes";
</script>"""

AT_START = """
    const look = () => {
        if (document.body?.dataset.ready && document.querySelector(".row")) {
            requestAnimationFrame(() => { window.openedAt = performance.now(); });
        } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
"""
OPENED = """
    const tell = arguments[0];
    const look = () => window.openedAt ? tell(window.openedAt / 1000) : requestAnimationFrame(look);
    look();
"""
SHOWN = """
    const tell = arguments[0];
    document.getElementById("list").scrollTop = 1e9;
    const frame = (next) => requestAnimationFrame(() => requestAnimationFrame(next));
    frame(() => {
        const start = performance.now();
        [...document.querySelectorAll(".row")].pop().click();
        const look = () => document.querySelector(".turn")
            ? requestAnimationFrame(() => tell((performance.now() - start) / 1000)) : requestAnimationFrame(look);
        look();
    });
"""


def write_episodes(folder: Path, count: int) -> list[str]:
    """Write so many episodes as runs do, of few that were played; gives their lines."""
    tasks = align_echo.tasks(ENVIRONMENT)[:PLAYED]
    played = run_tasks(lambda: align_echo.make(ENVIRONMENT), make_novice(ENVIRONMENT), tasks, split="test")
    lines = []
    for number in range(count):
        episode = played[number % len(played)]
        lines.append(episode.model_copy(update={"task_id": f"{episode.task_id}/{number}"}).model_dump_json())
    file = folder / "trajectories/none.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return lines


def opened(browser: BrowserProcess, file: Path) -> tuple[float, float, float]:
    """Seconds until the list of a page is usable, from a click until an episode is shown, and of the page's thread on
    a processor until the list was there."""
    browser.open("about:blank")
    browser.command("Performance.enable", {"timeDomain": "threadTicks"})
    browser.open(f"file://{file}")
    usable = browser.run_async(OPENED)
    told = browser.command("Performance.getMetrics", {})["metrics"]
    busy = next(float(metric["value"]) for metric in told if metric["name"] == "TaskDuration")
    return usable, browser.run_async(SHOWN), busy


def measure(browser: BrowserProcess, folder: Path, episodes: int, rounds: int) -> dict[str, Any]:
    """All figures of both pages."""
    lines = write_episodes(folder / "run", episodes)
    start = time.perf_counter()
    page, _ = write_page([folder / "run"], folder / "page.html")
    packing = time.perf_counter() - start
    plain = folder / "plain.html"
    plain.write_text(PLAIN.replace("DATA", ",".join(lines).replace("<", "\\u003c")), encoding="utf-8")
    times: dict[Path, list[tuple[float, float, float]]] = {page: [], plain: []}
    for _ in range(rounds):
        for file, seconds in times.items():
            seconds.append(opened(browser, file))
    columns = (tuple(zip(*seconds, strict=True)) for seconds in times.values())
    (lists, shown, busy), (plain_lists, plain_shown, plain_busy) = columns
    value, baseline = median(lists), median(plain_lists)
    return {
        **row(value, baseline, rounds),
        "interval": ends(lists),
        "baseline_interval": ends(plain_lists),
        "under_limit": value < LIMIT,
        "processor_s": median(busy),
        "baseline_processor_s": median(plain_busy),
        "load": round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
        "episodes": episodes,
        "episode_shown_s": median(shown),
        "episode_shown_interval": ends(shown),
        "baseline_episode_shown_s": median(plain_shown),
        "file_mb": round(page.stat().st_size / 1e6, 2),
        "baseline_file_mb": round(plain.stat().st_size / 1e6, 2),
        "packing_s": round(packing, 2),
    }


def row(value: float | None, baseline: float | None, rounds: int) -> dict[str, Any]:
    """What every benchmark's line has."""
    ratio = round(value / baseline, 4) if value and baseline else None
    return {"name": "viewer_open", "value": value, "unit": "s", "baseline": baseline, "ratio": ratio, "n": rounds}


def median(seconds: Sequence[float]) -> float:
    """To the millisecond."""
    return round(statistics.median(seconds), 3)


def ends(seconds: Sequence[float]) -> list[float]:
    """The least and the most."""
    return [round(min(seconds), 3), round(max(seconds), 3)]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000, help="how many episodes (default 10000)")
    parser.add_argument("--rounds", type=at_least_one, default=7, help="how often each page is opened (default 7)")
    given = parser.parse_args()
    try:
        browser = BrowserProcess((1280, 900), at_start=AT_START)
    except (MissingExtraError, MissingDataError) as error:
        print(json.dumps({**row(None, None, 0), "missing": str(error)}))
        return
    try:
        with TemporaryDirectory() as folder:
            figures = measure(browser, Path(folder), given.episodes, given.rounds)
    except EngineError as error:
        raise SystemExit(f"{error}; a page is given half a minute: try again with less beside it") from error
    finally:
        browser.close()
    print(f"{'':12} {'list, s':>9} {'episode, s':>11} {'MB':>9}")
    for name, lead in (("align-echo", ""), ("plain page", "baseline_")):
        seconds = figures["value" if not lead else "baseline"]
        print(f"{name:12} {seconds:9.3f} {figures[f'{lead}episode_shown_s']:11.3f} {figures[f'{lead}file_mb']:9.2f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
