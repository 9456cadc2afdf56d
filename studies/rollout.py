"""Rollouts on ALFWorld, four ways side by side: `python -m studies.rollout [--batch N] [--turns N] [--rounds N]`.

    ours       `run_tasks` with a `LocalModel` on `TransformersEngine`: only what is new is computed, slots are refilled
    processes  the same with the model in --processes processes (`--workers processes:N`), so many batches at once
    prefill    a loop that computes every whole conversation anew each turn: batched `generate`, left padding, the same
             token ids (nothing is encoded twice), conversations that ended are dropped from the batch
    trl        TRL's own multi-turn generation: `GRPOTrainer` with `environment_factory`, its `_generate`, no training

All play the same tasks with copies of one model, at temperature 1, as many conversations at once (for each process),
float32, in one process but for `processes`; each round has tasks of its own, while there are, and takes the arms in
another order; one of other tasks comes first and is not counted. The model is the pocket model where it can run.
Otherwise (or with --random) it is one of its shape with random weights: then every arm draws exactly --reply-tokens
tokens a turn, and as those say nothing the action is a walk from place to place, the same in all arms. With TRL a reply
counts as a call of its tool whatever it says, and what it does outside `_generate` (resetting environments, rewards) is
not timed; it records no log-probabilities, ours does.

Prints the medians, then one JSON line: `value` is our generated tokens a second, `baseline` that of `prefill`; the
`cpu_ratio`s are of tokens a CPU second, which other work on the machine hardly changes. `interval` is from the slowest
round to the fastest, `cpu_s` the CPU seconds of an arm's round (median). `ratio_processes` is `processes` over `ours`
by the clock. `ratio_processes_idle` is what the CPU seconds allow on that many idle cores: those of `ours`, which works
on one core at a time, over those of `processes` by cores, or of its busiest process where that is more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

import align_echo
from align_echo.models.choosing import what_pocket_lacks
from studies.rollout_arms.loops import Ours, Prefill
from studies.rollout_arms.processes import InProcesses
from studies.rollout_arms.setting import SPLIT, Played, Setting, begin, make, pocket_model, random_model
from studies.rollout_arms.trl import Trl
from studies.rounds import at_least_one

Arm = Callable[[Sequence[str], int], Played]


def setting_of(given: argparse.Namespace) -> Setting:
    """The pocket model where it can run, else one of its shape."""
    fixed = bool(given.random or what_pocket_lacks())
    model, tokenizer = random_model() if fixed else pocket_model()
    tokens = given.reply_tokens or (12 if fixed else 32)
    return Setting(model, tokenizer, fixed, given.batch, given.turns, tokens, given.processes)


def measure(arms: dict[str, Arm], given: argparse.Namespace) -> dict[str, list[Played]]:
    """Every arm on every round's tasks."""
    every, dice, tasks = list(align_echo.tasks("alfworld", split=SPLIT)), random.Random(0), list[str]()
    while len(tasks) < given.batch + given.rounds * given.episodes:
        tasks += dice.sample(every, len(every))
    env = make(1)
    rounds_of: dict[str, list[Played]] = {name: [] for name in arms}
    for number in range(given.rounds + 1):
        count = given.episodes if number else given.batch
        chosen, tasks = tasks[:count], tasks[count:]
        for task in chosen:
            begin(env, task)  # what is compiled once and kept on disk
        names = list(arms)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            played = arms[name](chosen, number)
            what = f"round {number}" if number else "warm-up"
            line = f"{what}, {name}: {played.tokens} tokens, {played.replies} replies in {played.seconds:.1f} s"
            print(line, file=sys.stderr, flush=True)
            if number:
                rounds_of[name].append(played)
    return rounds_of


def median_of(played: Sequence[Played], value: Callable[[Played], float]) -> float:
    return statistics.median(map(value, played))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16, help="conversations at once (default 16)")
    parser.add_argument("--episodes", type=int, help="episodes of an arm in a round (default: batch x processes)")
    parser.add_argument("--turns", type=int, default=20, help="turns of an episode, at most (default 20)")
    parser.add_argument("--reply-tokens", type=int, help="tokens of a reply, at most (default 32; 12 with --random)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds that are counted (default 5)")
    parser.add_argument("--processes", type=int, default=2, help="processes of the arm of that name (default 2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    parser.add_argument("--random", action="store_true", help="random weights even where the pocket model can run")
    arms = ("ours", "processes", "prefill", "trl")
    parser.add_argument("--arm", action="append", choices=arms, help="only this; may be repeated")
    given = parser.parse_args()
    given.episodes = given.episodes or given.batch * given.processes
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    warnings.simplefilter("ignore", FutureWarning)
    torch.set_num_threads(given.threads)
    setting = setting_of(given)
    makers: dict[str, Callable[[Setting], Arm]] = {
        "ours": Ours,
        "processes": InProcesses,
        "prefill": Prefill,
        "trl": Trl,
    }
    rounds_of = measure({name: makers[name](setting) for name in given.arm or makers}, given)
    report(rounds_of, setting, given)


def report(rounds_of: dict[str, list[Played]], setting: Setting, given: argparse.Namespace) -> None:
    """The table and the JSON line; ratios are medians over the rounds."""
    rates = {name: median_of(rounds, lambda run: run.tokens / run.seconds) for name, rounds in rounds_of.items()}
    print(f"{'':10}{'tokens/s':>12}{'of CPU':>12}{'episodes/s':>12}{'replies/s':>12}{'tokens a reply':>16}")
    for name, rounds in rounds_of.items():
        print(f"{name:10}{rates[name]:12,.0f}{median_of(rounds, lambda run: run.tokens / run.cpu):12,.0f}", end="")
        print(f"{median_of(rounds, lambda run: run.episodes / run.seconds):12.3f}", end="")
        print(f"{median_of(rounds, lambda run: run.replies / run.seconds):12.1f}", end="")
        print(f"{median_of(rounds, lambda run: run.tokens / run.replies):16.1f}")
    record = {
        "name": f"rollout, {given.turns} turns",
        "value": rates.get("ours"),
        "unit": "tokens/s",
        "baseline": rates.get("prefill"),
        "ratio": ratio(rounds_of, "prefill", "tokens"),
        "n": given.rounds * given.episodes,
        "episodes_ratio": ratio(rounds_of, "prefill", "episodes"),
        "cpu_ratio": ratio(rounds_of, "prefill", "tokens", "cpu"),
        "trl": rates.get("trl"),
        "ratio_trl": ratio(rounds_of, "trl", "tokens"),
        "episodes_ratio_trl": ratio(rounds_of, "trl", "episodes"),
        "cpu_ratio_trl": ratio(rounds_of, "trl", "tokens", "cpu"),
        "processes": rates.get("processes"),
        "ratio_processes": None if (clock := ratio(rounds_of, "processes", "tokens")) is None else 1 / clock,
        "ratio_processes_idle": idle_ratio(rounds_of, given.processes),
        "interval": {
            name: [rate(min(rounds, key=rate)), rate(max(rounds, key=rate))] for name, rounds in rounds_of.items()
        },
        "cpu_s": {name: median_of(rounds, lambda run: run.cpu) for name, rounds in rounds_of.items()},
        "seconds": {name: median_of(rounds, lambda run: run.seconds) for name, rounds in rounds_of.items()},
        "load": os.getloadavg()[0],
        "batch": given.batch,
        "threads": given.threads,
        "model": "random weights, replies of fixed length" if setting.fixed else "pocket",
    }
    print(json.dumps(rounded(record)))


def rate(run: Played) -> float:
    """Tokens a second."""
    return run.tokens / run.seconds


def rounded(value: Any) -> Any:
    """Four digits of every number."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def idle_ratio(rounds_of: dict[str, list[Played]], cores: int) -> float | None:
    """Median over the rounds of how much less time `processes` needs than `ours` where as many cores are free."""
    if not {"ours", "processes"} <= set(rounds_of):
        return None
    pairs = zip(rounds_of["ours"], rounds_of["processes"], strict=True)
    return statistics.median(one.cpu / max(many.cpu / cores, many.busiest) for one, many in pairs)


def ratio(rounds_of: dict[str, list[Played]], baseline: str, what: str, per: str = "seconds") -> float | None:
    """Median over the rounds of our rate over another arm's in the same round."""
    if not {"ours", baseline} <= set(rounds_of):
        return None
    rates = [[float(getattr(run, what) / getattr(run, per)) for run in rounds_of[name]] for name in ("ours", baseline)]
    return float(statistics.median(ours / theirs for ours, theirs in zip(*rates, strict=True)))


if __name__ == "__main__":
    main()
