"""What is run: a flywheel for each seed, then whole episodes with one draw a turn and with the best of all.

Every part is a command of its own in a folder of its own: what is finished is not done again. Left out: what comes of
it (`report.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.learning.runs import Job

ONE_DRAW = "one draw"
CONTROLS = ("placebo", "majority", "logprob")
"""Rules that take one of as many candidates and ask no critic; the first knows nothing of them."""

CANDIDATES = 8


@dataclass(frozen=True)
class Study:
    """`tasks` of `training` are played in each round with `drawn` candidates a turn; `held_out` of `split` are for
    steps, `episodes` of it are played to the end. A later round's critic begins as `begin` says (`critic flywheel
    --begin`). How a critic learns stands in `ENV.yaml` beside this file.
    """

    env: str
    training: str
    split: str
    tasks: int
    drawn: int
    begin: str
    held_out: int
    episodes: int


_ALFWORLD = Study(
    "alfworld", "train", "valid_unseen", tasks=120, drawn=8, begin="start", held_out=60, episodes=134
)
_WEBSHOP = Study("webshop", "train", "test", tasks=150, drawn=32, begin="last", held_out=80, episodes=500)
STUDIES = {one.env: one for one in (_ALFWORLD, _WEBSHOP)}
DRAWING = ("--temperature", "1", "--top-k", "0", "--top-p", "1")
"""Of all that the agent would say: under GAIA's truncation the pocket model says the same eight times."""


def wheels(study: Study, seeds: Sequence[int], rounds: int, out: Path) -> list[Job]:
    """A flywheel for each seed, whose first round and tests are in states of the expert's ways."""
    return [_wheel(study, seed, rounds, out / "flywheel" / f"seed-{seed}") for seed in seeds]


def _wheel(study: Study, seed: int, rounds: int, folder: Path) -> Job:
    arguments = (
        *("critic", "flywheel", "--env", study.env, "--model", "pocket", "--rounds", str(rounds)),
        *("--begin", study.begin, "--split", study.training, "--test-split", study.split),
        *("--tasks", str(study.tasks), "--test-tasks", str(study.held_out), "--states", "expert"),
        *("--candidates", str(study.drawn), "--test-candidates", str(CANDIDATES), *DRAWING),
        *("--config", str(Path(__file__).with_name(f"{study.env}.yaml")), "--seed", str(seed), "--out", str(folder)),
    )
    return Job("flywheel", seed, folder, arguments, ())


def plays(study: Study, seeds: Sequence[int], rounds: int, out: Path) -> list[Job]:
    """Episodes with one draw a turn, with one of all taken by each of `CONTROLS`, and with the best by the critic of
    each round, alone and tilting the agent's choice; the last round first.
    """
    best = ("--best-of", str(CANDIDATES))
    made = [_play(study, ONE_DRAW, seed, out, ()) for seed in seeds]
    made += [_play(study, rule, seed, out, (*best, "--pick", rule)) for rule in CONTROLS for seed in seeds]
    for number in range(rounds, 0, -1):
        for arm, pick in ((f"round {number}", "critic"), (f"round {number} tilted", "tilted")):
            for seed in seeds:
                judge = critic_of(out / "flywheel" / f"seed-{seed}", number)
                made.append(_play(study, arm, seed, out, (*best, "--pick", pick, "--judge", str(judge))))
    return made


def critic_of(wheel: Path, number: int) -> Path:
    """The critic of a round of a flywheel."""
    return wheel / f"round-{number}" / "critic" / "critic"


def _play(study: Study, arm: str, seed: int, out: Path, more: Sequence[str]) -> Job:
    folder = out / arm.replace(" ", "-") / f"seed-{seed}"
    measuring = (
        *("evaluate", "--env", study.env, "--agent", "vanilla", "--model", "pocket", "--temperature", "1"),
        *("--split", study.split, "--tasks", str(study.episodes), "--seed", str(seed), *more),
        *("--out", str(folder / "test")),
    )
    return Job(arm, seed, folder, (), measuring)
