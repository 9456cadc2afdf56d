"""Made conversations in token ids, and engines that continue them: ours, transformers' continuous batching, and vLLM.

A conversation is an opening, and in turns a reply and an observation, all drawn from a seed. Whatever a model answers,
the next prompt holds the reply that was made: so every engine computes the same. An engine is a function from ids to
the future of a reply; transformers' has the settings that it takes by itself.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from studies.gpu_check.shapes import Work

Ids = tuple[int, ...]
Ask = Callable[[Ids], "Future[TokenReply]"]
DEADLINE = 60.0
"""Seconds in which a reply must have come."""

FIRST_ID = 8
"""Ids below may be special tokens."""


@dataclass(frozen=True)
class Talk:
    """The prompts of a conversation's turns, each of which begins with the one before it."""

    prompts: tuple[Ids, ...]


def talks(work: Work, rows: int, vocabulary: int, seed: int) -> list[Talk]:
    """So many conversations; their openings share the first half, as those of one environment's rules do."""
    dice = random.Random(seed)

    def drawn(count: int) -> Ids:
        return tuple(dice.randrange(FIRST_ID, vocabulary) for _ in range(count))

    rules = drawn(work.opening // 2)
    made = []
    for _ in range(rows):
        prompts = [(*rules, *drawn(work.opening - len(rules)))]
        while len(prompts) < work.turns:
            prompts.append((*prompts[-1], *drawn(work.reply + work.observation)))
        made.append(Talk(tuple(prompts)))
    return made


def replay(conversations: Sequence[Talk], ask: Ask) -> list[list[TokenReply]]:
    """Every conversation's replies, turn after turn, all conversations at once."""

    def replies(talk: Talk) -> list[TokenReply]:
        return [ask(prompt).result(DEADLINE) for prompt in talk.prompts]

    with ThreadPoolExecutor(len(conversations)) as pool:
        return list(pool.map(replies, conversations))


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
def continuous(
    model: Any, rows: int, reply: int, context: int, *, graphs: bool | None = None, sampling: Any = None
) -> Iterator[Ask]:
    """The same by one `ContinuousBatchingManager`, with CUDA graphs or, for None, if it takes them by itself.

    `sampling` is another `GenerationConfig` than that of greedy replies of so many tokens.

    Its cache is half of the memory that is free: with the nine tenths that it would take, there is no room for graphs.
    On a CPU, where it would take a third of all memory, it is given room for these conversations.
    """
    settings = ContinuousBatchingConfig(return_logprobs=True, use_cuda_graph=graphs, max_memory_percent=0.5)
    if model.device.type == "cpu":
        page = next(name for name in ("page_size", "block_size") if hasattr(settings, name))  # its name before 5.20
        setattr(settings, page, 16)
        settings.num_blocks, settings.max_batch_tokens = 4 * rows * context // 16, 64
    make: Any = GenerationConfig
    limits = sampling or make(do_sample=False, max_new_tokens=reply, eos_token_id=-1, pad_token_id=0)
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
    from studies.pocket_model import pocket_model

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
