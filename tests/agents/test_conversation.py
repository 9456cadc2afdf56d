"""What all five agents of the paper have in common, whatever each asks of its model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from align_echo.agents.conversation import ChatAgent, HistoryBounds
from align_echo.errors import ModelError
from align_echo.models import ScriptedModel
from align_echo.prompts import prompt_hash
from align_echo.rollout.batches import run_episode
from align_echo.types import Completion, Described, Message, Usage
from tests.agents.views import FIVE, SPOKEN, VIEW, after
from tests.room_env import TASK_IDS, RoomEnv

by_kind = pytest.mark.parametrize("kind", FIVE, ids=lambda kind: kind.kind)


def answering(kind: type[ChatAgent], *actions: str) -> ScriptedModel:
    """A model that names the actions turn by turn, as the agent asks, and finds no fault with any."""

    def reply(messages: Sequence[Message]) -> str:
        if "Verdict: keep" in messages[-1].content:
            return "Fine.\nVerdict: keep"
        turn = (len(messages) - 2) // 2
        return SPOKEN[kind.kind].format(actions[turn])

    return ScriptedModel(reply)


@by_kind
def test_the_model_is_told_format_rules_task_and_history(kind: type[ChatAgent]) -> None:
    model = answering(kind, "look", "inventory")
    said = SPOKEN[kind.kind].format("look")
    reply = kind(model).act(after((said, "look", "A door.")))
    assert reply.action == "inventory"
    assert reply.problem == ""
    system, start, own, answer = model.requests[0]
    assert VIEW.action_format in system.content
    assert VIEW.rules in system.content
    assert start.content.startswith(VIEW.initial_observation)
    assert VIEW.goal in start.content
    assert (own.role, own.content) == ("assistant", said)
    assert (answer.role, answer.content) == ("user", "A door.")


@by_kind
def test_without_rules_none_are_announced(kind: type[ChatAgent]) -> None:
    model = answering(kind, "look")
    kind(model).act(VIEW.model_copy(update={"rules": ""}))
    assert "Rules of this environment" not in model.requests[0][0].content


@by_kind
def test_a_cut_reply_holds_no_action_and_says_why(kind: type[ChatAgent]) -> None:
    cut = Completion(text=SPOKEN[kind.kind].format("go to st"), finish_reason="length")
    reply = kind(ScriptedModel(lambda _: cut), max_tokens=7).act(VIEW)
    assert reply.action is None
    assert "cut off at 7 tokens" in reply.problem


@by_kind
def test_a_reply_without_an_action_is_told_to_the_agent_and_the_episode_goes_on(kind: type[ChatAgent]) -> None:
    model = ScriptedModel(lambda messages: "go to study\ndrop mug 1")
    trajectory = run_episode(RoomEnv(step_limit=2), kind(model), TASK_IDS[0], split="train")
    assert trajectory.fault is None
    assert trajectory.actions == (None, None)
    assert trajectory.steps[0].observation == f"Your reply held no action: {trajectory.steps[0].problem}"
    assert model.requests[-1][-2].content == "go to study\ndrop mug 1"


@by_kind
def test_an_empty_reply_is_no_crash(kind: type[ChatAgent]) -> None:
    model = ScriptedModel(lambda messages: "")
    trajectory = run_episode(RoomEnv(step_limit=2), kind(model), TASK_IDS[0], split="train")
    assert trajectory.actions == (None, None)
    assert model.requests[-1][-2].content == "(no reply)"


@by_kind
def test_a_model_that_breaks_is_a_fault_of_the_model(kind: type[ChatAgent]) -> None:
    with pytest.raises(ModelError, match="down"):
        kind(ScriptedModel([ModelError("down")])).act(VIEW)
    trajectory = run_episode(RoomEnv(), kind(ScriptedModel([ModelError("down")])), TASK_IDS[0], split="train")
    assert trajectory.fault is not None
    assert trajectory.fault.source == "model"


@by_kind
def test_an_episode_is_won_through_any_agent(kind: type[ChatAgent]) -> None:
    plan = ("take mug 1", "go to study", "drop mug 1")
    trajectory = run_episode(RoomEnv(), kind(answering(kind, *plan)), TASK_IDS[0], split="train")
    assert trajectory.won
    assert trajectory.actions == plan


@by_kind
def test_the_same_view_is_asked_about_in_the_same_words(kind: type[ChatAgent]) -> None:
    """Agents keep nothing between turns: a fork of an episode meets the agent as the episode did."""
    first, second = answering(kind, *["look"] * 3), answering(kind, *["look"] * 3)
    forked = kind(second)
    forked.act(VIEW)
    said = SPOKEN[kind.kind].format("look")
    kind(first).act(after((said, "look", "A door.")))
    forked.act(after((said, "look", "A door.")))
    assert second.requests[-len(first.requests) :] == first.requests


@by_kind
def test_an_action_carried_out_in_the_agents_place_looks_like_its_own(kind: type[ChatAgent]) -> None:
    model = answering(kind, "look", "inventory")
    kind(model).act(after(("look", "look", "A door.")))
    shown = model.requests[0][2].content
    assert shown == ("look" if kind.kind in ("vanilla", "self-consistency", "self-refine") else "Action: look")


@by_kind
def test_a_run_can_record_what_the_agent_is_made_of(kind: type[ChatAgent]) -> None:
    agent = kind(ScriptedModel([], name="some-model"), temperature=0.25, max_tokens=99)
    assert agent.name == f"{kind.kind}(some-model)"
    assert isinstance(agent, Described)
    record = agent.describe()
    assert (record["model.agent"], record["base_url.agent"]) == ("some-model", "")
    assert (record["temperature"], record["max_tokens"]) == ("0.25", "99")
    for name in ("shared/agent", "shared/start", *kind.prompts):
        assert record[f"prompt.{name}"] == prompt_hash(name)


@by_kind
def test_usage_is_that_of_all_calls_of_a_turn(kind: type[ChatAgent]) -> None:
    spent = Usage(prompt_tokens=10, completion_tokens=2, cost_usd=0.5)
    model = answering(kind, "look")

    def paid(messages: Sequence[Message]) -> Completion:
        answer = model.complete(messages, temperature=0.0)
        return answer.model_copy(update={"usage": spent})

    reply = kind(ScriptedModel(paid)).act(VIEW)
    calls = len(model.requests)
    assert calls == {"self-consistency": 5, "self-refine": 2}.get(kind.kind, 1)
    assert reply.usage == Usage(prompt_tokens=10 * calls, completion_tokens=2 * calls, cost_usd=0.5 * calls)


LONG = tuple((f"go to room {number}", f"go to room {number}", f"Room {number}. " + "x" * 60) for number in range(10))


@by_kind
def test_a_bounded_history_shows_the_opening_and_the_last_turns_and_says_so(kind: type[ChatAgent]) -> None:
    view = after(*LONG)
    shown = kind(ScriptedModel([])).with_history(HistoryBounds(turns=3)).conversation(view)
    whole = kind(ScriptedModel([])).conversation(view)
    assert [message.role for message in shown] == ["system", *["user", "assistant"] * 3, "user"]
    assert shown[0] == whole[0]
    gap = "\n\n[7 turns left out here; the last ones follow.]"
    assert shown[1].content.replace(gap, "") == whole[1].content != shown[1].content
    assert shown[2:] == whole[-6:]
    assert kind(ScriptedModel([])).with_history(HistoryBounds(turns=10)).conversation(view) == whole


@pytest.mark.parametrize(("tokens", "turns"), [(10, 1), (300, 0), (10_000, 10)])
def test_tokens_bound_a_history_and_the_last_turn_is_always_shown(tokens: int, turns: int) -> None:
    agent = FIVE[0](ScriptedModel([])).with_history(HistoryBounds(tokens=tokens))
    shown = agent.conversation(after(*LONG))
    size = len("".join(message.content for message in shown).encode())
    assert len(shown) == 2 + 2 * turns or (not turns and 4 < len(shown) < 22 and size < 3 * tokens + 60)


def test_bounds_of_a_history_are_on_record() -> None:
    bounded = FIVE[0](ScriptedModel([])).with_history(HistoryBounds(turns=3, tokens=900)).describe()
    assert (bounded["history_turns"], bounded["history_tokens"]) == ("3", "900")
    assert "history_turns" not in FIVE[0](ScriptedModel([])).describe()
