"""Episodes in another process, and the models that they ask in this one. Knows no way of starting processes.

An `EpisodeActor` lives in the other process and plays one episode at a time. Each call of it comes back with what
happened next: the episode's end, or questions to models, whose answers are the next call. So whoever drives it
(`RemoteHost`) holds at most one episode of it, and asks the models as a thread of this process would: with the same
cache, log, retries and halt. An actor that is lost costs its episode, which is begun anew on another one with the same
seed; what its models had answered comes from the cache, where there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any, Literal, Protocol, Self

from align_echo import __version__
from align_echo.agents.presets import get_episode_rules
from align_echo.errors import EngineError, first_line, portable
from align_echo.faults import fault_of
from align_echo.halting import check_halt, on_threads, pause
from align_echo.models.choosing import choose
from align_echo.models.drawing import draw_each, sample_of
from align_echo.rollout import run_episode
from align_echo.session import Episode, base_env, interface_on_record
from align_echo.types import ChatModel, Completion, Message, Trajectory, WordChoice
from align_echo.workers.shipping import ModelFacts, Work, unpack

LOSSES = 3
"""How many actors an episode may lose before that is its end, as a fault of the environment."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before a host tries anew to begin with an actor, where one is lost before it can play. For a while new ones
may still be placed on a machine that is gone."""

AT_ONCE = 8
"""How many questions of one episode are asked at once."""


class LostError(Exception):
    """The process of an actor is gone, or cannot be reached. Nothing that it had begun will come back."""


# ---------------------------------------------------------------- what is said


@dataclass(frozen=True)
class Ready:
    """An environment was made. What a trajectory says of it."""

    environment: str
    interface: dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A call of a model's method. `sample` is None for the model itself."""

    number: int
    model: int
    sample: int | None
    method: Literal["complete", "draw", "choose"]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Raised:
    """What ended the work, other than an episode's own faults."""

    error: Exception


Answers = dict[int, Any]
"""What models answered, or the exceptions that they raised, by the question's number."""

Event = Ready | Trajectory | Raised | list[Query]


# ---------------------------------------------------------------- in the other process


class _Channel:
    """Between the thread that plays and the calls that come from outside."""

    def __init__(self) -> None:
        self.events: SimpleQueue[Ready | Trajectory | Raised | Query] = SimpleQueue()
        self._held: Ready | Trajectory | Raised | None = None
        self._lock = threading.Lock()
        self._slots: dict[int, SimpleQueue[Any]] = {}
        self._asked = 0

    def next(self) -> Event:
        """What happens next; questions that were asked by now come together."""
        held, self._held = self._held, None
        event = held or self.events.get()
        questions = []
        while isinstance(event, Query):
            questions.append(event)
            try:
                event = self.events.get_nowait()
            except Empty:
                return questions
        if not questions:
            return event
        self._held = event  # who asked did not wait for the answer
        return questions

    def ask(self, question: Query) -> Any:
        """The answer. Raises what the model raised."""
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
    """A chat model that stayed in the process that drives this one."""

    facts: ModelFacts
    channel: _Channel
    sample: int | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.facts.name

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return self.facts.base_url

    @property
    def weights(self) -> str:
        """The hash of its weights."""
        return self.facts.weights

    @property
    def identity(self) -> str:
        """What tells it from every other model."""
        return self.facts.identity

    def with_sample(self, sample: int) -> Self:
        """The same model, asked anew."""
        return replace(self, sample=sample)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """The model's reply. Raises what the model does."""
        reply = self._ask("complete", messages, temperature=temperature, max_tokens=max_tokens)
        assert isinstance(reply, Completion)
        return reply

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Any]:
        """A reply or an error for each sample (`models/drawing.py`)."""
        drawn = self._ask("draw", messages, samples, temperature=temperature, max_tokens=max_tokens)
        assert isinstance(drawn, list)
        return drawn

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[Any]:
        """The word that comes next in each conversation, or an error (`models/choosing.py`)."""
        chosen = self._ask("choose", conversations, words)
        assert isinstance(chosen, list)
        return chosen

    def _ask(self, method: Literal["complete", "draw", "choose"], *arguments: Any, **options: Any) -> Any:
        return self.channel.ask(Query(0, self.facts.index, self.sample, method, arguments, options))


class EpisodeActor:
    """Plays episodes in a process of its own, all on one thread: an environment belongs to one."""

    def __init__(self) -> None:
        self._channel = _Channel()
        self._jobs: SimpleQueue[Callable[[], Ready | Trajectory]] = SimpleQueue()
        threading.Thread(target=self._run, name="episodes", daemon=True).start()
        self._work: Work | None = None
        self._env: Any = None

    def version(self) -> str:
        """The version of align-echo that plays here."""
        return __version__

    def prepare(self, packed: bytes) -> Event:
        """Take up work and make its environment, in place of what was played before."""
        return self._on_thread(lambda: self._prepare(packed))

    def begin(self, episode: str | Episode) -> Event:
        """Begin an episode of the work that was prepared last."""
        return self._on_thread(lambda: self._play(episode))

    def answer(self, answers: Answers) -> Event:
        """Go on with what the models answered."""
        self._channel.answered(answers)
        return self._channel.next()

    def _on_thread(self, job: Callable[[], Ready | Trajectory]) -> Event:
        self._jobs.put(job)
        return self._channel.next()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                self._channel.events.put(job())
            except BaseException as error:
                self._channel.events.put(Raised(portable(error)))

    def _prepare(self, packed: bytes) -> Ready:
        if self._env is not None:
            self._env.close()
        self._env = None
        self._work = unpack(packed, lambda facts: DistantModel(facts, self._channel))
        self._env = self._work.make_env()
        return Ready(base_env(self._env).contract.environment, interface_on_record(self._env))

    def _play(self, episode: str | Episode) -> Trajectory:
        work = self._work
        assert work is not None
        return run_episode(
            self._env, work.agent, episode, split=work.split, action_format=work.action_format, seed=work.seed
        )


# ---------------------------------------------------------------- in this process


class Link(Protocol):
    """A way to one actor. `call` calls a method of it; raises `LostError`, and `CancelledError` under a halt."""

    def call(self, method: str, *arguments: object) -> Any: ...
    def close(self, *, reusable: bool) -> None: ...


class RemoteHost:
    """Plays episodes on actors, one at a time; a new one takes the place of one that is lost.

    `connect` gives a way to an actor that is free. `models` are those that stayed here when the work was packed. `say`
    is told of a loss.
    """

    def __init__(
        self,
        work: Work,
        packed: bytes,
        models: Sequence[ChatModel],
        connect: Callable[[], Link],
        say: Callable[[str], None],
    ) -> None:
        self._work = work
        self._packed = packed
        self._models = models
        self._connect = connect
        self._say = say
        self._link: Link | None = None
        self._ready: Ready | None = None

    def play(self, task: str | Episode) -> Trajectory:
        """The episode, by the first actor that lives to its end. Raises `EngineError` if none lives to begin one."""
        episode = Episode(task) if isinstance(task, str) else task
        for loss in range(1, LOSSES + 1):
            link, ready = self._prepared()
            try:
                trajectory = self._drive(link, "begin", episode)
                assert isinstance(trajectory, Trajectory)
                return trajectory
            except LostError as error:
                self._drop()
                what = first_line(error)
                if loss < LOSSES:
                    self._say(f"a worker was lost, and {episode.task_id} is played again on another: {what}")
        return self._broken(ready, episode, what)

    def close(self) -> None:
        """Let the actor go; one that is amid an episode is ended."""
        link, self._link = self._link, None
        if link is not None:
            link.close(reusable=True)

    def _prepared(self) -> tuple[Link, Ready]:
        """An actor that has its environment. Raises `EngineError` if all that begin are lost."""
        for seconds in (*PAUSES, None):
            if self._link is not None and self._ready is not None:
                break
            try:
                self._link = self._connect()
                ready = self._drive(self._link, "prepare", self._packed)
                assert isinstance(ready, Ready)
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

    def _drive(self, link: Link, method: str, *arguments: object) -> Ready | Trajectory:
        """Call an actor and answer what it asks, until it is done. What is raised ends the actor."""
        try:
            event: Event = link.call(method, *arguments)
            while isinstance(event, list):
                check_halt()
                answers = on_threads(self._answer, event, min(AT_ONCE, len(event)))
                event = link.call("answer", dict(answers))
            if isinstance(event, Raised):
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

    def _answer(self, question: Query) -> tuple[int, Any]:
        """What a model answers, or raises. Giving up is for this process, not for the actor."""
        model = self._models[question.model]
        if question.sample is not None:
            model = sample_of(model, question.sample)
        try:
            return question.number, _METHODS[question.method](model, *question.arguments, **question.options)
        except (CancelledError, MemoryError):
            raise
        except Exception as error:
            return question.number, portable(error)

    def _broken(self, ready: Ready, episode: Episode, what: str) -> Trajectory:
        """What is kept of an episode that no actor lived to end."""
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
            fault=fault_of(EngineError(f"{LOSSES} workers were lost while they played it; the last: {what}")),
        )


def _complete(model: ChatModel, messages: Sequence[Message], *, temperature: float, max_tokens: int) -> Completion:
    return model.complete(messages, temperature=temperature, max_tokens=max_tokens)


_METHODS: dict[str, Callable[..., Completion | list[Any] | list[WordChoice]]] = {
    "complete": _complete,
    "draw": draw_each,
    "choose": choose,
}
