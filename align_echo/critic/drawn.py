"""How the candidates were drawn that a critic learned from: on record beside its weights, so that play draws alike.

A critic that is asked about kinds of actions that it never learned from may take them for right. Left out: drawing
(`models/local`), and what is done on a mismatch (`evaluate/cast.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from align_echo.errors import UsageError
from align_echo.files import write_atomically
from align_echo.reading import parse_json
from align_echo.regular_files import read_text
from align_echo.types import Frozen

FILE = "drawn.json"
"""Beside the weights of a critic that learned from collections."""


class Drawn(Frozen):
    """A way of drawing replies: at a temperature, from the `top_k` likeliest tokens (0: all) and of them from those
    that make up `top_p` (1: all). Both None: as an endpoint is set up.
    """

    temperature: float = Field(ge=0, allow_inf_nan=False)
    top_k: int | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)

    def __str__(self) -> str:
        """In words, as for a note on the terminal."""
        if self.top_k is None or self.top_p is None:
            return f"at temperature {self.temperature:g} as an endpoint is set up"
        if not self.truncates:
            return f"at temperature {self.temperature:g} from all tokens"
        return f"at temperature {self.temperature:g} with --top-k {self.top_k} --top-p {self.top_p:g}"

    @property
    def truncates(self) -> bool:
        """Whether unlikely tokens are left out."""
        return bool(self.top_k) or (self.top_p is not None and self.top_p < 1)


_SEVERAL = TypeAdapter(tuple[Drawn, ...])


def write_drawn(ways: Iterable[Drawn], folder: Path) -> None:
    """Put the distinct ones beside a critic's weights, in the order in which they come."""
    distinct = list(dict.fromkeys(ways))
    write_atomically(folder / FILE, json.dumps([way.model_dump() for way in distinct], indent=2) + "\n")


def read_drawn(folder: Path) -> tuple[Drawn, ...]:
    """What lies beside a critic's weights; nothing where nothing is on record. Raises `UsageError` if it is damaged."""
    file = folder / FILE
    if not file.is_file():
        return ()
    try:
        return _SEVERAL.validate_python(parse_json(read_text(file)))
    except (ValueError, ValidationError) as error:
        raise UsageError(f"{file} is damaged: delete it, or train the critic again") from error
