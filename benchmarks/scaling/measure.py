"""The figures that one core tells: the pocket model plays ALFWorld and learns from it, each part timed by itself.

CPU seconds of this process and those below it (the interface's sandbox), one thread: other work on the machine hardly
changes them. Left out: links, prices, and everything of a GPU.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from peft import get_peft_model

import align_echo
from align_echo.files import write_atomically
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.tokens import TokenSequence
from align_echo.train.batching import batches
from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.crew import build_lora_config, find_sources, gather
from align_echo.train.forward import token_logprobs
from align_echo.train.rows import Row, policy_row
from align_echo.train.run import choose_tasks, local_stage, play_batch
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment
from benchmarks.rollout_arms.setting import pocket_model
from benchmarks.scaling.figures import Figures, Setup, figures_of
from benchmarks.scaling.simulate import harvest

PLAYED = {
    "env": "alfworld",
    "split": "train",
    "interface": "probe",
    "model": "pocket",
    "collecting": {"tasks": 8, "samples": 4, "turns": 30, "workers": 8},
}
BATCHES = (1, 8, 32)
DRAWN = 48
"""Tokens that each request draws."""

CONTEXT = 300
SOURCE = "measured by python -m benchmarks.scaling --measure"
ASSUMED = {
    "link_bytes": (1.25e9, "assumed: 10 Gbit/s"),
    "gpu_price": (0.0, "assumed: there is no GPU here"),
    "core_price": (0.04, "assumed: $ an hour"),
}


def cpu_seconds() -> float:
    """Of this process and of those below it that have ended."""
    return sum(os.times()[:4])


def measured(seed: int) -> dict[str, dict[str, Any]]:
    """Every figure as a file holds it. Prints each part as it is done."""
    torch.set_num_threads(1)
    config = checked_config(merged(method("grpo"), {**PLAYED, "seed": seed}), "grpo")
    episodes, playing = _episodes(config)
    values = {
        **_environment(config, episodes),
        **_conversation(episodes),
        **_driver(episodes),
        **_engine(),
        **_learner(seed),
        **_sizes(config),
    }
    turns = sum(len(episode.steps) for episode in episodes)
    about = f"{SOURCE}: one core, pocket model, ALFWorld; {len(episodes)} episodes, {turns} turns"
    record = {name: {"value": value, "source": about} for name, value in values.items()}
    record |= {name: {"value": value, "source": source} for name, (value, source) in ASSUMED.items()}
    _checked(figures_of(record, "what was measured"), config, playing)
    return record


def _checked(figures: Figures, config: TrainConfig, playing: float) -> None:
    """Print what the simulation makes of the harvest that was played, beside what it took."""
    count = config.collecting.tasks * config.collecting.samples
    workers = config.collecting.workers
    played = harvest(figures, Setup(environments=workers, cores=1, engines=1, learners=1, episodes=count))
    simulated = played.busy["cores"] + played.busy["engines"]
    print(f"the harvest took {playing:.1f} CPU s; the simulation of one like it says {simulated:.1f}")


def written(file: Path, record: dict[str, dict[str, Any]]) -> None:
    """Write the file of figures."""
    write_atomically(file, yaml.safe_dump(record, sort_keys=False, width=120, default_flow_style=None))
    print(f"written: {file}")


def _episodes(config: TrainConfig) -> tuple[list[Trajectory], float]:
    """The episodes of a harvest, and the CPU seconds that they took."""
    crew = gather(config, find_sources(config))
    stage = local_stage(config, environment(config.env), crew, "train", 1.0)
    try:
        tasks = align_echo.tasks(config.env, split="train")
        queries = choose_tasks(0, tasks, config.collecting.tasks, config.seed)
        begun = cpu_seconds()
        return list(play_batch(config, queries, stage.at_step(0)).episodes), cpu_seconds() - begun
    finally:
        crew.close()


def _environment(config: TrainConfig, episodes: Sequence[Trajectory]) -> dict[str, Any]:
    """The same actions once more, with nobody to wait for: what resets take, and what steps take beyond them."""
    spec = environment(config.env)
    sound = [episode for episode in episodes if episode.fault is None]
    turns = sum(len(episode.steps) for episode in sound)

    def again(played: Sequence[Trajectory], *, steps: bool) -> float:
        """CPU seconds of these episodes in an environment of their own, to its end."""
        begun = cpu_seconds()
        env = spec.make("train", interface=spec.interface(config.interface), step_limit=config.collecting.turns)
        for episode in played:
            env.reset(options={"task": episode.task_id})
            for step in episode.steps if steps else ():
                env.step(step.action or "")
        env.close()
        return cpu_seconds() - begun

    first, resets, whole = again(sound[:1], steps=False), again(sound, steps=False), again(sound, steps=True)
    reset = max(0.0, resets - first) / (len(sound) - 1)
    step = max(0.0, whole - resets) / turns
    print(f"environment: {step * 1e3:.2f} ms a step, {reset * 1e3:.2f} ms a reset")
    return {
        "step_seconds": round(step, 6),
        "reset_seconds": round(reset, 6),
        "turns": [len(episode.steps) for episode in sound if episode.steps],
        "broken_share": round(1 - len(sound) / len(episodes), 4),
    }


def _conversation(episodes: Sequence[Trajectory]) -> dict[str, Any]:
    calls = [[step.tokens for step in episode.steps if step.tokens] for episode in episodes]
    opening = statistics.fmean(len(first[0].context_ids) for first in calls if first)
    later = [len(call.context_ids) for each in calls for call in each[1:]]
    replies = [len(call.sampled_ids) for each in calls for call in each]
    size = sum(len(episode.model_dump_json().encode()) for episode in episodes)
    turns = sum(len(episode.steps) for episode in episodes)
    observation = statistics.fmean(later)
    return {
        "opening_tokens": round(opening - observation, 1),
        "observation_tokens": round(observation, 1),
        "reply_tokens": round(statistics.fmean(replies), 1),
        "turn_bytes": round(size / turns),
    }


def _driver(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """To read an episode, make a row of it, and that a part of a batch."""
    lines = [episode.model_dump_json() for episode in episodes]
    begun = time.process_time()
    read = [Trajectory.model_validate_json(line) for line in lines]
    rows = [policy_row(episode, episode.task_id) for episode in read if episode.fault is None and episode.steps]
    ones = [1.0] * len(rows)
    batches(rows, ones, ones, tokens_per_batch=8192, share=True)
    seconds = (time.process_time() - begun) / len(lines)
    print(f"driver: {seconds * 1e3:.2f} ms an episode")
    return {"driver_seconds": round(seconds, 6)}


def _engine() -> dict[str, Any]:
    model, tokenizer = pocket_model()
    engine = TransformersEngine(model, name="pocket", decode=ChatEncoder(tokenizer).text, slots=64)
    dice = torch.Generator().manual_seed(0)

    def timed(count: int, length: int, drawn: int) -> float:
        contexts = torch.randint(10, 2000, (count, length), generator=dice).tolist()
        begun = time.process_time()
        requests = [TokenRequest(tuple(ids), SamplingConfig(max_tokens=drawn, seed=1)) for ids in contexts]
        for future in [engine.submit(request) for request in requests]:
            future.result()
        return time.process_time() - begun

    try:
        timed(8, CONTEXT, 4)
        reading = timed(16, CONTEXT, 1) / (16 * CONTEXT)
        decoding = {}
        for count in BATCHES:
            seconds = timed(count, CONTEXT, DRAWN) - count * CONTEXT * reading
            decoding[count] = round(count * (DRAWN - 1) / seconds, 1)
        state = {name: weights.clone() for name, weights in model.state_dict().items()}
        begun = time.process_time()
        engine.load_weights(state)
        publishing = time.process_time() - begun
    finally:
        engine.close()
    rising = {count: max(rate for other, rate in decoding.items() if other <= count) for count in BATCHES}
    print(f"engine: reads {1 / reading:,.0f} tokens/s, writes {rising} by requests at once")
    return {"decoding": rising, "reading": round(1 / reading, 1), "publishing_seconds": round(publishing, 4)}


def _learner(seed: int) -> dict[str, float]:
    """Forward, backward and AdamW over rows that begin with nothing alike, so that no prefix is shared."""
    model = pocket_model()[0].train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)
    dice = torch.Generator().manual_seed(seed)
    rows = [_made_row(torch.randint(10, 2000, (800,), generator=dice).tolist()) for _ in range(10)]
    divided = batches(rows, [1.0] * 10, [1e-3] * 10, tokens_per_batch=3200)
    begun = time.process_time()
    for batch in divided:
        logprobs, _ = token_logprobs(model, batch.ids, batch.mask)
        torch.autograd.backward((logprobs * batch.mask).sum() * 1e-3)
    optimizer.step()
    rate = 8000 / (time.process_time() - begun)
    print(f"learner: {rate:,.0f} tokens/s")
    return {"learning": round(rate, 1)}


def _made_row(ids: list[int]) -> Row:
    """A tenth of it is replies."""
    mask = tuple(int(index % 10 == 9) for index in range(len(ids)))
    turns = tuple((index, index + 1) for index, own in enumerate(mask) if own)
    return Row(TokenSequence(tuple(ids), mask, (0.0,) * len(ids), turns), "policy", "made", 1.0)


def _sizes(config: TrainConfig) -> dict[str, int]:
    """Of the model's weights in float32, and of an adapter for each of two roles as PEFT saves it."""
    model = pocket_model()[0]
    weights = sum(parameter.numel() for parameter in model.parameters()) * 4
    with tempfile.TemporaryDirectory() as folder:
        get_peft_model(model, build_lora_config(config.lora)).save_pretrained(folder)
        adapter = (Path(folder) / "adapter_model.safetensors").stat().st_size
    return {"weights_bytes": weights, "adapters_bytes": 2 * adapter}
