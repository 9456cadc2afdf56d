"""Which folders hold runs: searched to any depth, so that a grid, a study or a flywheel is the runs within it.

Left out: what their files hold (`material.py`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from align_echo.errors import UsageError
from align_echo.reading import json_object, yaml_mapping
from align_echo.runs import CONFIG, flat
from align_echo.view.finding import PASSED_BY, run_name, told_apart

GENERATE = "generate-interface"
HOLDS = "evaluate, grid, study, generate-interface, train or critic"
"""The verbs whose runs a report is made of."""

VERBS = {
    *("evaluate", "grid", "study", GENERATE, "train"),
    *("critic collect", "critic train", "critic evaluate", "critic flywheel"),
}
WHOLES = {"grid", "study", "critic flywheel"}
"""Those of which a run holds whole runs of others. What a user put into the folder of any other is by itself."""

DEEPEST = 8
"""Folders below the one that was named in which runs are looked for."""


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A run that was begun: its folder, what it is called here, its verb, and what its `config.json` holds.

    `made_by` is the run of a grid, a study or a flywheel that it is a part of; None for one by itself.
    """

    folder: Path
    name: str
    verb: str
    config: Mapping[str, Any]
    made_by: RecordedRun | None = None

    @property
    def command(self) -> str:
        """The command that made it, as far as its `config.json` tells: its own settings, or those of its whole."""
        whole = self
        while whole.made_by is not None:
            whole = whole.made_by
        return shlex.join(["align-echo", *whole.verb.split(), *_options(whole)])


def find_runs(paths: Sequence[Path]) -> list[RecordedRun]:
    """The runs in these folders, each once, a whole before its parts.

    Raises `UsageError` for a path that is not there or is no folder, and for one that holds no run.
    """
    configs: dict[Path, dict[str, Any]] = {}
    names: dict[Path, str] = {}
    for path in paths:
        here = path.resolve()
        if not here.is_dir():
            raise UsageError(f"there is no folder {path}: name the folder of a run" if not here.exists() else
                             f"{path} is a file: name the folder of a run")  # fmt: skip
        inside = _runs_below(here)
        if not inside:
            raise UsageError(f"{path} holds no run of {HOLDS}: name the folder that such a command wrote")
        for folder, config in inside.items():
            configs.setdefault(folder, config)
            names.setdefault(folder, run_name(folder, here))
    unique = told_apart(names)
    runs: dict[Path, RecordedRun] = {}
    for folder in sorted(configs, key=lambda folder: len(folder.parts)):
        around = (runs[parent] for parent in folder.parents if parent in runs)
        above = next((whole for whole in around if whole.verb in WHOLES), None)
        runs[folder] = RecordedRun(folder, unique[folder], _verb(configs[folder]), configs[folder], above)
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
    """The verb of a run's settings; "" for those of something else. A run of `generate-interface` does not name it."""
    named = config.get("command", GENERATE if {"backend", "iterations"} <= config.keys() else "")
    return named if isinstance(named, str) else ""


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
"""By verb the options that a command is told with, and the setting that each is in `config.json`, by dotted names."""


def _options(run: RecordedRun) -> list[str]:
    if run.verb == "train":
        return _training_options(run)
    if run.verb == "study":
        summary = json_object(run.folder / "summary.json") or {}
        return [str(summary.get("name", "FILE.yaml"))]
    words = []
    settings = {**flat(run.config), **run.config}
    named = {"interfaces": "interface_named", "agent": "player"}
    for option, key in _OPTIONS[run.verb]:
        given = settings.get(named.get(key, ""), settings.get(key))
        for value in _values(run.verb, key, given):
            words += [option, value]
    if "refine_rounds" in settings and settings.get("critic_details") is None:
        words += ["--critic", "none"]
    interfaces = run.config.get("interfaces")
    several = isinstance(interfaces, Mapping) and len(interfaces) > 2
    words += ["--no-retract"] if settings.get("retract") is False else []
    return [*words, *(["--compare"] if run.verb == "evaluate" and several else [])]


def _values(verb: str, key: str, value: object) -> list[str]:
    """A setting as words of a command line; none where it is not set, or is as it would be without the option."""
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
    """The method and the main settings: all others are in the run's `config.json`."""
    config = run.config.get("config")
    settings = config if isinstance(config, Mapping) else {}
    words = ["--method", method_of(settings)]
    for option, key in (
        *(("--env", "env"), ("--interface", "interface"), ("--model", "model"), ("--steps", "steps")),
        ("--seed", "seed"),
    ):
        words += [option, str(settings[key])] if key in settings else []
    return words


_SIZES = {f"collecting.{name}" for name in ("samples", "queries", "rounds", "states", "critique_tokens")}
"""Settings of a method's file that make it no other method when they are changed, as those of `optimising`."""


def method_of(settings: Mapping[str, Any]) -> str:
    """The method of a training run: of the shipped files that agree with its settings, the one that says most; else the
    name of its recipe. A run keeps all its settings, and not which file it had them from.
    """
    asked = flat(settings)
    said: dict[str, int] = {}
    for file in resources.files("align_echo.train").joinpath("configs").iterdir():
        values = flat(yaml_mapping(file.read_text(encoding="utf-8"), file.name))
        own = {key: value for key, value in values.items() if key not in _SIZES and not key.startswith("optimising.")}
        if all(asked.get(key) == value for key, value in own.items()):
            said[file.name.removesuffix(".yaml")] = len(own)
    return max(sorted(said), key=lambda name: said[name], default=str(asked.get("collecting.recipe", "?")))
