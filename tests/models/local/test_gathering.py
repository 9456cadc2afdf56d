"""An engine waits a moment for conversations that were answered together, where few are back, and not in vain."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.transformers_engine import GATHERING, LEAST_PATIENCE, Crowd, TransformersEngine
from tests.models.local.test_transformers_engine import WAIT
from tests.models.local.tiny import tiny_model

ALL = 8


def requests(tokens: int) -> list[TokenRequest]:
    """Requests of all conversations; they share nothing."""
    return [TokenRequest((3 + number, 9, 9), SamplingConfig(max_tokens=tokens, seed=number)) for number in range(ALL)]


@pytest.mark.parametrize("back", [ALL, 1])
def test_conversations_that_come_back_in_a_moment_are_drawn_together(monkeypatch, back):
    """The pauses of the wait are where the others ask: all at the first, or nobody at all."""
    engine = TransformersEngine(tiny_model(), name="tiny", decode=lambda ids: "", slots=ALL)
    for future in [engine.submit(request) for request in requests(3)]:
        future.result(WAIT)
    engine._crowd.count(ALL, 5.0)  # as after a long step for all
    futures: list[Future[TokenReply]] = []
    pauses: list[float] = []
    rows: list[int] = []
    step = engine._step

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            futures.extend(engine.submit(request) for request in requests(2)[1:back])

    def watched() -> None:
        rows.append(len(engine._rows))
        step()

    monkeypatch.setattr("align_echo.models.local.transformers_engine.time.sleep", pause)
    monkeypatch.setattr(engine, "_step", watched)
    engine.submit(requests(2)[0]).result(WAIT)
    for future in futures:
        future.result(WAIT)
    engine.close()
    assert rows[0] == back
    assert pauses


def test_nobody_waits_where_half_are_there_or_where_conversations_come_one_by_one():
    crowd = Crowd()
    assert not crowd.misses(1)
    crowd.count(1, 0.1)
    assert not crowd.misses(1)
    crowd.count(8, 0.1)
    assert [crowd.misses(busy) for busy in (1, 3, 4, 8)] == [True, True, False, False]
    for _ in range(600):
        crowd.count(2, 0.1)
    assert not crowd.misses(2)  # the others are gone


def test_a_wait_takes_two_steps_at_most_and_ever_less_in_vain():
    crowd = Crowd()
    assert crowd.seconds == 0
    crowd.count(8, 0.01)
    assert crowd.seconds == pytest.approx(0.02)
    crowd.count(8, 3.0)
    assert crowd.seconds == GATHERING
    for _ in range(20):
        crowd.waited(in_vain=True)
    assert crowd.seconds == GATHERING * LEAST_PATIENCE
    for _ in range(20):
        crowd.waited(in_vain=False)
    assert crowd.seconds == GATHERING
