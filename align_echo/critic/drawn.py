"""Sampling settings of a critic's training candidates, recorded beside its weights to sample alike in play.

A critic asked about unfamiliar kinds of actions may judge them correct. Not here: sampling (`models/local`), and the
reaction to a mismatch (`evaluate/plan.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from align_echo.errors import UsageError
from align_echo.files import read_text, write_atomically
from align_echo.plain_yaml import parse_json
from align_echo.types import Frozen

FILE = "drawn.json"
"""File beside the weights of a critic trained on collections."""


class SamplingSettings(Frozen):
    """Sampling settings of replies: a temperature, the `top_k` likeliest tokens (0: all), and of these the nucleus of
    mass `top_p` (1: all). Both None: the endpoint's own defaults.
    """

    temperature: float = Field(ge=0, allow_inf_nan=False)
    top_k: int | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)

    def __str__(self) -> str:
        """Describe the settings for a note on the terminal."""
        if self.top_k is None or self.top_p is None:
            return f"at temperature {self.temperature:g} as an endpoint is set up"
        if not self.truncates:
            return f"at temperature {self.temperature:g} from all tokens"
        return f"at temperature {self.temperature:g} with --top-k {self.top_k} --top-p {self.top_p:g}"

    @property
    def truncates(self) -> bool:
        """Return whether unlikely tokens are excluded."""
        return bool(self.top_k) or (self.top_p is not None and self.top_p < 1)


_ADAPTER = TypeAdapter(tuple[SamplingSettings, ...])


def write_sampling(settings: Iterable[SamplingSettings], folder: Path) -> None:
    """Write the distinct settings beside a critic's weights, in order."""
    distinct = list(dict.fromkeys(settings))
    write_atomically(folder / FILE, json.dumps([way.model_dump() for way in distinct], indent=2) + "\n")


def read_sampling(folder: Path) -> tuple[SamplingSettings, ...]:
    """Read the settings beside a critic's weights; () without a record. Raises `UsageError` for a damaged file."""
    file = folder / FILE
    if not file.is_file():
        return ()
    try:
        return _ADAPTER.validate_python(parse_json(read_text(file)))
    except (ValueError, ValidationError) as error:
        raise UsageError(f"{file} is damaged: delete it, or train the critic again") from error
