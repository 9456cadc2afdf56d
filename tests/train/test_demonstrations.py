"""Stored episodes to imitate: which are, with which tokens, and that nothing is played for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from align_echo.agents.reasoning import Vanilla
from align_echo.errors import UsageError
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.rollout import batches
from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.demonstrations import DemonstrationFilter, read_demonstrations
from align_echo.train.methods.sft import imitate
from align_echo.train.printed_lines import announced
from align_echo.train.run import TrainingRun
from align_echo.train.stage import LocalStage
from align_echo.types import Step, Tokens, Trajectory
from align_echo.wrappers.catalogue import tasks
from tests.models.local.tiny import tiny_encoder, tiny_model, tiny_tokenizer
from tests.report.view.episodes import LAST, MUTE, RICH, broken, episode, lost, write

ENCODER = tiny_encoder()
STATION = DemonstrationFilter("station", held_out="unseen")


def test_won_episodes_of_the_environment_are_imitated_each_once(tmp_path) -> None:
    twice = episode("station/1")
    elsewhere = episode("station/1", environment="other")
    held_out = episode("station/2", split="unseen")
    mute = episode("station/1", MUTE)
    others = [lost(), broken(), elsewhere, held_out, mute, episode("station/1", RICH, LAST)]
    file = write(tmp_path / "trajectories" / "a.jsonl", [twice, twice, *others])
    with file.open("a") as stream:
        stream.write('{"task_id": 3}\n')
    shown = read_demonstrations([str(tmp_path)], STATION)
    assert {name: len(each.steps) for name, each in shown.episodes.items()} == {"station/1#0": 3, "station/1#1": 2}
    reasons = "1 that are there twice, 1 lost, 1 broken by a fault, 1 of another environment"
    ending = "1 of the held-out split unseen, 1 without an action, 1 on damaged lines"
    assert str(shown) == f"2 stored episodes of 1 task by novice; left out: {reasons}, {ending}"


def test_a_least_score_takes_lost_episodes_too(tmp_path) -> None:
    write(tmp_path / "trajectories" / "a.jsonl", [lost("s/0", score=0.5), lost("s/1", score=0.4), episode("s/2")])
    names = read_demonstrations([str(tmp_path)], DemonstrationFilter("station", "", minimum_score=0.5)).episodes
    assert list(names) == ["s/0#0", "s/2#0"]
    of_type = DemonstrationFilter("station", "", task_types=["fly"], minimum_score=0.5)
    with pytest.raises(UsageError, match=r"nothing can be learned from .*: 3 of other types of task$"):
        read_demonstrations([str(tmp_path)], of_type)


@pytest.fixture
def stage() -> Any:
    engine = TransformersEngine(tiny_model(context=2048), name="tiny", decode=ENCODER.text)
    model = LocalModel(engine, ENCODER)

    def make(*stored: Trajectory) -> LocalStage:
        return LocalStage(
            make_env=lambda: pytest.fail("an environment is made"),
            agent=lambda model: Vanilla(model, temperature=1.0, max_tokens=6), policy=model, critic=model,
            split="train", action_format="any", stored={str(number): each for number, each in enumerate(stored)},
        )  # fmt: skip

    yield make
    engine.close()


def learned(stage: LocalStage, *names: str) -> list[str]:
    """What is learned from stored episodes, as text."""
    return [
        ENCODER.text([token for token, counts in zip(row.tokens.ids, row.tokens.mask, strict=True) if counts])
        for row in imitate(names, stage).rows
    ]


def test_the_actions_are_learned_in_the_policys_own_form(stage) -> None:
    tagged = Step(reply="<tool>scan</tool>", action="scan", observation="x", raw_observation="x")
    plain = Step(reply="Action: scan", action="scan", observation="x", raw_observation="x",
                 tokens=Tokens(start=0, context_ids=(1,), sampled_ids=(2,), logprobs=(-1.0,)))  # fmt: skip
    shown = stage(episode("a", tagged, MUTE, plain, score=0.25))
    assert learned(shown, "0") == ["scan<|im_end|>Action: scan"], "what held no action is not learned"
    (row,) = imitate(["0"], shown).rows
    assert MUTE.reply in ENCODER.text(row.tokens.ids)
    assert (row.reward, row.expert) == (1.0, True)


def test_an_episode_beyond_the_context_is_left_out_and_counted(stage) -> None:
    long = LAST.model_copy(update={"observation": "very far " * 900})
    batch = imitate(["0", "1"], stage(episode("a", long, LAST), episode("b", LAST)))
    assert [row.group for row in batch.rows] == ["b"]
    assert batch.counts["too long demonstrations"] == 1


# ---------------------------------------------------------------- runs


def config(model: Path, runs: str, **changes: Any) -> TrainConfig:
    small = {"model": str(model), "steps": 1, "threads": 1, "collecting": {"demonstrations": [runs]}}
    return checked_config(merged(merged(method("sft"), small), changes), "sft")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_model(context=4096).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.long
def test_a_run_imitates_stored_episodes_and_plays_none(model, tmp_path, monkeypatch) -> None:
    task = tasks("alfworld", split="train")[0]
    stored = [episode(f"{task}{number}", RICH, LAST, environment="alfworld", split="train") for number in range(3)]
    runs = write(tmp_path / "other" / "trajectories" / "a.jsonl", stored).parents[1]
    monkeypatch.setattr(batches, "_attempt", lambda *given: pytest.fail("an episode is played"))
    run = TrainingRun(config(model, str(runs)), tmp_path / "run")
    assert "learning from 3 stored episodes of 3 tasks by novice" in announced(run)
    run.train(lambda step, signals: None)
    (signals,) = [json.loads(line) for line in (tmp_path / "run" / "signals.jsonl").read_text().splitlines()]
    assert (signals["rows"], signals["environment_steps"]) == (3, 0)
    write(runs / "trajectories" / "a.jsonl", [episode("d", environment="alfworld", split="train")])
    with pytest.raises(UsageError, match="was started with demonstrations = "):
        TrainingRun(config(model, str(runs)), tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"method": "grpo", "step": {"advantage": "group"}}, "grpo learns from rewards: stored episodes are for sft"),
        ({"collecting": {"demonstrations": [], "minimum_score": 0.5}}, "is of stored episodes: name their runs"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, why) -> None:
    with pytest.raises(UsageError, match=why):
        config(Path("pocket"), "runs", **changes)
