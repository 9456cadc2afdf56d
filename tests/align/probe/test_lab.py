"""The laboratory where an engine lists nothing: equal states of the engine are known as such, and tried once."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import pytest

from align_echo.align.probe.lab import Lab, LabState, saved_key
from align_echo.align.probe.names import ActionForms
from align_echo.interface.rules.answers import SAME
from align_echo.wrappers.plain import TextEnvironment
from align_echo.wrappers.text_env import TextEnv
from tests.doors import REFUSED as DOORS_REFUSED
from tests.doors import Doors
from tests.station_env import REFUSED, TASK_IDS, StationEnv

ENDLESS = 10**6
FORMS = ("board {0}", "unseal {0}", "seal {0}", "fetch {0} out {1}", "stow {0} into {1}")


class Mute(StationEnv):
    def _answer(self, observation: str):
        return dataclasses.replace(super()._answer(observation), admissible_actions=None)


class Silent(Mute):
    """A refused action gives the last observation again."""

    def _answer(self, observation: str):
        said = self.state.observation if observation == REFUSED else observation
        return super()._answer(said)


class Counting(Mute):
    """Its saved states are never equal: they hold how many actions came."""

    count = 0

    def _act(self, action: str):
        self.count += 1
        return super()._act(action)

    def _save(self):
        return (self.count, *super()._save())

    def _restore(self, task_id, saved):
        self.count = saved[0]
        super()._restore(task_id, saved[1:])


class Placed(StationEnv):
    """Lists its actions, tells where it stands, and counts what it is asked; saved states are never equal."""

    asked = 0

    def _act(self, action: str):
        self.asked += 1
        return super()._act(action)

    def _save(self):
        return (self.asked, *super()._save())

    def _restore(self, task_id, saved):
        super()._restore(task_id, saved[1:])

    def position(self):
        return saved_key(super()._save())


def lab_of(env: StationEnv, *refusals: str) -> Lab:
    lab = Lab(env)
    lab.sayings, lab.refusals = ActionForms(FORMS, None), list(refusals)
    lab.compare_saved(lab.start(TASK_IDS[0]))
    return lab


def test_equal_states_are_known_by_whatever_way_they_were_reached():
    lab = lab_of(Mute(ENDLESS), REFUSED)
    one_way = lab.follow(TASK_IDS[0], ["board deck 2", "unseal pod 2", "board deck 1", "unseal pod 1"])
    other = ["board deck 1", "unseal pod 1", "board deck 2", "unseal pod 2", "board deck 1"]
    other_way = lab.follow(TASK_IDS[0], other)
    assert lab.comparable
    assert lab.key(one_way) == lab.key(other_way)
    assert lab.key(one_way) != lab.key(lab.follow(TASK_IDS[0], ["board deck 1", "unseal pod 1"]))


def test_what_was_tried_in_a_state_is_not_tried_again_in_an_equal_one():
    lab = lab_of(Mute(ENDLESS), REFUSED)
    there = lab.follow(TASK_IDS[0], ["board deck 2", "unseal pod 2"])
    assert "seal pod 2" in there.admissible
    back = lab.follow(TASK_IDS[0], ["board deck 2", "unseal pod 2", "seal pod 2", "unseal pod 2"])
    steps = lab.steps
    assert back.admissible == there.admissible
    assert lab.steps == steps


def test_it_is_tried_again_in_states_that_are_never_equal():
    lab = lab_of(Counting(ENDLESS), REFUSED)
    there = lab.follow(TASK_IDS[0], ["board deck 2", "unseal pod 2"])
    assert "seal pod 2" in there.admissible
    back = lab.follow(TASK_IDS[0], ["board deck 2", "unseal pod 2", "seal pod 2", "unseal pod 2"])
    steps = lab.steps
    assert back.admissible == there.admissible
    assert lab.steps > steps


@pytest.mark.parametrize(("further", "again"), [(["unseal pod 2", "seal pod 2"], True), (["board deck 2"], False)])
def test_where_refusals_are_silent_it_is_tried_again_after_another_text(further: list[str], again: bool):
    lab = lab_of(Silent(ENDLESS), SAME)
    there = lab.follow(TASK_IDS[0], ["board deck 2"])
    assert "unseal pod 2" in there.admissible
    back = lab.follow(TASK_IDS[0], ["board deck 2", *further])
    steps = lab.steps
    assert back.admissible == there.admissible
    assert (lab.steps > steps) is again


def test_states_that_allow_the_same_are_not_the_same_if_the_engine_saves_them_differently():
    lab = Lab(StationEnv(ENDLESS))
    start = lab.start(TASK_IDS[0])
    lab.compare_saved(start)
    pod = next(pod for pod in (2, 3, 4, 5) if "fetch" in " ".join(opened(lab, pod).admissible))
    gem = next(action for action in opened(lab, pod).admissible if action.startswith("fetch")).split()[2]
    other = 2 if pod != 2 else 3
    there = [f"board deck {other}", f"unseal pod {other}", f"seal pod {other}"]
    moved = [*there[:2], f"stow gem {gem} into pod {other}", there[2]]
    closed = [f"board deck {pod}", f"unseal pod {pod}", f"seal pod {pod}"]
    taken = [*closed[:2], f"fetch gem {gem} out pod {pod}", closed[2]]
    before = lab.follow(TASK_IDS[0], [*closed, *there])
    after = lab.follow(TASK_IDS[0], [*taken, *moved])
    assert before.admissible == after.admissible
    assert not lab.same(before, after)
    assert lab.same(before, lab.follow(TASK_IDS[0], [*closed, *there, "scan"]))


def test_at_a_position_that_is_known_the_engine_is_not_asked_again_and_its_answers_are_the_same():
    env = Placed(ENDLESS)
    plain, placed = Lab(StationEnv(ENDLESS)), Lab(env)
    placed.compare_saved(placed.start(TASK_IDS[0]))
    asked = env.asked
    ways = [["board deck 2", "board deck 3"], ["board deck 3", "board deck 2", "board deck 3", "unseal pod 3", "scan"]]
    ways += [["board deck 3", "unseal pod 3", "scan", "seal pod 9", "board deck 2"]]
    for way in ways:
        mine: LabState | None = placed.follow(TASK_IDS[0], way)
        theirs: LabState | None = plain.follow(TASK_IDS[0], way)
        while mine and theirs:
            assert (mine.actions, mine.observation, mine.over) == (theirs.actions, theirs.observation, theirs.over)
            assert mine.admissible == theirs.admissible
            assert placed.look(mine, "scan") == plain.look(theirs, "scan")
            mine, theirs = mine.parent, theirs.parent
    assert placed.steps == plain.steps == 11
    assert env.asked - asked == 8


def opened(lab: Lab, pod: int):
    return lab.follow(TASK_IDS[0], [f"board deck {pod}", f"unseal pod {pod}"])


LIMITED = TextEnvironment(lambda: gym.wrappers.TimeLimit(Doors(), 3), return_range=(-4.0, 2.0))


def test_an_episode_that_the_environments_own_time_limit_ends_is_over():
    env = LIMITED.spec("limited").make("train", step_limit=ENDLESS)
    assert isinstance(env, TextEnv)
    lab = Lab(env)
    state = lab.follow("0", ["knock"] * 9)
    assert (state.over, len(state.actions)) == (True, 3)
    assert not lab.takes(state, "knock")
    assert lab.possible(state, ["door"]) == []


def test_refused_trials_do_not_use_up_the_environments_own_time_limit():
    """What is refused is not undone, but the environment counts it: the limit is met by trials, not by a state."""
    env = LIMITED.spec("limited").make("train", step_limit=ENDLESS)
    assert isinstance(env, TextEnv)
    lab = Lab(env)
    lab.sayings, lab.refusals = ActionForms(("open {0}",), None), [DOORS_REFUSED]
    start = lab.start("0")
    assert [lab.takes(start, f"open the {number} door") for number in range(9)] == [False] * 9
    right = "open red" if "red one leads" in start.observation else "open green"
    assert lab.takes(start, right)
    lab.traceless = frozenset({DOORS_REFUSED})
    assert not any(lab.after(start, f"knock {number}").over for number in range(9))


class Fragile(Doors):
    """Doors that break at an action that nobody thought of."""

    def step(self, action: str):
        if action == "open {}":
            raise TypeError("unhashable door")
        return super().step(action)


def test_a_trial_that_breaks_the_engine_is_an_end_that_says_nothing_and_the_next_goes_on():
    env = TextEnvironment(Fragile, return_range=(-4.0, 2.0)).spec("fragile").make("train", step_limit=ENDLESS)
    assert isinstance(env, TextEnv)
    lab = Lab(env)
    start = lab.start("0")
    broken = lab.after(start, "open {}")
    assert (broken.over, broken.observation, lab.takes(broken, "knock")) == (True, "", False)
    assert not lab.after(start, "knock").over
    assert "unhashable door" in lab.broken["open {}"]
