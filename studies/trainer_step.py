"""One optimizer step, this package's trainer and TRL's: `python -m studies.trainer_step [--rows N] [--rounds N]`.

Both learn from the same rows (token ids, masks, rewards) with copies of one untrained model of the pocket model's
shape: GRPO's loss with a mean over rows, AdamW, float32, on the CPU, as many rows a batch; what is timed is said in
`training_arms/one_step.py`. Rounds alternate which goes first; the first step of every round is not counted. Shapes:

    even     every row has the same length, and all of its completion was sampled
    kl       the same with a KL term: one more pass, through the reference
    uneven   completions are up to four fifths shorter, as are those of real episodes
    turns    completions of ten turns, half of them the environment's tokens

In the first two a batch holds the same rows in both, and ours computes no shared prompt once. TRL keeps rows in the
order of chance and, on a CPU, runs the head on every position; this package sorts rows by length and runs it where
there is a loss.

Prints medians and how far the norms of the gradients are apart (they should not be), then one JSON line about `even`:
`value` is our seconds a step, `baseline` TRL's, the rest as in `rounds.py`; `shapes` has the same of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from studies.rollout_arms.setting import random_model
from studies.rounds import Round, at_least_one, cost, costs
from studies.training_arms.one_step import GROUP, Shape, ours, some_rows, trls
from studies.training_arms.stopwatch import Spent


@dataclass(frozen=True)
class Steps:
    """The steps of both trainers on the same rows."""

    ours: list[Spent]
    trls: list[Spent]

    @property
    def rounds(self) -> tuple[Round, Round]:
        """All steps but the first, ours and TRL's."""
        return counted(self.ours), counted(self.trls)

    @property
    def apart(self) -> float:
        """The largest relative difference of the gradients' norms."""
        pairs = zip(self.ours, self.trls, strict=True)
        return max(abs(mine.gradient / other.gradient - 1) for mine, other in pairs)


def counted(steps: list[Spent]) -> Round:
    """All steps but the first."""
    return Round(len(steps) - 1, sum(step.seconds for step in steps[1:]), sum(step.cpu for step in steps[1:]))


def shapes(given: argparse.Namespace) -> dict[str, tuple[Shape, bool]]:
    """Shapes by name, and whether there is a KL term."""
    size = (given.rows, given.prompt, given.completion)
    return {
        "even": (Shape(*size), False),
        "kl": (Shape(*size), True),
        "uneven": (Shape(*size, spread=0.8), False),
        "turns": (Shape(*size, turns=10), False),
    }


def measure(
    name: str, shape: Shape, kl: bool, given: argparse.Namespace, model: Any, tokenizer: PreTrainedTokenizerBase
) -> list[Steps]:
    """All rounds of a shape."""
    rounds_run = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model.save_pretrained(folder)
        model.config._name_or_path = str(folder)
        for number in range(given.rounds):
            rows = some_rows(shape, len(tokenizer), number)
            steps: dict[str, list[Spent]] = {}
            for arm in ("ours", "trl") if number % 2 else ("trl", "ours"):
                if arm == "ours":
                    steps[arm] = ours(model, rows, given.batch, given.steps + 1, folder, kl=kl)
                else:
                    steps[arm] = trls(model, tokenizer, rows, given.batch, given.steps + 1, folder, kl=kl)
            rounds_run.append(Steps(steps["ours"], steps["trl"]))
            mine, theirs = rounds_run[-1].rounds
            print(f"{name}, round {number + 1}: ratio {cost(mine) / cost(theirs):.3f}", file=sys.stderr)
    return rounds_run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16, help=f"rows of a step, a multiple of {GROUP} (default 16)")
    parser.add_argument("--batch", type=int, default=4, help="rows of a batch, a divisor of the rows (default 4)")
    parser.add_argument("--prompt", type=int, default=300, help="tokens of a prompt (default 300)")
    parser.add_argument("--completion", type=int, default=500, help="tokens of a completion (default 500)")
    parser.add_argument("--steps", type=int, default=2, help="steps that are counted in a round (default 2)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    names = ["even", "kl", "uneven", "turns"]
    parser.add_argument("--shape", action="append", choices=names, help="only this; may be repeated")
    given = parser.parse_args()
    if given.rows % GROUP or given.rows % given.batch:
        parser.error(f"--rows must be a multiple of {GROUP} and of --batch")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(given.threads)
    model, tokenizer = random_model()
    chosen = {name: shape for name, shape in shapes(given).items() if name in (given.shape or [name])}
    report({name: measure(name, *arm, given, model, tokenizer) for name, arm in chosen.items()}, given)


def report(by_arm: dict[str, list[Steps]], given: argparse.Namespace) -> None:
    """The table and the JSON line."""
    print(f"{'':10}{'ours, s':>12}{'trl, s':>12}{'ratio':>10}{'of CPU s':>12}{'gradients apart':>18}")
    lines = {}
    for name, rounds in by_arm.items():
        ours_run, trls_run = zip(*(steps.rounds for steps in rounds), strict=True)
        line = lines[name] = costs(ours_run, trls_run)
        apart = max(steps.apart for steps in rounds)
        print(f"{name:10}{line['value']:12.3f}{line['baseline']:12.3f}{line['ratio']:10.3f}", end="")
        print(f"{line['cpu_ratio']:12.3f}{apart:18.1e}")
    head = "even" if "even" in lines else next(iter(lines))
    record = {
        "name": f"optimizer step on {given.rows} rows, {head}",
        "unit": "s",
        **lines[head],
        "n": given.rounds * given.steps,
        "shapes": {name: line for name, line in lines.items() if name != head},
        "rows_per_batch": given.batch,
        "tokens_per_row": given.prompt + given.completion,
        "threads": given.threads,
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
