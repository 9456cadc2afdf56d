"""What is compared: a folder of configs, one a method, and where the trained policies are measured.

The configs stand in `benchmarks/learning/STUDY/METHOD.yaml` and run by themselves (`align-echo train --config FILE`).
Left out: running them (`runs.py`) and what comes of it (`report.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from align_echo.errors import UsageError

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Study:
    """Policies are measured without critique at temperature 1 on `tasks` tasks of `split`: all, so the same each seed.

    `baseline` is the arm that the others are compared with; "start" is the model before training.
    """

    name: str
    env: str
    split: str
    tasks: int
    samples: int
    baseline: str
    start: str = "pocket"

    @property
    def arms(self) -> dict[str, Path]:
        """The config of each method, by name."""
        return {file.stem: file for file in sorted((HERE / self.name).glob("*.yaml"))}


ALFWORLDS = ("alfworld", "alfworld-low-rate", "alfworld-n4", "alfworld-hard")
"""The first is the comparison; the others are the same with one thing changed and half the turns."""

TAUGHT = "runs/learning/taught/model"
"""What `python -m benchmarks.learning.taught` writes."""


def _alfworld(name: str, *, baseline: str = "grpo") -> Study:
    return Study(name, env="alfworld", split="valid_unseen", tasks=134, samples=2, baseline=baseline)


def _webshop(name: str, *, baseline: str = "echo-linear", start: str = "pocket") -> Study:
    return Study(name, env="webshop", split="test", tasks=500, samples=1, baseline=baseline, start=start)


STUDIES = {
    study.name: study
    for study in (
        *(_alfworld(name) for name in ALFWORLDS),
        _alfworld("alfworld-interface", baseline="start"),
        _webshop("webshop", baseline="grpo"),
        _webshop("webshop-high-rate"),
        _webshop("webshop-taught", start=TAUGHT),
    )
}


def study(name: str) -> Study:
    """Raises `UsageError` for a name that is not known."""
    if name not in STUDIES:
        raise UsageError(f"unknown study {name!r}; known: {', '.join(STUDIES)}")
    return STUDIES[name]
