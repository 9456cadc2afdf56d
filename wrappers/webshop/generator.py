"""Embedded products: a seeded catalogue with instructions in the style of human ones.

Products are built from the tables of `vocabulary.json`: many of one kind that differ in brand, attributes, options and
price, as in a real shop. They are not the official products, and scores on them are not official scores.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

from align_echo.base.dice import Dice
from align_echo.wrappers.webshop.reward import Product, ShoppingInstruction, price_between

VERSION = "1"
"""Version to raise with every change of the generator or its tables: a task id must stay the same task."""

PRODUCTS = 4_000
_TABLES = "vocabulary.json"
_WRITTEN, _WRITTEN_TWICE = 0.65, 0.12
_RANGES, _ROUND = 0.3, 0.15
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class EmbeddedProducts:
    """Source of the embedded catalogue."""

    version: str = VERSION
    goal_kind: str = "goal"
    only_findable: bool = True

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of this file and its tables, so that a cache is only used with the generator that built it."""
        folder = resources.files(__package__)
        sources = b"".join(folder.joinpath(name).read_bytes() for name in ("generator.py", _TABLES))
        return hashlib.sha256(sources).hexdigest()[:16]

    @property
    def label(self) -> str:
        """Version of the generator."""
        return f"embedded catalogue, generator {self.version}"

    def entries(self) -> Iterator[tuple[Product, tuple[ShoppingInstruction, ...], None]]:
        """Yield every product with its instructions: one, two or none."""
        tables = json.loads(resources.files(__package__).joinpath(_TABLES).read_text(encoding="utf-8"))
        titles: set[str] = set()
        codes: set[str] = set()
        number = 0
        while len(titles) < PRODUCTS:
            category = tables["categories"][number % len(tables["categories"])]
            maker = _Maker(tables, category, Dice(f"webshop product {VERSION} {number}"))
            number += 1
            if maker.title in titles or maker.asin in codes:
                continue
            titles.add(maker.title)
            codes.add(maker.asin)
            yield maker.product(), maker.instructions(), None


class _Maker:
    """Generator of one product."""

    def __init__(self, tables: dict[str, Any], category: dict[str, Any], dice: Dice) -> None:
        self._tables, self._category, self._dice = tables, category, dice
        self._family = tables["families"][category["family"]]
        self.asin = "B0" + "".join(dice.pick(_LETTERS) for _ in range(8))
        self._brand = dice.pick(tables["brands"])
        self._noun = dice.pick(category["nouns"])
        self._style = dice.pick(category["styles"])
        self._use = dice.pick(category["uses"])
        self._audience = dice.pick(category.get("audiences", self._family["audiences"]))
        self._is = dice.shuffled(category["is"])[: 2 + dice.below(2)]
        self._has = dice.shuffled(category["has"])[: 2 + dice.below(2)]
        self._options = self._draw_options()
        self.title = self._draw_title()

    def _draw_title(self) -> str:
        name = " ".join(part for part in (self._brand, self._audience, self._style, self._noun) if part)
        attributes = self._dice.shuffled([*self._is, *self._has])[: 1 + self._dice.below(2)]
        details = " and ".join(attribute.title() for attribute in attributes)
        return self._dice.pick((f"{name} for {self._use}, {details}", f"{name}, {details}", f"{name} - {details}"))

    def _draw_options(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        groups = []
        for name, values in self._family["options"].items():
            if self._dice.chance(0.8):
                chosen = set(self._dice.shuffled(values)[: 2 + self._dice.below(len(values) - 1)])
                groups.append((name, tuple(value for value in values if value in chosen)))
        return tuple(groups)

    def product(self) -> Product:
        """Build the product with its price and its texts."""
        price, tag = self._draw_price()
        attributes = tuple(self._dice.shuffled([*self._is, *self._has]))
        bullets = self._dice.shuffled(self._tables["bullets"])[: 3 + self._dice.below(3)]
        return Product(
            asin=self.asin,
            title=self.title,
            description=self._fill(self._dice.pick(self._tables["descriptions"])),
            bullets=tuple(self._fill(text) for text in bullets),
            price_tag=tag,
            price=price,
            category=self._category["name"],
            query=self._category["query"],
            product_category=self._category["path"],
            options=self._options,
            attributes=attributes,
        )

    def _draw_price(self) -> tuple[float, str]:
        low, high = self._category["price"]
        price = self._dice.between(low, high)
        if self._dice.chance(_ROUND):
            price = float(int(price))
        if not self._dice.chance(_RANGES):
            return price, f"${price}"
        top = round(price * self._dice.between(1.1, 1.6), 2)
        return price_between(price, top, self.asin), f"${price} to ${top}"

    def _fill(self, text: str) -> str:
        return text.format(
            brand=self._brand,
            noun=self._noun.lower(),
            style=self._style.lower(),
            use=self._use.lower(),
            **{"is": self._dice.pick(self._is), "has": self._dice.pick(self._has)},
        )

    # ------------------------------------------------------------ instructions

    def instructions(self) -> tuple[ShoppingInstruction, ...]:
        """Write the instructions for the product."""
        if not self._dice.chance(_WRITTEN):
            return ()
        return tuple(self._instruction() for _ in range(1 + self._dice.chance(_WRITTEN_TWICE)))

    def _instruction(self) -> ShoppingInstruction:
        dice = self._dice
        is_ = tuple(dice.shuffled(self._is)[: dice.below(3)])
        has = tuple(dice.shuffled(self._has)[: max(dice.below(3), not is_)])
        chosen = tuple((name, dice.pick(values)) for name, values in self._options if dice.chance(0.65))
        text = self._word_instruction(is_, has, chosen)
        return ShoppingInstruction(text, (*is_, *has), tuple(value for _, value in chosen))

    def _word_instruction(self, is_: tuple[str, ...], has: tuple[str, ...], chosen: tuple[tuple[str, str], ...]) -> str:
        dice = self._dice
        many = self._noun.endswith("s") and not self._noun.endswith("ss")
        style = self._style if dice.chance(0.3) else ""
        noun = " ".join(part for part in (self._audience, style, self._noun) if part).lower()
        asked, having = " and ".join(is_), " and ".join(has)
        after = is_ and dice.chance(0.5)
        phrase = noun if after or not asked else f"{asked} {noun}"
        if self._family["countable"] and not many and dice.chance(0.8):
            phrase = f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
        text = f"{dice.pick(self._tables['openings'])} {phrase}"
        if after:
            text += f" that {'are' if many else 'is'} {asked}"
            text += f" and {'have' if many else 'has'} {having}" if having else ""
        elif having:
            text += f" with {having}"
        if dice.chance(0.25):
            text += f" for {self._use.lower()}"
        return text + self._word_options(chosen) + dice.pick(("", "."))

    def _word_options(self, chosen: tuple[tuple[str, str], ...]) -> str:
        if not chosen:
            return ""
        parts = [self._dice.pick((f"{name} {value}", f"{value}", f"{value} {name}")) for name, value in chosen]
        asked = " and ".join(parts)
        return self._dice.pick((f", and i want {asked}", f" in {asked}", f". i prefer {asked}", f", {asked} please"))
