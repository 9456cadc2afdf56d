"""The official data files, in the layout that their authors give them."""

from __future__ import annotations

import json
import shutil

import pytest

import align_echo
from align_echo.errors import MissingDataError, UsageError
from align_echo.wrappers.webshop import data_source
from align_echo.wrappers.webshop.catalogue import ProductCatalogue, open_catalogue
from align_echo.wrappers.webshop.reward import Product
from tests.wrappers.webshop.tiny_data import ITEMS, item, write_data


def products(catalogue: ProductCatalogue) -> dict[str, Product]:
    return {catalogue.product(row).asin: catalogue.product(row) for row in range(len(catalogue))}


def test_a_product_is_read_as_upstream_reads_it(official):
    lamp = products(official)["B000000001"]
    assert (lamp.title, lamp.query, lamp.category) == ("Brass Desk Lamp", "desk lamps", "garden")
    assert lamp.options == (("color", ("dark navy", "black | white")), ("size", ("xl",)))
    assert lamp.attributes == ("easy clean", "solid brass")
    assert lamp.price_tag == "$10.0 to $20.0"
    assert 10 <= lamp.price <= 20
    assert lamp.document == (
        "brass desk lamp all about the brass desk lamp. a brass desk lamp you can trust "
        "color: dark navy, black | white, and size: xl"
    )


def test_the_first_of_a_code_wins_and_codes_that_are_none_are_left_out(official):
    assert len(official) == 63
    assert "again" not in products(official)["B000000001"].title


def test_what_may_be_missing_is_missing_as_upstream_has_it(official):
    table = products(official)["B000000002"]
    assert (table.price_tag, table.price, table.bullets) == ("$100.0", 100.0, ("One point only",))
    assert table.attributes == ("DUMMY_ATTR",)


def test_goals_are_the_instructions_that_ask_for_an_attribute(official):
    assert official.ids("align_test") == ("goal-0", "goal-1", "goal-2")
    texts = sorted(official.goal(task).instruction for task in official.ids("align_test"))
    assert [text.split(", and price")[0] for text in texts] == [
        "i need a brass lamp",
        "i want a chandelier in gold",
        "i want a lamp of solid brass",
    ]
    dear = next(official.goal(task) for task in official.ids("test") if "gold" in official.goal(task).instruction)
    assert (dear.instruction, dear.price_upper) == ("i want a chandelier in gold", 1_000_000.0)


def test_without_human_instructions_the_goals_are_synthetic(tmp_path):
    catalogue = open_catalogue(write_data(tmp_path, human=False))
    assert catalogue.ids("test") == ("synthetic-0", "synthetic-1")
    texts = {catalogue.goal(task).instruction.split(", and price")[0] for task in catalogue.ids("test")}
    assert texts == {
        "Find me easy clean lamps with color: dark navy, and size: xl",
        "Find me easy clean lamps with color: black | white, and size: xl",
    }
    assert catalogue.label.endswith("synthetic goals")


def test_the_data_source_says_what_is_shopped_in(official_root, monkeypatch):
    assert data_source(data_root=None) == "embedded catalogue, generator 1"
    assert data_source(data_root=official_root).startswith(f"official products at {official_root}/items_shuffle.json")
    monkeypatch.setenv("WEBSHOP_DATA", str(official_root))
    assert "human goals" in data_source(data_root=None)
    assert align_echo.tasks("webshop", split="align_test") == ["goal-0", "goal-1", "goal-2"]


def test_a_smaller_data_set_is_found_and_the_full_one_preferred(tmp_path):
    write_data(tmp_path, "_1000", items=ITEMS[:1])
    assert len(open_catalogue(tmp_path)) == 1
    write_data(tmp_path)
    assert len(open_catalogue(tmp_path)) == 63


def test_files_that_changed_are_read_again(tmp_path):
    assert len(open_catalogue(write_data(tmp_path, items=ITEMS[:1]))) == 1
    assert len(open_catalogue(write_data(tmp_path, items=ITEMS[:2]))) == 2


@pytest.mark.parametrize("missing", ["items_shuffle.json", "items_ins_v2.json"])
def test_a_folder_without_the_data_is_refused(tmp_path, official_root, missing):
    for file in official_root.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(MissingDataError, match="expected items_shuffle") as caught:
        open_catalogue(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        {"items_shuffle.json": "[{"},
        {"items_shuffle.json": "{}"},
        {"items_shuffle.json": "[3]"},
        {"items_shuffle.json": json.dumps([item("B1", "Lamp", pricing="free")])},
        {"items_shuffle.json": json.dumps([item("B1", "Lamp", customization_options={"size": [{}]})])},
        {"items_shuffle.json": json.dumps([{"asin": "B1"}])},
        {"items_ins_v2.json": "[]"},
        {"items_human_ins.json": json.dumps({"B000000001": [{"instruction": "a lamp"}]})},
        {"items_human_ins.json": "{}"},
    ],
)
def test_files_in_another_layout_are_refused_in_one_line_and_nothing_is_left(tmp_path, cache, broken):
    write_data(tmp_path)
    for name, content in broken.items():
        (tmp_path / name).write_text(content)
    before = sorted((cache / "webshop").glob("*"))
    with pytest.raises(UsageError) as caught:
        open_catalogue(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert sorted((cache / "webshop").glob("*")) == before
