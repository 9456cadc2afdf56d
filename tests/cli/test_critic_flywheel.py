"""`align-echo critic flywheel`: two rounds, the second under the first one's critic; and it goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datasets")

from align_echo.gaia.examples import read_examples
from align_echo.gaia.flywheel import FlywheelSummary, check_disjoint
from align_echo.models.choosing import ModelName
from align_echo.wrappers.catalogue import environment

FLYWHEEL = [
    *("critic", "flywheel", "--env", "webshop", "--model", "pocket", "--rounds", "2", "--tasks", "2"),
    *("--test-tasks", "2", "--candidates", "2", "--test-candidates", "3", "--top-k", "0"),
    *("--top-p", "1", "--held-out", "0", "--states", "expert", "--begin", "last", "--out", "wheel"),
]


@pytest.fixture
def names_read(monkeypatch) -> list[str]:
    """The names of models that are read during a test, in order."""
    texts: list[str] = []
    make = ModelName.__init__

    def read(self: ModelName, text: str, *rest: Any) -> None:
        texts.append(text)
        make(self, text, *rest)

    monkeypatch.setattr(ModelName, "__init__", read)
    return texts


@pytest.mark.long
def test_two_rounds_of_which_the_second_is_guided_and_learns_from_both(run, names_read):
    status, _, err = run(*FLYWHEEL)
    assert status == 0, err
    by_user, critics = ["pocket", "pocket"], [f"wheel/round-{number}/critic/critic" for number in (1, 2)]
    assert names_read == [*by_user, *critics], "--critic-model, --model, and each critic once it is trained"
    assert "round 2 of 2" in err
    stored = json.loads(Path("wheel/config.json").read_text())
    assert (stored["critic"], stored["judge"], stored["candidates"]) == ("pocket", None, 2)
    flywheel = FlywheelSummary.model_validate_json(Path("wheel/summary.json").read_text())
    assert [turn.number for turn in flywheel.rounds] == [1, 2]
    assert flywheel.single.value <= flywheel.ceiling.value
    second = json.loads(Path("wheel/round-2/collection/config.json").read_text())["agent_details"]
    assert second["model.judge"].endswith("wheel/round-1/critic/critic")
    first = json.loads(Path("wheel/round-1/collection/config.json").read_text())["agent_details"]
    assert "model.judge" not in first
    begun = [json.loads(Path(f"wheel/round-{number}/critic/config.json").read_text())["model"] for number in (1, 2)]
    assert begun == ["pocket", "wheel/round-1/critic/critic"]
    learned = json.loads(Path("wheel/round-2/critic/config.json").read_text())["collections"]
    assert learned == ["wheel/round-1/collection", "wheel/round-2/collection"]
    rounds = [
        {read_example.round for read_example in read_examples(Path(f"wheel/round-{number}/collection"))}
        for number in (1, 2)
    ]
    assert rounds == [{1}, {2}]
    parts = ("held-out", "round-1/collection", "round-2/collection")
    configs = [json.loads(Path(f"wheel/{part}/config.json").read_text()) for part in parts]
    assert len({task for record in configs for task in record["tasks"]}) == 6
    assert [task["states"] for task in configs] == ["expert", "expert", "agent"]
    assert max(point.candidates for point in flywheel.rounds[0].trial.curve) == 3

    for part in ("wheel/summary.json", "wheel/round-2/trial/summary.json"):
        Path(part).unlink()
    kept = Path("wheel/round-2/critic/critic/model.safetensors").stat().st_mtime_ns
    status, _, err = run(*FLYWHEEL, "--resume", "--workers", "1")
    assert status == 0, err
    assert "episodes:" not in err
    assert Path("wheel/round-2/critic/critic/model.safetensors").stat().st_mtime_ns == kept
    again_found = FlywheelSummary.model_validate_json(Path("wheel/summary.json").read_text())
    assert [turn.best for turn in again_found.rounds] == [turn.best for turn in flywheel.rounds]


BAD = {
    "a flywheel that was not begun": (["--resume"], "there is nothing to resume in wheel"),
    "nothing to choose from": (["--candidates", "1"], "--candidates"),
    "an unknown environment": (["--env", "chess"], "unknown environment 'chess'"),
    "a split to test on that was learned from": (["--split", "test", "--test-split", "align_test"], "share 50 tasks"),
    "more tasks than there are": (["--test-tasks", "51"], "ask for 1 to 50, not 51"),
    "the same split twice": (["--split", "eval", "--test-split", "eval"], "share 1000 tasks"),
    "states of an expert that is not there": (
        ["--env", "miniwob", "--agent", "vanilla", "--split", "expert_train", "--tasks", "20", "--test-tasks", "41"],
        "of 41 tasks of miniwob's split test have no expert; all of the split expert_test have one",
    ),
    "a split that is not there": (["--split", "night"], "no split 'night'"),
    "weights that are none": (["--weights", "some"], "--weights: must be lora or full"),
    "a rate that is none": (["--lr", "-1"], "--lr: must be above 0"),
    "a share that is none": (["--held-out", "7"], "at least 0 and below 1, not 7.0"),
    "a critic that is none": (["--critic-model", "nowhere"], "'nowhere' cannot be trained"),
    "a rule that is not the environment's": (["--rule", "continues"], "choose expert or nearer"),
    "settings that are no text": (["--config", "noise.yaml"], "noise.yaml"),
    "an agent without a model": (["--agent", "expert"], "the agent expert asks no model"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case, run):
    more, message = BAD[case]
    Path("noise.yaml").write_bytes(b"\xff\xfe\x00")
    status, out, err = run(*FLYWHEEL, *more)
    assert (status, out) == (2, "")
    assert message in err
    assert not Path("wheel").exists()
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("env", "split", "other"),
    [("miniwob", "train", "expert_test"), ("miniwob", "expert_train", "test"), ("webshop", "train", "align_test")],
)
def test_splits_are_apart_if_no_task_is_in_both(env, split, other):
    check_disjoint(environment(env), split, other)
    check_disjoint(environment(env), other, split)
