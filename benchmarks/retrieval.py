"""The retrieval server under load: `python -m benchmarks.retrieval [--clients N] [--searches N] [--out DIR]`.

N clients on threads of this process search the embedded corpus at a server in a process of its own, each with its next
query as soon as it has the last answer (titles of documents, three documents each): once over a plain keep-alive
connection each, once as SearchQA's environments ask. The baseline is the same index in this process, on one thread,
without a server. The ways take turns, each with its share of the searches in a round. Prints the latency that a client
sees (median, 99th percentile) and searches a second, then one JSON line. `value` is searches a second over plain
connections, `baseline` those in this process, the rest as in `rounds.py`, with the server's CPU seconds; `--out DIR`
also gets it as summary.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from align_echo.files import write_atomically
from align_echo.wrappers.searchqa.client import request_url, search_at
from align_echo.wrappers.searchqa.corpus import open_corpus
from align_echo.wrappers.searchqa.protocol import request
from benchmarks.processes import cpu_since, family_cpu
from benchmarks.rounds import Round, at_least_one, rate, rates, shortened

TOPK = 3


@contextmanager
def server() -> Iterator[str]:
    """The address of a retrieval server in a process of its own."""
    command = [sys.executable, "-m", "align_echo.cli.main", "retrieval-server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield request_url(process.stdout.readline().partition(": ")[2])
        finally:
            process.terminate()


def plain_search(url: str) -> Callable[[str], Any]:
    """Searches at a server over one connection a thread, with as little of its own work as Python's library allows."""
    here = threading.local()
    parts = urlsplit(url)

    def search(query: str) -> Any:
        if not hasattr(here, "connection"):
            here.connection = HTTPConnection(parts.netloc)
        here.connection.request("POST", parts.path, request(query, TOPK))
        return json.loads(here.connection.getresponse().read())["result"]

    return search


def timed(search: Callable[[str], Any], queries: Sequence[str], clients: int) -> tuple[list[float], Round]:
    """Seconds of each search, and what all of them took, with so many at once."""

    def once(query: str) -> float:
        start = time.perf_counter()
        search(query)
        return time.perf_counter() - start

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(once, queries[:clients]))  # connections and threads are there
        busy, start = family_cpu(), time.perf_counter()
        seconds = list(pool.map(once, queries))
        return seconds, Round(len(queries), time.perf_counter() - start, cpu_since(busy))


def row(name: str, rounds: Sequence[tuple[list[float], Round]], clients: int) -> dict[str, Any]:
    """The figures of one way to search, printed."""
    ordered = sorted(seconds for each, _ in rounds for seconds in each)
    figures = {
        "clients": clients,
        "per_s": statistics.median(rate(whole) for _, whole in rounds),
        "p50_ms": 1e3 * statistics.median(ordered),
        "p99_ms": 1e3 * ordered[int(0.99 * (len(ordered) - 1))],
    }
    print(f"{name:12}" + "".join(f"{key}: {value:<12.4g}" for key, value in figures.items()))
    return {key: shortened(value) for key, value in figures.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64, help="searches at once (default 64)")
    parser.add_argument("--searches", type=int, default=6000, help="searches in all (default 6000)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds that they are divided into (default 5)")
    parser.add_argument("--out", type=Path, help="folder for summary.json")
    given = parser.parse_args()
    corpus = open_corpus(None)
    titles = [document.title for document in corpus.documents]
    queries = [titles[number % len(titles)] for number in range(given.searches)]
    with server() as url:
        ways: dict[str, tuple[Callable[[str], Any], int]] = {
            "in process": (lambda query: corpus.search(query, TOPK), 1),
            "server": (plain_search(url), given.clients),
            "environment": (lambda query: search_at(url, query, TOPK), given.clients),
        }
        found: dict[str, list[tuple[list[float], Round]]] = {name: [] for name in ways}
        for number in range(given.rounds):
            for name, (search, clients) in ways.items():
                found[name].append(timed(search, queries[number :: given.rounds], clients))
    rows = {name.replace(" ", "_"): row(name, rounds, ways[name][1]) for name, rounds in found.items()}
    record = {
        "name": f"retrieval server, {given.clients} searches at once",
        "unit": "searches/s",
        **rates([whole for _, whole in found["server"]], [whole for _, whole in found["in process"]]),
        "n": given.searches,
        **rows,
    }
    line = json.dumps(record)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        write_atomically(given.out / "summary.json", line + "\n")
    print(line)


if __name__ == "__main__":
    main()
