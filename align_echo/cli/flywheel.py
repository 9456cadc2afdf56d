"""The work of `align-echo critic flywheel`: collect, train, put on trial; and again under the critic that came out.

    config.json                   what was asked for; a resumed flywheel must ask for the same
    held-out/                     a collection on the split for tests, which no critic learns from
    round-<r>/collection/         of the split that is learned from; from round 2 on, guided by the critic before
    round-<r>/critic/             trained on the collections of all rounds so far, from the start or the critic before
    round-<r>/trial/              that critic on the held-out collection
    summary.json                  `Flywheel`, written last

A part that has its own summary.json is finished and not made again. Left out: what each part is (`collect.py`,
`fit.py`, `critic_evaluate.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from align_echo import __version__
from align_echo.agents.players import choose_player, require_expert
from align_echo.cli.collect import OWN, Drawing, collect_into
from align_echo.cli.console import note, stdout
from align_echo.cli.critic_evaluate import evaluate_critic_into
from align_echo.cli.critic_report import percent
from align_echo.cli.fit import Fitted, checked, fit_into
from align_echo.cli.fit_folder import CRITIC
from align_echo.critic.labels import Rule
from align_echo.errors import UsageError
from align_echo.evaluate.folder import check_folder, open_folder
from align_echo.evaluate.selection import tasks_of_round
from align_echo.evaluate.tables import plain_table
from align_echo.files import write_atomically
from align_echo.flywheel.collection import Collected
from align_echo.flywheel.trial import CEILING, Success, Trial
from align_echo.intervals import Estimate
from align_echo.types import Frozen
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

COMMAND = "critic flywheel"
Made = TypeVar("Made", bound=Frozen)
Begin = Literal["start", "last"]
"""What the critic of a later round begins as: what the first one did, or the critic of the round before."""

SEEDS_APART = 1000
"""The draws of a round are those of the seed and so many more for every round."""


@dataclass(frozen=True)
class Wheel:
    """What is turned. `tasks` of `split` are played in every round with the candidates of `drawing`, and `test_tasks`
    of `test_split` once with `test_candidates`; `settings` change those of the file `config`. The states of `drawing`
    are those of the first round and of the tests; later rounds go where the critic leads.
    """

    env: str
    agent: str | None
    model: str | None
    critic: str
    begin: Begin
    rounds: int
    split: str
    tasks: int
    test_split: str
    test_tasks: int
    drawing: Drawing
    test_candidates: int
    rule: Rule | None
    config: Path | None
    settings: Mapping[str, object]
    share: float
    seed: int
    workers: int | None

    def on_record(self) -> dict[str, Any]:
        """What `config.json` holds. Raises `UsageError` for what no critic can be trained by."""
        apart = ("drawing", "config", "settings", "workers")
        found = {name: one for name, one in vars(self).items() if name not in apart}
        settings = checked(self.env, self.critic, self.rule, self.config, self.settings, self.share)
        learning = {"settings": settings.model_dump(mode="json")}
        return {"command": COMMAND, "align_echo": __version__, **found, **vars(self.drawing), **learning}


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
    single: Estimate
    ceiling: Estimate
    rounds: tuple[Turned, ...]


def turn(path: Path, wheel: Wheel, *, resume: bool) -> Flywheel:
    """Every round of it. Raises as its parts do, and `UsageError` for a folder of something else."""
    apart(environment(wheel.env), wheel.split, wheel.test_split)
    wheel.drawing.judge(choose_player(wheel.agent, wheel.model, (wheel.env,)))
    tests = _tasks(wheel, wheel.test_split, wheel.test_tasks, 1)
    played = [_tasks(wheel, wheel.split, wheel.tasks, number) for number in range(1, wheel.rounds + 1)]
    if wheel.drawing.states in OWN:
        for split, chosen in ((wheel.test_split, tests), (wheel.split, played[0])):
            require_expert(environment(wheel.env), split, chosen, None)
    config = json.loads(json.dumps(wheel.on_record()))
    check_folder(path, config, resume=resume)
    lock = open_folder(path, config, resume=resume)
    _collect(path / "held-out", _tested(wheel), wheel.test_split, tests, wheel.seed, guide=None)
    rounds: list[Turned] = []
    for number, tasks in enumerate(played, start=1):
        note(f"round {number} of {wheel.rounds}")
        rounds.append(_round(path, wheel, number, tasks))
    last = rounds[-1].trial.curve
    most = max(one.candidates for one in last)
    summary = Flywheel(
        environment=wheel.env,
        agent=rounds[0].collected.agent,
        seed=wheel.seed,
        single=_found(rounds[-1].trial, "critic", 1).success,
        ceiling=_found(rounds[-1].trial, CEILING, most).success,
        rounds=tuple(rounds),
    )
    write_atomically(path / "summary.json", summary.model_dump_json(indent=2) + "\n")
    lock.close()
    _show(summary)
    print(f"written: {path / 'summary.json'}; the last critic is {_critic(path, wheel.rounds)}")
    return summary


def apart(spec: EnvironmentSpec, split: str, test_split: str) -> None:
    """Raises `UsageError` for a split that is not there, or two that share tasks."""
    for one in (split, test_split):
        spec.check_split(one)
    shared = {*spec.tasks(split)} & {*spec.tasks(test_split)}
    if shared:
        raise UsageError(
            f"the splits {split} and {test_split} of {spec.name} share {len(shared)} tasks: test on another one"
        )


def _round(path: Path, wheel: Wheel, number: int, tasks: list[str]) -> Turned:
    folder = path / f"round-{number}"
    guide = str(_critic(path, number - 1)) if number > 1 else None
    seed = wheel.seed + SEEDS_APART * number
    collected = _collect(folder / "collection", wheel, wheel.split, tasks, seed, guide=guide, number=number)
    start = guide if guide and wheel.begin == "last" else wheel.critic
    collections = [path / f"round-{one}" / "collection" for one in range(1, number + 1)]
    fitted = _fit(folder / "critic", wheel, start, collections)
    trial = _rate(folder / "trial", wheel, _critic(path, number), path / "held-out")
    most = max(one.candidates for one in trial.curve)
    best = _found(trial, "critic", most)
    return Turned(number=number, collected=collected, fitted=fitted, trial=trial, best=best)


def _critic(path: Path, number: int) -> Path:
    return path / f"round-{number}" / "critic" / CRITIC


def _tested(wheel: Wheel) -> Wheel:
    return replace(wheel, drawing=replace(wheel.drawing, candidates=wheel.test_candidates))


def _tasks(wheel: Wheel, split: str, count: int, number: int) -> list[str]:
    spec = environment(wheel.env)
    return tasks_of_round(spec.tasks(split), count, number, task_type=spec.task_type, seed=wheel.seed)


def _collect(
    folder: Path, wheel: Wheel, split: str, tasks: list[str], seed: int, *, guide: str | None, number: int = 1
) -> Collected:
    if (folder / "summary.json").is_file():
        return _made(Collected, folder)
    return collect_into(
        folder,
        wheel.env,
        agent=wheel.agent,
        model=wheel.model,
        split=split,
        task_ids=tasks,
        samples=1,
        drawing=replace(wheel.drawing, guide=guide, states="agent" if guide else wheel.drawing.states),
        interface="none",
        base_url=None,
        seed=seed,
        workers=wheel.workers,
        data_root=None,
        resume=_begun(folder),
        number=number,
    )


def _fit(folder: Path, wheel: Wheel, start: str, collections: list[Path]) -> Fitted:
    if (folder / "summary.json").is_file():
        return _made(Fitted, folder)
    return fit_into(
        folder,
        collections,
        model=start,
        rule=wheel.rule,
        config=wheel.config,
        changes=wheel.settings,
        share=wheel.share,
        resume=_begun(folder),
    )


def _rate(folder: Path, wheel: Wheel, critic: Path, held_out: Path) -> Trial:
    if (folder / "summary.json").is_file():
        return _made(Trial, folder)
    return evaluate_critic_into(
        folder, str(critic), [held_out], rule=wheel.rule, base_url=None, seed=wheel.seed, resume=_begun(folder)
    )


def _made(kind: type[Made], folder: Path) -> Made:
    """The summary of a part that is finished. Raises `UsageError` if it is damaged."""
    try:
        return kind.model_validate_json((folder / "summary.json").read_bytes())
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise UsageError(f"{folder / 'summary.json'} is damaged ({said}): delete it and resume") from error


def _begun(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def _found(trial: Trial, rule: str, candidates: int) -> Success:
    return next(one for one in trial.curve if (one.rule, one.candidates) == (rule, candidates))


def _show(summary: Flywheel) -> None:
    print(f"held-out states: a single draw is right in {percent(summary.single)}, pass@N {percent(summary.ceiling)}")
    table = plain_table("rounds, on held-out tasks")
    heads = ("round", "learned from", "accuracy", "AUROC", "calibration error", "right action taken", "over one draw")
    for head in heads:
        table.add_column(head)
    for one in summary.rounds:
        report = one.trial.critic
        table.add_row(
            str(one.number),
            f"{one.fitted.learned_from:,}",
            percent(report.accuracy),
            "-" if report.auroc is None else f"{report.auroc.value:.3f}",
            "-" if report.after is None else f"{report.after.ece:.3f}",
            percent(one.best.success),
            f"{one.best.gain.value:+.1f} [{one.best.gain.ci95[0]:+.1f}, {one.best.gain.ci95[1]:+.1f}]",
        )
    stdout().print(table)
