"""`gymnasium:ID`: toy_text in words, and every environment over strings as it is.

A toy_text environment shows its rendering. Its coloured squares, where something stands, are written `[red S]`.
"""

from __future__ import annotations

import copy
import inspect
import re
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.toy_text import BlackjackEnv

from align_echo.errors import UsageError, first_line
from align_echo.wrappers.plain import TextEnvironment

ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "TaxiEnv": ("south", "north", "east", "west", "pickup", "dropoff"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "BlackjackEnv": ("stick", "hit"),
}
"""Words for the actions of each class, in the order of their numbers."""

TURNS = 200
"""Turns of an episode where gymnasium sets no limit."""

STEP = {"TaxiEnv": -1.0, "CliffWalkingEnv": -1.0}
"""Reward of a step that does nothing, such as one into a wall; 0 elsewhere."""

UNKNOWN = "Unknown action."
RETURNS = {"TaxiEnv": (-10.0 * TURNS, 20.0), "CliffWalkingEnv": (-100.0 * TURNS, 0.0), "BlackjackEnv": (-1.0, 1.0)}
COLOURS = {"41": "red", "42": "green", "43": "yellow", "34;1": "blue", "35": "magenta"}
_COLOURED = re.compile(r"\x1b\[(?!0m)([\d;]+)m([^\x1b]*)\x1b\[0m")


def connect(name: str) -> TextEnvironment:
    """Toy_text of gymnasium in words (FrozenLake-v1, Taxi-v4, ...), or any registered environment over strings."""
    try:
        if ":" in name:
            raise UsageError(f"gymnasium:{name}: leave out gymnasium: before a module; write --env {name}")
        limit = gym.spec(name).max_episode_steps or TURNS
        env = gym.make(name, disable_env_checker=True).unwrapped
    except gym.error.Error as error:
        listed = 'python -c "import gymnasium; gymnasium.pprint_registry()" lists them'
        raise UsageError(f"gymnasium:{name}: {first_line(error).rstrip('.')}; {listed}") from error
    kind = type(env).__name__
    if isinstance(env.observation_space, gym.spaces.Text) and isinstance(env.action_space, gym.spaces.Text):
        return TextEnvironment(partial(gym.make, name, disable_env_checker=True), step_limit=limit)
    if kind not in ACTIONS:
        raise UsageError(
            f"{name} is no environment over text, and words for its actions are not known: write a class with reset "
            "and step over text around it, and name that as --env module:Name (docs/extending.md#an-environment)"
        )
    lists = kind == "TaxiEnv"  # a list tells more: it leaves out ways into a wall
    mode = "ansi" if "ansi" in env.metadata["render_modes"] else None
    return TextEnvironment(
        lambda: _ToyText(gym.make(name, render_mode=mode, max_episode_steps=limit, disable_env_checker=True)),
        return_range=RETURNS.get(kind, (0.0, 1.0)),
        step_limit=limit,
        summary=f"{name} of gymnasium",
        goal=" ".join((inspect.getdoc(type(env)) or "").strip().partition("\n\n")[0].split()),
        action_format=" | ".join(ACTIONS[kind]),
        is_invalid=None if lists else lambda text: text == UNKNOWN,
        save=_ToyText.copied,
        restore=_ToyText.put,
        idle=_ToyText.idle,
    )


class _ToyText(gym.Wrapper[str, str, Any, Any]):
    """Words for the actions, and the rendering as observation."""

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        seen, info = self.env.reset(**options)
        self.last_info = self._info(info, False)
        self.staked = 0.0
        return self._shown(seen), self.last_info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        words = ACTIONS[type(self.unwrapped).__name__]
        if action not in words:
            cost = self.idle()
            return UNKNOWN, cost, False, self._left() <= 0, self.last_info
        inner: Any = self.env
        seen, reward, terminated, truncated, info = inner.step(words.index(action))
        lost = float(reward) <= 0 and type(self.unwrapped).__name__ in ("FrozenLakeEnv", "BlackjackEnv")
        self.last_info = self._info(info, terminated and not lost)
        stake = self.staked if terminated else 0.0
        return self._shown(seen), float(reward) + stake, terminated, truncated, self.last_info

    def idle(self) -> float:
        """Take a turn without one of the words and return its reward: a step's that does nothing. A hand of Blackjack
        is lost from then on, unless it is played to its end."""
        if self._left() <= 0:
            return 0.0
        clock: Any = self.env
        clock._elapsed_steps += 1
        if isinstance(self.unwrapped, BlackjackEnv):
            stake, self.staked = 1.0 - self.staked, 1.0
            return -stake
        return STEP.get(type(self.unwrapped).__name__, 0.0)

    def _left(self) -> int:
        clock: Any = self.env
        return int(clock._max_episode_steps - clock._elapsed_steps)

    def _shown(self, seen: Any) -> str:
        if isinstance(seen, tuple):  # Blackjack has no rendering as text
            return "player's current sum: {}, dealer's showing card: {}, usable ace: {}".format(*seen)
        text, squares = str(self.env.render()), 1
        while squares:  # a square may have up to three colours: taxi, passenger and destination
            text, squares = _COLOURED.subn(lambda square: f"[{COLOURS.get(square[1], square[1])} {square[2]}]", text)
        return text

    def _info(self, info: dict[str, Any], won: bool) -> dict[str, Any]:
        if "action_mask" not in info:
            return {"won": won}
        words = zip(ACTIONS[type(self.unwrapped).__name__], info["action_mask"], strict=True)
        return {"won": won, "admissible_actions": [word for word, acts in words if acts]}

    def copied(self) -> tuple[gym.Env[Any, Any], float]:
        table = getattr(self.unwrapped, "P", None)  # never changes
        return copy.deepcopy(self.env, {id(table): table}), self.staked

    def put(self, saved: tuple[gym.Env[Any, Any], float]) -> None:
        self.env, self.staked = saved
        self.env, _ = self.copied()
