"""Catalogue of a process: products, goals and search index, built once on disk and shared by all users.

A catalogue is a folder in the cache, created atomically. It holds products as JSON lines with their offsets
(memory-mapped and read one by one), goals in the order of their indices, the search index, and the checksums of all.
Two processes that build it at once both do so; the first to finish wins.
"""

from __future__ import annotations

import functools
import hashlib
import json
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from align_echo.base.files import cache_folder
from align_echo.base.plain_yaml import parse_json
from align_echo.errors import EngineError, MissingDataError, UsageError, unreadable
from align_echo.wrappers.cache import SearchIndex
from align_echo.wrappers.webshop.generator import EmbeddedProducts
from align_echo.wrappers.webshop.reward import (
    NO_ATTRIBUTES,
    PageNode,
    Product,
    ShoppingGoal,
    ShoppingInstruction,
    add_weights,
    human_goals,
    price_between,
    sort_goals,
    synthetic_goals,
)
from align_echo.wrappers.webshop.spec import SPLITS

# ---------------------------------------------------------------- official files

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
        f"{INSTRUCTIONS} for the goals that people wrote; leave --data-root out, and $WEBSHOP_DATA unset, to shop in "
        "the embedded catalogue"
    )


def _read(path: Path, kind: type) -> Any:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from error
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


# ---------------------------------------------------------------- catalogue of a process

FORMAT = 3
"""Version of the folder's layout and of the sampling of goals."""

ENDS = 32 * 2**20
"""Bytes at each end of a file that go into its checksum; a file of up to twice as many is read completely."""

VARIABLE = "WEBSHOP_DATA"
_PRODUCTS, _OFFSETS, _GOALS, _INDEX = "products.jsonl", "offsets.npy", "goals.json", "index"
_CHECKSUMS = "checksums.json"


CatalogueSource = EmbeddedProducts | OfficialFiles
"""Source of products and instructions.

`label` describes it, for the record of a run; `goal_kind` is "goal" if people wrote the goals (or seem to have) and
"synthetic" otherwise; `only_findable` drops goals of products that a search for their own title does not find.
"""


def find_source(data_root: Path | None) -> CatalogueSource:
    """Return the official files under `data_root` or `$WEBSHOP_DATA`; without either, the embedded products.

    Raises `MissingDataError` if a configured folder holds no data set.
    """
    if data_root is not None:
        return find_files(data_root, str(data_root))
    configured = os.environ.get(VARIABLE)
    if configured:
        return find_files(Path(configured), f"${VARIABLE} ({configured})")
    return EmbeddedProducts()


def open_catalogue(data_root: Path | None) -> ProductCatalogue:
    """Open the catalogue of `find_source`, one object a process; build it on disk if it does not exist.

    Raises `MissingDataError`, or `UsageError` if the files are not readable or the cache cannot be written.
    """
    source = find_source(data_root)
    return _open(source, cache_folder() / "webshop" / _name(source))


def _name(source: CatalogueSource) -> str:
    """Name the folder of a source: one for each generator of embedded products, and for each state of the files."""
    if isinstance(source, EmbeddedProducts):
        return f"embedded-{source.version}-{source.fingerprint}-{FORMAT}"
    stamps = [(str(path.resolve()), path.stat().st_mtime_ns, path.stat().st_size) for path in source.paths]
    return f"official-{hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]}-{FORMAT}"


@functools.lru_cache(maxsize=4)
def _open(source: CatalogueSource, folder: Path) -> ProductCatalogue:
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _build(source, folder)
        except OSError as error:
            raise UsageError(
                f"cannot write the WebShop catalogue to {error.filename or folder} ({error.strerror}): "
                "set ALIGN_ECHO_CACHE to a folder that can be written"
            ) from error
    return ProductCatalogue(source.label, folder)


class ProductCatalogue:
    """Open catalogue. Immutable, so threads and environments may share it."""

    def __init__(self, label: str, folder: Path) -> None:
        """Open a folder. Raises `EngineError` if it is damaged."""
        self.label = label
        try:
            _check(folder)
            self._offsets = np.load(folder / _OFFSETS, mmap_mode="r")
            with (folder / _PRODUCTS).open("rb") as stream:
                self._products = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            stored = parse_json((folder / _GOALS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _damage_error(folder, error) from error
        self._folder = folder
        self._kind = str(stored["kind"])
        self._goals = [ShoppingGoal.from_record(record) for record in stored["goals"]]
        self._numbers = {task_id: number for number, task_id in enumerate(self._ids())}
        self.product = functools.lru_cache(maxsize=500)(self._product)
        self.listing = functools.lru_cache(maxsize=20_000)(self._listing)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def _ids(self) -> Iterator[str]:
        return (f"{self._kind}-{number}" for number in range(len(self._goals)))

    def ids(self, split: str) -> tuple[str, ...]:
        """Return the task ids of a split by index."""
        return tuple(self._numbers)[slice(*SPLITS[split])]

    def goal(self, task_id: str) -> ShoppingGoal:
        """Return the goal of a task. Raises `UsageError` for an unknown id."""
        if task_id not in self._numbers:
            last = f"{self._kind}-{len(self._goals) - 1}"
            raise UsageError(f"there is no WebShop task {task_id!r}: there are {self._kind}-0 to {last}")
        return self._goals[self._numbers[task_id]]

    def find(self, query: str) -> tuple[int, ...]:
        """Search; return the rows of the products, best first. Raises `EngineError` if the index is damaged."""
        return self.index.find(query)

    @functools.cached_property
    def index(self) -> SearchIndex:
        """Search index, loaded on first use. Raises `EngineError` if it is damaged.

        Importing its packages takes longer than the rest of a catalogue, so code that only lists tasks avoids it.
        """
        try:
            return SearchIndex.load(self._folder / _INDEX)
        except (OSError, ValueError) as error:
            raise _damage_error(self._folder, error) from error

    def _listing(self, row: int) -> tuple[PageNode, ...]:
        return self._product(row).listing  # far smaller than the product, so many can be cached

    def _product(self, row: int) -> Product:
        return Product.from_record(json.loads(self._products[self._offsets[row] : self._offsets[row + 1]]))


def _damage_error(folder: Path, error: Exception) -> EngineError:
    return EngineError(f"the WebShop catalogue {folder} is damaged ({error}): delete that folder")


# ---------------------------------------------------------------- building


def _build(source: CatalogueSource, folder: Path) -> None:
    draft = folder.parent / f".{folder.name}.{secrets.token_hex(8)}"
    draft.mkdir()
    try:
        goals = _write_products(source, draft)
        SearchIndex.build(_documents(draft / _PRODUCTS)).save(draft / _INDEX)
        if source.only_findable:
            goals = _filter_findable(goals, draft)
        record = {"kind": source.goal_kind, "goals": [asdict(goal) for goal in sort_goals(goals)]}
        (draft / _GOALS).write_text(json.dumps(record), encoding="utf-8")
        (draft / _CHECKSUMS).write_text(json.dumps(_checksums(draft)), encoding="utf-8")
        try:
            draft.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check(folder: Path) -> None:
    """Compare the files with their checksums. Raises `OSError` or `ValueError` for a changed file."""
    stored = parse_json((folder / _CHECKSUMS).read_text(encoding="utf-8"))
    if not isinstance(stored, dict):
        raise ValueError(f"{_CHECKSUMS} is not as it was written")
    checksums = _checksums(folder)
    for name in sorted({*stored, *checksums}):
        if stored.get(name) != checksums.get(name):
            raise ValueError(f"{name} is not as it was written")


def _checksums(folder: Path) -> dict[str, str]:
    """Compute the SHA-256 of each file's size and ends, by its path in the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != _CHECKSUMS)
    return {str(file.relative_to(folder)): _checksum(file) for file in files}


def _checksum(file: Path) -> str:
    size = file.stat().st_size
    digest = hashlib.sha256(f"{size} ".encode())
    with file.open("rb") as stream:
        digest.update(stream.read(ENDS))
        stream.seek(max(stream.tell(), size - ENDS))
        digest.update(stream.read(ENDS))
    return digest.hexdigest()


def _write_products(source: CatalogueSource, folder: Path) -> list[ShoppingGoal]:
    """Write the products and their offsets; return the goals in the order of the products."""
    offsets = [0]
    goals: list[ShoppingGoal] = []
    with (folder / _PRODUCTS).open("wb") as stream:
        for row, (product, human, synthetic) in enumerate(source.entries()):
            offsets.append(offsets[-1] + stream.write(json.dumps(asdict(product)).encode() + b"\n"))
            if source.goal_kind == "goal":
                goals += human_goals(row, product, human)
            elif synthetic is not None:
                goals += synthetic_goals(row, product, synthetic)
    np.save(folder / _OFFSETS, np.array(offsets, dtype=np.int64))
    if not goals:
        raise UsageError(f"there is no goal in the {source.label}")
    return goals if source.goal_kind == "goal" else add_weights(goals)


def _documents(products: Path) -> Iterator[str]:
    with products.open("rb") as stream:
        for line in stream:
            yield Product.from_record(json.loads(line)).document


def _filter_findable(goals: list[ShoppingGoal], folder: Path) -> list[ShoppingGoal]:
    """Return the goals of products that a search for their title finds."""
    index = SearchIndex.load(folder / _INDEX)
    with (folder / _PRODUCTS).open("rb") as stream:
        titles = [str(json.loads(line)["title"]) for line in stream]
    return [goal for goal in goals if goal.row in index.find(titles[goal.row])]
