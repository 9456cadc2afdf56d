"""The engine beside the continuous batching of `transformers`: `python -m benchmarks.continuous_batching --batch 8`.

    ours      `TransformersEngine`, as many slots as there are conversations at once
    manager   `ContinuousBatchingManager`, one for the whole round, with prefix sharing between turns; its pages, and
              the requests and tokens of a step, are those that were fastest on a CPU
    default   the same with the settings that it has by itself
    calls     `model.generate_batch`, a call a turn with all conversations that go on: nothing is kept between calls

All answer the turns of the same conversations, each turn's prompt being the one before it, the reply that was recorded
and the next observation. They were recorded before: greedy play on ALFWorld by the pocket model, or with `--model
qwen2` by a Qwen2 of random weights that walks from place to place and writes `--reply-tokens` a turn. So every arm
computes the same, whatever it answers, and environments are not timed. Float32, greedy, one process; with `ours` and
both managers a conversation goes on as soon as it has its reply, with `calls` all wait for the longest. Each round has
conversations of its own and takes the arms in another order; a round of others comes first and is not counted.

What each arm answers is held against what was recorded: the share of replies that are alike to the token, and how far
the log-probabilities of those are apart. Prints medians over the rounds, then one JSON line: `value` is our generated
tokens a second, `baseline` the manager's; the rest as in `rounds.py`.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import random
import statistics
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, Qwen2Config, Qwen2ForCausalLM

import align_echo
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.rollout import run_tasks
from align_echo.tokens import TokenSequence, token_sequence
from benchmarks.rollout_arms.setting import (
    CONTEXT,
    SPEC,
    SPLIT,
    Player,
    Setting,
    Watch,
    begin,
    copy_of,
    make,
    pocket_model,
)
from benchmarks.rounds import Round, at_least_one, shortened
from benchmarks.rounds import rates as rates_of

Ids = tuple[int, ...]
Ask = Callable[[Ids], "Future[TokenReply]"]
Conversations = Sequence[TokenSequence]
Replies = list[list[TokenReply]]
"""Of each conversation the reply of each turn."""

Timed = tuple[Replies, tuple[float, float]]
"""Replies, and the seconds and CPU seconds they took."""


@dataclass(frozen=True)
class Answered:
    """What an arm did in a round. `alike` is the share of replies that are the recorded ones, `apart` how far the
    log-probabilities of those are from the recorded ones at most.
    """

    seconds: float
    cpu: float
    replies: int
    tokens: int
    prompts: int
    alike: float
    apart: float


# ---------------------------------------------------------------- the conversations


def qwen2_model() -> tuple[Any, Any]:
    """A Qwen2 of 27 million random weights, and the pocket model's tokenizer."""
    tokenizer = pocket_model()[1]
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        initializer_range=0.1,
    )
    model: Any = Qwen2ForCausalLM(config)
    return model.eval(), tokenizer


def recorded(setting: Setting, encoder: ChatEncoder, tasks: Sequence[str]) -> list[TokenSequence]:
    """Greedy episodes of these tasks in token ids."""
    with engine_of(setting, encoder) as engine:
        agent = Player(LocalModel(engine, encoder), temperature=0.0, max_tokens=setting.reply_tokens)
        agent.walk = setting.fixed
        envs = partial(make, setting.turns)
        played = run_tasks(envs, agent, tasks, split=SPLIT, action_format=SPEC.action_format, workers=setting.batch)
    assert not any(episode.fault or episode.context_overflow for episode in played), "an episode did not end by itself"
    return [token_sequence(episode) for episode in played]


# ---------------------------------------------------------------- the arms


@contextmanager
def engine_of(setting: Setting, encoder: ChatEncoder) -> Iterator[TransformersEngine]:
    engine = TransformersEngine(
        copy_of(setting.model),
        name="ours",
        decode=encoder.text,
        slots=setting.batch,
        context=CONTEXT,
    )
    try:
        yield engine
    finally:
        engine.close()


def ours(setting: Setting, encoder: ChatEncoder, _: argparse.Namespace, talks: Conversations) -> Timed:
    sampling = SamplingConfig(temperature=0.0, max_tokens=setting.reply_tokens, stop_ids=encoder.stop_ids)
    with engine_of(setting, encoder) as engine:
        watch = Watch()
        return replay(talks, lambda ids: engine.submit(TokenRequest(ids, sampling)), setting.batch), watch.read()


def manager(setting: Setting, encoder: ChatEncoder, given: argparse.Namespace, talks: Conversations) -> Timed:
    return managed(setting, encoder, tuned(given, tokens_of(talks)), talks)


def default(setting: Setting, encoder: ChatEncoder, _: argparse.Namespace, talks: Conversations) -> Timed:
    room = ContinuousBatchingConfig(return_logprobs=True)
    room.num_blocks = -(-2 * (tokens_of(talks) + len(talks) * room.page_size) // room.page_size)
    return managed(setting, encoder, room, talks)


def managed(setting: Setting, encoder: ChatEncoder, room: ContinuousBatchingConfig, talks: Conversations) -> Timed:
    """One manager for all turns."""
    model = copy_of(setting.model)
    limits = generation(setting, encoder)
    with model.continuous_batching_context_manager(limits, continuous_batching_config=room, timeout=60) as running:
        waiting: dict[str, Future[TokenReply]] = {}
        over = threading.Event()
        thread = threading.Thread(target=deliver, args=(running, waiting, over))
        thread.start()
        numbers = iter(range(sys.maxsize))

        def ask(ids: Ids) -> Future[TokenReply]:
            name = str(next(numbers))
            future = waiting[name] = Future()
            running.add_request(list(ids), request_id=name, eos_token_id=list(encoder.stop_ids) or -1)
            return future

        watch = Watch()
        timed = replay(talks, ask, setting.batch), watch.read()
        over.set()
        thread.join()
    return timed


def deliver(running: Any, waiting: dict[str, Future[TokenReply]], over: threading.Event) -> None:
    """Hand out what the manager answers."""
    while not over.is_set():
        result = running.get_result(timeout=0.1)
        if result is not None:
            waiting.pop(result.request_id).set_result(reply_of(result))


def calls(setting: Setting, encoder: ChatEncoder, given: argparse.Namespace, talks: Conversations) -> Timed:
    model = copy_of(setting.model)
    limits = generation(setting, encoder)
    replies: Replies = [[] for _ in talks]
    watch = Watch()
    for first in range(0, len(talks), setting.batch):
        some = range(first, min(first + setting.batch, len(talks)))
        for turn in range(setting.turns):
            onward = [index for index in some if turn < len(talks[index].turns)]
            prompts = [list(prompt(talks[index], turn)) for index in onward]
            room = tuned(given, sum(map(len, prompts)) + len(prompts) * setting.reply_tokens)
            answered = model.generate_batch(prompts, limits, continuous_batching_config=room)
            for index, result in zip(onward, answered.values(), strict=True):
                replies[index].append(reply_of(result))
    return replies, watch.read()


def generation(setting: Setting, encoder: ChatEncoder) -> GenerationConfig:
    settings: Any = GenerationConfig
    limits: GenerationConfig = settings(
        do_sample=False,
        max_new_tokens=setting.reply_tokens,
        eos_token_id=list(encoder.stop_ids) or -1,
        pad_token_id=setting.tokenizer.pad_token_id,
    )
    return limits


def tuned(given: argparse.Namespace, tokens: int) -> ContinuousBatchingConfig:
    """With twice the room that all tokens of the conversations need: nothing is computed twice for want of it."""
    return ContinuousBatchingConfig(
        return_logprobs=True,
        num_blocks=-(-2 * tokens // given.page),
        page_size=given.page,
        max_requests_per_batch=given.requests,
        max_batch_tokens=given.step_tokens,
    )


def tokens_of(talks: Conversations) -> int:
    return sum(len(talk.ids) for talk in talks)


def reply_of(result: Any) -> TokenReply:
    assert result.error is None, result.error
    return TokenReply(tuple(result.generated_tokens), tuple(result.logprobs), "stop")


def prompt(talk: TokenSequence, turn: int) -> Ids:
    return talk.ids[: talk.turns[turn][0]]


def replay(talks: Conversations, ask: Ask, batch: int) -> Replies:
    """The turns of each conversation one after the other, `batch` conversations at once."""

    def answers(talk: TokenSequence) -> list[TokenReply]:
        return [ask(prompt(talk, turn)).result() for turn in range(len(talk.turns))]

    with ThreadPoolExecutor(batch) as pool:
        return list(pool.map(answers, talks))


# ---------------------------------------------------------------- measuring

ARMS = {"ours": ours, "manager": manager, "default": default, "calls": calls}


def answered(talks: Conversations, replies: Replies, spent: tuple[float, float]) -> Answered:
    pairs = [
        (talk, first, end, reply)
        for talk, given in zip(talks, replies, strict=True)
        for (first, end), reply in zip(talk.turns, given, strict=True)
    ]
    alike = [pair for pair in pairs if pair[0].ids[pair[1] : pair[2]] == pair[3].ids]
    return Answered(
        *spent,
        replies=len(pairs),
        tokens=sum(len(reply.ids) for _, _, _, reply in pairs),
        prompts=sum(first for _, first, _, _ in pairs),
        alike=len(alike) / len(pairs),
        apart=max(
            (
                abs(before - now)
                for talk, first, end, reply in alike
                for before, now in zip(talk.logprobs[first:end], reply.logprobs, strict=True)
            ),
            default=float("nan"),
        ),
    )


def measure(setting: Setting, given: argparse.Namespace) -> dict[str, list[Answered]]:
    """Every arm on every round's conversations."""
    encoder = ChatEncoder(setting.tokenizer)
    if setting.fixed:
        encoder.stop_ids = ()
    tasks = list(align_echo.tasks("alfworld", split=SPLIT))
    random.Random(0).shuffle(tasks)
    env = make(1)
    results: dict[str, list[Answered]] = {name: [] for name in given.arm or ARMS}
    for number in range(given.rounds + 1):
        chosen, tasks = tasks[: given.batch], tasks[given.batch :]
        for task in chosen:
            begin(env, task)  # what is compiled once and kept on disk
        talks = recorded(setting, encoder, chosen)
        names = list(results)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            seen = answered(talks, *ARMS[name](setting, encoder, given, talks))
            what = f"round {number}" if number else "warm-up"
            line = f"{what}, {name}: {seen.tokens} tokens, {seen.replies} replies in {seen.seconds:.1f} s"
            print(line, file=sys.stderr, flush=True)
            if number:
                results[name].append(seen)
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["pocket", "qwen2"], default="pocket", help="(default pocket)")
    parser.add_argument("--batch", type=int, default=8, help="conversations of a round, all at once (default 8)")
    parser.add_argument("--turns", type=int, default=20, help="turns of a conversation, at most (default 20)")
    parser.add_argument("--reply-tokens", type=int, help="tokens of a reply, at most (default 32; 8 with qwen2)")
    parser.add_argument("--page", type=int, default=4, help="manager: tokens of a page of its cache (default 4)")
    parser.add_argument("--requests", type=int, default=4, help="manager: requests of a step, at most (default 4)")
    parser.add_argument("--step-tokens", type=int, default=256, help="manager: tokens of a step (default 256)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds that are counted (default 5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    parser.add_argument("--arm", action="append", choices=list(ARMS), help="only this; may be repeated")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    fixed = given.model == "qwen2"
    model, tokenizer = qwen2_model() if fixed else pocket_model()
    setting = Setting(model, tokenizer, fixed, given.batch, given.turns, given.reply_tokens or (8 if fixed else 32))
    report(measure(setting, given), given)


def report(measured: dict[str, list[Answered]], given: argparse.Namespace) -> None:
    """The table and the JSON line; ratios are medians over the rounds."""
    print(f"{'':10}{'seconds':>10}{'tokens/s':>12}{'prompt/s':>12}{'replies/s':>12}{'alike':>10}{'apart':>10}")
    for name, rounds in measured.items():
        print(f"{name:10}{median(rounds, lambda answer: answer.seconds):10.1f}", end="")
        print(f"{median(rounds, lambda answer: answer.tokens / answer.seconds):12,.0f}", end="")
        print(f"{median(rounds, lambda answer: answer.prompts / answer.seconds):12,.0f}", end="")
        print(f"{median(rounds, lambda answer: answer.replies / answer.seconds):12.1f}", end="")
        alike = sum(answer.alike * answer.replies for answer in rounds) / sum(answer.replies for answer in rounds)
        print(f"{alike:10.4f}{max(answer.apart for answer in rounds):10.1e}")
    rates = {name: median(rounds, lambda answer: answer.tokens / answer.seconds) for name, rounds in measured.items()}
    record = {
        "name": f"replies to {given.batch} conversations of {given.turns} turns, {given.model}",
        "value": rates.get("ours"),
        "unit": "tokens/s",
        **compared_with(measured, "manager"),
        "n": given.rounds * given.batch,
        **{name: rates.get(name) for name in ("default", "calls")},
        **{f"ratio_{name}": compared_with(measured, name)["ratio"] for name in ("default", "calls")},
        "alike": min(answer.alike for rounds in measured.values() for answer in rounds),
        "threads": given.threads,
    }
    print(json.dumps({key: shortened(value) if isinstance(value, float) else value for key, value in record.items()}))


def median(rounds: Sequence[Answered], value: Callable[[Answered], float]) -> float:
    return statistics.median(map(value, rounds))


def compared_with(measured: dict[str, list[Answered]], baseline: str) -> dict[str, Any]:
    """Our tokens a second and another arm's, as in `rounds.py`; None where one of both was not played."""
    if not {"ours", baseline} <= set(measured):
        return {"baseline": None, "ratio": None}
    ours, theirs = (
        [Round(answer.tokens, answer.seconds, answer.cpu) for answer in measured[name]] for name in ("ours", baseline)
    )
    return rates_of(ours, theirs)


if __name__ == "__main__":
    main()
