"""SearchQA: questions answered by searching documents, in several steps. Documents are loaded on first use."""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import install_line
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.searchqa.spec import (
    ACTION_FORMAT,
    CONTRACT,
    SCORES,
    SPLITS,
    STEP_LIMIT,
    has_expert,
    is_invalid,
    task_type,
)
from align_echo.wrappers.text_env import TextEnv

TRAINING_TASKS = 20
"""Tasks of one iteration of ALIGN, as in its WebShop runs (appendix C.1)."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make a SearchQA environment; `engine` is the score of an answer, "exact" (the default) or "f1".

    Raises `MissingDataError` if the data folder lacks the split, `UsageError` for another engine or an invalid address
    of a retrieval server.
    """
    from align_echo.wrappers.searchqa.client import searcher
    from align_echo.wrappers.searchqa.corpus import find_folder, open_questions
    from align_echo.wrappers.searchqa.env import SearchQAEnv

    folder = find_folder(data_root)
    return SearchQAEnv(open_questions(folder, split), searcher(folder), step_limit, engine or SCORES[0])


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split, kind by kind. Raises `MissingDataError` if the data folder lacks the split."""
    from align_echo.wrappers.searchqa.corpus import find_folder, open_questions

    return list(open_questions(find_folder(data_root), split))


def data_source(*, data_root: Path | None) -> str:
    """Describe the questions in use and the place of the search. Raises `MissingDataError`, `UsageError`."""
    from align_echo.wrappers.searchqa.client import label
    from align_echo.wrappers.searchqa.corpus import find_folder

    return label(find_folder(data_root))


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample the tasks of one iteration (counted from 0): 20, unused ones first.

    Raises `UsageError` for a negative iteration, `MissingDataError`.
    """
    from align_echo.base.dice import drawn

    ids = task_ids(split="train", data_root=data_root)
    return drawn(ids, iteration=iteration, count=TRAINING_TASKS, seed=f"training tasks {seed}")


SPEC = EnvironmentSpec(
    name="searchqa",
    gym_id="align_echo/SearchQA-v0",
    summary="questions over documents, by searching (SearchQA, DeepSearch)",
    splits=SPLITS,
    train_split="train",
    test_split="test",
    step_limit=STEP_LIMIT,
    action_format=ACTION_FORMAT,
    contract=CONTRACT,
    is_invalid=is_invalid,
    task_type=task_type,
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
    data_source=data_source,
    engines=SCORES,
    has_expert=has_expert,
    install=f"{install_line('searchqa')}, or a retrieval server in $SEARCHQA_URL",
)
