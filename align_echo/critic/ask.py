"""Ask a critic: `ask(critic, questions)` returns a `Verdict` for each question, in order.

    ActionQuestion     is this action correct? In one word with its probability (GAIA's intuitive critic), or, for a
                       critic with `votes`, by a reason and then a verdict (GAIA's baseline RCM)
    AttemptQuestion    what should be done otherwise? A critique in the critic's form (`language.py`: ECHO, ICRL)

A question on a screenshot is an `ActionQuestion` too (`align_echo/gaia/gui/screens.py`). An action's prompt is the
agent's conversation, unchanged so that a local model's caches apply, and one more user message. The files beside a
critic's weights are read and written here. Not here: choosing by verdicts (`best_of.py`), the right answers
(`labels.py`), and figures of a critic (`calibration.py`).
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from align_echo.agents.parsing import after_label, reply_lines, uncut_text
from align_echo.base.files import read_text, write_atomically
from align_echo.base.halting import on_threads
from align_echo.base.plain_yaml import parse_json
from align_echo.critic.language import ECHO, Critique, CritiqueForm, one_line
from align_echo.errors import ContextOverflowError, ModelError, ReplyFormatError, UsageError, printable
from align_echo.models.drawing import choose, model_for_sample
from align_echo.models.tool_calls import without_tools
from align_echo.prompts import prompt_hash, render
from align_echo.types import ChatModel, Fault, Frozen, Message, Tokens, Trajectory, Usage, WordChoice

Label = Literal["correct", "wrong"]
WORDS: tuple[Label, ...] = get_args(Label)
"""The words of a verdict on an action."""

VERDICT_TOKENS, CRITIQUE_TOKENS = 160, 256
"""Token limits of a reasoned verdict and of a critique."""

AT_ONCE = 32
"""Most parallel requests."""

# ---------------------------------------------------------------- a verdict


class Verdict(Frozen):
    """A critic's answer. Fields that the question does not ask for are empty; None is "not defined".

    On an action: `label`, None without a readable one; `logit`, log P(correct) - log P(wrong) before any temperature,
    which may be infinite; and `p_correct`, computed from it by `at`. `reason` is a reasoning critic's. On an attempt:
    its `critique`, in the `form` of this name, None without a readable one.

    `reply` is the raw reply, with its `tokens` from a local model; `cut` if it reached its limit; `sample` numbers
    repeated replies. `problem` says why there is no answer. `fault` is set if the critic's model failed: the question
    may be asked again, and there is no reply to train on. Files hold some of the keys (`ActionRecord`,
    `AttemptRecord`).
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")

    action: str = ""
    label: Label | None = Field(default=None, validation_alias=AliasChoices("label", "verdict"))
    logit: float | None = None
    p_correct: float | None = None
    reason: str = ""
    form: str = ""
    sample: int = 0
    reply: str = ""
    critique: Critique | None = None
    problem: str = ""
    cut: bool = False
    fault: Fault | None = None
    usage: Usage = Usage()
    tokens: Tokens | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_broken(cls, record: Any) -> Any:
        """Read a recorded verdict, which says `broken` in place of the fault."""
        if not isinstance(record, Mapping) or "broken" not in record:
            return record
        rest = {key: value for key, value in record.items() if key != "broken"}
        return rest | ({"fault": UNKNOWN_FAULT} if record["broken"] else {})

    @field_validator("p_correct")
    @classmethod
    def _check_probability(cls, p_correct: float | None) -> float | None:
        if p_correct is not None and not 0 <= p_correct <= 1:
            raise UsageError(f"a probability lies in [0, 1], unlike {p_correct}")
        return p_correct

    @property
    def has_answer(self) -> bool:
        """Return whether the critic answered at all: by a word or by probabilities."""
        return self.label is not None or self.logit is not None

    @property
    def advice(self) -> str:
        """Return the text for the agent before its next attempt; "" without a critique."""
        return self.critique.advice if self.critique else ""

    def at(self, temperature: float) -> Verdict:
        """Copy the verdict with the probability of its logit at this temperature."""
        p_correct = None if self.logit is None else probability(self.logit, temperature)
        return self.model_copy(update={"p_correct": p_correct})


UNKNOWN_FAULT = Fault(source="model", error="ModelError", message="")


def _action_record(verdict: Verdict) -> dict[str, Any]:
    broken = verdict.fault is not None
    return {"action": verdict.action, "verdict": verdict.label, "logit": verdict.logit, "broken": broken}


CRITIQUE_KEYS = ("form", "sample", "reply", "critique", "problem", "cut", "fault", "usage", "tokens")

ActionRecord = Annotated[Verdict, PlainSerializer(_action_record)]
"""A verdict on an action in `opinions.jsonl`."""

AttemptRecord = Annotated[
    Verdict, PlainSerializer(lambda verdict: {key: getattr(verdict, key) for key in CRITIQUE_KEYS})
]
"""A verdict on an attempt in a run's `reviews`."""


def logit(correct: float, wrong: float) -> float | None:
    """Compute log P(correct) - log P(wrong) from both logarithms; None if both probabilities are 0."""
    return None if correct == wrong == -math.inf else correct - wrong


def probability(logit: float, temperature: float = 1.0) -> float:
    """Compute P(correct) among the two verdicts: sigmoid(logit / temperature)."""
    scaled = logit / temperature
    return 1 / (1 + math.exp(-scaled)) if scaled >= 0 else math.exp(scaled) / (1 + math.exp(scaled))


# ---------------------------------------------------------------- questions and their critic


@dataclass(frozen=True)
class ActionQuestion:
    """Whether an action is correct as the next one in the agent's conversation. `sample` seeds repeated replies."""

    conversation: Sequence[Message]
    action: str
    sample: int = 0

    def in_one_word(self) -> list[Message]:
        """Build the prompt of an intuitive critic."""
        return verdict_messages(self.conversation, self.action)


@dataclass(frozen=True)
class AttemptQuestion:
    """What should be done otherwise than in an attempt. `sample` seeds repeated replies.

    An attempt without a score cannot be asked about: `ask` raises `UsageError`.
    """

    attempt: Trajectory
    sample: int = 0


Question = ActionQuestion | AttemptQuestion


@dataclass(frozen=True)
class Critic:
    """A model, and how it is asked. Thread-safe if the model is.

    About actions: without `votes` in one word, whose probability is at this calibrated `temperature`; with `votes` by
    replies of at most `max_tokens` with a reason, and the majority counts. About attempts: in this `form`. Replies are
    drawn at the temperature `draws_at`; by default greedily for one vote, otherwise at 1. Raises `UsageError` for 0
    votes.
    """

    model: ChatModel
    temperature: float = 1.0
    votes: int | None = None
    form: CritiqueForm = ECHO
    draws_at: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.votes is not None and self.votes < 1:
            raise UsageError(f"a critic votes once or more often, not {self.votes} times")

    def describe(self) -> dict[str, str]:
        """Return the settings behind its verdicts on actions, besides its model, for run records."""
        if self.votes is None:
            return {"temperature.judge": str(self.temperature), "prompt.critic/verdict": prompt_hash("critic/verdict")}
        prompt = "critic/reasoned_verdict"
        tokens = {} if self.max_tokens is None else {"max_tokens.judge": str(self.max_tokens)}
        return {"votes.judge": str(self.votes), **tokens, f"prompt.{prompt}": prompt_hash(prompt)}


def ask(critic: Critic, questions: Sequence[Question], *, threads: int = AT_ONCE) -> list[Verdict]:
    """Ask a critic, and return its verdict on each question, in order.

    Questions for one word go to the model at once, others on as many `threads`. A fault of the model and a prompt too
    long for its context are verdicts without an answer. Raises as `choose` and the model's `complete` do for a model
    that cannot be asked, and `UsageError` for an attempt without a score.
    """
    one_word = critic.votes is None
    prompts = [question.in_one_word() for question in questions if isinstance(question, ActionQuestion) and one_word]
    words = iter(choose(critic.model, prompts, WORDS) if prompts else [])
    written = [
        _WrittenQuestion(critic, question, question.sample * votes + vote)
        for question in questions
        if (votes := 1 if isinstance(question, AttemptQuestion) else critic.votes or 0)
        for vote in range(votes)
    ]
    workers = min(len(written), threads)
    answer = _WrittenQuestion.ask
    replies = iter(on_threads(answer, written, workers) if workers > 1 else map(answer, written))
    return [
        next(replies)
        if isinstance(question, AttemptQuestion)
        else _one_word(question.action, next(words), critic.temperature)
        if critic.votes is None
        else count_verdicts(question.action, [next(replies) for _ in range(critic.votes)])
        for question in questions
    ]


def _one_word(action: str, answer: WordChoice | ModelError, temperature: float) -> Verdict:
    if isinstance(answer, ModelError):
        return Verdict(action=action, **_failure(answer))
    label = next((word for word in WORDS if word == answer.said), None)
    log_odds = None if answer.logprobs is None else logit(*answer.logprobs)
    return Verdict(action=action, label=label, logit=log_odds, usage=answer.usage).at(temperature)


def _failure(error: ModelError) -> dict[str, Any]:
    """Return a verdict's fields for an error; a prompt too long for the context is no fault."""
    fault = Fault(source="model", error=type(error).__name__, message=str(error))
    return {"problem": str(error), "fault": None if isinstance(error, ContextOverflowError) else fault}


@dataclass(frozen=True)
class _WrittenQuestion:
    """A question that is answered by a reply of several words, and the number of the sample."""

    critic: Critic
    question: Question
    sample: int

    def ask(self) -> Verdict:
        critic, question = self.critic, self.question
        if isinstance(question, AttemptQuestion):
            prompt, tokens, draws_at = critic.form.prompt(question.attempt), CRITIQUE_TOKENS, 1.0
            about: dict[str, Any] = {"form": critic.form.name, "sample": self.sample}
        else:
            prompt = reasoned_verdict_messages(question.conversation, question.action)
            tokens, draws_at = VERDICT_TOKENS, 0.0 if critic.votes == 1 else 1.0
            about = {"action": question.action, "sample": self.sample}
        tokens = critic.max_tokens or tokens
        model = model_for_sample(critic.model, self.sample)
        try:
            reply = model.complete(
                prompt, temperature=draws_at if critic.draws_at is None else critic.draws_at, max_tokens=tokens
            )
        except ModelError as error:
            return Verdict(**about, **_failure(error))
        about |= {"reply": reply.text, "cut": reply.finish_reason == "length", "usage": reply.usage}
        about |= {"tokens": reply.tokens}
        try:
            return Verdict(**about, **self._read(uncut_text(reply, tokens)))
        except ReplyFormatError as error:
            return Verdict(**about, problem=str(error))

    def _read(self, text: str) -> dict[str, Any]:
        """Read a reply as fields of a verdict. Raises `ReplyFormatError`."""
        if isinstance(self.question, AttemptQuestion):
            return {"critique": self.critic.form.critique(text)}
        reason, label = parse_reasoned_verdict(text)
        return {"reason": reason, "label": label}


ENOUGH_VERDICTS = 24
"""Answers after which a critic without verdicts is refused."""

MOST_UNREAD = 0.8
"""Highest share of answers without a verdict."""


class UnreadVerdicts:
    """Count of a critic's answers with neither a verdict nor the probability of one. Thread-safe."""

    def __init__(self) -> None:
        self._asked = self._unread = 0
        self._lock = threading.Lock()

    def add(self, critic: Critic, verdicts: Sequence[Verdict]) -> None:
        """Count answers about actions; faults of the model do not count.

        Raises `UsageError` if, of at least `ENOUGH_VERDICTS`, more than the share `MOST_UNREAD` holds no verdict: a run
        would be paid for choices that the critic never made.
        """
        answered = [verdict for verdict in verdicts if verdict.fault is None]
        with self._lock:
            self._asked += len(answered)
            self._unread += sum(verdict.label is None and verdict.logit is None for verdict in answered)
            asked, unread = self._asked, self._unread
        if asked >= ENOUGH_VERDICTS and unread > MOST_UNREAD * asked:
            said = next((verdict.reply or verdict.problem for verdict in answered if verdict.label is None), "")
            one = f" ({printable(said)[:80]!r})" if said else ""
            raise UsageError(
                f"{critic.model.name} said neither correct nor wrong in {unread} of {asked} answers{one}: it does not "
                "judge actions so; give another critic, or one trained for it"
            )


def count_verdicts(action: str, replies: Sequence[Verdict]) -> Verdict:
    """Return the majority verdict on an action, "wrong" for a tie, without a label if no reply is readable.

    With several replies, the logit is log (correct + 1/2) - log (wrong + 1/2), which is finite (Haldane and Anscombe).
    The verdict has a fault if any reply has one.
    """
    if len(replies) == 1:
        return replies[0]
    labels = [reply.label for reply in replies if reply.label is not None]
    correct, wrong = labels.count("correct"), labels.count("wrong")
    return Verdict(
        action=action,
        label=None if not labels else "correct" if correct > wrong else "wrong",
        logit=math.log(correct + 0.5) - math.log(wrong + 0.5) if labels else None,
        fault=next((reply.fault for reply in replies if reply.fault is not None), None),
        usage=sum((reply.usage for reply in replies), Usage()),
    ).at(1.0)


# ---------------------------------------------------------------- prompts about actions, and their replies


def verdict_messages(conversation: Sequence[Message], action: str) -> list[Message]:
    """Build the prompt: the agent's conversation before its next reply, and the question about the proposed action."""
    question = render("critic/verdict", {"action": one_line(action)})
    return [*without_tools(conversation), Message(role="user", content=question)]


def parse_verdict(reply: str) -> Label:
    """Parse a reply of one word, in any case. Raises `ReplyFormatError` for anything else."""
    match reply.strip().rstrip(".").lower():
        case "correct":
            return "correct"
        case "wrong":
            return "wrong"
    raise ReplyFormatError(f"the verdict must be the one word correct or wrong, not {reply.strip()[:40]!r}")


def reasoned_verdict_messages(conversation: Sequence[Message], action: str) -> list[Message]:
    """Build the prompt: the agent's conversation before its next reply, and the question about the proposed action.

    The conversation loses its token ids: the critic reads the replies but did not sample them.
    """
    history = [Message(role=message.role, content=message.content) for message in without_tools(conversation)]
    question = render("critic/reasoned_verdict", {"action": one_line(action)})
    return [*history, Message(role="user", content=question)]


def parse_reasoned_verdict(reply: str) -> tuple[str, Label]:
    """Parse reason and verdict from a reply of exactly two lines. Raises `ReplyFormatError` with the problem."""
    lines = reply_lines(reply)
    if len(lines) != 2:
        raise ReplyFormatError(f'the reply must be a line "Reason: ..." and a line "Verdict: ...", not {len(lines)}')
    reason, verdict = after_label(lines[0], "Reason"), after_label(lines[1], "Verdict")
    if reason is None or verdict is None:
        raise ReplyFormatError('the first line must begin with "Reason:" and the second with "Verdict:"')
    if not reason.strip():
        raise ReplyFormatError("the reply gives no reason")
    return reason.strip(), parse_verdict(verdict)


def write_reasoned_verdict(reason: str, label: Label) -> str:
    """Write reason and verdict as a reply for `parse_reasoned_verdict`: the training target of a critic."""
    return f"Reason: {' '.join(reason.split())}\nVerdict: {label}"


# ---------------------------------------------------------------- files beside a critic's weights

CALIBRATION_FILE = "calibration.json"
SAMPLING_FILE = "drawn.json"


class CriticCalibration(Frozen):
    """A critic's temperature (`calibration.fit_temperature`), and the number of actions it was fitted on."""

    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    n: int = 0


class SamplingSettings(Frozen):
    """Sampling settings of replies: a temperature, the `top_k` likeliest tokens (0: all), and of these the nucleus of
    mass `top_p` (1: all). Both None: the endpoint's own defaults.

    They are recorded beside a critic's weights, to sample alike in play: asked about unfamiliar kinds of actions, it
    may judge them correct.
    """

    temperature: float = Field(ge=0, allow_inf_nan=False)
    top_k: int | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)

    def __str__(self) -> str:
        """Describe the settings for a note on the terminal."""
        if self.top_k is None or self.top_p is None:
            return f"at temperature {self.temperature:g} as an endpoint is set up"
        if not self.truncates:
            return f"at temperature {self.temperature:g} from all tokens"
        return f"at temperature {self.temperature:g} with --top-k {self.top_k} --top-p {self.top_p:g}"

    @property
    def truncates(self) -> bool:
        """Return whether unlikely tokens are excluded."""
        return bool(self.top_k) or (self.top_p is not None and self.top_p < 1)


_CALIBRATION = TypeAdapter(CriticCalibration)
_SAMPLING = TypeAdapter(tuple[SamplingSettings, ...])


def write_calibration(calibration: CriticCalibration, folder: Path) -> None:
    """Write the calibration beside the critic's weights."""
    write_atomically(folder / CALIBRATION_FILE, calibration.model_dump_json(indent=2) + "\n")


def read_calibration(folder: Path) -> CriticCalibration:
    """Read the calibration beside a critic's weights; temperature 1 without a file. Raises `UsageError` for a damaged
    file.
    """
    return _read_beside(folder / CALIBRATION_FILE, _CALIBRATION) or CriticCalibration()


def write_sampling(settings: Iterable[SamplingSettings], folder: Path) -> None:
    """Write the distinct settings beside a critic's weights, in order."""
    distinct = list(dict.fromkeys(settings))
    write_atomically(folder / SAMPLING_FILE, json.dumps([way.model_dump() for way in distinct], indent=2) + "\n")


def read_sampling(folder: Path) -> tuple[SamplingSettings, ...]:
    """Read the settings beside a critic's weights; () without a record. Raises `UsageError` for a damaged file."""
    return _read_beside(folder / SAMPLING_FILE, _SAMPLING) or ()


def _read_beside(file: Path, kind: TypeAdapter[Any]) -> Any:
    """Read a file beside a critic's weights; None if there is none."""
    if not file.is_file():
        return None
    try:
        return kind.validate_python(parse_json(read_text(file)))
    except (ValueError, ValidationError) as error:
        raise UsageError(f"{file} is damaged: delete it, or train the critic again") from error
