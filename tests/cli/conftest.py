"""A machine without keys and data, an empty folder to stand in, and a way to run the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from align_echo.cli.main import main

VARIABLES = ("OPENAI_API_KEY", "ALIGN_ECHO_API_KEY", "ALIGN_ECHO_MODEL", "OPENAI_BASE_URL", "ALFWORLD_DATA")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """Games that were written before are kept: they are the same on every machine."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys) -> Run:
    """Exit status, standard output and standard error of the command line."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()  # what the test's own preparation printed
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def few_fresh_tasks(monkeypatch) -> None:
    """The probe tests what it learned on few tasks, which takes seconds where it takes minutes."""
    from align_echo.align import generation

    fresh = generation.fresh_tasks
    monkeypatch.setattr(generation, "fresh_tasks", lambda *given: fresh(*given)[:9])


@pytest.fixture
def hardly_any_fresh_tasks(monkeypatch) -> None:
    """The probe tests what it learned on as few tasks as it can: for tests that do not ask what it learned."""
    from align_echo.align import generation

    fresh = generation.fresh_tasks
    monkeypatch.setattr(generation, "fresh_tasks", lambda *given: fresh(*given)[:2])


@pytest.fixture
def stop_after_first_episode(monkeypatch) -> list[bool]:
    """Ctrl-C once the first episode of the test has ended. Holds what ended, for counting."""
    from align_echo.rollout.display import Display

    ended: list[bool] = []
    shown = Display.episode

    def episode(display: Display, won: bool) -> None:
        ended.append(won)
        shown(display, won)
        if len(ended) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "episode", episode)
    return ended
