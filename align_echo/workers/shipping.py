"""Sending work to other processes: how environments are made and who plays, without the chat models.

Models stay where the run was started, and are asked from afar (`remote.py`): keys, the reply cache, the log of calls
and a local model's weights never leave it. All else is pickled; interfaces go as their source. Modules in the current
folder go with it by value, since other machines lack them. A machine that has their folder finds there what they import
later. Left out: data folders and installed packages, which every machine must have.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import cloudpickle
import gymnasium as gym

from align_echo.errors import UsageError, first_line
from align_echo.models.endpoint import base_url_of
from align_echo.models.recording import identity_of, weights_of
from align_echo.named_modules import serve_modules, served_modules
from align_echo.types import Agent, ChatModel

NOT_OWN = {"align_echo", "__main__", *sys.stdlib_module_names}
"""Packages that every machine has, wherever their files lie: Python itself may be below the current folder."""

INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Work:
    """What a process must have to play episodes: how an environment is made, who plays, and what `run_episode` takes.
    """

    make_env: Callable[[], gym.Env[str, str]]
    agent: Agent
    split: str
    action_format: str
    seed: int


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a chat model without asking it; `index` is its place among those that stayed behind."""

    index: int
    name: str
    base_url: str
    weights: str
    identity: str


def pack(work: Work) -> tuple[bytes, list[ChatModel]]:
    """The work as bytes, and the models that it asks, which are not in them.

    Raises `UsageError` for an agent or an environment that holds what cannot be sent.
    """
    own = _modules_of(Path.cwd())
    try:
        return _packed(work, own)
    except Exception:  # what a module of one's own holds may be what cannot be sent: then its name has to do
        try:
            return _packed(work, ())
        except Exception as error:
            raise UsageError(
                f"{work.agent.name} and its environment cannot be sent to another process "
                f"({type(error).__name__}: {first_line(error)}): play on threads, --workers N"
            ) from error


def unpack(packed: bytes, model: Callable[[ModelFacts], ChatModel]) -> Work:
    """The work, with what `model` gives in place of each model. Raises `UsageError` for what this machine lacks."""
    stream = io.BytesIO(packed)
    try:
        serve_modules(pickle.load(stream))
        work = _Unpickler(stream, model).load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"a worker lacks what this run needs ({first_line(error)}): install it there too") from error
    assert isinstance(work, Work)
    return work


def _packed(work: Work, by_value: Sequence[ModuleType]) -> tuple[bytes, list[ChatModel]]:
    buffer = io.BytesIO()
    pickle.dump(served_modules(), buffer)
    pickler = _Pickler(buffer)
    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        pickler.dump(work)
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return buffer.getvalue(), pickler.models


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Leaves the chat models out, and keeps them in `models`."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer)
        self.models: list[ChatModel] = []

    def persistent_id(self, thing: object) -> ModelFacts | None:
        """What stands for a chat model; None for all else. An agent, which may have a method `complete` too, is none.
        """
        kind = type(thing)
        if isinstance(thing, type) or not hasattr(kind, "complete") or hasattr(kind, "act"):
            return None
        model: ChatModel = thing  # type: ignore[assignment]
        index = next((number for number, known in enumerate(self.models) if known is model), len(self.models))
        if index == len(self.models):
            self.models.append(model)
        return ModelFacts(index, model.name, base_url_of(model), weights_of(model), identity_of(model))


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, model: Callable[[ModelFacts], ChatModel]) -> None:
        super().__init__(buffer)
        self._model = model

    def persistent_load(self, facts: ModelFacts) -> ChatModel:
        return self._model(facts)


def _modules_of(folder: Path) -> list[ModuleType]:
    """The modules that were imported from a folder, but for align-echo itself, Python's own and what is installed."""
    own = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in NOT_OWN or not isinstance(file, str):
            continue
        path = Path(file)
        if path.is_relative_to(folder) and not set(INSTALLED) & set(path.parts):
            own.append(module)
    return own
