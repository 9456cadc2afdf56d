"""What is run: the commands that open docs/critic.md for each seed, the policy that imitates the expert, and the plays.

Every part has a folder of its own: what is finished is not done again. Sizes are the page's, and
what the page leaves to a default is left to it here. Left out: what comes of it (`__main__.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from align_echo.evaluate.plan import plan_evaluation
from benchmarks.learning.runs import Job
from benchmarks.learning.verbs import collect, evaluate, train, train_critic, trial

ONE_DRAW, PLACEBO, IMITATION = "one draw", "placebo of 8", "imitation, one draw"
ARMS = {
    PLACEBO: ("placebo", False),
    "majority of 8": ("majority", False),
    "logprob of 8": ("logprob", False),
    "critic of 8": ("critic", True),
    "tilted of 8": ("tilted", True),
}
"""Each rule of `evaluate --pick`, and whether it asks the critic."""

DRAWN = (30, 0.8)
"""How `critic collect` draws (`top_k`, `top_p`), and so `evaluate --judge`; arms without a judge are told."""


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
    study.env: study
    for study in (
        Study("alfworld", "train", "valid_seen", "valid_unseen", episodes=134, primary="success"),
        Study("webshop", "train", "eval", "test", episodes=200, primary="score"),
    )
}


def collections(study: Study, seed: int, home: Path) -> list[Job]:
    """What the critic learns from, and what it is put on trial on."""
    common = partial(collect, env=study.env, model="pocket", states="mixed", seed=seed)
    learned, tried = home / "collected", home / "to-test"
    return [
        Job("collection", seed, learned, partial(common, split=study.training, tasks=200), None),
        Job("collection to test", seed, tried, partial(common, split=study.trial, tasks=60), None),
    ]


def critics(seed: int, home: Path) -> list[Job]:
    """The critic, by the defaults."""
    training = partial(train_critic, examples=(home / "collected",), model="pocket", seed=seed)
    return [Job("critic", seed, home / "critic", training, None)]


def trial_of(home: Path, seed: int) -> Job:
    """What the critic is worth in single steps."""
    return Job("trial", seed, home / "trial", partial(trial, judge=_critic(home), examples=(home / "to-test",)), None)


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
    return Job("imitation", seed, home / "imitation", partial(train, config=file, seed=seed), None)


def plays(study: Study, seed: int, home: Path) -> list[Job]:
    """Whole episodes by every rule; the primary contrast first."""
    made = []
    for arm, (pick, asks) in sorted(ARMS.items(), key=lambda item: item[0] not in (PLACEBO, "critic of 8")):
        made.append(_play(study, arm, seed, home, "pocket", pick=pick, judge=_critic(home) if asks else None))
    made.append(_play(study, ONE_DRAW, seed, home, "pocket"))
    made.append(_play(study, IMITATION, seed, home, str(home / "imitation" / "policy")))
    return made


def _critic(home: Path) -> Path:
    return home / "critic" / "critic"


def _play(
    study: Study,
    arm: str,
    seed: int,
    home: Path,
    model: str,
    *,
    pick: str | None = None,
    judge: Path | None = None,
) -> Job:
    top_k, top_p = DRAWN if judge is None else (None, None)
    plan = partial(
        plan_evaluation,
        env=study.env,
        model=model,
        temperature=1.0,
        split=study.split,
        tasks=study.episodes,
        seed=seed,
        best_of=1 if pick is None else 8,
        pick=pick or "critic",
        judge=None if judge is None else str(judge),
        top_k=top_k,
        top_p=top_p,
    )
    folder = home / arm.replace(", ", "-").replace(" ", "-")
    return Job(arm, seed, folder, None, partial(evaluate, plan))
