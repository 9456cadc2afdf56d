"""Episodes as the `rollout_func` of TRL's `GRPOTrainer`: token ids, log-probabilities and masks exactly as sampled.

    rollouts = EpisodeRollouts("alfworld", interface="probe", tasks=64)
    trainer = GRPOTrainer(
        "path/to/model",
        args=GRPOConfig(num_generations=8, max_completion_length=2048),
        train_dataset=rollouts.dataset,
        rollout_func=rollouts,
        reward_funcs=rollouts.reward,
    )
    trainer.train()

A prompt is a task's id, which TRL repeats `num_generations` times; each row is one episode on that task. Before every
batch the trainer's weights go to an engine of this process or, with `model`, are published to an engine elsewhere (a
vLLM server). An episode that broke is not a failure of the policy: its row is one masked token and its reward is None.
TRL (1.16) leaves such a row out of its group's mean and deviation, and its advantage is 0.

Not here: models sharded over devices (FSDP, ZeRO-3), TRL's own vLLM (`use_vllm`), adapters on an engine elsewhere, and
images.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from align_echo.errors import MissingExtraError, UsageError
from align_echo.interface.contract import Interface
from align_echo.loops.driving import TaskPanel, classify_end
from align_echo.rollout.batches import run_tasks
from align_echo.rollout.session import Episode
from align_echo.tokens import token_sequence
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

try:
    from datasets import Dataset
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from align_echo.models.local.chat import LocalModel
    from align_echo.models.local.encoding import ChatEncoder
    from align_echo.models.local.transformers_engine import TransformersEngine
    from align_echo.models.local.weights import load_state
    from align_echo.train.serving import compute_logprobs
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("torch", "datasets", "peft", "transformers", "tokenizers"):
        raise
    raise MissingExtraError("a rollout function for TRL", "train") from None

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer

POLICY = "policy"
"""Name of the trainer's adapter in the engine."""


class EpisodeRollouts:
    """A `rollout_func` that plays one episode per prompt. `played` holds the episodes of the last call, in order.

    The arguments up to `seed` are those of `TaskPanel.build`; `split` None is the training split. `max_tokens` limits
    one reply (None: the agent's limit), `context` the conversation (0: the model's limit). `workers` episodes are
    played at once. Temperature, top-k and top-p come from the trainer. `model` samples elsewhere instead of in this
    process: its engine reads the published weights from a folder below the trainer's `output_dir`.
    """

    def __init__(
        self,
        env: str | EnvironmentSpec,
        *,
        split: str | None = None,
        tasks: int | str | Sequence[str] | None = None,
        interface: str | Path | Interface | None = None,
        agent: str = "vanilla",
        data_root: str | Path | None = None,
        step_limit: int | None = None,
        seed: int = 0,
        max_tokens: int | None = None,
        context: int = 0,
        workers: int = 16,
        model: LocalModel | None = None,
    ) -> None:
        """Build the panel. Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line."""
        spec = environment(env)
        self.panel = TaskPanel.build(
            spec,
            split=split or spec.train_split,
            tasks=tasks,
            interface=interface,
            agent=agent,
            data_root=data_root,
            step_limit=step_limit,
            seed=seed,
        )
        self.played: list[Trajectory] = []
        self._max_tokens, self._context, self._workers = max_tokens, context, workers
        self._remote_model = model
        self._model: LocalModel | None = model
        self._step, self._drawn = -1, 0

    @cached_property
    def dataset(self) -> Dataset:
        """Tasks as prompts, one per row."""
        return Dataset.from_list([{"prompt": task} for task in self.panel.tasks])

    def __call__(self, prompts: Sequence[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """Play the prompts. Return one row per prompt, in order.

        Columns: `prompt_ids`, `completion_ids`, `logprobs`, `env_mask`, `score`, `end`. `env_mask` is 1 on tokens
        sampled by the policy. Raises `UsageError` for a prompt that is no task of the panel, and `ModelError` as
        `run_tasks` does.
        """
        episodes = self._episodes(prompts, trainer)
        model = self._published(trainer)
        self.played = run_tasks(
            self.panel.make,
            self.panel.asking(model, temperature=trainer.temperature, max_tokens=self._max_tokens),
            episodes,
            split=self.panel.split,
            action_format=self.panel.spec.action_format,
            seed=self.panel.seed,
            workers=self._workers,
        )
        rows = [build_row(episode, model.encoder.end_id) for episode in self.played]
        return {key: [row[key] for row in rows] for key in rows[0]}

    def reward(self, score: Sequence[float | None], end: Sequence[str], log_metric: Any, **unused: Any) -> list[Any]:
        """Return the environment's score for each row, None for a broken episode. Log the share of each end."""
        for name in ("won", "lost", "truncated", "broken"):
            log_metric(f"episodes/{name}", list(end).count(name) / len(end))
        return list(score)

    def close(self) -> None:
        """Close the engine of this process, if it was started."""
        if self._remote_model is None and self._model is not None:
            self._model.engine.close()
            self._model = None

    # ------------------------------------------------------------ episodes and model

    def _episodes(self, prompts: Sequence[Any], trainer: GRPOTrainer) -> list[Episode]:
        """Make an episode for each prompt. Sample numbers are unique within this step, across all processes."""
        unknown = [prompt for prompt in prompts if prompt not in self.panel.tasks]
        if unknown:
            raise UsageError(f"a prompt is a task's id (rollouts.dataset has them), not {str(unknown[0])[:80]!r}")
        if trainer.state.global_step != self._step:
            self._step, self._drawn = trainer.state.global_step, 0
        first = (self._drawn * trainer.accelerator.num_processes + trainer.accelerator.process_index) * len(prompts)
        self._drawn += 1
        return [Episode(task, first + index) for index, task in enumerate(prompts)]

    def _published(self, trainer: GRPOTrainer) -> LocalModel:
        """Return a model with the trainer's current weights and sampling settings."""
        if trainer.use_vllm:
            raise UsageError("leave use_vllm off: episodes are drawn by align-echo's engine, or by the one of `model`")
        policy: Any = trainer.accelerator.unwrap_model(trainer.model)
        adapted = isinstance(policy, PeftModel)
        if self._model is None:
            self._model = start_model(policy, trainer.processing_class, slots=self._workers)
        if self._remote_model is None:
            give_weights(self._model, policy)
        elif adapted:
            raise UsageError("an adapter is served by the engine of this process alone: leave `model` out")
        else:
            if trainer.accelerator.is_main_process:
                publish(self._remote_model, policy, Path(trainer.args.output_dir or "."))
            trainer.accelerator.wait_for_everyone()
        return replace(
            self._model,
            seed=trainer.args.seed * 1_000_003 + trainer.state.global_step,
            top_k=trainer.top_k or 0,
            top_p=trainer.top_p,
            adapter=POLICY if adapted else "",
            context=self._context,
        )


# ---------------------------------------------------------------- weights


def start_model(policy: Any, tokenizer: Any, *, slots: int) -> LocalModel:
    """Start an engine on a copy of the policy's base model, without adapters. It shares no tensor with the policy."""
    base: Any = policy.get_base_model() if isinstance(policy, PeftModel) else policy
    kind: Any = AutoModelForCausalLM
    with base.device:
        model = kind.from_config(copy.deepcopy(base.config), dtype=base.dtype)
    ends = base.generation_config.eos_token_id
    encoder = ChatEncoder(tokenizer, stop_ids=[ends] if isinstance(ends, int) else ends or ())
    state = base.state_dict().items()
    load_state(model, {name.replace(".base_layer.", "."): each for name, each in state if ".lora_" not in name})
    return LocalModel(TransformersEngine(model, name="trl", decode=encoder.text, slots=slots), encoder)


def give_weights(model: LocalModel, policy: Any) -> None:
    """Load the policy's current weights, or its adapter, into the engine of this process."""
    if isinstance(policy, PeftModel):
        name = str(policy.active_adapter)
        with TemporaryDirectory(prefix="align-echo-") as folder:
            policy.save_pretrained(folder, selected_adapters=[name])
            model.engine.load_adapter(POLICY, folder if name == "default" else str(Path(folder) / name))
    elif isinstance(model.engine, TransformersEngine):
        model.engine.load_weights(policy.state_dict())


def publish(model: LocalModel, policy: Any, folder: Path) -> None:
    """Publish the policy's weights through a new folder below this one. Raises `ModelError` unless the engine then
    uses them.
    """

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="published-", dir=folder) as weights:
        policy.save_pretrained(weights)
        model.engine.publish_weights(weights, partial(compute_logprobs, policy))


# ---------------------------------------------------------------- rows


def build_row(trajectory: Trajectory, end_token: int) -> dict[str, Any]:
    """Convert an episode to TRL's row. A broken episode, or one without sampled tokens, is one masked token."""
    score = None if trajectory.fault is not None else trajectory.score
    ids: tuple[int, ...] = (end_token, end_token)
    mask: tuple[int, ...] = (0, 0)
    logprobs: tuple[float, ...] = (0.0, 0.0)
    first = 1
    sequence = token_sequence(trajectory) if trajectory.fault is None and trajectory.steps else None
    if sequence is not None and sequence.breaks:
        raise UsageError("TRL takes an episode as one sequence, and the chat template rewrites earlier turns")
    if sequence is not None and any(sequence.mask):
        ids, mask, logprobs, first = sequence.ids, sequence.mask, sequence.logprobs, sequence.turns[0][0]
    return {
        "prompt_ids": list(ids[:first]),
        "completion_ids": list(ids[first:]),
        "logprobs": list(logprobs[first:]),
        "env_mask": list(mask[first:]),
        "score": score,
        "end": classify_end(trajectory),
    }
