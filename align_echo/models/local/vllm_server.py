"""A vLLM server as an engine: token ids in and out over HTTP, adapters and weights published while it runs.

Sends context ids to `/v1/completions`, never text, with every sampling parameter explicit, so that no default of the
server or the model applies. Not here: starting the server (docs/vllm.md), multiple servers (`engine_process.py`), and
moving weights over a GPU network (NCCL); weights are published through a folder readable by both sides.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, TypeVar

import openai
from pydantic import BaseModel, ValidationError

from align_echo.base.halting import pause
from align_echo.errors import ModelError, TokenDriftError, UsageError
from align_echo.models.answers import judged_error
from align_echo.models.client import EndpointClient, PassingFault, RetryPolicy, ask
from align_echo.models.endpoint import DEFAULT_BASE_URL, Endpoint, read_endpoint, resolve_timeout
from align_echo.models.local.engine import Forward, SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.vllm_checks import (
    PROBES,
    LogprobsMode,
    check_request,
    checked_reply,
    extract_choices,
    mode_seen,
    room,
)
from align_echo.models.local.vllm_engine import (
    VERIFICATION,
    AdapterVersion,
    PublishedAdapters,
    adapter_folder,
    check_weights,
    model_folder,
)

_TOKEN = "token_id:"
_NAMED_BY_ID = re.compile(rf"{_TOKEN}[0-9]+")

DEVELOPMENT_MODE = "start it with VLLM_SERVER_DEV_MODE=1"

Answer = TypeVar("Answer")
Body = TypeVar("Body", bound=BaseModel)


class _Model(BaseModel):
    id: str
    root: str | None = None
    parent: str | None = None
    max_model_len: int | None = None


class _Models(BaseModel):
    data: list[_Model]


class _ServedLogprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]

    @property
    def first(self) -> dict[int, float]:
        """Values at the first position, by token id."""
        listed = self.top_logprobs[0] if self.top_logprobs else {}
        return {
            int(token.removeprefix(_TOKEN)): value for token, value in listed.items() if _NAMED_BY_ID.fullmatch(token)
        }


class _ServedChoice(BaseModel):
    finish_reason: str | None
    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: _ServedLogprobs


class _Completion(BaseModel):
    choices: list[_ServedChoice]


class VllmServer:
    """The model `model` on the vLLM server at `base_url` (default: `$OPENAI_BASE_URL`; ends with /v1).

    `model` "" is the server's only model. At most `max_concurrency` requests run at once. `wait` replaces the pauses
    between attempts in tests. Raises `UsageError` if the server does not know the model, cannot support token-exact
    rollouts or is not running, and `ModelError` if it gives no answer (after three attempts, whatever `retry` says).
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Endpoint | None = None,
        api_key: str | None = None,
        max_concurrency: int = 256,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        wait: Callable[[float], None] = pause,
    ) -> None:
        endpoint = read_endpoint(base_url)
        self._base_url = endpoint.url
        if self._base_url == DEFAULT_BASE_URL:
            raise UsageError(f"vllm-server:{model} needs the server's base URL, such as http://localhost:8000/v1")
        self._where = f"{model or 'the model'} at {self._base_url}"
        self._retry = retry or RetryPolicy()
        self._wait = wait
        authorization, self._keys = endpoint.authorization(api_key), endpoint.key_variables
        self._client = EndpointClient(self._base_url, authorization=authorization, timeout=resolve_timeout(timeout))
        served = self._models(RetryPolicy(attempts=3))
        base_models = [listed for listed in served if listed.max_model_len]
        card = next((listed for listed in base_models if listed.id == (model or base_models[0].id)), None)
        if card is None or card.max_model_len is None or (not model and len(base_models) > 1):
            names = ", ".join(listed.id for listed in base_models) or "none"
            wanted = model or "one model alone"
            raise UsageError(f"the server at {self._base_url} is no vLLM server of {wanted}; its models: {names}")
        self._model = card.id
        self._context = card.max_model_len
        self._root = card.root or card.id
        adapters = [listed.id for listed in served if listed.parent == card.id]
        self._adapters = PublishedAdapters(self._load, self._unload, adapters)
        self._broken = ""
        self._mode = self._probe()
        self._closed = False
        self._changed = False
        self._publishing = threading.Lock()
        self._verified = threading.Event()
        self._verified.set()
        self._threads = ThreadPoolExecutor(max_concurrency, thread_name_prefix="vllm-server")

    @property
    def name(self) -> str:
        """Name as in `--model`."""
        return f"vllm-server:{self._model}"

    @property
    def context(self) -> int:
        """Maximum tokens of a context and its reply together."""
        return self._context

    @property
    def root(self) -> str:
        """Folder or hub name from which the server loaded the model and its tokenizer."""
        return self._root

    @property
    def logprobs_mode(self) -> LogprobsMode:
        """Distribution of the server's log-probabilities, inferred from its answers."""
        return self._mode

    @property
    def changed(self) -> bool:
        """True if other weights were published since connecting."""
        return self._changed

    @property
    def closed(self) -> bool:
        """True if the engine takes no more requests."""
        return self._closed

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        """Start a request. Raises `UsageError` if the server cannot answer it; the future raises as in `ModelEngine`.
        """
        check_request(request, self._mode)
        self._adapters.require(request.adapter)
        try:
            # In the caller's context: a cancelled batch does not wait for retries.
            return self._threads.submit(copy_context().run, self._answer, request)
        except RuntimeError:
            raise ModelError(f"{self.name} is closed") from None

    def close(self) -> None:
        """Wait for running requests, cancel waiting ones, and unload the adapters published here.

        The server keeps running.
        """
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._adapters.unload_all()
        self._client.close()

    # ------------------------------------------------------------ replies

    def _answer(self, request: TokenRequest) -> TokenReply:
        with self._adapters.using(request.adapter) as version:
            reply = self._reply(request, version.served if version else self._model)
        self._verified.wait()
        if self._broken:
            raise ModelError(self._broken)
        return reply

    def _reply(self, request: TokenRequest, served: str) -> TokenReply:
        longest = room(request, self._context)
        fields = {**_fields(request.ids, request.sampling, longest), "model": served}
        return self._asked(lambda: self._ask_once(request, longest, fields), self._retry)

    def _ask_once(self, request: TokenRequest, longest: int, fields: Mapping[str, Any]) -> TokenReply:
        choice = self._choice(self._post(f"{self._base_url}/completions", fields), fields["prompt"])
        try:
            logprobs, first_choices = choice.logprobs.token_logprobs, extract_choices(request, choice.logprobs.first)
            return checked_reply(request, longest, choice.token_ids, logprobs, choice.finish_reason, first_choices)
        except ModelError as error:
            raise PassingFault(str(error)) from error

    def _choice(self, text: str, prompt: Sequence[int]) -> _ServedChoice:
        """Parse the choice in a body. Raises `PassingFault`, and `TokenDriftError` if other ids were continued."""
        choices = _read(text, _Completion).choices
        if len(choices) != 1:
            raise PassingFault(f"the reply's body has {len(choices)} choices, not one")
        choice = choices[0]
        if choice.prompt_token_ids != prompt:
            raise TokenDriftError(f"{self._where} continued other token ids than it was given")
        if choice.logprobs.tokens != [f"{_TOKEN}{token}" for token in choice.token_ids]:
            raise PassingFault("the reply's log-probabilities are not those of its token ids")
        return choice

    # ------------------------------------------------------------ adapters and weights

    def load_adapter(self, name: str, folder: str) -> None:
        """Load the LoRA adapter in the folder, read by the server itself, for requests with `TokenRequest.adapter` =
        `name`.

        Running requests keep their version. Raises `UsageError` if the server does not allow it, `MissingDataError` if
        the folder has no adapter, `ModelError` if the server cannot load it.
        """
        self._adapters.publish(name, adapter_folder(folder), [model.id for model in self._models(self._retry)])

    def _load(self, version: AdapterVersion) -> None:
        self._control(
            f"{self._base_url}/load_lora_adapter",
            {"lora_name": version.served, "lora_path": version.folder},
            "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
        )

    def _unload(self, version: AdapterVersion) -> None:
        """Unload a version, ignoring errors: a version left loaded costs memory, and no request names it."""
        try:
            self._post(f"{self._base_url}/unload_lora_adapter", {"lora_name": version.served})
        except (PassingFault, ModelError, UsageError):
            return

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """Replace the model's weights by those in the folder (safetensors), read by the server itself.

        Waits for running requests of every client; later requests wait meanwhile. Adapters stay. vLLM can silently
        keep parts of the old weights, so the server's log-probabilities of a short reply are then compared with the
        publisher's; replies generated meanwhile are returned after that. Raises `MissingDataError` if the folder has
        no weights, `UsageError` if the server does not allow it, `ModelError` on failure: requests then fail too,
        until a publication succeeds.
        """
        path = model_folder(folder)
        with self._publishing:
            self._verified.clear()
            self._changed = True
            try:
                self._reload(path)
                check_weights(forward, self._reply(VERIFICATION, self._model))
                self._broken = ""
            except ModelError as error:
                self._broken = f"{self._where} has unusable weights since {folder} was published: {error}"
                raise ModelError(self._broken) from error
            finally:
                self._verified.set()

    def _reload(self, folder: str) -> None:
        body = {"method": "reload_weights", "kwargs": {"weights_path": folder}}
        with self._paused():
            self._control(f"{self._server}/collective_rpc", body, DEVELOPMENT_MODE)
            self._forget_contexts()

    def _forget_contexts(self) -> None:
        """Drop contexts computed with other weights. Raises `ModelError` if the server kept some of them."""
        answer = self._control(f"{self._server}/reset_prefix_cache", {}, DEVELOPMENT_MODE)
        if '"success":true' not in answer.replace(" ", ""):
            raise ModelError(f"{self._where} did not drop its prefix cache: {answer[:80]}")

    @contextmanager
    def _paused(self) -> Iterator[None]:
        self._control(f"{self._server}/pause?mode=wait", {}, DEVELOPMENT_MODE)
        try:
            yield
        except Exception:
            with suppress(ModelError, UsageError):
                self._control(f"{self._server}/resume", {}, DEVELOPMENT_MODE)
            raise
        self._control(f"{self._server}/resume", {}, DEVELOPMENT_MODE)

    @property
    def _server(self) -> str:
        """Base URL of the routes beyond OpenAI's."""
        return self._base_url.removesuffix("/v1")

    # ------------------------------------------------------------ HTTP

    def _models(self, retry: RetryPolicy) -> list[_Model]:
        def attempt() -> list[_Model]:
            try:
                return _read(self._client.get(f"{self._base_url}/models"), _Models).data
            except openai.APIStatusError as error:
                raise judged_error(error, self._where, self._keys) from None

        return self._asked(attempt, retry)

    def _asked(self, attempt: Callable[[], Answer], retry: RetryPolicy) -> Answer:
        return ask(attempt, retry, self._wait, self._where, notices=self._client.notices)

    def _post(self, url: str, body: Mapping[str, Any]) -> str:
        try:
            return self._client.post(url, body)
        except openai.APIStatusError as error:
            raise judged_error(error, self._where, self._keys) from None

    def _control(self, url: str, body: Mapping[str, Any], remedy: str) -> str:
        """Change the server's state, without retries: the effect of an unanswered request is unknown."""
        try:
            return self._post(url, body)
        except UsageError as error:
            raise UsageError(f"{error}: {remedy}") from error
        except (ModelError, PassingFault) as error:
            raise ModelError(f"{url} failed: {error}") from error

    def _probe(self) -> LogprobsMode:
        """Infer the kind of the server's log-probabilities from three answers of one token each."""
        seen = [self._probe_once(only, temperature) for only, temperature in PROBES]
        mode = mode_seen(*seen)
        if mode is None:
            raise UsageError(
                f"{self._where} gives no log-probabilities: start it with --logprobs-mode processed_logprobs"
            )
        return mode

    def _probe_once(self, only: int, temperature: float) -> list[float]:
        """Return the value of the only allowed token, then those of the most likely tokens."""
        fields = {**_fields((1,), SamplingConfig(temperature=temperature), 1), "model": self._model}
        fields |= {"allowed_token_ids": [only], "logprobs": 5}
        text = self._asked(lambda: self._post(f"{self._base_url}/completions", fields), self._retry)
        try:
            logprobs = self._choice(text, fields["prompt"]).logprobs
        except PassingFault as fault:
            raise UsageError(f"{self._where} does not answer as vLLM 0.11 and later do: {fault}") from fault
        return [*logprobs.token_logprobs, *(value for listed in logprobs.top_logprobs for value in listed.values())]


def _fields(ids: Sequence[int], sampling: SamplingConfig, longest: int) -> dict[str, Any]:
    """Build the body of a request, except the model's name. All settings are explicit, since servers have defaults."""
    return {
        "prompt": list(ids),
        "max_tokens": longest,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "stop": list(sampling.stop),
        "stop_token_ids": list(sampling.stop_ids),
        "logprobs": 0,
        **({"logprob_token_ids": list(sampling.choices)} if sampling.choices else {}),
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "skip_special_tokens": False,
        "add_special_tokens": False,
        "ignore_eos": True,
        "min_tokens": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }


def _read(text: str, shape: type[Body]) -> Body:
    try:
        return shape.model_validate_json(text, strict=True)
    except ValidationError as error:
        missing = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise PassingFault(f"the reply's body lacks {missing or 'everything'}: {text[:80]!r}") from error
