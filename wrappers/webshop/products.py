"""Product of the catalogue: its data, its texts on pages, and its text for the search engine."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""Attributes of a product without any in the data, as in upstream."""


class PageNode(NamedTuple):
    """Visible text of a page. A link is a product's code; an option is a value that can be chosen."""

    kind: Literal["text", "button", "link", "option"]
    text: str


@dataclass(frozen=True)
class Product:
    """Product of the catalogue.

    `price` is in dollars and enters the reward; `price_tag` is the text on pages, a range for some. `options` are
    (name, values) in page order, all lower case. `product_category` is a path with "›" between its parts.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    price_tag: str
    price: float
    category: str
    query: str
    product_category: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Product:
        """Build a product from the JSON of `dataclasses.asdict`."""
        options = tuple((name, tuple(values)) for name, values in record["options"])
        lists = {"bullets": tuple(record["bullets"]), "attributes": tuple(record["attributes"]), "options": options}
        return cls(**{**record, **lists})

    @property
    def document(self) -> str:
        """Searchable text: title, description, first bullet point and options, in lower case."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        return " ".join((self.title, self.description, *self.bullets[:1], options)).lower()

    @functools.cached_property
    def prose(self) -> tuple[str, str, str]:
        """Title, bullet points and description in lower case, searched for attributes."""
        return self.title.lower(), " ".join(self.bullets).lower(), self.description.lower()

    @functools.cached_property
    def option_groups(self) -> dict[str, str]:
        """Option value -> name of its group; for a value in several groups, the last."""
        return {value: name for name, values in self.options for value in values}

    @property
    def listing(self) -> tuple[PageNode, ...]:
        """Product on a page of results."""
        return (PageNode("link", self.asin), *texts(self.title, self.price_tag))

    @functools.cached_property
    def options_shown(self) -> tuple[PageNode, ...]:
        """Options on the item page: each name, then its values."""
        return tuple(
            node
            for name, values in self.options
            for node in (*texts(name), *(PageNode("option", value) for value in values))
        )

    @functools.cached_property
    def facts_shown(self) -> tuple[PageNode, ...]:
        """Title, price and rating on the item page. There are no ratings, because the data has no reviews."""
        return texts(self.title, f"Price: {self.price_tag}", "Rating: N.A.")


def texts(*lines: str) -> tuple[PageNode, ...]:
    """Make plain texts of a page, stripped, without empty ones."""
    return tuple(PageNode("text", line.strip()) for line in lines if line.strip())
