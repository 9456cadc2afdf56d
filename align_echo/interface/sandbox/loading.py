"""Check that an interface loads: run its module level once in the sandbox, and look up what its functions need.

Runs before any episode. The interpreter runs in its own process, without the pool of `pool.py`: a process that used
the pool can no longer fork, and one that only makes environments can. There is no engine, no file system, no network
and nothing of this process. Results are cached by source and limits. If the module level calls the operating system,
the source is loaded in a session instead, as an episode does.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
from collections.abc import Collection
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from align_echo.errors import EngineError, InterfaceError
from align_echo.interface.contract import Interface, InterfaceContract
from align_echo.interface.sandbox.pool import SandboxWorker
from align_echo.interface.sandbox.source import EXPECT, EXPECT_FUNCTION, PreparedSource, prepare
from align_echo.interface.sandbox.wording import described, one_line

if TYPE_CHECKING:
    import pydantic_monty

# ---------------------------------------------------------------- code around interface code

NEXT = "_align_next"
"""Name of the function that passes a turn's result to the host and waits for the next action."""

_PROXIES = {"batched": "_AlignBatchedEnv", "triple": "_AlignTripleEnv"}
_STAND_INS = re.compile(r"^# -{20,} (.+)\n", re.MULTILINE)
_STATES = 32
"""Maximum number of stored states, the most recently used: 40 KB each, or a few 100 KB with a source."""


class StateKey(NamedTuple):
    """Key of a state, besides the source: the layout of `env.step`, the replaced modules, and the limits of its
    sessions, in seconds and bytes.
    """

    layout: str
    stood_in: frozenset[str]
    seconds: float
    memory: int


_states: dict[tuple[StateKey, str], bytes] = {}


def begin(session: pydantic_monty.MontySession, key: StateKey, source: str = "") -> None:
    """Bring a new session to the state after running prepared source, which must only define
    (`PreparedSource.only_defines`).

    Without a source, only the prelude has run. Raises `MontyError` if the source fails, or the limits are too small.
    """
    state = _states.pop((key, source), None)
    if state is not None:
        _states[key, source] = state
        session.load_session(state)
        return
    if source:
        begin(session, key)
    session.feed_run(source or prelude(key.layout, key.stood_in))
    for oldest in list(_states)[: len(_states) + 1 - _STATES]:
        _states.pop(oldest, None)
    _states[key, source] = session.dump()


def prelude(layout: str, stood_in: Collection[str]) -> str:
    """Return the text that runs before interface code.

    It contains `prelude.py`, the parts of `stdlib.py` and `stdlib_logging.py` for these modules, and the interface's
    `env`.
    """
    proxy = _PROXIES.get(layout, "_AlignSingleEnv")
    first, *parts = _STAND_INS.split(_text("stdlib") + _text("stdlib_logging"))
    named = zip(parts[::2], parts[1::2], strict=True)
    wanted = [part for names, part in named if not set(names.split(", ")).isdisjoint(stood_in)]
    return "\n".join([_text("prelude"), first, *wanted, f"_align_env = {proxy}()\n"])


def loop(contract: InterfaceContract) -> str:
    """Return the loop that calls `WrapStep` for each turn's action, or `InferRules` if the action is None."""
    rules = _call("InferRules", contract.infer_rules_args)
    step = _call("WrapStep", contract.wrap_step_args)
    return f"""
while True:
    if _align_agent_action is None:
        _align_value = _align_rules({rules})
    else:
        _align_value = _align_returned({step}, {contract.step_layout!r})
    _align_agent_action = {NEXT}(_align_value)
"""


def _call(function: str, arguments: tuple[str, ...]) -> str:
    return f"{function}({', '.join(f'_align_{name}' for name in arguments)})"


def _text(part: str) -> str:
    return resources.files("align_echo.interface.sandbox").joinpath(f"{part}.py").read_text(encoding="utf-8")


# ---------------------------------------------------------------- check that an interface loads

SECONDS, MEMORY = 2.0, 64 * 2**20
"""Limits of loading: interpreter seconds, and bytes. A session has the same (`Sandbox`)."""

_PATIENCE = 30.0
"""Seconds after which the process is killed."""

_LONGEST_ERROR = 200_000
"""Maximum bytes read of an error."""

_PROGRAM = "interface.py"
_INTERFACE_FEED = "<python-input-1>"
"""File name of the source in a session: the feed after the prelude."""

_ASKS_SYSTEM = "NotImplementedError: OS function"
_FRAME = re.compile(rf'^  File ".*{re.escape(_PROGRAM)}", line (\d+)')
_ENVIRONMENTS = ("_AlignBatchedEnv", "_AlignSingleEnv", "_AlignTripleEnv")
_HOLDERS = ("module", "_AlignModule", "_AlignLogger", "_AlignHandler", "_AlignAdapter", *_ENVIRONMENTS)
"""Types with known attributes."""

_EXPECTATIONS = f"""
def {EXPECT}(owner, name, owner_name):
    if type(owner).__name__ in {_HOLDERS!r}:
        try:
            lacks = not hasattr(owner, name)
        except TypeError:
            lacks = False
        if lacks:
            raise AttributeError(owner_name + " has no attribute '" + name + "' in the sandbox")
def {EXPECT_FUNCTION}(value, name):
    if not hasattr(value, "__call__") and type(value).__name__ not in ("function", "builtin_function_or_method"):
        raise TypeError(name + " is no function but " + type(value).__name__)
"""

_checking = threading.Lock()


def check_loads(interface: Interface, called: str = "") -> None:
    """Refuse an interface whose code does not load.

    Raises `InterfaceError`, one line that begins with the interface's name, or with `called` instead.
    """
    try:
        check_source_loads(interface.source, interface.contract)
    except InterfaceError as error:
        raise InterfaceError(f"the interface {called or interface.name} does not load: {error}") from error


def check_source_loads(
    source: str, contract: InterfaceContract, *, seconds: float = SECONDS, memory: int = MEMORY
) -> None:
    """Refuse source that does not load. Raises `InterfaceError`, one line, and `EngineError` without an interpreter."""
    with _checking:
        problem = _problem(source, contract, seconds, memory)
    if problem:
        raise InterfaceError(problem)


@lru_cache(maxsize=64)
def _problem(source: str, contract: InterfaceContract, seconds: float, memory: int) -> str:
    """Return why source does not load; "" if it does."""
    prepared = prepare(source, contract)
    before = prelude(contract.step_layout, prepared.stood_in).split("\n")
    text = prepared.text.split("\n")
    program = [*before, *text, *_EXPECTATIONS.split("\n"), *(need.code for need in prepared.needs)]
    status, error = _run("\n".join(program), seconds, memory)
    if status == 0:
        return ""
    summary, lines = _read_error(error)
    if summary.startswith(_ASKS_SYSTEM):
        return _problem_in_session(prepared, contract, seconds, memory)
    if not summary:
        return f"the sandbox stopped the interface: it ended with status {status}"
    return described(summary, _author_line(prepared, lines, len(before), len(program) - len(prepared.needs)))[1]


def _problem_in_session(source: PreparedSource, contract: InterfaceContract, seconds: float, memory: int) -> str:
    """Check as `_problem` does, in a worker of the pool, where operating system calls are answered as in an episode."""
    import pydantic_monty

    worker = SandboxWorker(seconds, memory)
    try:
        assert worker.session is not None
        begin(worker.session, StateKey(contract.step_layout, source.stood_in, seconds, memory))
        worker.session.feed_run(source.text)
        worker.session.feed_run("\n".join([*_EXPECTATIONS.split("\n"), *(need.code for need in source.needs)]))
    except pydantic_monty.MontyError as error:
        return describe(error, source)[1]
    finally:
        worker.close()
    return ""


def describe(error: pydantic_monty.MontyError, source: PreparedSource) -> tuple[bool, str]:
    """Return True if the session survives an error, and the error in one line."""
    from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

    if not isinstance(error, MontyRuntimeError | MontySyntaxError):
        message = one_line(str(error))
        return not isinstance(error, MontyCrashedError), f"the sandbox stopped the interface: {message}"
    lines = [frame.line for frame in error.traceback() if frame.filename == _INTERFACE_FEED]
    return described(one_line(error.display("type-msg")), source.author_line(lines[-1]) if lines else None)


def _author_line(source: PreparedSource, lines: list[int], before: int, needs: int) -> int | None:
    """Map the program's `lines` to the author's line of the innermost frame in the author's code."""
    for line in reversed(lines):
        if before < line <= before + len(source.lines):
            return source.author_line(line - before)
        if line > needs:
            return source.needs[min(line - needs, len(source.needs)) - 1].line
    return None


def _run(program: str, seconds: float, memory: int) -> tuple[int, str]:
    """Run a program in a separate interpreter. Return its exit status, and the beginning of its error output."""
    from pydantic_monty._binary import find_monty_binary

    limits = ["--max-feed-duration", f"{seconds:f}", "--max-memory", str(memory), "--max-sleep", "0"]
    with tempfile.TemporaryDirectory(prefix="align-echo-") as folder:
        Path(folder, _PROGRAM).write_text(program, encoding="utf-8")
        try:
            process = subprocess.Popen(
                [find_monty_binary(), *limits, _PROGRAM], cwd=folder, env={}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise EngineError(f"the interface sandbox does not start: {error}") from error
        with process:
            guard = threading.Timer(_PATIENCE, process.kill)
            guard.start()
            try:
                assert process.stderr is not None
                error_text = process.stderr.read(_LONGEST_ERROR)
                if len(error_text) == _LONGEST_ERROR:
                    process.kill()
                status = process.wait()
            finally:
                guard.cancel()
                process.kill()
    return status, error_text.decode(errors="replace")


def _read_error(text: str) -> tuple[str, list[int]]:
    """Return "Kind: message" of an error, and the program's line numbers from the outermost frame on."""
    _, _, error_text = text.partition("error: ") if "error: " in text.partition("\n")[0] else text.partition("error:\n")
    lines = error_text.split("\n")
    frames = [int(match[1]) for match in map(_FRAME.match, lines) if match]
    rest = [number for number, line in enumerate(lines) if line and line[0] != " " and not line.startswith("Traceback")]
    return (one_line("\n".join(lines[rest[0] :])) if rest else "", frames)
