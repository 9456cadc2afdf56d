"""Prices of tokens: of a named endpoint, in a file of the user's, and in the package genai-prices (extra `prices`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from align_echo.base.plain_yaml import first_wrong, parse_json
from align_echo.errors import UsageError, first_line
from align_echo.types import Frozen

PRICES_VARIABLE = "ALIGN_ECHO_PRICES"
"""Environment variable naming a JSON file {model: {"prompt": usd, "completion": usd}}."""


class Price(Frozen):
    """US dollars per million tokens."""

    prompt: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
    completion: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Compute the dollars for one exchange."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


_EXAMPLE = 1_000
"""Tokens of the request whose price is looked up: below the limits above which some models cost more."""

_CLOSED = re.compile(r"(chat)?gpt-(?!oss)|o\d|claude-|gemini-")
"""Names of models that only their makers serve."""


def find_price(model: str, prices: Mapping[str, Price] | None = None, base_url: str = "") -> Price | None:
    """Look up the price of a model, None if it is unknown: in `prices`, the user's file, and the package genai-prices.

    A dated or preview name counts as its base model. The package knows prices by provider, which the base URL tells; at
    another URL a model costs what its maker asks, unless others may serve it too.

    Raises `UsageError` if the file named by `ALIGN_ECHO_PRICES` is not readable.
    """
    table = {**_user_prices(os.environ.get(PRICES_VARIABLE, "")), **(prices or {})}
    name = model.rpartition("/")[2]
    if model in table or name in table:
        return table.get(model) or table[name]
    dated = [known for known in table if _is_release(name, known)]
    return table[max(dated, key=len)] if dated else _listed_price(model, base_url)


@cache
def _listed_price(model: str, base_url: str) -> Price | None:
    if find_spec("genai_prices") is None:
        return None
    import genai_prices

    usage = genai_prices.Usage(input_tokens=_EXAMPLE, output_tokens=_EXAMPLE)
    name = model.rpartition("/")[2]
    found = None
    with suppress(LookupError):
        found = genai_prices.calc_price(usage, model, provider_api_url=base_url)
    with suppress(LookupError):
        if found is None and _CLOSED.match(name):
            found = genai_prices.calc_price(usage, name)
    if found is None:
        return None
    million = 1_000_000 // _EXAMPLE
    return Price(prompt=float(found.input_price * million), completion=float(found.output_price * million))


def _is_release(name: str, known: str) -> bool:
    """Check for a release: `gpt-4.1-2025-04-14` and `gemini-2.5-pro-preview-05` are; `gpt-4.1-mini` is another model.
    """
    rest = name.removeprefix(f"{known}-")
    return rest != name and (rest[:1].isdigit() or rest.split("-")[0] in ("preview", "exp", "latest"))


@cache
def _user_prices(path: str) -> Mapping[str, Price]:
    if not path:
        return {}
    if path.lstrip().startswith("{"):
        raise UsageError(f"${PRICES_VARIABLE} is the name of a file, and holds JSON itself: write that to a file")
    try:
        return TypeAdapter(dict[str, Price]).validate_python(parse_json(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        why = first_wrong(error) if isinstance(error, ValidationError) else first_line(error)
        why = (error.strerror or why) if isinstance(error, OSError) else why
        example = '{"model": {"prompt": 2.0, "completion": 8.0}}'
        raise UsageError(f"${PRICES_VARIABLE} names {path}, which is not readable as {example}: {why}") from error
