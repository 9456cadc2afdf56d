"""What a vLLM 0.32 server answers, recorded from one, with a real tiny model behind it and faults on demand.

It draws as vLLM does for the requests that the client makes: one token after the other from the whole model.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3ForCausalLM

from align_echo.wrappers.serving import QuietServer
from tests.models.local.tiny import tiny_model

CONTEXT = 64
LOWEST = -9999.0


@dataclass(frozen=True)
class Refusal:
    """An HTTP error; status 0 drops the connection."""

    status: int
    message: str = "scripted fault"


@dataclass
class StandIn:
    """`faults` are used up by the next completions: a refusal, a whole body, or changes to the one choice of an answer.

    `hold` names a model whose completions wait for `let_go`; `waiting` is released by each that does.
    """

    model: Qwen3ForCausalLM = field(default_factory=lambda: tiny_model(context=CONTEXT))
    context: int = CONTEXT
    mode: str = "processed_logprobs"
    loads_adapters: bool = True
    development: bool = True
    reload_keeps_head: bool = False
    reload_fails: bool = False
    keeps_prefixes: bool = False
    knows_token_ids: bool = True
    listed: dict[str, Any] = field(default_factory=dict)
    faults: list[Refusal | str | dict[str, Any]] = field(default_factory=list)
    hold: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        self.adapters: dict[str, torch.nn.Module] = {}
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.waiting = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.lock = threading.Lock()

    # ------------------------------------------------------------ routes

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON or text of an answer. Raises `Refused`."""
        self.paths.append(path)
        routes: dict[str, Callable[[dict[str, Any]], Any]] = {
            "/v1/models": self.models,
            "/v1/completions": self.completions,
        }
        if self.loads_adapters:
            routes |= {"/v1/load_lora_adapter": self.load, "/v1/unload_lora_adapter": self.unload}
        if self.development:
            routes |= {
                "/pause?mode=wait": lambda body: {"status": "paused"},
                "/resume": lambda body: {"status": "resumed"},
                "/reset_prefix_cache": lambda body: {"success": not self.keeps_prefixes},
                "/collective_rpc": self.reload,
            }
        if path not in routes:
            raise Refused(404, "Not Found")
        return routes[path](body)

    def models(self, body: dict[str, Any]) -> Any:
        base = {"id": "tiny", "object": "model", "root": "/models/tiny", "parent": None, "max_model_len": self.context}
        loras = [{"id": name, "root": "/x", "parent": "tiny", "max_model_len": None} for name in self.adapters]
        return {"object": "list", "data": [{**base, **self.listed}, *loras]}

    def load(self, body: dict[str, Any]) -> str:
        from peft import PeftModel

        name = body["lora_name"]
        if name in self.adapters:
            raise Refused(400, f"The lora adapter '{name}' has already been loaded.")
        self.adapters[name] = PeftModel.from_pretrained(tiny_model(context=self.context), body["lora_path"])
        return f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, body: dict[str, Any]) -> str:
        if self.adapters.pop(body["lora_name"], None) is None:
            raise Refused(404, f"The lora adapter '{body['lora_name']}' cannot be found.")
        return "Success"

    def reload(self, body: dict[str, Any]) -> Any:
        assert body["method"] == "reload_weights"
        if self.reload_fails:
            raise Refused(500, "Call to collective_rpc method failed")
        head = self.model.lm_head.weight.detach().clone()
        self.model = Qwen3ForCausalLM.from_pretrained(body["kwargs"]["weights_path"])
        if self.reload_keeps_head:
            self.model.lm_head.weight = torch.nn.Parameter(head)
        return {"results": [None]}

    def completions(self, body: dict[str, Any]) -> Any:
        with self.lock:
            self.requests.append(body)
            fault = self.faults.pop(0) if self.faults else {}
        if isinstance(fault, Refusal):
            raise Refused(fault.status, fault.message)
        if isinstance(fault, str):
            return fault
        model = self.model if body["model"] == "tiny" else self.adapters.get(body["model"])
        if model is None:
            raise Refused(404, f"The model `{body['model']}` does not exist.")
        if body["model"] == self.hold:
            self.waiting.release()
            assert self.let_go.wait(60)
        if len(body["prompt"]) >= self.context:
            limit = f"This model's maximum context length is {self.context} tokens."
            raise Refused(400, f"{limit} However, your prompt ...")
        if not self.knows_token_ids:
            body.pop("logprob_token_ids", None)
        choice = Draw(model, body, self.mode).choice()
        return {"id": "cmpl-1", "object": "text_completion", "model": body["model"], "choices": [{**choice, **fault}]}


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


# ---------------------------------------------------------------- drawing


@dataclass
class Draw:
    """One completion: `choice` is its entry in the answer."""

    model: torch.nn.Module
    body: dict[str, Any]
    mode: str

    def choice(self) -> dict[str, Any]:
        prompt = list(self.body["prompt"])
        generator = torch.Generator().manual_seed(self.body["seed"])
        ids: list[int] = []
        values: list[torch.Tensor] = []
        reason = "length"
        while len(ids) < self.body["max_tokens"]:
            logits_V = logits_of(self.model, prompt + ids)[-1]
            drawn, values_V = self.token(logits_V, generator)
            ids.append(drawn)
            values.append(values_V)
            if drawn in self.body["stop_token_ids"]:
                reason = "stop"
                break
        tops = [self.top(values_V, token) for values_V, token in zip(values, ids, strict=True)]
        return {
            "index": 0,
            "text": "not to be read",
            "finish_reason": reason,
            "stop_reason": None,
            "logprobs": {
                "token_logprobs": [float(values_V[token]) for values_V, token in zip(values, ids, strict=True)],
                "tokens": [f"token_id:{token}" for token in ids],
                "top_logprobs": tops,
            },
            "prompt_logprobs": None,
            "prompt_token_ids": prompt,
            "token_ids": ids,
        }

    def token(self, logits_V: torch.Tensor, generator: torch.Generator) -> tuple[int, torch.Tensor]:
        """The token drawn, and the value of each token that the server's mode reports."""
        processed_V = logits_V.clone()
        if self.body.get("allowed_token_ids"):
            allowed = torch.zeros(len(logits_V), dtype=torch.bool)
            allowed[self.body["allowed_token_ids"]] = True
            processed_V[~allowed] = float("-inf")
        temperature = self.body["temperature"]
        processed_V = processed_V / (temperature or 1.0)
        probabilities_V = processed_V.softmax(-1)
        drawn = torch.multinomial(probabilities_V, 1, generator=generator) if temperature else probabilities_V.argmax()
        values_V = {
            "processed_logprobs": processed_V.log_softmax(-1),
            "raw_logprobs": logits_V.log_softmax(-1),
            "processed_logits": processed_V,
            "raw_logits": logits_V,
        }[self.mode]
        return int(drawn), values_V.clamp(min=LOWEST)

    def top(self, values_V: torch.Tensor, drawn: int) -> dict[str, float]:
        listed = self.body.get("logprob_token_ids") or values_V.topk(self.body["logprobs"]).indices.tolist()
        return {f"token_id:{token}": float(values_V[token]) for token in (drawn, *listed)}


def logits_of(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    """[T, V]"""
    with torch.no_grad():
        logits_TV: torch.Tensor = model(torch.tensor([ids])).logits[0].float()
    return logits_TV


# ---------------------------------------------------------------- HTTP


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandIn

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: dict[str, Any]) -> None:
        try:
            answer = self.stand_in.answer(self.path, body)
            self._send(200, answer if isinstance(answer, str) else json.dumps(answer))
        except Refused as refused:
            if not refused.status:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self._send(refused.status, json.dumps({"error": {"message": str(refused), "code": refused.status}}))

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(stand_in: StandIn) -> Iterator[StandIn]:
    """Run it on a free local port; `url` is its base URL."""
    server = QuietServer(type("Handler", (_Handler,), {"stand_in": stand_in}), 0)
    server.daemon_threads = True
    stand_in.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        stand_in.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()


def save_adapter(folder: Path, seed: int) -> Path:
    """A LoRA adapter of the tiny model with random weights, as PEFT saves it."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_model(context=CONTEXT), LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    model.save_pretrained(str(folder))
    return folder
