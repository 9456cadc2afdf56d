"""What is run: the commands that open docs/critic.md for each seed, the policy that imitates the expert, and the plays.

Every part is a command of its own in a folder of its own: what is finished is not done again. Sizes are the page's, and
what the page leaves to a default is left to it here. Left out: what comes of it (`__main__.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.learning.runs import Job

ONE_DRAW, PLACEBO, IMITATION = "one draw", "placebo of 8", "imitation, one draw"
ARMS = {
    PLACEBO: ("placebo", False),
    "majority of 8": ("majority", False),
    "logprob of 8": ("logprob", False),
    "critic of 8": ("critic", True),
    "tilted of 8": ("tilted", True),
}
"""Each rule of `evaluate --pick`, and whether it asks the critic."""

DRAWN = ("--top-k", "30", "--top-p", "0.8")
"""How `critic collect` draws, and so `evaluate --judge`; arms without a judge are told."""


@dataclass(frozen=True)
class Study:
    """Critic and imitation learn from `training`, the critic is put on trial on tasks of `trial`, and `episodes` tasks
    of `split` are played to the end; the splits share no task. The primary contrast is the critic of 8 over the placebo
    of 8 in `primary`, on those.
    """

    env: str
    training: str
    trial: str
    split: str
    episodes: int
    primary: str


STUDIES = {
    one.env: one
    for one in (
        Study("alfworld", "train", "valid_seen", "valid_unseen", episodes=134, primary="success"),
        Study("webshop", "train", "eval", "test", episodes=200, primary="score"),
    )
}


def _made(name: str, seed: int, folder: Path, *arguments: str) -> Job:
    return Job(name, seed, folder, (*arguments, "--seed", str(seed), "--out", str(folder)), ())


def collections(study: Study, seed: int, home: Path) -> list[Job]:
    """What the critic learns from, and what it is put on trial on."""
    common = ("critic", "collect", "--env", study.env, "--model", "pocket", "--states", "mixed")
    return [
        _made("collection", seed, home / "collected", *common, "--split", study.training, "--tasks", "200"),
        _made("collection to test", seed, home / "to-test", *common, "--split", study.trial, "--tasks", "60"),
    ]


def critics(seed: int, home: Path) -> list[Job]:
    """The critic, by the defaults."""
    data = ("--examples", str(home / "collected"))
    return [_made("critic", seed, home / "critic", "critic", "train", *data, "--model", "pocket")]


def trial(home: Path, seed: int) -> Job:
    """What the critic is worth in single steps."""
    asked = ("critic", "evaluate", "--judge", str(_critic(home)), "--examples", str(home / "to-test"))
    return Job("trial", seed, home / "trial", (*asked, "--out", str(home / "trial")), ())


def imitation(study: Study, seed: int, home: Path) -> Job:
    """The policy imitates as many of the expert's actions on training tasks as the critic had labels to learn from."""
    labels = json.loads((home / "critic" / "summary.json").read_text(encoding="utf-8"))["learned_from"]
    config = {
        "base": "sft",
        "env": study.env,
        "split": study.training,
        "model": "pocket",
        "steps": labels,
        "environment_steps": labels,
        "optimising": {"schedule": "constant"},
        "threads": 1,
    }
    file = home / "imitation.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return _made("imitation", seed, home / "imitation", "train", "--config", str(file))


def plays(study: Study, seed: int, home: Path) -> list[Job]:
    """Whole episodes by every rule; the primary contrast first."""
    made = []
    for arm, (pick, asks) in sorted(ARMS.items(), key=lambda item: item[0] not in (PLACEBO, "critic of 8")):
        judge = ("--judge", str(_critic(home))) if asks else DRAWN
        made.append(_play(study, arm, seed, home, "pocket", ("--best-of", "8", "--pick", pick, *judge)))
    made.append(_play(study, ONE_DRAW, seed, home, "pocket", DRAWN))
    made.append(_play(study, IMITATION, seed, home, str(home / "imitation" / "policy"), DRAWN))
    return made


def _critic(home: Path) -> Path:
    return home / "critic" / "critic"


def _play(study: Study, arm: str, seed: int, home: Path, model: str, more: Sequence[str]) -> Job:
    folder = home / arm.replace(", ", "-").replace(" ", "-")
    measuring = (
        *("evaluate", "--env", study.env, "--model", model, "--temperature", "1", *more),
        *("--split", study.split, "--tasks", str(study.episodes), "--seed", str(seed)),
        *("--out", str(folder / "test")),
    )
    return Job(arm, seed, folder, (), measuring)
