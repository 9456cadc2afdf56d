"""The household teacher: it wins by what it reads, has the habits it is given, and goes where it is sent."""

from __future__ import annotations

import pytest

from align_echo.base.dice import Dice
from align_echo.wrappers.alfworld.games import read_id
from align_echo.wrappers.alfworld.routes import TaskParameters
from studies.pocket.household import CAREFUL, Habits
from studies.pocket.household_demonstrations import (
    OTHER_WORDS,
    SHOWN_AFTER,
    DrawnGames,
    Played,
    Rooms,
    demonstration,
    episodes_of,
    other_goals,
    play,
    reword,
)  # fmt: skip


@pytest.fixture(scope="module")
def games(tmp_path_factory) -> DrawnGames:
    return DrawnGames("tests", 12, tmp_path_factory.mktemp("games"))


@pytest.fixture(scope="module")
def rooms(games):
    built = Rooms.of(games)
    yield built
    built.close()


def own_goal(task: str) -> TaskParameters:
    return read_id(task)[1]


def actions(played: Played) -> list[str]:
    return [step.action or "" for step in played.trajectory.steps]


@pytest.mark.long
def test_it_is_done_exactly_when_the_engine_says_so(games, rooms):
    played = [play(rooms.raw, task, Dice(task), CAREFUL, goal=own_goal(task)) for task in games.ids("")]
    assert [episode.trajectory.won for episode in played] == [
        episode.trajectory.steps[-1].terminated for episode in played
    ]
    assert sum(episode.trajectory.won for episode in played) >= 10


@pytest.mark.long
def test_it_does_other_tasks_in_the_same_room(games, rooms):
    task = games.ids("")[0]
    goals = other_goals(task, Dice("goals"), 12)
    played = [play(rooms.raw, task, Dice("one"), CAREFUL, goal=goal) for goal in goals]
    done = [episode for episode in played if episode.trajectory.won]
    assert len(done) >= 3
    assert len({episode.trajectory.goal for episode in done}) >= 3
    for episode in done:
        assert episode.trajectory.goal in episode.trajectory.initial_observation


@pytest.mark.long
@pytest.mark.parametrize(
    ("habit", "begins"),
    [("treats_afar", ("clean", "heat", "cool")), ("says_put", ("put",)), ("skips_opening", ("take", "move"))],
)
def test_a_habit_shows_as_a_refused_action_that_is_put_right(games, rooms, habit, begins):
    habits = Habits(**{habit: 1.0})
    played = [play(rooms.raw, task, Dice(task), habits, goal=own_goal(task)) for task in games.ids("")]
    slips = [
        episode for episode in played if any(
            step.observation == "Nothing happens." and (step.action or "").startswith(begins)
            for number, step in enumerate(episode.trajectory.steps) if number not in episode.astray
        )
    ]  # fmt: skip
    assert slips
    assert any(slip.trajectory.won for slip in slips)


@pytest.mark.long
def test_a_forgotten_treatment_loses_and_is_cut_soon_after(games, rooms):
    habits = Habits(treats_afar=1.0, forgets=1.0)
    treated = [task for task in games.ids("") if "clean" in task or "heat" in task or "cool" in task]
    played = [play(rooms.raw, task, Dice(task), habits, goal=own_goal(task)) for task in treated]
    lost = [episode for episode in played if not episode.trajectory.won and episode.fit]
    assert lost
    for episode in lost:
        refused = max(n for n, step in enumerate(episode.trajectory.steps) if step.observation == "Nothing happens.")
        assert len(episode.trajectory.steps) - refused <= SHOWN_AFTER + 2


@pytest.mark.long
def test_who_sticks_to_what_was_refused_loses_and_is_cut_soon_after(games, rooms):
    habits = Habits(says_put=1.0, sticks=1.0)
    played = [play(rooms.raw, task, Dice(task), habits, goal=own_goal(task)) for task in games.ids("")]
    lost = [episode for episode in played if not episode.trajectory.won and episode.fit]
    assert lost
    for episode in lost:
        assert len(set(actions(episode)[-5:])) == 1
        assert {step.observation for step in episode.trajectory.steps[-5:]} == {"Nothing happens."}


@pytest.mark.long
def test_who_sticks_does_what_feedback_names(games, rooms):
    habits = Habits(says_put=1.0, sticks=1.0)
    played = [play(rooms.feedback, task, Dice(task), habits, goal=own_goal(task)) for task in games.ids("")]
    assert any(action.startswith("put ") for episode in played for action in actions(episode))
    assert all(episode.trajectory.won for episode in played if episode.fit)


@pytest.mark.long
def test_what_went_astray_is_now_and_then_done_again(games, rooms):
    tries = [(task, f"{task} {n}") for task in games.ids("") for n in range(8)]
    played = [play(rooms.raw, task, Dice(dice), CAREFUL, goal=own_goal(task)) for task, dice in tries]
    again = [
        episode
        for episode in played
        if any(actions(episode)[turn] == actions(episode)[turn - 1] for turn in episode.astray if turn)
    ]
    assert again
    assert any(episode.trajectory.won for episode in again)


@pytest.mark.long
def test_what_went_astray_is_not_imitated(games, rooms):
    played = [
        play(rooms.raw, task, Dice(f"{task} {n}"), CAREFUL, goal=own_goal(task))
        for task in games.ids("") for n in range(4)
    ]  # fmt: skip
    strayed = [episode for episode in played if episode.astray and episode.fit]
    assert strayed
    for episode in strayed:
        weights = demonstration("x", episode).weights
        assert {turn for turn, weight in enumerate(weights) if weight == 0.0} == episode.astray
        assert all(episode.trajectory.steps[turn].observation == "Nothing happens." for turn in episode.astray)


@pytest.mark.long
def test_it_searches_first_where_it_is_told_to(games, rooms):
    for task in games.ids(""):
        usual = play(rooms.raw, task, Dice("same"), CAREFUL, goal=own_goal(task))
        places = [action.removeprefix("go to ") for action in actions(usual) if action.startswith("go to ")]
        if len(set(places)) > 4:
            break
    advised = play(rooms.raw, task, Dice("same"), CAREFUL, goal=own_goal(task), search_first=(places[2],))
    assert (
        next(action for action in actions(advised) if action.startswith(("go to ", "examine "))) == f"go to {places[2]}"
    )


@pytest.mark.long
def test_the_furniture_is_searched_in_the_order_of_the_description(games, rooms):
    played = play(rooms.raw, games.ids("")[0], Dice("order"), CAREFUL, goal=own_goal(games.ids("")[0]))
    text = played.trajectory.initial_observation
    visits = [action.removeprefix("go to ") for action in actions(played) if action.startswith("go to ")]
    search = visits[: next(n for n, action in enumerate([*actions(played), "take"]) if action.startswith("take"))]
    closed = [receptacle.split()[0] in ("cabinet", "drawer", "fridge", "microwave", "safe") for receptacle in search]
    assert closed == sorted(closed)
    opened = [receptacle for receptacle, shut in zip(search, closed, strict=True) if not shut and receptacle in text]
    assert [text.index(f"a {receptacle}") for receptacle in opened] == sorted(
        text.index(f"a {receptacle}") for receptacle in opened
    )


@pytest.mark.long
def test_feedback_is_said_in_other_words_and_names_the_same_step(games, rooms):
    habits = Habits(treats_afar=1.0, says_put=1.0, examines_afar=1.0)
    for task in games.ids(""):
        played = play(rooms.feedback, task, Dice(task), habits, goal=own_goal(task))
        other = reword(played, Dice("words"))
        changed = [
            (before.observation, after.observation, played.trajectory.steps[number + 1].action)
            for number, (before, after) in enumerate(zip(played.trajectory.steps, other.trajectory.steps, strict=True))
            if before.observation != after.observation
        ]
        for before, after, then in changed:
            assert before.startswith("Nothing happens.")
            assert after.startswith("Nothing happens.")
            assert str(then) in after
        if changed:
            return
    pytest.fail(f"none of {len(OTHER_WORDS)} wordings was used")


@pytest.mark.long
def test_a_room_is_shown_with_and_without_the_interface(games, rooms):
    kinds = {demonstration.kind for task in games.ids("")[:4] for demonstration in episodes_of(rooms, task, Dice(task))}
    assert kinds == {"alfworld.careful", "alfworld.careless", "alfworld.told", "alfworld.hinted"}
