"""Running simulator of ScienceWorld, reduced to the engine calls in use.

Values are computed only on request: upstream's own wrapper lists all valid actions at every step, which takes most of
its time. The process is in `java.py`.
"""

from __future__ import annotations

import os

from align_echo.errors import EngineError
from align_echo.wrappers.cache import cache_folder
from align_echo.wrappers.java import JavaProcess, as_java


class JavaSimulator(JavaProcess):
    """ScienceWorld simulator. Each call raises `EngineError`."""

    def __init__(self) -> None:
        """Start the simulator. Raises `MissingExtraError`, `EngineError`."""
        super().__init__(
            *("ScienceWorld", "scienceworld", "scienceworld", "scienceworld.jar"),
            entry="scienceworld.runtime.pythonapi.PythonInterface",
            folder=_folder(),
        )
        self._loaded: tuple[str, int, str, bool] | None = None

    def load(self, task: str, variation: int, simplifications: str, *, gold: bool = False) -> None:
        """Choose the task for the next `reset`; with `gold`, plan its gold path instead (seconds, up to a minute)."""
        wanted = (task, variation, simplifications, gold)
        if wanted != self._loaded:
            self._loaded = None
            self.ask("load", *wanted)
            self.ask("goldPathGenerationEnabled_$eq", False)  # otherwise every later reset plans it again
            self._loaded = wanted

    def reset(self) -> None:
        """Return to the start of the loaded task."""
        self.ask("reset")

    def step(self, action: str) -> str:
        """Carry out an action and return the observation."""
        return str(self.ask("step", as_java(action)))

    def raw_score(self) -> int:
        """Return the score, 0 to 100, or -100 after focusing on the wrong object."""
        return round(100 * float(self.ask("getScore")))

    def completed(self) -> bool:
        """Check if the engine considers the task over."""
        return bool(self.ask("getCompleted"))

    def look(self) -> str:
        """Return the text of `look around`, without a move."""
        return str(self.ask("freeActionLook"))

    def inventory(self) -> str:
        """Return the text of `inventory`, without a move."""
        return str(self.ask("freeActionInventory"))

    def task(self) -> str:
        """Return the text of `task`, without a move."""
        return str(self.ask("freeActionTaskDesc"))

    def goal(self) -> str:
        """Return the task description."""
        return str(self.ask("getTaskDescription"))

    def templates(self) -> list[str]:
        """Return the forms of actions, with OBJ for an object."""
        return self.listed("getPossibleActions")

    def objects(self) -> list[str]:
        """Return the names of objects that can be referred to now."""
        return self.listed("getPossibleObjects")

    def gold_path(self) -> list[str]:
        """Return the gold path of a task loaded with `gold`."""
        return self.listed("getGoldActionSequence")

    def tasks(self) -> list[str]:
        """Return the names of the engine's tasks."""
        return self.listed("getTaskNames")

    def variations(self) -> dict[str, list[int]]:
        """Return the loaded task's variations by split."""
        calls = {"train": "getVariationsTrain", "dev": "getVariationsDev", "test": "getVariationsTest"}
        return {split: [int(number) for number in self.listed(call)] for split, call in calls.items()}


def _folder() -> str:
    """Return a working folder for simulators. Raises `EngineError`.

    The engine writes an unused table to its working folder. Here the table is a link to the null device, so all
    simulators share the folder and a killed process leaves no file.
    """
    folder = cache_folder() / "scienceworld"
    table = folder / "object_type_ids.tsv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not table.is_symlink():
            table.symlink_to(os.devnull)
    except FileExistsError:  # another process was faster
        pass
    except OSError as error:
        raise EngineError(
            f"the simulator needs a folder to run in, and {folder} cannot be made ({error.strerror}): "
            "set ALIGN_ECHO_CACHE to a folder that can be written"
        ) from error
    return str(folder)
