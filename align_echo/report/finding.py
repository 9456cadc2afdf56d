"""Find the folders of runs, at any depth: a grid, a study or a flywheel is found as the runs inside it.

Not here: the content of their files (`material.py`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from align_echo.errors import UsageError
from align_echo.reading import json_object
from align_echo.runs import CONFIG, flat
from align_echo.train.presets import implementation_for, methods, preset_settings
from align_echo.train.renamed_keys import with_new_keys
from align_echo.view.finding import PASSED_BY, make_unique, run_name

GENERATE = "generate-interface"
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
        runs[folder] = RecordedRun(folder, unique[folder], _verb(configs[folder]), configs[folder], parent_run)
    return [runs[folder] for folder in configs]


def _runs_below(top: Path) -> dict[Path, dict[str, Any]]:
    configs: dict[Path, dict[str, Any]] = {}
    for folder, inner, names in os.walk(top):
        depth = len(Path(folder).relative_to(top).parts)
        inner[:] = [] if depth >= DEEPEST else sorted(name for name in inner if _is_searched(name))
        config = json_object(Path(folder) / CONFIG) if CONFIG in names else None
        if config is not None and _verb(config) in VERBS:
            configs[Path(folder)] = config
    return configs


def _is_searched(name: str) -> bool:
    return name not in PASSED_BY and not name.startswith(".")


def _verb(config: Mapping[str, Any]) -> str:
    """Return the verb of a run's settings; "" for anything else. A run of `generate-interface` does not record it."""
    verb = config.get("command", GENERATE if {"backend", "iterations"} <= config.keys() else "")
    return verb if isinstance(verb, str) else ""


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
