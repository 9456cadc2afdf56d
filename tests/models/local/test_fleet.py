"""Several servers as one engine, each a stand-in with a real tiny model over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from align_echo.errors import ContextOverflowError, ModelError
from align_echo.models.local.engine import ModelEngine, SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.engine_process import EngineGroup
from tests.models.local.vllm_client import IDS, connect
from tests.models.local.vllm_stand_in import CONTEXT, Refusal, StandIn, save_adapter, serve

GONE = [Refusal(0)] * 1000


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def two() -> Iterator[tuple[list[StandIn], EngineGroup]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(serve(StandIn())) for _ in range(2)]
        by_url = {server.url: server for server in servers}

        def reach(address: str) -> ModelEngine:
            return connect(by_url[address], model="")

        fleet = EngineGroup(list(by_url), reach)
        for server in servers:
            server.requests.clear()
        yield servers, fleet
        for server in servers:
            server.let_go.set()
        fleet.close()


def request(seed: int, adapter: str = "", ids: tuple[int, ...] = IDS) -> TokenRequest:
    return TokenRequest(ids, SamplingConfig(max_tokens=8, seed=seed), adapter)


def on_threads_at_once(work: Callable[[int], TokenReply], count: int) -> list[TokenReply]:
    """Each number on a thread of its own, all of which are there at once."""
    together = threading.Barrier(count)

    def wait_and_work(number: int) -> TokenReply:
        together.wait(60)
        reply = work(number)
        together.wait(60)
        return reply

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(wait_and_work, range(count)))


def test_threads_are_divided_over_the_servers_and_keep_theirs(two):
    servers, fleet = two

    def turns(number: int) -> TokenReply:
        replies: list[TokenReply] = [fleet.submit(request(10 * number + turn)).result(60) for turn in range(3)]
        return replies[-1]

    on_threads_at_once(turns, 4)
    seeds = [{asked["seed"] // 10 for asked in server.requests} for server in servers]
    assert [len(server.requests) for server in servers] == [6, 6]
    assert [len(numbers) for numbers in seeds] == [2, 2]
    assert seeds[0] | seeds[1] == {0, 1, 2, 3}


def test_requests_of_a_server_that_is_gone_go_to_the_other_and_are_answered_the_same(two):
    servers, fleet = two
    wanted = [fleet.submit(request(number)).result(60) for number in range(4)]
    servers[0].faults = list(GONE)
    with pytest.warns(UserWarning, match="left out for now"):
        replies = on_threads_at_once(lambda number: fleet.submit(request(number)).result(60), 4)
    assert replies == wanted
    assert list(fleet.lost) == [servers[0].url]


def test_when_no_server_is_left_it_is_a_models_fault(two):
    servers, fleet = two
    for server in servers:
        server.faults = list(GONE)
    with pytest.warns(UserWarning, match="left out for now"), pytest.raises(ModelError, match="no server is left"):
        fleet.submit(request(1)).result(60)
    with pytest.raises(ModelError, match="no server is left"):
        fleet.submit(request(1))


def test_a_request_that_no_server_could_answer_loses_none(two):
    _, fleet = two
    with pytest.raises(ContextOverflowError):
        fleet.submit(request(1, ids=(7,) * CONTEXT)).result(60)
    assert fleet.lost == {}


def test_an_adapter_is_published_to_all_and_to_one_that_comes_back_with_nothing(two, tmp_path: Path):
    servers, fleet = two
    fleet.load_adapter("critic", str(save_adapter(tmp_path / "critic", seed=3)))
    fleet.load_adapter("policy", str(save_adapter(tmp_path / "policy-1", seed=1)))
    assert [sorted(server.adapters) for server in servers] == [["critic-1", "policy-2"]] * 2
    servers[0].adapters.clear()  # it was started again: what it had is gone
    with pytest.warns(UserWarning, match="left out for now"):
        first = [fleet.submit(request(number, "critic")).result(60) for number in range(2)]
    assert list(fleet.lost) == [servers[0].url]
    fleet.load_adapter("policy", str(save_adapter(tmp_path / "policy-2", seed=2)))
    assert fleet.lost == {}
    assert len(servers[0].adapters) == len(servers[1].adapters) == 2
    replies = on_threads_at_once(lambda number: fleet.submit(request(number % 2, "critic")).result(60), 4)
    assert replies == first * 2
    assert all(server.requests for server in servers)


def test_a_reply_that_nobody_waits_for_is_cancelled_where_it_waits(two):
    servers, fleet = two
    for server in servers:
        server.hold = "tiny"
    held = fleet.submit(request(1))
    assert any(server.waiting.acquire(timeout=60) for server in servers[:1])
    assert held.cancel()
    assert held.cancelled()
