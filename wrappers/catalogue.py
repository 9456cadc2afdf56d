"""Look up environments by name; `make` and `tasks` work on them. Built-in ones are registered like users'
(`align_echo/registry.py`).

`environment` resolves a name once; all other code gets the `EnvironmentSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium as gym

from align_echo.errors import UsageError, did_you_mean
from align_echo.interface.contract import Interface
from align_echo.registry import OURS, Registry, attempt, name_beside, with_article
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.plain import TextEnvironment
from align_echo.wrappers.text_env import TextEnv
from align_echo.wrappers.vector import TextVectorEnv


def _read(name: str, source: object) -> EnvironmentSpec:
    """Return a spec for a registered object: a spec, a `TextEnvironment`, or a plain environment's class or factory."""
    if isinstance(source, EnvironmentSpec):
        return source
    if isinstance(source, TextEnvironment):
        return source.spec(name)
    if isinstance(source, type) and issubclass(source, TextEnv):
        raise UsageError(f"{name}: a TextEnv has tasks and splits of its own: give an EnvironmentSpec that makes it")
    if callable(source) and not isinstance(source, gym.Env):
        return TextEnvironment(source).spec(name)
    raise UsageError(
        f"{name} is a {type(source).__name__}: an environment is a gymnasium.Env class, a function that makes one, "
        "an align_echo.TextEnvironment or an EnvironmentSpec"
    )


ENVIRONMENTS: Registry[EnvironmentSpec] = Registry("environment", "align_echo.environments", _read)


Connector = Callable[[str], TextEnvironment]
"""Function from the name behind the colon, as ID in "gymnasium:ID", to a declaration. Its docstring describes ID."""


def _read_connector(name: str, source: object) -> Connector:
    if not callable(source) or isinstance(source, type):
        raise UsageError(f"{name} is no connector: it is a function from the name behind {name}: to a TextEnvironment")
    connector: Connector = source
    return connector


CONNECTORS: Registry[Connector] = Registry("connector", "align_echo.connectors", _read_connector)


def _connected(name: str) -> EnvironmentSpec:
    """Return the environment of a connector's name, as "gymnasium:FrozenLake-v1". Raises `UsageError`."""
    prefix, _, inner = name.partition(":")
    connector = CONNECTORS.get(prefix)
    if not inner.strip():
        raise UsageError(f"{prefix} is a connector, followed by a colon and a name: {summary_of(connector)}")
    declared = attempt(lambda: connector(inner), f"{name} cannot be used")
    if not isinstance(declared, TextEnvironment):
        kind = with_article(type(declared).__name__)
        raise UsageError(f"the connector {prefix} returned {kind} for {inner!r}, not a TextEnvironment")
    return declared.spec(name)


def summary_of(connector: Connector) -> str:
    """Return the first line of a connector's docstring: what the name behind the colon is."""
    return (connector.__doc__ or "").strip().partition("\n")[0].rstrip(".") or "see its package"


def is_trusted(name: object) -> bool:
    """Return True for a name that imports no module but those of installed packages, or was imported before."""
    return ENVIRONMENTS.knows(name) or (isinstance(name, str) and name.partition(":")[0] in CONNECTORS.entries())


def environment(name: str | EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment for a name: a registered name ("alfworld"), a connector's ("gymnasium:FrozenLake-v1"),
    "module:Name", a gymnasium id, or "module:Id-v0" if the module registers the id with gymnasium. A connector comes
    before a module of its name. Raises `UsageError` naming the nearest matches."""
    if isinstance(name, EnvironmentSpec):
        return name
    if not isinstance(name, str):
        kind = with_article(type(name).__name__)
        raise UsageError(f"an environment is given by its name, not as {kind}: align_echo.register names one")
    if name.partition(":")[0] in CONNECTORS.entries() and not (":" in name and ENVIRONMENTS.knows(name)):
        return ENVIRONMENTS.keep(name, _connected(name))
    registered = gym.registry.get(name)
    ours = None if registered is None else registered.kwargs.get("env_id")
    if registered is not None and ours is None:
        return ENVIRONMENTS.get(name) if name in ENVIRONMENTS.entries() else _registered(name, name)
    try:
        return ENVIRONMENTS.get(ours or name)
    except UsageError as error:
        module, _, gym_id = name.partition(":")  # importing the module may have registered the id
        if not gym_id:
            elsewhere = ", ".join(f"{each}:NAME" for each in CONNECTORS.entries())
            raise UsageError(f"{error}; one of another package is {elsewhere}") from None
        if gym_id not in gym.registry:
            hint = did_you_mean(module, CONNECTORS.entries()) if name not in ENVIRONMENTS.entries() else ""
            raise UsageError(f"{error}; {hint.strip()}" if hint else str(error)) from error
        entry_point = gym.spec(gym_id).entry_point
        if isinstance(entry_point, str):  # gymnasium imports it later
            name_beside(entry_point.partition(":")[0], module)
        return ENVIRONMENTS.keep(name, _registered(gym_id, name))


def recorded_environment(name: str, source: str, remedy: str) -> EnvironmentSpec:
    """Return the environment named in the file `source`. Raises `UsageError` as `Registry.recorded` does."""
    return environment(name) if is_trusted(name) else ENVIRONMENTS.recorded(name, source, remedy)


def _registered(gym_id: str, name: str) -> EnvironmentSpec:
    """Return the spec of a plain environment registered with gymnasium."""
    return TextEnvironment(lambda: gym.make(gym_id, disable_env_checker=True)).spec(name)


def environments() -> dict[str, EnvironmentSpec]:
    """Return the environments that ship with align-echo, by name."""
    ours = [entry.name for entry in ENVIRONMENTS.entries().values() if entry.origin.partition(" ")[0] == OURS]
    return {name: ENVIRONMENTS.get(name) for name in ours}


def register(
    name: str, source: EnvironmentSpec | TextEnvironment | Callable[[], gym.Env[str, str]]
) -> EnvironmentSpec:
    """Register an environment under a name in this process. It is a plain `gymnasium.Env`'s class, a factory function,
    a `TextEnvironment` or an `EnvironmentSpec`. Raises `UsageError` if the name is in use.

    To make a name available in every process, declare it in an installed package as an entry point of the group
    `align_echo.environments`. "module:Name" works without either.
    """
    return ENVIRONMENTS.register(name, source)


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
    """Make an environment, wrapped in an interface if `interface` names one.

    `split` defaults to the training split. `interface` is a shipped name, a path to a `.py` file, or an `Interface`
    (None or "none": the raw environment). Without `retract` no hint is withheld, even after a similar hint failed.
    `engine` names one of the environment's engines, if it has several.

    Raises `UsageError`, `MissingDataError` or `InterfaceError`, each with a one-line message.
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
    """Make an environment for `gymnasium.make`. The only render mode is "ansi". Raises `UsageError` for any other."""
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
    """Make `n` environments stepped together in this process; `reset(seed=s)` seeds the i-th with s + i.

    The result is a faster `SyncVectorEnv` with the same results. After the end of an episode the next step resets that
    environment, as gymnasium's vector environments do. Raises `UsageError` for n below 1, else as `make`.
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
    """Return the task ids of a split in a fixed order. An id means the same task in every process."""
    spec = environment(env_id)
    return spec.tasks(split or spec.train_split, data_root)


def register_with_gymnasium() -> None:
    """Register the built-in environments with gymnasium, so that `gymnasium.make("align_echo/ALFWorld-v0")` works."""
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
    "CONNECTORS",
    "ENVIRONMENTS",
    "EnvironmentSpec",
    "environment",
    "environments",
    "is_trusted",
    "make",
    "make_registered",
    "make_vec",
    "recorded_environment",
    "register",
    "register_with_gymnasium",
    "summary_of",
    "tasks",
]
