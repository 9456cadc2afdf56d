"""What is known of an environment before one is made: `EnvironmentSpec`. Knows no environment by name.

Left out: finding one by name and making one (`catalogue.py`), and one for a plain `gymnasium.Env` (`plain.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import gymnasium as gym
from pydantic import JsonValue

from align_echo.errors import UsageError
from align_echo.interface import Interface, InterfaceContract, bound, load_interface
from align_echo.sandbox.loading import check_loads
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv


class MakeEnv(Protocol):
    """Makes an environment of a split. `data_root` None: where the environment looks by itself; `step_limit` None: its
    own. Raises `MissingDataError`, and `UsageError` for what the environment does not have."""

    def __call__(
        self, *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
    ) -> TextEnv: ...


@dataclass(frozen=True)
class SettledEnv:
    """Makes an environment as another function does, with this engine and step limit where none is asked for."""

    make_env: MakeEnv
    engine: str | None
    turns: int | None

    def __call__(
        self, *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
    ) -> TextEnv:
        """Make an environment. Raises as `MakeEnv`."""
        limit = self.turns if step_limit is None else step_limit
        return self.make_env(split=split, data_root=data_root, step_limit=limit, engine=engine or self.engine)


class TaskIds(Protocol):
    """Names the tasks of a split in a fixed order. Raises as `MakeEnv`."""

    def __call__(self, *, split: str, data_root: Path | None) -> list[str]: ...


class TrainingTasks(Protocol):
    """Draws ALIGN's tasks of one iteration, counted from 0. Raises as `MakeEnv`."""

    def __call__(self, *, data_root: Path | None, iteration: int, seed: int) -> list[str]: ...


class DataSource(Protocol):
    """Says in words which collection of tasks is played, where an environment has several. Raises as `MakeEnv`."""

    def __call__(self, *, data_root: Path | None) -> str: ...


def always(task_id: str) -> bool:
    """True for every task."""
    return True


def never(task_id: str) -> bool:
    """True for no task."""
    return False


@dataclass(frozen=True)
class EnvironmentSpec:
    """An environment as everything else knows it.

    `is_invalid` tells from a raw observation that the engine refused the action, for the metric only (the ALIGN paper,
    section 4.3): no learner may look at it. It is None where no raw observation tells that: then what is listed as
    possible tells, or what the answers have in common, or nothing does (`align_echo/refusals.py`). `measures_distance`
    is False where the oracle follows one known way and beside it can only try how far the goal is (`TryingOracle`).
    Neither `task_type(task_id)` needs an engine nor `has_expert(task_id)`, which is False
    where the oracle knows no action, and raises `MissingExtraError` where the expert is not installed. `engines` names
    those that a user may choose from, the default first. `lists_actions` is False where an action is free text, so that
    there is nothing to draw from at random; `lists_all` where it accepts more than it lists as possible.
    `partitions` lists groups of splits that share no task (default: all of them); `install` is the line that installs
    what it needs beyond the base; `gym_id` is its name for gymnasium, "" for none. `declared` is what a run puts on
    record of an environment that a user declares: a run that goes on must play by the same.
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
    make_env: MakeEnv
    task_ids: TaskIds
    training_tasks: TrainingTasks
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

    def check_split(self, split: str) -> str:
        """The split, if the environment has it. Raises `UsageError` otherwise."""
        if split not in self.splits:
            raise UsageError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        return split

    def with_settings(self, *, engine: str | None = None, turns: int | None = None) -> EnvironmentSpec:
        """Return the environment with another engine and step limit as its own; None leaves them as they are.

        An engine that ends its episodes itself still does. Raises `UsageError`.
        """
        if turns is not None and (isinstance(turns, bool) or turns < 1):
            raise UsageError(f"an episode has at least 1 turn, not {turns}: give a number from 1 on")
        if self.check_engine(engine) is None and turns is None:
            return self
        limit = self.step_limit if turns is None else turns
        return replace(self, step_limit=limit, make_env=SettledEnv(self.make_env, engine, turns))

    def check_engine(self, engine: str | None) -> str | None:
        """The engine, if the environment has it; None is its default. Raises `UsageError` otherwise."""
        if engine is not None and engine not in self.engines:
            known = f"it has {', '.join(self.engines)}" if self.engines else "it has only one: leave engine out"
            raise UsageError(f"{self.name} has no engine {engine!r}; {known}")
        return engine

    def tasks(self, split: str, data_root: str | Path | None = None) -> list[str]:
        """Task ids of a split in a fixed order. Raises `UsageError` for no such split, `MissingDataError`."""
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
        """An environment of a split, wrapped in an interface if one is given.

        Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line.
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

    def interface(self, given: str | Path | Interface | None, *, retract: bool = True) -> Interface | None:
        """Return the interface that `read_interface` reads, once its code was loaded in the sandbox.

        Raises `InterfaceError`, also for code that does not load.
        """
        interface = self.read_interface(given, retract=retract)
        if interface is not None:
            check_loads(interface, "" if isinstance(given, Interface) else str(given))
        return interface

    def read_interface(self, given: str | Path | Interface | None, *, retract: bool = True) -> Interface | None:
        """Return an `Interface` from what a user may say: a shipped name, a path to a `.py` file, or an `Interface`;
        None for the raw environment (None or "none"). Without `retract` none of its hints is withheld. Nothing is
        executed.

        It need not be made under this environment's name, but it has to fit. Raises `InterfaceError` otherwise."""
        if given is None or given == "none":
            return None
        if isinstance(given, Interface):
            named = bound(given, self.contract, self.action_format)
        else:
            named = load_interface(self._file_name(given), self.contract, self.action_format)
        return named if retract else named.model_copy(update={"retract": False})

    def _file_name(self, given: str | Path) -> str:
        """A shipped interface's name with its folder, where only the name was given; a path as it is."""
        name = str(given)
        return name if "/" in name or name.endswith(".py") else f"{self.name}/{name}"

    def games(self, data_root: str | Path | None) -> str:
        """The collection of games that is played; "" for an environment that has only its own. Raises
        `MissingDataError`."""
        return "" if self.data_source is None else self.data_source(data_root=as_path(data_root))


def as_path(path: str | Path | None) -> Path | None:
    """A path, if one is given."""
    return None if path is None else Path(path)
