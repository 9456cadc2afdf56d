"""One optimizer step, our trainer's and TRL's: `python -m studies.trainer_step [--rows N] [--rounds N] [--shape NAME]`.

Both learn from the same random rows (token ids, masks, rewards) with copies of the pocket model: GRPO's loss with a
mean over rows, AdamW, float32, on the CPU, as many rows a batch. A step is advantages, padding, forward and backward
passes, clipping and AdamW; handing over the rows is not timed. Rounds alternate which goes first; the first step of
every round is not counted. Shapes:

    even     every row has the same length, and all of its completion was sampled
    kl       the same with a KL term: one more pass, through the reference
    uneven   completions are up to four fifths shorter, as are those of real episodes
    turns    completions of ten turns, half of them the environment's tokens

In the first two a batch holds the same rows in both, and ours computes no shared prompt once. TRL does not sort rows by
length and, on a CPU, runs the head on every position.

Prints medians and how far the norms of the gradients are apart (they should not be), then one JSON line of the first
shape: `value` is our seconds a step, `baseline` TRL's, the rest as in `rounds.py`; `shapes` has all.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback, TrainingArguments

from align_echo.tokens import TokenSequence
from align_echo.train.backbone import WholeModels
from align_echo.train.objective import ObjectiveSettings
from align_echo.train.rows import RolloutBatch, Row
from align_echo.train.trainer import RoleTrainer, StepSettings, build_optimizer
from studies.pocket_model import pocket_model
from studies.rounds import Round, at_least_one, costs

GROUP = 8
LR = 1e-6
BETA = 0.001
FIRST_ID = 8
"""Ids below may be special tokens."""

SHAPES: dict[str, dict[str, Any]] = {"even": {}, "kl": {"kl": True}, "uneven": {"spread": 0.8}, "turns": {"turns": 10}}

# ---------------------------------------------------------------- the clock


@dataclass(frozen=True)
class Spent:
    """Seconds and CPU seconds of a step, the norm of its gradient before clipping, and seconds of named phases."""

    seconds: float
    cpu: float
    gradient: float
    phases: Mapping[str, float] = field(default_factory=dict)


class Stopwatch(TrainerCallback):
    """Times each step of a `transformers.Trainer`; `paused` leaves a function out, `phase` names a part.

    `spans` are the parts of the last step: name, begin and end by `time.perf_counter`.
    """

    def __init__(self) -> None:
        self.steps: list[Spent] = []
        self.spans: list[tuple[str, float, float]] = []
        self._begun = self._out = self._spent = (0.0, 0.0)
        self._phases: dict[str, float] = {}

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._begun, self._out, self._phases, self.spans = _now(), (0.0, 0.0), {}, []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spent = _less(_less(_now(), self._begun), self._out)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "learning_rate" in (logs or {}):  # a step's; it has no gradient where nothing could be learned
            self.steps.append(Spent(*self._spent, float(logs.get("grad_norm", "nan")), self._phases))

    def paused(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function, not timed."""

        def untimed(argument: Any) -> Any:
            begun = _now()
            result = call(argument)
            self._out = _less(self._out, _less(begun, _now()))
            return result

        return untimed

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done meanwhile as part of that phase."""
        begun = _now()[0]
        yield
        end = _now()[0]
        self._phases[name] = self._phases.get(name, 0.0) + end - begun
        self.spans.append((name, begun, end))


def _now() -> tuple[float, float]:
    """Read both clocks, after the GPU has done all it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


def _less(total: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return total[0] - other[0], total[1] - other[1]


# ---------------------------------------------------------------- one step


def some_rows(given: argparse.Namespace, vocabulary: int, seed: int, turns: int = 1, spread: float = 0.0) -> list[Row]:
    """Draw rows with random rewards; a group shares its prompt. `spread`: how much shorter the shortest is."""
    dice = random.Random(seed)
    made = []
    for number in range(given.rows):
        if number % GROUP == 0:
            prompt = tuple(dice.randrange(FIRST_ID, vocabulary) for _ in range(given.prompt))
        length = round(given.completion * (1 - spread * dice.random()))
        completion = tuple(dice.randrange(FIRST_ID, vocabulary) for _ in range(length))
        turn = max(1, length // turns)
        sampled = [int(turns == 1 or index % turn < (turn + 1) // 2) for index in range(length)]
        ids, mask = (*prompt, *completion), (*[0] * len(prompt), *sampled)
        tokens = TokenSequence(ids, mask, (0.0,) * len(ids), ((len(prompt), len(ids)),))
        made.append(Row(tokens, "policy", str(number // GROUP), dice.random()))
    return made


def _arguments(folder: Path, steps: int) -> dict[str, Any]:
    """Return what both trainers are given."""
    quiet = {"report_to": [], "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no"}
    return {"output_dir": str(folder), "max_steps": steps, "learning_rate": LR, "use_cpu": True, **quiet}


def ours(model: Any, _: Any, rows: Sequence[Row], batch: int, steps: int, folder: Path, *, kl: bool) -> list[Spent]:
    """Take steps of `RoleTrainer`; `batch` of the longest rows fit a batch. Rows share no prefixes, as TRL's."""
    learner = copy.deepcopy(model)
    backbone, watch = WholeModels({"policy": learner, "critic": learner}, reference=kl), Stopwatch()
    trainer = RoleTrainer(
        backbone,
        watch.paused(lambda number: RolloutBatch(tuple(rows))),
        StepSettings(
            objective=ObjectiveSettings(beta=BETA if kl else 0.0),
            tokens_per_batch=batch * max(len(row.tokens.ids) for row in rows),
            normalisation="sequence",  # as TRL's "grpo" does
            share_prefixes=False,
        ),
        TrainingArguments(**_arguments(folder, steps)),
        optimizer=build_optimizer(backbone, {"policy": LR, "critic": LR}),
        publish=lambda: None,
        watch=lambda step, signals: None,
        callbacks=[watch],
    )
    return _stepped(trainer, watch)


def trls(
    model: Any, tokenizer: Any, rows: Sequence[Row], batch: int, steps: int, folder: Path, *, kl: bool
) -> list[Spent]:
    """Take steps of a stock `GRPOTrainer`. Its model must be in `folder`, for the reference."""
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    parts = [(row, row.tokens.mask.index(1)) for row in rows]

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": [list(row.tokens.ids[:start]) for row, start in parts],
            "completion_ids": [list(row.tokens.ids[start:]) for row, start in parts],
            "env_mask": [list(row.tokens.mask[start:]) for row, start in parts],
            "logprobs": None,
            "earned": [row.reward for row in rows],
        }

    watch = Stopwatch()
    arguments = GRPOConfig(
        **_arguments(folder, steps),
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=len(rows) // batch,
        num_generations=GROUP,
        loss_type="grpo",
        beta=BETA if kl else 0.0,
        use_bias_correction_kl=False,
    )
    make: Callable[..., Any] = GRPOTrainer
    trainer = make(
        model=copy.deepcopy(model),
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * (len(rows) // GROUP)),
        processing_class=tokenizer,
        reward_funcs=lambda earned, **_: earned,
        rollout_func=rollout,
        callbacks=[watch],
    )
    trainer._generate = watch.paused(trainer._generate)
    return _stepped(trainer, watch)


def _stepped(trainer: Any, watch: Stopwatch) -> list[Spent]:
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return watch.steps


# ---------------------------------------------------------------- all rounds


def measure(name: str, given: argparse.Namespace, model: Any, tokenizer: Any) -> dict[str, Any]:
    """Take all rounds of a shape; `costs`, and the largest relative difference of the gradients' norms."""
    shape = dict(SHAPES[name])
    kl, apart = shape.pop("kl", False), 0.0
    rounds: dict[str, list[Round]] = {"ours": [], "trl": []}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        model.config._name_or_path = folder
        for number in range(given.rounds):
            rows = some_rows(given, len(tokenizer), number, **shape)
            steps: dict[str, list[Spent]] = {}
            for arm in ("ours", "trl") if number % 2 else ("trl", "ours"):
                take = ours if arm == "ours" else trls
                steps[arm] = take(model, tokenizer, rows, given.batch, given.steps + 1, Path(folder), kl=kl)
                seconds, cpu = (sum(getattr(step, clock) for step in steps[arm][1:]) for clock in ("seconds", "cpu"))
                rounds[arm].append(Round(given.steps, seconds, cpu))
            pairs = zip(steps["ours"], steps["trl"], strict=True)
            apart = max(apart, *(abs(mine.gradient / other.gradient - 1) for mine, other in pairs))
    return {**costs(rounds["ours"], rounds["trl"]), "gradients_apart": apart}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16, help=f"rows of a step, a multiple of {GROUP} (default 16)")
    parser.add_argument("--batch", type=int, default=4, help="rows of a batch, a divisor of the rows (default 4)")
    parser.add_argument("--prompt", type=int, default=100, help="tokens of a prompt (default 100)")
    parser.add_argument("--completion", type=int, default=200, help="tokens of a completion (default 200)")
    parser.add_argument("--steps", type=int, default=2, help="steps that are counted in a round (default 2)")
    parser.add_argument("--rounds", type=at_least_one, default=2, help="rounds (default 2)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="may be repeated (default even)")
    given = parser.parse_args()
    if given.rows % GROUP or given.rows % given.batch:
        parser.error(f"--rows must be a multiple of {GROUP} and of --batch")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(given.threads)
    model, tokenizer = pocket_model()
    lines = {name: measure(name, given, model, tokenizer) for name in given.shape or ["even"]}
    print(f"{'':10}{'ours, s':>12}{'trl, s':>12}{'ratio':>10}{'of CPU s':>12}{'gradients apart':>18}")
    for name, line in lines.items():
        print(f"{name:10}{line['value']:12.3f}{line['baseline']:12.3f}{line['ratio']:10.3f}", end="")
        print(f"{line['cpu_ratio']:12.3f}{line['gradients_apart']:18.1e}")
    head = next(iter(lines))
    record = {"name": f"optimizer step on {given.rows} rows, {head}", "unit": "s", **lines[head]}
    print(json.dumps({**record, "n": given.rounds * given.steps, "shapes": lines}))


if __name__ == "__main__":
    main()
