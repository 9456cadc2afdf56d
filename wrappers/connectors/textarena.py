"""`textarena:GAME`: single-player games of TextArena. The agent is shown the game's new messages to it.

Games with words of English need data of nltk, which TextArena downloads itself.
"""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import gymnasium as gym

from align_echo.errors import MissingDataError, UsageError, did_you_mean, first_line, require
from align_echo.wrappers.plain import ACTION_FORMAT, TextEnvironment

TURNS = 100
"""Turns of a game without a limit of its own. A game does not count refused moves, so an episode has twice as many."""

_WANTED = re.compile(r"nltk\.download\('[^']*'\)")
"""What the error of nltk says to call."""


def connect(name: str) -> TextEnvironment:
    """Single-player game of TextArena (TowerOfHanoi-v0, Minesweeper-v0-small): the game's own messages."""
    require(f"textarena:{name}", "textarena", ("textarena", "nltk", "chess", "requests", "websockets", "dotenv"))
    import textarena as ta

    games = [game.removesuffix("-raw") for game in ta.envs.registration.ENV_REGISTRY if game.endswith("-raw")]
    game = next((game for game in (name, f"{name}-v0") if game in games), "")
    if not game:
        listed = 'python -c "import textarena; print(*textarena.envs.registration.ENV_REGISTRY)" lists them'
        raise UsageError(f"TextArena has no game {name!r}; {did_you_mean(name, games)}{listed}")
    outside, first = random.getstate(), _Game(game)
    try:
        first.reset(seed=0)
    except LookupError as error:
        wanted = ", ".join(_WANTED.findall(str(error))) or first_line(error)
        raise MissingDataError(f"textarena:{name} needs data of nltk: {wanted}") from error
    except Exception as error:
        raise UsageError(f"textarena:{name} cannot be played alone: {first_line(error)}") from error
    finally:
        random.setstate(outside)
    if not isinstance(first.game.state, ta.SinglePlayerState):
        raise UsageError(f"textarena:{name} is no game for a single player")
    moves = dict.fromkeys(re.findall(r"\[[^\[\]\n]{1,20}\]", first.prompt))
    return TextEnvironment(
        lambda: _Game(game),
        step_limit=2 * (first.game.state.max_turns or TURNS),
        summary=f"{game} of TextArena",
        goal=first.prompt.strip().partition("\n")[0],
        action_format=" | ".join(moves) or ACTION_FORMAT,
        is_invalid=lambda text: "attempted an invalid move. Reason: " in text,
        global_random=True,
        save=lambda env: copy.deepcopy(env.game),
        restore=_Game.put,
    )


class _Game(gym.Env[str, str]):
    """A game for one player."""

    def __init__(self, name: str) -> None:
        self.name = name

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        import textarena as ta

        self.game = ta.make(f"{self.name}-raw")
        self.game.reset(num_players=1, seed=seed)
        messages = self.game.get_observation()[1]
        self.prompt = "\n".join(text for _, text, kind in messages if kind == ta.ObservationType.PROMPT)
        return "\n".join(text for _, text, _ in messages), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        import textarena as ta

        over, _ = self.game.step(action)
        text = "\n".join(
            text for _, text, kind in self.game.get_observation()[1] if kind != ta.ObservationType.PLAYER_ACTION
        )
        if not over:
            return text, 0.0, False, False, {"won": False}
        rewards, info = self.game.close()
        reward = min(max(float(rewards[0]), 0.0), 1.0)
        return f"{text}\n{info[0].get('reason', '')}".strip(), reward, True, False, {"won": reward == 1}

    def put(self, game: Any) -> None:
        self.game = copy.deepcopy(game)
