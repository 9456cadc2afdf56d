"""Episodes as TRL's rollout function: exact tokens, the weights of now, and nothing learned from what broke."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from peft import LoraConfig
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from align_echo.agents.reasoning import Vanilla
from align_echo.errors import EngineError, UsageError
from align_echo.loops.trl import EpisodeRollouts
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.tokens import token_sequence
from align_echo.types import AgentView, Completion
from align_echo.wrappers.catalogue import environment
from tests.models.local.plain_loop import logprobs_of
from tests.models.local.tiny import tiny_encoder, tiny_model, tiny_tokenizer
from tests.room_env import TASK_IDS, RoomEnv, instead_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func':UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
]

GROUP, TEMPERATURE = 4, 0.7
MUG = TASK_IDS[0]


class Babbling(Vanilla):
    """Takes whatever the model says for an action: a tiny one hardly ever ends its reply."""

    def full_text(self, completion: Completion) -> str:
        return completion.text

    def read(self, reply: str, view: AgentView) -> str:
        return reply


class Graded(RoomEnv):
    """Scores a reply by its letters, so that the rewards of a group differ. `broken` are the resets that end in one."""

    broken: frozenset[int] = frozenset()
    resets = 0

    def _load(self, task_id: str):
        type(self).resets += 1
        return super()._load(task_id)

    def _act(self, action: str):
        if self.resets in self.broken:
            raise EngineError("pipe closed")
        return dataclasses.replace(super()._act(action), score=sum(map(ord, action)) % 7 / 6)


@pytest.fixture(autouse=True)
def unbroken() -> None:
    Graded.broken, Graded.resets = frozenset(), 0


def rollouts(env: type[RoomEnv] = Graded, **options: Any) -> EpisodeRollouts:
    usual = {"tasks": MUG, "agent": f"{__name__}:Babbling", "step_limit": 2, "max_tokens": 5, "workers": 1}
    settings: dict[str, Any] = {**usual, **options}
    return EpisodeRollouts(instead_of(environment("alfworld"), env), **settings)


def trainer_of(played: EpisodeRollouts, out: Path, *, model: Any = None, steps: int = 1, **options: Any) -> Any:
    arguments = GRPOConfig(
        str(out),
        use_cpu=True,
        bf16=False,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        num_generations=GROUP,
        per_device_train_batch_size=GROUP,
        temperature=TEMPERATURE,
        learning_rate=0.01,
        max_steps=steps,
        logging_steps=1,
    )
    make: Any = GRPOTrainer
    return make(
        model=model or tiny_model(context=4096),
        args=arguments,
        train_dataset=played.dataset,
        processing_class=tiny_tokenizer(),
        rollout_func=played,
        reward_funcs=played.reward,
        **options,
    )


def gap(row: dict[str, Any], model: Any) -> float:
    """How far the log-probabilities of a row are from those that a model gives its tokens."""
    exact = logprobs_of(model, (*row["prompt_ids"], *row["completion_ids"]), TEMPERATURE)[-len(row["logprobs"]) :]
    told = zip(exact.tolist(), row["logprobs"], row["env_mask"], strict=True)
    return float(max(abs(ours - theirs) for ours, theirs, mask in told if mask))


def rows_of(output: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(output, values, strict=True)) for values in zip(*output.values(), strict=True)]


def test_a_row_is_an_episode_as_it_was_sampled(tmp_path):
    played = rollouts()
    trainer = trainer_of(played, tmp_path)
    rows = rows_of(played([MUG] * GROUP, trainer))
    assert len(rows) == len(played.played) == GROUP
    for row, episode in zip(rows, played.played, strict=True):
        whole = token_sequence(episode)
        assert (*row["prompt_ids"], *row["completion_ids"]) == whole.ids
        assert sum(row["env_mask"]) == sum(whole.mask)
        assert (row["score"], row["end"]) == (episode.score, "truncated")
        assert gap(row, trainer.model) < 1e-4
    assert len({tuple(row["completion_ids"]) for row in rows}) == GROUP
    again = rows_of(played([MUG] * GROUP, trainer))
    assert {tuple(row["completion_ids"]) for row in rows}.isdisjoint(tuple(row["completion_ids"]) for row in again)


@pytest.mark.long
@pytest.mark.parametrize("adapter", [None, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")])
def test_two_steps_learn_and_the_next_episodes_are_drawn_with_what_was_learned(tmp_path, adapter):
    played = rollouts()
    trainer = trainer_of(played, tmp_path, steps=2, peft_config=adapter)
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    assert len(steps) == 2
    assert all(entry["grad_norm"] > 0 and entry["episodes/truncated"] == 1 for entry in steps)
    row, *_ = rows_of(played([MUG] * GROUP, trainer))
    learned = trainer.model.merge_and_unload() if adapter else trainer.model
    assert gap(row, learned) < 1e-4 < 0.01 < gap(row, tiny_model(context=4096))


def test_an_episode_that_broke_counts_in_no_mean_and_moves_nothing(tmp_path):
    Graded.broken = frozenset({2, 3})  # the second episode, and the second attempt at it
    played = rollouts()
    trainer = trainer_of(played, tmp_path)
    trainer.train()
    assert [episode.fault is not None for episode in played.played] == [False, True, False, False]
    (entry,) = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    scores = [episode.score for episode in played.played if episode.fault is None]
    assert entry["reward"] == pytest.approx(sum(scores) / 3)
    assert (entry["episodes/broken"], entry["episodes/truncated"]) == (0.25, 0.75)
    advantages = list(trainer._logs["advantages"])
    assert advantages[1] == 0
    assert sum(advantages) == pytest.approx(0, abs=1e-5)
    assert any(advantages)


def test_where_all_broke_nothing_is_learned(tmp_path):
    Graded.broken = frozenset(range(100))
    played = rollouts()
    trainer = trainer_of(played, tmp_path)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    (entry,) = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    assert (entry["grad_norm"], entry["reward"], entry["episodes/broken"]) == (0, None, 1)
    assert all(map(torch.equal, before, trainer.model.parameters()))


def test_a_row_in_which_nothing_was_sampled_is_one_masked_token(tmp_path):
    played = rollouts(context=10)
    (row, *_) = rows_of(played([MUG] * GROUP, trainer_of(played, tmp_path)))
    assert (len(row["prompt_ids"]), len(row["completion_ids"]), row["env_mask"]) == (1, 1, [0])
    assert (row["score"], row["end"]) == (0.0, "truncated")


def test_weights_are_published_to_an_engine_that_runs_elsewhere(tmp_path):
    encoder = tiny_encoder()
    other = TransformersEngine(tiny_model(seed=1, context=4096), name="elsewhere", decode=encoder.text, slots=4)
    played = rollouts(model=LocalModel(other, encoder))
    trainer = trainer_of(played, tmp_path)
    assert gap(rows_of(played([MUG] * GROUP, trainer))[0], trainer.model) < 1e-4
    assert list(tmp_path.iterdir()) == []
    other.close()


def test_what_cannot_be_played_is_refused_in_one_line(tmp_path):
    with pytest.raises(UsageError, match="just once a turn"):
        rollouts(agent="self-refine")
    played = rollouts()
    trainer = trainer_of(played, tmp_path)
    with pytest.raises(UsageError, match=r"a prompt is a task's id .*, not 'Bring me a mug'"):
        played(["Bring me a mug"] * GROUP, trainer)
    trainer.use_vllm = True
    with pytest.raises(UsageError, match="leave use_vllm off"):
        played([MUG] * GROUP, trainer)
