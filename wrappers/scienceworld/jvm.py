"""One running simulator of ScienceWorld: the calls of its engine that are used.

Only what is asked for is computed: upstream's own wrapper lists all valid actions at every step, which takes most of
its time. Left out: the process (`java.py`).
"""

from __future__ import annotations

import os

from align_echo.errors import EngineError
from align_echo.wrappers.cache import cache_folder
from align_echo.wrappers.java import JavaProcess, as_java


class JavaSimulator(JavaProcess):
    """One simulator. Each call raises `EngineError`."""

    def __init__(self) -> None:
        """Raises `MissingExtraError`, `EngineError`."""
        super().__init__(
            *("ScienceWorld", "scienceworld", "scienceworld", "scienceworld.jar"),
            entry="scienceworld.runtime.pythonapi.PythonInterface",
            folder=_folder(),
        )
        self._loaded: tuple[str, int, str, bool] | None = None

    def load(self, task: str, variation: int, simplifications: str, *, gold: bool = False) -> None:
        """Choose a task, which `reset` then builds; `gold` plans its gold path instead (seconds, up to a minute)."""
        wanted = (task, variation, simplifications, gold)
        if wanted != self._loaded:
            self._loaded = None
            self.ask("load", *wanted)
            self.ask("goldPathGenerationEnabled_$eq", False)  # else every later reset of this process plans it again
            self._loaded = wanted

    def reset(self) -> None:
        """Back to the start of the loaded task."""
        self.ask("reset")

    def step(self, action: str) -> str:
        """Carry out one action."""
        return str(self.ask("step", as_java(action)))

    def raw_score(self) -> int:
        """0 to 100, or -100 once the wrong thing was focused on."""
        return round(100 * float(self.ask("getScore")))

    def completed(self) -> bool:
        """The engine holds the task for over."""
        return bool(self.ask("getCompleted"))

    def look(self) -> str:
        """What `look around` shows, without a move."""
        return str(self.ask("freeActionLook"))

    def inventory(self) -> str:
        """What `inventory` shows, without a move."""
        return str(self.ask("freeActionInventory"))

    def task(self) -> str:
        """What `task` shows, without a move."""
        return str(self.ask("freeActionTaskDesc"))

    def goal(self) -> str:
        """The task in words."""
        return str(self.ask("getTaskDescription"))

    def templates(self) -> list[str]:
        """The forms of actions, with OBJ for a thing."""
        return self.listed("getPossibleActions")

    def objects(self) -> list[str]:
        """Names for what can be referred to now."""
        return self.listed("getPossibleObjects")

    def gold_path(self) -> list[str]:
        """The gold path of a task that was loaded with one."""
        return self.listed("getGoldActionSequence")

    def tasks(self) -> list[str]:
        """The names of the engine's tasks."""
        return self.listed("getTaskNames")

    def variations(self) -> dict[str, list[int]]:
        """The loaded task's variations by split."""
        calls = {"train": "getVariationsTrain", "dev": "getVariationsDev", "test": "getVariationsTest"}
        return {split: [int(number) for number in self.listed(call)] for split, call in calls.items()}


def _folder() -> str:
    """A folder to run in. The engine writes a table where it runs, which nobody reads: there it goes nowhere, so that
    all simulators share the folder, and a killed process leaves nothing behind. Raises `EngineError`.
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
