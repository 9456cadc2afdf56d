"""Actions of one wording that are right in some states and wrong in others: who tells those states apart?
`python -m benchmarks.flywheel.wordings ENV [--out DIR] [--rounds R]`

A critic that goes by the wording alone says the same of "click[Buy Now]" everywhere; this shows it, beside the agent's
own log-probability. Reads a study of `python -m benchmarks.flywheel ENV`. Left out: wordings of few states (`LEAST`).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from align_echo.errors import AlignEchoError
from align_echo.gaia.figures import JudgedState
from benchmarks.flywheel.report import judged_states
from benchmarks.flywheel.runs import STUDIES

LEAST = 20
"""States in which a wording is right, and in which it is wrong, for it to be reported."""


@dataclass(frozen=True)
class Proposed:
    """An action in a state: whether it is right, whether the critic says so, and the scores of both, None where there
    is none.
    """

    right: bool
    said_right: bool
    logit: float | None
    logprob: float | None


def by_wording(states: Sequence[JudgedState]) -> dict[str, list[Proposed]]:
    """The actions that are right in at least `LEAST` states, and wrong in as many, each once a state."""
    found: dict[str, list[Proposed]] = defaultdict(list)
    for state in states:
        logprobs = {candidate.action: candidate.logprob for candidate in reversed(state.candidates)}
        for action, label in state.labels.items():
            said = state.opinions[action]
            right = label == "correct"
            found[action].append(Proposed(right, said.verdict == "correct", said.logit, logprobs[action]))
    return {action: some for action, some in found.items() if min(_counts(some)) >= LEAST}


def auroc(right: Sequence[bool], scores: Sequence[float | None]) -> float | None:
    """How often a right one of a pair has the higher score; 0.5 is chance. None where a score is missing."""
    from sklearn.metrics import roc_auc_score

    known = [score for score in scores if score is not None]
    return float(roc_auc_score(right, known)) if len(known) == len(scores) else None


def _counts(some: Sequence[Proposed]) -> tuple[int, int]:
    return sum(proposal.right for proposal in some), sum(not proposal.right for proposal in some)


def _row(seed: int, action: str, some: Sequence[Proposed]) -> str:
    right = [proposal.right for proposal in some]
    told = [auroc(right, [proposal.logit for proposal in some]), auroc(right, [proposal.logprob for proposal in some])]
    critic, agent = ("" if one is None else f"{one:.2f}" for one in told)
    said = [sum(proposal.said_right for proposal in some if proposal.right is side) for side in (True, False)]
    rights, wrongs = _counts(some)
    return f"| {seed} | {action} | {said[0]} of {rights} | {said[1]} of {wrongs} | {critic} | {agent} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=sorted(STUDIES))
    parser.add_argument("--out", type=Path, help="of the study; default: runs/flywheel/ENV")
    parser.add_argument("--rounds", type=int, default=2, help="of the study; its last critic is looked at")
    given = parser.parse_args()
    wheels = (given.out or Path("runs/flywheel") / given.env) / "flywheel"
    if not wheels.is_dir():
        parser.error(f"there is no study in {wheels.parent}: first run python -m benchmarks.flywheel {given.env}")
    print("| seed | action | said right where right | where wrong | AUROC critic | AUROC log-probability |")
    print("|---" * 6 + "|")
    for folder in sorted(one for one in wheels.glob("seed-*") if one.is_dir()):
        judged = judged_states(folder, given.rounds).by_round[-1]
        for action, some in sorted(by_wording(judged).items()):
            print(_row(int(folder.name.removeprefix("seed-")), action, some))


if __name__ == "__main__":
    try:
        main()
    except AlignEchoError as error:
        sys.exit(f"{error}")
