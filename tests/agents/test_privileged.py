"""The ceiling and the floor: they follow the episode that they are shown, whatever order they are asked in."""

from __future__ import annotations

import dataclasses

import pytest

from align_echo.agents.catalogue import agent_spec
from align_echo.agents.players import build_agent
from align_echo.agents.privileged import expert, random_choice
from align_echo.agents.spec import AgentSetting
from align_echo.errors import UsageError
from align_echo.rollout.batches import run_episode
from align_echo.rollout.session import extend, start_view, take_turn
from align_echo.types import AgentReply
from align_echo.wrappers.text_env import ActionOptions, EngineState
from tests.align.room_world import SPEC
from tests.room_env import TASK_IDS, RoomEnv


def make() -> RoomEnv:
    return RoomEnv(step_limit=10**9)


def test_the_expert_wins_what_its_oracle_can_win():
    trajectory = run_episode(RoomEnv(), expert(make), TASK_IDS[0], split="train")
    assert trajectory.won
    assert trajectory.actions == ("take mug 1", "go to study", "drop mug 1")


def test_an_episode_can_be_forked_and_taken_up_in_any_order():
    env, agent = RoomEnv(), expert(make)
    start = start_view(env, TASK_IDS[0], "", 0)
    after = extend(start, take_turn(env, AgentReply(text="", action="take mug 1")))
    nothing = extend(start, take_turn(env, AgentReply(text="", action=None)))
    assert [agent.act(view).action for view in (after, start, nothing, after)] == [
        *("go to study", "take mug 1", "take mug 1", "go to study")
    ]


def test_chance_takes_what_the_engine_accepts_and_repeats_itself_by_seed():
    runs = [run_episode(RoomEnv(), random_choice(make, seed=seed), TASK_IDS[1], split="train") for seed in (0, 0, 1)]
    assert runs[0].actions == runs[1].actions != runs[2].actions
    assert all("Nothing happens" not in step.observation for run in runs for step in run.steps)


class UnlistedRoom(RoomEnv):
    """The rooms without a list of admissible actions, and with forms and names instead."""

    def _act(self, action: str) -> EngineState:
        return dataclasses.replace(super()._act(action), admissible_actions=None)

    def _load(self, task_id: str) -> EngineState:
        return dataclasses.replace(super()._load(task_id), admissible_actions=None)

    def offered(self) -> ActionOptions | None:
        return ActionOptions(("look", "take {0}", "show {0} to {1}"), ("mug 1", "book 1"))


def test_where_nothing_is_listed_chance_fills_the_forms_that_are_offered():
    agent = random_choice(lambda: UnlistedRoom(step_limit=10**9))
    drawn = set(run_episode(UnlistedRoom(step_limit=60), agent, TASK_IDS[1], split="train").actions)
    assert {"look", "take mug 1", "take book 1", "show mug 1 to book 1"} <= drawn
    assert not any("{" in str(action) for action in drawn)


class NothingListed(UnlistedRoom):
    """Neither actions nor forms."""

    options: ActionOptions | None = None

    def offered(self) -> ActionOptions | None:
        return self.options


class NoForms(NothingListed):
    """Offers names without a form."""

    options = ActionOptions((), ("mug 1",))


class EmptyList(NothingListed):
    """A list in which nothing stands."""

    def _load(self, task_id: str) -> EngineState:
        return dataclasses.replace(super()._load(task_id), admissible_actions=())


@pytest.mark.parametrize("room", [NothingListed, NoForms, EmptyList])
def test_chance_with_nothing_to_draw_from_is_refused_before_it_plays(room: type[RoomEnv]):
    spec = dataclasses.replace(SPEC, make_env=lambda **given: room(step_limit=9))
    with pytest.raises(UsageError, match="room lists no actions, so the agent random has none to draw from"):
        build_agent(agent_spec("random"), AgentSetting(spec, "train"))
    offering = dataclasses.replace(SPEC, make_env=lambda **given: UnlistedRoom(step_limit=9))
    assert build_agent(agent_spec("random"), AgentSetting(offering, "train")).name == "random"


def test_an_expert_at_a_loss_looks():
    env, agent = RoomEnv(), expert(make)
    start = start_view(env, TASK_IDS[0], "", 0)
    won = [AgentReply(text="", action=action) for action in ("take mug 1", "go to study", "drop mug 1")]
    view = start
    for reply in won:
        view = extend(view, take_turn(env, reply))
    assert agent.act(view).action == "look"
