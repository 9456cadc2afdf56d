"""The catalogue on disk and in memory: complete, the same for everybody, shared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.webshop import SPEC, generator, task_ids, training_tasks
from align_echo.wrappers.webshop.catalogue import ProductCatalogue, open_catalogue
from align_echo.wrappers.webshop.env import ShopOracle
from align_echo.wrappers.webshop.generator import EmbeddedProducts
from align_echo.wrappers.webshop.pages import Shop, ShopPage

DIGEST_OF_VERSION_1 = "56a7d1e347fcd5bc25efa050485a3f46ca38f2c8ecb007e765b0ddc0851d3213"
"""Of all products and goals. If it changes, so do tasks behind their ids: then `generator.VERSION` counts up."""

DIGEST = """
import hashlib
from align_echo.wrappers.webshop.catalogue import open_catalogue
def digest(catalogue):
    sold = [catalogue.product(row) for row in range(len(catalogue))]
    products = [(one.asin, one.document, one.bullets, one.attributes, one.price, one.price_tag) for one in sold]
    asked = [catalogue.goal(f"goal-{number}") for number in range(len(catalogue.ids("train")) + 1500)]
    goals = [(one.row, one.instruction, one.attributes, one.options, one.price_upper) for one in asked]
    found = [catalogue.find(goal.instruction) for goal in asked[:200]]
    return " ".join(hashlib.sha256(repr(part).encode()).hexdigest() for part in ((products, goals), found))
if __name__ == "__main__":
    print(digest(open_catalogue(None)))
"""


def kept(cache: Path) -> Path:
    """The embedded catalogue's folder."""
    [folder] = (cache / "webshop").glob("embedded-*")
    return folder


@pytest.mark.long
def test_the_embedded_catalogue_is_as_large_as_promised(embedded):
    products = [embedded.product(row) for row in range(len(embedded))]
    assert len(products) == 4000
    assert len({product.asin for product in products}) == 4000
    assert len({product.product_category for product in products}) >= 20
    assert {product.category for product in products} == {"fashion", "grocery", "beauty", "electronics", "garden"}
    assert len(embedded.ids("test") + embedded.ids("eval") + embedded.ids("train")) > 2000


def test_no_value_stands_in_two_groups_of_a_product(embedded):
    for row in range(len(embedded)):
        values = [value for _, group in embedded.product(row).options for value in group]
        assert len(values) == len(set(values))


@pytest.mark.long
def test_every_embedded_goal_can_be_met_in_full(embedded):
    for split in ("test", "eval", "train"):
        for task in embedded.ids(split):
            oracle = ShopOracle(Shop(embedded, embedded.goal(task)), ShopPage())
            assert oracle.best_score() == 1.0, task
            assert oracle.distance() in range(3, 9), task


def test_splits_are_ranges_of_the_index_and_disjoint_within_a_partition(embedded):
    assert embedded.ids("test") == tuple(f"goal-{number}" for number in range(500))
    assert embedded.ids("eval")[0] == "goal-500"
    assert embedded.ids("train")[0] == "goal-1500"
    assert embedded.ids("align_test") == tuple(f"goal-{number}" for number in range(50))
    assert embedded.ids("align_train") == tuple(f"goal-{number}" for number in range(50, 200))
    for partition in SPEC.partitions:
        listed = [task for split in partition for task in embedded.ids(split)]
        assert len(listed) == len(set(listed))
    assert {split for partition in SPEC.partitions for split in partition} == set(SPEC.splits)


@pytest.mark.long
def test_tasks_prices_bounds_and_results_are_the_same_in_a_process_that_shares_nothing(tmp_path, embedded):
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {"ALIGN_ECHO_CACHE": str(tmp_path), "PYTHONHASHSEED": other, "PATH": ""}
    command = [sys.executable, "-c", DIGEST]
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    names: dict[str, Any] = {"__name__": "digest"}
    exec(DIGEST, names)
    assert names["digest"](embedded) == there
    assert there.split()[0] == DIGEST_OF_VERSION_1


def test_all_who_open_it_share_one_catalogue():
    shared = open_catalogue(None)
    opened: list[ProductCatalogue] = []
    threads = [threading.Thread(target=lambda: opened.append(open_catalogue(None))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(catalogue) for catalogue in opened} == {id(shared)}


def test_what_another_generator_made_is_not_taken_for_this_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    monkeypatch.setattr(EmbeddedProducts, "fingerprint", "of another vocabulary")
    monkeypatch.setattr(generator, "PRODUCTS", 30)
    assert len(open_catalogue(None)) == 30
    monkeypatch.undo()
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    monkeypatch.setattr(generator, "PRODUCTS", 60)
    assert len(open_catalogue(None)) == 60


@pytest.mark.long
def test_processes_that_build_it_at_once_all_get_it(tmp_path):
    environment = {"ALIGN_ECHO_CACHE": str(tmp_path), "PATH": ""}
    code = "from align_echo.wrappers.webshop import generator, task_ids; generator.PRODUCTS = 1000\n"
    code += "print(task_ids(split='test', data_root=None)[-1])"
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(2)
    ]
    assert [process.communicate()[0] for process in running] == [b"goal-499\n"] * 2
    assert len(list((tmp_path / "webshop").iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="set ALIGN_ECHO_CACHE to a folder that can be written"):
        open_catalogue(None)


@pytest.mark.parametrize("damage", ["offsets.npy", "goals.json", "products.jsonl", "index/params.index.json"])
def test_a_damaged_catalogue_says_what_to_delete(tmp_path, embedded, cache, damage):
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(kept(cache)), str(folder)], check=True)
    (folder / damage).unlink()
    with pytest.raises(EngineError, match="delete that folder"):
        ProductCatalogue("a copy", folder)


@pytest.mark.parametrize("file", ["offsets.npy", "goals.json", "products.jsonl", "index/data.csc.index.npy"])
@pytest.mark.parametrize("damage", ["one bit", "cut short"])
def test_a_catalogue_that_is_not_as_it_was_built_is_refused(tmp_path, embedded, cache, file, damage):
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(kept(cache)), str(folder)], check=True)
    content = bytearray((folder / file).read_bytes())
    content[len(content) * 2 // 3] ^= 1
    (folder / file).write_bytes(content if damage == "one bit" else content[:-7])
    with pytest.raises(EngineError, match=rf"{file} is not as it was written.*delete that folder"):
        ProductCatalogue("a copy", folder)


def test_an_unknown_task_is_refused_with_what_there_is(embedded):
    for wrong in ("goal-99999", "goal--1", "goal-01", "synthetic-0", ""):
        with pytest.raises(UsageError, match="there are goal-0 to goal-"):
            embedded.goal(wrong)


def test_an_iteration_trains_on_twenty_tasks_none_twice_before_all_were_drawn():
    drawn = [training_tasks(data_root=None, iteration=iteration, seed=3) for iteration in range(8)]
    assert all(len(set(tasks)) == 20 for tasks in drawn[:7])
    first = [task for tasks in drawn for task in tasks][:150]
    assert sorted(first) == sorted(task_ids(split="align_train", data_root=None))
    assert training_tasks(data_root=None, iteration=0, seed=4) != drawn[0]
    assert training_tasks(data_root=None, iteration=0, seed=3) == drawn[0]
    with pytest.raises(UsageError, match="counted from 0"):
        training_tasks(data_root=None, iteration=-1, seed=3)


def test_goals_are_stored_as_what_they_are(embedded, cache):
    stored = json.loads((kept(cache) / "goals.json").read_text())
    assert stored["kind"] == "goal"
    assert stored["goals"][3]["instruction"] == embedded.goal("goal-3").instruction
