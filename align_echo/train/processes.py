"""Several processes of one run (data parallelism): each plays a part of the episodes and learns a part of the rows.

`accelerate launch` or `torchrun` starts the processes. All of them run the same program with the same weights. Results
are gathered in every process, so that all decide alike, and gradients are summed. Only the first writes the run's
folder and prints. With one process these functions do nothing. Not here: weights divided among processes
(`trl_trainer.py`, with FSDP or ZeRO).
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

from align_echo.critic.ask import Label, Verdict
from align_echo.errors import AlignEchoError, TrainingError
from align_echo.rollout.session import Episode
from align_echo.train.needs import how_many, keep_to_this_machine
from align_echo.train.stage import ActionProposal, CritiqueRequest, Made, Stage
from align_echo.types import Trajectory

LONGEST_WAIT = timedelta(hours=3)
"""How long a process waits for another one that plays longer. An ended process is noticed at once."""

GO_ON = "what is finished is kept: repeat the command with --resume"

Request = TypeVar("Request")


def join() -> None:
    """Connect to the other processes started by the launcher, if any. Safe to call again."""
    if how_many() > 1 and not distributed.is_initialized():
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # in a program that is not ours
            signal.signal(signal.SIGTERM, _end_on_signal)
        keep_to_this_machine()
        on_gpu = torch.cuda.is_available()
        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK") or 0))
        with others_reached():
            distributed.init_process_group("cuda:nccl,cpu:gloo" if on_gpu else "gloo", timeout=LONGEST_WAIT)
            players()


def count() -> int:
    """Return the number of connected processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def index() -> int:
    """Return the number of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def is_first() -> bool:
    """Return whether this process writes and prints."""
    return index() == 0


@cache
def players() -> distributed.ProcessGroup | None:
    """Return the process group for playing, separate from the group that may sum gradients at the same time."""
    return distributed.new_group(backend="gloo", timeout=LONGEST_WAIT) if how_many() > 1 else None


def gathered(make: Callable[[], Made], *, group: distributed.ProcessGroup | None = None) -> list[Made]:
    """Call `make` in each process and return all results in every process.

    An error of `make` ends the run: its process raises the error, the others exit silently. Concurrent calls on
    different threads need a `group` each. Raises `TrainingError` if another process has ended.
    """
    if count() == 1:
        return [make()]
    failed: AlignEchoError | None = None
    result: Made | None = None
    try:
        result = make()
    except AlignEchoError as error:
        failed = error
    everything: list[tuple[bool, Made | None]] = [(False, None)] * count()
    with others_reached():
        distributed.all_gather_object(everything, (failed is not None, result), group)
    broken = [number for number, (is_broken, _) in enumerate(everything) if is_broken]
    if broken:
        raise failed if failed is not None and broken[0] == index() else SystemExit(2)
    return [cast(Made, each) for _, each in everything]


def call_on_first(make: Callable[[], Made]) -> Made:
    """Call `make` in the first process only and return its result in every process."""
    result = gathered(lambda: make() if is_first() else None)[0]
    return cast(Made, result)


def sum_gradients(weights: Sequence[nn.Parameter]) -> None:
    """Sum the gradients over all processes, in place. Weights without gradient in all of them stay without.

    Raises `TrainingError` if another process has ended.
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
    """Assign each cost to a part from 0 to `parts` - 1, with similar sums: the largest first, each to the smallest sum.

    The assignment is the same in every process.
    """
    takers, sums = [0] * len(costs), [0.0] * parts
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        takers[item] = min(range(parts), key=lambda part: sums[part])
        sums[takers[item]] += costs[item]
    return takers


class SharedStage:
    """A stage that divides every request among the processes and gathers all answers in each of them.

    Every process must run the same method with the same requests in the same order; raises `TrainingError` otherwise.
    Parts are contiguous, so that one engine plays most samples of a task.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """Play an episode of the policy for each."""
        return _shared(self._stage.play, episodes)

    def critique(self, requests: Sequence[CritiqueRequest]) -> list[Verdict]:
        """Ask the critic for a reply to each."""
        return _shared(self._stage.critique, requests)

    def labels(self, played: Sequence[Trajectory]) -> list[list[Label | None]]:
        """Label the action of each turn."""
        return _shared(self._stage.labels, played)

    def judge(self, proposals: Sequence[ActionProposal]) -> list[Verdict]:
        """Ask the critic for a reasoned verdict on each."""
        return _shared(self._stage.judge, proposals)

    def lessons(self, tasks: Sequence[str]) -> list[Trajectory]:
        """Play an episode of the expert for each task, without broken ones."""
        return _shared(self._stage.lessons, tasks)

    def demonstrations(self, names: Sequence[str]) -> list[Trajectory]:
        """Return stored episodes by name; not divided, as it takes no time."""
        return self._stage.demonstrations(names)

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Return the tokens before the first reply; not divided, as it takes no time."""
        return self._stage.opening(trajectory)

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], tasks: Sequence[str]) -> list[Made]:
        """Collect in parts with one process; with several, in one part, whose requests they divide."""
        return self._stage.overlapped(collect, tasks) if count() == 1 else [collect(self, tasks)]


def _shared(answer: Callable[[Sequence[Request]], list[Made]], requests: Sequence[Request]) -> list[Made]:
    if count() == 1:
        return answer(requests)
    first, end = (len(requests) * number // count() for number in (index(), index() + 1))

    def part() -> tuple[str, list[Made]]:
        known = hashlib.sha256(repr(requests).encode()).hexdigest()
        return known, answer(requests[first:end]) if first < end else []

    parts = gathered(part, group=players())
    if len({known for known, _ in parts}) > 1:
        raise TrainingError(
            "the processes of this run do not ask for the same: a method that draws must draw alike in all of them "
            "(align_echo.base.dice.Dice), or be trained with one process"
        )
    return [result for _, results in parts for result in results]


def _end_on_signal(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is on its way out
    raise TrainingError(
        f"process {index()} was told to end, as a launcher does where another process has ended; {GO_ON}"
    )


@contextmanager
def others_reached() -> Iterator[None]:
    """Convert torch's errors about an ended process to `TrainingError`. Wraps all communication between processes."""
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
