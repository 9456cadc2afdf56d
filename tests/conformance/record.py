"""Freeze a few episodes of an environment: `python -m tests.conformance.record [environment ...]`.

Each is the expert's episode on a test task, with an action that no engine knows and a read-only look put in between,
where the step limit leaves turns for them.
Only episodes that read the same three times over are taken. Run it when an environment is added; a frozen file that
changes afterwards is a change of the benchmark.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from typing import Any

from align_echo.base.files import write_atomically
from align_echo.evaluate.plan import pick_tasks
from align_echo.wrappers.catalogue import environment, environments
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from tests.conformance.subjects import (
    GOLDEN,
    NONSENSE,
    actions_of,
    play,
    play_expert,
    raw,
    start,
    with_expert,
)

EPISODES = 3
CANDIDATES = 40
LONGEST = 25
"""Longer episodes are left out, to keep the files readable."""
SHORTEST = 3
"""Shorter ones have no middle to break the engine in, or to come back to, unless the step limit allows no longer."""


def record(spec: EnvironmentSpec) -> dict[str, Any]:
    """The episodes of an environment."""
    env = raw(spec)
    attempts = (episode(env, task) for task in candidates(spec))
    episodes = list(itertools.islice((attempt for attempt in attempts if attempt is not None), EPISODES))
    env.close()
    return {"environment": spec.name, "split": spec.test_split, "episodes": episodes}


def candidates(spec: EnvironmentSpec) -> list[str]:
    """Test tasks to look at, the types in turn."""
    tasks = pick_tasks(with_expert(spec, spec.test_split), CANDIDATES, task_type=spec.task_type)
    seen = Counter[str]()
    turn = {}
    for task in tasks:
        turn[task] = seen[spec.task_type(task)]
        seen[spec.task_type(task)] += 1
    return sorted(tasks, key=lambda task: turn[task])


def episode(env: TextEnv, task: str) -> dict[str, Any] | None:
    """One episode; None if it is long, very short, not won or does not repeat itself."""
    gold = actions_of(play_expert(env, task, at_most=LONGEST))
    if len(gold) < min(SHORTEST, env.step_limit):
        return None
    reads = [action for action in env.contract.read_only_actions if "{}" not in action]
    actions = [*gold[:1], NONSENSE[0], *reads[:1], *gold[1:]]
    actions = actions if len(actions) <= env.step_limit else gold
    runs = []
    for _ in range(3):
        observation, info = start(env, task)
        runs.append(play(env, actions))
    if runs[0][-1].score != 1.0 or any(run != runs[0] for run in runs):
        return None
    return {
        "task": task,
        "goal": info["goal"],
        "observation": observation,
        "steps": [step._asdict() for step in runs[0]],
    }


def main(names: list[str]) -> None:
    """Write the files of the named environments, all if none is named."""
    for spec in [environment(name) for name in names] or list(environments().values()):
        GOLDEN.mkdir(exist_ok=True)
        text = json.dumps(record(spec), indent=1, ensure_ascii=False) + "\n"
        print(write_atomically(GOLDEN / f"{spec.name}.json", text))


if __name__ == "__main__":
    main(sys.argv[1:])
