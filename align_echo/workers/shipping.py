"""Send work to other processes: how to build environments and which agent plays, without the chat models.

Models stay in the process that started the run and are called remotely (`remote.py`): keys, the reply cache, the call
log and a local model's weights never leave it. Everything else is pickled; interfaces are sent as source. Modules in
the current folder are sent by value, because other machines lack them. A machine with the same folder resolves later
imports there. Not here: data folders and installed packages, which every machine must have.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import gymnasium as gym

from align_echo.errors import UsageError, first_line
from align_echo.models.endpoint import get_base_url
from align_echo.models.recording import get_fields, get_identity, get_weights
from align_echo.registry import serve_modules, served_modules
from align_echo.types import Agent, ChatModel

NOT_OWN = {"align_echo", "__main__", *sys.stdlib_module_names}
"""Packages that every machine has, wherever their files are: Python itself may be below the current folder."""

INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class RolloutSpec:
    """Everything a process needs to play episodes: the environment factory, the agent, and the arguments of
    `run_episode`.
    """

    make_env: Callable[[], gym.Env[str, str]]
    agent: Agent
    split: str
    action_format: str
    seed: int


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a chat model that need no call. `index` is its position in the list of models that stayed behind."""

    index: int
    name: str
    base_url: str
    weights: str
    identity: str
    fields: str = ""


def pack(work: RolloutSpec) -> tuple[bytes, list[ChatModel]]:
    """Pickle the work without its models. Return the bytes and the models.

    Raises `UsageError` if the agent or the environment holds something that cannot be sent.
    """
    own = _modules_from(Path.cwd())
    try:
        return _packed(work, own)
    except Exception:  # a local module may hold what cannot be sent: send its name instead
        try:
            return _packed(work, ())
        except Exception as error:
            raise UsageError(
                f"{work.agent.name} and its environment cannot be sent to another process "
                f"({type(error).__name__}: {first_line(error)}): play on threads, --workers N"
            ) from error


def unpack(packed: bytes, model: Callable[[ModelFacts], ChatModel]) -> RolloutSpec:
    """Restore the work; `model` supplies each chat model. Raises `UsageError` for something that this machine lacks."""
    stream = io.BytesIO(packed)
    try:
        serve_modules(pickle.load(stream))
        work = _Unpickler(stream, model).load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"a worker lacks what this run needs ({first_line(error)}): install it there too") from error
    assert isinstance(work, RolloutSpec)
    return work


def _packed(work: RolloutSpec, by_value: Sequence[ModuleType]) -> tuple[bytes, list[ChatModel]]:
    """Pickle the work without its chat models, and return these too. Modules `by_value` travel with it."""
    import cloudpickle  # an extra, and imported by no agent that plays on threads

    models: list[ChatModel] = []

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, value: object) -> ModelFacts | None:
            return _stand_in(value, models)

    buffer = io.BytesIO()
    pickle.dump(served_modules(), buffer)
    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        Pickler(buffer).dump(work)
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return buffer.getvalue(), models


def _stand_in(value: object, models: list[ChatModel]) -> ModelFacts | None:
    """Return the stand-in of a chat model, which joins `models`; None for everything else.

    An agent is no model, although it may have a method `complete` too.
    """
    kind = type(value)
    if isinstance(value, type) or not hasattr(kind, "complete") or hasattr(kind, "act"):
        return None
    model: ChatModel = value  # type: ignore[assignment]
    index = next((number for number, known in enumerate(models) if known is model), len(models))
    if index == len(models):
        models.append(model)
    known = (get_base_url(model), get_weights(model), get_identity(model), get_fields(model))
    return ModelFacts(index, model.name, *known)


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, model: Callable[[ModelFacts], ChatModel]) -> None:
        super().__init__(buffer)
        self._model = model

    def persistent_load(self, facts: ModelFacts) -> ChatModel:
        return self._model(facts)


def _modules_from(folder: Path) -> list[ModuleType]:
    """Return the modules imported from a folder, except align-echo, Python's own and installed packages."""
    own = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in NOT_OWN or not isinstance(file, str):
            continue
        path = Path(file)
        if path.is_relative_to(folder) and not set(INSTALLED) & set(path.parts):
            own.append(module)
    return own
