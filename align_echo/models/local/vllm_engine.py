"""vLLM in this process as an engine: token ids in and out, adapters and weights published while it runs.

vLLM's own process does the work; one thread here runs its event loop. Nothing of vLLM is imported before an engine is
made. Not here: GPUs on different machines, and options of vLLM that do not affect the results.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from align_echo.errors import MissingDataError, MissingExtraError, ModelError, TokenDriftError, UsageError, first_line
from align_echo.models.local.engine import Forward, SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.vllm_checks import LogprobsMode, check_request, checked_reply, extract_choices, room

# ---------------------------------------------------------------- LoRA adapters of a running vLLM


@dataclass(frozen=True)
class AdapterVersion:
    """One published version. `served` is its name in vLLM; `folder` holds it as saved by PEFT."""

    name: str
    number: int
    folder: str

    @property
    def served(self) -> str:
        return f"{self.name}-{self.number}" if self.number else self.name


class PublishedAdapters:
    """The current version of each adapter. Thread-safe.

    `load` and `unload` notify vLLM; `unload` neither fails nor waits. `known` are adapters already in vLLM, under
    their own names and never unloaded.
    """

    def __init__(
        self,
        load: Callable[[AdapterVersion], None],
        unload: Callable[[AdapterVersion], None],
        known: Collection[str] = (),
    ) -> None:
        self._load = load
        self._unload = unload
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._current = {name: AdapterVersion(name, 0, "") for name in known}
        self._in_use: Counter[AdapterVersion] = Counter()
        self._replaced: set[AdapterVersion] = set()
        self._number = 0

    def publish(self, name: str, folder: str, in_use: Collection[str] = ()) -> AdapterVersion:
        """Load the folder's adapter as the next version, for all requests from now on.

        `in_use` are names in vLLM. `folder` is a full path; it must not change while the version is loaded. Raises
        `UsageError` if another loaded version was published from it.
        """
        with self._publishing:
            version = self._next(name, folder, in_use)
            self._load(version)
            with self._lock:
                previous = self._current.get(name)
                self._current[name] = version
                if previous is not None and previous.number:
                    self._replaced.add(previous)
            self._unload_unused()
        return version

    def _next(self, name: str, folder: str, in_use: Collection[str]) -> AdapterVersion:
        if not name:
            raise UsageError("an adapter needs a name")
        with self._lock:
            if any(version_served.folder == folder for version_served in (*self._current.values(), *self._replaced)):
                raise UsageError(f"{folder} was published already: save every version to a folder of its own")
            self._number += 1
            while f"{name}-{self._number}" in in_use:
                self._number += 1
            return AdapterVersion(name, self._number, folder)

    def require(self, name: str) -> None:
        """Raise `UsageError` unless this adapter is loaded; "" (the model itself) always passes."""
        with self._lock:
            if name and name not in self._current:
                loaded = ", ".join(sorted(self._current)) or "none"
                raise UsageError(f"no adapter {name} is loaded (there is: {loaded}): load it first")

    @contextmanager
    def using(self, name: str) -> Iterator[AdapterVersion | None]:
        """Hold the version used by a request until it is answered; None for the model itself ("")."""
        if not name:
            yield None
            return
        self.require(name)
        with self._lock:
            version = self._current[name]
            self._in_use[version] += 1
        try:
            yield version
        finally:
            with self._lock:
                self._in_use[version] -= 1
            self._unload_unused()

    def _unload_unused(self) -> None:
        with self._lock:
            unused = {version for version in self._replaced if not self._in_use[version]}
            self._replaced -= unused
        for version in sorted(unused, key=lambda adapter: adapter.number):
            self._unload(version)

    def unload_all(self) -> None:
        """Unload every version published here."""
        with self._lock:
            published = {version for version in self._current.values() if version.number} | self._replaced
            self._current = {name: version for name, version in self._current.items() if not version.number}
            self._replaced = set()
        for version in sorted(published, key=lambda adapter: adapter.number):
            self._unload(version)


# ---------------------------------------------------------------- new weights for a running engine

SAME_WEIGHTS = 0.05
"""Log-probabilities of the same token under the same weights differ by less on any backend (bfloat16 rounding)."""

VERIFICATION = TokenRequest(tuple(range(1, 17)), SamplingConfig(temperature=0, max_tokens=16))
"""Request sent to an engine after new weights were published."""


def check_weights(forward: Forward, reply: TokenReply) -> None:
    """Raise `ModelError` unless the publisher computes the same log-probabilities for the reply to `VERIFICATION`."""
    ids = VERIFICATION.ids + reply.ids
    wanted = forward(ids)[len(VERIFICATION.ids) - 1 :]
    gap = max(abs(ours - theirs) for ours, theirs in zip(wanted, reply.logprobs, strict=True))
    if not gap < SAME_WEIGHTS:
        raise ModelError(f"it does not compute with the published weights: log-probabilities differ by {gap:.3g}")


def model_folder(folder: str) -> str:
    """Return the folder's full path. Raises `MissingDataError` without weights, since vLLM would crash instead."""
    path = Path(folder)
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise MissingDataError(f"{folder} holds no model: config.json and *.safetensors are needed")
    return str(path.resolve())


def adapter_folder(folder: str) -> str:
    """Return the folder's full path. Raises `MissingDataError` without an adapter; a pickled one does not count."""
    path = Path(folder)
    if not all((path / name).is_file() for name in ("adapter_config.json", "adapter_model.safetensors")):
        raise MissingDataError(f"{folder} holds no adapter: save it there first (save_pretrained of a PEFT model)")
    return str(path.resolve())


# ---------------------------------------------------------------- vLLM in this process as an engine

Result = TypeVar("Result")


class VllmEngine:
    """The model in a folder or of a hub name. Prefix caching is on: contexts are not recomputed.

    `context` limits context and reply together (0: the model's limit). `dtype` is vLLM's name of a dtype. `memory` is
    the share of GPU memory to use. `adapters` is the number of LoRA adapters usable at once (0: none), each of rank up
    to `rank`. `compiled` False starts at once and runs slower. Raises `MissingExtraError` without vLLM, `UsageError`
    if it cannot run the model.
    """

    def __init__(
        self,
        source: str,
        *,
        name: str = "",
        context: int = 0,
        dtype: str = "auto",
        memory: float = 0.9,
        adapters: int = 0,
        rank: int = 16,
        logprobs_mode: LogprobsMode = "processed_logprobs",
        compiled: bool = True,
    ) -> None:
        self._name = name or f"vllm:{source}"
        self._mode = logprobs_mode
        self._most_adapters = adapters
        settings = {
            "model": source,
            "dtype": dtype,
            "max_model_len": context or None,
            "gpu_memory_utilization": memory,
            "enable_prefix_caching": True,
            "enable_lora": adapters > 0,
            "max_loras": max(adapters, 1),
            "max_lora_rank": rank,
            "logprobs_mode": logprobs_mode,
            "enforce_eager": not compiled,
            "generation_config": "vllm",
            "disable_log_stats": True,
        }
        self._vllm = import_vllm()
        if self._vllm.platforms.current_platform.is_cpu():
            # vLLM's CPU build ends when a seeded request's context is read in parts.
            settings["enable_chunked_prefill"] = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._numbers = itertools.count(1)
        self._broken = ""
        self._closed = False
        self._changed = False
        self._lock = threading.Lock()
        self._publishing = asyncio.Lock()
        self._verified = asyncio.Event()
        self._verified.set()
        self._adapters = PublishedAdapters(self._load, self._unload)
        self._thread.start()
        try:
            self._engine, self._context = self._wait(self._start(settings))
        except (ValueError, RuntimeError, OSError) as error:
            self._stop_loop()
            raise UsageError(f"vLLM cannot run {source}: {first_line(error)}") from error

    @property
    def name(self) -> str:
        """Name as in `--model`."""
        return self._name

    @property
    def closed(self) -> bool:
        """True if the engine takes no more requests."""
        return self._closed

    @property
    def changed(self) -> bool:
        """True if other weights were published since the start."""
        return self._changed

    @property
    def context(self) -> int:
        """Maximum tokens of a context and its reply together."""
        return self._context

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        """Start a request. Raises `UsageError` if vLLM cannot answer it; the future raises as in `ModelEngine`."""
        check_request(request, self._mode)
        self._adapters.require(request.adapter)
        with self._lock:  # `_cancel` sees every task started here
            if self._closed:
                raise ModelError(f"{self._name} is closed")
            return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop)

    def close(self) -> None:
        """Stop vLLM; running requests raise `ModelError`. May be called again."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._wait(self._cancel())
            self._engine.shutdown()
            self._stop_loop()

    # ------------------------------------------------------------ replies

    async def _answer(self, request: TokenRequest) -> TokenReply:
        with self._adapters.using(request.adapter) as version:
            reply = await self._reply(request, version)
        await self._verified.wait()
        if self._broken:
            raise ModelError(self._broken)
        return reply

    async def _reply(self, request: TokenRequest, version: AdapterVersion | None) -> TokenReply:
        longest = room(request, self._context)
        parameters = self._parameters(request.sampling, longest)
        output = await self._continue(request.ids, parameters, self._lora(version) if version else None)
        last = output.outputs[0]
        ids = tuple(last.token_ids)
        logprobs = [seen[token].logprob for token, seen in zip(ids, last.logprobs or (), strict=False) if token in seen]
        first = {token: seen.logprob for token, seen in last.logprobs[0].items()} if last.logprobs else {}
        return checked_reply(request, longest, ids, logprobs, last.finish_reason, extract_choices(request, first))

    async def _continue(self, ids: tuple[int, ...], parameters: Any, lora: Any) -> Any:
        """Return vLLM's last output for these ids. Raises `ModelError` for any failure of vLLM."""
        prompt = self._vllm.TokensPrompt(prompt_token_ids=list(ids))
        number = str(next(self._numbers))
        try:
            outputs = [output async for output in self._engine.generate(prompt, parameters, number, lora_request=lora)]
        except asyncio.CancelledError:
            if not self._closed:
                raise  # the caller is gone
            raise ModelError(f"{self._name} was closed") from None
        except Exception as error:
            raise ModelError(f"{self._name} failed: {first_line(error)}") from error
        if not outputs or tuple(outputs[-1].prompt_token_ids or ()) != ids:
            raise TokenDriftError(f"{self._name} continued other token ids than it was given")
        return outputs[-1]

    def _parameters(self, sampling: SamplingConfig, longest: int) -> Any:
        return self._vllm.SamplingParams(
            max_tokens=longest,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=sampling.seed,
            stop=list(sampling.stop),
            stop_token_ids=list(sampling.stop_ids),
            logprobs=None if sampling.choices else 0,
            logprob_token_ids=list(sampling.choices) or None,
            ignore_eos=True,
            skip_special_tokens=False,
            detokenize=bool(sampling.stop),
            output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        )

    # ------------------------------------------------------------ adapters and weights

    def load_adapter(self, name: str, folder: str) -> None:
        """Load the LoRA adapter in the folder for requests with `TokenRequest.adapter` = `name`.

        Running requests keep their version. Raises `UsageError` if the engine was made without adapters,
        `MissingDataError` if the folder has no adapter, `ModelError` if vLLM cannot load it.
        """
        if not self._most_adapters:
            raise UsageError(f"{self._name} was started for no adapters: give their number at construction")
        self._adapters.publish(name, adapter_folder(folder))

    def _load(self, version: AdapterVersion) -> None:
        try:
            self._wait(self._engine.add_lora(self._lora(version)))
        except Exception as error:
            raise ModelError(f"{self._name} cannot load the adapter {version.folder}: {first_line(error)}") from error

    def _unload(self, version: AdapterVersion) -> None:
        asyncio.run_coroutine_threadsafe(self._engine.remove_lora(version.number), self._loop)

    def _lora(self, version: AdapterVersion) -> Any:
        return self._vllm.lora.request.LoRARequest(version.served, version.number, version.folder)

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """Replace the model's weights by those in the folder (safetensors). Adapters stay.

        Waits for running requests; later requests wait meanwhile. vLLM can silently keep parts of the old weights, so
        its log-probabilities of a short reply are then compared with the publisher's; replies generated meanwhile are
        returned after that. Raises `MissingDataError` if the folder has no weights, `ModelError` on failure: requests
        then fail too, until a publication succeeds.
        """
        self._wait(self._publish(model_folder(folder), forward))

    async def _publish(self, folder: str, forward: Forward) -> None:
        async with self._publishing:
            self._verified.clear()
            self._changed = True
            try:
                await self._reload(folder)
                check_weights(forward, await self._reply(VERIFICATION, None))
                self._broken = ""
            except Exception as error:
                self._broken = f"{self._name} has unusable weights since {folder} was published: {first_line(error)}"
                raise ModelError(self._broken) from error
            finally:
                self._verified.set()

    async def _reload(self, folder: str) -> None:
        await self._engine.pause_generation(mode="wait")
        try:
            await self._engine.collective_rpc("reload_weights", kwargs={"weights_path": folder})
            if not await self._engine.reset_prefix_cache():
                raise ModelError("the prefix cache of the old weights was not dropped")
        finally:
            await self._engine.resume_generation()

    # ------------------------------------------------------------ the event loop

    async def _start(self, settings: dict[str, Any]) -> tuple[Any, int]:
        arguments = self._vllm.AsyncEngineArgs(**settings)
        engine = self._vllm.v1.engine.async_llm.AsyncLLM.from_engine_args(arguments)
        return engine, int(engine.model_config.max_model_len)

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _cancel(self) -> None:
        """Cancel running requests, so that nobody waits for them."""
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def import_vllm() -> Any:
    """Import vLLM with the modules used here. Raises `MissingExtraError` if it is not installed."""
    try:
        package = import_module("vllm")
        for module in ("lora.request", "platforms", "sampling_params", "v1.engine.async_llm"):
            import_module(f"vllm.{module}")
    except ImportError as error:
        raise MissingExtraError("vLLM in this process", "vllm") from error
    return package
