"""The study of a critic in play: what it runs is what docs/critic.md says, on splits that share no task."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

import align_echo

pytest.importorskip("yaml")

from align_echo.train.config import checked_config, read_file
from benchmarks.judging.runs import ARMS, IMITATION, ONE_DRAW, STUDIES, collections, critics, imitation, plays
from benchmarks.learning.verbs import Work, asked_of

PAGE = Path(__file__).parents[1] / "docs" / "critic.md"


def options(arguments: Sequence[str]) -> dict[str, str]:
    """The options of a command with their values, as a verb's arguments are named."""
    pairs = dict(pairwise(arguments))
    return {name[2:].replace("-", "_"): pairs[name] for name in pairs if name.startswith("--") and name not in OWN}


def asked(work: Work | None) -> dict[str, str]:
    """What a part of the study asks for, as a command would."""
    named = asked_of(work).items()
    return {name: format(value, "g") if isinstance(value, float) else str(value) for name, value in named}


OWN = ("--out", "--examples", "--judge", "--seed")
"""Where a command reads and writes."""


def on_the_page(begin: str) -> list[dict[str, str]]:
    text = PAGE.read_text(encoding="utf-8")
    return [options(line.split()) for line in re.findall(rf"^    align-echo ({begin} .+)$", text, flags=re.MULTILINE)]


def test_alfworld_is_collected_trained_and_played_as_the_page_says(tmp_path):
    study = STUDIES["alfworld"]
    collected, tested = (asked(job.training) for job in collections(study, 1, tmp_path))
    for part, of_page in zip((collected, tested), on_the_page("critic collect"), strict=True):
        assert ({"split": "train"} | of_page).items() <= part.items()
    (critic,) = critics(1, tmp_path)
    assert on_the_page("critic train --examples")[0].items() <= asked(critic.training).items()
    played = {job.arm: asked(job.measuring) for job in plays(study, 1, tmp_path)}
    for arm, of_page in zip(("critic of 8", "placebo of 8", ONE_DRAW), on_the_page("evaluate")[:3], strict=True):
        assert of_page.items() <= played[arm].items(), arm
    assert played["critic of 8"]["pick"] == "critic", "the default, named"


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_no_task_is_learned_from_and_measured_on(study):
    learned, tried, played = (
        set(align_echo.tasks(study.env, split=split)) for split in (study.training, study.trial, study.split)
    )
    assert not learned & tried
    assert not learned & played
    assert not tried & played


def test_every_arm_plays_the_same_tasks_with_draws_of_one_kind(tmp_path):
    jobs = plays(STUDIES["webshop"], 2, tmp_path)
    assert {job.arm for job in jobs} == {*ARMS, ONE_DRAW, IMITATION}
    assert len({job.folder for job in jobs}) == len(jobs)
    alike = ("env", "split", "tasks", "seed", "temperature")
    told = [asked(job.measuring) for job in jobs]
    assert len({tuple(one[name] for name in alike) for one in told}) == 1
    assert all(one["judge"] != "None" or (one["top_k"], one["top_p"]) == ("30", "0.8") for one in told)


def test_imitation_has_as_many_labels_as_the_critic_and_none_of_the_test(tmp_path):
    (tmp_path / "critic").mkdir()
    (tmp_path / "critic" / "summary.json").write_text(json.dumps({"learned_from": 321}))
    job = imitation(STUDIES["webshop"], 1, tmp_path)
    file = Path(asked(job.training)["config"])
    config = checked_config(read_file(file), file.name)
    assert (config.environment_steps, config.split, config.method) == (321, "train", "sft")
