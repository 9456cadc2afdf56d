"""A run that is killed at any point goes on with nothing lost and nothing paid for twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from align_echo.align.loop import GenerationResult
from align_echo.align.run_folder import Event, RunFolder
from align_echo.errors import UsageError
from align_echo.models.endpoint import get_base_url
from align_echo.models.recording import get_identity
from align_echo.types import ChatModel, Completion, Message
from tests.align.endpoint import Endpoint, serve
from tests.align.test_loop import run, scripts


class Killed(BaseException):
    """Stands for a kill signal: nothing in the library may catch it."""


class Fuse:
    """Kills at the n-th time it is touched."""

    def __init__(self, touches: int) -> None:
        self.left = touches

    def touch(self, event: Event | None = None) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


class Mortal:
    """A model that is killed just before a request leaves."""

    def __init__(self, model: ChatModel, fuse: Fuse) -> None:
        self.identity = get_identity(model)
        self.base_url = get_base_url(model)
        self._model = model
        self._fuse = fuse

    @property
    def name(self) -> str:
        return self._model.name

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        self._fuse.touch()
        return self._model.complete(messages, temperature=temperature, max_tokens=max_tokens)


def paid_twice(endpoint: Endpoint) -> list[str]:
    counts = Counter(json.dumps(request, sort_keys=True) for request in endpoint.requests)
    return [request for request, count in counts.items() if count > 1]


def reference(path: Path) -> tuple[GenerationResult, int, int]:
    """An undisturbed run, how many events it has and how many requests it makes."""
    events: list[Event] = []
    with serve(scripts()) as endpoint:
        made = run(endpoint, path, on_event=events.append)
    return made, len(events), len(endpoint.requests)


def assert_same(made: GenerationResult, expected: GenerationResult, endpoint: Endpoint, requests: int) -> None:
    assert made.summary == expected.summary
    assert made.interface == expected.interface
    assert len(endpoint.requests) == requests
    assert paid_twice(endpoint) == []


@pytest.mark.long
def test_killed_at_every_event(tmp_path: Path) -> None:
    expected, events, requests = reference(tmp_path / "whole")
    for moment in range(1, events + 1):
        folder = tmp_path / str(moment)
        with serve(scripts()) as endpoint:
            with pytest.raises(Killed):
                run(endpoint, folder, on_event=Fuse(moment).touch)
            made = run(endpoint, folder, resume=True)
            assert_same(made, expected, endpoint, requests)


@pytest.mark.long
def test_killed_before_a_request(tmp_path: Path) -> None:
    expected, _, requests = reference(tmp_path / "whole")
    for moment in range(1, requests + 1, 3):
        folder, fuse = tmp_path / str(moment), Fuse(moment)
        with serve(scripts()) as endpoint:
            with pytest.raises(Killed):
                run(endpoint, folder, wrap=lambda model, fuse=fuse: Mortal(model, fuse))  # type: ignore[misc]
            made = run(endpoint, folder, resume=True)
            assert_same(made, expected, endpoint, requests)


def test_killed_again_and_again(tmp_path: Path) -> None:
    expected, _, requests = reference(tmp_path / "whole")
    folder, kills = tmp_path / "run", 0
    with serve(scripts()) as endpoint:
        while True:
            fuse = Fuse(4)
            try:
                made = run(endpoint, folder, resume=kills > 0, wrap=lambda model, fuse=fuse: Mortal(model, fuse))  # type: ignore[misc]
                break
            except Killed:
                kills += 1
        assert_same(made, expected, endpoint, requests)
    assert kills > 4


def test_a_line_that_was_cut_off_is_played_again(tmp_path: Path) -> None:
    expected, _, requests = reference(tmp_path / "whole")
    folder = tmp_path / "run"
    with serve(scripts()) as endpoint:
        with pytest.raises(Killed):
            run(endpoint, folder, on_event=Fuse(4).touch)
        for file in (folder / "iterations/1/trajectories.jsonl", folder / "calls.jsonl", folder / "events.jsonl"):
            file.write_bytes(file.read_bytes()[:-20])
        made = run(endpoint, folder, resume=True)
        assert made.interface == expected.interface
        assert len(endpoint.requests) == requests


def test_finished_episodes_are_not_played_again(tmp_path: Path) -> None:
    with serve(scripts()) as endpoint:
        with pytest.raises(Killed):
            run(endpoint, tmp_path, on_event=Fuse(3).touch)
        seen: list[Event] = []
        run(endpoint, tmp_path, resume=True, on_event=seen.append)
    (start,) = [event for event in seen if event.kind == "iteration-started" and event.iteration == 1]
    assert (start.done, start.total) == (1, 2)
    assert [event.done for event in seen if event.kind == "trajectory" and event.iteration == 1] == [2]


def test_a_finished_run_can_be_resumed_for_nothing(tmp_path: Path) -> None:
    with serve(scripts()) as endpoint:
        first = run(endpoint, tmp_path)
        requests = len(endpoint.requests)
        again = run(endpoint, tmp_path, resume=True)
        assert_same(again, first, endpoint, requests)


def test_several_workers_give_the_same_run(tmp_path: Path) -> None:
    expected, _, _ = reference(tmp_path / "one")
    with serve(scripts()) as endpoint:
        assert run(endpoint, tmp_path / "many", workers=4).summary == expected.summary


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    with serve(scripts()) as endpoint:
        run(endpoint, tmp_path)
        with pytest.raises(UsageError, match="was started with seed = 0, not 1"):
            run(endpoint, tmp_path, resume=True, seed=1)
        with pytest.raises(UsageError, match="was started with iterations = 3, not 5"):
            run(endpoint, tmp_path, resume=True, iterations=5)


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with serve(scripts()) as endpoint, pytest.raises(UsageError, match="is not empty"):
        run(endpoint, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to resume in"):
        RunFolder(tmp_path / "none").check(resume=True)
    assert not (tmp_path / "none").exists()
