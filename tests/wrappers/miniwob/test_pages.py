"""Pages: every one loads and resets, and one id is one page in every process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.wrappers.miniwob.env import MiniWoBEnv
from align_echo.wrappers.miniwob.spec import SUBDOMAINS
from align_echo.wrappers.text_env import TEXT_CHARACTERS
from tests.wrappers.miniwob.conftest import begin, needs_browser

pytestmark = needs_browser

SPREAD = SUBDOMAINS[::11]
"""Every eleventh page."""

HIDDEN = ("find-greatest", "guess-number", "hot-cold")
"""Pages on which seeds differ in what is not shown at first."""

SAMPLE = """
import json, sys
from tests.wrappers.miniwob.test_pages import prints
print(json.dumps(prints(sys.argv[1:])))
"""


def prints(tasks: list[str]) -> dict[str, list[str]]:
    """Goal, texts and pictures of tasks at the start and after a click and a key, hashed; no picture after the end."""
    env, hashed = MiniWoBEnv("test"), {}
    for task in tasks:
        texts = [begin(env, task), env.goal, hashlib.sha256(env.screenshot().tobytes()).hexdigest()]
        click = next(iter(env.state.admissible_actions or ()), "click(80, 130)")
        for action in (click, 'type("a")'):
            if not env.over:
                texts.append(env.step(action)[0])
                texts += [] if env.over else [hashlib.sha256(env.screenshot().tobytes()).hexdigest()]
        hashed[task] = texts
    env.close()
    return hashed


def of_fresh_process(tasks: list[str]) -> dict[str, list[str]]:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", SAMPLE, *tasks],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
    )
    plans: dict[str, list[str]] = json.loads(done.stdout)
    return plans


def check(env: MiniWoBEnv, page: str) -> None:
    """A page loads, says what is wanted and shows something, differs by seed and is the same again."""
    first, goal = begin(env, f"{page}/0"), env.goal
    assert goal, page
    assert first.count("\n") >= 1, f"{page} shows nothing"
    assert set(first + goal) <= set(TEXT_CHARACTERS), page
    starts = {(begin(env, f"{page}/{seed}"), env.goal, env.screenshot().tobytes()) for seed in range(1, 5)}
    assert len(starts) > 1 or page in HIDDEN, f"{page} is the same for every seed"
    assert (begin(env, f"{page}/0"), env.goal) == (first, goal)
    assert len(first) < 8000, f"{page} shows {len(first)} characters"


@pytest.mark.long
@pytest.mark.parametrize("page", SPREAD)
def test_a_page_loads_and_resets(env, page):
    check(env, page)


@pytest.mark.slow
@pytest.mark.parametrize("page", SUBDOMAINS)
def test_every_page_loads_and_resets(env, page):
    check(env, page)


@pytest.mark.long
def test_one_id_is_one_page_in_every_process():
    tasks = [f"{page}/4" for page in SPREAD]
    assert of_fresh_process(tasks) == prints(tasks)


@pytest.mark.slow
def test_every_id_is_one_page_in_every_process():
    tasks = [f"{page}/7" for page in SUBDOMAINS]
    assert of_fresh_process(tasks) == prints(tasks)
