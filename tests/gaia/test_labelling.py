"""Labels of candidates, on the real engine: those sent and those not, and episodes that do not come out again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import pytest

import align_echo
from align_echo.critic.labels import label, label_rules, label_turns
from align_echo.errors import EngineError
from align_echo.gaia.examples import (
    LabelledAction,
    LabelledEpisode,
    build_examples,
    label_episode,
    proposed_actions,
    turn_candidates,
)
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentReply, AgentView, Candidate, Choice, Fault, Message, Tokens, Trajectory
from align_echo.wrappers.catalogue import environment
from tests.critic.episodes import played, way

RULES: tuple[str, ...] = ("expert", "nearer")
BATS = "train/look_at_obj_in_light-BaseballBat-None-DeskLamp-327/trial_G1_016"


@pytest.fixture(scope="module")
def env() -> Iterator[gym.Env[str, str]]:
    made = align_echo.make("alfworld")
    yield made
    made.close()


class Proposing:
    """Proposes given actions in each turn, of which the first is sent; then stops being asked."""

    name = "proposing"

    def __init__(self, turns: Sequence[Sequence[str | None]]) -> None:
        self._turns = turns

    def act(self, view: AgentView) -> AgentReply:
        actions = self._turns[min(len(view.turns), len(self._turns) - 1)]
        drawn = tuple(Candidate(action=action, logprob=-float(index)) for index, action in enumerate(actions))
        problem = "" if actions[0] else "no action"
        return AgentReply(text=str(actions[0]), action=actions[0], problem=problem,
                          choice=Choice(candidates=drawn, taken=0))


def episode(env: gym.Env[str, str], *turns: Sequence[str | None]) -> Trajectory:
    """The first turns of an episode."""
    found = run_episode(env, Proposing(turns), BATS, split="train")
    return found.model_copy(update={"steps": found.steps[: len(turns)]})


def chat(view: AgentView) -> list[Message]:
    return [Message(role="user", content=f"turn {len(view.turns)}")]


def test_what_was_not_sent_is_labelled_in_the_state_in_which_it_was_proposed(env):
    played(env, BATS)
    first, second, *_ = way(env)
    trajectory = episode(env, [first, "look", first, None], ["look", second, "dance"])
    labelled = label_episode(env, trajectory, RULES)
    view = played(env, BATS)
    actions = [[action.action for action in turn] for turn in labelled.turns]
    assert actions == [[first, "look"], ["look", second, "dance"]]
    for action in labelled.turns[0]:
        assert action.nearer == label(env, view, action.action, "nearer")
        assert action.expert == label(env, view, action.action, "expert")
    assert [action.nearer for action in labelled.turns[0]] == ["correct", "wrong"]
    assert [action.nearer for action in labelled.turns[1]] == ["wrong", "correct", "wrong"]
    assert {action.continues for turn in labelled.turns for action in turn} == {None}
    assert labelled.belongs_to(trajectory)


def test_a_turn_in_which_no_reply_held_an_action_has_no_labels_and_the_next_has(env):
    labelled = label_episode(env, episode(env, [None, None], ["look"]), RULES)
    assert [len(turn) for turn in labelled.turns] == [0, 1]


def test_an_episode_that_does_not_come_out_again_has_no_labels_from_there_on(env):
    trajectory = episode(env, ["look", "inventory"], ["inventory", "look"], ["look"])
    other = trajectory.steps[1].model_copy(update={"observation": "You carry a unicorn."})
    steps = (trajectory.steps[0], other, trajectory.steps[2])
    labelled = label_episode(env, trajectory.model_copy(update={"steps": steps}), RULES)
    assert [len(turn) for turn in labelled.turns] == [2, 0, 0]


def test_an_episode_that_begins_otherwise_has_no_labels(env):
    trajectory = episode(env, ["look"], ["look"])
    other = trajectory.model_copy(update={"initial_observation": "You are at sea."})
    assert [len(turn) for turn in label_episode(env, other, RULES).turns] == [0, 0]
    assert label_turns(env, other, "nearer") == [None, None]


class Breaking(gym.Wrapper[str, str, str, str]):
    """An engine that breaks in some of its turns, counted from 1 over all episodes."""

    def __init__(self, env: gym.Env[str, str], turns: Sequence[int]) -> None:
        super().__init__(env)
        self._left = iter(turns)
        self._next = next(self._left)
        self._turns = 0

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        self._turns += 1
        if self._turns == self._next:
            self._next = next(self._left, 0)
            raise EngineError("the engine is gone")
        return super().step(action)


@pytest.mark.parametrize(("breaks", "labels"), [([2], [1, 1, 1]), ([2, 4], [1, 0, 0]), ([3, 4], [1, 1, 0])])
def test_an_episode_that_breaks_the_engine_twice_has_no_labels_from_there_on(env, breaks, labels):
    trajectory = episode(env, ["look"], ["look"], ["look"])
    assert [len(turn) for turn in label_episode(Breaking(env, breaks), trajectory, RULES).turns] == labels


def test_a_broken_episode_gives_no_example(env):
    trajectory = episode(env, ["look", "inventory"])
    labelled = label_episode(env, trajectory, RULES)
    fault = Fault(source="model", error="ModelError", message="gone")
    assert len(build_examples(trajectory, labelled, chat, action_format="")) == 2
    assert build_examples(trajectory.model_copy(update={"fault": fault}), labelled, chat, action_format="") == []


def test_an_example_says_what_was_read_before_it_how_often_it_was_drawn_and_whether_it_was_sent(env):
    trajectory = episode(env, ["look"], ["look", "inventory", "look"])
    made = build_examples(
        trajectory, label_episode(env, trajectory, RULES), chat, action_format="", weights="w", number=3
    )
    rows = [
        (example.turn, example.messages[0].content, example.action, example.drawn, example.sent, example.logprob)
        for example in made
    ]
    assert rows == [
        (0, "turn 0", "look", 1, True, 0.0),
        (1, "turn 1", "look", 2, True, 0.0),
        (1, "turn 1", "inventory", 1, False, -1.0),
    ]
    facts = {(example.task_id, example.weights, example.round, example.continues) for example in made}
    assert facts == {(BATS, "w", 3, None)}


def test_labels_belong_to_the_episode_whose_candidates_they_name(env):
    trajectory = episode(env, ["look", "inventory"])
    turns = ((LabelledAction(action="look"), LabelledAction(action="inventory")),)
    labelled = LabelledEpisode(task_id=BATS, sample=0, turns=turns)
    assert labelled.belongs_to(trajectory)
    assert LabelledEpisode(task_id=BATS, sample=0, turns=((),)).belongs_to(trajectory)
    for change in ({"sample": 1}, {"task_id": "x"}, {"turns": ()}, {"turns": (turns[0][:1],)}):
        assert not labelled.model_copy(update=change).belongs_to(trajectory)


def test_a_reply_that_was_not_chosen_among_several_is_its_own_only_candidate(env):
    (step,) = episode(env, ["look"]).steps
    single = step.model_copy(
        update={"choice": None, "tokens": Tokens(context_ids=(1,), sampled_ids=(2, 3), logprobs=(-0.5, -1.0))}
    )
    assert turn_candidates(single) == (Candidate(action="look", logprob=-1.5),)
    assert proposed_actions(single) == ["look"]


def test_an_environment_without_distances_is_labelled_by_trying():
    rules = [label_rules(environment(name)) for name in ("alfworld", "scienceworld")]
    assert rules == [("expert", "nearer"), ("expert", "continues")]
