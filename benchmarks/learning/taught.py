"""The start of the study `webshop-taught`: a critic that was taught longer. `python -m benchmarks.learning.taught`.

The pocket model is fine-tuned on what its own making showed it little of, critiques of attempts at training goals and
the attempts that follow them, with some shopping in between that keeps its hand in. Half an hour in one thread. A run
that was stopped goes on with the same command. The last line is one JSON object with the mean loss. Left out: whether
its critiques help (`align-echo evaluate --refine-rounds 1 --critic self`, beside `--critic none`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from align_echo import __version__
from align_echo.errors import AlignEchoError, UsageError
from align_echo.files import write_atomically
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.loading import pocket_folder
from align_echo.train.sft import SftSettings, encode, fine_tune
from benchmarks.pocket.corpus import digest, make_part, read_part

PARTS = {"shopping-critics": 30, "shopping": 4}
SEED = 7
"""Not that of the pocket model: it sees other attempts."""

SETTINGS = SftSettings(seed=SEED, muon_lr=0.003, adamw_lr=5e-4, tokens_per_batch=4000)


def teach(out: Path, parts: dict[str, int], settings: SftSettings) -> tuple[float, int]:
    """Writes `out`/model, whole; the mean loss, and how many chats were learned from.

    Raises `UsageError` if it is there already.
    """
    if (out / "model").exists():
        raise UsageError(f"{out / 'model'} is there already: name another --out")
    made = [
        make_part(name, number, seed=SEED, folder=out / "corpus")
        for name, count in parts.items()
        for number in range(count)
    ]
    model = AutoModelForCausalLM.from_pretrained(pocket_folder(), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(pocket_folder())
    shown = [demonstration for part in made for demonstration in read_part(part)]
    chats = [
        encode(demonstration, ChatEncoder(tokenizer), context_weight=settings.context_weight) for demonstration in shown
    ]
    begun = any((out / "checkpoints").glob("checkpoint-*"))
    loss = fine_tune(model, chats, settings, out / "checkpoints", resume=begun)
    facts = {
        "align_echo": __version__,
        "settings": settings.model_dump(mode="json"),
        "data_sha256": digest(made),
        "demonstrations": dict(sorted(Counter(demonstration.kind for demonstration in shown).items())),
        "mean_loss": round(loss, 4),
    }
    beside = out / "model.making"
    shutil.rmtree(beside, ignore_errors=True)
    torch.nn.Module.to(model, dtype=torch.float16)
    model.save_pretrained(beside)
    tokenizer.save_pretrained(beside)
    write_atomically(beside / "making.json", json.dumps(facts, indent=1) + "\n")
    beside.rename(out / "model")
    return loss, len(chats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/learning/taught"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    loss, chats = teach(given.out, PARTS, SETTINGS)
    last = {"name": "taught, webshop", "value": round(loss, 4), "unit": "mean loss, nats", "baseline": None}
    print(json.dumps({**last, "ratio": None, "n": chats}))


if __name__ == "__main__":
    try:
        main()
    except AlignEchoError as error:
        sys.exit(f"{error}")
