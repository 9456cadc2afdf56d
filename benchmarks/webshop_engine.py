"""WebShop's engine beside a stock page pipeline: `python -m benchmarks.webshop_engine [--tasks N] [--rounds N]`.

Plays tasks of the embedded catalogue by searching, turning pages, opening products, choosing options and looking at sub
pages, in one process. The baseline is what a stock implementation does for each page, on the very pages that were
visited: render the page's HTML with a template engine, parse it for the text, parse it again for what can be clicked
(beautifulsoup4 where it is installed, else the standard library's parser, which is the faster one). Searching, choosing
the action and keeping the page are in our figure and not in the baseline. A round plays its share of the tasks and then
reads some of its pages. Also: resident memory of one environment and of 64, each in a process of its own; time of a
reset. Prints a table, then one JSON line: `value` is our steps a second, `baseline` the stock pages a second, the rest
as in `rounds.py`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import align_echo
from align_echo.wrappers.text_env import TextEnv
from align_echo.wrappers.webshop.env import WebShopEnv
from align_echo.wrappers.webshop.page_view import html
from align_echo.wrappers.webshop.pages import Shop, ShopPage
from benchmarks.rounds import Round, at_least_one, rates

SPLIT = "train"
ENDLESS = 10**9
MANY = 64


def make() -> WebShopEnv:
    """A raw environment that no step limit ends."""
    env = align_echo.make("webshop", split=SPLIT, step_limit=ENDLESS).unwrapped
    assert isinstance(env, WebShopEnv)
    return env


def next_action(env: TextEnv, rng: random.Random) -> str:
    """A click that does not buy, or a search of some words of the instruction."""
    clicks = [action for action in env.state.admissible_actions or () if action != "click[buy now]"]
    if rng.random() < 0.1 or not clicks or clicks[0].startswith("search["):
        words = env.goal.split()
        return f"search[{' '.join(rng.sample(words, min(5, len(words))))}]"
    return rng.choice(clicks)


@dataclass
class Played:
    """Seconds and processor seconds of all steps, seconds of each step and each reset, and the pages that were visited.
    """

    seconds: float = 0.0
    processor: float = 0.0
    steps: list[float] = field(default_factory=list)
    resets: list[float] = field(default_factory=list)
    pages: list[tuple[Shop, ShopPage]] = field(default_factory=list)

    @property
    def round(self) -> Round:
        """All steps."""
        return Round(len(self.steps), self.seconds, self.processor)


def play(env: WebShopEnv, tasks: Sequence[str], steps: int) -> Played:
    """Play tasks; to choose the actions counts as part of the steps' time."""
    rng = random.Random(0)
    played = Played()
    for task in tasks:
        start = time.perf_counter()
        env.reset(options={"task": task})
        played.resets.append(time.perf_counter() - start)
        clock, began = time.perf_counter(), time.thread_time()
        for _ in range(steps):
            action = next_action(env, rng)
            start = time.perf_counter()
            env.step(action)
            played.steps.append(time.perf_counter() - start)
            page, _ = env.snapshot().engine
            played.pages.append((env.shop, page))
        played.processor += time.thread_time() - began
        played.seconds += time.perf_counter() - clock
    return played


# ---------------------------------------------------------------- the baseline


def stock_parsers() -> tuple[str, Callable[[str], object], Callable[[str], object]]:
    """The parser's name, HTML -> visible text, HTML -> what can be clicked."""
    if find_spec("bs4") is None:
        return "html.parser", _read_text, _read_buttons
    from bs4 import BeautifulSoup

    def text(page: str) -> str:
        soup = BeautifulSoup(page, "html.parser")
        hidden = {"style", "script", "head", "title", "meta", "[document]"}
        visible = (node for node in soup.find_all(string=True) if node.parent and node.parent.name not in hidden)
        return " [SEP] ".join(node.strip() for node in visible if node != "\n")

    def buttons(page: str) -> list[str]:
        return [str(button.get("value")) for button in BeautifulSoup(page, "html.parser").find_all("button")]

    return "beautifulsoup4", text, buttons


class _Reader(HTMLParser):
    """Collects visible texts and the values of buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.buttons: list[str | None] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script", "head", "title")
        if tag == "button":
            self.buttons.append(dict(attrs).get("value"))

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script", "head", "title")

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.texts.append(data.strip())


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    return reader


def _read_text(page: str) -> str:
    return " [SEP] ".join(_read(page).texts)


def _read_buttons(page: str) -> list[str | None]:
    return _read(page).buttons


def stock(pages: Sequence[tuple[Shop, ShopPage]]) -> tuple[list[float], Round]:
    """Processor seconds a page to render, to read as text, to read what can be clicked, and all of it."""
    _, text, buttons = stock_parsers()
    clock, times = time.perf_counter(), [time.thread_time()]
    documents = [html(shop, page) for shop, page in pages]
    times.append(time.thread_time())
    for document in documents:
        text(document)
    times.append(time.thread_time())
    for document in documents:
        buttons(document)
    times.append(time.thread_time())
    parts = [(after - before) / len(pages) for before, after in itertools.pairwise(times)]
    return parts, Round(len(pages), time.perf_counter() - clock, times[-1] - times[0])


# ---------------------------------------------------------------- memory


def _memory(count: int, answer: Any) -> None:
    envs = [make() for _ in range(count)]
    rng = random.Random(0)
    for number, env in enumerate(envs):
        env.reset(options={"task": env.task_ids[number]})
        for _ in range(20):
            env.step(next_action(env, rng))
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    answer.put(pages * 4096 / 2**20)


def resident(count: int) -> float:
    """Resident MiB of a fresh process with so many environments that were played a little (Linux)."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_memory, args=(count, answer))
    process.start()
    measured = float(answer.get())
    process.join()
    return measured


def middle_and_tail(seconds: list[float]) -> str:
    """Median and 99th percentile, in milliseconds."""
    return f"{1e3 * statistics.median(seconds):.4f} / {1e3 * sorted(seconds)[int(0.99 * (len(seconds) - 1))]:.4f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=400, help="tasks to play, 25 steps each (default 400)")
    parser.add_argument("--pages", type=int, default=1000, help="pages for the baseline (default 1000)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds that both are divided into (default 5)")
    given = parser.parse_args()
    if given.rounds > min(given.tasks, given.pages):
        parser.error("--rounds is at most --tasks and --pages")
    env = make()
    stock(play(env, env.task_ids[-2:], 5).pages)  # imports, templates
    plays: list[Played] = []
    read: list[tuple[list[float], Round]] = []
    for number in range(given.rounds):
        plays.append(play(env, env.task_ids[: given.tasks][number :: given.rounds], 25))
        pages = plays[-1].pages
        read.append(stock(random.Random(0).sample(pages, min(given.pages // given.rounds, len(pages)))))
    compared = rates([played.round for played in plays], [whole for _, whole in read])
    single, many = resident(1), resident(MANY)
    parts = zip(*(parts for parts, _ in read), strict=True)
    for name, figure in (
        ("steps a second, searches included", f"{compared['value']:,.0f}"),
        ("step, wall clock, median / p99, ms", middle_and_tail([step for played in plays for step in played.steps])),
        ("reset, wall clock, median / p99, ms", middle_and_tail([each for played in plays for each in played.resets])),
        (
            f"stock page ({stock_parsers()[0]}): render + text + clickables, CPU ms",
            " + ".join(f"{1e3 * statistics.median(rounds):.3f}" for rounds in parts),
        ),
        (f"resident MiB, 1 / {MANY} environments", f"{single:.1f} / {many:.1f} = {many / single:.3f}"),
    ):
        print(f"{name:64}{figure:>32}")
    count = sum(len(played.steps) for played in plays)
    print(json.dumps({"name": "webshop steps, one environment", "unit": "steps/s", **compared, "n": count}))


if __name__ == "__main__":
    main()
