"""An engine on `transformers`: continuous batching over a slot cache, for any causal model with standard attention.

One thread owns the model. Each step computes one packed row: the next token of every drawing request and a share of
the contexts still to be read. Requests come and go between steps. A context is computed only from where it differs
from a slot's contents, and requests with the same context are computed as one until their tokens differ: eight
candidates that agree cost little more than one. Not here: draft models, quantised caches, and attention refused by
`slot_attention`.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from align_echo.base.halting import wait_for_result
from align_echo.errors import ContextOverflowError, ModelError, UsageError, first_line
from align_echo.models.local import CONVERSATIONS
from align_echo.models.local.engine import Forward, TokenReply, TokenRequest
from align_echo.models.local.memory import POOL, ModelMemory, keep_freed_memory, model_memory
from align_echo.models.local.row_blocks import MAPPINGS
from align_echo.models.local.rows import (
    EngineRow,
    PendingRequest,
    Reason,
    covers_prefix,
    draw_tokens,
    fail,
    find_end_reason,
    merge_into_identical,
    plan_parts,
    split_by_token,
)
from align_echo.models.local.slot_attention import (
    NO_NUMBERS,
    FixedStep,
    PackedStep,
    SlotPart,
    forward,
    use_slots,
)
from align_echo.models.local.slot_cache import WORTH_COPYING, SlotCache
from align_echo.models.local.vllm_engine import VERIFICATION, check_weights, model_folder
from align_echo.models.local.weights import ServedAdapters, load_state, read_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# ---------------------------------------------------------------- decoding steps as CUDA graphs

LEAST_COLUMNS = 256

_RECORDING = threading.Lock()
"""Held while a graph is recorded. Recording waits for the whole device, which breaks another engine's recording."""


@dataclass(frozen=True)
class _Recorded:
    """A fixed-shape step, its graph (None: recompute each time) and the tensor of its logits [R, V]."""

    step: FixedStep
    graph: torch.cuda.CUDAGraph | None
    logits: torch.Tensor | None


class DecodeGraphs:
    """CUDA graphs of one model over one cache. Call `forget` after changing the model other than in place."""

    def __init__(self, model: PreTrainedModel, cache: SlotCache) -> None:
        self._model = model
        self._cache = cache
        self._recorded: dict[tuple[int, int, str], _Recorded] = {}
        self._buffers = -1
        self._broken = False

    def forget(self) -> None:
        """Drop all graphs."""
        self._recorded.clear()

    def fits(self, parts: Sequence[SlotPart]) -> bool:
        """Return True if a step of these parts can be replayed: all draw a token, and recording has not failed so far.
        """
        return not self._broken and all(len(part.ids) == 1 for part in parts)

    def logits(self, parts: Sequence[SlotPart], adapter: str) -> torch.Tensor | None:
        """Compute one step: the logits [B, V] after the single token of each part.

        Returns None, with a warning, if the model cannot be recorded as a graph.
        """
        columns = max(part.start for part in parts) + 1
        self._cache.reserve(columns)
        if self._buffers != self._cache.buffers_made:
            self.forget()
            self._buffers = self._cache.buffers_made
        rows = min(_round_up_pow2(max(part.slot for part in parts) + 1), self._cache.slots)
        key = (rows, min(max(_round_up_pow2(columns), LEAST_COLUMNS), self._cache.columns), adapter)
        if key not in self._recorded and not self._record(key, parts):
            return None
        recorded = self._recorded[key]
        recorded.step.take(parts)
        if recorded.graph is None:
            logits = self._computed(recorded.step)
        else:
            recorded.graph.replay()
            assert recorded.logits is not None
            logits = recorded.logits
        recorded.step.record()
        return logits[[part.slot for part in parts]]

    def _record(self, key: tuple[int, int, str], parts: Sequence[SlotPart]) -> bool:
        """Record a graph. Return False on failure."""
        rows, columns, _ = key
        step = FixedStep(self._cache, rows, columns, self._model.device)
        if self._model.device.type != "cuda":
            self._recorded[key] = _Recorded(step, None, None)
            return True
        step.take(parts)
        graph = torch.cuda.CUDAGraph()
        try:
            self._computed(step)  # one-time setup is not part of a graph
            # Other threads may use the GPU meanwhile: a trainer that learns while the next batch is played.
            with _RECORDING:
                torch.cuda.synchronize()
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    logits = self._computed(step)
        except RuntimeError as error:
            self._broken = True
            why = first_line(error)
            warnings.warn(f"replies take longer: no CUDA graph can be made of the model: {why}", stacklevel=2)
            return False
        self._recorded[key] = _Recorded(step, graph, logits)
        return True

    def _computed(self, step: FixedStep) -> torch.Tensor:
        return forward(self._model, step, step.rows)


def _round_up_pow2(count: int) -> int:
    """Round up to a power of two."""
    return 1 << (count - 1).bit_length()


# ---------------------------------------------------------------- an engine on `transformers`

STEP_TOKENS = {"cpu": 1024, "cuda": 8192}
"""Maximum tokens of one step by device type: a GPU takes about as long for few as for many."""

READ_EVERY = 8
"""Steps between readings of contexts while other requests draw: a reading step takes as long as many replayed ones."""


@dataclass(frozen=True)
class _ModelChange:
    """A change of the model to be made between requests."""

    act: Callable[[PreTrainedModel], None]
    future: Future[None]


@dataclass(frozen=True)
class _Resize:
    """Another number of tokens for all conversations together."""

    room: int


_Waiting = PendingRequest | EngineRow | _ModelChange


def engine_memory(model: PreTrainedModel, *, context: int = 0, step_tokens: int = 0) -> ModelMemory:
    """Estimate the memory of an engine around a model; `context` is as in `TransformersEngine`."""
    config = model.config.get_text_config()
    return model_memory(
        config,
        sum(parameter.numel() for parameter in model.parameters()),
        weight_bytes=model.dtype.itemsize,
        context=context or config.max_position_embeddings,
        step_tokens=step_tokens or STEP_TOKENS.get(model.device.type, STEP_TOKENS["cpu"]),
    )


def _is_read_by_another(row: EngineRow, cached: int, readers: Sequence[EngineRow]) -> bool:
    """Check for a context in progress that has much of this row beyond what is `cached`. If so, the row waits."""
    same = [reader for reader in readers if reader.adapter == row.adapter]
    return any(covers_prefix(reader, row, max(cached, reader.done) + WORTH_COPYING) for reader in same)


class TransformersEngine:
    """A `ModelEngine` around a model that nothing else uses at the same time.

    `decode` returns the text of token ids, for stop strings. `slots` is the number of conversations cached and drawn
    at once; `context` (0: the model's) their maximum length; `step_tokens` the maximum tokens per step besides one per
    row (0: `STEP_TOKENS`). `graphs`: on a GPU, replay drawing steps as CUDA graphs. `stock` is for a model with its
    own attention over slots: it loads the same model with `transformers`, to replace it before any change. Memory is
    bounded by `memory.POOL`: `context` is cut to what fits, and a conversation that does not fit beside others waits.
    Raises `UsageError` for a model whose attention cannot be cached this way, and for one that does not fit.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        name: str,
        decode: Callable[[Sequence[int]], str],
        slots: int = CONVERSATIONS,
        context: int = 0,
        step_tokens: int = 0,
        graphs: bool = True,
        stock: Callable[[], PreTrainedModel] | None = None,
    ) -> None:
        config = model.config.get_text_config()
        most = int(getattr(config, "max_position_embeddings", 0) or 0)
        step_tokens = step_tokens or STEP_TOKENS.get(model.device.type, STEP_TOKENS["cpu"])
        if slots < 1 or step_tokens < 2 or context < 0 or (most and context > most):
            raise UsageError(f"an engine has slots, steps of 2 or more tokens, and a context within the model's {most}")
        longest = context or most
        if not longest:
            raise UsageError(f"the configuration of {name} does not say how long its context is: give one")
        device = str(model.device)
        need = self._need = engine_memory(model, context=longest, step_tokens=step_tokens)
        room = POOL.check_fit(name, need, device=device) // need.token
        self._context = min(longest, room)
        model.train(False)
        self._stock = stock
        self._own_attention = "" if stock else use_slots(model)
        self._name = name
        self._model = model
        self._adapters = ServedAdapters(model)
        self._vocabulary = int(config.vocab_size)
        self._decode = decode
        self._step_tokens = step_tokens
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        paged = model.device.type == "cpu"
        if paged:
            keep_freed_memory()
        self._mappings = MAPPINGS.claim(slots, config.num_hidden_layers, heads) if paged else 0
        self._cache = SlotCache(slots, self._context, paged=paged, sharing=self._mappings > 0, room=room)
        self._graphs = DecodeGraphs(model, self._cache) if graphs and model.device.type == "cuda" else None
        self._unread = 0  # steps since the last reading of contexts
        self._rows: list[EngineRow] = []
        self._waiting: deque[_Waiting] = deque()
        self._turn = ""
        self._inbox: queue.SimpleQueue[_Waiting | _Resize | None] = queue.SimpleQueue()
        self._closed = False
        self._changed = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"engine {name}", daemon=True)
        self._thread.start()
        self._share = POOL.join(
            need.fixed, lambda size: self._inbox.put(_Resize(max(1, size // need.token))), device=device
        )
        atexit.register(self.close)

    # ------------------------------------------------------------ from any thread

    @property
    def name(self) -> str:
        """Name set at construction."""
        return self._name

    @property
    def context(self) -> int:
        """Maximum tokens of a context and its reply together."""
        return self._context

    @property
    def closed(self) -> bool:
        """True if the engine takes no more requests."""
        return self._closed

    @property
    def changed(self) -> bool:
        """True if the model may differ from the original (`update`, `load_weights`)."""
        return self._changed

    @property
    def adapters(self) -> tuple[str, ...]:
        """Loaded adapters, by name."""
        return self._adapters.names

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        """Start a request. Raises `UsageError` for an invalid request; the future raises as in `ModelEngine`.

        The future can be cancelled at any time before its reply; this stops the generation.
        """
        ids = request.ids
        tokens = np.array(ids, dtype=np.int64)
        if not ids or tokens.min() < 0 or tokens.max() >= self._vocabulary:
            raise UsageError(f"a request to {self._name} needs token ids in [0, {self._vocabulary}), at least one")
        choices = request.sampling.choices
        if choices and (min(choices) < 0 or max(choices) >= self._vocabulary):
            raise UsageError(f"{self._name} knows no choices but token ids in [0, {self._vocabulary})")
        if request.sampling.max_tokens < 1:
            raise UsageError(f"a request needs room for one token, not for {request.sampling.max_tokens}")
        if request.adapter and request.adapter not in self._adapters.names:
            raise UsageError(f"{self._name} has no adapter {request.adapter!r}; loaded: {list(self._adapters.names)}")
        future: Future[TokenReply] = Future()
        if len(ids) >= self._context:
            future.set_exception(
                ContextOverflowError(f"{len(ids)} tokens leave no room for a reply in {self._context} of {self._name}")
            )
        else:
            most = min(request.sampling.max_tokens, self._context - len(ids))
            self._put(PendingRequest(request, future, most, tokens.astype(np.int32)))
        return future

    def update(self, change: Callable[[PreTrainedModel], None]) -> None:
        """Change the model in place. Waits for running requests; later requests use the changed model and no cache.

        Raises the exceptions of `change`; the caches are dropped in any case.
        """
        self._changed = True
        self._between_requests(change)

    def load_weights(self, state: Mapping[str, torch.Tensor], adapter: str = "") -> None:
        """Replace the weights of the model, or of one adapter, from a state dict. Waits as `update` does.

        Raises `UsageError`, with nothing changed, if names or shapes do not match.
        """
        self.update(lambda model: self._adapters.load_state(adapter, state) if adapter else load_state(model, state))

    def load_adapter(self, name: str, folder: str) -> None:
        """Load an adapter, see `ModelEngine`. Waits as `update` does. Raises `UsageError` for an adapter of another
        model or kind.
        """
        self._between_requests(lambda model: self._adapters.load(name, folder))

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """Publish weights, see `ModelEngine`. A trainer in this process can use `load_weights` without files."""
        self.read_weights(folder)
        check_weights(forward, wait_for_result(self.submit(VERIFICATION)))

    def read_weights(self, folder: str) -> None:
        """Replace the weights as `publish_weights` does, without verification."""
        self._between_requests(lambda model: None)  # from here on a model of `transformers`
        model = read_model(type(self._model), model_folder(folder), self._model.dtype)
        self.load_weights(model.state_dict())

    def close(self) -> None:
        """End the thread after its current step; waiting requests raise `ModelError`. May be called again.

        The model gets its own attention back; adapters stay in it.
        """
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._inbox.put(None)
            POOL.leave(self._share)
            MAPPINGS.give_back(self._mappings)
            atexit.unregister(self.close)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _between_requests(self, change: Callable[[PreTrainedModel], None]) -> None:
        future: Future[None] = Future()
        self._put(_ModelChange(change, future))
        wait_for_result(future)

    def _put(self, item: _Waiting) -> None:
        if os.getpid() != self._process:
            raise ModelError(f"{self._name} runs in the process that this one was forked from: load it here anew")
        with self._lock:
            if self._closed:
                raise ModelError(f"{self._name} is closed")
            self._inbox.put(item)

    # ------------------------------------------------------------ in the engine's thread

    def _run(self) -> None:
        try:
            while self._goes_on():
                pass
        finally:
            with self._lock:
                self._closed = True
            closed = ModelError(f"{self._name} was closed")
            for item in (*self._rows, *self._waiting, *self._left_in_inbox()):
                fail(item.futures if isinstance(item, EngineRow) else [item.future], closed)
            if self._own_attention:
                self._model.set_attn_implementation(self._own_attention)

    def _goes_on(self) -> bool:
        """Make a step for the rows there are, waiting if there are none. Return False when closed."""
        try:
            if not self._receive():
                return False
            self._drop_cancelled()
            self._admit()
            if self._rows:
                self._step()
        except Exception as error:
            self._begin_again(ModelError(f"{self._name}: {type(error).__name__}: {error}"))
        return True

    def _left_in_inbox(self) -> list[_Waiting]:
        left = []
        while not self._inbox.empty():
            item = self._inbox.get()
            if item is not None and not isinstance(item, _Resize):
                left.append(item)
        return left

    def _receive(self) -> bool:
        """Collect submitted items, waiting if there is nothing to do. Return False when closed."""
        while not self._rows and not self._waiting:
            if not self._take_in(self._inbox.get()):
                return False
        while not self._inbox.empty():
            if not self._take_in(self._inbox.get()):
                return False
        return True

    def _take_in(self, item: _Waiting | _Resize | None) -> bool:
        """Take a submitted item. Return False if it closes the engine."""
        if isinstance(item, _Resize):
            self._cache.room = item.room
            self._free()
        elif item is not None:
            self._waiting.append(item)
        return item is not None

    def _drop_cancelled(self) -> None:
        for row in self._rows:
            row.leave_cancelled()
        self._rows = [row for row in self._rows if row.requests]

    def _admit(self) -> None:
        """Assign slots to waiting items, in order, up to the first change that has to wait."""
        later: list[_Waiting] = []
        row = None
        readers = [active for active in self._rows if active.reading]
        busy = len(self._rows)
        try:
            while self._waiting:
                row, item = None, self._waiting.popleft()
                if isinstance(item, _ModelChange):
                    if self._rows or later:
                        later.append(item)
                        break
                    self._change(item)
                    continue
                row = item if isinstance(item, EngineRow) else EngineRow([item], list(item.request.ids))
                row.leave_cancelled()
                if not row.requests or merge_into_identical(row, self._rows):
                    continue
                if len(self._rows) >= self._cache.slots or not self._fits(row):
                    later.append(item)
                    break
                shared = self._cache.shared(row.tokens, row.adapter)
                if _is_read_by_another(row, int(shared.max()), readers) or self._can_wait(row, shared, readers):
                    later.append(item)
                else:
                    self._seat(row, shared)
                    readers = [*(readers if len(self._rows) > 1 else ()), *([row] if row.reading else ())]
            if len(self._rows) > busy:
                self._free()
        except Exception:
            if row is not None and all(row is not active for active in self._rows):
                self._rows.append(row)  # it begins again with the others
            raise
        finally:
            self._waiting.extendleft(reversed(later))

    def _fits(self, row: EngineRow) -> bool:
        """Return True if the row fits beside the active ones, however long their replies are. One row always fits."""
        if not self._rows:
            return True
        busy = {active.slot: active.most for active in self._rows}
        return self._cache.fits(busy, row.most, row.tokens, row.adapter)

    def _seat(self, row: EngineRow, shared: np.ndarray) -> None:
        active_rows, columns = self._rows, max(active.most for active in (*self._rows, row))
        self._rows = [*active_rows, row]
        if self._cache.narrows(columns):  # rows in progress are read again, in fewer slots
            self._waiting.extendleft(EngineRow(active.requests, active.ids) for active in reversed(active_rows))
            active_rows, self._rows = [], [row]
            self._cache.narrow(columns)
            shared = np.zeros_like(shared)
        busy = {active.slot for active in active_rows}
        row.slot, row.done = self._cache.take(row.tokens, row.adapter, busy, shared)

    def _free(self) -> None:
        """Free memory of idle rows that active ones may need."""
        self._cache.free({active.slot: active.most for active in self._rows})

    def _can_wait(self, row: EngineRow, shared: np.ndarray, readers: Sequence[EngineRow]) -> bool:
        """Return True if the next step is full without this row, which would end a context that goes on."""
        if sum(len(reader.ids) - reader.done for reader in readers) < self._step_tokens:
            return False
        busy = {active.slot: active.most for active in self._rows}
        return not self._cache.spares(busy, row.most) and not self._cache.continues(shared, busy)

    def _change(self, change: _ModelChange) -> None:
        if not change.future.set_running_or_notify_cancel():
            return
        try:
            self._cache.forget()
            if self._graphs:
                self._graphs.forget()
            self._take_stock()
            change.act(self._model)
            self._model.train(False)
        except Exception as error:
            change.future.set_exception(error)
        else:
            change.future.set_result(None)

    def _take_stock(self) -> None:
        """Switch to the model made by `stock`, if there is one."""
        if self._stock is None:
            return
        model = self._stock()
        model.train(False)
        self._own_attention = use_slots(model)
        self._model, self._adapters, self._stock = model, ServedAdapters(model), None

    def _step(self) -> None:
        rows = self._rows_in_turn()
        parts = plan_parts(rows, self._tokens_to_read(rows))
        with torch.inference_mode():
            ready, places, end = [], [], -1
            for row, part in parts:
                end += len(part.ids)
                if part.start + len(part.ids) == len(row.ids):
                    ready.append(row)
                    places.append(end)
            logits_BV = self._logits([part for _, part in parts], places)
            for row, part in parts:
                row.done += len(part.ids)
            if not ready:
                return
            drawn = draw_tokens(ready, logits_BV, self._cache.slots)
        self._go_on(
            [onward for row, by_token in zip(ready, drawn, strict=True) for onward in split_by_token(row, by_token)]
        )

    def _tokens_to_read(self, rows: list[EngineRow]) -> int:
        """Return the maximum context tokens of the next step. While replaying, contexts are read together."""
        self._unread += 1
        drawing = any(len(row.ids) - row.done == 1 for row in rows)
        if self._graphs and drawing and self._unread < READ_EVERY:
            return 0
        self._unread = 0
        return self._step_tokens

    def _logits(self, parts: list[SlotPart], places: list[int]) -> torch.Tensor:
        """Compute a step. Return the logits [W, V] at these positions of its tokens."""
        if self._graphs and self._graphs.fits(parts):
            replayed = self._graphs.logits(parts, self._turn)
            if replayed is not None:
                return replayed
        step = PackedStep(self._cache, parts, self._model.device)
        return forward(self._model, step, torch.tensor(places, dtype=torch.long, device=self._model.device))

    def _rows_in_turn(self) -> list[EngineRow]:
        """Select the rows of one adapter, taking turns, and switch its weights on."""
        wanted = sorted({row.adapter for row in self._rows})
        self._turn = next((token for token in wanted if token > self._turn), wanted[0])
        self._adapters.switch(self._turn)
        return [row for row in self._rows if row.adapter == self._turn]

    def _go_on(self, branches: list[EngineRow]) -> None:
        """Replace rows by their branches, and answer the finished requests.

        The first unfinished branch in a slot keeps it; the others wait for new slots, at the front of the queue.
        """
        reasons = {
            id(pending): find_end_reason(pending, branch, self._decode)
            for branch in branches
            for pending in branch.requests
        }
        slots = {branch.slot for branch in branches}
        self._rows, without_slot = [row for row in self._rows if row.slot not in slots], []
        for branch in branches:
            onward = [pending for pending in branch.requests if not reasons[id(pending)]]
            if onward and branch.slot in slots:
                slots.remove(branch.slot)
                self._rows.append(branch if len(onward) == len(branch.requests) else replace(branch, requests=onward))
            elif onward:
                without_slot.append(EngineRow(onward, branch.ids))
        self._waiting.extendleft(reversed(without_slot))
        finished = [(pending, branch) for branch in branches for pending in branch.requests if reasons[id(pending)]]
        for pending, branch in finished:
            self._answer(pending, branch, reasons[id(pending)])
        for slot in {branch.slot for pending, branch in finished if reasons[id(pending)] == "broken"}:
            self._cache.wipe(slot)

    def _answer(self, pending: PendingRequest, row: EngineRow, reason: Reason) -> None:
        if reason == "broken":
            fail([pending.future], ModelError(f"{self._name}: {NO_NUMBERS}"))
        elif reason and pending.future.set_running_or_notify_cancel():
            pending.future.set_result(TokenReply(tuple(row.drawn), tuple(pending.logprobs), reason, pending.choices))

    def _begin_again(self, error: ModelError) -> None:
        """Recover from a failed step: drop the cache and restart all requests, each once; a second failure ends them.
        """
        under_way = [pending for row in self._rows for pending in row.requests]
        self._rows = []
        self._cache.forget()
        fail((pending.future for pending in under_way if pending.again), error)
        self._waiting.extendleft(
            PendingRequest(pending.request, pending.future, pending.most, pending.tokens, again=True)
            for pending in reversed(under_way)
            if not pending.again
        )
