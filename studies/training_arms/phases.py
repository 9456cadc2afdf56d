"""Training runs divided into phases, with the tokens of each: the package's own `TrainingRun`, watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from threading import Lock
from typing import Any

from transformers import PrinterCallback

from align_echo.critic.language import CriticReview, Critique
from align_echo.models.local.chat import LocalModel
from align_echo.session import Episode
from align_echo.train.config import TrainConfig
from align_echo.train.crew import RoleModels
from align_echo.train.run import TrainingRun
from align_echo.train.signals import Signals
from align_echo.train.stage import LocalStage, Made, ReviewRequest, Stage
from align_echo.train.trainer import RoleTrainer
from align_echo.types import Trajectory
from studies.rollout_arms.setting import Player
from studies.training_arms.stopwatch import Spent, Stopwatch

PLAY, CRITIC, BOTH, SYNC = "policy play", "critic replies", "both at once", "sync"
LEARN = {"policy": "learn policy", "critic": "learn critic"}
PHASES = (PLAY, CRITIC, BOTH, *LEARN.values(), SYNC)
SPOKEN = Critique(reason="You walked about.", suggestions=("Look for the thing first, then take it where it belongs.",))
"""How every critique of a model that has learned nothing is read."""


class Untimed(Stopwatch):
    """Times no phase: those of several threads overlap."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield


@dataclass(frozen=True)
class Measured:
    """A run: what its last step took and signalled, and counts of all its steps ("sampled", "trained", "episodes",
    "turns", "critiques", "unread").
    """

    spent: Spent
    counts: Counter[str]
    signals: Signals


@dataclass(frozen=True)
class WatchedStage(LocalStage):
    """A stage that is timed; what overlaps, as one phase. `fixed`: actions are a walk and critiques are read as
    `SPOKEN`, whatever the replies say.
    """

    watch: Stopwatch = field(default_factory=Stopwatch)
    counts: Counter[str] = field(default_factory=Counter)
    fixed: bool = False
    counting: AbstractContextManager[object] = field(default_factory=Lock)

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        with self.watch.phase(PLAY):
            played = super().play(episodes)
        assert not any(trajectory.fault or trajectory.context_overflow for trajectory in played), (
            "an episode did not end by itself"
        )
        turns = sum(len(trajectory.steps) for trajectory in played)
        sampled = sum(trajectory.usage.completion_tokens or 0 for trajectory in played)
        with self.counting:
            self.counts.update(episodes=len(played), turns=turns, sampled=sampled)
        return played

    def review(self, requests: Sequence[ReviewRequest]) -> list[CriticReview]:
        with self.watch.phase(CRITIC):
            reviews = super().review(requests)
        assert not any(review.fault for review in reviews), "a critic's model broke"
        sampled = sum(review.usage.completion_tokens or 0 for review in reviews)
        unread = 0 if self.fixed else sum(review.critique is None for review in reviews)
        with self.counting:
            self.counts.update(critiques=len(reviews), sampled=sampled, unread=unread)
        if self.fixed:
            return [review.model_copy(update={"critique": SPOKEN, "problem": ""}) for review in reviews]
        return reviews

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        if self.parts == 1:
            return super().overlapped(collect, queries)
        with self.watch.phase(BOTH):
            return LocalStage.overlapped(replace(self, watch=Untimed()), collect, queries)


class WatchedRun(TrainingRun):
    """A run whose steps are timed. `parts` of a harvest go on at once, whatever a run would choose by itself."""

    def __init__(self, config: TrainConfig, folder: Path, *, fixed: bool, parts: int = 1) -> None:
        super().__init__(config, folder)
        self._fixed = fixed
        self._parts = parts
        self._stopwatch = Stopwatch()
        self._counts: Counter[str] = Counter()

    def measured(self) -> Measured:
        """Train, and say what the last step took."""
        told: list[Signals] = []
        self.train(lambda step, signals: told.append(signals))
        self._counts.update(trained=sum(int(signals["trained_tokens"]) for signals in told))
        return Measured(self._stopwatch.steps[-1], self._counts, told[-1])

    def _stage(self, crew: RoleModels, split: str, temperature: float) -> LocalStage:
        plain = super()._stage(crew, split, temperature)
        watched = WatchedStage(**{attribute.name: getattr(plain, attribute.name) for attribute in fields(plain)})
        if self._fixed:
            crew.models["policy"].encoder.stop_ids = ()  # every reply takes all its tokens
            watched = replace(watched, agent=self._walker)
        return replace(
            watched, watch=self._stopwatch, counts=self._counts, fixed=self._fixed, parts=self._parts
        )

    def _walker(self, model: LocalModel) -> Player:
        collecting = self.config.collecting
        agent = Player(model, temperature=collecting.temperature, max_tokens=collecting.reply_tokens)
        agent.walk = True
        return agent

    def _trainer(self, crew: RoleModels, watch: Callable[[int, Signals], None]) -> RoleTrainer:
        trainer: Any = super()._trainer(crew, watch)
        learn, publish = trainer._learn, trainer._publish

        def timed_learn(kept: Any, index: int, batch: Any, losses: Any) -> Any:
            with self._stopwatch.phase(LEARN[batch.role]):
                return learn(kept, index, batch, losses)

        def timed_publish() -> None:
            with self._stopwatch.phase(SYNC):
                publish()

        trainer._learn, trainer._publish = timed_learn, timed_publish
        trainer.add_callback(self._stopwatch)
        trainer.remove_callback(PrinterCallback)
        watched: RoleTrainer = trainer
        return watched
