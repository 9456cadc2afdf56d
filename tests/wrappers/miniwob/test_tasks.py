"""Tasks: which pages are played, what an id says. Needs no browser."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import align_echo
from align_echo.errors import UsageError
from align_echo.wrappers.miniwob.spec import LEFT_OUT, OTHERS, SUBDOMAINS, WITH_EXPERT, read_task


def test_more_than_a_hundred_pages_are_played_in_every_split():
    for split in ("train", "test"):
        assert {task.split("/")[0] for task in align_echo.tasks("miniwob", split=split)} == set(SUBDOMAINS)
    assert len(SUBDOMAINS) >= 100
    for split in ("expert_train", "expert_test"):
        assert {task.split("/")[0] for task in align_echo.tasks("miniwob", split=split)} == set(WITH_EXPERT)
    assert len(WITH_EXPERT) >= 12
    assert not set(WITH_EXPERT) & set(OTHERS)


@pytest.mark.skipif(find_spec("miniwob") is None, reason="the extra miniwob is not installed")
def test_every_page_of_the_package_is_played_or_left_out_for_a_reason():
    spec = find_spec("miniwob")
    assert spec is not None
    assert spec.origin is not None
    pages = {page.stem for page in Path(spec.origin).parent.glob("html/miniwob/*.html")}
    assert pages == set(SUBDOMAINS) | set(LEFT_OUT)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("click-test", "does not end in a seed from 0 to 109"),
        ("click-test/110", "does not end in a seed"),
        ("click-test/-1", "does not end in a seed"),
        ("click-test/01", "does not end in a seed"),
        ("click-test/1/2", "does not end in a seed"),
        ("click-tests/1", "there is no task"),
        ("copy-paste/1", "is not played: it wants shortcuts"),
        ("../core/1", "there is no task"),
    ],
)
def test_an_id_that_is_none_is_refused_in_one_line(task, message):
    with pytest.raises(UsageError, match=message) as refusal:
        read_task(task)
    assert "\n" not in str(refusal.value)


def test_a_page_draws_from_the_distribution_of_its_seed():
    assert [read_task(f"click-test-transfer/{seed}").mode for seed in (0, 9, 10, 109)] == [
        *("test", "test"),
        *("train", "train"),
    ]


def test_a_task_of_another_split_is_not_played():
    env = align_echo.make("miniwob", split="train")
    with pytest.raises(UsageError, match="in split train"):
        env.reset(options={"task": "click-test/0"})
    env.close()


def test_data_and_engines_are_refused():
    with pytest.raises(UsageError, match="no data of its own"):
        align_echo.tasks("miniwob", data_root="somewhere")
    with pytest.raises(UsageError, match="has no engine"):
        align_echo.make("miniwob", engine="other")
