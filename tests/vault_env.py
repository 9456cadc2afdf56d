"""A plain `gymnasium.Env` for tests: a coin in one of three boxes, each of which has to be unlocked before it opens.

Three agents: one that never unlocks a box unless it is told to, one that never does as it is told, and one that wins.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym

from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.plain import TextEnvironment


class Vault(gym.Env[str, str]):
    """Take the coin."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium's own convention
    observation_space = gym.spaces.Text(1000)
    action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.coin = f"box {self.np_random.integers(1, 4)}"
        self.unlocked: set[str] = set()
        self.opened: set[str] = set()
        return f"Here are box 1, box 2, and box 3. The coin is in {self.coin}: take it.", self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        verb, _, box = action.partition(" ")
        if action not in self._info()["admissible_actions"]:
            return "No.", 0.0, False, False, self._info()
        if verb == "empty":
            won = box == self.coin
            return f"You have emptied {box}.", float(won), won, False, self._info()
        (self.unlocked if verb == "unlock" else self.opened).add(box)
        return f"Now {box} is {verb}ed.", 0.0, False, False, self._info()

    def _info(self) -> dict[str, Any]:
        boxes = [f"box {number}" for number in (1, 2, 3)]
        listed = [f"unlock {box}" for box in boxes if box not in self.unlocked]
        listed += [f"open {box}" for box in boxes if box in self.unlocked - self.opened]
        return {"admissible_actions": [*listed, *(f"empty {box}" for box in boxes if box in self.opened)]}


def declared() -> TextEnvironment:
    return TextEnvironment(Vault, step_limit=8, is_invalid=lambda observation: observation == "No.")


VAULT = declared()


class Stubborn:
    """Opens the box, whatever it is told."""

    name = "opener"
    heeds = False

    def act(self, view: AgentView) -> AgentReply:
        box = re.findall(r"coin is in (box \d)", view.initial_observation)[0]
        told = re.findall(r"`([^`]+)` first", view.turns[-1].observation) if view.turns and self.heeds else []
        opened = any(turn.observation.startswith(f"Now {box} is open") for turn in view.turns)
        action = told[0] if told else f"empty {box}" if opened else f"open {box}"
        return AgentReply(text=action, action=action)


class Obedient(Stubborn):
    """Opens the box, and does first what it is told to do first."""

    heeds = True


class Clever(Stubborn):
    """Unlocks the box, opens it and empties it."""

    def act(self, view: AgentView) -> AgentReply:
        box = re.findall(r"coin is in (box \d)", view.initial_observation)[0]
        action = f"{('unlock', 'open', 'empty')[len(view.turns)]} {box}"
        return AgentReply(text=action, action=action)
