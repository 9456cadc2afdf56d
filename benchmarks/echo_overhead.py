"""ECHO's step beside GRPO's: `python -m benchmarks.echo_overhead [--queries N] [--samples N] [--turns N] [--rounds N]`.

Whole training steps on ALFWorld with the package's own trainer: weights into the engines, playing, learning, optimizer.
Every arm has the same model, environments, engine, dtype, KL term (ECHO's own weight, with a reference in all arms: so
every row is computed whatever its reward), tokens a batch and tasks, in one process; rounds have tasks of their own and
take the arms in turns. One small step comes first and is not counted.

    grpo             N episodes a task
    echo             an attempt, N critiques, N refined attempts; both roles learn. The tasks are in four parts (or as
                     many as there are tasks) that do not wait for each other between the three, as in a run on the CPU
    echo, waiting    the same in one part: all attempts, all critiques, all refined attempts
    echo-frozen      as echo, only the policy learns
    grpo, sampled    GRPO with as many more episodes as it takes to sample as many tokens as echo
    grpo, trained    and to compute as many tokens when learning

The model is --model, a folder, or the pocket model where it can run, with replies and episodes as they come; otherwise
(or with --random) one of the pocket model's shape with random weights: then every reply has exactly --reply-tokens
tokens, a critique --critique-tokens (the pocket model's own have about 6 and 70), every episode --turns turns, and as
they say nothing, actions are a walk and critiques are read as a fixed one.

Prints the phases, by the clock and in CPU seconds, and how much each arm played and learned from, then one JSON line:
`value` is echo's seconds a step, `baseline` grpo's, the rest as in `rounds.py`; `by grpo` holds the
ratios of other arms by grpo, `echo by` those of echo by the controls. `--arm` leaves all but some of them out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from align_echo.models.names import POCKET, what_pocket_lacks
from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.run import choose_tasks
from align_echo.train.stage import PARTS
from align_echo.wrappers.catalogue import make, tasks
from benchmarks.rollout_arms.setting import SPLIT, random_model
from benchmarks.rounds import Round, at_least_one, costs
from benchmarks.training_arms.phases import PHASES, Measured, WatchedRun

WAITING = "echo, waiting"
ARMS = {"grpo": "grpo", "echo": "echo", WAITING: "echo", "echo-frozen": "echo-frozen-critic"}
CONTROLS = {"grpo, sampled": "sampled", "grpo, trained": "trained"}
BETA = 0.001
RATIOS = ("ratio", "interval", "cpu_ratio", "cpu_interval")
COUNTS = ("episodes", "turns", "sampled", "trained", "unread")

Found = dict[str, list[Measured]]


def config_of(arm: str, samples: int, given: argparse.Namespace, *, model: str, seed: int) -> TrainConfig:
    """One step of an arm."""
    shared = {
        "env": "alfworld",
        "split": SPLIT,
        "model": model,
        "weights": given.weights,
        "step": {
            "objective": {"beta": BETA, "kl": "k3"},
            "tokens_per_batch": given.tokens_per_batch,
            "share_prefixes": not given.no_shared_prefixes,
        },
        "collecting": {
            "queries": given.queries,
            "samples": samples,
            "turns": given.turns,
            "reply_tokens": given.reply_tokens,
            "critique_tokens": given.critique_tokens,
            "workers": 2 * given.queries * given.samples,
        },
        "steps": 1,
        "threads": given.threads,
        "seed": seed,
    }
    name = ARMS.get(arm, "grpo")
    alone = {"trained": ["policy"]} if name == "grpo" else {}
    return checked_config(merged(method(name), {**shared, **alone}), arm)


def measured(config: TrainConfig, fixed: bool, parts: int) -> Measured:
    """One step, in a folder that is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        return WatchedRun(config, Path(folder), fixed=fixed, parts=parts).measured()


def samples_of(arm: str, by_arm: Found, given: argparse.Namespace) -> int:
    """Episodes a task; those of the controls make up for what the first round's echo had more than grpo."""
    samples: int = given.samples
    if arm in ARMS:
        return samples
    more = by_arm["echo"][0].counts[CONTROLS[arm]] / by_arm["grpo"][0].counts[CONTROLS[arm]]
    return max(2, round(samples * more))


def measure(model: str, fixed: bool, given: argparse.Namespace) -> Found:
    """All arms in every round."""
    pool = tasks("alfworld", split=SPLIT)
    names = [name for name in (*ARMS, *CONTROLS) if name in {"grpo", "echo", *(given.arm or (*ARMS, *CONTROLS))}]
    by_arm: Found = {name: [] for name in names}
    env = make("alfworld", split=SPLIT)
    small = {"collecting": {"queries": 1, "turns": 2}}
    warm_up = merged(config_of("echo", 2, given, model=model, seed=0).model_dump(), small)
    measured(checked_config(warm_up, "warm-up"), fixed, 1)
    for number in range(given.rounds):
        for task in choose_tasks(0, pool, given.queries, number):
            env.reset(options={"task": task})  # what is compiled once and kept on disk
        for arm in names[number % len(names) :] + names[: number % len(names)]:
            config = config_of(arm, samples_of(arm, by_arm, given), given, model=model, seed=number)
            by_arm[arm].append(measured(config, fixed, 1 if arm == WAITING else PARTS))
            print(f"round {number + 1}, {arm}: {by_arm[arm][-1].spent.seconds:.1f} s", file=sys.stderr, flush=True)
    return by_arm


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2, help="tasks of a step (default 2)")
    parser.add_argument("--samples", type=int, default=8, help="N (default 8)")
    parser.add_argument("--turns", type=int, default=30, help="turns of an episode, at most (default 30)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="steps of every arm (default 5)")
    parser.add_argument("--reply-tokens", type=int, default=12, help="tokens of a reply, at most (default 12)")
    parser.add_argument("--critique-tokens", type=int, default=72, help="tokens of a critique, at most (default 72)")
    parser.add_argument("--tokens-per-batch", type=int, default=8192, help="of learning, padding too (default 8192)")
    parser.add_argument("--no-shared-prefixes", action="store_true", help="compute every row by itself")
    kinds = ["models", "adapters"]
    parser.add_argument("--weights", choices=kinds, default=kinds[0], help="of the roles (default models)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    parser.add_argument("--model", default=POCKET, help="a model's folder, or pocket (default)")
    parser.add_argument("--random", action="store_true", help="random weights even where the pocket model can run")
    others = [arm for arm in (*ARMS, *CONTROLS) if arm not in ("grpo", "echo")]
    parser.add_argument("--arm", action="append", choices=others, help="only this beside grpo and echo; repeatable")
    given = parser.parse_args()
    fixed = bool(given.random or (given.model == POCKET and what_pocket_lacks()))
    with tempfile.TemporaryDirectory() as folder:
        if fixed:
            model, tokenizer = random_model()
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        report(measure(folder if fixed else given.model, fixed, given), given, fixed)


def compared(by_arm: Found, arm: str, baseline: str) -> dict[str, Any]:
    """Seconds a step of both, as in `rounds.py`."""
    ours, theirs = ([Round(1, step.spent.seconds, step.spent.cpu) for step in by_arm[name]] for name in (arm, baseline))
    return costs(ours, theirs)


def ratios(by_arm: Found, arm: str, baseline: str) -> dict[str, Any]:
    """The ratios of both, by the clock and of CPU seconds, with their intervals."""
    return {key: value for key, value in compared(by_arm, arm, baseline).items() if key in RATIOS}


def median(rounds: list[Measured], value: Callable[[Measured], float]) -> float:
    return statistics.median(map(value, rounds))


def table(by_arm: Found, clock: int) -> None:
    """Phases in medians of seconds (`clock` 0) or CPU seconds (1)."""

    def step(measured: Measured) -> float:
        return (measured.spent.seconds, measured.spent.cpu)[clock]

    named = f"{('step, s', 'step, CPU s')[clock]:>12}"
    print(f"{'':16}{named}{'ratio':>8}", *(f"{name:>15}" for name in (*PHASES, "rest")), sep="")
    for arm, rounds in by_arm.items():
        phases = [statistics.median(measured.spent.of(phase, clock) for measured in rounds) for phase in PHASES]
        phases.append(statistics.median(measured.spent.rest(clock) for measured in rounds))
        ratio = compared(by_arm, arm, "grpo")[("ratio", "cpu_ratio")[clock]]
        print(f"{arm:16}{median(rounds, step):12.2f}{ratio:8.3f}", end="")
        print(*(f"{value:15.2f}" for value in phases), sep="")


def counts(by_arm: Found) -> None:
    """How much a step played and learned from, by arm."""
    print(f"{'a step':16}", *(f"{name:>12}" for name in COUNTS), sep="")
    for arm, rounds in by_arm.items():
        medians = [statistics.median(measured.counts[name] for measured in rounds) for name in COUNTS]
        print(f"{arm:16}", *(f"{value:12,.0f}" for value in medians), sep="")


def report(by_arm: Found, given: argparse.Namespace, fixed: bool) -> None:
    """The tables and the JSON line."""
    for clock in (0, 1):
        table(by_arm, clock)
    counts(by_arm)
    record = {
        "name": f"echo step, N = {given.samples}, {given.turns} turns",
        "unit": "s",
        **compared(by_arm, "echo", "grpo"),
        "n": given.rounds,
        "by grpo": {arm: ratios(by_arm, arm, "grpo") for arm in (WAITING, "echo-frozen") if arm in by_arm},
        "echo by": {arm: ratios(by_arm, "echo", arm) for arm in CONTROLS if arm in by_arm},
        "queries": given.queries,
        "threads": given.threads,
        "shared_prefixes": not given.no_shared_prefixes,
        "model": "random weights, replies of fixed length" if fixed else Path(given.model).name,
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
