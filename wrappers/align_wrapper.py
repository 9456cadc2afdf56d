"""The wrapper that puts an interface between an agent and a text environment.

At reset the interface's rules are put before the first observation; on each turn its `WrapStep` decides what the agent
is shown. The wrapper serves the engine calls that interface code asks for and refuses the rest; reward, score and the
end of the episode come from the environment alone. An interface that fails costs one fallback to the raw observation;
hints that did not come true are withheld (`hint_watch.py`).
How code is run is in `sandbox.py`; this file knows no environment by name.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym

from align_echo.errors import InterfaceError, UsageError
from align_echo.hints import silenced_by
from align_echo.interface import Interface, bound
from align_echo.sandbox.session import EngineReply, LogLine, RefusedError, Returned, Sandbox, SandboxSession
from align_echo.sandbox.source import prepare
from align_echo.types import HintEvent, Violation
from align_echo.wrappers.hint_watch import HintWatch, taken
from align_echo.wrappers.placebo import neutral_observation, neutral_rules
from align_echo.wrappers.text_env import MAX_TEXT, TEXT_CHARACTERS, TextEnv

StepResult = tuple[str, float, bool, bool, dict[str, Any]]

LONGEST_LOOK = 1_000
"""Characters of a read-only action that an interface may send, where the agent's own is not longer."""
NOT_LOADED = "the interface does not load"
GIVEN_UP = "bypassed after"
"""How `interface_error` begins where the interface was not asked: no message of interface code begins so."""

_OUTSIDE = re.compile(f"[^{re.escape(TEXT_CHARACTERS)}]")
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "→": "->", "•": "*"})


class AlignWrapper(gym.Wrapper[str, str, str, str]):
    """Adds an interface's rules to the task and its feedback to the observations.

    `info` gains `rules` (at reset), `interface_error` (why the interface was bypassed on this turn, "" if it was not),
    `violations` (engine calls that were refused) and `forged` (what it claimed against the environment: "reward",
    "done"); where hints were given, followed or withheld, `hints` tells by rule what came of them (`HintEvent`);
    `raw_observation` and `engine_calls` keep the engine's side.
    Each reset starts the interface anew. One wrapper belongs to one thread at a time; close it to free its worker.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        interface: Interface,
        *,
        sandbox: Sandbox | None = None,
        retract: bool | None = None,
    ) -> None:
        """`retract`: hints whose like were followed and did not come true are withheld; without it they are only
        counted. None: as the interface says.

        Raises `UsageError` if `env` is no `TextEnv`, and `InterfaceError` if the interface does not fit its contract,
        has the wrong signature or holds what the sandbox cannot run."""
        base = env.unwrapped
        if not isinstance(base, TextEnv):
            raise UsageError(f"AlignWrapper wraps a text environment, not {type(base).__name__}")
        super().__init__(env)
        self.interface = bound(interface, base.contract)
        self._base = base
        self._sandbox = sandbox or Sandbox()
        self._source = prepare(interface.source, base.contract)
        self._retract = interface.retract if retract is None else retract
        self._watch = HintWatch()
        self._hints: tuple[HintEvent, ...] = ()
        self._session: SandboxSession | None = None
        self._opening = ("", "")
        self._turn: _Turn | None = None
        self._over = True
        self._deaths = 0
        self._bypassed = ""
        self._violations: list[Violation] = []
        self._forged: tuple[str, ...] = ()
        self._log: list[LogLine] = []

    @property
    def log(self) -> tuple[LogLine, ...]:
        """What the interface logged in this episode and what the wrapper has to say about it, in order.

        The wrapper's own levels are "fallback", "violation", "forged" (the interface claimed a reward or an end that
        the environment did not give) and "bypassed".
        """
        return tuple(self._log)

    # ------------------------------------------------------------ gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode: the rules and the initial observation as one text. Raises what the environment raises."""
        self._end_session()
        raw, info = self.env.reset(seed=seed, options=options)
        self._opening = self._base.opening(raw)
        self._over, self._deaths, self._bypassed = False, 0, ""
        self._log, self._violations, self._forged, self._hints = [], [], (), ()
        self._watch = HintWatch(silenced_by(self.interface.record), retract=self._retract)
        self._watch.hear(f"{raw}\n{info['goal']}")
        rules, error = "", ""
        if self.interface.use_rules or self.interface.use_feedback:
            try:
                session = self._open_session()
                rules = clean(session.infer_rules()).strip() if self.interface.use_rules else ""
            except InterfaceError as failure:
                error = self._failed(str(failure), 0)
            self._keep_log(0)
        if not self.interface.use_feedback:
            self._end_session()
        if self.interface.placebo:
            rules = neutral_rules(rules)
        info["rules"] = rules
        self._annotate(info, error)
        return f"{rules}\n\n{raw}"[:MAX_TEXT] if rules else raw, info

    def step(self, action: str) -> StepResult:
        """One turn of the agent. Raises what the environment raises; what the interface does wrong is in `info`."""
        if self._over or not self.interface.use_feedback or not isinstance(action, str) or self._bypassed:
            result = _step(self.env, action)
            self._annotate(result[4], self._bypassed)
            return result
        self._turn = _Turn(self.env, self._base, str(action)[:MAX_TEXT])
        try:
            result, error = self._take(self._turn)
        finally:
            self._turn = None
        self._over = result[2] or result[3]
        if self._over:
            self._end_session()
        self._annotate(result[4], error)
        return result

    def close(self) -> None:
        """Close the environment and give the sandbox worker back."""
        self._end_session()
        super().close()

    # ------------------------------------------------------------ one turn

    def _take(self, turn: _Turn) -> tuple[StepResult, str]:
        """Run `WrapStep` for the agent's action: (the turn's result, why it is the raw one or "")."""
        number = turn.number
        try:
            session = self._session or self._open_session(within_turn=True)
            returned = session.wrap_step(turn.action)
        except InterfaceError as failure:
            self._keep_log(number)
            self._watch.forget()
            result = turn.fall_back()
            self._watch.hear(result[0], turn.action)
            return result, self._failed(str(failure), number)
        self._keep_log(number)
        text, (observation, reward, terminated, truncated, info) = self._watched(turn, clean(returned.observation))
        self._watch.hear(turn.answer or "", turn.action)
        self._note_forgery(returned, bool(info["won"]) or reward > 0, terminated or truncated, number)
        shown = observation if text is None else self._shown(text, info["raw_observation"])
        return (shown, reward, terminated, truncated, info), ""

    def _watched(self, turn: _Turn, text: str) -> tuple[str | None, StepResult]:
        """The interface's text without hints that are not to be believed, and the turn's result. None: nothing is left
        of the text, and what the interface kept from the engine is carried out."""
        answer = turn.answer
        if text == answer and not self._watch.waits:
            return text, turn.end()
        left = self._watch.read(turn.action, answer, self._taken(turn), text)
        result = turn.fall_back() if left is None else turn.end()
        self._hints = self._watch.settle(turn.action, turn.answer, self._taken(turn))
        return left, result

    def _taken(self, turn: _Turn) -> bool | None:
        alike = self._watch.answer_alike(turn.action, turn.answer)
        return taken(self._base, turn.before, turn.action, turn.answer, alike)

    def _shown(self, text: str, raw: str | None) -> str:
        """What the agent is shown where the interface says something: that, or its placebo."""
        if not self.interface.placebo:
            return text
        return neutral_observation(text, None if raw is None else clean(raw[: self._sandbox.text]))

    def _serve(self, requested: str) -> EngineReply:
        """Serve an engine call of interface code, or refuse it and write that down."""
        try:
            if self._turn is None:
                raise RefusedError("env.step can only be called from WrapStep")
            if len(requested) > max(len(self._turn.action), LONGEST_LOOK):
                raise RefusedError(f"an action of more than {LONGEST_LOOK} characters that is not the agent's own")
            reply = self._turn.serve(requested)
            self._watch.hear(reply.observation, requested)
            return reply
        except RefusedError as refusal:
            number = self._turn.number if self._turn is not None else 0
            violation = Violation(action=clean(requested[:200])[:200], reason=str(refusal))
            self._violations.append(violation)
            self._log.append(LogLine(number, "violation", f"{violation.action!r}: {violation.reason}"))
            raise

    def _note_forgery(self, returned: Returned, earned: bool, over: bool, number: int) -> None:
        claims = [
            name
            for name, claim, truth in (("reward", returned.reward, earned), ("done", returned.done, over))
            if claim > truth
        ]
        self._forged = tuple(claims)
        if claims:
            self._log.append(LogLine(number, "forged", f"claimed {' and '.join(claims)} against the environment"))

    # ------------------------------------------------------------ the session

    def _open_session(self, *, within_turn: bool = False) -> SandboxSession:
        """Load the interface anew; one that does not load is bypassed until the next reset. Raises `InterfaceError`."""
        contract = self.interface.contract
        try:
            further = self._base.further_arguments()
            self._session = self._sandbox.open(
                self._source, contract, *self._opening, self._serve, further, within_turn=within_turn
            )
        except InterfaceError as failure:
            self._bypassed = f"{NOT_LOADED}: {failure}"
            raise InterfaceError(self._bypassed) from failure
        return self._session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _failed(self, message: str, number: int) -> str:
        """Note a failure; after too many lost sessions give up on the interface until the next reset."""
        self._log.append(LogLine(number, "fallback", message))
        if self._session is not None and not self._session.alive:
            self._session = None
            self._deaths += 1
            if self._deaths >= self._sandbox.deaths:
                self._bypassed = f"{GIVEN_UP} {self._deaths} lost sessions; the last: {message}"
        if self._bypassed:
            self._log.append(LogLine(number, "bypassed", self._bypassed))
        return message

    def _keep_log(self, number: int) -> None:
        if self._session is not None:
            self._log += self._session.take_log(number)

    def _annotate(self, info: dict[str, Any], error: str) -> None:
        info["interface_error"] = error
        info["violations"] = tuple(self._violations)
        info["forged"] = self._forged
        if self._hints:
            info["hints"] = self._hints
        self._violations, self._forged, self._hints = [], (), ()


class _Turn:
    """One turn of the agent: it decides which engine calls are allowed, and holds the result of the agent's action."""

    def __init__(self, env: gym.Env[str, str], base: TextEnv, action: str) -> None:
        self.action = action
        self.number = base.turns + 1
        self.before = base.state
        self._env = env
        self._base = base
        self._result: StepResult | None = None

    def serve(self, requested: str) -> EngineReply:
        """Answer the agent's own action (once) and read-only actions. Raises `RefusedError` for all else.

        Both are recognised as the engine reads them; the engine is sent the agent's own words all the same.

        Where the agent's own action is read-only, the first call is the turn and later ones repeat its answer, so that
        it does not matter whether the interface meant to look or to forward. Once the episode is over a look is
        answered with the turn's own observation: the environment is not asked any more.
        """
        own = self._is_own(requested)
        if own and self._result is None:
            self._result = _step(self._env, self.action)
            return self._reply(self._result[0], self._result[1])
        read_only = self._base.read_only(requested)
        if self._result is None:
            if read_only:
                return self._reply(self._base.look(read_only), 0.0)
            raise RefusedError("neither the agent's own action nor a read-only one")
        over = self._result[2] or self._result[3]
        if read_only and (own or over):
            return self._reply(self._result[0], 0.0)
        if over:
            raise RefusedError("the episode is over")
        if read_only:
            return self._reply(self._base.look(read_only), 0.0)
        if own:
            raise RefusedError("the agent's own action was already carried out on this turn")
        raise RefusedError("neither the agent's own action nor a read-only one")

    @property
    def answer(self) -> str | None:
        """The engine's answer to the agent's own action, as text that an agent may be shown; None if it was not asked.
        """
        return None if self._result is None else clean(self._result[0])

    def end(self) -> StepResult:
        """The turn's result when the interface returned: a turn passes even if it never asked the engine."""
        return self._result if self._result is not None else self._base.pass_turn()

    def fall_back(self) -> StepResult:
        """The turn's result without the interface: the agent's own action is carried out if it was not yet."""
        return self._result if self._result is not None else _step(self._env, self.action)

    def _is_own(self, requested: str) -> bool:
        """Whether the engine takes a request for the agent's own action. What is no action never is."""
        if requested.strip() == self.action.strip():
            return True
        read = self._base.as_read(requested)
        return read != "" and read == self._base.as_read(self.action)

    def _reply(self, observation: str, reward: float) -> EngineReply:
        state = self._base.state
        over = self._result is not None and (self._result[2] or self._result[3])
        return EngineReply(observation[:MAX_TEXT], reward, bool(over), state.won, self._base.told_score)


def _step(env: gym.Env[str, str], action: str) -> StepResult:
    observation, reward, terminated, truncated, info = env.step(action)
    return observation, float(reward), terminated, truncated, info


def clean(text: str) -> str:
    """Text within every text environment's observation space: typographic characters made plain, the rest dropped."""
    if _OUTSIDE.search(text) is not None:
        text = _OUTSIDE.sub("", text.translate(_PLAIN))
    return text[:MAX_TEXT]
