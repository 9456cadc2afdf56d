"""Engines that continue token ids, each as a function from ids to the future of a reply: ours, the continuous batching
of `transformers` with the settings it has by itself, and vLLM where it is installed.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from studies.gpu_check.talks import DEADLINE, Ask, Ids


@contextmanager
def running(model: Any, slots: int, context: int, *, graphs: bool = True) -> Iterator[TransformersEngine]:
    """Our engine on the model, which has its own attention again afterwards."""
    engine = TransformersEngine(
        model, name="ours", decode=lambda ids: "", slots=slots, context=context, graphs=graphs
    )
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def ours(model: Any, rows: int, reply: int, context: int, *, graphs: bool = True) -> Iterator[Ask]:
    """Greedy replies of so many tokens by our engine."""
    sampling = SamplingConfig(temperature=0.0, max_tokens=reply)
    with running(model, rows, context, graphs=graphs) as engine:
        yield lambda ids: engine.submit(TokenRequest(ids, sampling))


@contextmanager
def continuous(model: Any, rows: int, reply: int, context: int, *, graphs: bool | None = None) -> Iterator[Ask]:
    """The same by one `ContinuousBatchingManager`, with CUDA graphs or, for None, if it takes them by itself.

    Its cache is half of the memory that is free: with the nine tenths that it would take, there is no room for graphs.
    On a CPU, where it would take a third of all memory, it is given room for these conversations.
    """
    settings = ContinuousBatchingConfig(return_logprobs=True, use_cuda_graph=graphs, max_memory_percent=0.5)
    if model.device.type == "cpu":
        page = next(name for name in ("page_size", "block_size") if hasattr(settings, name))  # its name before 5.20
        setattr(settings, page, 16)
        settings.num_blocks, settings.max_batch_tokens = 4 * rows * context // 16, 64
    make: Any = GenerationConfig
    limits = make(do_sample=False, max_new_tokens=reply, eos_token_id=-1, pad_token_id=0)
    with model.continuous_batching_context_manager(
        limits, continuous_batching_config=settings, timeout=DEADLINE
    ) as manager:
        waiting: dict[str, Future[TokenReply]] = {}
        over = threading.Event()
        thread = threading.Thread(target=_deliver, args=(manager, waiting, over), daemon=True)
        thread.start()
        names = iter(range(sys.maxsize))

        def ask(ids: Ids) -> Future[TokenReply]:
            name = str(next(names))
            future = waiting[name] = Future()
            manager.add_request(list(ids), request_id=name)
            return future

        try:
            yield ask
        finally:
            over.set()
            thread.join()


def _deliver(manager: Any, waiting: dict[str, Future[TokenReply]], over: threading.Event) -> None:
    """Hand out what the manager answers; where it has stopped, that."""
    while not over.is_set():
        result = manager.get_result(timeout=0.1)
        if result is not None:
            future = waiting.pop(result.request_id)
            if result.error is None:
                future.set_result(TokenReply(tuple(result.generated_tokens), tuple(result.logprobs), "length"))
            else:
                future.set_exception(RuntimeError(result.error))
        elif not manager.is_running():
            for name in list(waiting):
                waiting.pop(name).set_exception(RuntimeError("the manager has stopped: see what it logged"))


@contextmanager
def vllm(model: Any, rows: int, reply: int, context: int) -> Iterator[Ask]:
    """The same by vLLM, from a folder that the model is saved to."""
    from align_echo.models.local.vllm_engine import VllmEngine
    from studies.rollout_arms.setting import pocket_model

    sampling = SamplingConfig(temperature=0.0, max_tokens=reply)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        pocket_model()[1].save_pretrained(folder)
        engine = VllmEngine(folder, context=context, memory=0.5)
        try:
            yield lambda ids: engine.submit(TokenRequest(ids, sampling))
        finally:
            engine.close()


ENGINES: dict[str, Callable[..., AbstractContextManager[Ask]]] = {
    "ours": ours,
    "ours, without graphs": partial(ours, graphs=False),
    "continuous batching": continuous,
    "continuous batching, graphs": partial(continuous, graphs=True),
    "vllm": vllm,
}


def why_missing(name: str, device: torch.device) -> str:
    """Why an engine cannot run here; "" if it can."""
    if "graphs" in name and device.type != "cuda":
        return "graphs are a GPU's"
    return "not installed" if name == "vllm" and find_spec("vllm") is None else ""
