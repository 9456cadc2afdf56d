"""`textworld:FILE` and `textworld:make`: games of TextWorld, made before or made here.

The agent is shown the game's text without the banner before the first room and the status line, which counts turns.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import gymnasium as gym

from align_echo.base.files import cache_folder
from align_echo.errors import MissingDataError, require
from align_echo.wrappers.plain import ACTION_FORMAT, TextEnvironment

TURNS = 50
GAMES = (".z8", ".z5", ".ulx")
WANTED = ("admissible_commands", "command_templates", "max_score", "objective", "policy_commands", "won")
COOKING = {"recipe": 1, "take": 1, "cook": True, "cut": True, "open": True, "go": 1, "drop": False, "split": "train"}
"""Settings of `tw-make tw-cooking` for the games made here: one ingredient to find, cut and cook in one kitchen."""

_STATUS = re.compile(r"\n*> +(-= [^\n]*)?$")


def connect(name: str) -> TextEnvironment:
    """Game file of TextWorld or a folder of them (or of folders: its splits); make: cooking games made from seeds."""
    require(f"textworld:{name}", "textworld", ("textworld", "jericho"))
    splits: Mapping[str, Sequence[object]] = {"train": range(200), "test": range(200, 250)}
    option = ""
    find_file: Callable[[object], Path] = make_game
    if name != "make":
        folder = Path(name)
        splits, option, find_file = _listed(folder), "game", lambda task: folder.parent / str(task)
    templates = _Played(find_file).templates(next(iter(splits.values()))[0])
    return TextEnvironment(
        partial(_Played, find_file),
        splits=splits,
        option=option,
        train_split="train" if "train" in splits else next(iter(splits)),
        test_split="test" if "test" in splits else [*splits][-1],
        step_limit=TURNS,
        summary="cooking games of TextWorld" if name == "make" else f"games of {name}",
        action_format=" | ".join(templates) or ACTION_FORMAT,
        expert=lambda env: next(iter(env.state.policy_commands or ()), None),
        save=lambda env: env.save(),
        restore=lambda env, saved: env.restore(saved),
    )


def _listed(path: Path) -> dict[str, list[str]]:
    """List the games of a file or a folder by split, each by its path from the folder that holds `path`."""
    if not path.exists():
        raise MissingDataError(f"textworld:{path}: there is no such file or folder, and the only other name is make")
    splits: dict[str, list[str]] = {}
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.suffix in GAMES:
            inner = file.relative_to(path).parts
            splits.setdefault(inner[0] if len(inner) > 1 else "games", []).append(str(file.relative_to(path.parent)))
    if not splits:
        raise MissingDataError(f"textworld:{path}: there is no game file in it ({', '.join(GAMES)})")
    return splits


def make_game(seed: object) -> Path:
    """Return the cooking game of a seed, which is made once and kept in the cache folder."""
    import textworld
    from textworld.challenges.tw_cooking import cooking

    cached = cache_folder() / "textworld" / str(textworld.__version__) / f"cooking-{seed}.z8"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cached.parent) as folder:
            options = textworld.GameOptions()
            options.seeds, options.path = int(str(seed)), str(Path(folder) / cached.name)
            game = cooking.make({**COOKING, "recipe_seed": int(str(seed))}, options)
            textworld.generator.compile_game(game, options)
            for ending in (".json", ".z8"):  # the game last, for whoever looks for it meanwhile
                os.replace(Path(options.path).with_suffix(ending), cached.with_suffix(ending))
    return cached


class _Moment(NamedTuple):
    """Moment of a game, for `restore`."""

    file: Path
    memory: Any
    layers: list[dict[str, Any]]
    state: Any
    score: int


def _tracked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a layer tracks of a game; nothing of it changes in place (`_Progression`)."""
    tracked = {name: value for name, value in values.items() if name not in ("_wrapped_env", "_jericho")}
    if "_game_progression" in tracked:
        tracked["_game_progression"] = _Progression(tracked["_game_progression"].known)
    return tracked


class _Progression:
    """TextWorld's progression of a game, which is copied before an action changes it."""

    def __init__(self, known: Any) -> None:
        self.known = known

    def update(self, action: Any) -> None:
        before, self.known = self.known, copy.copy(self.known)  # its own copy() works out what is possible once more
        self.known.state = before.state.copy()
        if before.tracking_quests:
            self.known.quest_progressions = [quest.copy() for quest in before.quest_progressions]
        self.known.update(action)

    def __getattr__(self, name: str) -> Any:
        if name == "known":
            raise AttributeError(name)
        return getattr(self.known, name)


class _Played(gym.Env[str, str]):
    """The game of a task."""

    def __init__(self, find_file: Callable[[object], Path]) -> None:
        self.find_file = find_file
        self.file: Path | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        file = self.find_file((options or {}).get("game", seed))
        if file != self.file:
            self._open(file)
        self.state, self.score = self.game.reset(), 0
        for layer in self._layers():
            if "_game_progression" in vars(layer):
                layer._game_progression = _Progression(layer._game_progression)
        banner, room, text = _STATUS.sub("", self.state.feedback).partition("-= ")
        return (room + text or banner).strip(), self._info()

    def _open(self, file: Path) -> None:
        import textworld

        self.close()
        self.game, self.file = textworld.start(str(file), textworld.EnvInfos(**dict.fromkeys(WANTED, True))), file

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.state, score, over = self.game.step(action)
        reward, self.score = (score - self.score) / (self.state.max_score or 1), score
        return _STATUS.sub("", self.state.feedback).strip(), reward, over, False, self._info()

    def _info(self) -> dict[str, Any]:
        listed = self.state.admissible_commands
        info = {"goal": self.state.objective or "", "won": bool(self.state.won)}
        return info if listed is None else {**info, "admissible_actions": listed}

    def save(self) -> _Moment:
        """Return the present moment: the interpreter's memory, and what each layer of TextWorld tracks beside it."""
        assert self.file is not None
        layers = [_tracked(vars(layer)) for layer in self._layers()]
        return _Moment(self.file, self.game.unwrapped._jericho.get_state(), layers, self.state, self.score)

    def restore(self, moment: _Moment) -> None:
        """Go back to a moment, also of another game."""
        if moment.file != self.file:
            self._open(moment.file)
            self.game.reset()
        self.game.unwrapped._jericho.set_state(moment.memory)
        for layer, tracked in zip(self._layers(), moment.layers, strict=True):
            vars(layer).update(_tracked(tracked))
        self.state, self.score = moment.state, moment.score

    def _layers(self) -> list[Any]:
        """Return the game and the environments it wraps, the outermost first."""
        layers = [self.game]
        while inner := vars(layers[-1]).get("_wrapped_env"):
            layers.append(inner)
        return layers

    def templates(self, task: object) -> list[str]:
        self.reset(seed=0, options={"game": task})
        self.close()
        return self.state.command_templates or []

    def close(self) -> None:
        if self.file is not None:
            self.game.close()
            self.file = None
