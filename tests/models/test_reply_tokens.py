"""Most tokens of a reply, by role."""

from __future__ import annotations

from typing import Any

import pytest

from align_echo.align.generation import GenerationConfig, plan_generation
from align_echo.errors import UsageError
from align_echo.evaluate.plan import EvaluationConfig, EvaluationPlan, plan_evaluation
from align_echo.models.choosing import load_model, read_name
from align_echo.models.drawing import choose
from align_echo.models.reply_tokens import PLAYING, ROLES, read_reply_tokens, with_reply_tokens
from align_echo.types import Message, WordChoice
from tests.align.endpoint import Reply, serve


def test_a_number_is_for_all_but_a_judge_and_a_role_has_its_own():
    assert read_reply_tokens(None, ROLES) == {}
    assert read_reply_tokens(300, ROLES) == {"agent": 300, "analyzer": 300, "optimizer": 300}
    assert read_reply_tokens("agent=24, judge=99", ROLES) == {"agent": 24, "judge": 99}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("12", "at least 16"), ("agent", "is no number"), ("agent=x", "is no number"),
        ("agnt=99", "did you mean agent"),
        ("agent=99,agent=98", "each once"), ("analyzer=999", "asks no analyzer"), ("judge=99", "no judge that writes"),
    ],
)  # fmt: skip
def test_what_no_role_can_have_is_refused(text, problem):
    with pytest.raises(UsageError, match=problem):
        read_reply_tokens(text, PLAYING)


def evaluation(**options: Any) -> EvaluationPlan:
    return plan_evaluation(EvaluationConfig(env="alfworld", tasks=1, base_url="http://127.0.0.1:9/v1", **options))


def test_the_judge_writes_within_its_own_limit():
    plan = evaluation(model="m", best_of=2, temperature=1, reasoning=True, max_tokens="agent=30,judge=60")
    assert (plan.max_tokens, plan.judge_tokens) == (30, 60)
    refined = evaluation(model="m", refine_rounds=1, critic="self", temperature=1, max_tokens="judge=70")
    assert (refined.max_tokens, refined.judge_tokens) == (None, 70)


def test_an_endpoints_entry_gives_limits_that_the_option_replaces(tmp_path, monkeypatch):
    file = tmp_path / "endpoints.toml"
    file.write_text('[lab]\nurl = "http://lab:1/v1"\nmax_tokens = {agent = 40, analyzer = 500}\n')
    monkeypatch.setenv("ALIGN_ECHO_ENDPOINTS", str(file))
    plan = plan_evaluation(EvaluationConfig(env="alfworld", tasks=1, model="m", base_url="lab"))
    assert plan.max_tokens == 40
    options: dict[str, Any] = {"env": "alfworld", "model": "m", "backend": "hybrid", "base_url": "lab"}
    made = plan_generation(GenerationConfig(**options, max_tokens="agent=99"))
    assert [made.reply_tokens(role) for role in ROLES[:3]] == [99, 500, None]
    with pytest.raises(UsageError, match=r"the analyzer needs 256 at least, not 99; .* alone is agent=99"):
        plan_generation(GenerationConfig(**options, max_tokens=99))


def test_a_judge_in_one_word_thinks_within_its_own_limit():
    plan = evaluation(model="m", best_of=2, temperature=1, max_tokens="agent=30,judge=60")
    assert plan.critic is not None
    assert (plan.max_tokens, plan.critic.reply_tokens("judge")) == (30, 60)
    with pytest.raises(UsageError, match="no judge"):
        evaluation(model="m", max_tokens="judge=60")


def test_a_negative_number_is_too_small():
    for text in ("-3", "agent=-3", -3):
        with pytest.raises(UsageError, match="at least 16, not -3"):
            read_reply_tokens(text, PLAYING)


def test_a_judge_that_thinks_gets_the_tokens_of_its_name():
    cut = Reply("<think>well", finish_reason="length")
    with serve({"m": [cut, cut, "<think>well</think>wrong"]}) as endpoint:
        name = with_reply_tokens(read_name("m", endpoint.url), "judge", {"judge": 99})
        (answer,) = choose(load_model(name), [[Message(role="user", content="x")]], ("correct", "wrong"))
    assert isinstance(answer, WordChoice)
    assert answer.said == "wrong"
    assert [request["max_tokens"] for request in endpoint.asked("m")][-1] == 99
