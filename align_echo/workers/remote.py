"""Episodes in another process that ask the models of this process. Not here: starting processes.

An `EpisodeActor` lives in the other process and plays one episode at a time. Each call to it returns the next event:
the end of the episode, or questions to models; the next call brings their answers. Its driver (`RemoteHost`) therefore
has at most one episode on it and asks the models like a thread of this process: same cache, log, retries and halt. If
an actor is lost, its episode starts again on another actor with the same seed; answers already received come from the
cache, if there is one.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from queue import Empty, SimpleQueue
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from align_echo.agents.presets import get_episode_rules
from align_echo.base.halting import check_halt, on_threads, pause
from align_echo.errors import EngineError, first_line, portable
from align_echo.models.drawing import choose, draw_each, model_for_sample
from align_echo.rollout.batches import run_episode
from align_echo.rollout.faults import build_fault
from align_echo.rollout.session import Episode, base_env, interface_on_record
from align_echo.types import ChatModel, Completion, Message, Trajectory, WordChoice
from align_echo.version import __version__
from align_echo.workers.shipping import ModelFacts, RolloutSpec, unpack

LOSSES = 3
"""Actors that an episode may lose before it ends as a fault of the environment."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds to wait before another attempt to start an actor, after one was lost before it could play. Ray may place
new actors on a dead machine for a while."""

AT_ONCE = 8
"""Questions of one episode that are asked at once."""


class LostError(Exception):
    """The process of an actor is gone or unreachable. Work in progress is lost."""


# ---------------------------------------------------------------- messages


@dataclass(frozen=True)
class ReadyMessage:
    """An environment is ready: the fields that a trajectory records about it."""

    environment: str
    interface: dict[str, Any]


@dataclass(frozen=True)
class ModelRequest:
    """A call of a model's method. `sample` None: the model as it is."""

    number: int
    model: int
    sample: int | None
    method: Literal["complete", "draw", "choose"]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorMessage:
    """An exception that ended the work, other than an episode's own faults."""

    error: Exception


Answers = dict[int, Any]
"""Answers of the models, or the exceptions they raised, by question number."""

Event = ReadyMessage | Trajectory | ErrorMessage | list[ModelRequest]


# ---------------------------------------------------------------- in the other process


class _Channel:
    """Channel between the thread that plays and the calls from outside."""

    def __init__(self) -> None:
        self.events: SimpleQueue[ReadyMessage | Trajectory | ErrorMessage | ModelRequest] = SimpleQueue()
        self._pending: ReadyMessage | Trajectory | ErrorMessage | None = None
        self._lock = threading.Lock()
        self._slots: dict[int, SimpleQueue[Any]] = {}
        self._asked = 0

    def next(self) -> Event:
        """Wait for the next event. Questions asked so far come together."""
        pending, self._pending = self._pending, None
        event = pending or self.events.get()
        questions = []
        while isinstance(event, ModelRequest):
            questions.append(event)
            try:
                event = self.events.get_nowait()
            except Empty:
                return questions
        if not questions:
            return event
        self._pending = event  # the asking thread did not wait for its answer
        return questions

    def ask(self, question: ModelRequest) -> Any:
        """Send a question and wait for its answer. Raises the model's exception."""
        slot: SimpleQueue[Any] = SimpleQueue()
        with self._lock:
            self._asked += 1
            question = replace(question, number=self._asked)
            self._slots[question.number] = slot
        self.events.put(question)
        answer = slot.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answered(self, answers: Answers) -> None:
        for number, answer in answers.items():
            with self._lock:
                slot = self._slots.pop(number)
            slot.put(answer)


@dataclass(frozen=True)
class DistantModel:
    """Stand-in for a chat model in the process that drives this one."""

    facts: ModelFacts
    channel: _Channel
    sample: int | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.facts.name

    @property
    def base_url(self) -> str:
        """URL of its endpoint."""
        return self.facts.base_url

    @property
    def weights(self) -> str:
        """Hash of its weights."""
        return self.facts.weights

    @property
    def fields(self) -> str:
        """Fields that are added to its requests."""
        return self.facts.fields

    @property
    def identity(self) -> str:
        """Return a string unique to this model."""
        return self.facts.identity

    def with_sample(self, sample: int) -> Self:
        """Return the same model for another sample."""
        return replace(self, sample=sample)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Ask for a reply. Raises the model's exceptions."""
        reply = self._ask("complete", messages, temperature=temperature, max_tokens=max_tokens)
        assert isinstance(reply, Completion)
        return reply

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Any]:
        """Draw a reply or an error for each sample (`models/drawing.py`)."""
        drawn = self._ask("draw", messages, samples, temperature=temperature, max_tokens=max_tokens)
        assert isinstance(drawn, list)
        return drawn

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[Any]:
        """Choose the next word of each conversation, or return an error (`models/drawing.py`)."""
        chosen = self._ask("choose", conversations, words)
        assert isinstance(chosen, list)
        return chosen

    def _ask(self, method: Literal["complete", "draw", "choose"], *arguments: Any, **options: Any) -> Any:
        return self.channel.ask(ModelRequest(0, self.facts.index, self.sample, method, arguments, options))


class EpisodeActor:
    """Plays episodes in its own process, all on one thread, since an environment belongs to one thread."""

    def __init__(self) -> None:
        self._channel = _Channel()
        self._jobs: SimpleQueue[Callable[[], ReadyMessage | Trajectory]] = SimpleQueue()
        threading.Thread(target=self._run, name="episodes", daemon=True).start()
        self._work: RolloutSpec | None = None
        self._env: Any = None

    def version(self) -> str:
        """Return the version of align-echo in this process."""
        return __version__

    def prepare(self, packed: bytes) -> Event:
        """Take new work and make its environment, replacing the previous work."""
        return self._on_thread(lambda: self._prepare(packed))

    def begin(self, episode: str | Episode) -> Event:
        """Begin an episode of the work prepared last."""
        return self._on_thread(lambda: self._play(episode))

    def answer(self, answers: Answers) -> Event:
        """Continue with the models' answers."""
        self._channel.answered(answers)
        return self._channel.next()

    def _on_thread(self, job: Callable[[], ReadyMessage | Trajectory]) -> Event:
        self._jobs.put(job)
        return self._channel.next()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                self._channel.events.put(job())
            except BaseException as error:
                self._channel.events.put(ErrorMessage(portable(error)))

    def _prepare(self, packed: bytes) -> ReadyMessage:
        if self._env is not None:
            self._env.close()
        self._env = None
        self._work = unpack(packed, lambda facts: DistantModel(facts, self._channel))
        self._env = self._work.make_env()
        return ReadyMessage(base_env(self._env).contract.environment, interface_on_record(self._env))

    def _play(self, episode: str | Episode) -> Trajectory:
        work = self._work
        assert work is not None
        return run_episode(
            self._env, work.agent, episode, split=work.split, action_format=work.action_format, seed=work.seed
        )


# ---------------------------------------------------------------- in this process


class ActorClient(Protocol):
    """Connection to one actor. `call` calls a method; raises `LostError`, and `CancelledError` during a halt."""

    def call(self, method: str, *arguments: object) -> Any: ...
    def close(self, *, reusable: bool) -> None: ...


class RemoteHost:
    """Plays episodes on actors, one at a time, and replaces a lost actor.

    `connect` returns a connection to an idle actor. `models` are the models that stayed here when the work was packed.
    `say` receives a line about each loss.
    """

    def __init__(
        self,
        work: RolloutSpec,
        packed: bytes,
        models: Sequence[ChatModel],
        connect: Callable[[], ActorClient],
        say: Callable[[str], None],
    ) -> None:
        self._work = work
        self._packed = packed
        self._models = models
        self._connect = connect
        self._say = say
        self._link: ActorClient | None = None
        self._ready: ReadyMessage | None = None

    def play(self, task: str | Episode) -> Trajectory:
        """Play the episode, on another actor after a loss. Raises `EngineError` if no actor lives long enough to begin
        it.
        """
        episode = Episode(task) if isinstance(task, str) else task
        for loss in range(1, LOSSES + 1):
            link, ready = self._prepared()
            try:
                trajectory = self._drive(link, "begin", episode)
                assert isinstance(trajectory, Trajectory)
                return trajectory
            except LostError as error:
                self._drop()
                reason = first_line(error)
                if loss < LOSSES:
                    self._say(f"a worker was lost, and {episode.task_id} is played again on another: {reason}")
        return self._broken(ready, episode, reason)

    def close(self) -> None:
        """Release the actor; end it if it is in the middle of an episode."""
        link, self._link = self._link, None
        if link is not None:
            link.close(reusable=True)

    def _prepared(self) -> tuple[ActorClient, ReadyMessage]:
        """Return an actor with its environment. Raises `EngineError` if every new actor is lost."""
        for seconds in (*PAUSES, None):
            if self._link is not None and self._ready is not None:
                break
            try:
                self._link = self._connect()
                ready = self._drive(self._link, "prepare", self._packed)
                assert isinstance(ready, ReadyMessage)
                self._ready = ready
            except LostError as error:
                self._drop()
                if seconds is None:
                    raise EngineError(
                        f"{len(PAUSES) + 1} workers in a row were lost before they could play: {first_line(error)}"
                    ) from error
                self._say(f"a worker was lost as it began, and another is started: {first_line(error)}")
                pause(seconds)
        assert self._link is not None
        assert self._ready is not None
        return self._link, self._ready

    def _drive(self, link: ActorClient, method: str, *arguments: object) -> ReadyMessage | Trajectory:
        """Call an actor and answer its questions until it is done. An exception ends the actor."""
        try:
            event: Event = link.call(method, *arguments)
            while isinstance(event, list):
                check_halt()
                answers = on_threads(self._answer, event, min(AT_ONCE, len(event)))
                event = link.call("answer", dict(answers))
            if isinstance(event, ErrorMessage):
                raise event.error
            return event
        except LostError:
            raise
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        link, self._link, self._ready = self._link, None, None
        if link is not None:
            link.close(reusable=False)

    def _answer(self, question: ModelRequest) -> tuple[int, Any]:
        """Return a model's answer or its exception. A halt is handled by this process, not by the actor."""
        model = self._models[question.model]
        if question.sample is not None:
            model = model_for_sample(model, question.sample)
        try:
            return question.number, _METHODS[question.method](model, *question.arguments, **question.options)
        except (CancelledError, MemoryError):
            raise
        except Exception as error:
            return question.number, portable(error)

    def _broken(self, ready: ReadyMessage, episode: Episode, reason: str) -> Trajectory:
        """Build the trajectory of an episode after every actor was lost while it played it."""
        return Trajectory(
            **ready.interface,
            environment=ready.environment,
            split=self._work.split,
            task_id=episode.task_id,
            agent=self._work.agent.name,
            agent_preset=get_episode_rules(self._work.agent).preset,
            seed=self._work.seed,
            sample=episode.sample,
            critique=episode.critique,
            goal="",
            initial_observation="",
            fault=build_fault(EngineError(f"{LOSSES} workers were lost while they played it; the last: {reason}")),
        )


def _complete(model: ChatModel, messages: Sequence[Message], *, temperature: float, max_tokens: int) -> Completion:
    return model.complete(messages, temperature=temperature, max_tokens=max_tokens)


_METHODS: dict[str, Callable[..., Completion | list[Any] | list[WordChoice]]] = {
    "complete": _complete,
    "draw": draw_each,
    "choose": choose,
}


# ---------------------------------------------------------------- run work in forked copies of this process

Answer = TypeVar("Answer")


def usable_cores() -> int:
    """Return the number of cores that forked copies can use.

    1 if processes are not forked: on systems other than Linux, and in processes that may have no children.
    """
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1
    return len(os.sched_getaffinity(0))


@dataclass
class _Copy(Generic[Answer]):
    """One running copy, or work done in this process (`process` None). `answer` holds the result after the copy ended.
    """

    process: ForkProcess | None
    ear: Connection | None
    answer: list[Answer]


class ForkPool(Generic[Answer]):
    """At most `count` copies at a time. Answers come in the order in which work was submitted. `with` kills running
    copies.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._given: list[_Copy[Answer]] = []

    def __enter__(self) -> ForkPool[Answer]:
        return self

    def __exit__(self, *error: object) -> None:
        for copy in self._given:
            if copy.process is not None and copy.ear is not None:
                copy.process.kill()
                copy.process.join()
                copy.ear.close()

    def give(self, work: Callable[[], Answer]) -> None:
        """Submit work to a new copy, as soon as fewer than `count` are running. Raises the exception of a failed copy.
        """
        while len(self._at_work()) >= self._count:
            self._listen()
        ear, mouth = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=_work, args=(work, ear, mouth), daemon=True)
        with warnings.catch_warnings():
            # Python warns about forks beside other threads. A copy uses no lock that another thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        mouth.close()
        self._given.append(_Copy(process, ear, []))

    def keep(self, answer: Answer) -> None:
        """Add an answer computed in this process, in its turn."""
        self._given.append(_Copy(None, None, [answer]))

    def answers(self) -> Iterator[tuple[Answer, bool]]:
        """Return all answers, each with a flag: True if a copy computed it.

        Raises the exception of a failed copy, and `EngineError` for a copy that ended without an answer.
        """
        while self._at_work():
            self._listen()
        return ((copy.answer[0], copy.process is not None) for copy in self._given)

    def _at_work(self) -> dict[Connection, _Copy[Answer]]:
        return {copy.ear: copy for copy in self._given if copy.ear is not None}

    def _listen(self) -> None:
        """Read the answers of the copies that have finished; wait for the first."""
        at_work = self._at_work()
        for ear in wait(list(at_work)):
            assert isinstance(ear, Connection)
            copy = at_work[ear]
            assert copy.process is not None
            try:
                answer, error = ear.recv()
            except EOFError:
                copy.process.join()
                message = f"a copy of this process ended with status {copy.process.exitcode} and no answer"
                raise EngineError(message) from None
            copy.process.join()
            ear.close()
            copy.ear = None
            if error is not None:
                raise error
            copy.answer.append(answer)


def _work(work: Callable[[], Answer], ear: Connection, mouth: Connection) -> None:
    """Run the work of a copy and send its answer. Ignore Ctrl-C: the parent process handles it and ends its copies."""
    ear.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # collecting the parent's objects would copy their memory
    outcome: tuple[Answer | None, Exception | None]
    try:
        outcome = work(), None
    except Exception as error:
        outcome = None, error
    mouth.send(outcome)
