"""`minigrid:ID`: levels of MiniGrid and BabyAI, with the agent's own view in words.

Actions are named as in `minigrid.core.actions.Actions`. A level's own turn limit ends an episode.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import gymnasium as gym

from align_echo.errors import UsageError, did_you_mean, first_line, require
from align_echo.wrappers.plain import TextEnvironment

UNKNOWN = "Unknown action."
UNSEEN = ("unseen", "empty", "floor")
TRIED = 20
"""Tasks from which the turn limit is read, where a level sets one for each task."""


def connect(name: str) -> TextEnvironment:
    """Level of MiniGrid or BabyAI (MiniGrid-DoorKey-5x5-v0, BabyAI-GoToRedBallGrey-v0): the agent's view in words."""
    require(f"minigrid:{name}", "minigrid", ("minigrid", "pygame"))
    from minigrid.core.actions import Actions  # importing minigrid registers its levels
    from minigrid.envs.babyai.core import roomgrid_level

    vars(roomgrid_level)["print"] = lambda *_: None  # it prints each draft of a level that it drops
    make = partial(gym.make, name, disable_env_checker=True)
    try:
        level: Any = make().unwrapped
    except gym.error.Error as error:
        levels = [level for level in gym.registry if level.startswith(("MiniGrid-", "BabyAI-"))]
        listed = 'python -c "import gymnasium, minigrid; gymnasium.pprint_registry()" lists them'
        hint = did_you_mean(name, levels)
        raise UsageError(f"minigrid:{name}: {first_line(error).rstrip('.')}; {hint}{listed}") from error
    if not hasattr(level, "agent_view_size"):
        raise UsageError(f"{name} is no level of MiniGrid: their names begin with MiniGrid- or BabyAI-")
    limit = level.max_steps or max(_limit(level, seed) for seed in range(TRIED))
    return TextEnvironment(
        lambda: _View(make()),
        step_limit=limit,
        summary=f"{name} of MiniGrid",
        action_format=" | ".join(action.name for action in Actions),
        save=lambda view: pickle.dumps(view.env),  # a third of the time of a copy
        restore=_View.put,
        is_invalid=lambda text: text == UNKNOWN,
        idle=_View.idle,
    )


def _limit(level: Any, seed: int) -> int:
    level.reset(seed=seed)
    return int(level.max_steps)


class _View(gym.Wrapper[str, str, Any, Any]):
    """What the agent sees, in words."""

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        level: Any = self.env
        seen, _ = level.reset(**options)
        return _in_words(seen["image"]), {"goal": seen["mission"], "won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        from minigrid.core.actions import Actions

        level: Any = self.env
        if action not in Actions.__members__:
            cost = self.idle()
            return UNKNOWN, cost, False, level.unwrapped.step_count >= level.unwrapped.max_steps, {}
        seen, reward, terminated, truncated, _ = level.step(Actions[action])
        return _in_words(seen["image"]), float(reward), terminated, truncated, {"won": terminated and float(reward) > 0}

    def idle(self) -> float:
        """Take a turn without an action: the level's reward shrinks with its steps."""
        level: Any = self.unwrapped
        level.step_count = min(level.step_count + 1, level.max_steps)
        return 0.0

    def put(self, saved: bytes) -> None:
        self.env = pickle.loads(saved)


def _in_words(image: Any) -> str:
    """Write the things in view, each with its place as seen by the agent, at the middle of the lower edge."""
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT, STATE_TO_IDX

    states = {number: word for word, number in STATE_TO_IDX.items()}
    width, depth, _ = image.shape
    seen, carried = [], ""
    for across, column in enumerate(image.tolist()):
        for down, (kind, colour, state) in enumerate(column):
            ahead, right = depth - 1 - down, across - width // 2
            kind_name, near = IDX_TO_OBJECT[kind], (ahead, right) == (1, 0)
            if kind_name in UNSEEN or (kind_name == "wall" and not near):
                continue
            colour_name = IDX_TO_COLOR[colour]
            words = f"{states[state]} {colour_name} door" if kind_name == "door" else f"{colour_name} {kind_name}"
            words = kind_name if kind_name in ("wall", "lava") else words
            places = [f"{ahead} forward"] * (ahead > 0) + [f"{abs(right)} {'right' if right > 0 else 'left'}"] * (
                right != 0
            )
            if places:
                seen.append(f"{words} {', '.join(places)}")
            else:
                carried = f"\nYou carry: {words}"
    return f"You see: {'; '.join(seen) or 'nothing'}{carried}"
