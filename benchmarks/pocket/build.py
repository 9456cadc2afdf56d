"""The making of the pocket model from nothing: corpus, tokenizer, training, weights and card.

Left out: its evaluation (`align-echo evaluate --model pocket`), whose figures stand in the docs.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import jinja2
import torch
from pydantic import Field
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from align_echo import __version__
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
LEAD_DRILLS = 3
"""Parts of drills that come before everything else, after the glances; the others are mixed in."""


class PocketSettings(Frozen):
    """All that decides the weights, besides the code. `parts` is how many parts of each kind the corpus has.

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


def build(settings: PocketSettings, out: Path, *, resume: bool = False) -> Path:
    """Make the model in `out`/model; the corpus and checkpoints stay beside it. Parts that are there are kept."""
    corpus = {
        name: [make_part(name, number, seed=settings.seed, folder=out / "corpus") for number in range(count)]
        for name, count in settings.parts.items()
    }
    parts = [part for demonstrations in corpus.values() for part in demonstrations]
    lead = [corpus.get("glances", []), corpus.get("drills", [])[:LEAD_DRILLS]]
    rest = [part for part in parts if part not in (*lead[0], *lead[1])]
    shown = {part: read_part(part) for part in parts}
    demonstrations = [demonstration for part in parts for demonstration in shown[part]]
    tokenizer = train_tokenizer(demonstrations, size=settings.vocabulary)
    encoder = ChatEncoder(tokenizer)

    def chats(of: list[Path]) -> list[Chat]:
        return [
            encode(demonstration, encoder, context_weight=settings.training.context_weight)
            for part in of
            for demonstration in shown[part]
        ]

    first, main = [chats(part) for part in lead], chats(rest)
    with computing_with(settings.threads):
        model = new_model(settings, len(tokenizer))
        loss = fine_tune(model, main, settings.training, out / "checkpoints", lead=first, resume=resume)
    facts = {
        "align_echo": __version__,
        "settings": settings.model_dump(mode="json"),
        "data_sha256": digest(parts),
        "demonstrations": dict(sorted(Counter(demonstration.kind for demonstration in demonstrations).items())),
        "tokens": sum(len(chat.ids) for chats_of in (*first, main) for chat in chats_of),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "mean_loss": round(loss, 4),
    }
    return save(model, tokenizer, facts, out / "model")


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, facts: dict[str, object], folder: Path) -> Path:
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
