"""What holds for every demonstration of the pocket model's corpus: it can be encoded, and is of a training task."""

from __future__ import annotations

import functools
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import align_echo
from align_echo.train.sft import Demonstration
from align_echo.wrappers.alfworld.games import SEEN, UNSEEN
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv
from studies.pocket import corpus
from tests.models.local.tiny import tiny_encoder

SPLITS = {name: environment(name).splits for name in ("alfworld", "webshop")}
few_draws = settings(
    max_examples=2, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)


WITHOUT_ENVIRONMENT = ("glances", "drills")


@pytest.fixture(params=[name for name in corpus.PARTS if name not in WITHOUT_ENVIRONMENT], autouse=True)
def part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every part that plays, of few games."""
    for name, size in (("GAMES_A_PART", 1), ("SHOPPING_A_PART", 20), ("SHOPPING_REVIEWS_A_PART", 20)):
        monkeypatch.setattr(corpus, name, size, raising=False)
    return str(request.param)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """(environment, task) of every reset."""
    seen: set[tuple[str, str]] = set()
    reset = TextEnv.reset

    def noted(env: TextEnv, **how: object) -> object:
        answer = reset(env, **how)  # type: ignore[arg-type]
        seen.add((env.contract.environment, answer[1]["task_id"]))
        return answer

    monkeypatch.setattr(TextEnv, "reset", noted)
    return seen


def made(part: str, seed: int, number: int) -> list[Demonstration]:
    return list(corpus.PARTS[part](number, seed))


@functools.cache
def tasks(name: str, split: str) -> frozenset[str]:
    return frozenset(align_echo.tasks(name, split=split))


def number_of(game: str) -> int:
    """The number that tells games of one room and goal apart."""
    return int(game.rsplit("_", 1)[1])


@pytest.mark.long
@few_draws
@given(seed=st.integers(0, 99), number=st.integers(0, 99))
def test_every_chat_can_be_encoded_and_its_replies_are_where_the_encoder_says(part, seed, number):
    encoder = tiny_encoder()
    for demonstration in made(part, seed, number):
        control = {*encoder.stop_ids, encoder.opening(demonstration.messages[:1])[0]}
        chat = encoder.supervised(demonstration.messages)
        replies = [message.content for message in demonstration.messages if message.role == "assistant"]
        assert [encoder.text(chat.ids[first:end]) for first, end in chat.turns] == replies
        assert all(control.isdisjoint(encoder.plain(message.content)) for message in demonstration.messages)


@pytest.mark.long
@few_draws
@given(seed=st.integers(0, 99), number=st.integers(0, 99))
def test_every_chat_answers_a_user_each_time_and_holds_something_to_imitate(part, seed, number):
    for demonstration in made(part, seed, number):
        roles = [message.role for message in demonstration.messages]
        assert all(before == "user" for before, role in pairwise(roles) if role == "assistant")
        assert "system" not in roles[1:]
        assert roles[-1] == "assistant"
        replies = [message.content for message in demonstration.messages if message.role == "assistant"]
        assert all(reply == reply.strip() != "" for reply in replies)
        assert set(demonstration.weights) <= {0.0, 1.0}
        assert 1.0 in demonstration.weights


@pytest.mark.long
@few_draws
@given(seed=st.integers(0, 99), number=st.integers(0, 99))
def test_only_training_tasks_are_played(part, played, seed, number):
    made(part, seed, number)
    assert played
    shopped = {task for name, task in played if name == "webshop"}
    assert shopped <= tasks("webshop", "train")
    for split in SPLITS["webshop"]:
        assert split == "train" or shopped.isdisjoint(tasks("webshop", split))
    games = {task for name, task in played if name == "alfworld"}
    for split in SPLITS["alfworld"]:
        assert games.isdisjoint(tasks("alfworld", split))
        assert all(number_of(task) > max(map(number_of, tasks("alfworld", split))) for task in games)
    plans = {int(task.split("/")[-2].rsplit("-", 1)[1]) for task in games}
    assert plans <= set(SEEN) - set(UNSEEN)
    assert {name for name, _ in played} <= set(SPLITS)


@pytest.mark.long
def test_a_part_is_the_same_whenever_it_is_made_and_another_number_gives_another(part):
    first = made(part, 3, 1)
    assert made(part, 3, 1) == first
    assert made(part, 3, 2) != first
