"""What one GPU does with our engine and trainer: `make gpu-check`, or `python -m studies.gpu_check [--part NAME]`.

Models are of Qwen3's 0.6B and 4B shapes, with random weights made from a configuration; nothing is downloaded. Needs
torch, transformers, accelerate and peft; a vLLM that is installed is measured too.

    replies        conversations at once: our engine, transformers' continuous batching, vLLM; tokens a second
    decoding       a step that draws 8 tokens at 500 and at 2,000 columns, beside reading all weights once
    scorer         8 candidates judged after 1,000 and 8,000 tokens, beside whole forward passes
    training step  GRPO and ECHO on ALFWorld, by phase, with memory: prefixes shared or not, two models or two adapters,
                   played in float32 or bfloat16
    echo           rounds of ECHO's steps beside GRPO's, with shares of playing and learning (`echo.py`), on shapes of
                   its own: SmolLM2's 135M and Qwen3's 0.6B
    mismatch       how far the log-probabilities of playing are from those of learning, by turn

Every row is printed, and kept in `gpu_check.json`, as soon as it is there. What does not fit into --seconds is skipped,
and said. An engine that breaks is a row with its fault, and ends the check with status 1; without a GPU it ends at
once, with status 2. `--rehearse` goes through all of it with tiny shapes on the CPU. The last line is one JSON object:
`value` is our engine's tokens a second with the first model and the fewest conversations, `baseline` continuous
batching's.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import torch

from align_echo.base.files import write_atomically
from align_echo.errors import first_line
from studies.gpu_check import echo
from studies.gpu_check.engines import ENGINES
from studies.gpu_check.generation import DEPTHS, copied_bytes_a_second, decoding, judged, replies
from studies.gpu_check.shapes import FULL, TINY, Row, Work, new_model, parameters
from studies.gpu_check.training import ARMS, saved, training_step
from studies.rounds import at_least_one

PLAYING_PARTS = ("replies", "decoding", "scorer")
PARTS = (*PLAYING_PARTS, "training step", echo.PART)
NO_GPU = "gpu-check needs a GPU that torch can use: there is none here (--rehearse tries it out on the CPU)"


class OutOfTime(Exception):
    """The check's seconds are over."""


@dataclass
class Check:
    """A check under way: what it found so far, and when it has to end."""

    out: Path
    device: torch.device
    ends: float
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Keep and print it."""
        self.rows.append(row)
        print(row.line, flush=True)
        self.write()

    def write(self) -> None:
        """All there is, with where it was measured."""
        contents = {"machine": machine(self.device), "rows": [row.record for row in self.rows]}
        write_atomically(self.out, json.dumps(contents, indent=1) + "\n")

    def run(self, key: dict[str, Any], part: Callable[[], Iterator[Row]]) -> None:
        """The rows of a part; what breaks is a row too."""
        if time.monotonic() >= self.ends:
            self.add(Row(key, {"skipped": "the seconds were over"}))
            return
        try:
            for row in part():
                self.add(row)
        except OutOfTime:
            self.add(Row(key, {"skipped": "the seconds were over"}))
        except Exception as error:
            self.add(Row(key, {"fault": f"{type(error).__name__}: {first_line(error)}"}))
        free()


def free() -> None:
    """Give memory back that nothing uses any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def machine(device: torch.device) -> dict[str, Any]:
    """What it was measured on and with."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    packages = ("torch", "transformers", "accelerate", "peft")
    return {"device": name, "python": platform.python_version(), **{name: metadata.version(name) for name in packages}}


def check_playing(check: Check, name: str, work: Work, parts: Sequence[str]) -> Iterator[Row]:
    """All but training on one shape."""
    model = new_model(work.shapes[name], torch.bfloat16, check.device)
    yield Row({"part": "model", "model": name}, {"parameters": parameters(model)})
    on_gpu = check.device.type == "cuda"
    for rows, engine in product(work.rows, ENGINES) if "replies" in parts else ():
        key = {"part": "replies", "model": name, "conversations": rows, "engine": engine}
        check.run(key, partial(replies, model, name, engine, work, rows))
    for columns, graphs in product(DEPTHS, (True, False)) if "decoding" in parts and on_gpu else ():
        key = {"part": "decoding", "model": name, "columns": columns, "graphs": graphs}
        check.run(key, partial(decoding, model, name, columns, graphs))
    if "decoding" in parts and not on_gpu:
        check.run({"part": "decoding", "model": name}, partial(decoding, model, name, 64, False))
    for tokens in work.judged if "scorer" in parts else ():
        check.run({"part": "scorer", "model": name, "tokens": tokens}, partial(judged, model, name, tokens, work))


def check_training(check: Check, name: str, work: Work, arms: Sequence[str]) -> Iterator[Row]:
    """Training steps on one shape."""
    with tempfile.TemporaryDirectory() as folder:
        saved(new_model(work.shapes[name], torch.bfloat16, check.device), Path(folder), work.queries)
        free()
        for arm in arms:
            key = {"part": "training step", "model": name, "arm": arm}
            check.run(key, partial(training_step, Path(folder), name, arm, work))
    yield from ()


def check_echo(check: Check, work: Work, rounds: int) -> Iterator[Row]:
    """Rounds of all arms on all shapes, then what came of them."""
    visits = echo.Visits(check.ends)
    with tempfile.TemporaryDirectory() as root:
        for name, shape in work.echo_shapes.items():
            model = new_model(shape, torch.bfloat16, check.device)
            yield Row({"part": "model", "model": name}, {"parameters": parameters(model)})
            saved(model, Path(root, name), work.queries, range(rounds))
            del model
            free()
        for number, name in product(range(rounds), work.echo_shapes):
            for arm in echo.in_turns(number):
                key = {"part": echo.PART, "model": name, **arm.key, "round": number + 1}
                if not visits.fits(name, arm):
                    check.add(Row(key, {"skipped": echo.OVER}))
                    continue
                before = len(check.rows)
                check.run(key, partial(echo.visit, Path(root, name), name, arm, number, work))
                visits.rows += [row for row in check.rows[before:] if "seconds" in row.figures]
    for name, arm in product(work.echo_shapes, echo.ARMS):
        yield visits.summary(name, arm)


def last_line(check: Check, work: Work) -> dict[str, Any]:
    """The record of the first replies."""
    name, rows = next((row.key["model"] for row in check.rows if "model" in row.key), ""), work.rows[0]
    by_engine = {
        row.key["engine"]: row.figures.get("tokens_a_second")
        for row in check.rows
        if (row.key.get("model"), row.key.get("conversations")) == (name, rows) and "engine" in row.key
    }
    ours, baseline = by_engine.get("ours"), by_engine.get("continuous batching")
    record = {"name": f"replies to {rows} conversations, {name}, bfloat16", "value": ours, "unit": "tokens/s"}
    ratio = ours / baseline if ours and baseline else None
    return Row({}, {**record, "baseline": baseline, "ratio": ratio, "n": work.rounds}).record


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.gpu_check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"), help="file of the rows (gpu_check.json)")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    parser.add_argument("--model", action="append", choices=list(FULL.shapes), help="only this; may be repeated")
    parser.add_argument("--arm", action="append", choices=list(ARMS), help="only this training; may be repeated")
    parser.add_argument("--rounds", type=at_least_one, default=echo.ROUNDS, help="rounds of `echo` (default 3)")
    parser.add_argument("--seconds", type=int, default=450, help="within which it ends (default 450)")
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes on the CPU")
    given = parser.parse_args(arguments)
    if not (given.rehearse or torch.cuda.is_available()):
        print(NO_GPU, file=sys.stderr)
        return 2
    work = TINY if given.rehearse else FULL
    device = torch.device("cpu" if given.rehearse else "cuda")
    check = Check(given.out, device, time.monotonic() + given.seconds)
    print(", ".join(f"{name} {value}" for name, value in machine(device).items()), flush=True)
    check.add(Row({"part": "memory"}, {"copied_gb_a_second": copied_bytes_a_second(device) / 1e9}))
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(given.seconds)
    parts, names = given.part or PARTS, [name for name in work.shapes if name in (given.model or work.shapes)]
    for name in names if set(parts) & set(PLAYING_PARTS) else ():
        check.run({"part": "model", "model": name}, partial(check_playing, check, name, work, parts))
    if "training step" in parts:  # of the first shape: two whole models of 4B that learn are too many for a GPU
        name = next(iter(work.shapes))
        check.run({"part": "training step"}, partial(check_training, check, name, work, given.arm or list(ARMS)))
    if echo.PART in parts:
        check.run({"part": echo.PART}, partial(check_echo, check, work, given.rounds))
    signal.alarm(0)
    print(json.dumps(last_line(check, work)))
    broken = [row for row in check.rows if "fault" in row.figures]
    if broken:
        print(f"{len(broken)} of {len(check.rows)} parts broke: see above", file=sys.stderr)
    return 1 if broken else 0


def _out_of_time(*_: object) -> None:
    raise OutOfTime
