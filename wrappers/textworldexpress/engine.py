"""Running simulator of TextWorldExpress: one call to Java a step, while upstream's own wrapper makes two.

The process is in `java.py`.
"""

from __future__ import annotations

import json
from typing import Any

from align_echo.errors import EngineError
from align_echo.wrappers.java import JavaProcess, as_java
from align_echo.wrappers.textworldexpress.spec import SEEDS

Answer = dict[str, Any]
"""The engine's JSON: `observation`, `look`, `inventory`, `validActions`, `score` (-1 to 1), `tasksuccess`,
`taskfailure`."""


class ExpressSimulator(JavaProcess):
    """TextWorldExpress simulator. Each call raises `EngineError`."""

    def __init__(self) -> None:
        """Start the simulator. Raises `MissingExtraError`, `EngineError`."""
        super().__init__(
            *("TextWorldExpress", "textworldexpress", "textworld_express", "textworld-express.jar"),
            entry="textworldexpress.runtime.PythonInterface",
        )
        self._game = ""

    def start(self, game: str, seed: int, *, gold: bool = False) -> Answer:
        """Generate a game of the default size and start it; with `gold`, plan its gold path as well."""
        if game != self._game:
            self._game = ""
            if problem := self.ask("load", game, ""):
                raise EngineError(f"the simulator cannot load {game}: {problem}")
            self._game = game
        fold = next(fold for fold, seeds in SEEDS.items() if seed in seeds)
        return self._read(self.ask("generateNewGameJSON", seed, fold, gold))

    def step(self, action: str) -> Answer:
        """Carry out an action and return the answer."""
        return self._read(self.ask("stepJSON", as_java(action)))

    def goal(self) -> str:
        """Return the task description."""
        return str(self.ask("getTaskDescription"))

    def gold_path(self) -> tuple[str, ...]:
        """Return the gold path of a game started with `gold`."""
        return tuple(self.listed("getGoldActionSequence"))

    def _read(self, answer: object) -> Answer:
        """Parse an answer. An unreadable answer ends the process."""
        try:
            read: Answer = json.loads(str(answer))
            read["observation"], read["validActions"], float(read["score"])
        except (ValueError, TypeError, KeyError) as error:
            self.close()
            raise EngineError(f"the simulator's answer cannot be read: {str(answer)[:80]!r}") from error
        return read
