"""The scripted novice behind the interface of a chat model: it reads prompts back, and makes no secret of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import align_echo
from align_echo.agents.catalogue import agent_spec
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.novice_model import NoviceModel, read_view
from align_echo.agents.novices import make_novice
from align_echo.agents.players import build_agent
from align_echo.agents.presets import ALIGN_PAPER
from align_echo.agents.reasoning import SelfRefine, Vanilla, ask_for
from align_echo.agents.spec import AgentSetting
from align_echo.errors import ModelError, UsageError
from align_echo.models import CallLog, RecordingModel, ReplyCache, ScriptedModel
from align_echo.models.endpoint import SCRIPTED_MODELS
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentView, Message, Trajectory, Turn, Usage
from align_echo.wrappers.catalogue import environment
from tests.agents.views import FIVE, SPOKEN, actions, texts

by_kind = pytest.mark.parametrize("kind", FIVE, ids=lambda kind: kind.kind)

INTRO = "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, and a countertop 1."
VIEW = AgentView(task_id="t", action_format="look", goal="put a mug in cabinet.", rules="", initial_observation=INTRO)


@st.composite
def views(draw: st.DrawFn, kind: type[ChatAgent]) -> AgentView:
    """A view as an episode of the agent leaves it: every turn's action is what its reply says."""
    turns = []
    for action in draw(st.lists(st.none() | actions, max_size=4)):
        reply = draw(st.sampled_from(["", "two\nlines"])) if action is None else SPOKEN[kind.kind].format(action)
        turns.append(Turn(reply=reply, action=action, observation=draw(texts)))
    return AgentView(
        task_id=draw(texts),
        action_format=draw(texts),
        goal=draw(texts),
        rules=draw(texts),
        initial_observation=draw(texts.filter(bool)),
        turns=tuple(turns),
    )


@by_kind
@settings(deadline=None)  # the first example reads the templates
@given(st.data())
def test_a_view_is_read_back_from_its_conversation(kind: type[ChatAgent], data: st.DataObject) -> None:
    agent = kind(ScriptedModel([]))
    view = data.draw(views(kind))
    read = read_view(agent.conversation(view), agent)
    assert read is not None
    assert read.model_copy(update={"task_id": view.task_id}) == view


@by_kind
def test_another_agents_conversation_is_not_taken_for_its_own(kind: type[ChatAgent]) -> None:
    agents = [kind(ScriptedModel([])) for kind in FIVE]
    chat = kind(ScriptedModel([])).conversation(VIEW)
    readers = {agent.prompts[0] for agent in agents if read_view(chat, agent) is not None}
    assert readers == {kind.prompts[0]}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message(role="user", content="Who are you?")],
        [Message(role="system", content="You find misalignments."), Message(role="user", content="Go.")],
        Vanilla(ScriptedModel([])).conversation(VIEW)[:1],
        [*Vanilla(ScriptedModel([])).conversation(VIEW), ask_for("critique")],
    ],
)
def test_a_prompt_of_no_agent_is_refused_and_not_guessed_at(messages: list[Message]) -> None:
    with pytest.raises(ModelError, match="no language model, reads only the prompts of align-echo's agents"):
        NoviceModel("alfworld").complete(messages, temperature=0.0)


@pytest.mark.parametrize("kind", SCRIPTED_MODELS)
def test_its_name_says_what_it_is_not(kind: str) -> None:
    model = NoviceModel("alfworld", kind)
    assert model.name == f"{kind} (scripted, not a language model)"
    assert model.complete(Vanilla(model).conversation(VIEW), temperature=0.0).usage == Usage()


def test_an_environment_without_a_novice_is_refused() -> None:
    refused = "the agent asks a model, and there is no scripted novice for room: name a model with --model"
    with pytest.raises(UsageError, match=refused):
        NoviceModel("room")


# ---------------------------------------------------------------- playing


def play(agent: ChatAgent, count: int = 2, interface: str | None = None) -> list[Trajectory]:
    spec = environment("alfworld")
    return run_tasks(
        lambda: align_echo.make("alfworld", split="valid_unseen", interface=interface, step_limit=25),
        agent,
        align_echo.tasks("alfworld", split="valid_unseen")[:count],
        split="valid_unseen",
        action_format=spec.action_format,
    )


@by_kind
def test_every_agent_plays_a_game_with_it_offline(kind: type[ChatAgent]) -> None:
    played = play(kind(NoviceModel("alfworld")), interface="alfworld/probe")
    assert [trajectory.fault for trajectory in played] == [None, None]
    assert all(step.action is not None and not step.problem for trajectory in played for step in trajectory.steps)
    assert any(trajectory.won for trajectory in played)


@by_kind
def test_every_agent_plays_a_game_with_it_under_the_preset_of_the_paper(kind: type[ChatAgent]) -> None:
    spec, model = environment("alfworld"), NoviceModel("alfworld")
    agent = build_agent(agent_spec(kind.kind), AgentSetting(spec, "valid_unseen", model=model, preset=ALIGN_PAPER))
    assert isinstance(agent, kind)
    played = play(agent, interface="alfworld/probe")
    assert [trajectory.fault for trajectory in played] == [None, None]
    assert any(trajectory.won for trajectory in played)


@by_kind
def test_it_plays_the_same_game_twice(kind: type[ChatAgent]) -> None:
    first = play(kind(NoviceModel("alfworld", seed=3)), 1)[0]
    assert play(kind(NoviceModel("alfworld", seed=3)), 1)[0] == first
    assert play(kind(NoviceModel("alfworld", seed=4)), 1)[0].actions != first.actions


@pytest.mark.parametrize("kind", [agent for agent in FIVE if agent.kind in ("vanilla", "react", "planning")])
def test_at_temperature_0_thought_and_plan_change_nothing(kind: type[ChatAgent]) -> None:
    """It does what the environment's novice does: for it these prompts differ in form alone."""
    agent = kind(NoviceModel("alfworld"))
    view = VIEW
    for observation in ("Nothing happens.", "You arrive at cabinet 1. The cabinet 1 is closed.", "Nothing happens."):
        reply = agent.act(view)
        seen = read_view(agent.conversation(view), agent)
        assert seen is not None
        assert reply.action == make_novice("alfworld").act(seen).action
        turn = Turn(reply=reply.text, action=reply.action, observation=observation)
        view = view.model_copy(update={"turns": (*view.turns, turn)})


def test_samples_differ_at_a_temperature_and_each_is_the_same_again() -> None:
    model = NoviceModel("alfworld")
    chat = Vanilla(model).conversation(VIEW)

    def draws(temperature: float) -> list[str]:
        return [model.with_sample(sample).complete(chat, temperature=temperature).text for sample in range(20)]

    assert len(set(draws(0.0))) == 1
    assert len(set(draws(1.0))) > 1
    assert draws(1.0) == draws(1.0)
    plain = draws(0.0)[0]
    assert draws(0.3).count(plain) > draws(1.0).count(plain)


def test_a_recorded_novice_draws_its_samples_too(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.jsonl")
    model = RecordingModel(NoviceModel("alfworld"), role="agent", cache=ReplyCache(tmp_path / "cache"), log=log)
    chat = Vanilla(model).conversation(VIEW)
    texts = {model.with_sample(sample).complete(chat, temperature=1.0).text for sample in range(20)}
    assert len(texts) > 1
    assert {call.model for call in log.read()} == {"novice (scripted, not a language model)"}


# ---------------------------------------------------------------- reviewing


def review(proposal: str, *turns: tuple[str, str], seed: int = 0) -> str:
    """The last line of its review of a proposal."""
    model = NoviceModel("alfworld", seed=seed)
    seen = tuple(Turn(reply=action, action=action, observation=observation) for action, observation in turns)
    chat = SelfRefine(model).conversation(VIEW.model_copy(update={"turns": seen}))
    chat += [Message(role="assistant", content=proposal), ask_for("critique")]
    return model.complete(chat, temperature=0.0).text.splitlines()[-1]


REFUSED = (("take mug 1", "Nothing happens."), ("look", "Nothing happens."))


def test_it_objects_to_a_repeated_action_on_a_share_of_the_occasions() -> None:
    verdicts = [review("take mug 1", *REFUSED, seed=seed) for seed in range(60)]
    assert set(verdicts) == {"Verdict: keep", "Verdict: change"}
    assert 15 < verdicts.count("Verdict: change") < 45


@pytest.mark.parametrize(
    ("proposal", "turns"),
    [
        ("take mug 1", ()),
        ("go to cabinet 1", REFUSED),
        ("take mug 1", (("take mug 1", "You pick up the mug 1 from the cabinet 1."), ("look", "Nothing happens."))),
    ],
)
def test_it_objects_to_nothing_else(proposal: str, turns: tuple[tuple[str, str], ...]) -> None:
    assert {review(proposal, *turns, seed=seed) for seed in range(30)} == {"Verdict: keep"}


def test_a_better_action_is_one_that_was_not_proposed() -> None:
    model = NoviceModel("alfworld")
    chat = SelfRefine(model).conversation(VIEW)
    proposal = model.complete(chat, temperature=0.0).text
    chat += [Message(role="assistant", content=proposal), ask_for("critique")]
    chat += [Message(role="assistant", content="Verdict: change"), ask_for("refine")]
    assert model.complete(chat, temperature=0.0).text not in ("", proposal)
