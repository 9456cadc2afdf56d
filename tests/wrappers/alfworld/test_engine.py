"""The engine below the environment: peeks, plans, remembered translations, games that are broken."""

from __future__ import annotations

import pytest

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld import translation_cache, upstream
from align_echo.wrappers.alfworld.data import EmbeddedGames, read_json
from align_echo.wrappers.alfworld.engine import Engine, Game

SMALL = next(id_ for id_ in EmbeddedGames().ids("valid_unseen") if id_.split("/")[1].endswith("-404"))


@pytest.fixture(scope="module")
def texts() -> tuple[str, str, str]:
    record = read_json(EmbeddedGames().folder(SMALL).game)
    return record["pddl_domain"], record["grammar"], record["pddl_problem"]


def told(engine: Engine, game: Game, commands: list[str]) -> list[tuple[str, list[str], bool]]:
    answers = [engine.reset(game)]
    return [(answer, sorted(engine.commands), engine.won) for answer in answers] + [
        (engine.step(command), sorted(engine.commands), engine.won) for command in commands
    ]


def test_a_peek_changes_nothing_whatever_it_asks(engine, texts):
    game = Game(*texts)
    engine.reset(game)
    going = next(command for command in engine.commands if command.startswith("go to toilet "))
    before = engine.snapshot()
    assert engine.peek(going).startswith("You arrive at toilet 1.")
    assert engine.snapshot() == before
    assert engine.peek("look").startswith("You are in the middle of a room.")
    assert going in engine.commands


def test_a_plan_leads_to_the_goal(engine, texts):
    engine.reset(Game(*texts))
    for command in engine.plan():
        assert not engine.won
        engine.step(command)
    assert engine.won


def test_a_remembered_translation_plays_the_same(engine, texts, tmp_path, monkeypatch):
    fresh = Game(*texts)
    Game(*texts, cache=tmp_path)
    monkeypatch.setattr(translation_cache, "translate", lambda *texts: pytest.fail("translated again"))
    again = Game(*texts, cache=tmp_path)
    assert again.translation == fresh.translation
    engine.reset(fresh)
    commands = engine.plan()
    assert told(engine, again, commands) == told(engine, fresh, commands)


def test_a_damaged_translation_is_made_again(texts, tmp_path):
    wanted = Game(*texts, cache=tmp_path).translation
    [file] = tmp_path.iterdir()
    whole = file.read_bytes()
    for damage in (b"", whole[:100], b"\xff", b"e30=", whole[:-8]):
        file.write_bytes(damage)
        assert Game(*texts, cache=tmp_path).translation == wanted
        assert file.read_bytes() == whole


def test_another_problem_has_another_translation(texts, tmp_path):
    domain, grammar, problem = texts
    Game(domain, grammar, problem, cache=tmp_path)
    Game(domain, grammar, problem.replace("(isReceptacleObject", "(isClean", 1) + "\n", cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


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
    assert told(engine, Game(domain, grammar, official), commands) == told(engine, Game(*texts), commands)


@pytest.mark.parametrize("part", [0, 2])
def test_broken_pddl_is_one_clear_line(texts, part):
    broken = list(texts)
    broken[part] = broken[part][:500]
    with pytest.raises(EngineError, match="PDDL does not translate") as caught:
        Game(*broken)
    assert "\n" not in str(caught.value)


def test_nothing_is_played_before_a_game_is_loaded():
    with pytest.raises(EngineError, match="reset"):
        Engine().step("look")


def test_a_missing_module_of_alfworld_is_one_clear_line():
    with pytest.raises(EngineError, match="pip install"):
        upstream.load("alfworld.no_such_module")
