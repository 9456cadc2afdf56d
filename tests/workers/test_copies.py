"""Work in forked copies of the process: answers in order, faults that are told, and nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from functools import partial

import pytest

from align_echo.errors import EngineError, UsageError
from align_echo.workers.remote import ForkPool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


def numbered(number: int) -> tuple[int, int]:
    return number, os.getpid()


def test_answers_come_in_the_order_of_the_work_whoever_does_it():
    with ForkPool[tuple[int, int]](2) as elsewhere:
        for number in range(5):
            elsewhere.give(partial(numbered, number))
        elsewhere.keep((5, os.getpid()))
        answers = [*elsewhere.answers()]
    assert [number for (number, _), _ in answers] == [0, 1, 2, 3, 4, 5]
    assert [in_copy for _, in_copy in answers] == [True] * 5 + [False]
    assert [process == os.getpid() for (_, process), _ in answers] == [False] * 5 + [True]


def test_an_answer_may_be_larger_than_a_pipe_holds():
    with ForkPool[str](1) as elsewhere:
        elsewhere.give(lambda: "x" * 3_000_000)
        elsewhere.give(lambda: "y")
        assert [len(text) for text, _ in elsewhere.answers()] == [3_000_000, 1]


def test_a_copy_changes_nothing_here():
    known = {"here": 1}
    with ForkPool[None](1) as elsewhere:
        elsewhere.give(lambda: known.update(here=2))
        assert [*elsewhere.answers()] == [(None, True)]
    assert known == {"here": 1}


def answers_of(count: int, *works: Callable[[], object]) -> list[object]:
    with ForkPool[object](count) as elsewhere:
        for work in works:
            elsewhere.give(work)
        return [answer for answer, _ in elsewhere.answers()]


def test_what_a_copy_raises_is_raised_here_and_the_others_are_ended():
    def broken() -> str:
        raise UsageError("no such task")

    with pytest.raises(UsageError, match="no such task"):
        answers_of(2, lambda: multiprocessing.Event().wait(), broken, lambda: "late")
    assert multiprocessing.active_children() == []


def test_a_copy_that_is_killed_is_told_of():
    with pytest.raises(EngineError, match="ended with status -9"):
        answers_of(1, lambda: os.kill(os.getpid(), 9))
