"""--memory: which verbs take it, what it refuses, and what a run says about it."""

from __future__ import annotations

import re

import pytest

from align_echo.models.local.memory import MIB, POOL
from tests.cli.test_help import VERBS

WITH_MODELS = [
    " ".join(name)
    for name, command in VERBS
    if {"model", "judge", "critic_model"} & {taken.name for taken in command.params} or name == ("study",)
]


@pytest.fixture(autouse=True)
def fresh_limit():
    yield
    POOL.set_limit(0)


@pytest.mark.parametrize("verb", WITH_MODELS)
def test_every_verb_with_a_model_takes_it(verb, run):
    assert {"evaluate", "train"} <= set(WITH_MODELS)
    assert "--memory" in run(*verb.split(), "--help")[1]


def test_it_is_the_limit_of_local_models(run, monkeypatch):
    limits: list[int] = []

    def plan(config: object) -> None:
        limits.append(POOL.limit())
        raise SystemExit

    monkeypatch.setattr("align_echo.cli.evaluate.plan_evaluation", plan)
    for given in (["--memory", "70MiB"], []):
        with pytest.raises(SystemExit):
            run("evaluate", "--env", "alfworld", *given)
    assert limits[0] == 70 * MIB < limits[1]


def test_what_does_not_fit_is_refused_in_a_line_and_nothing_is_written(run, tmp_path):
    out, small = tmp_path / "run", ("--memory", "9MiB")
    status, printed, err = run("evaluate", "--env", "alfworld", "--model", "pocket", *small, "--out", out)
    assert (status, printed, err.count("\n")) == (2, "", 1)
    assert err.startswith("align-echo: pocket does not fit in 9 MiB of memory: it needs ")
    assert not out.exists()
    status, printed, err = run("train", *small, "--dry-run")
    assert (status, printed, err.count("\n")) == (2, "", 1)
    assert re.search("this run does not fit in 9 MiB of memory: .* set gradient_checkpointing", err)


def test_a_run_says_what_it_needs_and_how_much_fits(run, tmp_path):
    options = ["--env", "alfworld", "--model", "pocket", "--tasks", "1", "--turns", "1", "--out", str(tmp_path / "run")]
    _, _, err = run("evaluate", *options, "--memory", "1GiB")
    first = err.splitlines()[0]
    assert first.startswith("align-echo: memory for pocket: 1.0 GiB; weights 13 MiB, activations ")
    assert "keys and values 16 MiB for a conversation of 4,096 tokens, " in first
    assert first.endswith(" of which fit at once")
    _, out, _ = run("train", "--memory", "8GiB", "--dry-run")
    assert "memory: 8.0 GiB; weights that learn or are frozen" in out
    assert re.search(r"MiB  activations of learning\n(.*\n)*.* of which fit at once\n", out)
