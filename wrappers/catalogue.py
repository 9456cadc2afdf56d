"""The environments that align-echo knows, and `make` / `tasks` over them. Adding one is adding an entry here.

An entry imports its engine only when it is used, so `import align_echo` stays light.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import gymnasium as gym

from align_echo.errors import UsageError
from align_echo.interface import Interface, InterfaceContract, load_interface
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv


class EnvironmentModule(Protocol):
    """What `wrappers/<name>/__init__.py` offers."""

    def make_env(
        self, *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
    ) -> TextEnv: ...
    def task_ids(self, *, split: str, data_root: Path | None) -> list[str]: ...
    def training_tasks(self, *, data_root: Path | None, iteration: int, seed: int) -> list[str]: ...


def _always(task_id: str) -> bool:
    return True


@dataclass(frozen=True)
class EnvironmentSpec:
    """A documented environment.

    `training_tasks` draws ALIGN's tasks of one iteration; `is_invalid` tells from a raw observation that the engine
    refused the action, for the metric only (the paper, section 4.3): no learner may look at it.
    `tells_invalid` is False where no raw observation tells that; the metric is then not defined. `measures_distance` is
    False where the oracle follows one known way and beside it can only try how far the goal is (`TryingOracle`).
    Neither `task_type(task_id)` needs an engine nor `has_expert(task_id)`, which is False where the oracle knows no
    action. `engines` names those that a user may choose from, the default first. `partitions` lists groups of splits
    that share no task (default: all of them); `install` is the line that installs what it needs beyond the base.
    """

    name: str
    gym_id: str
    summary: str
    splits: tuple[str, ...]
    train_split: str
    test_split: str
    step_limit: int
    action_format: str
    contract: InterfaceContract
    is_invalid: Callable[[str], bool]
    task_type: Callable[[str], str]
    module: Callable[[], EnvironmentModule]
    engines: tuple[str, ...] = ()
    tells_invalid: bool = True
    measures_distance: bool = True
    has_expert: Callable[[str], bool] = _always
    partitions: tuple[tuple[str, ...], ...] = ()
    install: str = ""


def environments() -> dict[str, EnvironmentSpec]:
    """All environments by name."""
    from align_echo.wrappers.alfworld.spec import SPEC as ALFWORLD
    from align_echo.wrappers.miniwob.spec import SPEC as MINIWOB
    from align_echo.wrappers.scienceworld.spec import SPEC as SCIENCEWORLD
    from align_echo.wrappers.webshop.spec import SPEC as WEBSHOP

    return {spec.name: spec for spec in (ALFWORLD, SCIENCEWORLD, WEBSHOP, MINIWOB)}


def environment(env_id: str) -> EnvironmentSpec:
    """The environment of a name ("alfworld") or gymnasium id. Raises `UsageError` naming the known ones."""
    known = environments()
    for spec in known.values():
        if env_id in (spec.name, spec.gym_id):
            return spec
    raise UsageError(f"unknown environment {env_id!r}; known: {', '.join(known)}")


def make(
    env_id: str,
    *,
    split: str | None = None,
    interface: str | Path | Interface | None = None,
    data_root: str | Path | None = None,
    step_limit: int | None = None,
    engine: str | None = None,
) -> gym.Env[str, str]:
    """An environment, wrapped in an interface if one is given.

    `split` defaults to the training split; `interface` is a shipped name, a path to a `.py` file, or an `Interface`
    (None or "none": the raw environment); `engine` is one of the environment's engines, if it has several.
    Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line.
    """
    spec = environment(env_id)
    split = check_split(spec, split or spec.train_split)
    found = resolve_interface(spec, interface)
    env = spec.module().make_env(
        split=split, data_root=_path(data_root), step_limit=step_limit, engine=check_engine(spec, engine)
    )
    return env if found is None else AlignWrapper(env, found)


def make_registered(
    env_id: str,
    *,
    split: str | None = None,
    interface: str | Path | Interface | None = None,
    data_root: str | Path | None = None,
    step_limit: int | None = None,
    engine: str | None = None,
    render_mode: str | None = None,
) -> gym.Env[str, str]:
    """`make`, as `gymnasium.make` calls it. The only render mode is "ansi". Raises `UsageError` for another."""
    if render_mode not in (None, "ansi"):
        raise UsageError(f"text environments have no render mode {render_mode!r}; use 'ansi'")
    return make(env_id, split=split, interface=interface, data_root=data_root, step_limit=step_limit, engine=engine)


def make_vec(
    env_id: str,
    *,
    n: int,
    split: str | None = None,
    interface: str | Path | Interface | None = None,
    data_root: str | Path | None = None,
    step_limit: int | None = None,
    engine: str | None = None,
) -> gym.vector.SyncVectorEnv:
    """`n` environments of `make` stepped together in this process; `reset(seed=s)` gives the i-th the seed s + i.

    An environment whose episode is over is reset by the next step, as gymnasium's vector environments do. Raises
    `UsageError` for n below 1, otherwise as `make`.
    """
    if n < 1:
        raise UsageError(f"n must be at least 1, not {n}")

    def one() -> gym.Env[str, str]:
        return make(env_id, split=split, interface=interface, data_root=data_root, step_limit=step_limit, engine=engine)

    return gym.vector.SyncVectorEnv([one] * n)


def tasks(env_id: str, *, split: str | None = None, data_root: str | Path | None = None) -> list[str]:
    """Task ids of a split in a fixed order: the same id is the same task in every process."""
    spec = environment(env_id)
    return spec.module().task_ids(split=check_split(spec, split or spec.train_split), data_root=_path(data_root))


def resolve_interface(spec: EnvironmentSpec, interface: str | Path | Interface | None) -> Interface | None:
    """An `Interface` from what a user may say; None for the raw environment."""
    if interface is None or interface == "none":
        return None
    if isinstance(interface, Interface):
        return interface
    name = str(interface)
    if "/" not in name and not name.endswith(".py"):
        name = f"{spec.name}/{name}"
    return load_interface(name, spec.contract)


def check_split(spec: EnvironmentSpec, split: str) -> str:
    """The split, if the environment has it. Raises `UsageError` otherwise."""
    if split not in spec.splits:
        raise UsageError(f"{spec.name} has no split {split!r}; it has {', '.join(spec.splits)}")
    return split


def check_engine(spec: EnvironmentSpec, engine: str | None) -> str | None:
    """The engine, if the environment has it; None is its default. Raises `UsageError` otherwise."""
    if engine is not None and engine not in spec.engines:
        known = f"it has {', '.join(spec.engines)}" if spec.engines else "it has only one: leave engine out"
        raise UsageError(f"{spec.name} has no engine {engine!r}; {known}")
    return engine


def register() -> None:
    """Register every environment with gymnasium, so that `gymnasium.make("align_echo/ALFWorld-v0")` works."""
    for spec in environments().values():
        if spec.gym_id not in gym.registry:
            gym.register(
                id=spec.gym_id,
                entry_point="align_echo.wrappers.catalogue:make_registered",
                kwargs={"env_id": spec.name},
                disable_env_checker=True,
                order_enforce=False,
            )


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


__all__ = [
    "EnvironmentSpec",
    "check_split",
    "environment",
    "environments",
    "make",
    "make_registered",
    "make_vec",
    "register",
    "resolve_interface",
    "tasks",
]
