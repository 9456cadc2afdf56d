"""Prices of tokens: a list, a file of the user's, and the prices of a named endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from align_echo.base.plain_yaml import first_wrong, parse_json
from align_echo.errors import UsageError, first_line
from align_echo.types import Frozen

PRICES_VARIABLE = "ALIGN_ECHO_PRICES"
"""Environment variable naming a JSON file {model: {"prompt": usd, "completion": usd}} that overrides `LIST_PRICES`."""


class Price(Frozen):
    """US dollars per million tokens."""

    prompt: float
    completion: float

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Compute the dollars for one exchange."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


LIST_PRICES: Mapping[str, Price] = {
    "gpt-4.1": Price(prompt=2.00, completion=8.00),
    "gpt-4.1-mini": Price(prompt=0.40, completion=1.60),
    "gpt-4.1-nano": Price(prompt=0.10, completion=0.40),
    "gpt-4o": Price(prompt=2.50, completion=10.00),
    "gpt-4o-mini": Price(prompt=0.15, completion=0.60),
    "gemini-2.5-pro": Price(prompt=1.25, completion=10.00),
    "gemini-2.5-flash": Price(prompt=0.30, completion=2.50),
}


def find_price(model: str, prices: Mapping[str, Price] | None = None) -> Price | None:
    """Look up the price of a model, None if unknown. A dated or preview name counts as its base model.

    Raises `UsageError` if the file named by `ALIGN_ECHO_PRICES` is not readable.
    """
    table = {**LIST_PRICES, **_user_prices(os.environ.get(PRICES_VARIABLE, "")), **(prices or {})}
    name = model.rpartition("/")[2]
    if model in table or name in table:
        return table.get(model) or table[name]
    dated = [known for known in table if _is_release(name, known)]
    return table[max(dated, key=len)] if dated else None


def _is_release(name: str, known: str) -> bool:
    """Check for a release: `gpt-4.1-2025-04-14` and `gemini-2.5-pro-preview-05` are; `gpt-4.1-mini` is another model.
    """
    rest = name.removeprefix(f"{known}-")
    return rest != name and (rest[:1].isdigit() or rest.split("-")[0] in ("preview", "exp", "latest"))


@cache
def _user_prices(path: str) -> Mapping[str, Price]:
    if not path:
        return {}
    try:
        return TypeAdapter(dict[str, Price]).validate_python(parse_json(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        why = first_wrong(error) if isinstance(error, ValidationError) else first_line(error)
        raise UsageError(
            f"{PRICES_VARIABLE}={path} is not readable as {{model: {{prompt, completion}}}}: {why}"
        ) from error
