"""The pocket model's training data, part by part: made from the environments by seed, kept as one file a part.

A part depends on its name, its number and the seed alone, so parts can be made in any order or process, and a killed
build goes on where it stopped. Left out: how they are turned into tokens (`align_echo.train.sft`).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import gymnasium as gym

from align_echo.base.dice import Dice
from align_echo.base.files import write_atomically
from align_echo.critic.labels import label
from align_echo.critic.language import Form, parse_critique
from align_echo.rollout.batches import view_before
from align_echo.rollout.session import base_env, start_view
from align_echo.train.sft import Demonstration
from align_echo.types import Trajectory
from align_echo.wrappers.alfworld import SPEC
from align_echo.wrappers.alfworld.games import read_id
from align_echo.wrappers.alfworld.routes import TaskParameters
from studies.pocket.critiques import critique_demonstration, verdict_demonstration
from studies.pocket.drills import drills, glances
from studies.pocket.household import CAREFUL, CARELESS
from studies.pocket.household_demonstrations import DrawnGames, Rooms, demonstration, episodes_of, other_goals, play
from studies.pocket.remarks import lessons_of
from studies.pocket.shopping_demonstrations import refined_shopping, shopping_demonstrations

GLANCES_A_PART = 7000
DRILLS_A_PART = 1000
GAMES_A_PART = 25
REVIEWS_A_GAME = 4
SHOPPING_A_PART = 250
SHOPPING_REVIEWS_A_PART = 100


def glances_part(number: int, seed: int) -> Iterator[Demonstration]:
    """The first exercise of all."""
    yield from itertools.islice(glances(seed * 1000 + number), GLANCES_A_PART)


def drills_part(number: int, seed: int) -> Iterator[Demonstration]:
    """Exercises in looking things up, without an environment."""
    yield from itertools.islice(drills(seed * 1000 + number), DRILLS_A_PART)


def household_part(number: int, seed: int) -> Iterator[Demonstration]:
    """The agent's role in ALFWorld, in the rooms of some games."""
    with drawn_rooms(f"household {seed} {number}", GAMES_A_PART) as (rooms, games):
        for task in games.ids(""):
            yield from episodes_of(rooms, task, Dice(f"household {seed} {number} {task}"))


def remarks_part(number: int, seed: int) -> Iterator[Demonstration]:
    """The agent's role in ALFWorld where refusals come with words of all kinds, in the rooms of some games."""
    with drawn_rooms(f"remarks {seed} {number}", GAMES_A_PART) as (rooms, games):
        for task in games.ids(""):
            rules = start_view(rooms.full, task, SPEC.action_format, seed=0).rules
            yield from lessons_of(rooms, task, Dice(f"remarks {seed} {number} {task}"), rules)


def critics_part(number: int, seed: int) -> Iterator[Demonstration]:
    """The critics' roles in ALFWorld and the agent's under a critique, in the rooms of some games."""
    with drawn_rooms(f"critics {seed} {number}", GAMES_A_PART) as (rooms, games):
        for task in games.ids(""):
            dice = Dice(f"critics {seed} {number} {task}")
            for goal in other_goals(task, dice, REVIEWS_A_GAME):
                yield from reviewed(rooms.raw, task, dice, goal)
            _, goal, _ = read_id(task)
            yield from judged(rooms.raw, play(rooms.raw, task, dice, CARELESS, goal=goal).trajectory, dice)


def shopping_part(number: int, seed: int) -> Iterator[Demonstration]:
    """The agent's role in WebShop."""
    yield from itertools.islice(shopping_demonstrations(seed * 1000 + number), SHOPPING_A_PART)


def shopping_critics_part(number: int, seed: int) -> Iterator[Demonstration]:
    """The critic's role in WebShop and the agent's under a critique."""
    yield from itertools.islice(refined_shopping(seed * 1000 + number), SHOPPING_REVIEWS_A_PART)


Part = Callable[[int, int], Iterator[Demonstration]]

PARTS: dict[str, Part] = {
    "glances": glances_part,
    "drills": drills_part,
    "household": household_part,
    "remarks": remarks_part,
    "critics": critics_part,
    "shopping": shopping_part,
    "shopping-critics": shopping_critics_part,
}
"""What a corpus is made of, by name."""


def make_part(name: str, number: int, *, seed: int, folder: Path) -> Path:
    """The file of a part, made if it is not there: one JSON object a line."""
    file = folder / f"{name}-{number:03d}.jsonl"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        lines = [demonstration.model_dump_json(exclude_defaults=True) for demonstration in PARTS[name](number, seed)]
        write_atomically(file, "\n".join(lines) + "\n")
    return file


def read_part(file: Path) -> list[Demonstration]:
    """The demonstrations of a part."""
    return [Demonstration.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]


def digest(files: list[Path]) -> str:
    """SHA-256 in hex over parts in order: which data a model was trained on."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


@contextmanager
def drawn_rooms(seed: str, count: int) -> Iterator[tuple[Rooms, DrawnGames]]:
    """Drawn games with their environments, in a folder that goes away; nothing stays in the user's cache."""
    with tempfile.TemporaryDirectory(prefix="align-echo-") as place:
        games = DrawnGames(seed, count, Path(place) / "games")
        with patch.dict(os.environ, ALIGN_ECHO_CACHE=f"{place}/cache"), closing(Rooms.of(games)) as rooms:
            yield rooms, games


FEWEST_TURNS, MOST_TURNS = 8, 30
LATEST_VERDICT = 10
"""Verdicts are asked within this many turns: each costs the whole chat before it."""


def reviewed(env: gym.Env[str, str], task: str, dice: Dice, goal: TaskParameters) -> list[Demonstration]:
    """An attempt's critique and, where that gives advice and it led to success, the refined attempt."""
    attempt = play(env, task, dice, CARELESS, goal=goal, turns=FEWEST_TURNS + dice.below(MOST_TURNS - FEWEST_TURNS))
    form: Form = "icrl" if dice.chance(0.35) else "echo"
    chat, advice = critique_demonstration(attempt.trajectory, dice, form)
    critique = parse_critique(chat.messages[-1].content, form)
    if critique.is_none:
        return [chat] if dice.chance(0.4) else []
    refined = play(env, task, dice, CAREFUL, goal=goal, critique=critique.advice, search_first=advice.search_first)
    return [chat, demonstration("alfworld.refined", refined)] if refined.fit else [chat]


def judged(env: gym.Env[str, str], trajectory: Trajectory, dice: Dice) -> list[Demonstration]:
    """A right and a wrong action at one turn of an episode that was played in `env`; [] if there are not both."""
    turn = dice.below(min(len(trajectory.steps), LATEST_VERDICT))
    env.reset(seed=0, options={"task": trajectory.task_id})
    for step in trajectory.steps[:turn]:
        env.step(step.action or "")
    view = view_before(trajectory, turn, SPEC.action_format)
    by_verdict: dict[str, Demonstration] = {}
    for action in (trajectory.steps[turn].action or "", *_others(env, trajectory, turn, dice)):
        verdict = label(env, view, action, "nearer")
        if verdict is not None and verdict not in by_verdict:
            by_verdict[verdict] = verdict_demonstration(view, action, verdict)
    return list(by_verdict.values()) if len(by_verdict) == 2 else []


def _others(env: gym.Env[str, str], trajectory: Trajectory, turn: int, dice: Dice) -> list[str]:
    """Other actions for the same state: one sent before or later in the episode, and ones that would be carried out."""
    elsewhere = [step.action or "" for number, step in enumerate(trajectory.steps) if number != turn]
    admissible = sorted(base_env(env).state.admissible_actions or ())
    return dice.shuffled(elsewhere)[:2] + dice.shuffled(admissible)[:4]
