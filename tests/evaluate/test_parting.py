"""One game before and after an interface: what is shown of it, and of which game."""

from __future__ import annotations

from align_echo.base.jsonl import JsonlFile
from align_echo.evaluate.tables import parting, parts_at, show_parting, telling_pair
from align_echo.types import Step, Trajectory

REFUSED = "Nothing happens."
HINTED = "Nothing happens. You need to `go to fridge 1` first."


def played(task: str, *turns: tuple[str, str], won: bool = False, sample: int = 0) -> Trajectory:
    return Trajectory(
        environment="alfworld",
        split="valid_unseen",
        task_id=task,
        sample=sample,
        agent="me",
        goal="cool the mug.",
        initial_observation="You are in a room.",
        steps=tuple(Step(reply=a, action=a, observation=o, raw_observation=None) for a, o in turns),
        won=won,
    )


START = ("take mug 1 from desk 1", "You pick up the mug 1.")
COOL = "cool mug 1 with fridge 1"
BEFORE = played("a", START, *[(COOL, REFUSED)] * 30)
AFTER = played(
    "a", START, (COOL, HINTED), ("go to fridge 1", "You arrive."), (COOL, "You cool it.\x1b[31m"), won=True
)


def test_episodes_are_shown_from_the_turn_on_which_they_part():
    assert parts_at(BEFORE, AFTER) == 1
    assert parting(BEFORE, AFTER) == [
        "One task twice: a",
        "task: cool the mug.",
        "the same until turn 1",
        "",
        "before: not won, 31 turns; from turn 2:",
        "   2  > cool mug 1 with fridge 1   (30 times)",
        "        Nothing happens.",
        "",
        "after: won, 4 turns; from turn 2:",
        "   2  > cool mug 1 with fridge 1",
        "        Nothing happens. You need to `go to fridge 1` first.",
        "   3  > go to fridge 1",
        "        You arrive.",
        "   4  > cool mug 1 with fridge 1",
        "        You cool it.[31m",
    ]


def test_what_is_long_is_cut():
    many = played("a", *((f"go to shelf {number}", "a word " * 500) for number in range(20)))
    lines = parting(many, played("a"))
    assert "      ... and 12 turns more" in lines
    assert max(map(len, lines)) <= 110
    assert len(lines) < 60


def test_of_the_games_that_were_lost_and_then_won_it_is_the_shortest():
    lost = [played("a"), played("b"), played("c", START), played("d", sample=1)]
    won = [
        played("a", START, START, won=True),
        played("b", START, won=True),
        played("c", won=False),
        played("d", won=True),
    ]
    assert telling_pair(lost, won) == (lost[1], won[1])
    assert telling_pair(won, won) is None


def test_a_run_without_such_a_game_or_without_both_sides_shows_none(tmp_path):
    assert show_parting(tmp_path) == []
    JsonlFile(tmp_path / "trajectories" / "none.jsonl").append(BEFORE)
    assert show_parting(tmp_path) == []
    JsonlFile(tmp_path / "trajectories" / "full.jsonl").append(AFTER)
    assert "interface: none: not won, 31 turns; from turn 2:" in show_parting(tmp_path)
    assert "interface: both: won, 4 turns; from turn 2:" in show_parting(tmp_path)
