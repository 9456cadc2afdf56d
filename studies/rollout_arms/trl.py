"""The arm of TRL: its own multi-turn generation, the environment's one tool being to act."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from align_echo.models import ScriptedModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.session import extend, take_turn
from studies.rollout_arms.setting import (
    CONTEXT,
    Played,
    Setting,
    Watch,
    begin,
    copy_of,
    make,
    player,
    sampling,
)

OVER = "The episode is over."
TOOL_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}\n"
    "{{ message.content }}{% if message.tool_calls and not message.content %}"
    "{% for call in message.tool_calls %}{{ call.function.name }} {{ call.function.arguments | tojson }}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The ids that ChatML gives our own conversations, with a tool's results as the user's messages."""


class Trl:
    """TRL's loop over tool calls; the environment's one tool is to act."""

    def __init__(self, setting: Setting) -> None:
        from datasets import Dataset
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer

        tokenizer = calling_tokenizer(setting.tokenizer)
        arguments = GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            per_device_train_batch_size=setting.batch,
            num_generations=2,
            max_completion_length=CONTEXT,
            max_tool_calling_iterations=setting.turns - 1,
            generation_kwargs=sampling(setting),
            temperature=1.0,
            top_k=0,
            top_p=1.0,
        )
        trainer: Callable[..., Any] = GRPOTrainer
        self._trainer = trainer(
            model=copy_of(setting.model),
            args=arguments,
            train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], "task": ""}]),
            processing_class=tokenizer,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            environment_factory=partial(TrlEnvironment, setting),
        )
        self._encoder = ChatEncoder(setting.tokenizer)
        self._agent = player(setting, ScriptedModel([]))
        self._openings: list[list[int]] = []
        self._generate = self._trainer._generate
        self._trainer._generate = self._timed
        self._setting = setting
        self._found = Played(0, 0, 0, 0, 0)

    def __call__(self, tasks: Sequence[str], seed: int) -> Played:
        torch.manual_seed(seed)
        parts = []
        env = make(self._setting.turns)
        for first in range(0, len(tasks), self._setting.batch):
            rows, openings = [], []
            for task in tasks[first : first + self._setting.batch]:
                chat = self._agent.conversation(begin(env, task))
                prompt = [{"role": "system", "content": chat[0].content}, {"role": "user", "content": ""}]
                rows.append({"prompt": prompt, "task": task})
                openings.append(list(self._encoder.opening(chat)))
            self._trainer._generate_and_score_completions(rows)
            assert self._openings == openings, "TRL was given other prompts"
            parts.append(self._found)
        return Played(*(sum(column) for column in zip(*map(astuple, parts), strict=True)))

    def _timed(self, prompts: list[Any]) -> Any:
        watch = Watch()
        generated = self._generate(prompts)
        spent = watch.read()
        self._openings, masks, completions = generated[0], generated[2], generated[3]
        replies = sum(message["role"] == "assistant" for completion in completions for message in completion)
        self._found = Played(*spent, sum(map(sum, masks)), len(masks), replies)
        return generated


class TrlEnvironment:
    """ALFWorld as TRL's `environment_factory` makes it."""

    def __init__(self, setting: Setting) -> None:
        self._env = make(setting.turns)
        self._agent = player(setting, ScriptedModel([]))
        self._over = False

    def reset(self, task: str, **_: Any) -> str:
        self._view, self._over = begin(self._env, task), False
        return self._agent.conversation(self._view)[1].content

    def act(self, text: str) -> str:
        """Carry out an action.

        Args:
            text: The action.
        """
        step = take_turn(self._env, self._agent.acted(text, self._view))
        self._view = extend(self._view, step)
        over = step.terminated or step.truncated
        return f"{step.observation}\n{OVER}" if over else step.observation


def calling_tokenizer(tokenizer: PreTrainedTokenizerBase) -> Any:
    """A tokenizer for which every reply is a call of the tool `act`, until the episode is over."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        made: Any = AutoTokenizer.from_pretrained(folder)
    made.chat_template = TOOL_TEMPLATE

    def parse_response(ids: Sequence[int], prefix: Sequence[int] = (), tools: object = None) -> dict[str, Any]:
        text = made.decode(ids, skip_special_tokens=True)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if OVER not in made.decode(prefix[-30:]):
            message["tool_calls"] = [{"type": "function", "function": {"name": "act", "arguments": {"text": text}}}]
        return message

    made.response_template = "every reply is a call"
    made.parse_response = parse_response
    return made
