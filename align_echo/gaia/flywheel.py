"""The flywheel: collect, train, put on trial; and again under the critic that came out (GAIA, paper 3, section 3.3).

    config.json                   what was asked for; a resumed flywheel must ask for the same
    held-out/                     a collection on the split for tests, which no critic learns from
    round-<r>/collection/         of the split that is learned from; from round 2 on, led by the critic before
    round-<r>/critic/             trained on the collections of all rounds so far, from the start or the critic before
    round-<r>/trial/              that critic on the held-out collection
    summary.json                  `Flywheel`, written last

A part that has its own summary.json is finished and not made again. Left out: what each part is (`collect.py`, `fit`,
`trial.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import ValidationError

from align_echo import __version__
from align_echo.agents.players import Player
from align_echo.critic.labels import Rule, rules_of
from align_echo.errors import UsageError
from align_echo.evaluate.folder import check_folder, open_folder
from align_echo.evaluate.plan import Plan
from align_echo.evaluate.selection import tasks_of_round
from align_echo.files import write_atomically
from align_echo.gaia.collect import Drawing, collect, plan_collection
from align_echo.gaia.collection import Collected
from align_echo.gaia.examples import check_share
from align_echo.gaia.figures import CEILING, Success, Trial
from align_echo.gaia.fit.folder import CRITIC
from align_echo.gaia.fit.intuitive import Fitted, check_learner, fit
from align_echo.gaia.trial import trial
from align_echo.intervals import Percent
from align_echo.models.names import ModelName, read_name
from align_echo.progress import SILENT, Progress
from align_echo.reading import json_object
from align_echo.regular_files import read_bytes
from align_echo.train.needs import require_reports
from align_echo.types import Frozen
from align_echo.workers.choice import Workers
from align_echo.wrappers.environment import EnvironmentSpec

if TYPE_CHECKING:
    from align_echo.gaia.fit.learning import FitSettings

COMMAND = "critic flywheel"
Summary = TypeVar("Summary", bound=Frozen)
Begin = Literal["start", "last"]
"""What the critic of a later round begins as: what the first one did, or the critic of the round before."""

Watch = Callable[[Collected | Fitted | Trial], None]

SEEDS_APART = 1000
"""The draws of a round are those of the seed and so many more for every round."""


def unwatched(part: Collected | Fitted | Trial) -> None:
    """A `Watch` that does nothing: the parts can be read in their folders."""


@dataclass(frozen=True)
class Wheel:
    """The settings of a flywheel: `tasks` of `split` are played in every round with the candidates of `drawing`, and
    `test_tasks` of `test_split` once with `test_candidates`; critics begin as the model `critic` and learn by
    `settings`. The states of `drawing` are those of the first round and of the tests; later rounds go where the critic
    leads.
    """

    spec: EnvironmentSpec
    player: Player
    settings: FitSettings
    critic: ModelName
    split: str
    test_split: str
    drawing: Drawing
    test_candidates: int
    rounds: int = 2
    tasks: int = 100
    test_tasks: int = 50
    begin: Begin = "start"
    rule: Rule | None = None
    share: float = 0.1
    seed: int = 0
    workers: Workers | None = None

    def on_record(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {
            "command": COMMAND,
            "align_echo": __version__,
            "env": self.spec.name,
            "agent": self.player.agent.name,
            "model": self.player.model and self.player.model.text,
            "critic": self.critic.text,
            "begin": self.begin,
            "rounds": self.rounds,
            "split": self.split,
            "tasks": self.tasks,
            "test_split": self.test_split,
            "test_tasks": self.test_tasks,
            "test_candidates": self.test_candidates,
            "rule": self.rule,
            "share": self.share,
            "seed": self.seed,
            **vars(self.drawing),
            "judge": self.drawing.judge and self.drawing.judge.text,
            "settings": self.settings.model_dump(mode="json"),
        }

    def check(self) -> None:
        """Raises `UsageError` for what cannot be drawn, told apart or learned by."""
        apart(self.spec, self.split, self.test_split)
        self.drawing.judged_by(self.player)
        check_share(self.share)
        rules = rules_of(self.spec)
        if self.rule is not None and self.rule not in rules:
            raise UsageError(
                f"{self.spec.name} is not labelled by the rule {self.rule}: choose {' or '.join(rules)}"
            )

    def tasks_of(self, split: str, count: int, number: int) -> list[str]:
        """The tasks that are played in a round, `count` of a split."""
        ids = self.spec.tasks(split)
        return tasks_of_round(ids, count, number, task_type=self.spec.task_type, seed=self.seed)


class Turned(Frozen):
    """One round: what was collected in it, what the critic learned from and how it does on held-out tasks, and the
    share of states in which the candidate that it takes of all is right.
    """

    number: int
    collected: Collected
    fitted: Fitted
    trial: Trial
    best: Success


class Flywheel(Frozen):
    """All rounds, and what they started from: a single draw, and pass@N, on the held-out states."""

    environment: str
    agent: str
    seed: int
    single: Percent
    ceiling: Percent
    rounds: tuple[Turned, ...]


def turn(
    wheel: Wheel,
    path: Path,
    *,
    resume: bool = False,
    progress: Progress = SILENT,
    watch: Watch = unwatched,
) -> Flywheel:
    """Make every round of a flywheel. `watch` is given each part once it is finished, or was finished earlier.

    Raises as the parts do, and `UsageError` for a folder of something else.
    """
    require_reports()
    wheel.check()
    tests = wheel.tasks_of(wheel.test_split, wheel.test_tasks, 1)
    played = [wheel.tasks_of(wheel.split, wheel.tasks, number) for number in range(1, wheel.rounds + 1)]
    _plan(_tested(wheel), wheel.test_split, tests, wheel.seed)
    _plan(wheel, wheel.split, played[0], wheel.seed)
    config = _as_stored(path, json.loads(json.dumps(wheel.on_record())))
    check_folder(path, config, resume=resume)
    if not critic_of(path, 1).is_dir():
        check_learner(wheel.critic)
    lock = open_folder(path, config, resume=resume)
    watch(_collect(path / "held-out", _tested(wheel), wheel.test_split, tests, wheel.seed, progress))
    rounds: list[Turned] = []
    judge: ModelName | None = None
    for number, tasks in enumerate(played, start=1):
        progress.say(f"round {number} of {wheel.rounds}")
        turned, judge = _round(path, wheel, number, tasks, judge, progress, watch)
        rounds.append(turned)
    last = rounds[-1].trial
    flywheel = Flywheel(
        environment=wheel.spec.name,
        agent=rounds[0].collected.agent,
        seed=wheel.seed,
        single=_success(last, "critic", 1).success,
        ceiling=_success(last, CEILING, _most(last)).success,
        rounds=tuple(rounds),
    )
    write_atomically(path / "summary.json", flywheel.model_dump_json(indent=2) + "\n")
    lock.close()
    return flywheel


def critic_of(path: Path, number: int) -> Path:
    """The folder of the critic that came out of a round."""
    return path / f"round-{number}" / "critic" / CRITIC


def apart(spec: EnvironmentSpec, split: str, test_split: str) -> None:
    """Raises `UsageError` for a split that is not there, or two that share tasks."""
    for name in (split, test_split):
        spec.check_split(name)
    shared = {*spec.tasks(split)} & {*spec.tasks(test_split)}
    if shared:
        raise UsageError(
            f"the splits {split} and {test_split} of {spec.name} share {len(shared)} tasks: test on another one"
        )


def _as_stored(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The settings as an older flywheel wrote them, which put down null for an agent and a model that were not named.
    """
    stored = json_object(path / "config.json") or {}
    return config | {key: None for key in ("agent", "model") if key in stored and stored[key] is None}


def _round(
    path: Path,
    wheel: Wheel,
    number: int,
    tasks: list[str],
    judge: ModelName | None,
    progress: Progress,
    watch: Watch,
) -> tuple[Turned, ModelName]:
    """A round, led by the critic of the round before; and the critic that came out of it."""
    folder = path / f"round-{number}"
    led = replace(wheel, drawing=replace(wheel.drawing, judge=judge, states="agent")) if judge else wheel
    seed = wheel.seed + SEEDS_APART * number
    collected = _collect(folder / "collection", led, wheel.split, tasks, seed, progress, number=number)
    watch(collected)
    start = judge if judge and wheel.begin == "last" else wheel.critic
    collections = [path / f"round-{earlier}" / "collection" for earlier in range(1, number + 1)]
    fitted = _fit(folder / "critic", wheel, start, collections, progress)
    watch(fitted)
    critic = read_name(str(critic_of(path, number)))
    tried = _try(folder / "trial", wheel, critic, path / "held-out", progress)
    watch(tried)
    best = _success(tried, "critic", _most(tried))
    return Turned(number=number, collected=collected, fitted=fitted, trial=tried, best=best), critic


def _tested(wheel: Wheel) -> Wheel:
    return replace(wheel, drawing=replace(wheel.drawing, candidates=wheel.test_candidates))


def _collect(
    folder: Path, wheel: Wheel, split: str, tasks: list[str], seed: int, progress: Progress, *, number: int = 1
) -> Collected:
    if (folder / "summary.json").is_file():
        return _summary(Collected, folder)
    plan = _plan(wheel, split, tasks, seed)
    return collect(plan, wheel.drawing, folder, resume=_begun(folder), number=number, progress=progress)


def _plan(wheel: Wheel, split: str, tasks: list[str], seed: int) -> Plan:
    """Return what is played to collect. Raises as `plan_collection`."""
    return plan_collection(
        wheel.spec, wheel.player, wheel.drawing, split=split, task_ids=tasks, seed=seed, workers=wheel.workers
    )


def _fit(folder: Path, wheel: Wheel, start: ModelName, collections: list[Path], progress: Progress) -> Fitted:
    if (folder / "summary.json").is_file():
        return _summary(Fitted, folder)
    return fit(
        collections,
        folder,
        model=start,
        rule=wheel.rule,
        settings=wheel.settings,
        share=wheel.share,
        least=1,
        resume=_begun(folder),
        progress=progress,
    )


def _try(folder: Path, wheel: Wheel, critic: ModelName, held_out: Path, progress: Progress) -> Trial:
    if (folder / "summary.json").is_file():
        return _summary(Trial, folder)
    return trial(
        critic, [held_out], folder, rule=wheel.rule, seed=wheel.seed, resume=_begun(folder), progress=progress
    )


def _summary(kind: type[Summary], folder: Path) -> Summary:
    """The summary of a part that is finished. Raises `UsageError` if it is damaged."""
    try:
        return kind.model_validate_json(read_bytes(folder / "summary.json"))
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise UsageError(f"{folder / 'summary.json'} is damaged ({why}): delete it and resume") from error


def _begun(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def _most(tried: Trial) -> int:
    return max(success.candidates for success in tried.curve)


def _success(tried: Trial, rule: str, candidates: int) -> Success:
    return next(
        success for success in tried.curve if (success.rule, success.candidates) == (rule, candidates)
    )
