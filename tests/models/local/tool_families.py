"""Chat templates with tools in the forms of three public families, and their tokenizers.

They do with tools, calls and answers what the published templates of Qwen2.5 (and Hermes), Llama-3.1 and Mistral v3 do,
without their longer wordings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.models.local.families import sentence_piece
from tests.models.local.tiny import tiny_backend

QWEN = (
    "{%- if tools -%}{{- '<|im_start|>system\n' }}{%- if messages[0]['role'] == 'system' -%}"
    "{{- messages[0]['content'] }}{%- else -%}{{- 'Be helpful.' }}{%- endif -%}"
    "{{- '\n\n# Tools\n\n<tools>' }}{%- for tool in tools -%}{{- '\n' }}{{- tool | tojson }}{%- endfor -%}"
    "{{- '\n</tools>\n\nFor each call return json within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n\' }}'
    "{%- elif messages[0]['role'] == 'system' -%}"
    "{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'user' or (message.role == 'system' and not loop.first)"
    " or (message.role == 'assistant' and not message.tool_calls) -%}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}"
    "{%- elif message.role == 'assistant' -%}{{- '<|im_start|>' + message.role }}"
    "{%- if message.content -%}{{- '\n' + message.content }}{%- endif -%}"
    "{%- for tool_call in message.tool_calls -%}"
    "{%- if tool_call.function is defined -%}{%- set tool_call = tool_call.function -%}{%- endif -%}"
    "{{- '\n<tool_call>\n{\"name\": \"' }}{{- tool_call.name }}{{- '\", \"arguments\": ' }}"
    "{{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}{%- endfor -%}{{- '<|im_end|>\n' }}"
    "{%- elif message.role == 'tool' -%}"
    "{%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != 'tool') -%}{{- '<|im_start|>user' }}{%- endif -%}"
    "{{- '\n<tool_response>\n' }}{{- message.content }}{{- '\n</tool_response>' }}"
    "{%- if loop.last or (messages[loop.index0 + 1].role != 'tool') -%}{{- '<|im_end|>\n' }}{%- endif -%}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' }}{%- endif -%}"
)
LLAMA = (
    "{{- bos_token }}"
    "{%- if messages[0]['role'] == 'system' -%}{%- set system_message = messages[0]['content'] | trim -%}"
    "{%- set messages = messages[1:] -%}{%- else -%}{%- set system_message = '' -%}{%- endif -%}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}"
    "{%- if tools -%}{{- 'Environment: ipython\n' }}{%- endif -%}{{- system_message }}{{- '<|eot_id|>' }}"
    "{%- if tools -%}{%- set first = messages[0]['content'] | trim -%}{%- set messages = messages[1:] -%}"
    "{{- '<|start_header_id|>user<|end_header_id|>\n\n' }}"
    "{{- 'Respond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its value}."
    "\n\n' }}"
    "{%- for t in tools -%}{{- t | tojson(indent=4) }}{{- '\n\n' }}{%- endfor -%}{{- first + '<|eot_id|>' }}"
    "{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) -%}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim"
    " + '<|eot_id|>' }}"
    "{%- elif 'tool_calls' in message -%}{%- set tool_call = message.tool_calls[0].function -%}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{{- '{\"name\": \"' + tool_call.name + '\", ' }}{{- '\"parameters\": ' }}{{- tool_call.arguments | tojson }}"
    "{{- '}' }}{{- '<|eot_id|>' }}"
    "{%- else -%}{{- '<|start_header_id|>ipython<|end_header_id|>\n\n' }}"
    "{%- if message.content is mapping or message.content is iterable -%}{{- message.content | tojson }}"
    "{%- else -%}{{- message.content }}{%- endif -%}{{- '<|eot_id|>' }}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%}"
)
MISTRAL = (
    "{%- if messages[0]['role'] == 'system' -%}{%- set system_message = messages[0]['content'] -%}"
    "{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set loop_messages = messages -%}{%- endif -%}"
    "{%- set user_messages = loop_messages | selectattr('role', 'equalto', 'user') | list -%}"
    "{{- bos_token }}{%- for message in loop_messages -%}"
    "{%- if message['role'] == 'user' -%}"
    "{%- if tools and (message == user_messages[-1]) -%}"
    "{{- '[AVAILABLE_TOOLS] ' }}{{- tools | tojson }}{{- '[/AVAILABLE_TOOLS]' }}{%- endif -%}"
    "{%- if loop.last and system_message is defined -%}"
    "{{- '[INST] ' + system_message + '\n\n' + message['content'] + '[/INST]' }}"
    "{%- else -%}{{- '[INST] ' + message['content'] + '[/INST]' }}{%- endif -%}"
    "{%- elif message.tool_calls is defined and message.tool_calls -%}{{- '[TOOL_CALLS] [' }}"
    "{%- for tool_call in message.tool_calls -%}{%- set out = tool_call.function | tojson -%}{{- out[:-1] }}"
    "{%- if tool_call.id | length != 9 -%}"
    "{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif -%}"
    "{{- ', \"id\": \"' + tool_call.id + '\"}' }}{%- if not loop.last -%}{{- ', ' }}"
    "{%- else -%}{{- ']' + eos_token }}{%- endif -%}{%- endfor -%}"
    "{%- elif message['role'] == 'assistant' -%}{{- ' ' + message['content'] | trim + eos_token }}"
    "{%- elif message['role'] == 'tool' -%}"
    "{{- '[TOOL_RESULTS] {\"content\": ' + (message.content | tojson) + ', \"call_id\": \"' }}"
    "{{- message.tool_call_id + '\"}[/TOOL_RESULTS]' }}{%- endif -%}{%- endfor -%}"
)

_IM = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>")
_MISTRAL = (
    "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
)  # fmt: skip

CALLS = {
    "qwen2.5": '<tool_call>\n{"name": "act", "arguments": {"action": "{}"}}\n</tool_call>',
    "llama-3.1": '{"name": "act", "parameters": {"action": "{}"}}',
    "mistral-v3": '[TOOL_CALLS] [{"name": "act", "arguments": {"action": "{}"}}]',
}
"""How each family calls `act`, with the action in place of `{}`."""


@cache
def tool_tokenizer(family: str) -> PreTrainedTokenizerBase:
    """Train a family's tokenizer, once."""
    if family == "mistral-v3":
        return sentence_piece("first", MISTRAL, _MISTRAL)
    make: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
    special, eos, template = (_IM, "<|im_end|>", QWEN) if family == "qwen2.5" else (_LLAMA, "<|eot_id|>", LLAMA)
    tokenizer = make(
        tokenizer_object=tiny_backend(special), bos_token=special[0], eos_token=eos, pad_token=eos,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"] if family == "qwen2.5" else [])
    tokenizer.chat_template = template
    return tokenizer
