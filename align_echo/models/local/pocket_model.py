"""The pocket model without `transformers`, whose import takes longer than an episode: only torch and `tokenizers`.

It computes the same operations as `Qwen3ForCausalLM` of `transformers`, so every reply and every log-probability is
identical; a test compares the two. It attends only over slots. To change a running model (adapters, new weights), the
engine replaces it by the `transformers` model (`stock`). Not here: other rotary embeddings, sliding windows, biases,
training.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn.functional import embedding, linear, silu

from align_echo.models.local.slot_attention import FixedStep, PackedStep, slot_attention

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ARCHITECTURE = "Qwen3ForCausalLM"


@dataclass(frozen=True)
class PocketConfig:
    """Sizes of the model, named as in its `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float

    def get_text_config(self) -> PocketConfig:
        """Return itself: the model takes only text."""
        return self


@dataclass(frozen=True)
class ForwardResult:
    """Output of a forward pass: logits [1, W, V] at W positions."""

    logits: torch.Tensor


class _Norm(nn.Module):
    """Divides the last dimension by its root mean square, in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self._eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        exact = x.to(torch.float32)
        exact = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + self._eps)
        return self.weight * exact.to(x.dtype)


class _Attention(nn.Module):
    def __init__(self, config: PocketConfig, layer: int) -> None:
        super().__init__()
        self.layer_idx = layer
        self._size = size = config.head_dim
        queries, keys = config.num_attention_heads * size, config.num_key_value_heads * size
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        self.q_norm = _Norm(size, config.rms_norm_eps)
        self.k_norm = _Norm(size, config.rms_norm_eps)

    def forward(
        self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], step: PackedStep | FixedStep
    ) -> torch.Tensor:
        by_head = (*x.shape[:-1], -1, self._size)
        query = _rotated(self.q_norm(self.q_proj(x).view(by_head)).transpose(1, 2), *rotation)  # [1, H, N, D]
        key = _rotated(self.k_norm(self.k_proj(x).view(by_head)).transpose(1, 2), *rotation)  # [1, K, N, D]
        value = self.v_proj(x).view(by_head).transpose(1, 2)
        out, _ = slot_attention(self, query, key, value, None, packed_step=step, scaling=self._size**-0.5)
        projected: torch.Tensor = self.o_proj(out.reshape(*x.shape[:-1], -1).contiguous())
        return projected


class _Mlp(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class _Layer(nn.Module):
    def __init__(self, config: PocketConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = _Attention(config, layer)
        self.mlp = _Mlp(config)
        self.input_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], step: PackedStep | FixedStep
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotation, step)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class _Embedding(nn.Module):
    """Like `nn.Embedding`, without its unused random weights and its import of `torch._dynamo`."""

    def __init__(self, vocabulary: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, size))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return embedding(ids, self.weight)


class _Body(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.embed_tokens = _Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = _Norm(config.hidden_size, config.rms_norm_eps)


class PocketModel(nn.Module):
    """The model, with the weight names of its files. The embedding is also the output layer."""

    def __init__(self, config: PocketConfig, folder: Path) -> None:
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self._folder = folder
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float, device="cpu") / config.head_dim
        self._speeds = 1.0 / (config.rope_theta**steps)  # [D / 2]

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.model.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the computation."""
        return self.model.embed_tokens.weight.dtype

    def forward(
        self,
        input_ids: torch.Tensor,  # [1, N]
        position_ids: torch.Tensor,  # [1, N]
        *,
        use_cache: bool,
        logits_to_keep: torch.Tensor,  # [W]
        packed_step: PackedStep | FixedStep,
    ) -> ForwardResult:
        """Compute one step for `slot_attention.forward`. Only the slots hold a cache."""
        x = self.model.embed_tokens(input_ids)
        angles = position_ids[..., None].float() * self._speeds
        angles = torch.cat((angles, angles), dim=-1)
        rotation = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]  # [1, 1, N, D] each
        for layer in self.model.layers:
            x = layer(x, rotation, packed_step)
        x = self.model.norm(x)
        return ForwardResult(linear(x[:, logits_to_keep], self.model.embed_tokens.weight))

    def stock(self) -> PreTrainedModel:
        """Load the same model with `transformers`, from the same files."""
        from transformers import AutoModelForCausalLM

        from align_echo.models.local.weights import read_model, without_bars

        without_bars()
        return read_model(AutoModelForCausalLM, str(self._folder), self.dtype)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return (x * cos) + (torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin)


def read_pocket(folder: Path, dtype: torch.dtype = torch.float32) -> PocketModel:
    """Load the model in a folder, on the CPU.

    Raises `OSError`, `ValueError`, or errors of torch and safetensors for damaged files or another architecture.
    """
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rope = settings.pop("rope_parameters")
    is_plain = rope["rope_type"] == "default" and settings["tie_word_embeddings"] and not settings["attention_bias"]
    if settings["architectures"] != [ARCHITECTURE] or settings["hidden_act"] != "silu" or not is_plain:
        raise ValueError(f"its config.json is not that of the pocket model ({ARCHITECTURE})")
    sizes = {name: settings[name] for name in PocketConfig.__dataclass_fields__ if name != "rope_theta"}
    with torch.device("meta"):
        model = PocketModel(PocketConfig(**sizes, rope_theta=rope["rope_theta"]), folder)
    state = {name: weight.to(dtype) for name, weight in load_file(folder / "model.safetensors").items()}
    model.load_state_dict(state, assign=True)
    return model


class PocketTokenizer:
    """The parts of a `transformers` tokenizer needed by `ChatEncoder`, from the same files."""

    def __init__(self, folder: Path) -> None:
        """Load the files. Raises as `read_pocket`."""
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.name_or_path = str(folder)
        self.chat_template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
        try:
            self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # `tokenizers` raises nothing narrower
            raise ValueError(str(error)) from error
        self.eos_token_id = self.backend_tokenizer.token_to_id(settings["eos_token"])

    def get_vocab(self) -> dict[str, int]:
        """Return the id of each token."""
        return self.backend_tokenizer.get_vocab()

    def apply_chat_template(
        self, chat: list[dict[str, str]], *, chat_template: str, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        """Render a chat as text; `tokenize` is False."""
        jinja = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        settings: dict[str, Any] = {"messages": chat, "add_generation_prompt": add_generation_prompt}
        return jinja.from_string(chat_template).render(**settings)
