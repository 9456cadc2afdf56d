"""Messages of the shipped interfaces, as golden files: `python -m tests.conformance.messages` writes them.

A line is an episode: its task, the opening with the rules, and each action with what the agent reads, where `{raw}`
stands for the environment's own observation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import align_echo
from align_echo.align.audit.audit import AdversarySpeaker
from align_echo.rollout.session import base_env
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv

GOLDEN = Path(__file__).parent / "golden" / "messages"

RAW = "{raw}"

GAMES = {"alfworld": (6, 40), "scienceworld": (6, 25), "textworldexpress": (12, 30), "webshop": (6, 20)}
"""Number of games and turns by environment."""


Turn = tuple[str, str]
"""An action with what the agent reads."""


class Episode(NamedTuple):
    """An episode under the shipped interface: the task, the opening with the rules, and the turns."""

    task: str
    opening: str
    turns: list[Turn]


Speak = Callable[[TextEnv, str, int], str | None]
"""The next action, from the environment, the last text and the number of the turn; None ends the episode."""


def play(name: str, task: str, speak: Speak) -> Episode:
    """Play a task under the shipped interface."""
    env = align_echo.make(name, split=environment(name).test_split, interface="probe")
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
        speaker.utterances.append(action)
        return action

    return speak


def again(turns: Sequence[Turn]) -> Speak:
    """A speaker that says what was said."""
    return lambda env, text, number: turns[number][0] if number < len(turns) else None


def read(name: str) -> list[Episode]:
    """Read an environment's golden episodes."""
    lines = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Episode(task, opening, [*map(tuple, turns)]) for task, opening, turns in map(json.loads, lines)]


def record(name: str) -> list[Episode]:
    """Play the episodes of an environment's golden file."""
    count, turns = GAMES[name]
    ids = align_echo.tasks(name, split=environment(name).test_split)
    return [play(name, task_id, adversary(task_id, turns)) for task_id in ids[:: max(1, len(ids) // count)][:count]]


def main() -> None:
    """Write the golden files."""
    GOLDEN.mkdir(exist_ok=True)
    for name in GAMES:
        lines = [json.dumps(episode, ensure_ascii=False) for episode in record(name)]
        (GOLDEN / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
