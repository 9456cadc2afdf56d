"""MiniWoB's pages in the browser of this machine; skipped with what installs it where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from align_echo.errors import MissingDataError
from align_echo.wrappers.miniwob.chromium import find_chromium, find_fonts
from align_echo.wrappers.miniwob.env import MiniWoBEnv
from align_echo.wrappers.miniwob.spec import INSTALL


def _missing() -> str:
    if find_spec("selenium") is None or find_spec("miniwob") is None:
        return f"the extra miniwob is not installed: {INSTALL}"
    try:
        find_chromium()
        find_fonts()
    except MissingDataError as error:
        return str(error)
    return ""


needs_browser = pytest.mark.skipif(bool(_missing()), reason=_missing())


@pytest.fixture(scope="module")
def env() -> Iterator[MiniWoBEnv]:
    """An environment over the test tasks, without a step limit that is met."""
    made = MiniWoBEnv("test", step_limit=1000)
    yield made
    made.close()


def begin(env: MiniWoBEnv, task: str, *actions: str) -> str:
    """The observation after a reset and some actions."""
    observation, _ = env.reset(options={"task": task})
    for action in actions:
        observation, *_ = env.step(action)
    return observation


def program(folder: Path, name: str, script: str = "") -> str:
    """The path of a new shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def family(group: int) -> set[int]:
    """The processes of a process group."""
    pids = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            pids.add(int(stat.parent.name))
    return pids


def users(folder: str) -> set[int]:
    """The processes that name a folder in their command or environment."""
    pids = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if folder.encode() in text:
            pids.add(int(process.name))
    return pids


def eventually(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds that the system may take a moment for."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not within {seconds:g} s"
        time.sleep(0.02)
