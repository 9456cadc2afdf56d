"""Supervised training: which tokens count, in which order chats come, that it learns, and that it resumes exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from align_echo.errors import UsageError
from align_echo.models.local.encoding import ChatEncoder
from align_echo.train.arguments import MuonWithAdamW, split_parameters
from align_echo.train.sft import (
    Demonstration,
    EncodedChat,
    SftSettings,
    batches,
    build_optimizer,
    encode,
    fine_tune,
    pad,
    schedule,
    weighted_loss,
)
from align_echo.types import Message
from studies.pocket.build import train_tokenizer


def chat(length: int, kind: str = "x") -> EncodedChat:
    return EncodedChat(np.arange(length, dtype=np.int32) % 50, np.ones(length, dtype=np.float32), kind)


def model(seed: int = 0) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            head_dim=16, intermediate_size=32, max_position_embeddings=128, tie_word_embeddings=True,
        )
    )  # fmt: skip


def backward(model: Qwen3ForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> None:
    torch.autograd.backward(weighted_loss(model(input_ids=ids).logits, ids, weights))


def demonstration() -> Demonstration:
    messages = (
        Message(role="system", content="be brief"),
        Message(role="user", content="a mug"),
        Message(role="assistant", content="go"),
        Message(role="user", content="no"),
        Message(role="assistant", content="take mug"),
    )
    return Demonstration(kind="test", messages=messages, weights=(0.0, 1.0))


class StopAt(TrainerCallback):
    """Cuts a run as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self._step:
            raise KeyboardInterrupt


def test_the_loss_is_the_weighted_mean_of_what_each_token_costs():
    logits = torch.zeros(1, 3, 4)
    logits[0, 0, 2] = 2.0
    ids = torch.tensor([[1, 2, 3]])
    weights = torch.tensor([[9.0, 1.0, 3.0]])
    first = math.log(math.exp(2) + 3) - 2
    assert weighted_loss(logits, ids, weights).item() == pytest.approx((first + 3 * math.log(4)) / 4, abs=1e-6)


def test_tokens_without_weight_do_not_touch_the_gradient():
    network = model()
    ids = torch.tensor([[5, 6, 7, 8]])
    weights = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    backward(network, ids, weights)
    before = network.model.embed_tokens.weight.grad.clone()
    network.zero_grad()
    other = torch.tensor([[5, 6, 7, 40]])
    backward(network, other, weights)
    assert torch.equal(before, network.model.embed_tokens.weight.grad)


def test_a_batch_without_any_weight_costs_nothing():
    ids = torch.tensor([[1, 2]])
    assert weighted_loss(torch.randn(1, 2, 4), ids, torch.zeros(1, 2)).item() == 0.0


def test_a_mean_is_over_weights_however_small_and_not_over_what_padding_would_cost():
    ids, logits = torch.tensor([[1, 2, 0]]), torch.zeros(1, 3, 4)
    logits[..., 0] = -math.inf  # a word that a model rules out
    loss = weighted_loss(logits, ids, torch.tensor([[0.0, 1e-12, 0.0]]))
    assert loss.item() == pytest.approx(math.log(3))


def test_replies_count_by_their_weight_others_little_and_instructions_not_at_all():
    shown = demonstration()
    tokenizer = train_tokenizer([shown], size=400)
    encoder = ChatEncoder(tokenizer)
    encoded = encode(shown, encoder, context_weight=0.1)
    spans = encoder.supervised(shown.messages).turns
    instructions = len(encoder.opening(shown.messages[:1]))
    assert set(encoded.weights[:instructions]) == {0.0}
    assert set(encoded.weights[spans[0][0] : spans[0][1]]) == {0.0}
    assert set(encoded.weights[spans[1][0] : spans[1][1]]) == {1.0}
    assert encoded.weights[spans[0][0] - 1] == pytest.approx(0.1)
    assert encoder.text(list(encoded.ids[spans[1][0] : spans[1][1]])) == "take mug"


def test_every_chat_comes_once_and_batches_keep_to_their_size():
    chats = [chat(length) for length in [3, 50, 7, 7, 20, 33, 4, 90, 12]]
    batched = batches(chats, tokens_per_batch=60, seed=3)
    assert sorted(len(chat.ids) for batch in batched for chat in batch) == sorted(len(chat.ids) for chat in chats)
    assert all(len(batch) == 1 or len(batch) * max(len(chat.ids) for chat in batch) <= 60 for batch in batched)


def test_the_parts_of_the_lead_come_once_each_before_all_else():
    lead, chats = [[chat(5), chat(6)], [chat(7)]], [chat(length) for length in range(10, 30)]
    planned = schedule(chats, SftSettings(epochs=1.5, tokens_per_batch=60), lead)
    shown = [len(chat.ids) for batch in planned for chat in batch]
    assert (sorted(shown[:2]), shown[2]) == ([5, 6], 7)
    assert sorted(set(shown[3:])) == list(range(10, 30))
    assert 20 < len(shown[3:]) < 40


def test_rows_are_padded_on_the_right_with_weight_zero():
    padded = pad([chat(2), chat(4)])
    assert padded["input_ids"].tolist() == [[0, 1, 0, 0], [0, 1, 2, 3]]
    assert padded["weights"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_muon_takes_the_hidden_matrices_and_adamw_the_rest():
    network = model()
    hidden, rest = split_parameters(network)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    assert all("proj" in names[id(parameter)] for parameter in hidden)
    assert {"model.embed_tokens.weight", "model.norm.weight"} <= {names[id(parameter)] for parameter in rest}
    assert len(hidden) + len(rest) == len(list(network.parameters()))


def test_a_frozen_parameter_is_in_neither():
    network = model()
    network.model.embed_tokens.weight.requires_grad_(False)
    assert all(network.model.embed_tokens.weight is not each for part in split_parameters(network) for each in part)


def test_the_optimizer_goes_on_exactly_from_its_saved_state():
    ids = torch.arange(12).view(1, 12)

    def steps(model: Qwen3ForCausalLM, optimizer: MuonWithAdamW, count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            backward(model, ids, torch.ones(1, 12))
            optimizer.step()

    straight = model()
    steps(straight, MuonWithAdamW(straight), 4)
    halved = model()
    first = MuonWithAdamW(halved)
    steps(halved, first, 2)
    second = MuonWithAdamW(halved)
    second.load_state_dict(first.state_dict())
    steps(halved, second, 2)
    pairs = zip(straight.parameters(), halved.parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in pairs)


SETTINGS = SftSettings(epochs=12, tokens_per_batch=64, bf16=False, log_every=1000, save_every=6, adamw_lr=1e-2)


def test_it_learns_what_it_is_shown(tmp_path):
    network = model()
    batch = pad([chat(16)])
    before = weighted_loss(network(input_ids=batch["input_ids"]).logits, batch["input_ids"], batch["weights"]).item()
    fine_tune(network, [chat(16)] * 4, SETTINGS, tmp_path)
    network.train(mode=False)
    after = weighted_loss(network(input_ids=batch["input_ids"]).logits, batch["input_ids"], batch["weights"]).item()
    assert after < before * 0.6


def answered(*ids: int) -> EncodedChat:
    """A chat whose last two tokens are the reply."""
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[-2:] = (1.0, 0.5)
    return EncodedChat(np.asarray(ids, dtype=np.int32), weights, "answered")


def test_chats_that_begin_alike_are_read_as_one_tree_and_teach_the_same(tmp_path):
    chats = [answered(*range(1, 30), *reply) for reply in ((7, 8), (7, 9), (4, 5, 6, 7))]
    settings = SETTINGS.model_copy(update={"epochs": 1, "tokens_per_batch": 120, "muon_lr": 0.0, "warmup": 0.0})
    read: list[int] = []
    trained = []
    for share in (False, True):
        network = model()
        network.model.register_forward_pre_hook(
            lambda module, given, options: read.append(options["input_ids"].numel()), with_kwargs=True
        )
        fine_tune(network, chats, settings.model_copy(update={"share_prefixes": share}), tmp_path / str(share))
        trained.append(network)
    assert read == [99, 29 + 3 + 4]
    pairs = list(zip(trained[0].parameters(), trained[1].parameters(), strict=True))
    assert all(torch.allclose(left, right, atol=1e-5) for left, right in pairs)
    assert not torch.equal(trained[1].model.norm.weight, model().model.norm.weight)


def test_without_a_rate_for_muon_adamw_takes_all():
    network = model()
    network.lm_head.weight.requires_grad_(False)
    optimizer = build_optimizer(network, SETTINGS.model_copy(update={"muon_lr": 0.0}))
    (group,) = optimizer.param_groups
    assert {id(each) for each in group["params"]} == {id(p) for p in network.parameters() if p.requires_grad}


def mute(length: int, first: float = 0.0) -> EncodedChat:
    """A chat of which no token is learned, or none but the first, which follows on nothing."""
    weights = np.zeros(length, dtype=np.float32)
    weights[0] = first
    return EncodedChat(np.arange(length, dtype=np.int32), weights, "mute")


def test_chats_of_which_nothing_is_learned_move_no_weight(tmp_path):
    settings = SETTINGS.model_copy(update={"epochs": 2, "tokens_per_batch": 16})
    without, among = model(), model()
    fine_tune(without, [chat(16)], settings, tmp_path / "without")
    fine_tune(among, [mute(9), chat(16), mute(16, first=1.0)], settings, tmp_path / "among")
    assert all(map(torch.equal, without.parameters(), among.parameters()))
    with pytest.raises(UsageError, match="nothing to learn"):
        fine_tune(model(), [mute(9)], settings, tmp_path / "none")


@pytest.mark.long
def test_a_run_that_was_cut_goes_on_to_the_same_weights(tmp_path):
    chats = [chat(length) for length in (16, 14, 12, 10)]
    straight = model()
    fine_tune(straight, chats, SETTINGS, tmp_path / "straight")
    cut = model()
    with pytest.raises(KeyboardInterrupt):
        fine_tune(cut, chats, SETTINGS, tmp_path / "cut", callbacks=[StopAt(8)])
    again = model(seed=5)
    fine_tune(again, chats, SETTINGS, tmp_path / "cut", resume=True)
    pairs = zip(straight.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in pairs)


def test_verdicts_are_one_token_each():
    tokenizer = train_tokenizer([demonstration()], size=400)
    assert [len(tokenizer(word)["input_ids"]) for word in ("correct", "wrong")] == [1, 1]


def test_a_vocabulary_too_small_for_the_verdicts_is_refused():
    with pytest.raises(ValueError, match="ask for more"):
        train_tokenizer([demonstration()], size=262)


def test_a_demonstration_needs_a_weight_for_every_reply():
    with pytest.raises(ValueError, match="2 assistant messages and 1 weights"):
        Demonstration(kind="x", messages=demonstration().messages, weights=(1.0,))
