"""Read the files of runs once for all plots, and note damaged or missing ones.

    summary.json         of every verb, written last
    trajectories/        of evaluations: read only to find damaged episodes
    signals.jsonl, held_out.jsonl, refinements.jsonl, critiques/<step>.jsonl     of training

Not here: the plots.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from align_echo.base.plain_yaml import first_wrong, json_object
from align_echo.critic.ask import Verdict
from align_echo.errors import UsageError, printable
from align_echo.intervals import Percent, Score
from align_echo.rollout.episode_files import (
    EPISODES,
    PASSED_BY,
    DamagedLine,
    describe_damage,
    make_unique,
    read_records,
    run_name,
)
from align_echo.run_dir import CONFIG, GENERATE, SUMMARY, flat, recorded_verb
from align_echo.train.presets import implementation_for, methods, preset_settings, with_new_keys
from align_echo.train.rollouts import CRITIQUES, CritiquedAttempt
from align_echo.types import Trajectory

# ---------------------------------------------------------------- find the folders of runs, at any depth

HOLDS = "evaluate, grid, study, generate-interface, train or critic"
"""Verbs covered by a report, for messages."""

VERBS = {
    *("evaluate", "grid", "study", GENERATE, "train"),
    *("critic collect", "critic train", "critic evaluate", "critic flywheel"),
}
WHOLES = {"grid", "study", "critic flywheel"}
"""Verbs whose runs contain complete runs of other verbs. Runs inside other folders count as separate."""

DEEPEST = 8
"""Most levels of folders to search below the given one."""


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A started run: its folder, display name, verb, and the content of its `config.json`.

    `made_by` is the grid, study or flywheel it is a part of; None for a separate run.
    """

    folder: Path
    name: str
    verb: str
    config: Mapping[str, Any]
    made_by: RecordedRun | None = None

    @property
    def command(self) -> str:
        """Return the command behind the run, as far as `config.json` tells: its own, or that of the run it is a part
        of.
        """
        root = self
        while root.made_by is not None:
            root = root.made_by
        return shlex.join(["align-echo", *root.verb.split(), *_options(root)])


def find_runs(paths: Sequence[Path]) -> list[RecordedRun]:
    """Find the runs in these folders, each once, parents before their parts.

    Raises `UsageError` for a missing path or a file, and for a folder without runs.
    """
    configs: dict[Path, dict[str, Any]] = {}
    names: dict[Path, str] = {}
    for path in paths:
        top = path.resolve()
        if not top.is_dir():
            raise UsageError(f"there is no folder {path}: name the folder of a run" if not top.exists() else
                             f"{path} is a file: name the folder of a run")  # fmt: skip
        inside = _runs_below(top)
        if not inside:
            raise UsageError(f"{path} holds no run of {HOLDS}: name the folder that such a command wrote")
        for folder, config in inside.items():
            configs.setdefault(folder, config)
            names.setdefault(folder, run_name(folder, top))
    unique = make_unique(names)
    runs: dict[Path, RecordedRun] = {}
    for folder in sorted(configs, key=lambda folder: len(folder.parts)):
        ancestors = (runs[parent] for parent in folder.parents if parent in runs)
        parent_run = next((ancestor for ancestor in ancestors if ancestor.verb in WHOLES), None)
        runs[folder] = RecordedRun(folder, unique[folder], recorded_verb(configs[folder]), configs[folder], parent_run)
    return [runs[folder] for folder in configs]


def _runs_below(top: Path) -> dict[Path, dict[str, Any]]:
    configs: dict[Path, dict[str, Any]] = {}
    for folder, inner, names in os.walk(top):
        depth = len(Path(folder).relative_to(top).parts)
        inner[:] = [] if depth >= DEEPEST else sorted(name for name in inner if _is_searched(name))
        config = json_object(Path(folder) / CONFIG) if CONFIG in names else None
        if config is not None and recorded_verb(config) in VERBS:
            configs[Path(folder)] = config
    return configs


def _is_searched(name: str) -> bool:
    return name not in PASSED_BY and not name.startswith(".")


# ---------------------------------------------------------------- commands

_PLAYED = (("--env", "environment"), ("--agent", "agent"), ("--model", "model"), ("--split", "split"))
_OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "evaluate": (
        *_PLAYED,
        *(("--interface", "interfaces"), ("--tasks", "tasks"), ("--episodes-per-task", "episodes_per_task")),
        *(("--temperature", "agent_details.temperature"), ("--best-of", "agent_details.best_of")),
        *(("--refine-rounds", "refine_rounds"), ("--critic", "critic_details.model.critic"), ("--seed", "seed")),
    ),
    "grid": (
        *(("--env", "environments"), ("--agent", "agents"), ("--model", "model"), ("--interface", "interfaces")),
        *(("--tasks", "tasks"), ("--seed", "seed")),
    ),
    "study": (),
    GENERATE: (
        *(("--env", "environment"), ("--agent", "agent"), ("--backend", "backend"), ("--iterations", "iterations")),
        *(("--tasks-per-iteration", "tasks_per_iteration"), ("--seed", "seed")),
    ),
    "critic collect": (*_PLAYED, ("--tasks", "tasks"), ("--candidates", "agent_details.best_of"), ("--seed", "seed")),
    "critic train": (("--examples", "collections"), ("--model", "model"), ("--rule", "rule")),
    "critic evaluate": (("--rule", "rule"), ("--seed", "seed")),
    "critic flywheel": (
        *(("--env", "env"), ("--agent", "agent"), ("--model", "model"), ("--rounds", "rounds"), ("--tasks", "tasks")),
        *(("--test-tasks", "test_tasks"), ("--candidates", "candidates"), ("--states", "states"), ("--seed", "seed")),
    ),
}
"""By verb: the options of the command, and the dotted name of each in `config.json`."""


def _options(run: RecordedRun) -> list[str]:
    if run.verb == "train":
        return _training_options(run)
    if run.verb == "study":
        summary = json_object(run.folder / "summary.json") or {}
        return [str(summary.get("name", "FILE.yaml"))]
    words = []
    settings = {**flat(run.config), **run.config}
    alternative_keys = {"interfaces": "interface_named", "agent": "player"}
    for option, key in _OPTIONS[run.verb]:
        setting = settings.get(alternative_keys.get(key, ""), settings.get(key))
        for value in _values(run.verb, key, setting):
            words += [option, value]
    if "refine_rounds" in settings and settings.get("critic_details") is None:
        words += ["--critic", "none"]
    interfaces = run.config.get("interfaces")
    has_variants = isinstance(interfaces, Mapping) and len(interfaces) > 2
    words += ["--no-retract"] if settings.get("retract") is False else []
    return [*words, *(["--compare"] if run.verb == "evaluate" and has_variants else [])]


def _values(verb: str, key: str, value: object) -> list[str]:
    """Format a setting as words of a command line; none for an unset or default value."""
    if value is None or (key, value) == ("episodes_per_task", 1):
        return []
    if key == "interfaces" and isinstance(value, Mapping):
        labels = [str(label).rpartition("@")[0] or str(label) for label in value.values()]
        names = [label.rpartition("/")[2] if verb == "grid" else label for label in labels]
        return [name for name in names if name != "none"][:1]
    if key == "tasks" and isinstance(value, Mapping):
        return [str(max((len(ids) for ids in value.values()), default=0))]
    if key == "tasks" and isinstance(value, list):
        return [str(len(value))]
    return [str(part) for part in value] if isinstance(value, list) else [str(value)]


def _training_options(run: RecordedRun) -> list[str]:
    """Return the method and the main settings; all others are in the run's `config.json`."""
    config = run.config.get("config")
    settings = with_new_keys(config) if isinstance(config, Mapping) else {}
    words = ["--method", find_method(settings)]
    for option, key in (
        *(("--env", "env"), ("--interface", "interface"), ("--model", "model"), ("--steps", "steps")),
        ("--seed", "seed"),
    ):
        words += [option, str(settings[key])] if key in settings else []
    return words


_SIZES = {f"collecting.{name}" for name in ("samples", "tasks", "rounds", "states", "critique_tokens")}
"""Settings that may differ within a method, like those of `optimising`."""


def find_method(settings: Mapping[str, Any]) -> str:
    """Return the method of a training run: the most specific shipped config that agrees with its settings, else the
    method that it recorded.

    Runs of earlier versions stored their settings, but not the file they came from.
    """
    recorded = str(settings.get("method", "?"))
    run_settings = {**flat(settings), "implementation": implementation_for(recorded)}
    matches: dict[str, int] = {}
    for name in methods():
        values = {**flat(preset_settings(name)), "implementation": implementation_for(name)}
        values.pop("method")
        sizes = {key for key in values if key in _SIZES or key.startswith("optimising.")}
        method_settings = {key: value for key, value in values.items() if key not in sizes}
        if all(run_settings.get(key) == value for key, value in method_settings.items()):
            matches[name] = len(method_settings)
    return max(sorted(matches), key=lambda name: matches[name], default=recorded)


# ---------------------------------------------------------------- material

Kind = TypeVar("Kind", bound=BaseModel)
PHASES = ("early", "middle", "late")
"""Thirds of a training run, by its steps."""


class StepSignals(BaseModel):
    """A line of `signals.jsonl`: the number of the step, and every signal by its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]

    step: int

    @property
    def values(self) -> dict[str, float]:
        """Return the signals by name."""
        return self.__pydantic_extra__


class HeldOutFigures(BaseModel):
    """A line of `held_out.jsonl`: figures on held-out tasks after `step` steps."""

    step: int
    score: Score
    success: Percent


class StepScores(BaseModel):
    """A line of `refinements.jsonl`: scores (before, after) of a step's refined attempts."""

    step: int
    scores: list[tuple[FiniteFloat, FiniteFloat]]


@dataclass
class ReportData:
    """Runs with their damaged lines and notes on missing files. Files are read on demand."""

    runs: Sequence[RecordedRun]
    damaged: list[DamagedLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _read: dict[tuple[Path, type[BaseModel]], list[Any]] = field(default_factory=dict)

    def runs_with_verb(self, *verbs: str) -> list[RecordedRun]:
        """Return the runs of these verbs."""
        return [run for run in self.runs if run.verb in verbs]

    def problems(self) -> list[str]:
        """List damaged and missing parts, a line each."""
        return [*describe_damage(self.damaged), *map(printable, dict.fromkeys(self.notes))]

    def summary(self, run: RecordedRun, kind: type[Kind]) -> Kind | None:
        """Read a run's `summary.json`; None, with a note, if it is missing or invalid."""
        parsed = self.summary_object(run)
        if parsed is None:
            return None
        try:
            return kind.model_validate(parsed)
        except ValidationError as error:
            self.notes.append(f"{run.folder / SUMMARY} is damaged and left out: {first_wrong(error)}")
            return None

    def summary_object(self, run: RecordedRun) -> dict[str, Any] | None:
        """Read a run's `summary.json` without validation."""
        file = run.folder / SUMMARY
        if not os.path.lexists(file):
            self.notes.append(f"{run.name} is not finished: it has no {SUMMARY} yet (go on with --resume)")
            return None
        with self._noting_unreadable(file):
            parsed = json_object(file, folder=run.folder)
            if parsed is None:
                self.notes.append(f"{file} is damaged and left out")
            return parsed
        return None

    def check_episodes(self, run: RecordedRun) -> None:
        """Note unreadable episodes of an evaluation: its figures come from its `summary.json` alone."""
        damaged, notes = len(self.damaged), len(self.notes)
        for file in sorted((run.folder / EPISODES).glob("*.jsonl")):
            with self._noting_unreadable(file):
                for _ in read_records(file, Trajectory, self.damaged, folder=run.folder):
                    pass
        is_damaged = (len(self.damaged), len(self.notes)) != (damaged, notes)
        if is_damaged and os.path.lexists(run.folder / SUMMARY):
            self.notes.append(f"the figures of {run.name} come from its {SUMMARY}, not from its {EPISODES}")

    def lines(self, run: RecordedRun, file: Path, kind: type[Kind]) -> list[Kind]:
        """Read the complete lines of a run's file; none without a file."""
        if (file, kind) not in self._read:
            self._read[file, kind] = []
            if os.path.lexists(file):
                with self._noting_unreadable(file):
                    self._read[file, kind] = list(read_records(file, kind, self.damaged, folder=run.folder))
        return list(self._read[file, kind])

    @contextmanager
    def _noting_unreadable(self, file: Path) -> Iterator[None]:
        """Note a file left out because it cannot be read at all."""
        try:
            yield
        except UsageError as error:
            self.notes.append(f"{error} (it is left out)")
        except OSError as error:
            self.notes.append(f"{file} cannot be read and is left out: {error.strerror}")

    def signals(self, run: RecordedRun) -> list[StepSignals]:
        """Read the signals of a training run, step by step."""
        return self.lines(run, run.folder / "signals.jsonl", StepSignals)

    def held_out(self, run: RecordedRun) -> list[HeldOutFigures]:
        """Read its held-out figures, the first before any step."""
        return self.lines(run, run.folder / "held_out.jsonl", HeldOutFigures)

    def refinements(self, run: RecordedRun) -> list[StepScores]:
        """Read its scores before and after, step by step."""
        return self.lines(run, run.folder / "refinements.jsonl", StepScores)

    def critiques(self, run: RecordedRun) -> Iterator[tuple[int, Verdict]]:
        """Read its stored critiques, each with the first step trained on it, in order."""
        files = [file for file in (run.folder / CRITIQUES).glob("*.jsonl") if file.stem.isdecimal()]
        for file in sorted(files, key=lambda file: int(file.stem)):
            for attempt in self.lines(run, file, CritiquedAttempt):
                yield int(file.stem), attempt.review

    def phase(self, run: RecordedRun, step: int) -> str:
        """Return the third of a run that contains a step, by the steps so far."""
        last = max((line.step for line in self.signals(run)), default=step)
        return PHASES[min((step - 1) * len(PHASES) // max(last, 1), len(PHASES) - 1)]
