"""A tiny data set in the layout of WebShop's official files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def item(asin: str, name: str, **changes: Any) -> dict[str, Any]:
    """A product as `items_shuffle.json` has it."""
    record: dict[str, Any] = {
        "asin": asin,
        "name": name,
        "full_description": f"All about the {name}.",
        "small_description": [f"A {name} you can trust", "Made to last"],
        "pricing": "$12.50",
        "images": ["https://example.org/a.jpg"],
        "category": "garden",
        "query": "lamps",
        "product_category": "Home › Lighting › Lamps",
        "customization_options": {},
    }
    return record | changes


def written(text: str, attributes: list[str], options: list[str] | None = None) -> dict[str, Any]:
    """An instruction as `items_human_ins.json` has it."""
    return {"instruction": text, "instruction_attributes": attributes, "instruction_options": options or []}


COLORS = [{"value": "Dark Navy ", "image": "x"}, {"value": "Black/White"}]
OPTIONS = {"Color": COLORS, "Style": None, "Size": [{"value": "XL"}]}
PRICES = "$10.00 to $20.00"
ITEMS = [
    item("B000000001", "Brass Desk Lamp", pricing=PRICES, customization_options=OPTIONS, query=" Desk Lamps "),
    item("B000000002", "Oak Table", pricing=None, small_description="One point only", product_category="Home › Tables"),
    item("B000000001", "Brass Desk Lamp again: its code is taken"),
    item("B00000000TOOLONG", "Lamp with a code that is too long"),
    item("nan", "Lamp without a code"),
    item("B000000003", "Gold Chandelier", pricing="$1,980.00", full_description=""),
    *(item(f"B0000001{number:02}", f"Plain Lamp number {number}") for number in range(60)),
]
ATTRIBUTES: dict[str, Any] = {
    "B000000001": {
        "attributes": ["easy clean", "solid brass"],
        "instruction": "Find me easy clean lamps",
        "instruction_attributes": ["easy clean"],
    },
    "B000000003": {"attributes": ["gold finish"]},
}
INSTRUCTIONS = {
    "B000000001": [
        written("i need a brass lamp...", ["easy clean"], ["dark navy", "xl"]),
        written("nothing is asked of it", []),
        written("i want a lamp of solid brass.", ["solid brass"]),
    ],
    "B000000003": [written("i want a chandelier in gold", ["gold finish"])],
}


def write_data(
    root: Path,
    suffix: str = "",
    *,
    human: bool = True,
    items: list[Any] | None = None,
    instructions: dict[str, Any] | None = None,
) -> Path:
    """The data set on disk."""
    (root / f"items_shuffle{suffix}.json").write_text(json.dumps(ITEMS if items is None else items))
    (root / f"items_ins_v2{suffix}.json").write_text(json.dumps(ATTRIBUTES))
    if human:
        (root / "items_human_ins.json").write_text(json.dumps(instructions or INSTRUCTIONS))
    return root
