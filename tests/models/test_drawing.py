"""Several replies to one conversation: what each sample number gives alone, from any model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import ModelError
from align_echo.models import ScriptedModel
from align_echo.models.drawing import draw, draw_each, model_for_sample
from align_echo.types import Completion, Message

HELLO = (Message(role="user", content="Hello?"),)


class Numbered:
    """Its reply is its sample number; from `broken` on it fails."""

    name = "numbered"

    def __init__(self, broken: int = 1000, sample: int = 0, samples: list[int] | None = None) -> None:
        self.broken, self.sample, self.samples = broken, sample, [] if samples is None else samples

    def with_sample(self, sample: int) -> Numbered:
        return Numbered(self.broken, sample, self.samples)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        self.samples.append(self.sample)
        if self.sample >= self.broken:
            raise ModelError(f"broke at {self.sample}")
        return Completion(text=f"{self.sample} {temperature} {max_tokens}")


@given(st.lists(st.integers(0, 9), max_size=5), st.sampled_from([0.0, 0.7]))
def test_each_sample_is_what_it_is_alone(samples: list[int], temperature: float) -> None:
    model = Numbered()
    drawn = draw(model, HELLO, samples, temperature=temperature, max_tokens=9)
    alone = [
        model_for_sample(model, sample).complete(HELLO, temperature=temperature, max_tokens=9) for sample in samples
    ]
    assert drawn == alone


def test_a_model_without_samples_is_asked_once_for_each() -> None:
    assert [reply.text for reply in draw(ScriptedModel(["a", "b"]), HELLO, [4, 4], temperature=1)] == ["a", "b"]
    assert draw(ScriptedModel([]), HELLO, [], temperature=1) == []


def test_a_sample_that_fails_fails_all_and_no_more_are_asked_for() -> None:
    model = Numbered(broken=2)
    with pytest.raises(ModelError, match="broke at 2"):
        draw(model, HELLO, [0, 1, 2, 3], temperature=1)
    assert model.samples == [0, 1, 2]
    first, broken, never = draw_each(model, HELLO, [1, 2, 3], temperature=1, max_tokens=5)
    assert isinstance(first, Completion)
    assert "broke at 2" in str(broken)
    assert "not asked" in str(never)
