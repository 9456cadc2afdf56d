"""A plain `gymnasium.Env` over strings, as a stranger writes one: two doors, and the right one is behind the left."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

REFUSED = "You can't do that."


class Doors(gym.Env[str, str]):
    """Find the right door. Leads on by words; info tells nothing."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium's own convention
    observation_space = gym.spaces.Text(1000)
    action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.right = ("red", "green")[int(self.np_random.integers(2))]
        self.opened: list[str] = []
        return f"Two doors, a red and a green one. The {self.right} one leads out.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        verb, _, door = action.partition(" ")
        if verb != "open" or door not in ("red", "green"):
            return REFUSED, 0.0, False, False, {}
        self.opened.append(door)
        if door == self.right:
            return "You are out.", 2.0, True, False, {}
        return "A broom cupboard.", -1.0, False, len(self.opened) > 3, {}
