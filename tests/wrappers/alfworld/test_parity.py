"""Both engines, played side by side: every text, command, win, fact and piece of advice is the same.

`make test` and `make test-long` play a few short episodes; `make parity` hundreds of games, and asks the planner for
distances.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from align_echo.wrappers.alfworld.data import load_embedded, read_json
from align_echo.wrappers.alfworld.fast.engine import FastEngine, plan
from align_echo.wrappers.alfworld.oracle import GameSpec, HouseOracle
from align_echo.wrappers.alfworld.reference import ReferenceEngine
from align_echo.wrappers.alfworld.spec import GAME, TASK_TYPES, TRAJECTORY, task_type

SMALL_ROOMS = ("-424", "-404", "-425", "-308", "-226", "-29")
CHUNKS = 40
NONSENSE = (
    "",
    " ",
    "look around",
    "Look",
    "LOOK",
    "inventory ",
    " look",
    "\tinventory",
    "go to",
    "go to nowhere 7",
    "{}",
)


def spoilt(rng: random.Random, command: str) -> str:
    """A command with something wrong or odd about it."""
    words = command.split()
    return rng.choice(
        [
            command.upper(),
            command.capitalize(),
            f"  {command}\n",
            command.replace(" ", "  ", 1),
            " ".join(word for word in words if not word.isdigit()),
            command.replace("move", "put").replace(" to ", " in/on "),
            f"{command} {command}",
            f"{command}\nlook",
            f"{command}.",
            *NONSENSE,
        ]
    )


def actions(rng: random.Random, oracle: HouseOracle, admissible: tuple[str, ...]) -> str:
    """Random, useful or spoilt; more often something that changes the world than a walk."""
    choice = rng.random()
    if choice < 0.25:
        return oracle.expert_action() or "look"
    if choice < 0.35:
        return spoilt(rng, rng.choice(admissible))
    if choice < 0.7:
        return rng.choice([command for command in admissible if not command.startswith("go to ")])
    return rng.choice(admissible)


def play_both(task_id: str, steps: int) -> Iterator[tuple[HouseOracle, FastEngine]]:
    """Step both engines together and compare all that they say; yields after each step."""
    folder = load_embedded().folder(task_id)
    record = read_json(folder / GAME)
    game = GameSpec(record["pddl_domain"], record["grammar"], record["pddl_problem"])
    trajectory = read_json(folder / TRAJECTORY)
    fast, real = FastEngine(), ReferenceEngine()
    intro = fast.reset(game)
    assert intro == real.reset(game)
    ours, theirs = HouseOracle(fast, intro, trajectory), HouseOracle(real, intro, trajectory)
    rng = random.Random(task_id)
    for step in range(steps):
        context = (task_id, step)
        assert (context, fast.admissible) == (context, real.admissible)
        assert (context, list(fast.sight.commands)) == (context, list(real.sight.commands))
        assert (context, sorted(fast.sight.facts())) == (context, sorted(real.sight.facts()))
        assert (context, fast.won) == (context, real.won)
        advice = ours.expert_action()
        assert (context, advice) == (context, theirs.expert_action())
        assert (context, ours.distance()) == (context, theirs.distance())
        yield ours, fast
        action = actions(rng, ours, fast.admissible)
        answer = fast.step(action)
        assert (context, action, answer) == (context, action, real.step(action))
        ours.record(action.strip(), answer)
        theirs.record(action.strip(), answer)
    real.close()


@pytest.mark.long
@pytest.mark.parametrize("kind", TASK_TYPES)
def test_both_engines_say_the_same(kind):
    small = [
        task_id
        for task_id in load_embedded().ids("valid_unseen")
        if task_type(task_id) == kind and task_id.split("/")[1].endswith(SMALL_ROOMS)
    ]
    assert sum(1 for _ in play_both(small[0], 18)) == 18


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_both_engines_say_the_same_in_many_games(chunk):
    splits = ("train", "valid_seen", "valid_unseen")
    games = [(split, task_id) for split in splits for task_id in load_embedded().ids(split)]
    random.Random(0).shuffle(games)
    steps = sum(1 for _, task_id in games[chunk::CHUNKS] for _ in play_both(task_id, 50))
    assert steps >= 500
    print(f"{steps} steps")


@pytest.mark.slow
@pytest.mark.parametrize("kind", TASK_TYPES)
def test_distances_are_those_of_the_planner(kind):
    small = [
        task_id
        for task_id in load_embedded().ids("valid_unseen")
        if task_type(task_id) == kind and task_id.split("/")[1].endswith(SMALL_ROOMS)
    ]
    for step, (oracle, engine) in enumerate(play_both(small[-1], 12)):
        if step % 3 == 0 and not engine.won:
            assert oracle.distance() == len(plan(engine.sight) or [])
