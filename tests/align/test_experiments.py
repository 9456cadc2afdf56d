"""The seven tools over a wrapped environment: what they show, and that misuse is answered in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.reasoning import Vanilla
from align_echo.align.experiments import OPERATIONS, FailedStep, Failure, Simulator, clip, trajectory_text
from align_echo.align.loop import TrainingSplit
from align_echo.errors import ModelError, RequestRejectedError
from align_echo.interface.contract import identity
from align_echo.models import ScriptedModel
from align_echo.models.drawing import Script
from align_echo.rollout.batches import run_episode
from align_echo.types import Message
from tests.align.room_world import BOOK, GOOD_CODE, HINT, MUG, SPEC
from tests.room_env import RoomEnv

IDENTITY = identity(SPEC.contract)
GOOD = IDENTITY.model_copy(update={"source": GOOD_CODE})


def simulator(script: Script = (), failures: Mapping[str, Failure] | None = None) -> Simulator:
    agent = Vanilla(ScriptedModel(script))
    make_env, form = TrainingSplit(SPEC).env, SPEC.action_format
    return Simulator(make_env, agent, IDENTITY, split="train", action_format=form, failures=failures or {})


def test_actions_are_carried_out_and_a_reset_undoes_them() -> None:
    sim = simulator()
    assert "You are in the kitchen. You see a mug 1." in sim.init_simulator(MUG).text
    assert sim.execute_agent_action("take mug 1").text == "Observation: You take the mug 1."
    assert "You are in the kitchen. You see a mug 1." in sim.reset_simulator().text
    assert sim.execute_agent_action("inventory").text == "Observation: You are not carrying anything."
    assert [outcome.number for outcome in sim.outcomes] == [1, 2, 3, 4]


def test_the_agent_is_asked_without_anything_being_done() -> None:
    sim = simulator(["take mug 1", "one\ntwo"])
    sim.init_simulator(MUG)
    assert sim.get_next_agent_action().text == "The agent's next action: take mug 1"
    assert "without an action" in sim.get_next_agent_action().text
    assert "not carrying" in sim.execute_agent_action("inventory").text


def test_a_changed_observation_reaches_the_agent_and_not_the_environment() -> None:
    model = ScriptedModel(["go to study"])
    sim = Simulator(TrainingSplit(SPEC).env, Vanilla(model), IDENTITY, split="train", action_format="")
    sim.init_simulator(BOOK)
    sim.execute_agent_action("take book 1")
    assert sim.change_last_action_observation("The book is in the study.").ok
    sim.get_next_agent_action()
    assert [message.content for message in model.requests[0][2:]] == ["take book 1", "The book is in the study."]
    assert "kitchen" in sim.execute_agent_action("look").text


def test_another_interface_can_be_put_to_the_test() -> None:
    sim = simulator()
    sim.init_simulator(BOOK)
    assert HINT not in sim.execute_agent_action("take book 1").text
    assert "Rules told to the agent:\nObjects can be taken" in sim.init_simulator(BOOK, GOOD).text
    text = sim.execute_agent_action("take book 1").text
    assert f"Observation: Nothing happens. {HINT}" in text
    assert "(the environment itself answered: Nothing happens.)" in text


def test_what_the_interface_logs_is_shown_with_the_action_it_belongs_to() -> None:
    chatty = GOOD_CODE.replace("    text = obs[0]\n", '    text = obs[0]\n    logger.debug("saw " + text)\n')
    sim = simulator()
    sim.init_simulator(MUG, IDENTITY.model_copy(update={"source": chatty}))
    sim.execute_agent_action("look")
    text = sim.execute_agent_action("take mug 1").text
    assert text == "Observation: You take the mug 1.\n(logged by the interface: saw You take the mug 1.)"


def test_a_whole_task_is_played_and_told() -> None:
    sim = simulator(["take mug 1", "go to study", "drop mug 1"])
    text = sim.run_task(MUG).text
    assert "[2] Action: go to study\nObservation: You arrive" in text
    assert text.endswith("The task was won after 3 actions.")
    assert not sim.execute_agent_action("look").ok
    assert sim.reset_simulator().ok
    assert sim.execute_agent_action("look").ok


FAILED = [
    FailedStep("look", "look"),
    FailedStep("hm\nwell", None, "two lines"),
    FailedStep("I go.\nAction: go to study", "go to study"),
    FailedStep("take book 1", "take book 1"),
    FailedStep("look", "look"),
    FailedStep("drop book 1", "drop book 1"),
]


def test_the_agent_is_put_where_it_failed() -> None:
    asked: list[Sequence[Message]] = []

    def script(messages: Sequence[Message]) -> str:
        asked.append(messages)
        return "go to kitchen"

    sim = simulator(script, {BOOK: FAILED})
    text = sim.go_to_failure(f"{BOOK} 5").text
    assert text.startswith(f"Task {BOOK} begins.")
    assert "[... steps before 2 ...]\n[2] Action: (no action) hm\nwell\nObservation: Your reply held no action" in text
    assert "[4] Action: take book 1\nObservation: You take the book 1." in text
    assert text.endswith("Step 5 of the failed episode comes next. The agent's action there was: look")
    assert sim.execute_agent_action("inventory").text == "Observation: You are carrying: a book 1."
    sim.go_to_failure(f"{BOOK} 5")
    assert sim.get_next_agent_action().text == "The agent's next action: go to kitchen"
    said = [message.content for message in asked[0] if message.role == "assistant"]
    assert said == [step.text for step in FAILED[:4]], "the agent reads its own replies"


@pytest.mark.parametrize("place", [f"{BOOK} 3", f"{BOOK}, step 3", f"{BOOK} [3]", f"{BOOK}: step 3"])
def test_a_step_is_named_in_many_ways(place: str) -> None:
    assert "Step 3 of the failed episode" in simulator(failures={BOOK: FAILED}).perform("go_to_failure", place).text


def test_without_a_number_it_is_the_last_known_step_and_unknown_places_are_named() -> None:
    sim = simulator(failures={BOOK: FAILED[:2]})
    assert sim.go_to_failure(BOOK).text.endswith("comes next. The agent's reply there was: hm\nwell")
    for place, told in ((f"{BOOK} 3", "has steps 1 to 2, not 3"), (MUG, f"is known, of: {BOOK};")):
        outcome = sim.go_to_failure(place)
        assert not outcome.ok
        assert told in outcome.text


def test_a_replay_that_ends_early_says_so() -> None:
    actions = ("take mug 1", "go to study", "drop mug 1", "look", "look")
    sim = simulator(failures={MUG: [FailedStep(action, action) for action in actions]})
    assert sim.go_to_failure(MUG).text.endswith("(the task is won)\nThe replay ended after step 3.")
    assert "the task is won" in sim.execute_agent_action("look").text


def test_after_the_end_nothing_more_is_carried_out() -> None:
    sim = simulator()
    sim.init_simulator(MUG)
    for action in ("take mug 1", "go to study"):
        sim.execute_agent_action(action)
    assert "the task is won" in sim.execute_agent_action("drop mug 1").text
    late = sim.execute_agent_action("look")
    assert not late.ok
    assert "the task is won; call reset_simulator" in late.text


def test_the_step_limit_ends_an_episode() -> None:
    sim = simulator()
    sim.init_simulator(MUG)
    texts = [sim.execute_agent_action("look").text for _ in range(6)]
    assert "the episode is over and the task is not won" in texts[-1]


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "init_simulator"])
def test_before_a_task_is_started_one_is_asked_for(operation: str) -> None:
    outcome = simulator().perform(operation, "x" if operation != "run_task" else "")
    assert not outcome.ok
    assert "init_simulator" in outcome.text


@pytest.mark.long
@given(st.lists(st.tuples(st.one_of(st.sampled_from(OPERATIONS), st.text()), st.sampled_from([MUG, BOOK, "", "look"]))))
def test_no_use_of_the_tools_raises(moves: list[tuple[str, str]]) -> None:
    sim = simulator(lambda messages: "look")
    try:
        for operation, argument in moves:
            assert sim.perform(operation, argument).text
    finally:
        sim.close()
    assert [outcome.number for outcome in sim.outcomes] == list(range(1, len(moves) + 1))


def test_a_refused_request_of_the_agent_is_an_outcome_and_a_dead_endpoint_is_not() -> None:
    sim = simulator([RequestRejectedError("too long"), ModelError("down"), ModelError("down"), ModelError("down")])
    sim.init_simulator(MUG)
    assert "too long" in sim.get_next_agent_action().text
    with pytest.raises(ModelError, match="down"):
        sim.get_next_agent_action()
    with pytest.raises(ModelError, match="down"):
        sim.run_task(MUG)


def test_a_long_episode_is_told_within_its_bounds() -> None:
    agent = Vanilla(ScriptedModel(lambda messages: ("look", "inventory")[len(messages) // 2 % 2]))
    trajectory = run_episode(RoomEnv(step_limit=100), agent, MUG, split="train")
    text = trajectory_text(trajectory, 1000)
    assert len(text) < 1200
    assert text.startswith("Initial observation: You are in the kitchen.")
    assert text.endswith("The task was not won after 100 actions.")
    assert "left out" in text


@given(st.text(), st.integers(2, 50))
def test_clipping_keeps_both_ends(text: str, limit: int) -> None:
    cut = clip(text, limit)
    if len(text) <= limit:
        assert cut == text
    else:
        assert cut.startswith(text[: limit // 2])
        assert cut.endswith(text[-(limit // 2) :])
        assert len(cut) <= limit + 60


@pytest.mark.parametrize(("limit", "expected"), [(None, 2), (1, 1), (2, 2), (9, 2)])
def test_a_limit_on_training_tasks(limit: int | None, expected: int) -> None:
    assert len(TrainingSplit(SPEC).tasks(1, 0, limit)) == expected
