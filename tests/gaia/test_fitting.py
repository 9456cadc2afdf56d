"""A critic that learns one token: as a tree it learns what it would alone; what it learns it says; and it resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("peft")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import PeftModel
from transformers import PhimoeConfig, PhimoeForCausalLM, TrainerCallback

from align_echo.critic.ask import WORDS
from align_echo.errors import UsageError
from align_echo.gaia.fit.learning import (
    FitSettings,
    VerdictQuestion,
    check_trees,
    learn,
    questions,
    read_verdicts,
    steps,
    tree_logits,
    verdict_tokens,
)
from align_echo.train.tree_attention import BLOCK, over_trees, trees
from tests.gaia.test_examples import example
from tests.models.local.tiny import tiny_encoder, tiny_model

CPU = torch.device("cpu")
ENCODER = tiny_encoder()
CONVERSATIONS = st.lists(st.lists(st.integers(3, 60), min_size=1, max_size=12), min_size=1, max_size=8)


def alone(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    """The logits after a conversation by itself: no mask, no padding."""
    logits: torch.Tensor = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    return logits


@settings(max_examples=15, deadline=None)
@given(CONVERSATIONS)
def test_a_tree_has_the_logits_and_gradients_of_its_conversations_alone(conversations):
    model = tiny_model().double()
    (one,) = trees(conversations, most_tokens=1000)
    with over_trees(model):
        together = tree_logits(model, one, CPU)
    by_row = torch.stack([alone(model, conversations[row]) for row in one.rows])
    assert torch.allclose(together, by_row, atol=1e-9)
    weights = torch.randn(together.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = torch.autograd.grad((together * weights).sum(), list(model.parameters()))
    wanted = torch.autograd.grad((by_row * weights).sum(), list(model.parameters()))
    for mine, other in zip(found, wanted, strict=True):
        assert (mine - other).abs().max() <= 1e-6 * max(1.0, float(other.abs().max()))


def test_a_tree_of_many_blocks_has_the_logits_of_its_conversations_alone():
    model = tiny_model(context=1024).double()
    dice = torch.Generator().manual_seed(0)
    start = torch.randint(3, 60, (600,), generator=dice).tolist()
    conversations = [start[:end] + torch.randint(3, 60, (100,), generator=dice).tolist() for end in (0, 90, 450, 600)]
    (one,) = trees(conversations, most_tokens=2000)
    assert len(one.ids) > 3 * BLOCK["cpu"]
    with over_trees(model):
        together = tree_logits(model, one, CPU)
    by_row = torch.stack([alone(model, conversations[row]) for row in one.rows])
    assert torch.allclose(together, by_row, atol=1e-9)


def test_a_model_attends_in_its_own_way_again_when_trees_are_done():
    model = tiny_model()
    ids = list(range(5, 45))
    before = alone(model, ids)
    check_trees(model, ids, CPU)
    assert torch.equal(alone(model, ids), before)


def test_a_model_that_does_not_look_at_all_that_came_before_is_refused():
    model = tiny_model()
    ids = list(range(5, 45))
    check_trees(model, ids, CPU)
    kept = model.model.forward

    def only_the_last(**given: torch.Tensor) -> object:
        return kept(**(given | {"position_ids": torch.arange(given["input_ids"].shape[1])[None]}))

    model.model.forward = only_the_last
    with pytest.raises(UsageError, match="as a tree"):
        check_trees(model, ids, CPU)


def test_a_window_that_only_a_long_conversation_meets_is_refused_where_there_is_one(tmp_path):
    config = PhimoeConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        vocab_size=tiny_model().config.vocab_size, num_local_experts=2, num_experts_per_tok=1, sliding_window=100,
    )  # fmt: skip
    model = PhimoeForCausalLM(config)
    model.train(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    long = VerdictQuestion(ids=(*asked()[0].ids, *[5] * 200, *asked()[0].ids), target=0, task="a", episode="a")
    with pytest.raises(UsageError, match="as a tree"):
        learn(model, ENCODER, [*asked(), long], SETTINGS, tmp_path)
    check_trees(model, long.ids[:64], CPU)


def asked() -> list[VerdictQuestion]:
    """Whether an action is right can be told from its first word."""
    words = {"go": "correct", "sing": "wrong", "take": "correct", "dance": "wrong"}
    made = [
        example(f"task {task}", f"{word} {task}", nearer=label) for task in range(12) for word, label in words.items()
    ]
    return questions(made, ENCODER, "nearer", longest=4096)


SETTINGS = FitSettings(weights="full", lr=5e-3, epochs=12, batch_size=8, tokens_per_tree=600, save_every=5)


def test_questions_that_weigh_nothing_move_no_weight(tmp_path):
    settings = SETTINGS.model_copy(update={"epochs": 1, "weight_decay": 0.1})
    idle = [replace(each, task="idle", episode=f"idle {number}", weight=0.0) for number, each in enumerate(asked())]
    with pytest.raises(UsageError, match="no labelled action"):
        learn(tiny_model(), ENCODER, idle, settings, tmp_path / "none")
    without, among = (
        learn(tiny_model(), ENCODER, given, settings, tmp_path / str(len(given)))
        for given in (asked(), [*asked(), *idle])
    )
    assert all(map(torch.equal, without.parameters(), among.parameters()))


def right(model: torch.nn.Module) -> float:
    said = read_verdicts(model, ENCODER, [question.ids for question in asked()], tokens_per_tree=600, device=CPU)
    hits = [verdict == WORDS[one.target] for (verdict, _), one in zip(said, asked(), strict=True)]
    assert all((logit > 0) == (verdict == "correct") for verdict, logit in said if verdict)
    return sum(hits) / len(hits)


@pytest.mark.long
def test_what_it_learns_it_says_and_nothing_else_than_the_verdict_is_learned(tmp_path: Path):
    model = tiny_model(context=4096)
    assert right(model) < 0.6
    assert right(learn(model, ENCODER, asked(), SETTINGS, tmp_path)) > 0.9


def test_what_weighs_more_is_learned_where_actions_say_both(tmp_path: Path):
    made = [replace(question, ids=asked()[0].ids, weight=1.8 if question.target == 0 else 0.2) for question in asked()]
    learned = learn(tiny_model(context=4096), ENCODER, made, SETTINGS, tmp_path)
    ((verdict, logit),) = read_verdicts(learned, ENCODER, [made[0].ids], tokens_per_tree=600, device=CPU)
    assert (verdict, round(torch.tensor(logit).sigmoid().item(), 1)) == ("correct", 0.9)


def test_lora_changes_the_adapter_alone(tmp_path: Path):
    model = tiny_model(context=4096)
    before = {name: one.clone() for name, one in model.named_parameters()}
    learner = learn(model, ENCODER, asked(), SETTINGS.model_copy(update={"weights": "lora", "epochs": 1}), tmp_path)
    assert isinstance(learner, PeftModel)
    changed = [name for name, one in learner.named_parameters() if "lora_B" in name and one.abs().sum() > 0]
    assert changed
    for full, one in learner.named_parameters():
        if ".lora_" not in full:
            assert torch.equal(one, before[full.removeprefix("base_model.model.").replace("base_layer.", "")])


class StopAt(TrainerCallback):
    """Ends a run after a step, as a stop from outside would after a checkpoint."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= 5


@pytest.mark.long
def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path):
    whole = learn(tiny_model(context=4096), ENCODER, asked(), SETTINGS, tmp_path / "whole")
    learn(tiny_model(context=4096), ENCODER, asked(), SETTINGS, tmp_path / "cut", callbacks=[StopAt()])
    resumed = learn(tiny_model(context=4096), ENCODER, asked(), SETTINGS, tmp_path / "cut", resume=True)
    for (name, one), other in zip(whole.named_parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other), name


def test_steps_learn_from_whole_episodes_in_another_order_every_epoch():
    made = steps(asked(), SETTINGS)
    per_epoch = len(made) // SETTINGS.epochs
    first, second = made[:per_epoch], made[per_epoch : 2 * per_epoch]
    assert sorted(index for step in first for index in step) == list(range(len(asked())))
    assert first != second
    assert all(len(step) == 8 for step in first)
    assert all(len({asked()[place].episode for place in step}) == 2 for step in first)


def test_questions_end_where_the_verdicts_begin_to_differ_and_long_ones_are_left_out():
    start, words = verdict_tokens(ENCODER)
    made = [example(nearer="wrong"), example("b", nearer=None), example("c", "word " * 200, nearer="correct")]
    (question,) = questions(made, ENCODER, "nearer", longest=200)
    assert question.weight == 1
    assert question.ids[len(question.ids) - len(start) :] == start
    assert ENCODER.plain("wrong")[len(start)] == words[question.target]
    weighed = [example("b", "go", nearer="correct"), example("b", "sing", nearer="wrong"), *made]
    weights = [
        (question.task, question.weight)
        for question in questions(weighed, ENCODER, "nearer", longest=200, balance="weighed")
    ]
    assert weights == [("b", 1), ("b", 1), ("a", 0)]
    with pytest.raises(UsageError, match="collect with more --candidates"):
        questions(made, ENCODER, "nearer", longest=200, balance="weighed")
    with pytest.raises(UsageError, match="no labelled action"):
        learn(tiny_model(), ENCODER, [], SETTINGS, Path("nowhere"))
