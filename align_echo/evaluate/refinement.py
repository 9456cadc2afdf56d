"""Self-improvement at test time: what failed is criticised and played anew, for some rounds (ICRL, paper 4, section 5).

The same rounds without a critic are the control: as many fresh attempts. Left out: training (`align_echo.train`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from align_echo.critic.review import Review
from align_echo.intervals import Estimate, mean_score, success_rate
from align_echo.rollout import Episode
from align_echo.types import Frozen, Trajectory

Play = Callable[[Sequence[Episode]], list[Trajectory]]
Reviews = Callable[[Sequence[Trajectory]], list[Review]]


class Round(Frozen):
    """How all episodes stand after a round; round 0 is the first attempt. A won episode is not played again.

    `played` is how many were, in this round; `unread` how many critiques could not be read: those were played anew
    without one.
    """

    number: int
    success_rate: Estimate
    mean_score: Estimate
    played: int
    unread: int = 0


def refine_rounds(
    tasks: Sequence[str], play: Play, reviews: Reviews | None, *, rounds: int, samples: int = 1
) -> tuple[list[Round], list[Trajectory]]:
    """`rounds` + 1 results, and the episodes as they stand at the end. Without `reviews`, fresh attempts.

    An episode is lost or won by its latest attempt. One that an engine or a model broke keeps the attempt before, and
    is criticised again in the next round.
    """
    standing = play([Episode(task, sample) for task in tasks for sample in range(samples)])
    results = [_round(0, standing, played=len(standing))]
    for number in range(1, rounds + 1):
        failed = [place for place, one in enumerate(standing) if one.fault is None and not one.won]
        said = reviews([standing[place] for place in failed]) if reviews else []
        advice = [one.advice for one in said] if reviews else [""] * len(failed)
        again = play(
            [
                Episode(standing[place].task_id, standing[place].sample % samples + number * samples, critique)
                for place, critique in zip(failed, advice, strict=True)
            ]
        )
        for place, one in zip(failed, again, strict=True):
            standing[place] = one if one.fault is None else standing[place]
        unread = sum(one.critique is None for one in said)
        results.append(_round(number, standing, played=len(failed), unread=unread))
    return results, standing


def _round(number: int, standing: Sequence[Trajectory], *, played: int, unread: int = 0) -> Round:
    return Round(
        number=number,
        success_rate=success_rate(standing),
        mean_score=mean_score(standing),
        played=played,
        unread=unread,
    )
