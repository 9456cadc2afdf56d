"""WebShop's official data files, read as upstream reads them.

`items_shuffle*.json` (products), `items_ins_v2*.json` (attributes, synthetic instructions) and `items_human_ins.json`
(human instructions) lie in one folder. Reviews and images are not read: no text page shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from align_echo.errors import MissingDataError, UsageError
from align_echo.reading import parse_json
from align_echo.wrappers.webshop.goals import ShoppingInstruction, price_between
from align_echo.wrappers.webshop.products import NO_ATTRIBUTES, Product

PRODUCTS, ATTRIBUTES, INSTRUCTIONS = "items_shuffle", "items_ins_v2", "items_human_ins.json"
LONGEST_ASIN = 10
NO_PRICE = 100.0
"""Price in dollars of a product without a price."""


@dataclass(frozen=True)
class OfficialFiles:
    """Files of one data set. Without `instructions`, the goals are the synthetic ones."""

    products: Path
    attributes: Path
    instructions: Path | None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Paths of all files."""
        return tuple(path for path in (self.products, self.attributes, self.instructions) if path is not None)

    @property
    def label(self) -> str:
        """Location of the files and kind of their goals."""
        goals = "human goals" if self.instructions else "synthetic goals"
        return f"official products at {self.products.absolute()}, {goals}"

    @property
    def goal_kind(self) -> str:
        """Kind of goals."""
        return "goal" if self.instructions else "synthetic"

    @property
    def only_findable(self) -> bool:
        """False: goals keep upstream's indices."""
        return False

    def entries(self) -> Iterator[tuple[Product, tuple[ShoppingInstruction, ...], ShoppingInstruction | None]]:
        """Yield each product in file order with its human instructions and its synthetic one.

        Raises `UsageError` for a file that is not laid out as documented.
        """
        records = _read(self.products, list)
        listed = _read(self.attributes, dict)
        written = _read(self.instructions, dict) if self.instructions else {}
        seen: set[str] = set()
        for record in records:
            try:
                asin = str(record["asin"])
                if asin == "nan" or len(asin) > LONGEST_ASIN or asin in seen:
                    continue
                seen.add(asin)
                entry = listed.get(asin, {})
                human = tuple(_human(instruction) for instruction in written.get(asin, ()))
                yield _product(record, entry), human, _synthetic(entry)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                name = record.get("asin", "a product") if isinstance(record, dict) else "a product"
                reason = f"{type(error).__name__}: {error}"
                raise UsageError(
                    f"{self.products} or a file beside it is not in WebShop's layout: {name}: {reason}"
                ) from None


def find_files(root: Path, named: str) -> OfficialFiles:
    """Find the data set in a folder: the full one if complete, else a smaller one (`items_shuffle_1000.json`).

    Raises `MissingDataError`.
    """
    for products in sorted(root.glob(f"{PRODUCTS}*.json"), key=lambda path: (len(path.name), path.name)):
        attributes = root / products.name.replace(PRODUCTS, ATTRIBUTES)
        if attributes.is_file():
            instructions = root / INSTRUCTIONS
            return OfficialFiles(products, attributes, instructions if instructions.is_file() else None)
    raise MissingDataError(
        f"no WebShop data under {named}: expected {PRODUCTS}.json and {ATTRIBUTES}.json (or both with _1000), and "
        f"{INSTRUCTIONS} for the goals that people wrote; leave data_root out, and $WEBSHOP_DATA unset, to shop in the "
        "embedded catalogue"
    )


def _read(path: Path, kind: type) -> Any:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if not isinstance(content, kind):
        raise UsageError(f"{path} is not in WebShop's layout: expected a JSON {'list' if kind is list else 'object'}")
    return content


def _human(record: dict[str, Any]) -> ShoppingInstruction:
    attributes, options = record["instruction_attributes"], record["instruction_options"]
    return ShoppingInstruction(str(record["instruction"]), tuple(map(str, attributes)), tuple(map(str, options)))


def _synthetic(entry: dict[str, Any]) -> ShoppingInstruction | None:
    if entry.get("instruction") is None:
        return None
    return ShoppingInstruction(str(entry["instruction"]), tuple(map(str, entry["instruction_attributes"])))


def _product(record: dict[str, Any], entry: dict[str, Any]) -> Product:
    asin = str(record["asin"])
    bullets = record["small_description"]
    price, tag = _price(record.get("pricing"), asin)
    return Product(
        asin=asin,
        title=str(record["name"]),
        description=str(record["full_description"] or ""),
        bullets=tuple(map(str, bullets)) if isinstance(bullets, list) else (str(bullets or ""),),
        price_tag=tag,
        price=price,
        category=str(record["category"]),
        query=str(record["query"]).lower().strip(),
        product_category=str(record["product_category"]),
        options=_options(record["customization_options"] or {}),
        attributes=tuple(map(str, entry["attributes"])) if "attributes" in entry else NO_ATTRIBUTES,
    )


def _options(groups: dict[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (name.lower(), tuple(str(value["value"]).strip().replace("/", " | ").lower() for value in values))
        for name, values in groups.items()
        if values is not None
    )


def _price(pricing: str | None, asin: str) -> tuple[float, str]:
    """Parse the price in dollars and the text for pages: one number, or the first two of a range."""
    if not pricing:
        return NO_PRICE, f"${NO_PRICE}"
    prices = [float(re.sub(r"[^\d.]", "", part)) for part in pricing.split("$")[1:]]
    if not prices:
        raise ValueError(f"no price in dollars in {pricing!r}")
    if len(prices) == 1:
        return prices[0], f"${prices[0]}"
    low, high = prices[:2]
    return price_between(low, high, asin), f"${low} to ${high}"
