"""What a process sees of an environment, as JSON: `python -m tests.conformance.fingerprint <environment> <count>`.

The ids of every split in order (hashed), what some tasks start with, and the task that each seed draws. Two processes
that print the same see the same tasks.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import align_echo
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec
from tests.conformance.subjects import ROOT, raw, sample, start

SEEDS = range(4)


def fingerprint(spec: EnvironmentSpec, count: int) -> dict[str, Any]:
    """What this process sees."""
    ids = {split: align_echo.tasks(spec.name, split=split) for split in spec.splits}
    prints: dict[str, Any] = {"drawn": [], "starts": {}}
    prints["order"] = {split: hashlib.sha256("\n".join(tasks).encode()).hexdigest() for split, tasks in ids.items()}
    prints["training"] = [
        spec.training_tasks(data_root=None, iteration=iteration, seed=1) for iteration in range(2)
    ]
    for split in spec.splits:
        env = raw(spec, split=split)
        for task in sample(spec, count, split=split):
            observation, info = start(env, task)
            prints["starts"][task] = {"observation": observation, "goal": info["goal"], "type": info["task_type"]}
        env.close()
    env = raw(spec)
    prints["drawn"] = [env.reset(seed=seed)[1]["task_id"] for seed in SEEDS]
    env.close()
    return prints


def of_fresh_process(name: str, count: int, hash_seed: int) -> dict[str, Any]:
    """What a new process sees, with its own salt for Python's hashes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.fingerprint", name, str(count)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    prints: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return prints


if __name__ == "__main__":
    print(json.dumps(fingerprint(environment(sys.argv[1]), int(sys.argv[2]))))
