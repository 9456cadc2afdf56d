"""The environments by name, and `make` / `tasks` over them. Ours are registered as everybody's are (`registry.py`).

A name is resolved once, by `environment`; everything else is handed the `EnvironmentSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium as gym

from align_echo.errors import UsageError
from align_echo.grammar import with_article
from align_echo.interface import Interface
from align_echo.named_modules import name_beside
from align_echo.registry import OURS, Registry
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.plain import TextEnvironment
from align_echo.wrappers.text_env import TextEnv
from align_echo.wrappers.vector import TextVectorEnv


def _read(name: str, thing: object) -> EnvironmentSpec:
    """A spec from what somebody registered: a spec, a `TextEnvironment`, or a plain environment's class or factory."""
    if isinstance(thing, EnvironmentSpec):
        return thing
    if isinstance(thing, TextEnvironment):
        return thing.spec(name)
    if isinstance(thing, type) and issubclass(thing, TextEnv):
        raise UsageError(f"{name}: a TextEnv has tasks and splits of its own: give an EnvironmentSpec that makes it")
    if callable(thing) and not isinstance(thing, gym.Env):
        return TextEnvironment(thing).spec(name)
    raise UsageError(
        f"{name} is a {type(thing).__name__}: an environment is a gymnasium.Env class, a function that makes one, "
        "an align_echo.TextEnvironment or an EnvironmentSpec"
    )


ENVIRONMENTS: Registry[EnvironmentSpec] = Registry("environment", "align_echo.environments", _read)


def environment(name: str | EnvironmentSpec) -> EnvironmentSpec:
    """The environment of a name: one that is registered ("alfworld"), "module:Name", a gymnasium id, or "module:Id-v0"
    where the module registers the id with gymnasium. Raises `UsageError` naming those that are nearest."""
    if isinstance(name, EnvironmentSpec):
        return name
    if not isinstance(name, str):
        kind = with_article(type(name).__name__)
        raise UsageError(f"an environment is given by its name, not as {kind}: align_echo.register names one")
    registered = gym.registry.get(name)
    ours = None if registered is None else registered.kwargs.get("env_id")
    if registered is not None and ours is None:
        return ENVIRONMENTS.get(name) if name in ENVIRONMENTS.entries() else _registered(name, name)
    try:
        return ENVIRONMENTS.get(ours or name)
    except UsageError:
        module, _, gym_id = name.partition(":")  # the module was imported, which may have registered the id
        if gym_id not in gym.registry:
            raise
        entry_point = gym.spec(gym_id).entry_point
        if isinstance(entry_point, str):  # gymnasium imports it later
            name_beside(entry_point.partition(":")[0], module)
        return ENVIRONMENTS.keep(name, _registered(gym_id, name))


def recorded_environment(name: str, source: str, remedy: str) -> EnvironmentSpec:
    """Return the environment that `source`, a file, names. Raises `UsageError` as `Registry.recorded` does."""
    return environment(name) if ENVIRONMENTS.knows(name) else ENVIRONMENTS.recorded(name, source, remedy)


def _registered(gym_id: str, name: str) -> EnvironmentSpec:
    """A plain environment that gymnasium knows by an id."""
    return TextEnvironment(lambda: gym.make(gym_id, disable_env_checker=True)).spec(name)


def environments() -> dict[str, EnvironmentSpec]:
    """The environments that come with align-echo, by name."""
    ours = [entry.name for entry in ENVIRONMENTS.entries().values() if entry.origin.partition(" ")[0] == OURS]
    return {name: ENVIRONMENTS.get(name) for name in ours}


def register(
    name: str, thing: EnvironmentSpec | TextEnvironment | Callable[[], gym.Env[str, str]]
) -> EnvironmentSpec:
    """Let a name stand for an environment in this program: a plain `gymnasium.Env`'s class, a function that makes one,
    a `TextEnvironment` or an `EnvironmentSpec`. Raises `UsageError` for a name that is taken.

    For every program that is started anew, an installed package names it in an entry point of the group
    `align_echo.environments`; without either, "module:Name" finds it.
    """
    return ENVIRONMENTS.register(name, thing)


def make(
    env_id: str | EnvironmentSpec,
    *,
    split: str | None = None,
    interface: str | Path | Interface | None = None,
    retract: bool = True,
    data_root: str | Path | None = None,
    step_limit: int | None = None,
    engine: str | None = None,
) -> gym.Env[str, str]:
    """An environment, wrapped in an interface if one is given.

    `split` defaults to the training split; `interface` is a shipped name, a path to a `.py` file, or an `Interface`
    (None or "none": the raw environment); without `retract` it withholds no hint, also none whose like did not come
    true; `engine` is one of the environment's engines, if it has several.
    Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line.
    """
    spec = environment(env_id)
    return spec.make(
        split or spec.train_split,
        interface=spec.interface(interface, retract=retract),
        data_root=data_root,
        step_limit=step_limit,
        engine=engine,
    )


def make_registered(
    env_id: str,
    *,
    split: str | None = None,
    interface: str | Path | Interface | None = None,
    retract: bool = True,
    data_root: str | Path | None = None,
    step_limit: int | None = None,
    engine: str | None = None,
    render_mode: str | None = None,
) -> gym.Env[str, str]:
    """`make`, as `gymnasium.make` calls it. The only render mode is "ansi". Raises `UsageError` for another."""
    if render_mode not in (None, "ansi"):
        raise UsageError(f"text environments have no render mode {render_mode!r}; use 'ansi'")
    return make(
        env_id, split=split, interface=interface, retract=retract, data_root=data_root, step_limit=step_limit,
        engine=engine,
    )  # fmt: skip


def make_vec(
    env_id: str | EnvironmentSpec,
    *,
    n: int,
    split: str | None = None,
    interface: str | Path | Interface | None = None,
    retract: bool = True,
    data_root: str | Path | None = None,
    step_limit: int | None = None,
    engine: str | None = None,
) -> TextVectorEnv:
    """`n` environments of `make` stepped together in this process; `reset(seed=s)` gives the i-th the seed s + i.

    They are a `SyncVectorEnv` of gymnasium's, with its results, in less time. An environment whose episode is over is
    reset by the next step, as gymnasium's vector environments do. Raises `UsageError` for n below 1, else as `make`.
    """
    if n < 1:
        raise UsageError(f"n must be at least 1, not {n}")

    def make_single() -> gym.Env[str, str]:
        return make(
            env_id, split=split, interface=interface, retract=retract, data_root=data_root, step_limit=step_limit,
            engine=engine,
        )  # fmt: skip

    return TextVectorEnv([make_single] * n)


def tasks(
    env_id: str | EnvironmentSpec, *, split: str | None = None, data_root: str | Path | None = None
) -> list[str]:
    """Task ids of a split in a fixed order: the same id is the same task in every process."""
    spec = environment(env_id)
    return spec.tasks(split or spec.train_split, data_root)


def register_with_gymnasium() -> None:
    """Let gymnasium know our own environments, so that `gymnasium.make("align_echo/ALFWorld-v0")` works."""
    for spec in environments().values():
        if spec.gym_id not in gym.registry:
            gym.register(
                id=spec.gym_id,
                entry_point="align_echo.wrappers.catalogue:make_registered",
                kwargs={"env_id": spec.name},
                disable_env_checker=True,
                order_enforce=False,
            )


__all__ = [
    "ENVIRONMENTS",
    "EnvironmentSpec",
    "environment",
    "environments",
    "make",
    "make_registered",
    "make_vec",
    "recorded_environment",
    "register",
    "register_with_gymnasium",
    "tasks",
]
