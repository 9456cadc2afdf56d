"""Rounds of refinement: who is played again, with which advice, and how it counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from align_echo.critic.ask import Verdict
from align_echo.critic.language import Critique
from align_echo.errors import ModelError, UsageError
from align_echo.evaluate.folder import CritiqueRecord, EvaluationDir, PartSetting, attempt_episode
from align_echo.evaluate.refinement import criticise_all, refine_rounds
from align_echo.rollout.session import Episode
from align_echo.types import Fault, Trajectory

BROKEN = Fault(source="model", error="ModelError", message="gone")


class Stage:
    """Wins an episode by its critique or its sample number; notes what was played."""

    def __init__(self, *, wins: Sequence[str | int] = (), breaks: Sequence[int] = ()) -> None:
        self.wins, self.breaks = wins, breaks
        self.played: list[Episode] = []

    def play(self, number: int, episodes: Sequence[Episode]) -> list[Trajectory]:
        self.played += episodes
        return [self._one(episode) for episode in episodes]

    def _one(self, episode: Episode) -> Trajectory:
        won = episode.critique in self.wins or episode.sample in self.wins
        return Trajectory(
            environment="e", split="s", task_id=episode.task_id, agent="a", sample=episode.sample, goal="g",
            critique=episode.critique, initial_observation="o", score=float(won), won=won,
            fault=BROKEN if episode.sample in self.breaks else None,
        )  # fmt: skip


def hints(number: int, attempts: Sequence[Trajectory]) -> list[Verdict]:
    critiques = [Critique(reason="r", suggestions=(f"hint after {attempt.sample}",)) for attempt in attempts]
    return [Verdict(form="icrl", critique=review) for review in critiques]


def test_only_what_failed_is_played_again_and_the_latest_attempt_counts():
    stage = Stage(wins=[1, "hint after 0"])
    rounds, standing = refine_rounds(["a", "b"], stage.play, hints, rounds=2, samples=2)
    assert [result.played for result in rounds] == [4, 2, 0]
    assert [result.success_rate.value for result in rounds] == [50.0, 100.0, 100.0]
    assert stage.played[4:] == [Episode("a", 2, "hint after 0"), Episode("b", 2, "hint after 0")]
    assert all(attempt.won for attempt in standing)


def test_without_a_critic_they_are_fresh_attempts():
    stage = Stage(wins=[2])
    rounds, _ = refine_rounds(["a"], stage.play, None, rounds=3)
    assert stage.played == [Episode("a", 0), Episode("a", 1), Episode("a", 2)]
    assert [result.mean_score.value for result in rounds] == [0.0, 0.0, 1.0, 1.0]


def test_a_partial_score_counts_by_the_latest_attempt_and_the_best_is_shown_beside():
    scores = {0: 0.5, 1: 0.2, 2: 0.4, 3: 1.0}

    def play(number: int, episodes: Sequence[Episode]) -> list[Trajectory]:
        played = Stage(wins=[3]).play(number, episodes)
        return [attempt.model_copy(update={"score": scores[attempt.sample]}) for attempt in played]

    rounds, _ = refine_rounds(["a"], play, None, rounds=3)
    assert [result.mean_score.value for result in rounds] == [0.5, 0.2, 0.4, 1.0]
    assert [result.mean_best_score.value for result in rounds] == [0.5, 0.5, 0.5, 1.0]
    assert [result.success_rate.value for result in rounds] == [0, 0, 0, 100]


def test_a_critique_that_cannot_be_read_is_counted_and_the_episode_played_without():
    def unread(number: int, attempts: Sequence[Trajectory]) -> list[Verdict]:
        return [Verdict(form="icrl", problem="no form") for _ in attempts]

    stage = Stage()
    rounds, _ = refine_rounds(["a"], stage.play, unread, rounds=1)
    assert rounds[1].unread == 1
    assert stage.played[1] == Episode("a", 1)


def test_what_broke_keeps_the_attempt_before_and_is_tried_again():
    stage = Stage(wins=[2], breaks=[1])
    rounds, standing = refine_rounds(["a"], stage.play, None, rounds=2)
    assert [result.played for result in rounds] == [1, 1, 1]
    assert standing[0].won


def test_every_draw_is_one_of_its_own():
    stage = Stage()
    refine_rounds(["a", "b"], stage.play, hints, rounds=3, samples=2)
    assert len({(episode.task_id, episode.sample) for episode in stage.played}) == len(stage.played) == 16


def test_an_episode_whose_critic_broke_waits_for_the_next_round():
    def broken_once(number: int, attempts: Sequence[Trajectory]) -> list[Verdict]:
        return [Verdict(form="echo", fault=BROKEN) for _ in attempts] if number == 1 else hints(number, attempts)

    stage = Stage(wins=["hint after 0"])
    rounds, _ = refine_rounds(["a"], stage.play, broken_once, rounds=2)
    assert [(result.played, result.unanswered, result.unread) for result in rounds] == [(1, 0, 0), (0, 1, 0), (1, 0, 0)]
    assert rounds[2].success_rate.value == 100.0


def test_what_broke_is_counted_and_in_no_figure():
    stage = Stage(wins=[0], breaks=[1])
    rounds, _ = refine_rounds(["a"], stage.play, None, rounds=1, samples=2)
    assert (rounds[0].episodes, rounds[0].faults, rounds[0].success_rate.value) == (1, 1, 100.0)


def test_rounds_on_nothing_but_faults_are_refused_with_what_broke():
    with pytest.raises(UsageError, match="the first: the model broke: gone"):
        refine_rounds(["a"], Stage(breaks=[0]).play, None, rounds=1)


def test_a_critic_that_breaks_from_the_start_stops_the_run_and_one_that_recovers_does_not():
    attempts = [*Stage().play(0, [Episode("a", sample) for sample in range(8)])]
    samples: list[int] = []

    def ask(attempt: Trajectory) -> Verdict:
        samples.append(attempt.sample)
        return (
            Verdict(form="echo", fault=BROKEN, problem="gone")
            if len(samples) != heals
            else Verdict(form="echo")
        )

    heals = 0
    with pytest.raises(ModelError, match="each of the first 4 attempts: gone"):
        criticise_all(ask, attempts, on_critique=lambda *_: None)
    samples.clear()
    heals = 4
    came: list[Verdict] = []
    reviews = criticise_all(ask, attempts, workers=3, on_critique=lambda _, attempt: came.append(attempt))
    assert sum(review.fault is None for review in reviews) == 1
    assert len(came) == len(reviews) == 8


def test_a_later_attempt_is_kept_only_while_what_led_to_it_stands(tmp_path):
    """Broken episodes are played again when a run is resumed: what had followed from their breaking is not reused."""
    folder = EvaluationDir(tmp_path / "run", {"agent": "a"}).begin()
    later = Stage().play(2, [Episode("a", 2, "old advice"), Episode("b", 2)])
    setting = PartSetting(later[0].environment, later[0].split, later[0].agent, later[0].seed, None)
    part = folder.part("round-2", [attempt_episode(attempt) for attempt in later], setting)
    for reviewed in later:
        part.add(reviewed)
        folder.add_critique("round-3", CritiqueRecord(attempt=attempt_episode(reviewed), review=Verdict(form="echo")))
    again = EvaluationDir(tmp_path / "run", {"agent": "a"}, resume=True).begin()
    assert list(again.part("round-2", [Episode("a", 2, "new advice"), Episode("b", 2)], setting)) == later[1:]
    standing = Stage().play(2, [Episode("a", 2, "new advice"), Episode("b", 2)])
    assert [reviewed.attempt for reviewed in again.critiques("round-3", standing)] == [Episode("b", 2)]
