"""What the host costs a rollout: a model that costs nothing plays ALFWorld: `python -m studies.rollout_host`.

The model has one layer of 32, random weights, a vocabulary of 49,152 and SmolLM2's tokenizer (the pocket model's where
SmolLM2 is not fetched: the figures are others then). Its replies have six tokens, and episodes have 20 turns. Each of
8, 64 and 256 conversations at once plays two episodes, in the raw environment and with `probe`. The baseline is
transformers' continuous batching of whole conversations (`--no-baseline` leaves it out).

Prints tokens and turns a second, and of 64 raw conversations, in a round of its own, the shares of this process's CPU
time: every five milliseconds what each thread has computed since counts for the part of its innermost known line
(Linux). Then one JSON line, as in `rounds.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import align_echo
from align_echo.models.local.loading import load_tokenizer
from align_echo.models.packages import folder_by_name
from align_echo.rollout.session import base_env
from align_echo.wrappers.text_env import TextEnv
from studies.pocket_model import pocket_model
from studies.rollout import SPLIT, Continuous, Ours, Setting, measure
from studies.rounds import at_least_one, rate, rates, shortened

VOCABULARY = 49_152
CONTEXT = 8192
REPLY_TOKENS = 6
BATCHES = (8, 64, 256)
OF_INTEREST = 64
INTERVAL = 0.005

PARTS: Mapping[str, str] = {
    "local/rows": "sampling",
    "local/row_blocks": "attention's bookkeeping",
    "local/slot": "attention's bookkeeping",
    "local/transformers_engine": "engine step",
    "local/chat_template": "template",
    "local/encoding": "tokenizer and texts",
    "tokenizers": "tokenizer and texts",
    "transformers/models": "forward pass",
    "align_echo/interface": "sandbox",
    "wrappers/": "environment",
    "align_echo/agents": "agent",
    "align_echo/rollout": "agent",
    "align_echo/models": "agent",
    "align_echo/prompts": "agent",
}
"""Part of a file's path -> the part of a rollout; the innermost known frame decides."""

@dataclass(frozen=True)
class HostSetting(Setting):
    """`Setting` with an interface around the environment."""

    interface: str = "none"

    def env(self) -> TextEnv:
        if self.interface == "none":
            return super().env()
        return base_env(align_echo.make("alfworld", split=SPLIT, step_limit=self.turns, interface=self.interface))


class Sampler:
    """Divides the CPU time of all threads by parts while it is open."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._before: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def shares(self) -> dict[str, float]:
        """Part -> its share of the CPU time."""
        total = sum(self._spent.values()) or 1
        return {part: round(spent / total, 3) for part, spent in self._spent.most_common()}

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            frames = sys._current_frames()
            for thread in threading.enumerate():
                if thread is self._thread or thread.native_id is None:
                    continue
                with suppress(OSError):  # the thread has ended
                    spent = int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0])
                    since = spent - self._before.get(thread.native_id, spent)
                    self._before[thread.native_id] = spent
                    self._spent[part_at(frames.get(thread.ident or 0))] += since


def part_at(frame: FrameType | None) -> str:
    """Return the part of a thread at this frame."""
    while frame is not None:
        for piece, part in PARTS.items():
            if piece in frame.f_code.co_filename:
                return part
        frame = frame.f_back
    return "other"


def null_model() -> Any:
    """Make a model that costs nothing."""
    torch.manual_seed(0)
    size: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads: dict[str, Any] = {"num_attention_heads": 1, "num_key_value_heads": 1}
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, **size, **heads)
    model: Any = LlamaForCausalLM(config)
    return model.eval()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=at_least_one, action="append", help="conversations at once (8, 64 and 256)")
    parser.add_argument("--turns", type=at_least_one, default=20, help="turns of an episode (default 20)")
    parser.add_argument("--rounds", type=at_least_one, default=2, help="rounds that are counted (default 2)")
    parser.add_argument("--threads", type=at_least_one, default=1, help="threads of torch (default 1)")
    parser.add_argument("--no-baseline", action="store_true", help="leave continuous batching out")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folder = folder_by_name("smollm2")
    fetched = folder is not None and folder.is_dir()
    tokenizer = load_tokenizer(str(folder)) if fetched else pocket_model()[1]
    shares: dict[str, float] = {}
    record: dict[str, Any] = {}
    for batch in given.batch or BATCHES:
        raw = HostSetting(null_model(), tokenizer, batch, given.turns, REPLY_TOKENS)
        arms: dict[str, Any] = {"raw": Ours(raw), "probe": Ours(replace(raw, interface="probe"))}
        if batch == OF_INTEREST and not given.no_baseline:
            arms["continuous"] = Continuous(raw)
        rounds_of = measure(arms, raw, given.rounds, 2 * batch)
        with Sampler() as sampler:  # which takes time itself
            measure({"raw": arms["raw"]}, raw, 1, batch)
        for name, rounds in rounds_of.items():
            tokens = statistics.median(map(rate, rounds))
            print(f"{batch:4} {name:11} {tokens:9,.0f} tokens/s {tokens / REPLY_TOKENS:7,.0f} turns/s")
        if batch == OF_INTEREST or not record:
            shares = sampler.shares
            value = shortened(statistics.median(map(rate, rounds_of["raw"])))
            alone = {"value": value, "baseline": None, "ratio": None}
            others = {name: rates(rounds_of["raw"], rounds) for name, rounds in rounds_of.items() if name != "raw"}
            record = {"name": f"rollout_host, {batch} conversations", "unit": "tokens/s"}
            record |= {**others.get("continuous", alone), "n": given.rounds * 2 * batch, "arms": others}
    print("  ".join(f"{part} {share:.0%}" for part, share in shares.items()))
    print(json.dumps({**record, "tokenizer": "smollm2" if fetched else "pocket", "shares": shares}))


if __name__ == "__main__":
    main()
