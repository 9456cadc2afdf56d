"""Losses, gradients and whole steps beside those of TRL's `GRPOTrainer`, on the same rows and the same model.

What corresponds: `normalisation: sequence` to `loss_type="grpo"`, `normalisation: token` to "dapo" (and to "bnpo"
where a step is one batch), `ratio: sequence` to `importance_sampling_level="sequence"`, `clip_low` and `clip_high` to
`epsilon` and `epsilon_high`, `beta` with `kl: k3` to `beta`, `updates` to `num_iterations`, a row's mask to `env_mask`.

Where TRL's definitions are others:

- "grpo" is a mean over rows in each micro-batch, and then over micro-batches: it is ours only if all have as many rows.
  "bnpo" is a mean over the tokens of a micro-batch, and changes with how rows are divided. Ours never do.
- "dr_grpo" divides by rows times `max_completion_length` where ours divides by the sampled tokens: a constant factor.
- By default TRL multiplies the KL term by the ratio (`use_bias_correction_kl`), which has a gradient even where the
  ratio is 1. Ours is DeepSeekMath's term without it: TRL's with that setting off.
- "token" normalisation with a ratio of sequences weighs long rows more, in both; GSPO's own is "sequence".
- TRL's head computes in float32 at most, so the two agree to rounding of that.
- Rows of a group whose rewards are all equal have advantage 0 in both. Ours are not even computed without a KL term,
  and the mean is over all rows all the same.
- With several roles ours normalises each by itself; TRL knows one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, TrainingArguments
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from align_echo.tokens import TokenSequence
from align_echo.train.backbone import WholeModels
from align_echo.train.batching import Normalisation, batches, scales
from align_echo.train.forward import token_logprobs
from align_echo.train.objective import ObjectiveSettings, batch_loss
from align_echo.train.rows import RolloutBatch, Row
from align_echo.train.trainer import RoleTrainer, StepSettings
from tests.models.local.tiny import tiny_model, tiny_tokenizer

pytestmark = [
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func':UserWarning"),
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

ROWS, GROUP, LONGEST = 8, 4, 16


@dataclass(frozen=True)
class Conversation:
    """A prompt, what followed it, which tokens of that were sampled, and what it earned."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    sampled: tuple[int, ...]
    reward: float

    def row(self, group: str) -> Row:
        nothing = (0,) * len(self.prompt)
        ids, mask = (*self.prompt, *self.completion), (*nothing, *self.sampled)
        tokens = TokenSequence(ids, mask, (0.0,) * len(ids), ((len(nothing), len(ids)),))
        return Row(tokens, "policy", group, self.reward)


def conversations(seed: int = 0) -> list[Conversation]:
    """Groups that share a prompt; long ones first, as batches are made."""
    dice = random.Random(seed)
    prompts = [tuple(dice.randrange(3, 290) for _ in range(length)) for length in (9, 4)]
    samples = []
    for number in range(ROWS):
        length = LONGEST - number
        sampled = [int(dice.random() < 0.6) for _ in range(length - 1)]
        completion = tuple(dice.randrange(3, 290) for _ in range(length))
        samples.append(Conversation(prompts[number // GROUP], completion, (*sampled, 1), dice.choice((0.0, 0.5, 1.0))))
    return samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    return str(path)


def trl(
    model: Any, out: Path, shown: Sequence[Conversation], settings: dict[str, Any], optimizer: Any = None
) -> Any:
    """TRL's trainer, which is given the conversations in place of generating."""

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": [list(sample.prompt) for sample in shown],
            "completion_ids": [list(sample.completion) for sample in shown],
            "logprobs": None,
            "env_mask": [list(sample.sampled) for sample in shown],
            "earned": [sample.reward for sample in shown],
        }

    arguments = GRPOConfig(
        output_dir=str(out),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        num_generations=GROUP,
        max_completion_length=LONGEST,
        temperature=0.7,
        use_bias_correction_kl=False,
        lr_scheduler_type="constant",
        **settings,
    )
    make: Callable[..., Any] = GRPOTrainer
    return make(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "a"}, {"prompt": "b"}]),
        processing_class=tiny_tokenizer(),
        reward_funcs=lambda earned, **_: earned,
        rollout_func=rollout,
        optimizers=(optimizer, None),
    )


# ---------------------------------------------------------------- one loss


def padded(rows: Sequence[Sequence[float]], left: bool = False) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor(
        [[*[0] * (longest - len(row)), *row] if left else [*row, *[0] * (longest - len(row))] for row in rows]
    )


def noise(shape: Sequence[int], size: float, seed: int) -> torch.Tensor:
    return size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def as_completions(ours: torch.Tensor, shown: Sequence[Conversation]) -> torch.Tensor:
    """From targets [B, T-1] to TRL's completions [B, C]."""
    rows = [row[len(sample.prompt) - 1 :][: len(sample.completion)] for row, sample in zip(ours, shown, strict=True)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    """All of them, one after the other [P]."""
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, list(model.parameters()))])


LOSSES: dict[str, tuple[Normalisation, float]] = {
    "grpo": ("sequence", 1.0),
    "bnpo": ("token", 1.0),
    "dapo": ("token", 1.0),
    "dr_grpo": ("token", sum(sum(conversation.sampled) for conversation in conversations()) / (ROWS * LONGEST)),
}
"""TRL's name, our normalisation, and TRL's loss over ours."""

OBJECTIVES: dict[str, tuple[dict[str, Any], ObjectiveSettings]] = {
    "token ratio": ({}, ObjectiveSettings()),
    "asymmetric clip": ({"epsilon": 0.1, "epsilon_high": 0.3}, ObjectiveSettings(clip_low=0.1, clip_high=0.3)),
    "k3": ({"beta": 0.2}, ObjectiveSettings(beta=0.2, kl="k3")),
    "sequence ratio": (
        {"importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
        ObjectiveSettings(ratio="sequence", clip_low=3e-4, clip_high=4e-4),
    ),
}


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_and_gradient_are_those_of_trl(name, loss_type, folder, tmp_path):
    shown = conversations()
    asked, objective = OBJECTIVES[name]
    normalisation, factor = LOSSES[loss_type]
    theirs = trl(folder, tmp_path, shown, {"loss_type": loss_type, "per_device_train_batch_size": ROWS, **asked})
    model = theirs.model.eval()
    rows = [sample.row(str(index // GROUP)) for index, sample in enumerate(shown)]
    advantages = [0.5 - index % 3 for index in range(ROWS)]
    (batch,) = batches(rows, advantages, scales(rows, normalisation), tokens_per_batch=1000)

    logprobs, _ = token_logprobs(model, batch.ids, batch.mask, temperature=0.7)
    near = 1e-3 if objective.ratio == "sequence" else 0.3
    old = (logprobs.detach() + noise(logprobs.shape, near, 1)) * batch.mask
    reference = (logprobs.detach() + noise(logprobs.shape, 0.5, 2)) * batch.mask
    ours_loss = batch_loss(batch, logprobs, objective, old=old, reference=reference)
    wanted = theirs._compute_loss(
        model,
        {
            "prompt_ids": padded([sample.prompt for sample in shown], left=True),
            "prompt_mask": padded([[1] * len(sample.prompt) for sample in shown], left=True),
            "completion_ids": padded([sample.completion for sample in shown]),
            "completion_mask": padded([[1] * len(sample.completion) for sample in shown]),
            "tool_mask": padded([sample.sampled for sample in shown]),
            "advantages": torch.tensor(advantages),
            "old_per_token_logps": as_completions(old, shown),
            "ref_per_token_logps": as_completions(reference, shown),
            "num_items_in_batch": batch.mask.sum(),
        },
    )
    assert ours_loss.clipped is not None
    assert 0 < float(ours_loss.clipped.sum()) < float(batch.mask.sum())
    assert float(wanted.detach()) == pytest.approx(factor * float(ours_loss.loss.detach()), rel=1e-5, abs=1e-6)
    ours, trls = factor * gradients(model, ours_loss.loss), gradients(model, wanted)
    assert float(ours.norm()) > 0.01
    assert float((ours - trls).norm() / ours.norm()) < 1e-5


# ---------------------------------------------------------------- whole steps


STEPS: dict[str, tuple[dict[str, Any], StepSettings]] = {
    "grpo": ({"loss_type": "grpo"}, StepSettings(normalisation="sequence")),
    "dapo": ({"loss_type": "dapo"}, StepSettings(normalisation="token")),
    "without the deviation": (
        {"loss_type": "dapo", "scale_rewards": "none"},
        StepSettings(normalisation="token", scaled=False),
    ),
    "k3": (
        {"loss_type": "grpo", "beta": 0.2},
        StepSettings(normalisation="sequence", objective=ObjectiveSettings(beta=0.2, kl="k3")),
    ),
    "two updates of a harvest": (
        {"loss_type": "grpo", "num_iterations": 2},
        StepSettings(normalisation="sequence", updates=2),
    ),
    "gspo": (
        {"loss_type": "grpo", "num_iterations": 2, "importance_sampling_level": "sequence", "epsilon": 3e-4},
        StepSettings(
            normalisation="sequence",
            updates=2,
            objective=ObjectiveSettings(ratio="sequence", clip_low=3e-4, clip_high=3e-4),
        ),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", STEPS)
def test_two_steps_from_rewards_to_weights_end_where_trl_does(name, folder, tmp_path):
    shown = conversations()
    asked, settings = STEPS[name]
    small = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": ROWS // 2, "max_steps": 2}
    read: Any = AutoModelForCausalLM
    theirs, model, start = (read.from_pretrained(folder, dtype=torch.float32) for _ in range(3))
    descent = torch.optim.SGD(theirs.parameters(), 0.1)
    trl(theirs, tmp_path, shown, {**asked, **small}, descent).train()

    RoleTrainer(
        WholeModels({"policy": model, "critic": model}, reference=settings.objective.beta > 0),
        lambda number: RolloutBatch(tuple(sample.row(str(index // GROUP)) for index, sample in enumerate(shown))),
        settings.model_copy(update={"tokens_per_batch": 60}),
        TrainingArguments(str(tmp_path), max_steps=2, use_cpu=True, report_to=[], lr_scheduler_type="constant"),
        optimizer=torch.optim.SGD(model.parameters(), 0.1),
        publish=lambda: None,
        watch=lambda step, signals: None,
        temperature=0.7,
    ).train()
    ours, trls, before = (
        torch.cat([parameter.detach().flatten() for parameter in m.parameters()]) for m in (model, theirs, start)
    )
    assert float((ours - before).norm()) > 1e-3
    assert float((ours - trls).norm() / (ours - before).norm()) < 1e-4
