"""Messages of interfaces as golden files: of the shipped ones, and of those that the probe writes for made-up worlds.

`python -m tests.conformance.messages [NAME ...]` writes them. A line is an episode: its task, the opening with the
rules, and each action with what the agent reads, where `{raw}` stands for the environment's own observation.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

import align_echo
from align_echo.evaluate.audit.speakers import AdversarySpeaker
from align_echo.rollout.session import base_env
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv
from tests.worlds.env import WorldEnv
from tests.worlds.measure import Size, learn
from tests.worlds.worlds import held_out_tasks, make_world, task_of

GOLDEN = Path(__file__).parent / "golden" / "messages"

RAW = "{raw}"

GAMES = {"alfworld": (6, 40), "scienceworld": (6, 25), "textworldexpress": (12, 30), "webshop": (6, 20)}
"""Number of games and turns by environment."""

ERRING = {"wrong_words": 1, "skipped": 1}
WORLDS: dict[str, dict[str, Any]] = {
    "world-1": {
        "spelling": "numbers", "refusal": "one", "listed": True, "depth": 1, "travel": "none", "whence": False,
        "undo": True, "goal": "stow", "looks": False, "shown": True, **ERRING,
    },
    "world-2": {"spelling": "words", "refusal": "quoted", "listed": True, "offers": False, "depth": 2, **ERRING},
    "world-3": {"spelling": "capitals", "refusal": "silent", "listed": True, "depth": 2, **ERRING},
    "world-4": {"spelling": "numbers", "refusal": "several", "listed": False, "offers": True, "depth": 2, **ERRING},
    "world-6": {"spelling": "numbers", "refusal": "one", "listed": False, "offers": False, "depth": 2, **ERRING},
}  # fmt: skip
"""Features of the made-up world of each seed; the others are drawn."""

WORLD_SIZE = Size(train=6, fresh=6)
WORLD_GAMES = 4
WORLD_TURNS = 25


Turn = tuple[str, str]
"""An action with what the agent reads."""


class Episode(NamedTuple):
    """An episode under the shipped interface: the task, the opening with the rules, and the turns."""

    task: str
    opening: str
    turns: list[Turn]


Speak = Callable[[TextEnv, str, int], str | None]
"""The next action, from the environment, the last text and the number of the turn; None ends the episode."""


def play(env: gym.Env[str, str], task: str, speak: Speak) -> Episode:
    """Play a task of an environment under an interface."""
    text, info = env.reset(options={"task": task})
    episode = Episode(task, text.replace(info["raw_observation"], RAW), [])
    base = base_env(env)
    over = False
    while not over and (action := speak(base, info["raw_observation"], len(episode.turns))) is not None:
        text, _, terminated, truncated, info = env.step(action)
        raw = info["raw_observation"]
        episode.turns.append((action, text.replace(raw, RAW) if raw else text))
        over = terminated or truncated
    env.close()
    return episode


def env_maker(name: str) -> Callable[[], gym.Env[str, str]]:
    """Return a maker of an environment under its shipped interface, or of a world under the one that is learned now."""
    if name not in WORLDS:
        return lambda: align_echo.make(name, split=environment(name).test_split, interface="probe")
    world = make_world(int(name.removeprefix("world-")), **WORLDS[name])
    interface, refused = learn(world, WORLD_SIZE)
    assert not refused, refused
    return lambda: AlignWrapper(WorldEnv(world, held_out_tasks(world, WORLD_GAMES)), interface)


def adversary(task: str, turns: int) -> Speak:
    """A speaker that plays possible actions and any that could provoke a message, by the task's name alone."""
    rng = random.Random(f"messages of {task}")
    speaker = AdversarySpeaker(rng)

    def speak(env: TextEnv, text: str, number: int) -> str | None:
        if number == turns:
            return None
        speaker.see(env, text)
        action = rng.choice(speaker.allowed or ["look"])
        for _, provoking in speaker.draws(int(rng.random() < 0.6 or not speaker.allowed)):
            action = provoking
        if isinstance(env, WorldEnv) and rng.random() < 0.6:
            action = rng.choice(sayings(env))
        speaker.utterances.append(action)
        return action

    return speak


def sayings(env: WorldEnv) -> list[str]:
    """List what can be said in a task of a made-up world, whether possible or not, and what its agents say instead."""
    said = task_of(env.world, str(env.info(None)["task_id"])).actions
    wrong = {
        env.world.wrong[form.role].format(*(names[kind] for kind in form.kinds))
        for form, names in said.values()
        if form.role in env.world.wrong
    }
    return sorted({*said, *wrong})


def again(turns: Sequence[Turn]) -> Speak:
    """A speaker that says what was said."""
    return lambda env, text, number: turns[number][0] if number < len(turns) else None


def read(name: str) -> list[Episode]:
    """Read an environment's golden episodes."""
    lines = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Episode(task, opening, [*map(tuple, turns)]) for task, opening, turns in map(json.loads, lines)]


def record(name: str) -> list[Episode]:
    """Play the episodes of an environment's golden file."""
    make = env_maker(name)
    if name in WORLDS:
        chosen, turns = list(base_env(make()).task_ids), WORLD_TURNS
    else:
        count, turns = GAMES[name]
        ids = align_echo.tasks(name, split=environment(name).test_split)
        chosen = ids[:: max(1, len(ids) // count)][:count]
    return [play(make(), task_id, adversary(task_id, turns)) for task_id in chosen]


def main() -> None:
    """Write the golden files: of all, or of the names given."""
    GOLDEN.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [*GAMES, *WORLDS]:
        lines = [json.dumps(episode, ensure_ascii=False) for episode in record(name)]
        (GOLDEN / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
