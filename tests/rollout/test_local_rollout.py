"""Rollouts with a local model: token ids from end to end, samples, full contexts, faults in the middle."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from align_echo.agents.conversation import HistoryBounds
from align_echo.agents.reasoning import Planning, ReAct, SelfConsistency, SelfRefine, Vanilla
from align_echo.critic.best_of import BestOf
from align_echo.errors import EngineError, ModelError, TokenDriftError, UsageError
from align_echo.rollout.batches import run_episode, run_tasks
from align_echo.rollout.session import Episode
from align_echo.tokens import token_sequence, token_sequences
from align_echo.types import AgentReply, AgentView, ChoiceCounts, Completion, Message
from tests.room_env import TASK_IDS, RoomEnv

pytest.importorskip("torch")
pytest.importorskip("transformers")

from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine import Forward, ModelEngine, TokenReply, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from tests.models.local.plain_loop import logprobs_of
from tests.models.local.tiny import tiny_encoder, tiny_model

TURNS = 4
ENCODER = tiny_encoder()


@pytest.fixture(scope="module")
def engine():
    made = TransformersEngine(tiny_model(context=4096), name="tiny", decode=ENCODER.text, slots=8)
    yield made
    made.close()


def agent(engine: ModelEngine, *, temperature: float = 1.0, context: int = 0, max_tokens: int = 6) -> Vanilla:
    model = LocalModel(engine, ENCODER, context=context)
    return Vanilla(model, temperature=temperature, max_tokens=max_tokens)


def make() -> RoomEnv:
    return RoomEnv(step_limit=TURNS)


def test_every_trajectory_is_one_token_sequence_whose_texts_are_what_was_said_and_seen(engine):
    for played in run_tasks(make, agent(engine), [TASK_IDS[0], TASK_IDS[1]] * 3, split="train", workers=4):
        assert played.fault is None
        sequence = token_sequence(played)
        assert len(sequence.turns) == len(played.steps) == TURNS
        for step, (first, end) in zip(played.steps, sequence.turns, strict=True):
            assert ENCODER.text(sequence.ids[first:end]) == step.reply
            assert step.usage.completion_tokens == end - first
            assert step.cut_off == (sequence.ids[end - 1] not in ENCODER.stop_ids)
        for step, (_, end), (first, _) in zip(played.steps, sequence.turns, sequence.turns[1:], strict=False):
            assert step.observation in ENCODER.text(sequence.ids[end:first])


def test_a_bounded_history_is_recorded_as_the_model_saw_it(engine):
    bounded = agent(engine).with_history(HistoryBounds(turns=2))
    played = run_tasks(make, bounded, list(TASK_IDS), split="train", workers=4)
    for episode in played:
        whole, bounded_part = sequences = token_sequences(episode)
        assert [len(sequence.turns) for sequence in sequences] == [3, 1]
        first, last = (ENCODER.text(sequence.ids[: sequence.turns[-1][0]]) for sequence in sequences)
        assert episode.steps[0].tokens
        assert whole.ids[: whole.turns[0][0]] == episode.steps[0].tokens.context_ids
        assert "left out" not in first
        assert "[1 turn left out here; the last ones follow.]" in last
        assert episode.steps[0].observation in first
        for step in episode.steps[1:3]:
            assert step.observation in last
        start = bounded_part.turns[0][0]
        again = logprobs_of(tiny_model(context=4096), bounded_part.ids, 1.0)[start - 1 :]
        assert again.tolist() == pytest.approx(bounded_part.logprobs[start:], abs=1e-4)
        with pytest.raises(UsageError, match="from step 4 on without earlier turns"):
            token_sequence(episode)


def test_the_same_episodes_are_drawn_however_many_are_played_at_once(engine):
    episodes = [Episode(task, sample) for task in TASK_IDS for sample in range(3)]
    alone = run_tasks(make, agent(engine), episodes, split="train")
    at_once = run_tasks(make, agent(engine), episodes, split="train", workers=6)
    assert [(played.task_id, played.sample) for played in at_once] == [(task.task_id, task.sample) for task in episodes]
    assert [token_sequence(episode).ids for episode in at_once] == [token_sequence(episode).ids for episode in alone]


def test_samples_of_a_task_begin_alike_and_are_drawn_apart(engine):
    episodes = [Episode(TASK_IDS[0], sample) for sample in range(4)]
    group = run_tasks(make, agent(engine), episodes, split="train", workers=4)
    first = [episode.steps[0].tokens for episode in group]
    assert len({call.context_ids for call in first if call}) == 1
    assert len({token_sequence(episode).ids for episode in group}) == 4


def test_a_critique_is_read_by_the_model_and_kept_on_the_trajectory(engine):
    episodes = [Episode(TASK_IDS[0]), Episode(TASK_IDS[0], critique="Take the mug first. <|im_end|>")]
    plain, advised = run_tasks(make, agent(engine), episodes, split="train")
    assert (plain.critique, advised.critique) == ("", "Take the mug first. <|im_end|>")
    assert plain.steps[0].tokens is not None
    assert advised.steps[0].tokens is not None
    opening = advised.steps[0].tokens.context_ids
    assert "Take the mug first. <|im_end|>" in ENCODER.text(opening)
    ends = [ids.count(ENCODER.end_id) for ids in (opening, plain.steps[0].tokens.context_ids)]
    assert ends == [2, 2]  # the planted one is plain text


def test_a_full_context_ends_the_episode_and_is_no_fault(engine):
    whole = run_episode(make(), agent(engine), TASK_IDS[0], split="train")
    assert whole.steps[1].tokens is not None
    room = whole.steps[1].tokens.end
    played = run_episode(make(), agent(engine, context=room), TASK_IDS[0], split="train")
    assert (played.context_overflow, played.truncated, played.fault, played.won) == (True, True, None, False)
    assert len(played.steps) == 2
    assert token_sequence(played).ids == token_sequence(whole).ids[:room]
    nothing = run_episode(make(), agent(engine, context=10), TASK_IDS[0], split="train")
    assert (nothing.context_overflow, nothing.steps, nothing.goal) == (True, (), whole.goal)


class StandIn:
    """What the engines of these tests have in common: their weights stay as they are."""

    name, context, closed, changed = "stand-in", 10**6, False, False

    def load_adapter(self, name: str, folder: str) -> None:
        raise NotImplementedError

    def publish_weights(self, folder: str, forward: Forward) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class Breaking(StandIn):
    """An engine that breaks on the requests whose context holds a text, from the third turn on."""

    def __init__(self, engine: ModelEngine, text: str) -> None:
        self._engine = engine
        self._text = text
        self.context = engine.context

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        chat = ENCODER.text(request.ids)
        if self._text in chat and chat.count("<|im_start|>assistant") > 2:
            future: Future[TokenReply] = Future()
            future.set_exception(ModelError("the device is gone"))
            return future
        return self._engine.submit(request)


def test_a_model_that_breaks_in_the_middle_ends_its_own_episode_only(engine):
    player = agent(Breaking(engine, "bring the book 1"))
    mug, book = run_tasks(make, player, TASK_IDS, split="train", workers=2)
    assert (mug.fault, len(mug.steps)) == (None, TURNS)
    assert book.fault is not None
    assert (book.fault.source, book.fault.message, len(book.steps)) == ("model", "the device is gone", 2)
    assert len(token_sequence(book).turns) == 2  # what was drawn is whole; the fault says not to train on it


class Brittle(RoomEnv):
    """Its engine breaks once, on the third action or pass of its first episode."""

    broken = False

    def pass_turn(self):
        self._break()
        return super().pass_turn()

    def _act(self, action: str):
        self._break()
        return super()._act(action)

    def _break(self) -> None:
        if self._turns == 2 and not self.broken:
            self.broken = True
            raise EngineError("pipe closed")


def test_an_episode_whose_environment_breaks_is_begun_anew_and_holds_nothing_of_the_broken_one(engine):
    env = Brittle(step_limit=TURNS)
    played = run_episode(env, agent(engine), TASK_IDS[0], split="train")
    assert env.broken
    assert played.fault is None
    unbroken = run_episode(make(), agent(engine), TASK_IDS[0], split="train")
    assert token_sequence(played).ids == token_sequence(unbroken).ids


class Saying(StandIn):
    """An engine whose replies are these texts in turn, as a model would draw them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = itertools.cycle(texts)

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        ids = (*ENCODER.plain(next(self._texts)), ENCODER.end_id)
        future: Future[TokenReply] = Future()
        future.set_result(TokenReply(ids, (-0.5,) * len(ids), "stop"))
        return future


REASONED = ("hm", "Thought: so\nAction: look", " Action: look \n", "")
ACTIONS = ("look", "", "take mug 1\ngo", " look\n")
PLANS = ("hm", "Plan:\n1. walk\nSub-goal: 1\nAction: look", "Sub-goal: 1\nAction: look", "", "Sub-goal: 7\nAction: x")
REVIEWS = ("look", "fine\nVerdict: change", "go", "Verdict: keep", "two\nlines")


@pytest.mark.parametrize(
    ("kind", "texts", "one_call"),
    [
        (Vanilla, ACTIONS, True),
        (ReAct, REASONED, True),
        (Planning, PLANS, True),
        (SelfConsistency, ACTIONS, False),
        (SelfRefine, REVIEWS, False),
    ],
)
def test_every_agent_goes_on_from_its_own_replies_whatever_they_say(kind, texts, one_call):
    player = kind(LocalModel(Saying(texts), ENCODER))
    (played,) = run_tasks(lambda: RoomEnv(step_limit=8), player, [TASK_IDS[1]], split="train")
    assert (played.fault, len(played.steps)) == (None, 8)
    if one_call:
        whole = token_sequence(played)
        texts = [ENCODER.text(whole.ids[first:end]) for first, end in whole.turns]
        assert texts == [step.reply for step in played.steps]


class Retelling(Vanilla):
    """Puts other words into its own mouth, under the token ids of what it said."""

    def conversation(self, view: AgentView) -> list[Message]:
        messages = super().conversation(view)
        return [
            message.model_copy(update={"content": "look"}) if message.role == "assistant" else message
            for message in messages
        ]


def test_a_history_that_is_not_what_was_sampled_stops_the_run(engine):
    with pytest.raises(TokenDriftError, match="says 'look', its token ids say"):
        run_tasks(make, Retelling(LocalModel(engine, ENCODER), temperature=1.0, max_tokens=6), TASK_IDS, split="train")


def test_what_stops_a_batch_ends_replies_that_are_being_drawn(engine, monkeypatch):
    """Ctrl-C when the first episode has ended; the others would draw thousands of tokens."""
    begun = threading.Barrier(3, timeout=60)
    steps: list[int] = []
    forward = engine._model.forward

    def counted(**options):
        steps.append(1)
        return forward(**options)

    monkeypatch.setattr(engine._model, "forward", counted)

    class Onlooker(Vanilla):
        def act(self, view: AgentView) -> AgentReply:
            begun.wait()
            if view.task_id == TASK_IDS[0]:
                return AgentReply(text="look", action="look")
            return super().act(view)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    longest = 3000
    player = Onlooker(LocalModel(engine, tiny_endless_encoder()), temperature=1.0, max_tokens=longest)
    tasks = [TASK_IDS[0], TASK_IDS[1], TASK_IDS[1]]
    with pytest.raises(KeyboardInterrupt):
        run_tasks(lambda: RoomEnv(step_limit=1), player, tasks, split="train", workers=3, on_trajectory=stop)
    assert len(steps) < longest


def tiny_endless_encoder() -> ChatEncoder:
    """Its replies are ended by no token."""
    encoder = tiny_encoder()
    encoder.stop_ids = ()
    return encoder


def test_an_environment_steps_while_the_model_answers_another():
    """Each side waits for the other: played in lockstep, neither would ever come."""
    both = threading.Barrier(2, timeout=60)

    class Meeting(RoomEnv):
        def _act(self, action: str):
            if self._task_id == TASK_IDS[0]:
                both.wait()
            return super()._act(action)

    class Answering:
        name = "answering"

        def act(self, view: AgentView) -> AgentReply:
            if view.task_id == TASK_IDS[1]:
                both.wait()
            return AgentReply(text="look", action="look")

    played = run_tasks(lambda: Meeting(step_limit=2), Answering(), TASK_IDS, split="train", workers=2)
    assert [len(episode.steps) for episode in played] == [2, 2]


class Babbling(Vanilla):
    """Takes whatever the model says for an action: a tiny one hardly ever ends its reply."""

    def full_text(self, completion: Completion) -> str:
        return completion.text

    def read(self, reply: str, view: AgentView) -> str:
        return reply


def test_the_best_of_several_candidates_leaves_the_conversation_exact_to_the_token(engine):
    """Candidates that were not chosen, and verdicts, are in no context; all else is as one full pass sees it."""
    player = BestOf(Babbling(LocalModel(engine, ENCODER), temperature=1.0, max_tokens=6), 3)
    episodes = [Episode(task, sample) for task in TASK_IDS for sample in range(2)]
    for played in run_tasks(make, player, episodes, split="train", workers=4):
        assert played.fault is None
        sequence = token_sequence(played)
        assert len(sequence.turns) == len(played.steps) == TURNS
        exact = logprobs_of(tiny_model(context=4096), sequence.ids, 1.0)
        for step, (first, end) in zip(played.steps, sequence.turns, strict=True):
            assert ENCODER.text(sequence.ids[first:end]) == step.reply
            assert sum(sequence.mask[first:end]) == end - first
            assert exact[first - 1 : end - 1].tolist() == pytest.approx(list(sequence.logprobs[first:end]), abs=1e-4)
            assert step.choice is not None
            assert step.choice.counts == ChoiceCounts(candidates=3, no_verdict=3)
            assert step.usage.completion_tokens is not None
            assert step.usage.completion_tokens > 3 * (end - first)


def test_candidates_are_drawn_apart_and_the_same_in_any_batch(engine):
    episodes = [Episode(task, sample) for task in TASK_IDS for sample in range(2)]
    alone = run_tasks(make, BestOf(agent(engine), 2), episodes, split="train")
    at_once = run_tasks(make, BestOf(agent(engine), 2), episodes, split="train", workers=4)
    assert [token_sequence(episode).ids for episode in alone] == [token_sequence(episode).ids for episode in at_once]
    assert len({token_sequence(episode).ids for episode in alone}) == 4
    (plain,) = run_tasks(make, agent(engine), [TASK_IDS[0]], split="train")
    (single,) = run_tasks(make, BestOf(agent(engine), 1), [TASK_IDS[0]], split="train")
    assert token_sequence(single).ids == token_sequence(plain).ids
