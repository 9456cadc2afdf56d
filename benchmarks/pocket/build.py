"""The making of the pocket model from nothing: corpus, tokenizer, two stages of training, weights and card.

Left out: its evaluation (`align-echo evaluate --model pocket`), whose figures stand in the docs.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2
import torch
from pydantic import Field
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from align_echo import __version__
from align_echo.errors import UsageError, first_line
from align_echo.files import write_atomically
from align_echo.models.local.encoding import ChatEncoder
from align_echo.train.sft import Chat, SftSettings, encode, fine_tune
from align_echo.train.threads import computing_with
from align_echo.types import Frozen
from benchmarks.pocket.corpus import digest, make_part, read_part
from benchmarks.pocket.start import build_in_lookups
from benchmarks.pocket.tokenizer import train_tokenizer

CONTEXT = 4096
PARTS = {"glances": 1, "drills": 6, "household": 50, "critics": 10, "shopping": 12, "shopping-critics": 5}
SECOND_PARTS = {"remarks": 6, "critics": 1, "shopping": 1, "shopping-critics": 1}
LEAD_DRILLS = 3
"""Parts of drills that come before everything else, after the glances; the others are mixed in."""


class SecondStage(Frozen):
    """What comes after the first training: so many parts of each kind, and how to train on them."""

    parts: dict[str, int] = Field(default=SECOND_PARTS)
    training: SftSettings = SftSettings(
        seed=2, longest=1800, muon_lr=0.005, adamw_lr=8e-4, tokens_per_batch=4000, save_every=100
    )


class PocketSettings(Frozen):
    """All that decides the weights, besides the code. `parts` is how many parts of each kind the first corpus has.

    `threads` belongs here: the order of additions depends on their number.
    """

    seed: int = 1
    threads: int = 2
    parts: dict[str, int] = Field(default=PARTS)
    vocabulary: int = 2048
    hidden: int = 256
    layers: int = 4
    heads: int = 4
    key_value_heads: int = 2
    head: int = 64
    feed_forward: int = 640
    norm_start: float = 1.5
    training: SftSettings = SftSettings(seed=1, muon_lr=0.01, adamw_lr=1.5e-3, tokens_per_batch=4000)
    second: SecondStage = SecondStage()


def new_model(settings: PocketSettings, vocabulary: int) -> Qwen3ForCausalLM:
    """An untrained Qwen3 with lookups built in.

    The norms of queries and keys begin above 1: they bound how sharp attention can be. A rotary base as large as that
    of published Qwen3 leaves dimensions that hardly turn, by which tokens far apart can be compared.
    """
    torch.manual_seed(settings.seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=settings.hidden,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.key_value_heads,
            head_dim=settings.head,
            intermediate_size=settings.feed_forward,
            max_position_embeddings=CONTEXT,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=2,
            pad_token_id=0,
        )
    )
    for name, parameter in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            torch.nn.init.constant_(parameter, settings.norm_start)
    build_in_lookups(model, seed=settings.seed)
    return model


def build(settings: PocketSettings, out: Path, *, start: Path | None = None, resume: bool = False) -> Path:
    """Make the model in `out`/model; the corpus and checkpoints stay beside it. Parts that are there are kept.

    The first stage is in `out`/first. `start` is the folder of a model that takes its place: only the second stage is
    made, with the tokenizer of that model. `resume` goes on from the last checkpoint, of either stage.
    """
    first = start or out / "first"
    second_began = any((out / "second-checkpoints").glob("checkpoint-*"))
    if start is None and not (resume and second_began):
        _first_stage(settings, out, resume=resume)
    return _second_stage(settings, first, out, resume=resume and second_began)


def _first_stage(settings: PocketSettings, out: Path, *, resume: bool) -> Path:
    """From nothing to a model that plays, with habits."""
    corpus = {
        name: [make_part(name, number, seed=settings.seed, folder=out / "corpus") for number in range(count)]
        for name, count in settings.parts.items()
    }
    parts = [part for demonstrations in corpus.values() for part in demonstrations]
    lead = [corpus.get("glances", []), corpus.get("drills", [])[:LEAD_DRILLS]]
    rest = [part for part in parts if part not in (*lead[0], *lead[1])]
    tokenizer = train_tokenizer([shown for part in parts for shown in read_part(part)], size=settings.vocabulary)
    encoder = ChatEncoder(tokenizer)
    leading = [chats_of(part, encoder, settings.training) for part in lead]
    main = chats_of(rest, encoder, settings.training)
    with computing_with(settings.threads):
        model = new_model(settings, len(tokenizer))
        loss = fine_tune(model, main, settings.training, out / "checkpoints", lead=leading, resume=resume)
    facts: dict[str, Any] = {
        "align_echo": __version__,
        "settings": settings.model_dump(mode="json"),
        **facts_of(parts, [*itertools.chain(*leading), *main]),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "mean_loss": round(loss, 4),
        "second": {"data_sha256": "", "demonstrations": {}, "tokens": 0},
    }
    return save(model, tokenizer, facts, out / "first")


def _second_stage(settings: PocketSettings, first: Path, out: Path, *, resume: bool) -> Path:
    """The same model taught to tell words with content from words without.

    Its parts of the corpus begin where those of the first stage end. Raises `UsageError` for a folder without a model.
    """
    facts, tokenizer = made_of(first), AutoTokenizer.from_pretrained(first)
    for where_from in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(where_from, None)
    numbers = {name: (facts["settings"]["parts"].get(name, 0), count) for name, count in settings.second.parts.items()}
    parts = [
        make_part(name, begin + number, seed=settings.seed, folder=out / "corpus")
        for name, (begin, count) in numbers.items()
        for number in range(count)
    ]
    chats = chats_of(parts, ChatEncoder(tokenizer), settings.second.training)
    with computing_with(settings.threads):
        model = AutoModelForCausalLM.from_pretrained(first, dtype=torch.float32)
        loss = fine_tune(model, chats, settings.second.training, out / "second-checkpoints", resume=resume)
    facts["settings"]["second"] = settings.second.model_dump(mode="json")
    facts["second"] = {**facts_of(parts, chats), "mean_loss": round(loss, 4)}
    return save(model, tokenizer, facts, out / "model")


def made_of(folder: Path) -> dict[str, Any]:
    """What a model's `making.json` says. Raises `UsageError` if the folder has none."""
    try:
        facts = json.loads((folder / "making.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{folder} is no model that was made here: {first_line(error)}") from None
    return {name: fact for name, fact in facts.items() if name != "second"}


def chats_of(parts: list[Path], encoder: ChatEncoder, training: SftSettings) -> list[Chat]:
    """The demonstrations of some parts in tokens."""
    return [
        encode(shown, encoder, context_weight=training.context_weight) for part in parts for shown in read_part(part)
    ]


def facts_of(parts: list[Path], chats: list[Chat]) -> dict[str, object]:
    """Which data a stage was taught, for its record."""
    return {
        "data_sha256": digest(parts),
        "demonstrations": dict(sorted(Counter(chat.kind for chat in chats).items())),
        "tokens": sum(len(chat.ids) for chat in chats),
    }


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, facts: dict[str, Any], folder: Path) -> Path:
    """The folder that serves and trains: half-precision weights, tokenizer with its chat template, card."""
    partial = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(partial, ignore_errors=True)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    torch.nn.Module.to(model, dtype=torch.float16)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    write_atomically(partial / "making.json", json.dumps(facts, indent=1) + "\n")
    template = Path(__file__).with_name("card.j2").read_text(encoding="utf-8")
    card = jinja2.Template(template, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    write_atomically(partial / "README.md", card.render(facts=facts).strip())
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return folder
