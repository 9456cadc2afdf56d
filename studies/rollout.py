"""Rollouts on ALFWorld, five ways side by side: `python -m studies.rollout [--model NAME] [--batch N] [--turns N]`.

    ours        `run_tasks` with a `LocalModel` on `TransformersEngine`: what is new is computed, slots are refilled
    processes   the same with the model in two processes (`--workers processes:2`)
    prefill     each turn every whole conversation through `generate`, with left padding and the same token ids
    continuous  the same as `prefill`, by transformers' continuous batching
    trl         TRL's own multi-turn generation: `GRPOTrainer` with `environment_factory`, its `_generate`, no training

All play the same tasks with copies of the pocket model (`--model`: of another), at temperature 1, as many conversations
at once (for each process), float32. Each round has tasks of its own and takes the arms in another order; a first round
is not counted.
With TRL a reply counts as a call of its tool whatever it says, and resets and rewards are not timed; it records no
log-probabilities, ours does.

Prints medians, then one JSON line: `value` is our generated tokens a second, `baseline` that of `prefill` (or of the
first other arm), the rest as in `rounds.py`; `arms` holds the same for each other arm.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

import align_echo
from align_echo.agents.reasoning import Vanilla
from align_echo.models import ScriptedModel
from align_echo.models.choosing import find_files, read_name
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine_process import EngineGroup, EngineSettings, ProcessEngine
from align_echo.models.local.loading import load_tokenizer
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.rollout.batches import run_tasks
from align_echo.rollout.session import base_env, extend, start_view, take_turn
from align_echo.types import AgentReply, AgentView, Message
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv
from studies.gpu_check.engines import continuous
from studies.pocket_model import pocket_model
from studies.rounds import Round, Watch, at_least_one, rate, rates, shortened

SPEC = environment("alfworld")
SPLIT = "train"
CONTEXT = 4096
PROCESSES = 2
OVER = "The episode is over."
TOOL_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}\n"
    "{{ message.content }}{% if message.tool_calls and not message.content %}"
    "{% for call in message.tool_calls %}{{ call.function.name }} {{ call.function.arguments | tojson }}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The ids that ChatML gives our own conversations, with a tool's results as the user's messages."""


class Player(Vanilla):
    """The vanilla agent, which also reads a reply that another has drawn."""

    def acted(self, text: str, view: AgentView) -> AgentReply:
        """Return what `act` answers when the model says `text`."""
        return self.ask((), view, model=ScriptedModel([text]))


@dataclass(frozen=True)
class Setting:
    """What all arms share."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    batch: int
    turns: int
    reply_tokens: int

    def agent(self, model: Any = None) -> Player:
        """Make the agent; without a model it only words chats and reads replies."""
        return Player(model or ScriptedModel([]), temperature=1.0, max_tokens=self.reply_tokens)

    def copy(self) -> Any:
        """Make a model of its own with the same weights."""
        made = type(self.model)(copy.deepcopy(self.model.config))
        made.load_state_dict(self.model.state_dict())
        return made.eval()

    def env(self) -> TextEnv:
        return base_env(align_echo.make("alfworld", split=SPLIT, step_limit=self.turns))


def begin(env: TextEnv, task: str) -> AgentView:
    return start_view(env, task, SPEC.action_format, 0)


Arm = Callable[[Sequence[str], int], Round]


class Ours:
    """`run_tasks` on the engine, as every command and trainer of the package rolls out."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._encoder, self._workers = setting, ChatEncoder(setting.tokenizer), setting.batch
        self._engine = self._engine_of(setting)

    def _engine_of(self, setting: Setting) -> Any:
        decode = self._encoder.text
        return TransformersEngine(setting.copy(), name="ours", decode=decode, slots=setting.batch, context=CONTEXT)

    def __call__(self, tasks: Sequence[str], seed: int) -> Round:
        agent, watch = self._setting.agent(LocalModel(self._engine, self._encoder, seed=seed)), Watch()
        options: dict[str, Any] = {"split": SPLIT, "action_format": SPEC.action_format, "workers": self._workers}
        played = run_tasks(self._setting.env, agent, tasks, **options)
        spent = watch.round(sum(trajectory.usage.completion_tokens or 0 for trajectory in played))
        assert not any(trajectory.fault or trajectory.context_overflow for trajectory in played)
        return spent


class InProcesses(Ours):
    """The same with `ProcessEngine`s in place of the engine."""

    def _engine_of(self, setting: Setting) -> Any:
        self._workers = setting.batch * PROCESSES
        self._folder = tempfile.TemporaryDirectory(prefix="rollout-model-")  # removed with this arm
        setting.model.save_pretrained(self._folder.name)
        setting.tokenizer.save_pretrained(self._folder.name)
        made = {str(n): ProcessEngine(EngineSettings(self._folder.name, "processes")) for n in range(PROCESSES)}
        return EngineGroup(list(made), lambda address: made[address].wait_until_ready())


@dataclass
class Seat:
    """One conversation of the prefill loop."""

    env: TextEnv
    view: AgentView
    ids: list[int]
    over: bool = False


class Prefill:
    """Each turn, the whole conversations through `generate`."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._model = setting, setting.copy()
        self._encoder, self._agent = ChatEncoder(setting.tokenizer), setting.agent()
        self._envs = [setting.env() for _ in range(setting.batch)]

    def __call__(self, tasks: Sequence[str], seed: int) -> Round:
        torch.manual_seed(seed)
        tokens, watch = 0, Watch()
        for first in range(0, len(tasks), self._setting.batch):
            pairs = zip(self._envs, tasks[first : first + self._setting.batch], strict=False)
            seats = [self._seat(*pair) for pair in pairs]
            while playing := [seat for seat in seats if not seat.over]:
                for seat, reply in zip(playing, self._generate([seat.ids for seat in playing]), strict=True):
                    self._turn(seat, reply)
                    tokens += len(reply)
        return watch.round(tokens)

    def _seat(self, env: TextEnv, task: str) -> Seat:
        view = begin(env, task)
        return Seat(env, view, list(self._encoder.opening(self._agent.conversation(view))))

    def _generate(self, contexts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the replies' ids, each up to its end token."""
        longest, pad = max(map(len, contexts)), self._setting.tokenizer.pad_token_id
        rows = [[pad] * (longest - len(context)) + list(context) for context in contexts]
        mask = [[0] * (longest - len(context)) + [1] * len(context) for context in contexts]
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=torch.tensor(rows), attention_mask=torch.tensor(mask),
                max_new_tokens=self._setting.reply_tokens, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                pad_token_id=pad, eos_token_id=list(self._encoder.stop_ids),
            )  # fmt: skip
        return [self._until(row) for row in out[:, longest:].tolist()]

    def _until(self, row: list[int]) -> list[int]:
        end = next((index + 1 for index, token in enumerate(row) if token in self._encoder.stop_ids), len(row))
        return row[:end]

    def _turn(self, seat: Seat, reply: list[int]) -> None:
        step = take_turn(seat.env, self._agent.acted(self._encoder.text(reply), seat.view))
        seat.view, seat.over = extend(seat.view, step), step.terminated or step.truncated
        closed = reply[-1] in self._encoder.stop_ids
        seat.ids += [*reply, *self._encoder.continuation([Message(role="user", content=step.observation)], closed)]


class Continuous(Prefill):
    """Each turn, the whole conversations through transformers' continuous batching."""

    def __call__(self, tasks: Sequence[str], seed: int) -> Round:
        make: Any = GenerationConfig
        sampling = make(
            do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=self._setting.reply_tokens,
            eos_token_id=list(self._encoder.stop_ids), pad_token_id=self._setting.tokenizer.pad_token_id,
        )  # fmt: skip
        given = (self._model, self._setting.batch, self._setting.reply_tokens, CONTEXT)
        with continuous(*given, sampling=sampling) as self._ask:
            return super().__call__(tasks, seed)

    def _generate(self, contexts: Sequence[Sequence[int]]) -> list[list[int]]:
        return [self._until(list(reply.result().ids)) for reply in [self._ask(tuple(ids)) for ids in contexts]]


class Trl:
    """TRL's loop over tool calls; the environment's one tool is to act."""

    def __init__(self, setting: Setting) -> None:
        from datasets import Dataset
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer

        arguments = GRPOConfig(
            output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
            per_device_train_batch_size=setting.batch, num_generations=2, max_completion_length=CONTEXT,
            max_tool_calling_iterations=setting.turns - 1, temperature=1.0, top_k=0, top_p=1.0,
            generation_kwargs={"max_new_tokens": setting.reply_tokens},
        )  # fmt: skip
        trainer: Callable[..., Any] = GRPOTrainer
        self._trainer = trainer(
            model=setting.copy(),
            args=arguments,
            train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], "task": ""}]),
            processing_class=calling_tokenizer(setting.tokenizer),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            environment_factory=partial(TrlEnvironment, setting),
        )
        self._setting, self._agent, self._encoder = setting, setting.agent(), ChatEncoder(setting.tokenizer)
        self._generate, self._trainer._generate = self._trainer._generate, self._timed
        self._rounds: list[Round] = []

    def __call__(self, tasks: Sequence[str], seed: int) -> Round:
        torch.manual_seed(seed)
        self._rounds, env = [], self._setting.env()
        for first in range(0, len(tasks), self._setting.batch):
            rows, openings = [], []
            for task in tasks[first : first + self._setting.batch]:
                chat = self._agent.conversation(begin(env, task))
                prompt = [{"role": "system", "content": chat[0].content}, {"role": "user", "content": ""}]
                rows.append({"prompt": prompt, "task": task})
                openings.append(list(self._encoder.opening(chat)))
            self._trainer._generate_and_score_completions(rows)
            assert self._openings == openings, "TRL was given other prompts"
        return Round(*map(sum, zip(*self._rounds, strict=True)))

    def _timed(self, prompts: list[Any]) -> Any:
        watch = Watch()
        generated = self._generate(prompts)
        self._rounds.append(watch.round(sum(map(sum, generated[2]))))
        self._openings = generated[0]
        return generated


class TrlEnvironment:
    """ALFWorld as TRL's `environment_factory` makes it."""

    def __init__(self, setting: Setting) -> None:
        self._env, self._agent = setting.env(), setting.agent()

    def reset(self, task: str, **_: Any) -> str:
        self._view = begin(self._env, task)
        return self._agent.conversation(self._view)[1].content

    def act(self, text: str) -> str:
        """Carry out an action.

        Args:
            text: The action.
        """
        step = take_turn(self._env, self._agent.acted(text, self._view))
        self._view = extend(self._view, step)
        return f"{step.observation}\n{OVER}" if step.terminated or step.truncated else step.observation


def calling_tokenizer(tokenizer: PreTrainedTokenizerBase) -> Any:
    """Make a tokenizer for which every reply is a call of the tool `act`, until the episode is over."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        made: Any = AutoTokenizer.from_pretrained(folder)

    def parse_response(ids: Sequence[int], prefix: Sequence[int] = (), tools: object = None) -> dict[str, Any]:
        text = made.decode(ids, skip_special_tokens=True)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if OVER not in made.decode(prefix[-30:]):
            message["tool_calls"] = [{"type": "function", "function": {"name": "act", "arguments": {"text": text}}}]
        return message

    made.chat_template, made.response_template = TOOL_TEMPLATE, "every reply is a call"
    made.parse_response = parse_response
    return made


ARMS: dict[str, Callable[[Setting], Arm]] = {
    **{"ours": Ours, "processes": InProcesses, "prefill": Prefill, "continuous": Continuous, "trl": Trl}
}


def model_named(name: str) -> tuple[Any, PreTrainedTokenizerBase]:
    """Return (model, tokenizer) of the pocket model, or of a folder or packaged model in float32."""
    if name == "pocket":
        return pocket_model()
    folder, make = find_files(read_name(name)), cast("Any", AutoModelForCausalLM)
    return make.from_pretrained(folder, dtype=torch.float32).eval(), load_tokenizer(folder)


def measure(arms: dict[str, Arm], setting: Setting, rounds: int, episodes: int) -> dict[str, list[Round]]:
    """Play every round's tasks with every arm; the first round is not counted."""
    every, dice = list(align_echo.tasks("alfworld", split=SPLIT)), random.Random(0)
    rounds_of: dict[str, list[Round]] = {name: [] for name in arms}
    env, names = setting.env(), list(arms)
    for number in range(rounds + 1):
        chosen = dice.sample(every, min(len(every), episodes if number else setting.batch))
        for task in chosen:
            begin(env, task)  # what is compiled once and stays on disk
        for name in names[number % len(names) :] + names[: number % len(names)]:
            played = arms[name](chosen, number)
            print(f"round {number}, {name}: {played.work} tokens in {played.seconds:.1f} s", file=sys.stderr)
            rounds_of[name] += [played] if number else []
    return rounds_of


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pocket", help="pocket, a folder, or a packaged model (default pocket)")
    parser.add_argument("--batch", type=at_least_one, default=8, help="conversations at once (default 8)")
    parser.add_argument("--turns", type=at_least_one, default=8, help="turns of an episode, at most (default 8)")
    parser.add_argument("--reply-tokens", type=at_least_one, default=32, help="of a reply, at most (default 32)")
    parser.add_argument("--rounds", type=at_least_one, default=1, help="rounds that are counted (default 1)")
    parser.add_argument("--threads", type=at_least_one, default=1, help="threads of torch (default 1)")
    parser.add_argument("--arm", action="append", choices=ARMS, help="only this; may be repeated")
    given = parser.parse_args()
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(given.threads)
    setting = Setting(*model_named(given.model), given.batch, given.turns, given.reply_tokens)
    arms = {name: ARMS[name](setting) for name in dict.fromkeys(given.arm or ARMS)}
    rounds_of = measure(arms, setting, given.rounds, given.batch * PROCESSES)
    for name, rounds in rounds_of.items():
        print(f"{name:11} {statistics.median(map(rate, rounds)):10,.1f} tokens/s")
    ours = rounds_of.get("ours") or next(iter(rounds_of.values()))
    others = {name: rates(ours, rounds) for name, rounds in rounds_of.items() if rounds is not ours}
    alone = {"value": shortened(statistics.median(map(rate, ours))), "baseline": None, "ratio": None}
    main_one = others.get("prefill") or next(iter(others.values()), alone)
    record = {"name": f"rollout, {given.model}, {given.turns} turns", "unit": "tokens/s", **main_one}
    print(json.dumps({**record, "n": given.rounds * given.batch * PROCESSES, "batch": given.batch, "arms": others}))


if __name__ == "__main__":
    main()
