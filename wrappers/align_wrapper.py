"""Wrapper that puts an interface between an agent and a text environment.

At reset it puts the interface's rules before the first observation. On each turn the interface's `WrapStep` decides
what the agent sees. The wrapper serves the engine calls of interface code and refuses those that are not allowed.
Reward, score and the end of the episode come from the environment alone. When an interface fails, the agent gets the
raw observation for that turn. Hints that did not come true are withheld (`hint_watch.py`).

Interface code runs in `align_echo/interface/sandbox`. No environment is known here by name.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym

from align_echo.errors import InterfaceError, UsageError
from align_echo.interface.contract import Interface, bound
from align_echo.interface.hints import silenced_by
from align_echo.interface.sandbox.session import (
    EngineReply,
    LogLine,
    RefusedError,
    Sandbox,
    SandboxSession,
    WrapStepResult,
)
from align_echo.interface.sandbox.source import prepare
from align_echo.types import HintEvent, Violation
from align_echo.wrappers.hint_watch import HintWatch, was_accepted
from align_echo.wrappers.text_env import MAX_TEXT, TEXT_CHARACTERS, TextEnv

# ---------------------------------------------------------------- placebo text that replaces an interface's words

SENTENCE = "That is how things are now."
"""Replacement for an interface's words: true, and of no use."""

_FILLER = (
    "Things are as they are.",
    "One moment follows another, and each has its own length.",
    "Some days are long and others are short.",
    "What has been is past, and what will be is still ahead.",
    "Much is old, much is new.",
    "Each whole has parts, and all parts belong together.",
)


def neutral_observation(text: str, raw: str | None) -> str:
    """Return the placebo of an interface's text: the engine's own words (`raw`), plus the sentence if the two differ.

    `raw` None: the engine was not asked, and the sentence stands alone.
    """
    if raw is not None and text.split() == raw.split():
        return raw  # white space is not speech
    return f"{raw} {SENTENCE}" if raw else SENTENCE


def neutral_rules(rules: str) -> str:
    """Return neutral sentences in lines as long as those of `rules`. Dots fill a line if no further word fits."""
    return "\n".join(_line(number, len(line)) for number, line in enumerate(rules.split("\n")))


def _line(number: int, length: int) -> str:
    first = number % len(_FILLER)
    sentences = " ".join((*_FILLER[first:], *_FILLER[:first])) + " "
    text = (sentences * (length // len(sentences) + 1))[: length + 1]
    words = text[: text.rfind(" ") + 1].rstrip()
    return words + "." * (length - len(words))


# ---------------------------------------------------------------- align wrapper

StepResult = tuple[str, float, bool, bool, dict[str, Any]]

LONGEST_LOOK = 1_000
"""Longest read-only action, in characters, that an interface may send; the agent's own action may be longer."""
NOT_LOADED = "the interface does not load"
GIVEN_UP = "bypassed after"
"""Prefix of `interface_error` on turns without a call to the interface. No message of interface code begins with it."""

_OUTSIDE = re.compile(f"[^{re.escape(TEXT_CHARACTERS)}]")
_PLAIN_SIGNS = {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "→": "->", "•": "*"}


class AlignWrapper(gym.Wrapper[str, str, str, str]):
    """Text environment with an interface: adds rules to the task and feedback to the observations.

    Keys added to `info`: `rules` (at reset), `interface_error` (why the interface was bypassed on this turn, "" if it
    was not), `violations` (refused engine calls) and `forged` (claims against the environment: "reward", "done"). Where
    hints were shown, followed or withheld, `hints` holds the outcome by rule (`HintEvent`). `raw_observation` and
    `engine_calls` come from the engine.

    Each reset starts a fresh interface session. Use a wrapper from one thread at a time; close it to free its worker.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        interface: Interface,
        *,
        sandbox: Sandbox | None = None,
        retract: bool | None = None,
    ) -> None:
        """Wrap `env` in an interface.

        With `retract`, hints like earlier ones that were followed and did not come true are withheld; without it they
        are only counted. None takes the interface's own setting.

        Raises `UsageError` if `env` is no `TextEnv`, and `InterfaceError` if the interface does not fit its contract,
        has the wrong signature or holds code the sandbox cannot run.
        """
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
        self._known_signs: frozenset[str] = frozenset()
        self._turn: _Turn | None = None
        self._over = True
        self._deaths = 0
        self._bypassed = ""
        self._violations: list[Violation] = []
        self._forged: tuple[str, ...] = ()
        self._log: list[LogLine] = []

    @property
    def log(self) -> tuple[LogLine, ...]:
        """Log lines of the interface and of the wrapper for this episode, in order.

        The wrapper's own levels are "fallback", "violation", "forged" (the interface claimed a reward or an end that
        the environment did not give) and "bypassed".
        """
        return tuple(self._log)

    # ------------------------------------------------------------ gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; return the rules and the initial observation as one text. Raises the environment's own
        errors."""
        self._end_session()
        raw, info = self.env.reset(seed=seed, options=options)
        self._opening = self._base.opening(raw)
        self._over, self._deaths, self._bypassed = False, 0, ""
        self._log, self._violations, self._forged, self._hints = [], [], (), ()
        self._watch = HintWatch(silenced_by(self.interface.record), retract=self._retract)
        self._watch.hear(f"{raw}\n{info['goal']}")
        self._known_signs = unusual_signs(f"{raw}{info['goal']}")
        rules, error = "", ""
        if self.interface.use_rules or self.interface.use_feedback:
            try:
                session = self._open_session()
                rules = clean(session.infer_rules(), self._known_signs).strip() if self.interface.use_rules else ""
            except InterfaceError as failure:
                error = self._record_failure(str(failure), 0)
            self._keep_log(0)
        if not self.interface.use_feedback:
            self._end_session()
        if self.interface.placebo:
            rules = neutral_rules(rules)
        info["rules"] = rules
        self._annotate(info, error)
        return f"{rules}\n\n{raw}"[:MAX_TEXT] if rules else raw, info

    def step(self, action: str) -> StepResult:
        """Play one turn of the agent. Raises the environment's own errors; failures of the interface are reported in
        `info`."""
        if self._over or not self.interface.use_feedback or not isinstance(action, str) or self._bypassed:
            result = _step(self.env, action)
            self._annotate(result[4], self._bypassed)
            return result
        self._turn = _Turn(self.env, self._base, str(action)[:MAX_TEXT])
        try:
            result, error = self._play_turn(self._turn)
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

    def _play_turn(self, turn: _Turn) -> tuple[StepResult, str]:
        """Run `WrapStep` for the agent's action. Return the turn's result, and why it is the raw one or ""."""
        number = turn.number
        try:
            session = self._session or self._open_session(within_turn=True)
            returned = session.wrap_step(turn.action)
        except InterfaceError as failure:
            self._keep_log(number)
            self._watch.forget()
            result = turn.fall_back()
            self._watch.hear(result[0], turn.action)
            return result, self._record_failure(str(failure), number)
        self._keep_log(number)
        self._known_signs |= unusual_signs(turn.answer or "")
        cleaned = clean(returned.observation, self._known_signs)
        text, (observation, reward, terminated, truncated, info) = self._apply_watch(turn, cleaned)
        self._watch.hear(turn.answer or "", turn.action)
        self._note_forgery(returned, bool(info["won"]) or reward > 0, terminated or truncated, number)
        visible = observation if text is None else self._visible_text(text, info["raw_observation"])
        return (visible, reward, terminated, truncated, info), ""

    def _apply_watch(self, turn: _Turn, text: str) -> tuple[str | None, StepResult]:
        """Remove untrustworthy hints from the interface's text; return the text and the turn's result.

        None for the text: nothing is left of it, and an action the interface held back from the engine is carried out.
        """
        answer = turn.answer
        if text == answer and not self._watch.waits:
            return text, turn.end()
        left = self._watch.read(turn.action, answer, self._is_accepted(turn), text)
        result = turn.fall_back() if left is None else turn.end()
        self._hints = self._watch.settle(turn.action, turn.answer, self._is_accepted(turn))
        return left, result

    def _is_accepted(self, turn: _Turn) -> bool | None:
        same_answer = self._watch.answer_alike(turn.action, turn.answer)
        return was_accepted(self._base, turn.before, turn.action, turn.answer, same_answer)

    def _visible_text(self, text: str, raw: str | None) -> str:
        """Return the interface's text, or its placebo."""
        if not self.interface.placebo:
            return text
        return neutral_observation(text, None if raw is None else raw[: self._sandbox.text])

    def _serve(self, requested: str) -> EngineReply:
        """Serve an engine call of interface code, or refuse and record it."""
        try:
            if self._turn is None:
                raise RefusedError("env.step can only be called from WrapStep")
            if len(requested) > max(len(self._turn.action), LONGEST_LOOK):
                raise RefusedError(f"an action of more than {LONGEST_LOOK} characters that is not the agent's own")
            reply = self._turn.serve(requested)
            self._watch.hear(reply.observation, requested)
            self._known_signs |= unusual_signs(reply.observation)
            return reply
        except RefusedError as refusal:
            number = self._turn.number if self._turn is not None else 0
            violation = Violation(action=clean(requested[:200])[:200], reason=str(refusal))
            self._violations.append(violation)
            self._log.append(LogLine(number, "violation", f"{violation.action!r}: {violation.reason}"))
            raise

    def _note_forgery(self, returned: WrapStepResult, earned: bool, over: bool, number: int) -> None:
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
        """Load the interface. If it does not load, bypass it until the next reset and raise `InterfaceError`."""
        contract = self.interface.contract
        try:
            extra_arguments = self._base.extra_arguments()
            self._session = self._sandbox.open(
                self._source, contract, *self._opening, self._serve, extra_arguments, within_turn=within_turn
            )
        except InterfaceError as failure:
            self._bypassed = f"{NOT_LOADED}: {failure}"
            raise InterfaceError(self._bypassed) from failure
        return self._session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _record_failure(self, message: str, number: int) -> str:
        """Log a failure; after too many lost sessions bypass the interface until the next reset."""
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
    """Turn of the agent: decides which engine calls are allowed and holds the result of the agent's action."""

    def __init__(self, env: gym.Env[str, str], base: TextEnv, action: str) -> None:
        self.action = action
        self.number = base.turns + 1
        self.before = base.state
        self._env = env
        self._base = base
        self._result: StepResult | None = None

    def serve(self, requested: str) -> EngineReply:
        """Answer the agent's own action (once) and read-only actions. Raises `RefusedError` for all else.

        Actions are compared as the engine reads them, but the engine is sent the agent's exact words.

        If the agent's own action is read-only, the first call counts as the turn and later calls repeat its answer. So
        it does not matter whether the interface meant to look or to forward. After the end of the episode a look
        returns the turn's own observation, without asking the environment.
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
        """Engine's answer to the agent's own action, cut to length; None if the engine was not asked."""
        return None if self._result is None else self._result[0][:MAX_TEXT]

    def end(self) -> StepResult:
        """Return the turn's result after the interface returned; a turn passes even if it never asked the engine."""
        return self._result if self._result is not None else self._base.pass_turn()

    def fall_back(self) -> StepResult:
        """Return the turn's result without the interface, carrying out the agent's own action if that is still due."""
        return self._result if self._result is not None else _step(self._env, self.action)

    def _is_own(self, requested: str) -> bool:
        """Check if the engine reads a request as the agent's own action. False for text that is no action."""
        if requested.strip() == self.action.strip():
            return True
        read = self._base.as_read(requested)
        return read != "" and read == self._base.as_read(self.action)

    def _reply(self, observation: str, reward: float) -> EngineReply:
        state = self._base.state
        over = self._result is not None and (self._result[2] or self._result[3])
        return EngineReply(observation[:MAX_TEXT], reward, bool(over), state.won, self._base.interface_score)


def _step(env: gym.Env[str, str], action: str) -> StepResult:
    observation, reward, terminated, truncated, info = env.step(action)
    return observation, float(reward), terminated, truncated, info


def unusual_signs(text: str) -> frozenset[str]:
    """Return the characters of a text that are outside of the usual observation space."""
    return frozenset(_OUTSIDE.findall(text))


def clean(text: str, known: frozenset[str] = frozenset()) -> str:
    """Restrict an interface's text to the observation space and to the `known` characters of the environment's own
    texts.

    Other typographic characters become plain ones, and the rest is dropped.
    """
    if _OUTSIDE.search(text) is not None:
        text = _OUTSIDE.sub(lambda sign: sign[0] if sign[0] in known else _PLAIN_SIGNS.get(sign[0], ""), text)
    return text[:MAX_TEXT]
