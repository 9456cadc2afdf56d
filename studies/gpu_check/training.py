"""Steps of GRPO and of ECHO on ALFWorld, by phase, with the memory they took, and how far the log-probabilities of
playing are from those of learning, by turn: the package's own `TrainingRun`, watched.

Scores and critiques are made up of what was sampled (`studies.graded`), actions are a walk, and every reply has all its
tokens: so arms play and learn as much, whatever the weights say.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from align_echo.agents.reasoning import Vanilla
from align_echo.critic.ask import Verdict
from align_echo.models.local.engine import ModelEngine
from align_echo.rollout.session import Episode
from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.role_models import RoleModels
from align_echo.train.run import TrainingRun, choose_tasks
from align_echo.train.signals import Signals
from align_echo.train.stage import CritiqueRequest, LocalStage, Made, Stage
from align_echo.train.trainer import RoleTrainer
from align_echo.types import AgentView, Completion, Trajectory
from align_echo.wrappers.catalogue import make, tasks
from studies.gpu_check.shapes import Row, Work, peak_memory
from studies.pocket_model import pocket_model
from studies.trainer_step import Spent, Stopwatch

HALF = {"collecting": {"dtype": "bfloat16"}}
APART = {"step": {"share_prefixes": False}}
ADAPTERS = {"weights": "adapters"}

ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "grpo, prefixes not shared": ("grpo", APART),
    "echo": ("echo", {}),
    "echo, prefixes not shared": ("echo", APART),
    "echo, played in bfloat16": ("echo", HALF),
    "echo, adapters": ("echo", ADAPTERS),
}
"""A method, and what is asked of it beside what all have, by the arm's name. Batches are played in one part."""

SPLIT = "train"
STEPS = 2
"""Steps of an arm, of which the last is told."""

MISMATCH = "/mismatch/from_turn_"
PLAY, CRITIC, BOTH, SYNC = "policy play", "critic replies", "both at once", "sync"
PLAYING = (PLAY, CRITIC, BOTH)
LEARN = "learn "


class Walker(Vanilla):
    """The vanilla agent whose action is the next place to walk to, whatever the reply says."""

    def read(self, reply: str, view: AgentView) -> str:
        places = re.findall(r"[a-z]+ \d+", view.initial_observation) or ["look"]
        return f"go to {places[len(view.turns) % len(places)]}"

    def full_text(self, completion: Completion) -> str:
        return completion.text


@dataclass(frozen=True)
class WatchedStage(LocalStage):
    """A stage that is timed; what overlaps, as one phase, whose `watch` is None within."""

    watch: Stopwatch | None = None
    counts: Counter[str] = field(default_factory=Counter)
    counting: Any = field(default_factory=Lock)

    def _phase(self, name: str) -> Any:
        return self.watch.phase(name) if self.watch else nullcontext()

    def _count(self, results: Sequence[Any]) -> None:
        assert not any(result.fault for result in results), "an episode or a critic's model broke"
        with self.counting:
            self.counts["sampled"] += sum(result.usage.completion_tokens or 0 for result in results)

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        with self._phase(PLAY):
            played = super().play(episodes)
        assert not any(trajectory.context_overflow for trajectory in played)
        self._count(played)
        with self.counting:
            self.counts["turns"] += sum(len(trajectory.steps) for trajectory in played)
        return played

    def critique(self, requests: Sequence[CritiqueRequest]) -> list[Verdict]:
        with self._phase(CRITIC):
            reviews = super().critique(requests)
        self._count(reviews)
        return reviews

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        if self.parts == 1:
            return super().overlapped(collect, queries)
        with self._phase(BOTH):
            return LocalStage.overlapped(replace(self, watch=None), collect, queries)


@dataclass(frozen=True)
class Measured:
    """The last step of a run: what it took, signalled and counted, and its phases as `Stopwatch.spans`."""

    spent: Spent
    signals: Signals
    counts: Counter[str]
    spans: list[tuple[str, float, float]]


class _AllSteps(Exception):
    """All steps of a run are measured: nothing is saved."""


class _End(TrainerCallback):
    """Ends a run after its last step, before anything is saved."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if len(self._stopwatch.steps) == STEPS:
            raise _AllSteps


class WatchedRun(TrainingRun):
    """A run whose steps are timed, and which saves no weights. Batches are played in so many `parts`, whatever a run
    would choose by itself; `follow` gets each engine before it is asked.
    """

    def __init__(
        self, config: TrainConfig, folder: Path, parts: int = 1, follow: Callable[[ModelEngine], None] = lambda _: None
    ) -> None:
        super().__init__(config, folder)
        self._parts, self._follow, self._stopwatch, self._counts = parts, follow, Stopwatch(), Counter[str]()

    def _record(self) -> dict[str, Any]:
        """Return the settings alone: to hash the weights takes as long as a step."""
        return {"config": self.config.model_dump(mode="json")}

    def measured(self) -> Measured:
        """Train; what the last step took."""
        last: list[tuple[Signals, Counter[str]]] = []

        def watch(step: int, signals: Signals) -> None:
            last[:] = [(signals, self._counts + Counter({"trained": int(signals["trained_tokens"])}))]
            self._counts.clear()

        with suppress(_AllSteps):
            self.train(watch)
        return Measured(self._stopwatch.steps[-1], *last[0], self._stopwatch.spans)

    def _stage(self, crew: RoleModels, split: str, temperature: float) -> LocalStage:
        plain = super()._stage(crew, split, temperature)
        for engine in dict.fromkeys(crew.engines.values()):
            self._follow(engine)
        crew.models["policy"].encoder.stop_ids = ()  # every reply takes all its tokens
        given = {attribute.name: getattr(plain, attribute.name) for attribute in fields(plain)}
        collecting = self.config.collecting
        given["agent"] = lambda model: Walker(
            model, temperature=collecting.temperature, max_tokens=collecting.reply_tokens
        )
        return WatchedStage(**{**given, "parts": self._parts}, watch=self._stopwatch, counts=self._counts)

    def _trainer(self, crew: RoleModels, watch: Callable[[int, Signals], None]) -> RoleTrainer:
        trainer: Any = super()._trainer(crew, watch)
        learn, publish = trainer._learn, trainer._publish

        def timed_learn(kept: Any, index: int, batch: Any, losses: Any) -> Any:
            with self._stopwatch.phase(LEARN + batch.role):
                return learn(kept, index, batch, losses)

        def timed_publish() -> None:
            with self._stopwatch.phase(SYNC):
                publish()

        trainer._learn, trainer._publish = timed_learn, timed_publish
        trainer.add_callback(self._stopwatch)
        trainer.add_callback(_End(self._stopwatch))
        trainer.remove_callback(PrinterCallback)
        watched: RoleTrainer = trainer
        return watched


def saved(model: Any, folder: Path, queries: int, seeds: Sequence[int] = (0,)) -> None:
    """Save the model with the pocket model's tokenizer, whose ids begin its vocabulary; compile its games."""
    model.save_pretrained(folder)
    pocket_model()[1].save_pretrained(folder)
    env, pool = make("alfworld", split=SPLIT), tasks("alfworld", split=SPLIT)
    for seed, number in product(seeds, range(STEPS)):
        for task in choose_tasks(number, pool, queries, seed):
            env.reset(options={"task": task})


def training_step(folder: Path, name: str, arm: str, work: Work) -> Iterator[Row]:
    """One arm on the model in `folder`: seconds of its last step by phase, memory, and the mismatch by turn."""
    method_name, changes = ARMS[arm]
    with peak_memory() as memory, tempfile.TemporaryDirectory() as run_folder:
        step = WatchedRun(config_of(folder, method_name, changes, work), Path(run_folder)).measured()
    key, spent = {"part": "training step", "model": name, "arm": arm}, step.spent
    figures = {"seconds": spent.seconds, **spent.phases, "rest": spent.seconds - sum(spent.phases.values())}
    yield Row(key, {**figures, "memory_gib": memory.gib, **step.counts})
    apart = {signal: value for signal, value in step.signals.items() if MISMATCH in signal}
    by_turn = {signal.replace(MISMATCH, ", turn "): value for signal, value in apart.items()}
    yield Row({**key, "part": "mismatch"}, by_turn)


def config_of(folder: Path, name: str, changes: Mapping[str, Any], work: Work) -> TrainConfig:
    """Return the settings of `STEPS` steps of a method on the model in `folder`."""
    values = merged(
        method(name),
        {
            "env": "alfworld",
            "split": SPLIT,
            "model": str(folder),
            "weights": "models",
            **({"trained": ["policy"]} if name == "grpo" else {}),
            "method": f"studies.graded:{name.upper()}",
            "collecting": {
                **{"tasks": work.queries, "samples": work.samples, "workers": work.queries * work.samples},
                **{"turns": work.episode, "reply_tokens": work.reply, "critique_tokens": 4 * work.reply},
            },
            "step": {"tokens_per_batch": 16_384},
            "optimising": {"lr": 1e-6},
            "steps": STEPS,
            "bf16": True,
        },
    )
    return checked_config(merged(values, changes), name)
