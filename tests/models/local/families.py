"""Chat templates in the forms of public families, and tokenizers in the forms of theirs.

The templates are written for these tests: they do with turns, blanks, system messages, thoughts and headers what the
families' published templates do, without their longer wordings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.models.local.tiny import TEXTS, tiny_backend

_ALTERNATE = (
    "{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif -%}"
)
_SYSTEM_APART = (
    "{%- if messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] -%}"
    "{%- set rest = messages[1:] -%}{%- else -%}{%- set rest = messages -%}{%- endif -%}"
)
_CHATML = (
    "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' }}{%- endif -%}"
)
_GEMMA_TURN = (
    "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' + first + m['content'] | trim"
    " + '<end_of_turn>\n' }}"
)
_GEMMA_END = "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
_HEADER = "'<|start_header_id|>' + {role} + '<|end_header_id|>\n\n'"

TEMPLATES = {
    "zephyr": (
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
    ),
    "llama-2": (
        f"{_SYSTEM_APART}{{%- for m in rest -%}}{_ALTERNATE}"
        "{%- if loop.index0 == 0 and system is defined -%}"
        "{%- set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + m['content'] -%}"
        "{%- else -%}{%- set content = m['content'] -%}{%- endif -%}"
        "{%- if m['role'] == 'user' -%}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
        "{%- else -%}{{ ' ' + content.strip() + ' ' + eos_token }}{%- endif -%}{%- endfor -%}"
    ),
    "llama-3": (
        f"{{{{ bos_token }}}}{{% for m in messages %}}{{{{ {_HEADER.format(role='m.role')} + m.content | trim"
        " + '<|eot_id|>' }}{% endfor %}"
        f"{{% if add_generation_prompt %}}{{{{ {_HEADER.format(role=repr('assistant'))} }}}}{{% endif %}}"
    ),
    "qwen2.5": (
        "{%- if messages[0]['role'] != 'system' -%}{{- '<|im_start|>system\nBe helpful.<|im_end|>\n' }}{%- endif -%}"
        + _CHATML
    ),
    "qwen3": (
        "{%- set ns = namespace(last=-1) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}"
        "{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"
        "{%- for m in messages -%}{%- set content = m.content -%}{%- set thought = '' -%}"
        "{%- if m.role == 'assistant' and '</think>' in content -%}"
        "{%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') -%}"
        "{%- set content = content.split('</think>')[-1].lstrip('\n') -%}{%- endif -%}"
        "{%- if m.role == 'assistant' and loop.index0 > ns.last -%}"
        "{{- '<|im_start|>assistant\n<think>\n' + thought + '\n</think>\n\n' + content + '<|im_end|>\n' }}"
        "{%- else -%}{{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' }}"
        "{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\n\n</think>\n\n' }}"
        "{%- endif -%}{%- endif -%}"
    ),
    "gemma-2": (
        "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{{ raise_exception('System role not supported') }}"
        f"{{%- endif -%}}{{%- set first = '' -%}}{{%- for m in messages -%}}{_ALTERNATE}{_GEMMA_TURN}{{%- endfor -%}}"
        + _GEMMA_END
    ),
    "gemma-3": (
        f"{{{{ bos_token }}}}{_SYSTEM_APART}{{%- for m in rest -%}}{_ALTERNATE}"
        "{%- set first = system + '\n\n' if loop.first and system is defined else '' -%}"
        + _GEMMA_TURN
        + "{%- endfor -%}"
        + _GEMMA_END
    ),
    "mistral-v0.2": (
        f"{{{{ bos_token }}}}{{%- for m in messages -%}}{_ALTERNATE}"
        "{%- if m['role'] == 'user' -%}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
        "{%- else -%}{{ m['content'] + eos_token }}{%- endif -%}{%- endfor -%}"
    ),
    "mistral-v3": (
        f"{_SYSTEM_APART}{{{{ bos_token }}}}{{%- for m in rest -%}}{_ALTERNATE}{{%- if m['role'] == 'user' -%}}"
        "{%- if loop.last and system is defined -%}{{ '[INST] ' + system + '\n\n' + m['content'] + '[/INST]' }}"
        "{%- else -%}{{ '[INST] ' + m['content'] + '[/INST]' }}{%- endif -%}"
        "{%- else -%}{{ ' ' + m['content'] | trim + eos_token }}{%- endif -%}{%- endfor -%}"
    ),
    "r1-distill": (
        "{{ bos_token }}{%- for m in messages -%}{%- if m['role'] == 'system' -%}{{ m['content'] }}{%- endif -%}"
        "{%- endfor -%}{%- for m in messages -%}"
        "{%- if m['role'] == 'user' -%}{{ '<|User|>' + m['content'] }}{%- elif m['role'] == 'assistant' -%}"
        "{%- set content = m['content'].split('</think>')[-1] -%}{{ '<|Assistant|>' + content + eos_token }}"
        "{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|Assistant|><think>\n' }}{%- endif -%}"
    ),
    "smollm3": (
        "{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}"
        "{%- set mode = '/think' if enable_thinking else '/no_think' -%}"
        "{%- if messages[0].role == 'system' -%}{%- set own = messages[0].content | trim -%}"
        "{%- set rest = messages[1:] -%}{%- else -%}{%- set own = '' -%}{%- set rest = messages -%}{%- endif -%}"
        "{{- '<|im_start|>system\n## Metadata\nToday: ' + strftime_now('%Y') + '\nMode: ' + mode + '\n\n' + own"
        " + '<|im_end|>\n' }}"
        "{%- for m in rest -%}{%- if m.role == 'assistant' -%}"
        "{{- '<|im_start|>assistant\n' + ('' if enable_thinking else '<think>\n\n</think>\n')"
        " + m.content.lstrip('\n') + '<|im_end|>\n' }}"
        "{%- else -%}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt -%}"
        "{{- '<|im_start|>assistant\n' + ('' if enable_thinking else '<think>\n\n</think>\n') }}{%- endif -%}"
    ),
    "phi-3": (
        "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
    ),
    "command-r": (
        f"{{{{ bos_token }}}}{_SYSTEM_APART}"
        "{%- if system is defined -%}{{ '<|TURN|><|SYSTEM_TOKEN|>' + system + '<|TURN_END|>' }}{%- endif -%}"
        f"{{%- for m in rest -%}}{_ALTERNATE}"
        "{%- set who = '<|USER_TOKEN|>' if m['role'] == 'user' else '<|CHATBOT_TOKEN|>' -%}"
        "{{ '<|TURN|>' + who + m['content'].strip() + '<|TURN_END|>' }}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<|TURN|><|CHATBOT_TOKEN|>' }}{%- endif -%}"
    ),
    "hermes": "{{ bos_token }}" + _CHATML,
}


@dataclass(frozen=True)
class Family:
    """A template with its tokens. `sentence_piece` is the form of its tokenizer; "" is byte-level BPE.

    `known` are added tokens that are not special; `rewrites` says that later turns write the past in another way.
    """

    template: str
    special: tuple[str, ...]
    eos: str
    bos: str | None = None
    sentence_piece: str = ""
    known: tuple[str, ...] = ()
    rewrites: bool = False
    eats_blanks: bool = False


_IM = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_THINK = ("<think>", "</think>")
_TURNS = ("<start_of_turn>", "<end_of_turn>")
_LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end_of_text|>")
_COHERE = ("<BOS>", "<|TURN|>", "<|TURN_END|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>")
_PHI = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")

FAMILIES = {
    "llama-2": Family("llama-2", (), "</s>", sentence_piece="prepended"),
    "llama-3": Family("llama-3", _LLAMA, "<|end_of_text|>", "<|begin_of_text|>"),
    "qwen2.5": Family("qwen2.5", _IM, "<|im_end|>"),
    "qwen3": Family("qwen3", _IM, "<|im_end|>", known=_THINK),
    "gemma-2": Family("gemma-2", _TURNS, "</s>", sentence_piece="gemma"),
    "gemma-3": Family("gemma-3", _TURNS, "</s>", sentence_piece="gemma"),
    "mistral-v0.2": Family("mistral-v0.2", (), "</s>", sentence_piece="prepended"),
    "mistral-v3": Family("mistral-v3", ("[INST]", "[/INST]"), "</s>", sentence_piece="first", rewrites=True),
    "r1-distill": Family(
        "r1-distill", ("<|begin|>", "<|end|>", "<|User|>", "<|Assistant|>"), "<|end|>", "<|begin|>", "", _THINK, True
    ),
    "smollm3": Family("smollm3", _IM, "<|im_end|>", known=_THINK),
    "phi-3": Family("phi-3", _PHI, "</s>", sentence_piece="always", eats_blanks=True),
    "command-r": Family("command-r", _COHERE, "<|TURN_END|>", "<BOS>"),
    "hermes": Family("hermes", ("<s>", *_IM), "<|im_end|>", "<s>"),
    "unigram": Family("zephyr", (), "</s>", sentence_piece="unigram"),
}
"""Thirteen families, and a tokenizer whose vocabulary holds the names of its tokens."""



@cache
def family_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Train a family's tokenizer, once: two trainings of Unigram may differ. It has the template."""
    family = FAMILIES[name]
    template = TEMPLATES[family.template]
    if family.sentence_piece:
        return sentence_piece(family.sentence_piece, template, family.special, eats=family.eats_blanks)
    make: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
    tokenizer = make(
        tokenizer_object=tiny_backend(family.special), bos_token=family.bos, eos_token=family.eos,
        pad_token=family.eos, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.add_tokens(list(family.known))
    tokenizer.chat_template = {"default": template, "tool_use": "x"} if name == "hermes" else template
    return tokenizer


# ---------------------------------------------------------------- SentencePiece

SENTENCE_PIECE = ("prepended", "first", "always", "never", "gemma", "unigram")
"""Where a blank is put before a text: by a normalizer at every part, at the first, at all, at none; and others."""

_ALPHABET = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;<>|/[]_\n▁"]


def sentence_piece(
    form: str, template: str, tokens: tuple[str, ...] = (), *, eats: bool = False
) -> PreTrainedTokenizerBase:
    """Train a tokenizer of this form, with `tokens` as special tokens besides its own; these may eat blanks after them.
    """
    special = ["<unk>", "<s>", "</s>", *tokens]
    backend = _unigram(special) if form == "unigram" else _byte_fallback(form, special)
    make: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
    tokenizer = make(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>",
        additional_special_tokens=[AddedToken(token, rstrip=eats, normalized=False) for token in tokens],
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = template
    return tokenizer


def _byte_fallback(form: str, special: list[str]) -> Tokenizer:
    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if form == "prepended":
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    elif form == "gemma":
        backend.normalizer = normalizers.Replace(" ", "▁")
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=form, split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)],
        initial_alphabet=_ALPHABET, show_progress=False,
    )  # fmt: skip
    backend.train_from_iterator(TEXTS * 3, trainer)
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    strips = form in ("prepended", "first", "always")
    backend.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if strips else parts)
    return backend


def _unigram(special: list[str]) -> Tokenizer:
    backend = Tokenizer(models.Unigram([("<unk>", 0.0)], 0, byte_fallback=False))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=special, unk_token="<unk>", initial_alphabet=_ALPHABET, show_progress=False
    )
    backend.train_from_iterator(TEXTS * 3, trainer)
    return backend
