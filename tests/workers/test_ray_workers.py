"""Episodes on Ray, on a cluster of several nodes on this machine. Skipped where Ray is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.reasoning import Vanilla
from align_echo.base.jsonl import JsonlFile
from align_echo.errors import UsageError
from align_echo.interface.contract import identity
from align_echo.models import CallLog, RecordingModel, ReplyCache
from align_echo.rollout.session import Episode
from align_echo.types import Agent, AgentReply, AgentView, ChatModel, Completion, Message, Trajectory
from align_echo.workers.ray_cluster import RayWorkers, ThreadWorkers, Workers, _connected, close_ray, play_tasks
from align_echo.wrappers import AlignWrapper
from tests.room_env import CONTRACT, TASK_IDS, RoomEnv

ray = pytest.importorskip("ray", reason="needs the extra ray: pip install '.[ray]'")

EPISODES = [Episode(task, sample) for task in TASK_IDS for sample in range(4)]
PLAN = ("take mug 1", "go to study", "drop mug 1", "look")
ACTORS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs, where nothing is placed at first, and two nodes with two each."""
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 2**20}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
    for _ in range(2):
        nodes.add_node(num_cpus=2, **small)
    ray.init(nodes.address, logging_level="ERROR", log_to_driver=False)
    yield nodes
    close_ray()
    ray.shutdown()
    nodes.shutdown()


class Knowing:
    """A model that knows the way to bring the mug. `before` is called with the number of each question, from 1."""

    name = "knowing"

    def __init__(self, before: Any = lambda number: None) -> None:
        self._before = before
        self._lock = threading.Lock()
        self.asked = 0

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        with self._lock:
            self.asked += 1
            number = self.asked
        self._before(number)
        return Completion(text=PLAN[min(len(messages) // 2 - 1, len(PLAN) - 1)])


class Looker:
    """Asks no model."""

    name = "looker"

    def act(self, view: AgentView) -> AgentReply:
        return AgentReply(text="look", action="look")


def make_env() -> AlignWrapper:
    return AlignWrapper(RoomEnv(6), identity(CONTRACT))


def play(workers: Workers, agent: Agent, kept: JsonlFile, said: list[str] | None = None) -> list[Trajectory]:
    played: list[Trajectory] = []

    def ended(trajectory: Trajectory) -> None:
        kept.append(trajectory)
        played.append(trajectory)

    play_tasks(
        workers,
        make_env,
        agent,
        EPISODES,
        split="test",
        action_format="a command",
        seed=3,
        on_trajectory=ended,
        say=(said if said is not None else []).append,
    )
    return sorted(played, key=lambda trajectory: EPISODES.index(Episode(trajectory.task_id, trajectory.sample)))


def on_file(file: JsonlFile) -> list[str]:
    return sorted(trajectory.model_dump_json() for trajectory in file.read(Trajectory))


def recorded(model: ChatModel, folder: Path) -> ChatModel:
    cache, log = ReplyCache(folder / "cache"), CallLog(folder / "calls.jsonl")
    return RecordingModel(model, role="agent", cache=cache, log=log)


@pytest.mark.parametrize("makes", [lambda: Vanilla(Knowing()), Looker], ids=["model", "script"])
def test_actors_play_what_threads_play(cluster, tmp_path, makes):
    threads, actors = JsonlFile(tmp_path / "threads.jsonl"), JsonlFile(tmp_path / "actors.jsonl")
    assert play(RayWorkers("", ACTORS), makes(), actors) == play(ThreadWorkers(2), makes(), threads)
    assert on_file(actors) == on_file(threads)


def test_a_process_plays_on_one_ray(cluster, tmp_path):
    play(RayWorkers("", ACTORS), Looker(), JsonlFile(tmp_path / "actors.jsonl"))
    with pytest.raises(UsageError, match=r"^this process plays on the Ray of this machine: another one needs"):
        play(RayWorkers("ray://127.0.0.1:1"), Looker(), JsonlFile(tmp_path / "others.jsonl"))


def test_what_an_actor_refuses_is_one_line(cluster):
    def no_data() -> RoomEnv:
        raise UsageError("there are no games on this machine")

    with pytest.raises(UsageError, match=r"^there are no games on this machine$"):
        play_tasks(RayWorkers("", ACTORS), no_data, Looker(), EPISODES, split="test", on_trajectory=print)


def test_a_ray_that_does_not_start_is_one_line(monkeypatch):
    def times_out(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.\nSee its logs.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", times_out)
    with pytest.raises(UsageError, match=r"^Ray at ray://there:1 cannot be used: The current node timed out during"):
        _connected("ray://there:1", None)


@pytest.mark.slow
def test_a_ray_of_our_own_listens_on_the_loopback_alone():
    begin = "from align_echo.workers.ray_cluster import _connected"
    program = f"{begin}\nprint(_connected('', 1).util.get_node_ip_address())"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert ended.stdout.split() == ["127.0.0.1"]


@pytest.mark.slow
def test_a_node_that_is_killed_in_mid_run_changes_no_figure(cluster, tmp_path):
    """All actors are amid their first episodes when one of the two nodes goes, with its two."""
    everybody, node_is_gone = threading.Barrier(ACTORS, timeout=60), threading.Event()

    def before(number: int) -> None:
        if number > ACTORS:
            return
        if everybody.wait() == 0:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            node_is_gone.set()
        assert node_is_gone.wait(60)

    undisturbed, disturbed = JsonlFile(tmp_path / "undisturbed.jsonl"), JsonlFile(tmp_path / "disturbed.jsonl")
    expected = play(ThreadWorkers(1), Vanilla(Knowing()), undisturbed)
    said: list[str] = []
    model = Knowing(before)
    played = play(RayWorkers("", ACTORS), Vanilla(recorded(model, tmp_path)), disturbed, said)
    assert played == expected
    assert on_file(disturbed) == on_file(undisturbed)
    assert sum("is played again on another" in line for line in said) == 2, said
    assert [trajectory.fault for trajectory in played] == [None] * len(EPISODES)
    assert sum(trajectory.won for trajectory in played) == 4
