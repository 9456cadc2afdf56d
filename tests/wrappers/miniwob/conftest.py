"""MiniWoB's pages in the browser of this machine; skipped with what installs it where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

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
