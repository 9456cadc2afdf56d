"""An hour of episodes in sandbox workers: `python -m benchmarks.sandbox_soak [--minutes N]`.

Threads play episodes of a two-room world through interfaces: honest ones, and those of
`tests/test_hostile_interfaces.py`, which loop, fill memory, flood and break. In one episode of ten the worker is killed
or stopped between two turns. Every episode must end as it does without an interface: the same rewards, scores and end.
Four times a minute what this process and its workers hold is counted: resident memory, handles, threads, processes,
temporary files. Linux only.

The last line is one JSON object. `value` is the memory of this process and its workers in the last fifth of the time,
`baseline` that in the second fifth, after the warm-up (every interface in every thread, then a fifth of the time): both
medians, in MiB, and `ratio` the quotient. glibc's allocator is told to keep little of what is free in this process
(`--keep` leaves it alone: then each of its arenas keeps what it needed at most, which grows for an hour and is no
leak). `allocated` is what it lent out. `n` counts episodes. Leaves with 1 if the ratio is beyond 1.1, or an episode did
not end as it should.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from align_echo.halting import pause
from align_echo.sandbox.session import Sandbox
from align_echo.wrappers.align_wrapper import AlignWrapper
from benchmarks.soak.holding import Held, below, held_now, keep_little
from tests.play import FORWARD, TASK, WINNING, Outcome, interface, outcome, play, source
from tests.room_env import RoomEnv
from tests.test_hostile_interfaces import BREAKAGE, CROSSING, ESCAPES, EXHAUSTION, HARMLESS, Case

EVERY = 15.0
LIMIT = 1.1
HOSTILE = (*ESCAPES, *EXHAUSTION, *BREAKAGE, *CROSSING, *HARMLESS)
HONEST = (
    Case("forward", FORWARD, ""),
    Case("state", "env.n = getattr(env, 'n', 0) + 1\nlogger.info('turn %d', env.n)\n" + FORWARD, ""),
    Case("looks", "env.step(['look'])\nenv.step(['inventory'])\n" + FORWARD, ""),
    Case("hint", "obs, r, d, i = env.step([agent_action])\nreturn obs[0] + ' Try `look`.', i['won'][0], d[0]", ""),
)
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)


class Players:
    """Threads that play until they are told to stop; `done` counts episodes by what was done to their workers.

    Each begins with every interface once, since glibc keeps what a thread needed at most, for each thread by itself.
    """

    def __init__(self, seed: int, rest: float) -> None:
        self.done: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._raw = [outcome(step) for step in play(RoomEnv(6))]
        self._seed = seed
        self._rest = rest
        self._over = threading.Event()
        self._warm = threading.Semaphore(0)

    @contextlib.contextmanager
    def playing(self, threads: int) -> Iterator[None]:
        players = [threading.Thread(target=self._play, args=(random.Random(self._seed + n),)) for n in range(threads)]
        for player in players:
            player.start()
        try:
            for _ in players:
                self._warm.acquire()
            yield
        finally:
            self._over.set()
            for player in players:
                player.join()

    def _play(self, dice: random.Random) -> None:
        for case in dice.sample(HONEST + HOSTILE, len(HONEST + HOSTILE)):
            self._once(case, None, 0)
        self._warm.release()
        while not self._over.is_set():
            case = dice.choice(HONEST if dice.random() < 0.7 else HOSTILE)
            self._once(case, dice.choice(SIGNALS) if dice.random() < 0.1 else None, dice.randrange(len(WINNING)))

    def _once(self, case: Case, harm: signal.Signals | None, harmed: int) -> None:
        """Play an episode, and note what gets out of it: nothing should."""
        began = time.monotonic()
        try:
            self._episode(case, harm, harmed)
        except Exception as error:
            self.unexpected.append(f"{case.name}: {type(error).__name__}: {str(error)[:300]}")
            print(self.unexpected[-1], file=sys.stderr, flush=True)
        self.done[f"{'honest' if case in HONEST else 'hostile'}, {harm.name if harm else 'left alone'}"] += 1
        self._over.wait(self._rest * (time.monotonic() - began))

    def _episode(self, case: Case, harm: signal.Signals | None, harmed: int) -> None:
        """Play an episode to its end, and harm its worker before one of the turns."""
        sandbox = Sandbox(seconds=0.5, memory=16 * 2**20) if case.hangs else Sandbox()
        env = AlignWrapper(RoomEnv(6), interface(source(case.body, top=case.top)), sandbox=sandbox)
        with contextlib.closing(env):
            env.reset(options={"task": TASK})
            outcomes: list[Outcome] = []
            while not outcomes or not (outcomes[-1].terminated or outcomes[-1].truncated):
                turn = len(outcomes)
                if harm is not None and turn == harmed:
                    _harm(env, harm)
                outcomes.append(outcome(env.step(WINNING[turn] if turn < len(WINNING) else "look")))
        if outcomes != self._raw:
            raise AssertionError(f"the episode ended as {outcomes[-1]}, without an interface as {self._raw[-1]}")


def _harm(env: AlignWrapper, harm: signal.Signals) -> None:
    session = env._session
    if session is not None and session._worker.session is not None:
        worker = session._worker.session.worker_pid
        if worker is not None:
            os.kill(worker, harm)


def resident(processes: dict[int, str]) -> float:
    """MiB of these processes together."""
    pages = 0
    for process in processes:
        with contextlib.suppress(OSError, IndexError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def sampled(minutes: float, players: Players) -> Iterator[tuple[Held, float]]:
    """What is held, and MiB of the workers, four times a minute."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < 60 * minutes:
        pause(min(EVERY, 60 * minutes - passed))
        held = held_now(time.monotonic() - begun)
        workers = resident(below(os.getpid()))
        counts = {"episodes": sum(players.done.values()), "unexpected": len(players.unexpected)}
        print(json.dumps(vars(held) | {"workers": round(workers, 1)} | counts), file=sys.stderr, flush=True)
        yield held, workers


def last_line(samples: list[tuple[Held, float]], players: Players, minutes: float) -> dict[str, object]:
    """The JSON line."""
    span = max(1, len(samples) // 5)
    after, last = samples[span : 2 * span] or samples, samples[-span:]

    def medians(figure: str) -> list[float]:
        rows = ([vars(held) | {"workers": workers} for held, workers in part] for part in (after, last))
        return [round(statistics.median(row[figure] for row in part), 1) for part in rows]

    figures = ("resident", "workers", "allocated", "handles", "threads", "processes", "temporary")
    rows = {figure: medians(figure) for figure in figures}
    baseline, value = (own + workers for own, workers in zip(rows["resident"], rows["workers"], strict=True))
    return {
        "name": "sandbox_soak",
        "value": round(value, 1),
        "unit": "MiB",
        "baseline": round(baseline, 1),
        "ratio": round(value / baseline, 3),
        "n": sum(players.done.values()),
        "minutes": minutes,
        "unexpected": len(players.unexpected),
        "after_warm_up_and_last": rows,
        "episodes": dict(sorted(players.done.items())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--threads", type=int, default=4, help="that play at once (default 4)")
    parser.add_argument("--rest", type=float, default=0.0, help="pause after an episode, in its lengths (default 0)")
    parser.add_argument("--seed", type=int, default=0, help="of what is played (default 0)")
    parser.add_argument("--keep", action="store_true", help="leave glibc's allocator alone")
    given = parser.parse_args()
    if not given.keep:
        keep_little()
    players = Players(given.seed, given.rest)
    with tempfile.TemporaryDirectory() as own:
        tempfile.tempdir = own
        with players.playing(given.threads):
            samples = list(sampled(given.minutes, players))
    line = last_line(samples, players, given.minutes)
    print(json.dumps(line))
    ratio = line["ratio"]
    assert isinstance(ratio, float)
    return 1 if players.unexpected or ratio > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
