"""The preset align-paper: each of its settings where it acts, and what a run keeps of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from align_echo.agents.catalogue import agent_spec
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.players import build_agent, chat_agents, choose_agent, choose_preset, choose_turns
from align_echo.agents.presets import ALIGN_PAPER, EpisodeRules, agent_preset
from align_echo.agents.reasoning import SelfRefine, Vanilla
from align_echo.agents.spec import AgentSetting
from align_echo.critic.best_of import BestOf
from align_echo.errors import UsageError
from align_echo.models import ScriptedModel
from align_echo.rollout.batches import replay, run_episode, view_before
from align_echo.rollout.session import Episode
from align_echo.types import Completion, Message, Usage
from align_echo.wrappers.catalogue import environment
from tests.agents.views import VIEW, after
from tests.room_env import TASK_IDS, RoomEnv

BOOK = TASK_IDS[1]


class Recorder:
    """Answers from a list, its last reply for ever, and keeps how it was asked."""

    name = "recorder"

    def __init__(self, *replies: str | Completion) -> None:
        self.replies = replies
        self.asked: list[tuple[tuple[Message, ...], float, int]] = []

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        reply = self.replies[min(len(self.asked), len(self.replies) - 1)]
        self.asked.append((tuple(messages), temperature, max_tokens))
        return reply if isinstance(reply, Completion) else Completion(text=reply, usage=Usage(completion_tokens=1))


def made(name: str, model: Recorder, env: str = "alfworld", **given: float) -> ChatAgent:
    setting = AgentSetting(environment(env), "train", model=model, preset=ALIGN_PAPER, **given)  # type: ignore[arg-type]
    agent = build_agent(agent_spec(name), setting)
    assert isinstance(agent, ChatAgent)
    return agent


CALLS = [("vanilla", 1, 0.0), ("react", 1, 0.0), ("self-refine", 2, 0.0), ("planning", 2, 0.0)]


@pytest.mark.parametrize(("name", "calls", "temperature"), [*CALLS, ("self-consistency", 3, 0.3)])
def test_each_agent_asks_as_often_so_warm_and_for_as_many_tokens_as_in_the_public_code(name, calls, temperature):
    model = Recorder("look")
    reply = made(name, model).act(VIEW)
    assert [(warmth, tokens) for _, warmth, tokens in model.asked] == [(temperature, 1024)] * calls
    assert reply.action == "look"
    assert reply.usage.completion_tokens == calls


def test_the_preset_knows_the_five_agents_that_ask_a_model():
    assert sorted(ALIGN_PAPER.options) == sorted(chat_agents())


@pytest.mark.parametrize("name", ["vanilla", "self-consistency", "self-refine", "planning"])
@pytest.mark.parametrize("said", ["I will look around.\n\nlook", "**Go To the study**", "", "<think>hm</think>look"])
def test_a_reply_is_sent_as_it_is(name, said):
    reply = made(name, Recorder(said)).act(VIEW)
    assert (reply.action, reply.problem, reply.verbatim) == (said, "", True)


def test_a_reply_that_was_cut_off_is_sent_too():
    reply = made("vanilla", Recorder(Completion(text="go to st", finish_reason="length"))).act(VIEW)
    assert (reply.action, reply.cut_off, reply.problem) == ("go to st", True, "")


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("Thought: hm\nAction: go to study", "go to study"),
        ("Action: look\nAction: go to study", "look"),
        ("Action:\nlook\nand wait", "look\nand wait"),
        ("I go to the study", "I go to the study"),
        ("Action:", ""),
    ],
)
def test_react_sends_what_stands_behind_its_first_label(said, sent):
    agent = made("react", Recorder(said))
    assert agent.act(VIEW).action == sent
    chat = agent.conversation(after((said, sent, "Nothing happens.")))
    assert chat[2].content == said


def test_labels_that_are_the_environments_own_are_sent_with_it():
    view = VIEW.model_copy(update={"action_format": "Action: {call} End Action | Answer: {answer}"})
    for said, sent in {
        "Thought: x\nAction: add, 1 End Action": "Action: add, 1 End Action",
        "Thought: x\nAction: Action: add, 1 End Action": "Action: add, 1 End Action",
        "Thought: x\nAnswer: 3": "Answer: 3",
        "Action: Answer: 3": "Answer: 3",
    }.items():
        assert made("react", Recorder(said), env="m3tooleval").act(view).action == sent


def test_votes_are_over_whole_replies_and_a_tie_goes_to_the_first():
    assert made("self-consistency", Recorder("look", "go", "look")).act(VIEW).action == "look"
    assert made("self-consistency", Recorder("a\nb", "Look", "look")).act(VIEW).action == "a\nb"


def test_one_review_names_the_action_and_the_history_shows_it_alone():
    model = Recorder("look", "Thought: the mug is elsewhere\nFinal Action: go to study")
    agent = made("self-refine", model)
    reply = agent.act(VIEW)
    assert reply.action == "go to study"
    first, second = (messages for messages, _, _ in model.asked)
    assert [message.role for message in second[len(first) :]] == ["assistant", "user"]
    assert second[len(first)].content == "look"
    assert "Final Action:" in second[-1].content
    assert agent.conversation(after((reply.text, reply.action, "You arrive.")))[2].content == "go to study"


@pytest.mark.parametrize(
    ("review", "sent"),
    [("Action: a\nFinal Action: b", "b"), ("I keep it.", "I keep it."), ("Final Action: go\nto study", "go\nto study")],
)
def test_a_review_without_a_label_is_sent_whole(review, sent):
    assert made("self-refine", Recorder("look", review)).act(VIEW).action == sent


def test_a_review_that_names_the_action_can_be_read_strictly_too():
    agent = SelfRefine(ScriptedModel(["look", "Thought: hm\nFinal Action: go to study"]), review="final-action")
    assert agent.act(VIEW).action == "go to study"
    other = SelfRefine(ScriptedModel(["look", "I am not sure. Maybe."]), review="final-action").act(VIEW)
    assert (other.action, bool(other.problem)) == (None, True)
    with pytest.raises(UsageError, match="a review is one of verdict, final-action, not 'twice'"):
        SelfRefine(ScriptedModel([]), review="twice")  # type: ignore[arg-type]


def test_the_plan_is_one_call_before_the_first_action_and_stays_in_the_history():
    model = Recorder("Plan: find it, bring it", "look", "go to study")
    agent = made("planning", model)
    played = run_episode(RoomEnv(step_limit=2), agent, BOOK, split="train")
    assert [step.action for step in played.steps] == ["look", "go to study"]
    asking, first, second = (messages for messages, _, _ in model.asked)
    assert len(asking) == 2
    assert asking[-1].content.endswith("Plan: the plan")
    assert [message.content for message in first[2:3]] == ["Plan: find it, bring it"]
    assert second[: len(first)] == first
    assert second[len(first)].content == "look"
    assert "find it, bring it" in played.steps[0].reply
    assert list(second) == agent.conversation(view_before(played, 1, ""))


def test_a_plan_that_looks_like_a_record_is_no_trouble():
    model = Recorder("a\n[reply]\nb", "look\n[reply]\nx", "look")
    agent = made("planning", model)
    played = run_episode(RoomEnv(step_limit=2), agent, BOOK, split="train")
    assert played.steps[0].action == "look\n[reply]\nx"
    assert model.asked[2][0][4].content == "look\n[reply]\nx"
    assert len(model.asked) == 3


class Own(Vanilla):
    """Somebody's own chat agent."""


# ---------------------------------------------------------------- the episode


def test_an_episode_ends_after_seven_repeats_of_an_action():
    played = run_episode(RoomEnv(step_limit=100), made("vanilla", Recorder("look")), BOOK, split="train")
    assert (len(played.steps), played.ended_by_repeats, played.truncated, played.fault) == (8, True, True, None)
    assert not played.steps[-1].truncated


def test_another_action_between_begins_the_count_anew():
    replies = ["look"] * 7 + ["inventory"] + ["look"] * 8
    played = run_episode(RoomEnv(step_limit=100), made("vanilla", Recorder(*replies)), BOOK, split="train")
    assert (len(played.steps), played.ended_by_repeats) == (16, True)


def test_replies_without_an_action_are_no_repeats_of_one():
    rules = EpisodeRules("mine", repeat_limit=1)
    assert rules.are_too_many(["look", "look"])
    assert not rules.are_too_many([None, None])
    assert not rules.are_too_many(["look", None, "look"])
    assert not EpisodeRules().are_too_many(["look"] * 99)


def test_repeats_that_end_with_the_environments_own_end_are_not_blamed():
    played = run_episode(RoomEnv(step_limit=8), made("vanilla", Recorder("look")), BOOK, split="train")
    assert (len(played.steps), played.ended_by_repeats, played.steps[-1].truncated) == (8, False, True)


def test_without_a_preset_an_action_may_be_repeated():
    played = run_episode(RoomEnv(step_limit=20), Vanilla(Recorder("look")), BOOK, split="train")
    assert (len(played.steps), played.ended_by_repeats, played.agent_preset) == (20, False, "")


def test_a_reply_reaches_the_engine_as_it_is_and_no_message_about_its_form_comes_back():
    said = "I look first.\nLOOK"
    raw = run_episode(RoomEnv(step_limit=1), made("vanilla", Recorder(said)), BOOK, split="train", action_format="look")
    assert (raw.steps[0].action, raw.steps[0].observation) == (said, "Nothing happens.")
    assert raw.agent_preset == "align-paper"
    spelled = run_episode(RoomEnv(step_limit=1), made("vanilla", Recorder("Look")), BOOK, split="train")
    assert (spelled.steps[0].action, spelled.steps[0].observation) == ("Look", "Nothing happens.")
    read = run_episode(RoomEnv(step_limit=1), Vanilla(Recorder("Look")), BOOK, split="train")
    assert read.steps[0].action == "look"


def test_an_episode_of_raw_replies_is_replayed_as_it_was():
    played = run_episode(RoomEnv(step_limit=2), made("vanilla", Recorder("Look", "Go To study")), BOOK, split="train")
    seen = list(replay(RoomEnv(step_limit=2), played, lambda view, step: step.action))
    assert seen == ["Look", "Go To study"]


def test_best_of_is_under_its_agents_preset():
    agent = made("vanilla", Recorder("look"), temperature=1.0)
    assert BestOf(agent, 2).episode_rules == EpisodeRules("align-paper", 7)
    assert agent.with_sample(1).episode_rules == EpisodeRules("align-paper", 7)


def test_several_samples_of_a_task_plan_each_for_themselves():
    model = Recorder("Plan: x", "look")
    agent = made("planning", model)
    for sample in (0, 1):
        run_episode(RoomEnv(step_limit=1), agent, Episode(BOOK, sample), split="train")
    assert len(model.asked) == 4


LIMITS = [("alfworld", 100, 7), ("scienceworld", 100, 7), ("webshop", 30, None), ("m3tooleval", 10, None)]


@pytest.mark.parametrize(("env", "turns", "limit"), [*LIMITS, ("math", None, 7)])
def test_turns_and_repeats_are_those_of_each_environments_experiment(env, turns, limit):
    spec = environment(env)
    assert choose_turns(None, ALIGN_PAPER, spec) == turns
    assert spec.with_settings(turns=turns).step_limit == (turns or spec.step_limit)
    assert ALIGN_PAPER.get_episode_rules(env) == EpisodeRules("align-paper", limit)
    assert choose_turns(3, ALIGN_PAPER, spec) == 3


# ---------------------------------------------------------------- what is asked for, and what is kept


def test_what_is_asked_for_goes_before_the_preset():
    model = Recorder("look")
    made("self-consistency", model, temperature=0.9, max_tokens=300).act(VIEW)
    assert [asked[1:] for asked in model.asked] == [(0.9, 300)] * 3


def test_a_run_can_record_all_of_it():
    told = made("self-consistency", Recorder("")).describe()
    wanted = {"preset": "align-paper", "replies": "raw", "repeat_limit": "7", "samples": "3", "temperature": "0.3"}
    assert wanted.items() <= told.items()
    assert made("self-refine", Recorder("")).describe()["review"] == "final-action"
    assert made("planning", Recorder("")).describe()["plan_call"] == "True"
    assert not {"preset", "replies", "repeat_limit", "review", "plan_call"} & {*Vanilla(Recorder("")).describe()}


@pytest.mark.parametrize(
    ("name", "players", "message"),
    [
        ("align-papr", ["vanilla"], "unknown agent preset 'align-papr'; did you mean align-paper"),
        ("align-paper", ["novice"], "the agent novice asks no model: leave --agent-preset out"),
        ("align-paper", ["novice", "expert"], "no agent asks a model: leave --agent-preset out"),
        ("align-paper", [f"{__name__}:Own"], f"has no settings of the agent {__name__}:Own; use one of vanilla, react"),
    ],
)
def test_a_preset_that_says_nothing_is_refused_in_one_line(name, players, message):
    chosen = [choose_agent(player, None if player in ("novice", "expert") else "novice") for player in players]
    with pytest.raises(UsageError) as caught:
        choose_preset(name, chosen)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert agent_preset("align-paper") is ALIGN_PAPER


