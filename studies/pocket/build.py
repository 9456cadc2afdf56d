"""The making of the pocket model from nothing: corpus, tokenizer, stages of training, weights and card.

Left out: its evaluation (`align-echo evaluate --model pocket`), whose figures stand in the docs.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import torch
from pydantic import Field
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from align_echo.base.files import write_atomically
from align_echo.errors import UsageError, first_line
from align_echo.models.local.encoding import CHATML_TOKENS, ChatEncoder, chatml_tokenizer
from align_echo.train.run import computing_with
from align_echo.train.sft import Demonstration, EncodedChat, SftSettings, encode, fine_tune
from align_echo.types import Frozen
from align_echo.version import __version__
from studies.pocket.corpus import digest, make_part, read_part
from studies.pocket.start import build_in_lookups

PADDING = "<|endoftext|>"

WHOLE = ("correct", "wrong")
"""Replies that must be one token each: the intuitive critic's verdicts (GAIA, section 3)."""

_OFTEN = 10_000


def train_tokenizer(demonstrations: Iterable[Demonstration], *, size: int) -> PreTrainedTokenizerBase:
    """A tokenizer of at most `size` entries. The same demonstrations in the same order give the same one.

    Raises `UsageError` if `size` is too small for the words of `WHOLE`.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PADDING, *CHATML_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    whole = (word for word in WHOLE for _ in range(_OFTEN))
    tokenizer.train_from_iterator(itertools.chain(_texts(demonstrations), whole), trainer)
    split = [word for word in WHOLE if len(tokenizer.encode(word).ids) > 1]
    if split:
        raise UsageError(f"a tokenizer of {size} entries splits {', '.join(split)}: ask for more")
    return chatml_tokenizer(tokenizer)


def _texts(demonstrations: Iterable[Demonstration]) -> Iterator[str]:
    for demonstration in demonstrations:
        for message in demonstration.messages:
            yield message.content


CONTEXT = 4096
PARTS = {"glances": 1, "drills": 6, "household": 50, "critics": 10, "shopping": 12, "shopping-critics": 5}
LEAD_DRILLS = 3
"""Parts of drills that come before everything else, after the glances; the others are mixed in."""


class LaterStage(Frozen):
    """What comes after the first training: so many parts of each kind, and how to train on them."""

    parts: dict[str, int]
    training: SftSettings


READING = SftSettings(longest=1800, muon_lr=0.005, adamw_lr=8e-4, tokens_per_batch=4000, save_every=100)
SECOND = LaterStage(
    parts={"remarks": 6, "critics": 1, "shopping": 1, "shopping-critics": 1},
    training=READING.model_copy(update={"seed": 2}),
)
"""The model is taught to tell words with content from words without."""
THIRD = LaterStage(
    parts={"remarks": 10, "critics": 1, "shopping": 1, "shopping-critics": 1},
    training=READING.model_copy(update={"seed": 3}),
)
"""The same on more rooms and words: how surely idle words change nothing counts where replies are drawn."""


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
    later: tuple[LaterStage, ...] = (SECOND, THIRD)


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

    Earlier stages are in `out`/stage-1 and so on. `start` is the folder of a model that went through some stages: the
    others are made, with its tokenizer. `resume` goes on with the last checkpoint. Raises `UsageError` for a start that
    was not made here or needs no stage any more.
    """
    done, last = len(made_of(start)["later"]) + 1 if start else 0, len(settings.later) + 1
    if done >= last:
        raise UsageError(f"{start} has gone through all {last} stages already")
    for stage in range(done + 1, last + 1):
        folder = out / ("model" if stage == last else f"stage-{stage}")
        began = resume and any((out / f"checkpoints-{stage}").glob("checkpoint-*"))
        if resume and not began and folder.is_dir():
            start = folder
        elif start is None:
            start = _first_stage(settings, out, folder, resume=began)
        else:
            start = _later_stage(settings, stage, start, out, folder, resume=began)
    return out / "model"


def _first_stage(settings: PocketSettings, out: Path, folder: Path, *, resume: bool) -> Path:
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
        loss = fine_tune(model, main, settings.training, out / "checkpoints-1", lead=leading, resume=resume)
    facts: dict[str, Any] = {
        "align_echo": __version__,
        "settings": settings.model_copy(update={"later": ()}).model_dump(mode="json"),
        **facts_of(parts, [*itertools.chain(*leading), *main]),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "mean_loss": round(loss, 4),
        "later": [],
    }
    return save(model, tokenizer, facts, folder)


def _later_stage(settings: PocketSettings, stage: int, start: Path, out: Path, folder: Path, *, resume: bool) -> Path:
    """The same model taught further, with parts of the corpus that begin where those of the stages before it end."""
    facts, tokenizer = made_of(start), AutoTokenizer.from_pretrained(start)
    for where_from in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(where_from, None)
    wanted, used = settings.later[stage - 2], Counter(facts["settings"]["parts"])
    for earlier in facts["settings"]["later"]:
        used.update(earlier["parts"])
    parts = [
        make_part(name, used[name] + number, seed=settings.seed, folder=out / "corpus")
        for name, count in wanted.parts.items()
        for number in range(count)
    ]
    chats = chats_of(parts, ChatEncoder(tokenizer), wanted.training)
    with computing_with(settings.threads):
        model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
        loss = fine_tune(model, chats, wanted.training, out / f"checkpoints-{stage}", resume=resume)
    facts["settings"]["later"].append(wanted.model_dump(mode="json"))
    facts["later"].append({**facts_of(parts, chats), "mean_loss": round(loss, 4)})
    return save(model, tokenizer, facts, folder)


def made_of(folder: Path) -> dict[str, Any]:
    """What a model's `making.json` says. Raises `UsageError` if the folder has none."""
    try:
        facts: dict[str, Any] = json.loads((folder / "making.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{folder} is no model that was made here: {first_line(error)}") from None
    return facts


def chats_of(parts: list[Path], encoder: ChatEncoder, training: SftSettings) -> list[EncodedChat]:
    """The demonstrations of some parts in tokens."""
    return [
        encode(shown, encoder, context_weight=training.context_weight) for part in parts for shown in read_part(part)
    ]


def facts_of(parts: list[Path], chats: list[EncodedChat]) -> dict[str, object]:
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
