"""The start of the pocket model: its heads look where they should before anything was learned, far apart too."""

from __future__ import annotations

import pytest
import torch

from align_echo.errors import UsageError
from studies.pocket.build import PocketSettings, new_model


@pytest.fixture(scope="module")
def attention() -> dict[tuple[int, int], torch.Tensor]:
    """Of 300 random tokens said twice: [T, T] by (layer, head)."""
    model = new_model(PocketSettings(), 2048)
    model.set_attn_implementation("eager")
    torch.manual_seed(0)
    ids = torch.randint(10, 2000, (1, 300))
    with torch.no_grad():
        attentions = model(torch.cat([ids, ids], dim=1), output_attentions=True).attentions
    return {(layer, head): attentions[layer][0, head] for layer in (0, 1) for head in range(4)}


def mean_at(weights: torch.Tensor, back: int) -> float:
    """How much of the attention of the second half goes to the token so far back."""
    return float(torch.stack([weights[index, index - back] for index in range(301, 600)]).mean())


def test_the_first_head_looks_one_token_back(attention):
    assert mean_at(attention[0, 0], 1) > 0.6


def test_the_second_head_looks_behind_the_earlier_occurrence(attention):
    assert mean_at(attention[1, 0], 299) > 0.8


def test_the_third_head_looks_at_the_earlier_occurrence_and_at_itself(attention):
    assert mean_at(attention[1, 2], 300) > 0.15
    assert mean_at(attention[1, 2], 300) + mean_at(attention[1, 2], 0) > 0.8


def test_other_heads_know_nothing_yet(attention):
    assert max(mean_at(attention[1, 1], back) for back in (1, 299, 300)) < 0.05


def test_what_followed_before_is_likelier_than_chance():
    model = new_model(PocketSettings(), 2048)
    torch.manual_seed(0)
    ids = torch.randint(10, 2000, (1, 60))
    with torch.no_grad():
        logits = model(torch.cat([ids, ids], dim=1)).logits[0, 61:-1]
    right = logits.argmax(-1) == ids[0, 2:]
    assert right.float().mean() > 0.2


def test_the_same_seed_gives_the_same_weights():
    first, same, other = (new_model(PocketSettings(seed=seed), 600).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_a_model_without_room_is_refused():
    with pytest.raises(UsageError, match="lookups need 2 layers"):
        new_model(PocketSettings(layers=1), 600)
    with pytest.raises(UsageError, match="twice as many query heads"):
        new_model(PocketSettings(key_value_heads=4), 600)
