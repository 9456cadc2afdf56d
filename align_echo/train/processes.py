"""Several processes of one run (data parallelism): each plays its part of the episodes and learns its part of the rows.

`accelerate launch` or `torchrun` starts the processes. All of them follow the same program and hold the same weights:
what one has made is gathered, so that each has all of it and decides alike, and gradients are summed. The first alone
writes the run's folder and prints. With one process nothing of this does anything. Left out: weights that are divided
among processes (`trl_trainer.py`, with FSDP or ZeRO).
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TypeVar, cast

import torch
from torch import distributed, nn

from align_echo.critic.reasoned_verdict import Judgement
from align_echo.critic.review import Review
from align_echo.critic.verdict import Verdict
from align_echo.errors import AlignEchoError, TrainingError
from align_echo.session import Episode
from align_echo.train.launched import how_many, keep_to_this_machine
from align_echo.train.stage import Made, Proposal, ReviewRequest, Stage
from align_echo.types import Trajectory

LONGEST_WAIT = timedelta(hours=3)
"""How long a process waits for another: one may play that much longer than the others. One that ended is noticed at
once."""

GO_ON = "what is finished is kept: repeat the command with --resume"

Asked = TypeVar("Asked")


def join() -> None:
    """Meet the other processes that the launcher started, if there are any. Safe to call again."""
    if how_many() > 1 and not distributed.is_initialized():
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # in a program that is not ours
            signal.signal(signal.SIGTERM, _told_to_end)
        keep_to_this_machine()
        on_gpu = torch.cuda.is_available()
        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK") or 0))
        with others_reached():
            distributed.init_process_group("cuda:nccl,cpu:gloo" if on_gpu else "gloo", timeout=LONGEST_WAIT)
            players()


def count() -> int:
    """How many processes have joined."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def index() -> int:
    """The number of this one, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def is_first() -> bool:
    """Whether this process writes and prints."""
    return index() == 0


@cache
def players() -> distributed.ProcessGroup | None:
    """Who is asked while a harvest is played: a group of its own, as gradients may be summed meanwhile."""
    return distributed.new_group(backend="gloo", timeout=LONGEST_WAIT) if how_many() > 1 else None


def gathered(make: Callable[[], Made], *, group: distributed.ProcessGroup | None = None) -> list[Made]:
    """What `make` gives in each process, in all of them. What it raises in one ends all: that process raises it, the
    others leave without a word. What is gathered at the same time on different threads needs a `group` each.

    Raises `TrainingError` where another process has ended.
    """
    if count() == 1:
        return [make()]
    failed: AlignEchoError | None = None
    made: Made | None = None
    try:
        made = make()
    except AlignEchoError as error:
        failed = error
    everything: list[tuple[bool, Made | None]] = [(False, None)] * count()
    with others_reached():
        distributed.all_gather_object(everything, (failed is not None, made), group)
    broken = [number for number, (is_broken, _) in enumerate(everything) if is_broken]
    if broken:
        raise failed if failed is not None and broken[0] == index() else SystemExit(2)
    return [cast(Made, each) for _, each in everything]


def of_first(make: Callable[[], Made]) -> Made:
    """What `make` gives in the first process, in all of them; the others do not call it."""
    made = gathered(lambda: make() if is_first() else None)[0]
    return cast(Made, made)


def sum_gradients(weights: Sequence[nn.Parameter]) -> None:
    """Let every process have the sum of the gradients of all. Weights that have none in any process get none.

    Raises `TrainingError` where another process has ended.
    """
    if count() == 1 or not weights:
        return
    present = torch.tensor([parameter.grad is not None for parameter in weights], dtype=torch.int32)
    present = present.to(weights[0].device)
    with others_reached():
        distributed.all_reduce(present, op=distributed.ReduceOp.MAX)
        under_way = []
        for parameter in (weights[number] for number in present.nonzero().flatten().tolist()):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            under_way.append(distributed.all_reduce(parameter.grad, async_op=True))
        for work in under_way:
            if work is not None:
                work.wait()


def fair_shares(costs: Sequence[float], parts: int) -> list[int]:
    """Who takes each of the costs, from 0 to `parts` - 1, so that all have about as much: the largest are given away
    first, each to whoever has the least so far. The same in every process.
    """
    takers, sums = [0] * len(costs), [0.0] * parts
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        takers[item] = min(range(parts), key=lambda part: sums[part])
        sums[takers[item]] += costs[item]
    return takers


class SharedStage:
    """Another stage, of which each process plays its part; all of them have the whole.

    Every process must run the recipe and ask for the same in the same order. Raises `TrainingError` where they do not.
    Parts are in one piece, so that samples of a task are mostly played by one engine.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """One episode of the policy each."""
        return _shared(self._stage.play, episodes)

    def review(self, requests: Sequence[ReviewRequest]) -> list[Review]:
        """One reply of the critic each."""
        return _shared(self._stage.review, requests)

    def labels(self, played: Sequence[Trajectory]) -> list[list[Verdict | None]]:
        """By turn, whether the action was right."""
        return _shared(self._stage.labels, played)

    def judge(self, proposals: Sequence[Proposal]) -> list[Judgement]:
        """One reasoned verdict of the critic each."""
        return _shared(self._stage.judge, proposals)

    def lessons(self, queries: Sequence[str]) -> list[Trajectory]:
        """One episode of the expert each; those that broke are left out."""
        return _shared(self._stage.lessons, queries)

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Not shared: it takes no time."""
        return self._stage.opening(trajectory)

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        """Several processes wait for each other, with all of the queries in one part: each plays its part of those."""
        return self._stage.overlapped(collect, queries) if count() == 1 else [collect(self, queries)]


def _shared(do: Callable[[Sequence[Asked]], list[Made]], asked: Sequence[Asked]) -> list[Made]:
    if count() == 1:
        return do(asked)
    first, end = (len(asked) * number // count() for number in (index(), index() + 1))

    def part() -> tuple[str, list[Made]]:
        known = hashlib.sha256(repr(asked).encode()).hexdigest()
        return known, do(asked[first:end]) if first < end else []

    parts = gathered(part, group=players())
    if len({known for known, _ in parts}) > 1:
        raise TrainingError(
            "the processes of this run do not ask for the same: a method that draws must draw alike in all of them "
            "(align_echo.dice.Dice), or be trained with one process"
        )
    return [answer for _, answers in parts for answer in answers]


def _told_to_end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is on its way out
    raise TrainingError(
        f"process {index()} was told to end, as a launcher does where another process has ended; {GO_ON}"
    )


@contextmanager
def others_reached() -> Iterator[None]:
    """What torch says where another process has ended, as one line: around all that processes do together."""
    try:
        yield
    except RuntimeError as error:
        lost = isinstance(error, distributed.DistError) or "gloo" in str(error)
        if not lost or isinstance(error, AlignEchoError):
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is on its way out
        raise TrainingError(
            f"process {index()}: another process of this run has ended or cannot be reached; {GO_ON}"
        ) from error
