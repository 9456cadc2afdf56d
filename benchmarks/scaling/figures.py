"""The figures of single machines that a simulation is made of, each with where it comes from.

A file is YAML: a mapping of each name to `{value, source}`. A source begins with "measured" or "assumed". `base: FILE`
takes what is not said from another file beside it. Left out: measuring them (`measure.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from align_echo.errors import UsageError
from align_echo.reading import first_wrong, yaml_mapping
from align_echo.types import Frozen

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _rates(rates: Mapping[int, float]) -> Mapping[int, float]:
    """Raises `UsageError` for rates that fall as requests are added: an engine would take fewer at once."""
    ordered = [rates[count] for count in sorted(rates)]
    if not ordered or min(rates) < 1 or ordered != sorted(ordered) or ordered[0] <= 0:
        raise UsageError("decoding: give tokens a second at one request or more, which do not fall with more of them")
    return dict(sorted(rates.items()))


class Figures(Frozen):
    """Of one core, one engine, one learner, one link and the driver."""

    step_seconds: NotNegative
    """Core seconds of a step of an environment, the interface's sandbox too."""
    reset_seconds: NotNegative
    """Core seconds of a reset."""
    turns: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Lengths of episodes, drawn from with equal chances."""
    broken_share: Annotated[float, Field(ge=0, lt=1)]
    """Of episodes: they break in the middle and are played once more."""
    opening_tokens: NotNegative
    """What an episode begins with."""
    observation_tokens: NotNegative
    """What a turn adds to the context before the reply."""
    reply_tokens: Positive
    """What the policy writes on a turn."""
    decoding: Annotated[dict[int, float], AfterValidator(_rates)]
    """Tokens a second that an engine writes in all, by how many requests are under way; the last is the most it takes.
    """
    reading: Positive
    """Tokens of new context that an engine reads a second."""
    learning: Positive
    """Tokens that a learner takes a second, forward and backward, the optimizer too."""
    weights_bytes: NotNegative
    """Of the whole model, as it is published."""
    adapters_bytes: NotNegative
    """Of the adapters of all roles, as they are published."""
    turn_bytes: NotNegative
    """Of a turn on its way to the driver: texts, token ids, log-probabilities."""
    driver_seconds: NotNegative
    """Core seconds of the one driver for an episode: read it, make a row and its batch."""
    publishing_seconds: NotNegative
    """From the weights in memory to an engine that draws with them, without the way there."""
    link_bytes: Positive
    """Bytes a second of the driver's link."""
    gpu_price: NotNegative
    """Of an engine or a learner for an hour."""
    core_price: NotNegative
    """Of a core for an hour."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each comes from."""

    def rate(self, requests: int) -> float:
        """Tokens a second in all with so many requests under way, between the given counts in a straight line."""
        counts = list(self.decoding)
        if requests <= counts[0]:
            return self.decoding[counts[0]] * requests / counts[0]
        for low, high in pairwise(counts):
            if requests <= high:
                share = (requests - low) / (high - low)
                return self.decoding[low] + share * (self.decoding[high] - self.decoding[low])
        return self.decoding[counts[-1]]

    @property
    def slots(self) -> int:
        """Most requests under way at an engine."""
        return max(self.decoding)

    @property
    def best_rate(self) -> float:
        """Tokens a second of a full engine."""
        return self.decoding[self.slots]

    def work(self, new_context: float, rate: float) -> float:
        """Of a request in tokens written: the reply, and in place of the context that is to be read what the engine
        would have written meanwhile at this rate in all."""
        return self.reply_tokens + new_context * rate / self.reading


def read_figures(file: Path, changes: Mapping[str, Any] | None = None) -> Figures:
    """The figures of a file, with values in the place of some. Raises `UsageError` in one line."""
    entries = _entries(file)
    for name, value in (changes or {}).items():
        entries[name] = {"value": value, "source": "given on the command line"}
    return figures_of(entries, str(file))


def figures_of(entries: Mapping[str, Any], file: str) -> Figures:
    """The figures of what a file holds. Raises `UsageError` that names it."""
    unknown = sorted(set(entries) - set(Figures.model_fields))
    if unknown:
        raise UsageError(f"{file}: there is no figure {unknown[0]!r}")
    for name, entry in entries.items():
        if not isinstance(entry, Mapping) or set(entry) != {"value", "source"}:
            raise UsageError(f"{file}: {name} must be {{value: ..., source: ...}}")
    sources = {name: str(entry["source"]) for name, entry in entries.items()}
    try:
        return Figures(**{name: entry["value"] for name, entry in entries.items()}, sources=sources)
    except ValidationError as error:
        raise UsageError(f"{file}: {first_wrong(error)}") from None


def _entries(file: Path) -> dict[str, Any]:
    try:
        entries = yaml_mapping(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    base = entries.pop("base", None)
    return {**(_entries(file.parent / str(base)) if base is not None else {}), **entries}


class Setup(Frozen):
    """So many of everything. `colocated` engines and learners are the same GPUs and work in turn."""

    environments: Annotated[int, Field(ge=1)]
    """Episodes at once."""
    cores: Annotated[int, Field(ge=1)]
    """For environments; the driver has one of its own."""
    engines: Annotated[int, Field(ge=1)]
    learners: Annotated[int, Field(ge=1)]
    episodes: Annotated[int, Field(ge=1)]
    """Of a harvest."""
    ahead: bool = False
    """Whether the next harvest is played while the learners learn (`step.ahead`)."""
    colocated: bool = False
    published: Literal["adapters", "weights"] = "adapters"

    @property
    def gpus(self) -> int:
        return self.engines if self.colocated else self.engines + self.learners
