"""The real stage, with a tiny random model: token-exact rows, draws apart, unread critiques."""

from __future__ import annotations

import itertools
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from threading import Event

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from align_echo.agents.conversation import HistoryBounds
from align_echo.agents.reasoning import Vanilla
from align_echo.critic.language import ECHO, Critique
from align_echo.errors import ModelError, UsageError
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.rollout.session import Episode
from align_echo.tokens import token_sequence
from align_echo.train.config import checked_config, merged, method
from align_echo.train.methods.critique_grpo import critique_grpo
from align_echo.train.methods.echo import echo
from align_echo.train.methods.icrl import icrl
from align_echo.train.rollouts import ObservedStage
from align_echo.train.rows import RolloutBatch, critic_row, policy_row, without_critique
from align_echo.train.run import count_parts
from align_echo.train.stage import PARTS, ActionProposal, CritiqueRequest, LocalStage
from align_echo.types import Trajectory
from tests.models.local.tiny import tiny_encoder, tiny_model
from tests.room_env import TASK_IDS, RoomEnv

ENCODER = tiny_encoder()
LOOK = "You are in the kitchen. You see a mug 1."


@pytest.fixture(scope="module")
def stage():
    engine = TransformersEngine(tiny_model(context=4096), name="tiny", decode=ENCODER.text, slots=8)
    model = LocalModel(engine, ENCODER)
    yield LocalStage(
        make_env=lambda: RoomEnv(step_limit=3),
        agent=lambda model: Vanilla(model, temperature=1.0, max_tokens=6),
        policy=model,
        critic=model,
        split="train",
        action_format="any",
        critic_tokens=8,
        workers=4,
    )
    engine.close()


def test_a_row_moved_to_the_opening_without_critique_differs_in_that_alone(stage):
    (attempt,) = stage.play([Episode(TASK_IDS[0], critique="take the mug")])
    (untold,) = stage.play([Episode(TASK_IDS[0])])
    opening = stage.opening(attempt)
    assert opening == stage.opening(untold) == untold.steps[0].tokens.context_ids
    assert opening != attempt.steps[0].tokens.context_ids
    moved = without_critique(policy_row(attempt, attempt.task_id), attempt, opening).tokens
    original = token_sequence(attempt)
    assert [moved.ids[first:end] for first, end in moved.turns] == [
        original.ids[first:end] for first, end in original.turns
    ]
    assert "take the mug" in ENCODER.text(original.ids)
    assert "take the mug" not in ENCODER.text(moved.ids)


def test_reviews_keep_what_was_drawn_and_say_what_cannot_be_read(stage):
    (attempt,) = stage.play([Episode(TASK_IDS[0])])
    reviews = stage.critique([CritiqueRequest(attempt, sample) for sample in range(3)])
    assert [review.sample for review in reviews] == [0, 1, 2]
    assert len({review.tokens.sampled_ids for review in reviews}) == 3
    assert len({review.tokens.context_ids for review in reviews}) == 1
    assert all(
        review.critique is None and review.problem and not review.advice and review.fault is None for review in reviews
    )


def test_every_step_draws_anew_and_the_same_step_the_same(stage):
    first, again, other = (stage.at_step(step).play([Episode(TASK_IDS[0])])[0] for step in (1, 1, 2))
    assert token_sequence(first).ids == token_sequence(again).ids
    assert token_sequence(first).ids != token_sequence(other).ids


def test_an_experts_episode_is_told_as_the_agents_own(stage):
    (lesson,) = stage.lessons([TASK_IDS[0]])
    assert lesson.won
    tokens = token_sequence(lesson)
    replies = [ENCODER.text(tokens.ids[first:end]) for first, end in tokens.turns]
    assert [reply.removesuffix("<|im_end|>").strip() for reply in replies] == [step.action for step in lesson.steps]
    assert tokens.ids[: tokens.turns[0][0]] == stage.opening(lesson)
    assert sum(tokens.mask) == sum(end - first for first, end in tokens.turns)


def test_a_bounded_history_is_learned_from_as_it_was_seen(stage):
    bounded = replace(stage, agent=lambda model: stage.agent(model).with_history(HistoryBounds(turns=1)))
    for episode in (*bounded.lessons([TASK_IDS[0]]), *bounded.play([Episode(TASK_IDS[0])])):
        row = policy_row(episode, "g")
        assert len(episode.steps) > 2
        assert sum(len(context.tokens.turns) for context in row.contexts()) == len(episode.steps)
        for context in row.contexts():
            for (first, end), number in zip(context.tokens.turns, itertools.count(context.tokens.first_turn)):
                seen = ENCODER.text(context.tokens.ids[:first])
                assert context.tokens.ids[first:end] == episode.steps[number].tokens.sampled_ids
                assert ("left out" in seen) == (number > 1)


def test_an_experts_episode_that_outgrows_the_policys_context_is_none_to_learn_from(stage):
    (whole,) = stage.lessons([TASK_IDS[0]])
    short = replace(stage, policy=replace(stage.policy, context=len(token_sequence(whole).ids) - 1))
    (lesson,) = short.lessons([TASK_IDS[0]])
    assert (lesson.won, lesson.context_overflow) == (False, True)


def test_verdicts_are_asked_about_what_the_policy_had_read_and_kept_as_rows(stage):
    (attempt,) = stage.play([Episode(TASK_IDS[0])])
    judged = stage.judge([ActionProposal(acted(attempt), 1, sample) for sample in range(2)])
    assert all(judgement.label is None and judgement.problem and judgement.fault is None for judgement in judged)
    assert len({judgement.tokens.sampled_ids for judgement in judged}) == 2
    row = critic_row(judged[0], "g", 0.0)
    text = ENCODER.text(row.tokens.ids)
    assert attempt.steps[0].observation in text
    assert "<action>take mug 1</action>" in text
    assert sum(row.tokens.mask) == len(judged[0].tokens.sampled_ids)


def test_critiques_and_verdicts_are_drawn_as_the_stage_says(stage, monkeypatch):
    submit, asked = TransformersEngine.submit, []

    def heard(engine, request):
        asked.append((request.sampling.temperature, request.sampling.max_tokens))
        return submit(engine, request)

    monkeypatch.setattr(TransformersEngine, "submit", heard)
    told = replace(stage, critic_temperature=0.3, critic_tokens=5)
    (attempt,) = told.play([Episode(TASK_IDS[0])])
    assert set(asked) == {(1.0, 6)}
    asked.clear()
    told.critique([CritiqueRequest(attempt)])
    told.judge([ActionProposal(acted(attempt), 1)])
    assert asked == [(0.3, 5)] * 2


def acted(attempt: Trajectory) -> Trajectory:
    """The attempt, as if each reply had held an action."""
    steps = [step.model_copy(update={"action": "take mug 1"}) for step in attempt.steps]
    return attempt.model_copy(update={"steps": tuple(steps)})


def test_an_episode_that_breaks_the_engine_when_it_is_played_again_has_no_labels(stage):
    (first, second) = stage.play([Episode(task) for task in TASK_IDS])
    broken = first.model_copy(update={"steps": (*second.steps, *second.steps)})
    steps = tuple(step.model_copy(update={"action": "look", "observation": LOOK}) for step in broken.steps)
    assert stage.labels([broken.model_copy(update={"steps": steps}), second])[0] == [None] * 6
    assert len(stage.labels([second])[0]) == 3


@dataclass
class Breaking:
    """An agent whose model breaks on the second task."""

    agent: Vanilla

    def __post_init__(self):
        self.name = self.agent.name

    def act(self, view):
        if view.task_id == TASK_IDS[1]:
            raise ModelError("no answer")
        return self.agent.act(view)


def without_logprobs(harvest: RolloutBatch) -> RolloutBatch:
    return replace(
        harvest, rows=tuple(replace(row, tokens=replace(row.tokens, logprobs=())) for row in harvest.rows)
    )


@pytest.mark.long
@pytest.mark.parametrize("recipe", [echo, icrl, critique_grpo])
def test_what_is_harvested_is_the_same_however_many_parts_go_on_at_once(stage, recipe):
    read = replace(ECHO, read=lambda reply: Critique(reason="", suggestions=(repr(reply),)))
    terse = tiny_encoder()
    terse.stop_ids = tuple(range(100, 300))  # a random model ends its critiques
    spoken = replace(stage, critic=replace(stage.critic, encoder=terse), form=read)
    observed = [ObservedStage(replace(spoken, parts=parts)) for parts in (1, 2)]
    whole, in_parts = (recipe((*TASK_IDS, TASK_IDS[0]), stage) for stage in observed)
    told = [sorted((t.task_id, t.sample, t.critique, t.actions) for t in stage.played) for stage in observed]
    assert told[0] == told[1]
    said = [sorted((t.task_id, t.sample, review.reply) for t, review in stage.critiqued) for stage in observed]
    assert said[0] == said[1]
    drawn, drawn_in_parts = ([row.tokens.logprobs for row in harvest.rows] for harvest in (whole, in_parts))
    for here, there in zip(drawn, drawn_in_parts, strict=True):
        assert here == pytest.approx(there, abs=1e-5)  # who computes beside it moves the last digits
    assert without_logprobs(in_parts) == without_logprobs(whole)
    assert len(whole.refinements) > 8


def test_parts_keep_the_order_of_the_queries_and_share_the_workers(stage):
    parts = replace(stage, parts=3, workers=8).overlapped(lambda part, queries: (part.workers, queries), "abcde")
    assert parts == [(3, "a"), (3, "bc"), (2, "de")]
    assert replace(stage, parts=4, workers=2).overlapped(lambda part, queries: queries, "abc") == ["a", "bc"]
    assert stage.overlapped(lambda part, queries: queries, "") == [""]


def test_what_one_part_raises_ends_the_others(stage):
    under_way, given_up = Event(), Event()

    def ask(trajectory):
        under_way.set()
        return ECHO.ask(trajectory)

    def collect(part, queries):
        if "b" in queries:
            under_way.wait()
            raise UsageError("no such task")
        try:
            part.critique([CritiqueRequest(attempt, sample) for sample in range(1000)])
        except CancelledError:
            given_up.set()
            raise

    (attempt,) = stage.play([Episode(TASK_IDS[0])])
    with pytest.raises(UsageError, match="no such task"):
        replace(stage, parts=2, form=replace(ECHO, ask=ask)).overlapped(collect, "ab")
    assert given_up.is_set()


def test_a_task_on_which_the_model_always_breaks_ends_no_run_in_which_others_are_played(stage):
    def agent(model):
        return Breaking(Vanilla(model, temperature=1.0, max_tokens=6))

    broken = replace(stage, agent=agent, parts=2)
    harvest = icrl(TASK_IDS, broken, sessions=4)
    assert {row.group for row in harvest.rows if row.role == "policy"} == {TASK_IDS[0]}
    assert harvest.counts["broken rollouts"] == 4
    with pytest.raises(ModelError, match="the first 4 episodes were all broken"):
        broken.play([Episode(TASK_IDS[1], sample) for sample in range(4)])


def test_a_harvest_is_played_in_parts_where_that_was_measured():
    values = method("echo")
    assert count_parts(checked_config(values, "here"), on_gpu=False) == PARTS
    assert count_parts(checked_config(values, "here"), on_gpu=True) == 1
    adapters = merged(values, {"weights": "adapters"})
    assert count_parts(checked_config(adapters, "here"), on_gpu=False) == 1
    served = merged(values, {"collecting": {"servers": ["http://127.0.0.1:1/v1"]}, "weights": "shared"})
    assert count_parts(checked_config(served, "here"), on_gpu=False) == 1
