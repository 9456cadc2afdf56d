"""WebShop: shopping by an instruction, in text. Its catalogue is loaded on first use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from align_echo.errors import install_line, require
from align_echo.wrappers.cache import NEEDS
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from align_echo.wrappers.webshop.spec import ACTION_FORMAT, CONTRACT, MODES, SPLITS, STEP_LIMIT, task_type

if TYPE_CHECKING:
    from align_echo.wrappers.webshop.catalogue import ProductCatalogue

TRAINING_TASKS = 20
"""Tasks of one iteration of ALIGN, from its training split (appendix C.1)."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make a WebShop environment; `engine` is the form of its pages, "text" (the default) or "text_rich".

    Raises `MissingDataError` if `data_root` holds no catalogue, `UsageError` for another engine, `MissingExtraError`.
    """
    catalogue = _catalogue(data_root)
    assert catalogue.index  # load it now rather than in the first step
    from align_echo.wrappers.webshop.env import WebShopEnv

    return WebShopEnv(catalogue, split, step_limit, engine or MODES[0])


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split by index. Raises `MissingDataError` if `data_root` holds no catalogue;
    `MissingExtraError`."""
    return list(_catalogue(data_root).ids(split))


def data_source(*, data_root: Path | None) -> str:
    """Describe the catalogue in use: "embedded catalogue, generator 1" or "official products at <path>, ...".

    Raises `MissingDataError`.
    """
    from align_echo.wrappers.webshop.catalogue import find_source

    return find_source(data_root).label


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample ALIGN's tasks of one iteration (counted from 0): 20, unused ones first.

    Raises `UsageError` for a negative iteration, `MissingDataError` if `data_root` holds no catalogue.
    """
    from align_echo.base.dice import drawn

    ids = task_ids(split="align_train", data_root=data_root)
    return drawn(ids, iteration=iteration, count=TRAINING_TASKS, seed=f"training tasks {seed}")


def _catalogue(data_root: Path | None) -> ProductCatalogue:
    require("WebShop", "webshop", (*NEEDS, "textblob", "thefuzz"))
    from align_echo.wrappers.webshop.catalogue import open_catalogue

    return open_catalogue(data_root)


SPEC = EnvironmentSpec(
    name="webshop",
    gym_id="align_echo/WebShop-v0",
    summary="shopping by instruction (WebShop)",
    splits=tuple(SPLITS),
    train_split="align_train",
    test_split="align_test",
    step_limit=STEP_LIMIT,
    action_format=ACTION_FORMAT,
    contract=CONTRACT,
    is_invalid=None,
    lists_all=False,
    task_type=task_type,
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
    data_source=data_source,
    engines=MODES,
    partitions=(("test", "eval", "train"), ("align_test", "align_train")),
    install=install_line("webshop"),
)
