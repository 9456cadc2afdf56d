"""What rows begin with alike is computed once, and nothing that is learned changes by it."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig
from transformers import MistralConfig, MistralForCausalLM, TrainingArguments

from align_echo.tokens import TokenSequence
from align_echo.train.backbone import ROLES, AdapterModels, Backbone, WholeModels
from align_echo.train.batching import batches
from align_echo.train.forward import CHECKED_IDS, token_logprobs, why_not_shared
from align_echo.train.objective import ObjectiveSettings
from align_echo.train.rows import RolloutBatch, Row
from align_echo.train.signals import Signals
from align_echo.train.trainer import RoleTrainer, StepSettings
from tests.models.local.tiny import tiny_model

IDS = torch.tensor(CHECKED_IDS)


def tokens(*ids: int, sampled: int = 1) -> TokenSequence:
    """A sequence, the last `sampled` tokens of which are the model's."""
    start = len(ids) - sampled
    mask = (0,) * start + (1,) * sampled
    return TokenSequence(ids, mask, tuple(-1.0 * value for value in mask), ((start, len(ids)),) if sampled else ())


def computed(*rows: TokenSequence, size: int = 1000, share: bool = True) -> list[tuple[int, bool, list[int]]]:
    """Of each batch the tokens that are computed, whether it is a tree, and its rows."""
    rows_made = [Row(row, "policy", "g", 0.0) for row in rows]
    numbers = [float(number) for number in range(len(rows))]
    return [
        (batch.computed, batch.tree is not None, batch.advantages.flatten().int().tolist())
        for batch in batches(rows_made, numbers, numbers, tokens_per_batch=size, share=share)
    ]


few_ids = st.lists(st.integers(3, 4), min_size=2, max_size=12)
some_sequences = st.lists(
    st.tuples(few_ids, st.integers(0, 11)).map(
        lambda drawn: tokens(*drawn[0], sampled=min(drawn[1], len(drawn[0]) - 1))
    ),
    min_size=1,
    max_size=10,
)


# ---------------------------------------------------------------- which rows


def test_rows_of_one_prompt_are_computed_once_up_to_where_they_part():
    prompt = range(10, 20)
    assert computed(tokens(*prompt, 30), tokens(*prompt, 40, 41, sampled=2)) == [(13, True, [0, 1])]


def test_what_was_sampled_alike_is_shared_as_far_as_it_is_alike_with_what_follows_it():
    rows = [tokens(1, 2, 7, 8, *end, sampled=len(end) + 2) for end in ((9, 5), (9, 6), (4, 5))]
    assert computed(*rows) == [(4 + 1 + 2 + 2, True, [2, 0, 1])]


def test_rows_of_two_tasks_share_what_both_begin_with_and_their_own_prompts():
    first, second = (1, 2, 3, 4, 5, 6), (1, 2, 7, 8, 9, 10)
    rows = [tokens(*prompt, 30 + number) for number in range(3) for prompt in (first, second)]
    assert computed(*rows) == [(2 + 4 + 4 + 6, True, [0, 2, 4, 1, 3, 5])]
    assert [(size, tree) for size, tree, _ in computed(*rows, size=11)] == [(9, True), (9, True)]


def test_rows_that_share_little_are_computed_by_themselves():
    rows = [tokens(1, 2, 3, *range(10 + number, 40 + number), sampled=30) for number in range(4)]
    assert computed(*rows) == [(4 * 33, False, [0, 1, 2, 3])]


def test_nothing_is_shared_where_nothing_is_alike_or_none_was_asked_for():
    assert computed(tokens(1, 2), tokens(3, 4)) == [(4, False, [0, 1])]
    assert computed(tokens(1, 2, 3), tokens(1, 2, 4), share=False) == [(6, False, [0, 1])]


@given(some_sequences, st.integers(1, 60))
def test_every_row_is_in_one_batch_that_fits_and_trees_compute_less(rows, size):
    computed_ids = computed(*rows, size=size)
    assert sorted(row for _, _, group in computed_ids for row in group) == list(range(len(rows)))
    for count, tree, group in computed_ids:
        assert count <= size or len({rows[row].ids for row in group}) == 1
        assert not tree or count < 0.85 * sum(len(rows[row].ids) for row in group)


# ---------------------------------------------------------------- the same numbers


@functools.cache
def exact_model(attention: str) -> Any:
    """In float64."""
    model: Any = tiny_model(kv_heads=2).double()
    model.set_attn_implementation(attention)
    return model


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@settings(max_examples=30)
@given(rows=some_sequences, size=st.integers(10, 60))
def test_log_probabilities_in_a_tree_are_those_of_whole_rows(attention, rows, size):
    model = exact_model(attention)
    rows_made = [Row(row, "policy", "g", 0.0) for row in rows]
    places = [float(index) for index in range(len(rows))]
    for batch in batches(rows_made, places, places, tokens_per_batch=size, share=True):
        logprobs, entropies = token_logprobs(model, batch.ids, batch.mask, tree=batch.tree)
        for row, index in enumerate(batch.advantages.flatten().int().tolist()):
            ids = torch.tensor(rows[index].ids)
            all_logprobs = model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
            here, own = batch.mask[row].bool(), torch.tensor(rows[index].mask[1:]).bool()
            wanted = all_logprobs.gather(-1, ids[1:, None]).squeeze(-1)[own]
            assert torch.allclose(logprobs[row][here].double(), wanted, atol=1e-9)
            spread = -(all_logprobs.exp() * all_logprobs).sum(-1)
            assert torch.allclose(entropies[row][here].double(), spread[own], atol=1e-9)


def harvest(number: int) -> RolloutBatch:
    """Prompts by role and task; replies of one to three tokens."""
    rows = []
    for index, role in enumerate(ROLES):
        for task in range(2):
            prompt = range(10 + 20 * index, 20 + 20 * index + task)
            for sample in range(3):
                reply = (60 + sample, 70 + number, 80)[: sample + 1]
                sequence = tokens(*prompt, *reply, sampled=len(reply))
                rows.append(Row(sequence, role, str(task), float(sample == 1)))
    return RolloutBatch(tuple(rows))


def whole_models() -> WholeModels:
    return WholeModels({"policy": tiny_model(), "critic": tiny_model(seed=1)}, reference=True)


def adapters() -> AdapterModels:
    torch.manual_seed(0)
    return AdapterModels(tiny_model(), LoraConfig(r=4, target_modules="all-linear"))


def learned(folder: Path, backbone: Backbone, *, share: bool) -> tuple[torch.Tensor, float]:
    """All weights [P] after some steps, and the tokens that a step computed."""
    seen: list[Signals] = []
    RoleTrainer(
        backbone,
        harvest,
        StepSettings(objective=ObjectiveSettings(beta=0.1), updates=2, share_prefixes=share),
        TrainingArguments(str(folder), max_steps=4, use_cpu=True, report_to=[], save_strategy="no"),
        optimizer=torch.optim.SGD([weight for role in backbone.kept for weight in backbone.weights(role)], 0.1),
        publish=lambda: None,
        watch=lambda step, signals: seen.append(signals),
    ).train()
    return torch.cat([parameter.detach().flatten() for parameter in backbone.module.parameters()]), seen[0][
        "trained_tokens"
    ]


@pytest.mark.long
@pytest.mark.parametrize("make", [whole_models, adapters])
def test_weights_end_where_they_do_without_shared_prefixes_and_less_is_computed(make, tmp_path):
    start = torch.cat([parameter.detach().flatten() for parameter in make().module.parameters()])
    (plain, tokens_plain), (weights, tokens_found) = (learned(tmp_path, make(), share=share) for share in (False, True))
    assert float((plain - start).abs().max()) > 1e-3
    assert torch.allclose(plain, weights, atol=1e-6)
    assert tokens_found < 0.5 * tokens_plain


# ---------------------------------------------------------------- models that cannot


def test_a_model_with_a_sliding_window_computes_whole_rows(tmp_path):
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        sliding_window=4,
    )
    model: Any = MistralForCausalLM(config)
    assert "all tokens before" in why_not_shared(model, IDS)
    with pytest.warns(UserWarning, match="do not share") as warned:
        _, counted = learned(tmp_path, WholeModels({"policy": model, "critic": model}, reference=True), share=True)
    assert sum("do not share" in str(warning.message) for warning in warned) == 1
    assert counted == sum(len(row.tokens.ids) for row in harvest(0).rows) + padding()


def padding() -> int:
    """Of the harvest in one batch a role."""
    lengths = [[len(row.tokens.ids) for row in harvest(0).rows if row.role == role] for role in ROLES]
    return sum(max(length) * len(length) - sum(length) for length in lengths)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")
def test_gradient_checkpointing_goes_on_with_whole_rows(tmp_path):
    plain, _ = learned(tmp_path, adapters(), share=False)
    backbone = adapters()
    backbone.activate("policy").get_base_model().gradient_checkpointing_enable({"use_reentrant": False})
    with pytest.warns(UserWarning, match="gradient checkpointing computes again"):
        weights, _ = learned(tmp_path, backbone, share=True)
    assert torch.allclose(plain, weights, atol=1e-6)


def test_a_model_that_can_is_not_changed_by_being_asked():
    model = tiny_model()
    model.train(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert why_not_shared(model, IDS) == ""
    assert model.training


def test_a_model_that_makes_something_else_of_a_tree_is_found_out():
    model = tiny_model()

    def blurred(module: Any, arguments: Any, named: Any, output: Any) -> Any:
        if "tree_blocks" in named:
            output.last_hidden_state = output.last_hidden_state + 1
        return output

    model.model.register_forward_hook(blurred, with_kwargs=True)
    assert "what it makes of a token changes" in why_not_shared(model, IDS)


@pytest.mark.parametrize(("change", "shares"), [(1e-4, True), (1e-2, False)])
def test_a_model_may_round_as_coarsely_in_a_tree_as_by_itself(change: float, shares: bool):
    """SmolLM2 changes its states of tokens unseen in training by 7e-5 of the largest with the length of a text."""
    model = tiny_model()

    def rounded(module: Any, arguments: Any, output: Any) -> Any:
        states = output.last_hidden_state
        if states.shape[1] < len(IDS):
            output.last_hidden_state = states + change * states.abs().max()
        return output

    model.model.register_forward_hook(rounded)
    assert (why_not_shared(model, IDS) == "") == shares
