"""What is run: a flywheel for each seed, then whole episodes with one draw a turn and with the best of all.

Every part has a folder of its own: what is finished is not done again. Candidates are drawn of all that the agent would
say: under GAIA's truncation the pocket model says the same eight times. Left out: what comes of it (`report.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from align_echo.evaluate.plan import plan_evaluation
from align_echo.gaia.flywheel import Begin, critic_folder
from benchmarks.learning.runs import Job
from benchmarks.learning.verbs import evaluate, turn

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
    begin: Begin
    held_out: int
    episodes: int


_ALFWORLD = Study(
    "alfworld", "train", "valid_unseen", tasks=120, drawn=8, begin="start", held_out=60, episodes=134
)
_WEBSHOP = Study("webshop", "train", "test", tasks=150, drawn=32, begin="last", held_out=80, episodes=500)
STUDIES = {study.env: study for study in (_ALFWORLD, _WEBSHOP)}

def wheels(study: Study, seeds: Sequence[int], rounds: int, out: Path) -> list[Job]:
    """A flywheel for each seed, whose first round and tests are in states of the expert's ways."""
    return [_wheel(study, seed, rounds, out / "flywheel" / f"seed-{seed}") for seed in seeds]


def _wheel(study: Study, seed: int, rounds: int, folder: Path) -> Job:
    turning = partial(
        turn,
        env=study.env,
        rounds=rounds,
        begin=study.begin,
        split=study.training,
        test_split=study.split,
        tasks=study.tasks,
        test_tasks=study.held_out,
        candidates=study.drawn,
        test_candidates=CANDIDATES,
        config=Path(__file__).with_name(f"{study.env}.yaml"),
        seed=seed,
    )
    return Job("flywheel", seed, folder, turning, None)


def plays(study: Study, seeds: Sequence[int], rounds: int, out: Path) -> list[Job]:
    """Episodes with one draw a turn, with one of all taken by each of `CONTROLS`, and with the best by the critic of
    each round, alone and tilting the agent's choice; the last round first.
    """
    made = [_play(study, ONE_DRAW, seed, out) for seed in seeds]
    made += [_play(study, rule, seed, out, pick=rule) for rule in CONTROLS for seed in seeds]
    for number in range(rounds, 0, -1):
        for arm, pick in ((f"round {number}", "critic"), (f"round {number} tilted", "tilted")):
            for seed in seeds:
                judge = critic_folder(out / "flywheel" / f"seed-{seed}", number)
                made.append(_play(study, arm, seed, out, pick=pick, judge=judge))
    return made


def _play(
    study: Study, arm: str, seed: int, out: Path, *, pick: str | None = None, judge: Path | None = None
) -> Job:
    plan = partial(
        plan_evaluation,
        env=study.env,
        agent="vanilla",
        model="pocket",
        temperature=1.0,
        split=study.split,
        tasks=study.episodes,
        seed=seed,
        best_of=1 if pick is None else CANDIDATES,
        pick=pick or "critic",
        judge=None if judge is None else str(judge),
    )
    return Job(arm, seed, out / arm.replace(" ", "-") / f"seed-{seed}", None, partial(evaluate, plan))
