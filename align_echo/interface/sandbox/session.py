"""Run interface code: one interpreter session per episode, in a worker process without files, network or processes.

The interpreter is pydantic-monty (Rust); `pool.py` keeps its workers. Interface code reaches the outside only through
the engine call, served by the caller (`Engine`). Its log is collected and limited, and so is all text passing between
it and this process; this process's work for it counts against its seconds. Every failure inside becomes an
`InterfaceError` here. Not here: permitted engine calls and the course of an episode after a failure
(`wrappers/align_wrapper.py`), and source preparation (`source.py`; `prelude.py` and `stdlib.py` run inside).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from align_echo.errors import InterfaceError, printable
from align_echo.interface.contract import InterfaceContract
from align_echo.interface.rules.model import Advice, SayInstead, load_rules
from align_echo.interface.rules.runtime import RuleRuntime
from align_echo.interface.sandbox.loading import NEXT, StateKey, begin, check_source_loads, describe, loop
from align_echo.interface.sandbox.pool import START, SandboxWorker, thread
from align_echo.interface.sandbox.source import PreparedSource
from align_echo.types import Frozen

if TYPE_CHECKING:
    import pydantic_monty

# ---------------------------------------------------------------- limits of time and memory

_REQUESTS_A_TURN = 1_000
_SHARE = 0.95
"""Share of a turn's seconds after which the turn is given up; the rest is for returning to the agent."""
_TEXT = (str, bytes)


class TurnLimits(Protocol):
    """Limits of a turn (`Sandbox`): seconds, engine calls, and characters passed in and out."""

    @property
    def seconds(self) -> float: ...

    @property
    def engine_calls(self) -> int: ...

    @property
    def crossing(self) -> int: ...


class TurnUsage:
    """Usage of one turn so far. Each method raises `InterfaceError` when a limit is exceeded."""

    def __init__(self, limits: TurnLimits, logged: Callable[[], int]) -> None:
        """Start counting. `logged` returns the number of characters logged so far, which count too."""
        self._limits = limits
        self._logged = logged
        self._requests = self._engine_calls = 0
        self._characters = -logged()
        self._seconds = 0.0
        self._since: float | None = None

    def go_on(self) -> None:
        """Resume the clock: time counts against the interface."""
        self._since = monotonic()

    def rest(self) -> None:
        """Stop the clock: time belongs to the environment or the agent."""
        self._seconds, self._since = self._spent(), None

    def seconds_left(self) -> float:
        """Return the seconds left in the turn; negative if it took more."""
        return _SHARE * self._limits.seconds - self._spent()

    def _spent(self) -> float:
        return self._seconds + (0.0 if self._since is None else monotonic() - self._since)

    def one_more_request(self) -> None:
        """Count a request of the interpreter."""
        self._requests += 1
        if self._requests > _REQUESTS_A_TURN:
            raise InterfaceError("the interface asked for what does not exist too often in one turn")
        if self.seconds_left() < 0:
            raise InterfaceError(took_too_long(self._limits.seconds))

    def passing(self, *values: object) -> None:
        """Count text passed into or out of the interpreter. Values without text are limited by time only."""
        for value in values:
            if isinstance(value, _TEXT):
                self._characters += len(value)
        if self._characters + self._logged() > self._limits.crossing:
            raise InterfaceError(
                f"more than {self._limits.crossing} characters passed into and out of the interface in one turn"
            )

    def one_more_engine_call(self) -> None:
        """Count an engine call."""
        self._engine_calls += 1
        if self._engine_calls > self._limits.engine_calls:
            raise InterfaceError(f"more than {self._limits.engine_calls} calls of env.step in one turn")


def took_too_long(seconds: float) -> str:
    """Return the message for an interface that exceeded a turn's seconds."""
    return f"the interface took too long (a turn has {seconds:g} s, its calls included)"


# ---------------------------------------------------------------- run interface code

Answer = TypeVar("Answer")

ENGINE = "_align_engine"
"""Name of the host function behind interface code's `env.step`."""
TOGETHER = "_align_engine_together"
"""Name of the host function for a joint request of views (`source.py`)."""
EXPLAIN = "_align_explain"
"""Name of the host function behind interface code's `env.explain`."""


class Sandbox(Frozen):
    """Opens sessions and limits their resources. Thread-safe.

    `seconds`, engine calls, log and text (characters) are per turn.

    `seconds` count the interpreter and this process's work for it, but not the environment's time to answer.
    `crossing` limits all text (characters) passed between the two in a turn: calls, replies, prints and return values.
    `text` limits the retained part of a return value. `memory` (bytes) is per episode. After `deaths` lost sessions
    the interface is bypassed until the next reset.
    """

    seconds: float = 2.0
    memory: int = 64 * 2**20
    engine_calls: int = 20
    log_lines: int = 200
    log_text: int = 50_000
    text: int = 20_000
    crossing: int = 3_000_000
    deaths: int = 3

    def open(
        self,
        source: PreparedSource,
        contract: InterfaceContract,
        init_obs: str,
        task: str,
        engine: Engine,
        extra_arguments: Mapping[str, str | int] | None = None,
        *,
        within_turn: bool = False,
    ) -> SandboxSession:
        """Load prepared source for one episode, with engine calls served by `engine`.

        `extra_arguments` holds the contract's additional arguments. `within_turn`: the agent waits, so a worker's
        start counts against the turn's seconds.

        Raises `InterfaceError` if the code fails to load, `EngineError` if no worker is available, and `UsageError` in
        a process forked after interfaces had been used.
        """
        return SandboxSession(self, source, contract, init_obs, task, engine, extra_arguments or {}, within_turn)

    def check(self, source: str, contract: InterfaceContract) -> None:
        """Check that source loads, as `loading.check_source_loads` does. Raises `InterfaceError`, one line."""
        check_source_loads(source, contract, seconds=self.seconds, memory=self.memory)


class EngineReply(NamedTuple):
    """Reply to an engine call of interface code."""

    observation: str
    reward: float
    done: bool
    won: bool
    score: float


class RefusedError(Exception):
    """Raised by an `Engine`: the call is not allowed. Interface code gets a `PermissionError` with this message."""


Engine = Callable[[str], EngineReply]
"""Serves one engine call of interface code: action -> reply. May raise `RefusedError`."""


class WrapStepResult(NamedTuple):
    """Result of `WrapStep`: the text for the agent, and unverified claims on reward and done."""

    observation: str
    reward: bool
    done: bool


LEVELS = ("debug", "info", "warning", "error")
"""Levels of the logger. Lines logged under any other name count as printed."""


class LogLine(NamedTuple):
    """One line of an episode's log. `turn` is the agent's turn, 0 at the reset.

    `level` is one of `LEVELS`, "print" for printed text, or a word of `AlignWrapper`.
    """

    turn: int
    level: str
    message: str


class SandboxSession:
    """Interface code of one episode. Its globals, function attributes and `env` attributes live as long as the
    session.

    Used by one thread at a time. After a hang, an overflow or a crash `alive` is False and the session is unusable.
    """

    def __init__(
        self,
        limits: Sandbox,
        source: PreparedSource,
        contract: InterfaceContract,
        init_obs: str,
        task: str,
        engine: Engine,
        extra_arguments: Mapping[str, str | int],
        within_turn: bool,
    ) -> None:
        self._limits = limits
        self._source = source
        self._engine = engine
        self._engine_error: Exception | None = None  # an exception of the engine is no failure of the sandbox
        self._log = _LogBuffer(limits)
        self._layout = contract.step_layout
        self._loop = loop(contract)
        self._opening = (init_obs, task)
        self._rules: RuleRuntime | None = None
        self._over = False
        arguments = {"init_obs": init_obs, "task": task, **extra_arguments}
        self._arguments = {f"_align_{name}": value for name, value in arguments.items()}
        self._spent = TurnUsage(limits, self._log.characters)
        self._first = True
        if within_turn:
            self._spent.go_on()
        self._worker = SandboxWorker(limits.seconds, limits.memory, limits.seconds if within_turn else START)
        try:
            self._guarded(self._begin)
        except InterfaceError:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """True if the next turn can use this session."""
        return self._worker.session is not None

    def infer_rules(self) -> str:
        """Call `InferRules`. Raises `InterfaceError`."""
        rules = self._take_turn(None)
        if type(rules) is not str:
            raise InterfaceError("InferRules did not return text")
        return rules[: self._limits.text]

    def wrap_step(self, action: str) -> WrapStepResult:
        """Call `WrapStep` for the agent's action. Raises `InterfaceError`.

        Any engine exception besides `RefusedError` ends the session and propagates.
        """
        value = self._take_turn(action)
        if type(value) is not tuple or len(value) != 3 or [type(part) for part in value] != [str, bool, bool]:
            raise InterfaceError("WrapStep did not return (observation, reward, done)")
        return WrapStepResult(value[0][: self._limits.text], value[1], value[2])

    def take_log(self, turn: int) -> list[LogLine]:
        """Return and clear the lines logged since the last call, as lines of this turn.

        At most `log_lines`, with a note if there were more.
        """
        return self._log.take(turn)

    def close(self) -> None:
        """Return the worker, within the remaining seconds of the turn. Safe to call twice."""
        self._worker.close(self._spent.seconds_left())

    # ------------------------------------------------------------ the interpreter

    def _guarded(self, work: Callable[[pydantic_monty.MontySession], Answer]) -> Answer:
        """Run work in the session. Raises `InterfaceError` for its failures, or the engine's exception."""
        import pydantic_monty

        if self._worker.session is None:
            raise InterfaceError("the sandbox session of this episode is gone")
        self._enter()
        try:
            answer = work(self._worker.session)
        except pydantic_monty.MontyError as error:
            self._leave()
            survives, message = describe(error, self._source)
            if self._worker.late or not survives:
                self.close()
            raise InterfaceError(self._lateness() or message) from None
        except Exception as error:
            self.close()
            if error is self._engine_error or isinstance(error, InterfaceError):
                raise
            raise InterfaceError(printable(f"the sandbox failed: {type(error).__name__}: {error}"[:500])) from error
        finally:
            self._leave()
        if self._worker.late:
            self.close()
            raise InterfaceError(self._lateness())
        return answer

    def _enter(self) -> None:
        """Start the interpreter's clock for this turn, and set the worker's deadline to the remaining seconds."""
        thread.inside = True
        self._spent.go_on()
        self._worker.expect_answer(self._spent.seconds_left())

    def _leave(self) -> None:
        """Stop the interpreter's clock. Safe to call twice."""
        self._worker.answered()
        self._spent.rest()
        thread.inside = False

    def _lateness(self) -> str:
        if not self._worker.late:
            return ""
        return f"{took_too_long(self._limits.seconds)}: its worker gave no answer, and was ended"

    def _begin(self, session: pydantic_monty.MontySession) -> None:
        """Load the source; source that only defines is restored from its stored state."""
        key = StateKey(self._layout, self._source.stood_in, self._limits.seconds, self._limits.memory)
        begin(session, key, self._source.text if self._source.only_defines else "")
        if not self._source.only_defines:
            self._answered(self._feed(session, self._source.text), "")

    def _take_turn(self, action: str | None) -> Any:
        """Return the result of `WrapStep` for an action, or of `InferRules` for None. Raises as `_guarded`.

        Between turns the code waits in a loop for the next action: resuming costs half as much as another snippet.
        After an error the loop is restarted. Loading time counts toward the first turn.
        """
        import pydantic_monty

        if not self._first:
            self._spent = TurnUsage(self._limits, self._log.characters)
        self._first = False

        def go_on(session: pydantic_monty.MontySession) -> Any:
            waiting, self._worker.waiting = self._worker.waiting, None
            if waiting is None:
                snapshot = self._feed(session, self._loop, _align_agent_action=action)
            else:
                snapshot = waiting.resume({"return_value": action})
            snapshot = self._answered(snapshot, NEXT)
            if not isinstance(snapshot, pydantic_monty.FunctionSnapshot):
                raise InterfaceError("interface code left the loop that it is called from")
            self._worker.waiting, value = snapshot, snapshot.args[0]
            self._spent.passing(*(value if type(value) is tuple else (value,)))
            return value

        return self._guarded(go_on)

    def _feed(
        self, session: pydantic_monty.MontySession, code: str, **inputs: str | None
    ) -> pydantic_monty.SyncSnapshot:
        """Start a snippet. The first snippet also sets the values of the arguments."""
        arguments, self._arguments = self._arguments, {}
        return session.feed_start(
            code,
            inputs={**arguments, **inputs},
            external_lookup={ENGINE: _no_engine},
            print_callback=self._log.collect,
        )

    def _answered(
        self, snapshot: pydantic_monty.SyncSnapshot, until: str
    ) -> pydantic_monty.FunctionSnapshot | pydantic_monty.MontyComplete:
        """Answer the interpreter's requests until it calls `until` with one value, or the snippet ends.

        Only engine calls have an answer.
        """
        import pydantic_monty as monty

        while not isinstance(snapshot, monty.MontyComplete):
            self._spent.one_more_request()
            if isinstance(snapshot, monty.NameLookupSnapshot):
                self._spent.passing(snapshot.variable_name)
                snapshot = snapshot.resume_auto()
                continue
            if not isinstance(snapshot, monty.FunctionSnapshot):
                raise InterfaceError("interface code waits for something that never comes")
            name, arguments, options = snapshot.function_name, snapshot.args, snapshot.kwargs
            self._spent.passing(*arguments, *options.values())
            if snapshot.is_os_function:
                snapshot = snapshot.resume_not_handled()
            elif name == ENGINE:
                snapshot = snapshot.resume(self._serve(arguments))
            elif name == TOGETHER:
                snapshot = snapshot.resume(self._serve_together(arguments))
            elif name == EXPLAIN:
                snapshot = snapshot.resume(self._explain(arguments))
            elif name == until and len(arguments) == 1 and not options:
                return snapshot
            else:
                snapshot = snapshot.resume_auto()
        return snapshot

    def _serve(self, arguments: tuple[Any, ...]) -> pydantic_monty.ExternalResult:
        """Serve an engine call. The environment's own time is not counted."""
        self._spent.one_more_engine_call()
        if len(arguments) != 1 or type(arguments[0]) is not str:
            return {"exc_type": "TypeError", "message": "env.step takes one action as text"}
        self._leave()
        try:
            reply = tuple(self._engine(arguments[0]))
        except RefusedError as refusal:
            return {"exc_type": "PermissionError", "message": str(refusal)}
        except Exception as error:
            self._engine_error = error
            raise
        finally:
            self._enter()
        self._spent.passing(*reply)
        self._over = bool(reply[2])
        return {"return_value": reply}

    def _explain(self, arguments: tuple[Any, ...]) -> pydantic_monty.ExternalResult:
        """Return a text with what the interface's rules say of an answer. The rules come with the first call."""
        action, observation, shown, *rules = arguments if len(arguments) > 2 else (None, None, None)
        if not (isinstance(action, str) and isinstance(observation, str) and isinstance(shown, str)):
            return {"exc_type": "TypeError", "message": "env.explain takes rules, an action and an observation"}
        try:
            if rules:
                self._rules = RuleRuntime(load_rules(rules[0]), *self._opening)
        except InterfaceError as error:
            return {"exc_type": "ValueError", "message": str(error)}
        if self._rules is None:
            return {"exc_type": "ValueError", "message": "env.explain needs rules"}
        turn = self._rules.hear(action, observation)
        views: dict[str, str] = {}
        for view in self._rules.views() if not self._over else ():
            reply: Any = self._serve((view,))
            if "return_value" not in reply:
                return reply  # type: ignore[no-any-return]
            views[view] = reply["return_value"][0]
        self._rules.look(views)
        advice = Advice("") if self._over else self._rules.advise(turn)
        free = shown.strip() == observation.strip() or any(isinstance(rule, SayInstead) for rule in advice.rules)
        between = "\n" if self._rules.rules.pages else " "
        explained = f"{shown}{between}{advice.text}".strip() if free and advice.text else shown
        self._spent.passing(explained)
        return {"return_value": explained}

    def _serve_together(self, actions: tuple[Any, ...]) -> pydantic_monty.ExternalResult:
        """Serve engine calls in order, as if each had been made alone, up to the first refusal.

        Return a list of replies; a refusal is included as text.
        """
        replies: list[Any] = []
        for action in actions:
            answer = self._serve((action,))
            if answer.get("exc_type") == "TypeError":
                return answer
            replies.append(answer.get("return_value", answer.get("message")))
            if "return_value" not in answer:
                break
        return {"return_value": replies}


def _no_engine(action: str) -> EngineReply:
    raise RefusedError("there is no environment to step")


class _LogBuffer:
    """Limited buffer of printed text. The prelude's logger writes a line as RS level US message RS."""

    def __init__(self, limits: Sandbox) -> None:
        self._limits = limits
        self._parts: list[str] = []
        self._size = 0

    def characters(self) -> int:
        """Number of characters printed since the last `take`, stored or not."""
        return self._size

    def collect(self, stream: str, text: str) -> None:
        """Append a piece of output. Called by the interpreter."""
        room = self._limits.log_text - self._size
        if room > 0:
            self._parts.append(text[:room])
        self._size += len(text)

    def take(self, turn: int) -> list[LogLine]:
        """Return all lines so far, complete or not, as lines of this turn, and clear the buffer."""
        if not self._size:
            return []
        text, cut = "".join(self._parts), self._size > self._limits.log_text
        self._parts, self._size = [], 0
        lines = _log_lines(text, turn)
        if cut or len(lines) > self._limits.log_lines:
            retained = lines[: self._limits.log_lines]
            return [*retained, LogLine(turn, "warning", f"log cut: only {len(retained)} lines of this turn were kept")]
        return lines


def _log_lines(text: str, turn: int) -> list[LogLine]:
    lines: list[LogLine] = []
    for frame in text.split("\x1e"):
        level, separator, message = frame.partition("\x1f")
        if separator:
            lines.append(LogLine(turn, level if level in LEVELS else "print", printable(message)))
        else:
            lines += [LogLine(turn, "print", printable(line)) for line in frame.splitlines() if line]
    return lines
