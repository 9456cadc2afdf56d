"""Specification of an environment before an instance exists: `EnvironmentSpec`. No environment is known here by name.

Not here: lookup by name (`catalogue.py`) and specs of plain `gymnasium.Env` classes (`plain.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import gymnasium as gym
from pydantic import JsonValue

from align_echo.errors import UsageError
from align_echo.interface.contract import Interface, InterfaceContract, bound, load_interface
from align_echo.interface.sandbox.loading import check_loads
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv


class EnvFactory(Protocol):
    """Factory of an environment for a split. `data_root` None: the environment's default; `step_limit` None: its own.
    Raises `MissingDataError`, and `UsageError` for an unknown split or engine."""

    def __call__(
        self, *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
    ) -> TextEnv: ...


@dataclass(frozen=True)
class PresetEnvFactory:
    """Factory with a default engine and step limit around another factory."""

    make_env: EnvFactory
    engine: str | None
    turns: int | None

    def __call__(
        self, *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
    ) -> TextEnv:
        """Make an environment. Raises as `EnvFactory`."""
        limit = self.turns if step_limit is None else step_limit
        return self.make_env(split=split, data_root=data_root, step_limit=limit, engine=engine or self.engine)


class TaskLister(Protocol):
    """Lister of the tasks of a split, in a fixed order. Raises as `EnvFactory`."""

    def __call__(self, *, split: str, data_root: Path | None) -> list[str]: ...


class TaskSampler(Protocol):
    """Sampler of ALIGN's tasks of one iteration, counted from 0. Raises as `EnvFactory`."""

    def __call__(self, *, data_root: Path | None, iteration: int, seed: int) -> list[str]: ...


class DataSource(Protocol):
    """Describer of the collection of tasks in use, for environments with several. Raises as `EnvFactory`."""

    def __call__(self, *, data_root: Path | None) -> str: ...


def always(task_id: str) -> bool:
    """Return True for every task."""
    return True


def never(task_id: str) -> bool:
    """Return False for every task."""
    return False


@dataclass(frozen=True)
class EnvironmentSpec:
    """Declaration of an environment, as all other code sees it.

    `is_invalid` tells from a raw observation if the engine refused the action. It serves the metric only (ALIGN paper,
    section 4.3); no learner may read it. It is None if no raw observation shows a refusal. Refusals are then inferred
    from the admissible actions or from similar answers, where possible (`align_echo/rollout/refusals.py`).

    `measures_distance` is False if the oracle follows one known way and can only try out distances beside it
    (`TryingOracle`). `task_type(task_id)` and `has_expert(task_id)` need no engine. `has_expert` is False if the oracle
    knows no action, and raises `MissingExtraError` if the expert is not installed. `engines` lists the engines a user
    may choose, the default first. `lists_actions` is False if an action is free text, so there is nothing to sample at
    random. `lists_all` is False if the environment accepts more actions than it lists.

    `partitions` lists groups of splits without shared tasks (default: all splits). `install` is the install command for
    extra requirements. `gym_id` is the id in gymnasium, "" for none. `declared` holds the settings of a user's
    environment for the run record; a resumed run must use the same ones. `tools` are the JSON schemas of the
    environment's own tools, () for none.
    """

    name: str
    summary: str
    splits: tuple[str, ...]
    train_split: str
    test_split: str
    step_limit: int
    action_format: str
    contract: InterfaceContract
    is_invalid: Callable[[str], bool] | None
    task_type: Callable[[str], str]
    make_env: EnvFactory
    task_ids: TaskLister
    training_tasks: TaskSampler
    data_source: DataSource | None = None
    gym_id: str = ""
    engines: tuple[str, ...] = ()
    measures_distance: bool = True
    has_expert: Callable[[str], bool] = always
    lists_actions: bool = True
    lists_all: bool = True
    partitions: tuple[tuple[str, ...], ...] = ()
    install: str = ""
    declared: Mapping[str, JsonValue] = field(default_factory=dict)
    tools: tuple[Mapping[str, JsonValue], ...] = ()

    def check_split(self, split: str) -> str:
        """Return the split if the environment has it. Raises `UsageError` otherwise."""
        if split not in self.splits:
            raise UsageError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        return split

    def with_settings(self, *, engine: str | None = None, turns: int | None = None) -> EnvironmentSpec:
        """Return the environment with another default engine and step limit; None keeps the current value.

        An engine that ends its episodes itself still does. Raises `UsageError`.
        """
        if turns is not None and (isinstance(turns, bool) or turns < 1):
            raise UsageError(f"an episode has at least 1 turn, not {turns}: give a number from 1 on")
        if self.check_engine(engine) is None and turns is None:
            return self
        limit = self.step_limit if turns is None else turns
        return replace(self, step_limit=limit, make_env=PresetEnvFactory(self.make_env, engine, turns))

    @property
    def turns(self) -> int | None:
        """Step limit that `with_settings` was given; None for the environment's own."""
        return self.make_env.turns if isinstance(self.make_env, PresetEnvFactory) else None

    def check_engine(self, engine: str | None) -> str | None:
        """Return the engine if the environment has it; None is its default. Raises `UsageError` otherwise."""
        if engine is not None and engine not in self.engines:
            known = f"it has {', '.join(self.engines)}" if self.engines else "it has only one: leave engine out"
            raise UsageError(f"{self.name} has no engine {engine!r}; {known}")
        return engine

    def tasks(self, split: str, data_root: str | Path | None = None) -> list[str]:
        """Return the task ids of a split in a fixed order. Raises `UsageError` for an unknown split, and
        `MissingDataError`."""
        return self.task_ids(split=self.check_split(split), data_root=as_path(data_root))

    def make(
        self,
        split: str,
        *,
        interface: Interface | None = None,
        data_root: str | Path | None = None,
        step_limit: int | None = None,
        engine: str | None = None,
    ) -> gym.Env[str, str]:
        """Make an environment of a split, wrapped in `interface` unless that is None.

        Raises `UsageError`, `MissingDataError` or `InterfaceError`, each with a one-line message.
        """
        if interface is not None:
            check_loads(interface)
        env = self.make_env(
            split=self.check_split(split),
            data_root=as_path(data_root),
            step_limit=step_limit,
            engine=self.check_engine(engine),
        )
        return env if interface is None else AlignWrapper(env, interface)

    def interface(self, source: str | Path | Interface | None, *, retract: bool = True) -> Interface | None:
        """Return the interface that `read_interface` reads, after loading its code in the sandbox.

        Raises `InterfaceError`, also for code that does not load.
        """
        interface = self.read_interface(source, retract=retract)
        if interface is not None:
            check_loads(interface, "" if isinstance(source, Interface) else str(source))
        return interface

    def read_interface(self, source: str | Path | Interface | None, *, retract: bool = True) -> Interface | None:
        """Return the `Interface` for a shipped name, a path to a `.py` file, or an `Interface`; None for the raw
        environment (None or "none"). Without `retract` none of its hints is withheld. No code is executed.

        The interface may come from an environment of another name, but has to fit this one. Raises `InterfaceError`
        otherwise.
        """
        if source is None or source == "none":
            return None
        if isinstance(source, Interface):
            named = bound(source, self.contract, self.action_format)
        else:
            named = load_interface(self._file_name(source), self.contract, self.action_format)
        return named if retract else named.model_copy(update={"retract": False})

    def _file_name(self, source: str | Path) -> str:
        """Return a shipped interface's name with its folder for a bare name; a path stays as it is."""
        name = str(source)
        return name if "/" in name or name.endswith(".py") else f"{self.name}/{name}"

    def games(self, data_root: str | Path | None) -> str:
        """Return the collection of games in use; "" for an environment with only its own. Raises `MissingDataError`."""
        return "" if self.data_source is None else self.data_source(data_root=as_path(data_root))


def as_path(path: str | Path | None) -> Path | None:
    """Return a path as `Path`, or None."""
    return None if path is None else Path(path)
