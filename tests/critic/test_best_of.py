"""Best-of-N by a verdict: who is chosen, what is counted, and a conversation that stays exact to the token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.react import ReAct
from align_echo.agents.vanilla import Vanilla
from align_echo.critic.best_of import BestOf, Judged, chosen, share
from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.models import ScriptedModel
from align_echo.types import AgentReply, Choice, Completion, Message, Tokens, Usage, WordChoice
from tests.agents.views import VIEW, after

Answer = str | Completion | Exception
Verdict = str | Completion | WordChoice | Exception


def probably(correct: float, wrong: float, usage: Usage | None = None) -> WordChoice:
    """What a judge says that holds the two words this probable; what is left goes to a third."""
    left = 1 - correct - wrong
    said = max(("correct", correct), ("wrong", wrong), (None, left), key=lambda one: one[1])[0]
    return WordChoice(said=said, logprobs=(log(correct), log(wrong)), usage=usage or Usage())


def log(probability: float) -> float:
    return math.log(probability) if probability else -math.inf


def judge_of(verdicts: dict[str, Verdict]) -> ScriptedModel:
    """Answers by the action that it is asked about."""

    def answer(messages: Sequence[Message]) -> str | Completion | WordChoice:
        asked = messages[-1].content.partition("<action>")[2].partition("</action>")[0]
        said = verdicts[asked]
        if isinstance(said, Exception):
            raise said
        return said

    return ScriptedModel(answer, name="judge")


def best(replies: list[Answer], verdicts: dict[str, Verdict]) -> tuple[AgentReply, ScriptedModel]:
    judge = judge_of(verdicts)
    agent = Vanilla(ScriptedModel(replies), temperature=1.0)
    return BestOf(agent, len(replies), judge).act(VIEW), judge


def test_of_those_judged_correct_the_most_probable_is_sent() -> None:
    verdicts: dict[str, Verdict] = {
        "look": probably(0.6, 0.4),
        "inventory": probably(0.01, 0.99),
        "go to study": probably(0.5, 0.1),
        "take mug": probably(0.3, 0.0),
    }
    reply, _ = best(["look", "inventory", "go to study", "take mug"], verdicts)
    assert (reply.text, reply.action) == ("go to study", "go to study"), "5 to 1 for it; take mug is not judged correct"
    assert reply.choice == Choice(candidates=4, correct=2, wrong=1, no_verdict=1)


def test_the_verdicts_are_asked_for_at_once() -> None:
    class Judge(ScriptedModel):
        asked = 0

        def choose(
            self, conversations: Sequence[Sequence[Message]], words: Sequence[str]
        ) -> list[WordChoice | ModelError]:
            self.asked += 1
            return [probably(0.9, 0.1) for _ in conversations]

    judge = Judge([])
    reply = BestOf(Vanilla(ScriptedModel(["a", "b", "c"]), temperature=1.0), 3, judge).act(VIEW)
    assert judge.asked == 1
    assert reply.choice == Choice(candidates=3, correct=3)


def test_if_none_is_judged_correct_the_first_is_sent() -> None:
    reply, _ = best(["look", "inventory"], {"look": "wrong", "inventory": "wrong"})
    assert reply.action == "look"


def test_without_probabilities_those_judged_correct_are_tied_and_the_first_is_sent() -> None:
    reply, _ = best(["look", "inventory", "take mug"], {"look": "wrong", "inventory": "correct", "take mug": "correct"})
    assert reply.action == "inventory"


def test_each_distinct_action_is_judged_once_and_one_alone_not_at_all() -> None:
    _, judge = best(["look", "inventory", "look", "look"], {"look": "correct", "inventory": "wrong"})
    assert len(judge.requests) == 2
    reply, judge = best(["look", "look"], {})
    assert (reply.action, judge.requests, reply.choice) == ("look", [], Choice(candidates=2))


def test_what_a_judge_did_not_say_or_could_not_is_no_verdict_and_counted() -> None:
    down, full = ModelError("down"), ContextOverflowError("full")
    reply, _ = best(["a", "b", "c", "d"], {"a": "perhaps", "b": down, "c": full, "d": "correct"})
    assert reply.action == "d"
    assert reply.choice == Choice(candidates=4, correct=1, no_verdict=3)


def test_a_candidate_without_an_action_is_sent_only_if_all_are() -> None:
    cut = Completion(text="inventory", finish_reason="length")
    reply, _ = best(["", cut, "look", "go to study"], {"look": "wrong", "go to study": "wrong"})
    assert reply.action == "look"
    reply, judge = best(["", "a\nb"], {})
    assert (reply.action, reply.text, judge.requests) == (None, "", [])
    assert reply.problem


def test_the_usage_is_that_of_all_calls() -> None:
    cost = Usage(prompt_tokens=10, completion_tokens=1, cost_usd=0.5)
    drawn: list[Answer] = [Completion(text=text, usage=cost) for text in ("look", "inventory")]
    said: dict[str, Verdict] = {
        "look": Completion(text="nonsense", usage=cost),
        "inventory": probably(0.1, 0.9, cost),
    }
    assert best(drawn, said)[0].usage == Usage(prompt_tokens=40, completion_tokens=4, cost_usd=2.0)


def test_the_judge_reads_the_agents_conversation_and_a_judge_of_its_own_no_token_ids() -> None:
    view = after(("look", "look", "A door."))
    told = Tokens(context_ids=(1,), sampled_ids=(2,), logprobs=(0.0,))
    view = view.model_copy(update={"turns": (view.turns[0].model_copy(update={"tokens": told}),)})
    agent = Vanilla(ScriptedModel(["a", "b"]), temperature=1.0)
    judge = judge_of({"a": "correct", "b": "wrong"})
    BestOf(agent, 2, judge).act(view)
    chat = agent.conversation(view)
    assert chat[2].tokens == told
    for asked in judge.requests:
        assert [one.content for one in asked[:-1]] == [one.content for one in chat]
        assert all(one.tokens is None for one in asked)


def test_a_candidate_that_breaks_breaks_the_turn() -> None:
    with pytest.raises(ModelError, match="down"):
        best(["look", ModelError("down")], {})


def test_an_agent_that_does_not_draw_is_refused() -> None:
    with pytest.raises(UsageError, match="temperature above 0"):
        BestOf(Vanilla(ScriptedModel([])), 2)
    with pytest.raises(UsageError, match="at least 1"):
        BestOf(Vanilla(ScriptedModel([]), temperature=1.0), 0)


def test_the_record_says_who_judged() -> None:
    made = BestOf(ReAct(ScriptedModel([], name="m"), temperature=1.0), 4, ScriptedModel([], name="j"))
    details = made.describe()
    assert made.name == "best-of-4(react(m))"
    assert (details["best_of"], details["model.agent"], details["model.judge"]) == ("4", "m", "j")
    assert {"prompt.react/system", "prompt.critic/verdict"} <= set(details)
    assert BestOf(Vanilla(ScriptedModel([], name="m"), temperature=1.0), 2).describe()["model.judge"] == "m"


@given(st.floats(-2000, 0), st.floats(-2000, 0))
def test_the_share_of_a_verdict_is_that_of_its_probability_in_both(one: float, other: float) -> None:
    found = share(one, other)
    assert found == pytest.approx(1 / (1 + math.exp(other - one)) if other - one < 700 else 0.0)
    assert share(-math.inf, one) == 0
    assert share(one, -math.inf) == 1
    assert share(-math.inf, -math.inf) is None


judgements = st.builds(Judged, st.sampled_from(["correct", "wrong", None]), st.sampled_from([0.5, 0.6, 0.9]))


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6), st.tuples(*[judgements] * 3))
def test_nothing_that_was_not_judged_correct_goes_before_what_was(named, verdicts) -> None:
    judged = {action: one for action, one in zip("abc", verdicts, strict=True) if action in named}
    sent = chosen([AgentReply(text=action or "", action=action) for action in named], judged).action
    correct = {action: one.correct or 0.0 for action, one in judged.items() if one.verdict == "correct"}
    if correct:
        assert sent is not None
        assert correct[sent] == max(correct.values())
    else:
        assert sent == next((one for one in named if one is not None), None)
