"""The engine below the environment: peeks, plans, remembered translations, games that are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld import oracle
from align_echo.wrappers.alfworld.data import load_embedded, read_json
from align_echo.wrappers.alfworld.fast import engine as store
from align_echo.wrappers.alfworld.fast.engine import FastEngine, plan
from align_echo.wrappers.alfworld.oracle import GameEngine, GameSpec
from align_echo.wrappers.alfworld.reference import make_engine
from align_echo.wrappers.alfworld.spec import GAME

SMALL = next(id_ for id_ in load_embedded().ids("valid_unseen") if id_.split("/")[1].endswith("-404"))


@pytest.fixture(scope="module")
def texts() -> tuple[str, str, str]:
    record = read_json(load_embedded().folder(SMALL) / GAME)
    return record["pddl_domain"], record["grammar"], record["pddl_problem"]


@pytest.fixture(scope="module")
def other(texts: tuple[str, str, str]) -> tuple[str, str, str]:
    """The same game in other bytes, so that no compiled form of it ships."""
    domain, grammar, problem = texts
    return domain, grammar, problem + "\n\n"


def game_of(texts: tuple[str, str, str], cache: Path | None = None) -> GameSpec:
    domain, grammar, problem = texts
    return GameSpec(domain, grammar, problem, cache)


def told(engine: GameEngine, game: GameSpec, commands: list[str]) -> list[tuple[str, tuple[str, ...], bool]]:
    answers = [(engine.reset(game), engine.admissible, engine.won)]
    return answers + [(engine.step(command), engine.admissible, engine.won) for command in commands]


def test_a_peek_changes_nothing_whatever_it_asks(engine, texts):
    game = game_of(texts)
    engine.reset(game)
    going = next(command for command in engine.admissible if command.startswith("go to toilet "))
    before = engine.sight
    assert engine.peek(going).startswith("You arrive at toilet 1.")
    assert engine.sight == before
    assert engine.peek("look").startswith("You are in the middle of a room.")
    assert going in engine.admissible


def test_a_plan_leads_to_the_goal(engine, texts):
    engine.reset(game_of(texts))
    for command in plan(engine.sight) or []:
        assert not engine.won
        engine.step(command)
    assert engine.won


def test_a_remembered_game_plays_the_same(texts, other, tmp_path, monkeypatch):
    engine = FastEngine()
    engine.reset(game_of(texts))
    commands = plan(engine.sight) or []
    as_shipped = told(engine, game_of(texts), commands)
    store.compiled_game(game_of(other, tmp_path))
    monkeypatch.setattr(store, "_compile", lambda game: pytest.fail("compiled again"))
    assert told(engine, game_of(other, tmp_path), commands) == as_shipped


def test_a_damaged_file_is_made_again(other, tmp_path):
    texts = other
    wanted = store.compiled_game(game_of(texts, tmp_path))
    [file] = tmp_path.iterdir()
    whole = file.read_bytes()
    for damage in (b"", whole[:100], b"\xff", b"e30=", whole[:-8], whole.replace(b"A", b"B", 1)):
        file.write_bytes(damage)
        assert store.compiled_game(game_of(texts, tmp_path)) == wanted
        assert file.read_bytes() == whole


def test_every_text_of_a_game_counts(other, tmp_path):
    texts = domain, grammar, problem = other
    changed = [
        (domain, grammar, problem.replace("(isReceptacleObject", "(isClean", 1) + "\n"),
        (domain, grammar.replace("You are carrying", "You hold"), problem),
        (domain + "\n", grammar, problem),
    ]
    for game in (texts, *changed):
        store.compiled_game(game_of(game, tmp_path))
    assert len(list(tmp_path.iterdir())) == 4


def test_what_official_problems_also_hold_changes_no_text(engine, texts):
    """Costs, distances and class names among the objects: ALFRED's problems have them, the embedded ones do not."""
    domain, grammar, problem = texts
    locations = [line.split()[0] for line in problem.splitlines() if line.endswith(" - location")]
    distances = "".join(f"(= (distance {locations[0]} {other}) 7)\n" for other in locations[1:])
    official = problem.replace("(:objects\n", "(:objects\nApple - object\nWindow - object\n").replace(
        "(:init\n", f"(:init\n(= (total-cost) 0)\n{distances}"
    )
    assert official.count("distance") == len(locations) - 1
    commands = ["look", "go to toilet 1", "examine toilet 1", "inventory"]
    assert told(engine, GameSpec(domain, grammar, official), commands) == told(engine, game_of(texts), commands)


@pytest.mark.parametrize("part", [0, 2])
def test_broken_pddl_is_one_clear_line(texts, part):
    broken = list(texts)
    broken[part] = broken[part][:500]
    with pytest.raises(EngineError, match="PDDL does not translate") as caught:
        FastEngine().reset(game_of(tuple(broken)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["fast", "textworld"])
def test_nothing_is_played_before_a_game_is_loaded(name):
    with pytest.raises(EngineError, match="reset"):
        make_engine(name).step("look")


def test_a_missing_module_of_alfworld_is_one_clear_line():
    with pytest.raises(EngineError, match="pip install"):
        oracle.load("alfworld.no_such_module")
