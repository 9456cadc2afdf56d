"""Rounds of refinement: who is played again, with which advice, and how it counts."""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.critic.language import Critique
from align_echo.critic.review import Review
from align_echo.evaluate.refinement import refine_rounds
from align_echo.rollout import Episode
from align_echo.types import Fault, Trajectory

BROKEN = Fault(source="model", error="ModelError", message="gone")


class Stage:
    """Wins an episode by its critique or its sample number; notes what was played."""

    def __init__(self, *, wins: Sequence[str | int] = (), breaks: Sequence[int] = ()) -> None:
        self.wins, self.breaks = wins, breaks
        self.played: list[Episode] = []

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        self.played += episodes
        return [self._one(episode) for episode in episodes]

    def _one(self, episode: Episode) -> Trajectory:
        won = episode.critique in self.wins or episode.sample in self.wins
        return Trajectory(
            environment="e", split="s", task_id=episode.task_id, agent="a", sample=episode.sample, goal="g",
            critique=episode.critique, initial_observation="o", score=float(won), won=won,
            fault=BROKEN if episode.sample in self.breaks else None,
        )  # fmt: skip


def hints(attempts: Sequence[Trajectory]) -> list[Review]:
    said = [Critique(reason="r", suggestions=(f"hint after {one.sample}",)) for one in attempts]
    return [Review(form="icrl", critique=one) for one in said]


def test_only_what_failed_is_played_again_and_the_latest_attempt_counts():
    stage = Stage(wins=[1, "hint after 0"])
    rounds, standing = refine_rounds(["a", "b"], stage.play, hints, rounds=2, samples=2)
    assert [one.played for one in rounds] == [4, 2, 0]
    assert [one.success_rate.value for one in rounds] == [50.0, 100.0, 100.0]
    assert stage.played[4:] == [Episode("a", 2, "hint after 0"), Episode("b", 2, "hint after 0")]
    assert all(one.won for one in standing)


def test_without_a_critic_they_are_fresh_attempts():
    stage = Stage(wins=[2])
    rounds, _ = refine_rounds(["a"], stage.play, None, rounds=3)
    assert stage.played == [Episode("a", 0), Episode("a", 1), Episode("a", 2)]
    assert [one.mean_score.value for one in rounds] == [0.0, 0.0, 1.0, 1.0]


def test_a_critique_that_cannot_be_read_is_counted_and_the_episode_played_without():
    def unread(attempts: Sequence[Trajectory]) -> list[Review]:
        return [Review(form="icrl", problem="no form") for _ in attempts]

    stage = Stage()
    rounds, _ = refine_rounds(["a"], stage.play, unread, rounds=1)
    assert rounds[1].unread == 1
    assert stage.played[1] == Episode("a", 1)


def test_what_broke_keeps_the_attempt_before_and_is_tried_again():
    stage = Stage(wins=[2], breaks=[1])
    rounds, standing = refine_rounds(["a"], stage.play, None, rounds=2)
    assert [one.played for one in rounds] == [1, 1, 1]
    assert standing[0].won


def test_every_draw_is_one_of_its_own():
    stage = Stage()
    refine_rounds(["a", "b"], stage.play, hints, rounds=3, samples=2)
    assert len({(one.task_id, one.sample) for one in stage.played}) == len(stage.played) == 16
