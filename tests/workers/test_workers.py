"""Episodes that are played elsewhere: the same as here, whatever is lost on the way. No Ray is needed."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.players import choose_agent
from align_echo.agents.reasoning import Vanilla
from align_echo.base.halting import Halt, under
from align_echo.errors import EngineError, ModelError, UsageError
from align_echo.interface.contract import identity
from align_echo.models import CallLog, RecordingModel, ReplyCache
from align_echo.rollout.batches import run_batch, run_tasks
from align_echo.rollout.session import Episode
from align_echo.types import Agent, AgentReply, AgentView, ChatModel, Completion, Message, Trajectory
from align_echo.workers import remote
from align_echo.workers.ray_cluster import ProcessWorkers, RayWorkers, ThreadWorkers, choose_workers, read_workers
from align_echo.workers.remote import LOSSES, EpisodeActor, LostError, RemoteHost
from align_echo.workers.shipping import RolloutSpec, pack, unpack
from align_echo.wrappers import AlignWrapper
from tests.room_env import CONTRACT, TASK_IDS, RoomEnv

EPISODES = [Episode(task, sample) for task in TASK_IDS for sample in range(3)]
PLAN = ("take mug 1", "go to study", "drop mug 1", "look")


class Knowing:
    """A model that knows the way to bring the mug; it counts how often it is asked."""

    name = "knowing"

    def __init__(self) -> None:
        self.asked = 0
        self._lock = threading.Lock()

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        with self._lock:
            self.asked += 1
        return Completion(text=PLAN[min(len(messages) // 2 - 1, len(PLAN) - 1)])


def make_env() -> AlignWrapper:
    return AlignWrapper(RoomEnv(6), identity(CONTRACT))


class Wire:
    """A way to an actor in this process: all that passes is pickled. It is lost at the calls that `dies` names."""

    def __init__(self, dies: Callable[[str], bool] = lambda method: False) -> None:
        self._actor = EpisodeActor()
        self._dies = dies
        self.ended: list[bool] = []

    def call(self, method: str, *arguments: object) -> Any:
        if self._dies(method):
            raise LostError("the machine is gone")
        sent = pickle.loads(pickle.dumps(arguments))
        return pickle.loads(pickle.dumps(getattr(self._actor, method)(*sent)))

    def close(self, *, reusable: bool) -> None:
        self.ended.append(reusable)


def played_elsewhere(
    agent: Agent,
    connect: Callable[[], Wire],
    episodes: Sequence[Episode] = EPISODES,
    make: Callable[[], Any] = make_env,
    said: list[str] | None = None,
    workers: int = 2,
) -> list[Trajectory]:
    work = RolloutSpec(make, agent, "test", CONTRACT.environment, 7)
    packed, models = pack(work)
    note = (said if said is not None else []).append
    return run_batch(
        lambda: RemoteHost(work, packed, models, connect, note), episodes, workers=workers, on_trajectory=None
    )


def played_here(agent: Agent) -> list[Trajectory]:
    return run_tasks(make_env, agent, EPISODES, split="test", action_format=CONTRACT.environment, seed=7, workers=2)


def recorded(model: ChatModel, folder: Path) -> RecordingModel:
    cache, log = ReplyCache(folder / "cache"), CallLog(folder / "calls.jsonl")
    return RecordingModel(model, role="agent", cache=cache, log=log)


def calls(folder: Path) -> list[str]:
    return sorted(call.model_dump_json() for call in CallLog(folder / "calls.jsonl").read())


def test_trajectories_and_records_are_those_of_threads(tmp_path):
    here, elsewhere = Knowing(), Knowing()
    expected = played_here(Vanilla(recorded(here, tmp_path / "here"), temperature=1.0))
    agent = Vanilla(recorded(elsewhere, tmp_path / "elsewhere"), temperature=1.0)
    played = played_elsewhere(agent, lambda: Wire())
    assert played == expected
    assert [trajectory.won for trajectory in played] == [True] * 3 + [False] * 3
    assert elsewhere.asked == here.asked
    assert calls(tmp_path / "elsewhere") == calls(tmp_path / "here")


def test_a_lost_worker_s_episode_is_played_again_and_counts_once(tmp_path):
    expected = played_here(Vanilla(Knowing()))
    model, passed = Knowing(), iter(range(1000))
    said: list[str] = []
    dies = {4, 9, 17}
    played = played_elsewhere(
        Vanilla(recorded(model, tmp_path)),
        lambda: Wire(lambda method: method == "answer" and next(passed) in dies),
        said=said,
        workers=1,
    )
    assert played == expected
    assert len(said) == len(dies)
    assert all("is played again on another: the machine is gone" in line for line in said)
    assert model.asked == len({call.request for call in CallLog(tmp_path / "calls.jsonl").read()})


def test_an_episode_that_goes_on_losing_workers_is_a_fault_and_the_others_are_played():
    begun: list[int] = []

    def dies(method: str) -> bool:
        begun.append(method == "begin")
        return method == "begin" and 2 <= sum(begun) < 2 + LOSSES  # all attempts at the second episode

    said: list[str] = []
    played = played_elsewhere(Vanilla(Knowing()), lambda: Wire(dies), said=said, workers=1)
    assert [trajectory.fault is None for trajectory in played] == [True, False, True, True, True, True]
    fault = played[1]
    assert fault.fault is not None
    assert fault.fault.source == "environment"
    assert f"{LOSSES} workers were lost" in fault.fault.message
    assert (fault.environment, fault.interface, fault.task_id, fault.sample, fault.seed) == (
        "room",
        played[0].interface,
        TASK_IDS[0],
        1,
        7,
    )
    assert len(said) == LOSSES - 1


def test_workers_that_never_begin_end_the_batch(monkeypatch):
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0))
    with pytest.raises(EngineError, match="3 workers in a row were lost before they could play: the machine is gone"):
        played_elsewhere(Vanilla(Knowing()), lambda: Wire(lambda method: method == "prepare"))


def test_workers_that_are_lost_as_they_begin_cost_no_episode(monkeypatch):
    """As on a machine that is gone, of which nobody knows yet."""
    monkeypatch.setattr(remote, "PAUSES", (0.0,) * (LOSSES + 1))
    gone, said = iter(range(LOSSES + 1)), list[str]()
    played = played_elsewhere(
        Vanilla(Knowing()),
        lambda: Wire(lambda method: method == "prepare" and next(gone, None) is not None),
        said=said,
        workers=1,
    )
    assert played == played_here(Vanilla(Knowing()))
    assert len(said) == LOSSES + 1


class Failing(Knowing):
    """A model that breaks in the second turn of an episode."""

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        if len(messages) > 2:
            raise ModelError("the endpoint is down")
        return super().complete(messages, temperature=temperature, max_tokens=max_tokens)


def test_a_model_that_breaks_is_a_fault_of_its_episode():
    (trajectory,) = played_elsewhere(Vanilla(Failing()), lambda: Wire(), EPISODES[:1])
    assert trajectory.fault is not None
    assert (trajectory.fault.source, trajectory.fault.message) == ("model", "the endpoint is down")
    assert len(trajectory.steps) == 1


def no_data() -> RoomEnv:
    raise UsageError("there are no games here")


class Stubborn(Exception):
    """It cannot be sent."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def not_ours() -> RoomEnv:
    raise Stubborn("out of", "paper")


def test_what_an_environment_raises_as_it_is_made_comes_here():
    with pytest.raises(UsageError, match=r"^there are no games here$"):
        played_elsewhere(Vanilla(Knowing()), lambda: Wire(), make=no_data)
    with pytest.raises(RuntimeError, match=r"Stubborn: out of"):
        played_elsewhere(Vanilla(Knowing()), lambda: Wire(), make=not_ours)


def test_workers_are_kept_where_the_batch_ended_well_and_ended_where_it_was_given_up():
    wires: list[Wire] = []

    def connect() -> Wire:
        wires.append(Wire())
        return wires[-1]

    played_elsewhere(Vanilla(Knowing()), connect, workers=1)
    assert wires.pop().ended == [True]

    halt = Halt()

    class Stopping(Knowing):
        def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
            halt.set()
            return super().complete(messages, temperature=temperature, max_tokens=max_tokens)

    work = RolloutSpec(make_env, Vanilla(Stopping()), "test", "", 0)
    packed, models = pack(work)
    host = RemoteHost(work, packed, models, connect, print)
    with under(halt), pytest.raises(CancelledError):
        host.play("room/mug-to-study")
    host.close()
    assert wires.pop().ended == [False]


class Counting:
    """Asks its model from several threads in one turn."""

    name = "counting"

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    def act(self, view: AgentView) -> AgentReply:
        from align_echo.base.halting import on_threads

        messages = [Message(role="user", content=view.goal)]
        replies = on_threads(lambda _: self.model.complete([*messages, *messages], temperature=0.0).text, range(5), 5)
        return AgentReply(text=" ".join(replies), action=replies[0])


def test_an_agent_may_ask_from_several_threads():
    model = Knowing()
    (trajectory,) = played_elsewhere(Counting(model), lambda: Wire(), EPISODES[:1])
    assert trajectory.steps[0].reply == " ".join([PLAN[0]] * 5)
    assert model.asked == 5 * len(trajectory.steps)


# ---------------------------------------------------------------- what is sent


def test_what_cannot_be_sent_is_refused_in_one_line():
    agent = Counting(Knowing())
    agent.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"counting and its environment cannot be sent .*play on threads, --workers N"):
        pack(RolloutSpec(make_env, agent, "test", "", 0))


def test_a_module_of_the_current_folder_goes_along(tmp_path, monkeypatch):
    (tmp_path / "my_agent_of_test_workers.py").write_text(
        "from align_echo.types import AgentReply\n\n\n"
        "class Looker:\n    name = 'looker'\n\n"
        "    def act(self, view):\n        return AgentReply(text=LOOK, action=LOOK)\n\n\nLOOK = 'look'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    looker = importlib.import_module("my_agent_of_test_workers").Looker()
    packed, _ = pack(RolloutSpec(make_env, looker, "test", "", 0))
    elsewhere = tmp_path / "elsewhere"
    del sys.modules["my_agent_of_test_workers"]
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    work = unpack(packed, lambda facts: Knowing())
    view = AgentView(task_id="", action_format="", goal="", rules="", initial_observation="")
    assert work.agent.act(view).text == "look"


def test_what_a_worker_lacks_is_said():
    packed = pickle.dumps({}) + pickle.dumps(RolloutSpec).replace(b"RolloutSpec", b"RolloutSpce")
    with pytest.raises(UsageError, match=r"a worker lacks what this run needs \(.*RolloutSpce"):
        unpack(packed, lambda facts: Knowing())


# ---------------------------------------------------------------- names


def test_workers_are_read_once(monkeypatch):
    monkeypatch.setattr("align_echo.errors.find_spec", lambda name: object())
    assert read_workers(None) is None
    assert read_workers(3) == read_workers("3") == ThreadWorkers(3)
    assert read_workers("processes:2") == ProcessWorkers(2)
    assert read_workers("ray") == RayWorkers()
    assert read_workers("ray:4") == RayWorkers("", 4)
    assert read_workers("ray://node-1:10001") == RayWorkers("ray://node-1:10001")
    assert read_workers("ray://[::1]:10001/12") == RayWorkers("ray://[::1]:10001", 12)
    rays = ("ray:", "ray:0", "ray4", "ray://node-1", "ray://node-1:1:2", "ray/2")
    for wrong in (0, "-1", "", "two", "processes", "processes:0", *rays):
        with pytest.raises(UsageError, match="--workers is a number of threads, or processes:N, ray"):
            read_workers(wrong)


def test_processes_are_for_models_that_this_machine_computes():
    local, endpoint = choose_agent("vanilla", "pocket"), choose_agent("vanilla", "some-model")
    assert choose_workers(ProcessWorkers(2), local) == ProcessWorkers(2)
    assert ProcessWorkers(2).threads == 2 * choose_workers(None, local).threads
    assert choose_workers(None, endpoint) == ThreadWorkers(8)
    assert [choose_workers(ThreadWorkers(64), local), choose_workers(ThreadWorkers(65), endpoint)]
    with pytest.raises(UsageError, match="--workers 65: the model pocket holds 64 conversations at once"):
        choose_workers(ThreadWorkers(65), local)
    with pytest.raises(UsageError, match="agent vanilla asks the model some-model: give a number of threads, or ray"):
        choose_workers(ProcessWorkers(2), endpoint)
    with pytest.raises(UsageError, match="agent novice asks no model"):
        choose_workers(ProcessWorkers(2), choose_agent("novice", None))


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("align_echo.errors.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"--workers ray needs an extra: pip install '\.\[ray\]' in a checkout"):
        read_workers("ray")
