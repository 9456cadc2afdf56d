"""Rollouts on ALFWorld, three ways side by side: `python -m benchmarks.rollout [--batch N] [--turns N] [--rounds N]`.

    ours     `run_tasks` with a `LocalModel` on `TransformersEngine`: only what is new is computed, slots are refilled
    prefill  a loop that computes every whole conversation anew each turn: batched `generate`, left padding, the same
             token ids (nothing is encoded twice), conversations that ended are dropped from the batch
    trl      TRL's own multi-turn generation: `GRPOTrainer` with `environment_factory`, its `_generate`, no training

All three play the same tasks with copies of one model, at temperature 1, as many conversations at once, float32, in one
process; each round has tasks of its own and takes the arms in another order; a round of other tasks comes first and is
not counted. The model is the pocket model where it can run. Otherwise (or with --random) it is one of its shape with
random weights: then every arm draws exactly --reply-tokens tokens a turn, and as those say nothing the action is a walk
from place to place, the same in all arms. With TRL a reply counts as a call of its tool whatever it says, and what it
does outside `_generate` (resetting environments, rewards) is not timed; it records no log-probabilities, ours does.

Prints the medians, then one JSON line: `value` is our generated tokens a second, `baseline` that of `prefill`; the
`cpu_ratio`s are of tokens a CPU second, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from importlib import resources
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)

import align_echo
from align_echo.agents.vanilla import Vanilla
from align_echo.models import ScriptedModel
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.models.names import what_pocket_lacks
from align_echo.rollout import base_env, extend, run_tasks, start_view, take_turn
from align_echo.train.demonstrations import Demonstration
from align_echo.train.pocket.tokenizer import train_tokenizer
from align_echo.types import AgentReply, AgentView, Completion, Message
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv

SPEC = environment("alfworld")
SPLIT = "train"
CONTEXT = 4096
OVER = "The episode is over."
TOOL_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}\n"
    "{{ message.content }}{% if message.tool_calls and not message.content %}"
    "{% for call in message.tool_calls %}{{ call.function.name }} {{ call.function.arguments | tojson }}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The ids that ChatML gives our own conversations, with a tool's results as the user's messages."""


@dataclass(frozen=True)
class Setting:
    """What all arms share. `fixed`: every reply has exactly `reply_tokens` tokens, and actions are a walk."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    fixed: bool
    batch: int
    turns: int
    reply_tokens: int


@dataclass(frozen=True)
class Played:
    """What an arm did in a round. `replies` is how many times the model answered, `cpu` the CPU seconds it took."""

    seconds: float
    cpu: float
    tokens: int
    episodes: int
    replies: int


Arm = Callable[[Sequence[str], int], Played]


class Watch:
    """Seconds and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._start[0], time.process_time() - self._start[1]


class Player(Vanilla):
    """The vanilla agent; with `walk`, one whose action is the next place to walk to, whatever the reply says."""

    walk = False

    def read(self, reply: str, view: AgentView) -> str:
        return next_place(view) if self.walk else super().read(reply, view)

    def whole(self, completion: Completion) -> str:
        return completion.text if self.walk else super().whole(completion)

    def acted(self, text: str, view: AgentView) -> AgentReply:
        """What `act` answers when the model says `text`."""
        return self.ask((), view, model=ScriptedModel([text]))


def player(setting: Setting, model: Any) -> Player:
    agent = Player(model, temperature=1.0, max_tokens=setting.reply_tokens)
    agent.walk = setting.fixed
    return agent


def next_place(view: AgentView) -> str:
    """A walk over the places that the first observation names."""
    places = re.findall(r"[a-z]+ \d+", view.initial_observation) or ["look"]
    return f"go to {places[len(view.turns) % len(places)]}"


def make(turns: int) -> TextEnv:
    return base_env(align_echo.make("alfworld", split=SPLIT, step_limit=turns))


def begin(env: TextEnv, task: str) -> AgentView:
    return start_view(env, task, SPEC.action_format, 0)


# ---------------------------------------------------------------- the arms


class Ours:
    """`run_tasks` on the engine, as every command and trainer of this package rolls out."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._encoder = ChatEncoder(setting.tokenizer)
        if setting.fixed:
            self._encoder.stop_ids = ()
        self._engine = TransformersEngine(
            copy_of(setting.model), name="ours", decode=self._encoder.text, slots=setting.batch, context=CONTEXT
        )

    def __call__(self, tasks: Sequence[str], seed: int) -> Played:
        agent = player(self._setting, LocalModel(self._engine, self._encoder, seed=seed))
        watch = Watch()
        played = run_tasks(
            partial(make, self._setting.turns),
            agent,
            tasks,
            split=SPLIT,
            action_format=SPEC.action_format,
            workers=self._setting.batch,
        )
        spent = watch.read()
        assert not any(one.fault or one.context_overflow for one in played), "an episode did not end by itself"
        tokens = sum(one.usage.completion_tokens for one in played)
        return Played(*spent, tokens, len(played), sum(len(one.steps) for one in played))


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
        self._setting = setting
        self._model: Any = copy_of(setting.model)
        self._encoder = ChatEncoder(setting.tokenizer)
        self._agent = player(setting, ScriptedModel([]))
        self._envs = [make(setting.turns) for _ in range(setting.batch)]

    def __call__(self, tasks: Sequence[str], seed: int) -> Played:
        torch.manual_seed(seed)
        tokens = replies = 0
        watch = Watch()
        for first in range(0, len(tasks), self._setting.batch):
            seats = [
                self._seat(*one) for one in zip(self._envs, tasks[first : first + self._setting.batch], strict=False)
            ]
            while playing := [seat for seat in seats if not seat.over]:
                drawn = self._generate([seat.ids for seat in playing])
                for seat, reply in zip(playing, drawn, strict=True):
                    self._turn(seat, reply)
                    tokens += len(reply)
                replies += len(playing)
        return Played(*watch.read(), tokens, len(tasks), replies)

    def _seat(self, env: TextEnv, task: str) -> Seat:
        view = begin(env, task)
        return Seat(env, view, list(self._encoder.opening(self._agent.conversation(view))))

    def _generate(self, contexts: Sequence[Sequence[int]]) -> list[list[int]]:
        """The replies' ids, each up to its end token."""
        longest, pad = max(map(len, contexts)), self._setting.tokenizer.pad_token_id
        rows = [[pad] * (longest - len(one)) + list(one) for one in contexts]
        mask = [[0] * (longest - len(one)) + [1] * len(one) for one in contexts]
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=torch.tensor(rows),
                attention_mask=torch.tensor(mask),
                **sampling(self._setting),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                pad_token_id=pad,
                eos_token_id=list(self._encoder.stop_ids),
            )
        drawn = out[:, longest:].tolist()
        return [row if self._setting.fixed else until(row, self._encoder.stop_ids) for row in drawn]

    def _turn(self, seat: Seat, reply: list[int]) -> None:
        step = take_turn(seat.env, self._agent.acted(self._encoder.text(reply), seat.view))
        seat.view = extend(seat.view, step)
        seat.over = step.terminated or step.truncated
        closed = reply[-1] in self._encoder.stop_ids
        seat.ids += [*reply, *self._encoder.continuation([Message(role="user", content=step.observation)], closed)]


class Trl:
    """TRL's loop over tool calls; the environment's one tool is to act."""

    def __init__(self, setting: Setting) -> None:
        from datasets import Dataset  # type: ignore[import-untyped]
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
        found = self._generate(prompts)
        spent = watch.read()
        self._openings, masks, completions = found[0], found[2], found[3]
        replies = sum(message["role"] == "assistant" for one in completions for message in one)
        self._found = Played(*spent, sum(map(sum, masks)), len(masks), replies)
        return found


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


# ---------------------------------------------------------------- the model


def sampling(setting: Setting) -> dict[str, Any]:
    """`generate`'s limits on the length of a reply."""
    least = {"min_new_tokens": setting.reply_tokens} if setting.fixed else {}
    return {"max_new_tokens": setting.reply_tokens, **least}


def until(row: list[int], stop_ids: Sequence[int]) -> list[int]:
    """A row up to its first end token."""
    end = next((place + 1 for place, one in enumerate(row) if one in stop_ids), len(row))
    return row[:end]


def copy_of(model: Any) -> Any:
    """A model of its own with the same weights."""
    made = type(model)(copy.deepcopy(model.config))
    made.load_state_dict(model.state_dict())
    return made.eval()


def random_model() -> tuple[Any, PreTrainedTokenizerBase]:
    """A Qwen3 of the pocket model's shape, and a tokenizer trained on walks."""
    env, agent = make(12), Player(ScriptedModel([]))
    agent.walk = True
    chats = []
    for task in align_echo.tasks("alfworld", split=SPLIT)[:60]:
        view = begin(env, task)
        while len(view.turns) < 12:
            view = extend(view, take_turn(env, agent.acted(next_place(view), view)))
        messages = agent.conversation(view)
        weights = [1.0] * sum(message.role == "assistant" for message in messages)
        chats.append(Demonstration(kind="walk", messages=tuple(messages), weights=tuple(weights)))
    tokenizer = train_tokenizer(chats, size=1536)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=576,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    made: Any = Qwen3ForCausalLM(config)
    return made.eval(), tokenizer


def setting_of(given: argparse.Namespace) -> Setting:
    """The pocket model where it can run, else one of its shape."""
    fixed = bool(given.random or what_pocket_lacks())
    if fixed:
        model, tokenizer = random_model()
    else:
        with resources.as_file(resources.files("align_echo.models").joinpath("pocket")) as folder:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(folder)
    return Setting(model, tokenizer, fixed, given.batch, given.turns, given.reply_tokens or (12 if fixed else 32))


# ---------------------------------------------------------------- all of it


def measure(arms: dict[str, Arm], given: argparse.Namespace) -> dict[str, list[Played]]:
    """Every arm on every round's tasks."""
    tasks = list(align_echo.tasks("alfworld", split=SPLIT))
    random.Random(0).shuffle(tasks)
    if len(tasks) < given.batch + given.rounds * given.episodes:
        raise SystemExit(f"the split has {len(tasks)} tasks: ask for fewer rounds or episodes")
    env = make(1)
    found: dict[str, list[Played]] = {name: [] for name in arms}
    for number in range(given.rounds + 1):
        count = given.episodes if number else given.batch
        chosen, tasks = tasks[:count], tasks[count:]
        for task in chosen:
            begin(env, task)  # what is compiled once and kept on disk
        names = list(arms)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            played = arms[name](chosen, number)
            what = f"round {number}" if number else "warm-up"
            line = f"{what}, {name}: {played.tokens} tokens, {played.replies} replies in {played.seconds:.1f} s"
            print(line, file=sys.stderr, flush=True)
            if number:
                found[name].append(played)
    return found


def median_of(played: Sequence[Played], value: Callable[[Played], float]) -> float:
    return statistics.median(map(value, played))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16, help="conversations at once (default 16)")
    parser.add_argument("--episodes", type=int, help="episodes of an arm in a round (default: the batch)")
    parser.add_argument("--turns", type=int, default=20, help="turns of an episode, at most (default 20)")
    parser.add_argument("--reply-tokens", type=int, help="tokens of a reply, at most (default 32; 12 with --random)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that are counted (default 3)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    parser.add_argument("--random", action="store_true", help="random weights even where the pocket model can run")
    parser.add_argument("--arm", action="append", choices=["ours", "prefill", "trl"], help="only this; may be repeated")
    given = parser.parse_args()
    given.episodes = given.episodes or given.batch
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    warnings.simplefilter("ignore", FutureWarning)
    torch.set_num_threads(given.threads)
    setting = setting_of(given)
    makers: dict[str, Callable[[Setting], Arm]] = {"ours": Ours, "prefill": Prefill, "trl": Trl}
    found = measure({name: makers[name](setting) for name in given.arm or makers}, given)
    report(found, setting, given)


def report(found: dict[str, list[Played]], setting: Setting, given: argparse.Namespace) -> None:
    """The table and the JSON line; ratios are medians over the rounds."""
    rates = {name: median_of(rounds, lambda one: one.tokens / one.seconds) for name, rounds in found.items()}
    print(f"{'':10}{'tokens/s':>12}{'of CPU':>12}{'episodes/s':>12}{'replies/s':>12}{'tokens a reply':>16}")
    for name, rounds in found.items():
        print(f"{name:10}{rates[name]:12,.0f}{median_of(rounds, lambda one: one.tokens / one.cpu):12,.0f}", end="")
        print(f"{median_of(rounds, lambda one: one.episodes / one.seconds):12.3f}", end="")
        print(f"{median_of(rounds, lambda one: one.replies / one.seconds):12.1f}", end="")
        print(f"{median_of(rounds, lambda one: one.tokens / one.replies):16.1f}")
    record = {
        "name": f"rollout, {given.turns} turns",
        "value": rates.get("ours"),
        "unit": "tokens/s",
        "baseline": rates.get("prefill"),
        "ratio": ratio(found, "prefill", "tokens"),
        "n": given.rounds * given.episodes,
        "episodes_ratio": ratio(found, "prefill", "episodes"),
        "cpu_ratio": ratio(found, "prefill", "tokens", "cpu"),
        "trl": rates.get("trl"),
        "ratio_trl": ratio(found, "trl", "tokens"),
        "episodes_ratio_trl": ratio(found, "trl", "episodes"),
        "cpu_ratio_trl": ratio(found, "trl", "tokens", "cpu"),
        "batch": given.batch,
        "threads": given.threads,
        "model": "random weights, replies of fixed length" if setting.fixed else "pocket",
    }
    print(json.dumps({key: float(f"{one:.4g}") if isinstance(one, float) else one for key, one in record.items()}))


def ratio(found: dict[str, list[Played]], baseline: str, what: str, per: str = "seconds") -> float | None:
    """Median over the rounds of our rate over another arm's in the same round."""
    if not {"ours", baseline} <= set(found):
        return None
    rates = [[float(getattr(one, what) / getattr(one, per)) for one in found[name]] for name in ("ours", baseline)]
    return float(statistics.median(ours / theirs for ours, theirs in zip(*rates, strict=True)))


if __name__ == "__main__":
    main()
