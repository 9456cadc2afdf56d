"""What is kept from episode to episode has a bound of bytes, which is told and can be set."""

from __future__ import annotations

import tracemalloc

import pytest

import align_echo
from align_echo.errors import UsageError
from align_echo.installation import look_around
from align_echo.wrappers import pool
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.alfworld.fast.engine import compiled_game
from align_echo.wrappers.alfworld.fast.program import GameProgram
from align_echo.wrappers.pool import DEFAULT_MEGABYTES, VARIABLE, MemoryCache, memory_bound


def test_what_was_used_least_recently_goes_first_and_what_grew_counts_for_more():
    kept, made = MemoryCache(100), list[str]()

    def use(key: str, size: int) -> None:
        def make() -> str:
            made.append(key)
            return key

        assert kept.recall(key, make, lambda thing: size) == key

    use("a", 40)
    use("b", 40)
    use("a", 50)
    assert (made, kept.bytes, len(kept)) == (["a", "b"], 90, 2)
    use("c", 30)
    assert kept.bytes == 80, "b had not been used for longest"
    use("a", 90)
    assert (len(kept), kept.bytes) == (1, 90), "a has grown since"
    use("d", 101)
    assert (len(kept), kept.bytes) == (0, 0), "what has no room is played and not kept"
    use("a", 1)
    assert made == ["a", "b", "c", "d", "a"]


def test_what_cannot_be_made_is_not_kept():
    kept = MemoryCache(100)
    with pytest.raises(UsageError):
        kept.recall("a", lambda: (_ for _ in ()).throw(UsageError("no game")), lambda thing: 1)
    assert len(kept) == 0


def test_the_bound_is_set_in_one_place(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert memory_bound() == DEFAULT_MEGABYTES * 10**6
    monkeypatch.setenv(VARIABLE, "7")
    assert memory_bound() == 7_000_000
    monkeypatch.setenv(VARIABLE, "many")
    with pytest.raises(UsageError, match=r"^\$ALIGN_ECHO_GAME_MEMORY is a whole number of megabytes"):
        memory_bound()


def test_doctor_tells_the_bound_and_what_cannot_be_one(monkeypatch):
    monkeypatch.setattr(pool, "_memories", [MemoryCache(5_000_000)])
    (told,) = [finding for finding in look_around() if finding.subject == "games in memory"]
    assert told.state.startswith("0 of at most 5 MB")
    monkeypatch.setattr(pool, "_memories", [])
    monkeypatch.setenv(VARIABLE, "-1")
    (told,) = [finding for finding in look_around() if finding.subject == f"${VARIABLE}"]
    assert not told.good
    assert "not '-1'" in told.advice


def test_games_are_played_the_same_with_room_for_one_and_for_all(monkeypatch):
    def played() -> list[object]:
        envs = align_echo.make_vec("alfworld", n=3, split="valid_unseen", step_limit=3)
        results: list[object] = [envs.reset(seed=0)[0]]
        for _ in range(8):
            observations, rewards, *_ = envs.step(("look", "inventory", "go to drawer 1"))
            results.append((observations, rewards.tolist()))
        envs.close()
        return results

    monkeypatch.setattr(pool, "_memories", [wide := MemoryCache(10**9)])
    expected = played()
    monkeypatch.setattr(pool, "_memories", [narrow := MemoryCache(10**6)])
    assert played() == expected
    assert narrow.bytes <= narrow.bound < wide.bytes


def test_a_game_is_about_as_large_as_it_says():
    env = align_echo.make("alfworld", split="valid_unseen").unwrapped
    assert isinstance(env, AlfworldEnv)
    tasks = env.task_ids[1::30]
    env.reset(options={"task": env.task_ids[0]})
    for task in tasks:
        env.reset(options={"task": task})
        game = env._engine.sight.game  # type: ignore[attr-defined]
        tracemalloc.start()
        program = GameProgram(compiled_game(game))
        state = program.initial
        for turn in range(300):
            menu = list(program.menu(state).values())
            operator = menu[turn * 7919 % len(menu)]
            state = program.apply(operator, state)
            program.answer(operator, state)
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 0.6 < program.bytes / taken < 1.7
