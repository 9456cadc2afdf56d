"""What a stranger's loop may ask of an environment, what is refused, and what is put on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import EngineError, UsageError
from align_echo.loops.driving import LEFT, ClientSession, TaskPanel, ending, opening
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment
from tests.play import WINNING
from tests.room_env import TASK_IDS, RoomEnv, instead_of

MUG, BOOK = TASK_IDS


class Brittle(RoomEnv):
    """Breaks at its second action."""

    def _act(self, action: str):
        if self._turns:
            raise OSError("pipe closed")
        return super()._act(action)


def guest(record: Path | None = None, kind: type[RoomEnv] = RoomEnv) -> ClientSession:
    panel = TaskPanel.build(instead_of(environment("alfworld"), kind))
    return ClientSession(panel, "somebody", None if record is None else JsonlFile(record))


def recorded(file: Path) -> list[Trajectory]:
    return JsonlFile(file).read(Trajectory)


def test_an_episode_is_played_to_its_end_and_recorded_once(tmp_path):
    file = tmp_path / "played.jsonl"
    somebody = guest(file)
    assert "bring the mug 1 to the study" in opening(somebody.reset(MUG))
    steps = [somebody.act(action) for action in WINNING]
    assert [step.reward for step in steps] == [0.0, 0.0, 1.0]
    assert [ending(step, somebody.won) for step in steps[:2]] == ["", ""]
    assert ending(steps[2], somebody.won) == "The episode is over: it was won; its score is 1 of 1."
    with pytest.raises(UsageError, match="over"):
        somebody.act("look")
    somebody.close()
    somebody.close()
    (episode,) = recorded(file)
    assert (episode.agent, episode.task_id, episode.won, episode.fault) == ("somebody", MUG, True, None)


def test_an_episode_that_is_left_has_no_score(tmp_path):
    file = tmp_path / "played.jsonl"
    somebody = guest(file)
    somebody.reset(MUG)  # read, and left at once
    somebody.reset(MUG)
    somebody.act("look")
    somebody.reset(BOOK)
    somebody.act("take mug 1")
    somebody.close()
    faults = [episode.fault for episode in recorded(file)]
    assert [fault and (fault.source, fault.message) for fault in faults] == [("agent", LEFT)] * 3
    with pytest.raises(UsageError, match="closed"):
        somebody.reset(MUG)


def test_an_environment_that_breaks_is_no_loss(tmp_path):
    file = tmp_path / "played.jsonl"
    somebody = guest(file, Brittle)
    somebody.reset(MUG)
    somebody.act("look")
    with pytest.raises(EngineError, match="pipe closed"):
        somebody.act("look")
    somebody.close()
    (episode,) = recorded(file)
    assert episode.fault
    assert (episode.fault.source, len(episode.steps)) == ("environment", 1)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (None, "an action is a text, not nothing"),
        (5, "not a number"),
        (["look"], "not a list"),
        ({"action": "look"}, "not an object"),
        ("x" * 100_001, "100,001 characters"),
        ("\ud800", "half of a character"),
    ],
)
def test_what_is_no_action_is_refused_in_words_and_costs_no_turn(action, said):
    somebody = guest()
    with pytest.raises(UsageError, match="reset"):
        somebody.act("look")
    somebody.reset(MUG)
    with pytest.raises(UsageError, match=said):
        somebody.act(action)
    assert [somebody.act(action).reward for action in WINNING] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("task", ["room/none", "", 3, None, "x" * 10**6])
def test_an_unknown_task_is_refused_in_a_short_line_that_shows_one(task):
    with pytest.raises(UsageError) as refused:
        guest().reset(task)
    assert len(str(refused.value)) < 400
    assert MUG in str(refused.value) or "by its id" in str(refused.value)
