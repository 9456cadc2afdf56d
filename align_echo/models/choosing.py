"""Names of models as users write them (`ModelName`), and the choice of a word: which of some words a model would say
next, and how probable each is. One forward pass per verdict.

Only the first token of the next reply matters. A model that can do this for many conversations at once has a method
`choose` (`Choose`):

- a local model returns the probability of the words' first differing tokens, given the tokens of their common prefix;
- an OpenAI-compatible endpoint returns its 20 most likely first tokens. A token counts for a word if it is a prefix of
  exactly that word (ignoring case and surrounding spaces).

Any other model writes a reply, which must be one of the words, and gives no probabilities. Not here: the meaning of
the words and the question (`align_echo.critic.ask`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from align_echo.errors import ModelError, UsageError
from align_echo.models.endpoint import resolve_base_url
from align_echo.types import ChatModel, Completion, Message, WordChoice

MARKS = "*_`\"'"
"""Characters around a word for emphasis or quotation."""

MAX_TOKENS = 8
"""Token limit of a one-word reply."""

THINKING_TOKENS = 2048
"""Token limit of a reply that starts with thinking."""


Choose = Callable[[Sequence[Sequence[Message]], Sequence[str]], list[WordChoice | ModelError]]
"""Conversations and words -> a choice for each conversation, as the function `choose` returns it."""


def choose(
    model: ChatModel, conversations: Sequence[Sequence[Message]], words: Sequence[str]
) -> list[WordChoice | ModelError]:
    """Choose the next word of each conversation, in order. Return a `ModelError` in place of a failed choice.

    Nothing is sampled: the same conversation always has the same answer. Raises `UsageError` for fewer than two words,
    for words that cannot be distinguished, and for the causes listed at the model's `complete`.
    """
    check_words(words)
    if not conversations:
        return []
    choose_at_once: Choose | None = getattr(model, "choose", None)
    if choose_at_once is not None:
        return choose_at_once(conversations, words)
    return [_choose_by_reply(model, messages, words) for messages in conversations]


def check_words(words: Sequence[str]) -> None:
    """Raise `UsageError` unless there are at least two non-empty words, and they differ by more than case."""
    plain = [_plain(word) for word in words]
    if len(plain) < 2 or len(set(plain)) < len(plain) or not all(plain):
        raise UsageError(f"give two words or more that differ by more than case to choose from, not {list(words)}")


def word_choice(reply: Completion, words: Sequence[str]) -> WordChoice:
    """Parse a full reply as one of the words, or as none of them.

    Case, a final full stop, emphasis, quotation marks and text up to `</think>` are ignored.
    """
    text = _plain(reply.text.rpartition("</think>")[2].strip().strip(MARKS))
    chosen = next((word for word in words if _plain(word) in (text, text.removesuffix("."))), None)
    return WordChoice(said=chosen, usage=reply.usage, cached=reply.cached)


def listed_choice(listed: Sequence[tuple[str, float]], words: Sequence[str]) -> WordChoice:
    """Compute a choice from the most likely first tokens: their texts and natural log-probabilities, at least one.

    An unlisted word gets its upper bound: the probability of the least likely listed token, or the remaining mass.
    """
    totals = dict.fromkeys(words, 0.0)
    for token, logprob in listed:
        word = _begun_by(token, words)
        if word is not None:
            totals[word] += math.exp(logprob)
    likeliest, _ = max(listed, key=lambda entry: entry[1])
    chances = [math.exp(logprob) for _, logprob in listed]
    most = max(min(*chances, 1 - math.fsum(chances)), 0.0) if any(totals.values()) else 0.0
    logprobs = tuple(math.log(min(total or most, 1.0)) if total or most else -math.inf for total in totals.values())
    return WordChoice(said=_begun_by(likeliest, words), logprobs=logprobs)


def more_to_read(listed: Sequence[tuple[str, float]], words: Sequence[str]) -> int:
    """Return the number of reply tokens to read if the listed first tokens do not decide: 0 if they do.

    The number is small after an opening mark, large after `<think>`.
    """
    if any(_begun_by(token, words) for token, _ in listed):
        return 0
    first = _plain(max(listed, key=lambda entry: entry[1])[0])
    if first.startswith("<"):
        return THINKING_TOKENS
    return MAX_TOKENS if not first.strip(MARKS) else 0


def _begun_by(token: str, words: Sequence[str]) -> str | None:
    """Return the only word with this prefix, ignoring case; None if there is no such word or more than one."""
    text = _plain(token)
    matching_words = [word for word in words if _plain(word).startswith(text)] if text else []
    return matching_words[0] if len(matching_words) == 1 else None


def _plain(text: str) -> str:
    return text.strip().lower()


def _choose_by_reply(model: ChatModel, messages: Sequence[Message], words: Sequence[str]) -> WordChoice | ModelError:
    try:
        return word_choice(model.complete(messages, temperature=0.0, max_tokens=MAX_TOKENS), words)
    except ModelError as error:
        return error


# ---------------------------------------------------------------- parse a model's name (`read_name`)

POCKET: Final = "pocket"
POCKET_ENVIRONMENTS = frozenset({"alfworld", "webshop"})
"""Environments that the pocket model was trained on."""

SCRIPTED_MODELS = ("novice", "novice-careful", "novice-stubborn")
"""Names of the scripted novices, usable wherever a chat model is named."""

WITHOUT_ENDPOINT = (POCKET, *SCRIPTED_MODELS)
"""Names of models in the package, suggested for a name that an endpoint does not know."""

ADAPTER = "adapter_config.json"
"""File that marks the folder of an adapter and names its base model."""

MODEL_FILES = ("config.json", ADAPTER)

Prefix = Literal["transformers", "vllm", "vllm-server"]
PREFIXES: tuple[Prefix, ...] = ("transformers", "vllm", "vllm-server")
"""Prefixes of names, followed by a colon."""

Kind = Literal["pocket", "scripted", "endpoint", "path"] | Prefix
"""Kind of a model; "path" is a path without a model."""


@dataclass(frozen=True)
class ModelName:
    """A model's name and its parsed parts: the kind of model and its `source`, the name without a prefix.

    `folder` is the source's folder on this machine, None if there is none.
    """

    text: str
    kind: Kind
    source: str
    folder: Path | None

    def __str__(self) -> str:
        """Return the name as the user wrote it."""
        return self.text

    @property
    def place(self) -> Path | str:
        """Return the resolved folder, the same for any spelling of its path; the source if there is no folder."""
        return self.folder.resolve() if self.folder else self.source

    @property
    def is_local(self) -> bool:
        """True if the model takes token ids: in this process or at a vLLM server."""
        return self.kind == POCKET or self.kind in PREFIXES

    @property
    def runs_on_transformers(self) -> bool:
        """True if transformers runs the model, in this process or in other processes of this machine."""
        return self.kind in (POCKET, "transformers")

    @property
    def is_scripted(self) -> bool:
        """True for a scripted novice, which is no language model and has no endpoint."""
        return self.kind == "scripted"

    @property
    def only_plays(self) -> bool:
        """True if the model can only be an agent: scripts and the pocket model write no interfaces."""
        return self.is_scripted or self.kind == POCKET

    @property
    def has_endpoint(self) -> bool:
        """True if the model is reached at a base URL."""
        return self.kind in ("endpoint", "path", "vllm-server")

    @property
    def on_record(self) -> str:
        """Name of the model in a run's files."""
        return scripted_name(self.text) if self.is_scripted else self.text

    def endpoint(self, base_url: str | None) -> str | None:
        """Return the model's base URL; None for a script or a model in this process. Raises as `resolve_base_url`."""
        return resolve_base_url(base_url) if self.has_endpoint else None


def read_name(name: str | ModelName) -> ModelName:
    """Parse a model's name. A `ModelName` is returned unchanged.

    No other code parses names or looks for the folders in them. A missing model raises nothing here; `load_model`
    reports it.
    """
    if isinstance(name, ModelName):
        return name
    kind, source = _kind_and_source(name)
    has_folder = kind not in (POCKET, "vllm-server") and Path(source).is_dir()
    return ModelName(name, kind, source, Path(source) if has_folder else None)


def _kind_and_source(text: str) -> tuple[Kind, str]:
    for prefix in PREFIXES:
        if text.startswith(f"{prefix}:"):
            return prefix, text.removeprefix(f"{prefix}:")
    if text == POCKET:
        return POCKET, text
    if text in SCRIPTED_MODELS:
        return "scripted", text
    if any((Path(text) / file).is_file() for file in MODEL_FILES):
        return "transformers", text
    begins_as_path = text.startswith(("/", "./", "../", "~"))
    is_path = begins_as_path or ("/" in text and Path(text.split("/")[0]).is_dir())
    return "path" if is_path else "endpoint", text


def scripted_name(kind: str) -> str:
    """Return the name of a kind of scripted novice in records."""
    return f"{kind} (scripted, not a language model)"


def what_pocket_lacks() -> str:
    """Explain briefly why the pocket model cannot run here; empty if it can."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    has_weights = resources.files("align_echo.models").joinpath("pocket", "config.json").is_file()
    return "" if has_weights else "its weights are not in this installation"
