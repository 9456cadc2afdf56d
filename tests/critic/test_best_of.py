"""Best-of-N by a verdict: who is chosen, what is counted, and a conversation that stays exact to the token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.reasoning import ReAct, Vanilla
from align_echo.critic.ask import (
    ActionQuestion,
    Critic,
    CriticCalibration,
    ask,
    logit,
    probability,
    read_calibration,
    write_calibration,
)
from align_echo.critic.best_of import FIRST, LOGPROB, MAJORITY, PLACEBO, RANDOM, TILTED, BestOf, SelectionRule
from align_echo.errors import AgentError, ContextOverflowError, ModelError, UsageError
from align_echo.models import ScriptedModel
from align_echo.types import AgentReply, ChoiceCounts, Completion, Message, Tokens, Usage, WordChoice
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
    return BestOf(agent, len(replies), Critic(judge)).act(VIEW), judge


def test_of_those_judged_correct_the_most_probable_is_sent() -> None:
    verdicts: dict[str, Verdict] = {
        "look": probably(0.6, 0.4),
        "inventory": probably(0.01, 0.99),
        "go to study": probably(0.5, 0.1),
        "take mug": probably(0.3, 0.0),
    }
    reply, _ = best(["look", "inventory", "go to study", "take mug"], verdicts)
    assert (reply.text, reply.action) == ("go to study", "go to study"), "5 to 1 for it; take mug is not judged correct"
    assert reply.choice is not None
    assert reply.choice.counts == ChoiceCounts(candidates=4, correct=2, wrong=1, no_verdict=1)


def test_the_verdicts_are_asked_for_at_once() -> None:
    class Judge(ScriptedModel):
        asked = 0

        def choose(
            self, conversations: Sequence[Sequence[Message]], words: Sequence[str]
        ) -> list[WordChoice | ModelError]:
            self.asked += 1
            return [probably(0.9, 0.1) for _ in conversations]

    judge = Judge([])
    reply = BestOf(Vanilla(ScriptedModel(["a", "b", "c"]), temperature=1.0), 3, Critic(judge)).act(VIEW)
    assert judge.asked == 1
    assert reply.choice is not None
    assert reply.choice.counts == ChoiceCounts(candidates=3, correct=3)


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
    assert (reply.action, judge.requests) == ("look", [])
    assert reply.choice is not None
    assert reply.choice.counts == ChoiceCounts(candidates=2)


@pytest.mark.parametrize(
    ("turns", "asked"),
    [
        ([("look", "look", "You are in the kitchen.")], True),
        ([("look", "look", "A mug.")], False),
        ([("look", "look", "A mug."), ("look", "look", "A mug.")], True),
        ([("go", "go", "You are in the kitchen."), ("look", "look", "A mug.")], False),
    ],
)
def test_all_candidates_are_asked_about_where_they_repeat_what_changed_nothing(turns, asked) -> None:
    judge = judge_of({"look": "wrong"})
    agent = BestOf(Vanilla(ScriptedModel(["look", "look"]), temperature=1.0), 2, Critic(judge))
    reply = agent.act(after(*turns))
    assert (reply.action, len(judge.requests)) == ("look", int(asked))
    assert reply.choice is not None
    counts = ChoiceCounts(candidates=2, wrong=1, repeated=1, repeated_wrong=1) if asked else ChoiceCounts(candidates=2)
    assert reply.choice.counts == counts


def test_the_placebo_judge_asks_nobody_and_takes_distinct_actions_alike_often() -> None:
    taken = []
    for sample in range(200):
        agent = BestOf(Vanilla(ScriptedModel(["a", "a", "a", "b"]), temperature=1.0), 4, pick=PLACEBO, seed=sample)
        reply = agent.act(VIEW)
        taken.append(reply.action)
        assert reply.choice is not None
        assert reply.choice.counts == ChoiceCounts(candidates=4)
    assert 70 <= taken.count("b") <= 130
    assert agent.name.startswith("placebo-of-4")


def test_what_a_judge_did_not_say_or_has_no_room_for_is_no_verdict_and_counted() -> None:
    full = ContextOverflowError("full")
    reply, _ = best(["a", "b", "c", "d"], {"a": "perhaps", "b": full, "c": full, "d": "correct"})
    assert reply.action == "d"
    assert reply.choice is not None
    assert reply.choice.counts == ChoiceCounts(candidates=4, correct=1, no_verdict=3)


def test_a_judge_that_breaks_is_a_fault_and_no_candidate_is_sent() -> None:
    with pytest.raises(ModelError, match="no verdict on the candidates: down"):
        best(["a", "b"], {"a": "correct", "b": ModelError("down")})


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
    BestOf(agent, 2, Critic(judge)).act(view)
    chat = agent.conversation(view)
    assert chat[2].tokens == told
    for asked in judge.requests:
        assert [message.content for message in asked[:-1]] == [message.content for message in chat]
        assert all(message.tokens is None for message in asked)


def test_a_judge_that_broke_is_told_from_one_that_cannot_be_understood_or_had_no_room() -> None:
    judge = judge_of({"a": ModelError("down"), "b": "hm", "c": ContextOverflowError("full"), "d": "wrong"})
    conversation = Vanilla(ScriptedModel([])).conversation(VIEW)
    said = ask(Critic(judge), [ActionQuestion(conversation, action) for action in "abcd"])
    assert [one.label for one in said] == [None, None, None, "wrong"]
    assert [one.fault is not None for one in said] == [True, False, False, False]


def test_a_candidate_that_breaks_breaks_the_turn() -> None:
    with pytest.raises(ModelError, match="down"):
        best(["look", ModelError("down")], {})


def test_an_agent_that_does_not_draw_is_refused() -> None:
    with pytest.raises(UsageError, match="temperature above 0"):
        BestOf(Vanilla(ScriptedModel([])), 2)
    with pytest.raises(UsageError, match="at least 1"):
        BestOf(Vanilla(ScriptedModel([]), temperature=1.0), 0)


def test_the_record_says_who_judged() -> None:
    made = BestOf(ReAct(ScriptedModel([], name="m"), temperature=1.0), 4, Critic(ScriptedModel([], name="j")))
    details = made.describe()
    assert made.name == "best-of-4(react(m))"
    assert (details["best_of"], details["model.agent"], details["model.judge"]) == ("4", "m", "j")
    assert {"prompt.react/system", "prompt.critic/verdict"} <= set(details)
    assert BestOf(Vanilla(ScriptedModel([], name="m"), temperature=1.0), 2).describe()["model.judge"] == "m"


def test_every_candidate_is_on_record_with_what_was_said_of_it() -> None:
    said: dict[str, Verdict] = {"look": probably(0.2, 0.6), "inventory": probably(0.6, 0.2), "sing": "perhaps"}
    reply, _ = best(["look", "inventory", "look", "sing"], said)
    assert reply.choice is not None
    found = [(candidate.action, candidate.verdict, candidate.p_correct) for candidate in reply.choice.candidates]
    look = ("look", "wrong", pytest.approx(0.25))
    assert found == [look, ("inventory", "correct", pytest.approx(0.75)), look, ("sing", "neither", None)]
    assert (reply.choice.taken, reply.action) == (1, "inventory")


def test_the_first_is_sent_where_the_critic_is_not_sure_enough_of_any() -> None:
    judge = Critic(judge_of({"look": "wrong", "inventory": probably(0.6, 0.3)}))
    agent = Vanilla(ScriptedModel(["look", "inventory"] * 2), temperature=1.0)
    assert BestOf(agent, 2, judge, abstain_below=0.6).act(VIEW).action == "inventory"
    assert BestOf(agent, 2, judge, abstain_below=0.7).act(VIEW).action == "look"


def told(text: str, *logprobs: float) -> Completion:
    """A reply whose model tells its log-probabilities."""
    return Completion(text=text, tokens=Tokens(context_ids=(1,), sampled_ids=(2,) * len(logprobs), logprobs=logprobs))


@pytest.mark.parametrize(("pick", "taken"), [(FIRST, 0), (MAJORITY, 1), (LOGPROB, 2)])
def test_a_baseline_takes_by_its_rule_and_asks_nobody(pick: SelectionRule, taken: int) -> None:
    drawn: list[Answer] = [told("look", -1.0), told("inventory", -2.0), told("sing", -0.5), told("inventory", -2.0)]
    made = BestOf(Vanilla(ScriptedModel(drawn, name="m"), temperature=1.0), 4, pick=pick)
    reply = made.act(VIEW)
    assert reply.choice is not None
    assert (reply.choice.taken, reply.choice.counts.correct, made.name) == (taken, 0, f"{pick.name}-of-4(vanilla(m))")
    assert [candidate.logprob for candidate in reply.choice.candidates] == [-1.0, -2.0, -0.5, -2.0]
    assert "model.judge" not in made.describe()


@pytest.mark.parametrize("index", [99, -1, "look"])
def test_a_rule_that_takes_what_was_not_drawn_is_named(index) -> None:
    rule = SelectionRule("mine", lambda candidates: index)
    agent = Vanilla(ScriptedModel(["look", "inventory"]), temperature=1.0)
    with pytest.raises(AgentError, match=f"^the rule mine took candidate {index} of 0 to 1$"):
        BestOf(agent, 2, pick=rule).act(VIEW)


def test_tilted_goes_by_the_critic_and_by_the_agents_own_probability() -> None:
    drawn: list[Answer] = [told("look", -0.1), told("inventory", -1.0), told("sing", -9.0)]
    judge = judge_of({"look": probably(0.2, 0.8), "inventory": probably(0.6, 0.4), "sing": probably(0.9, 0.1)})
    agent = Vanilla(ScriptedModel(drawn, name="m"), temperature=1.0)
    made = BestOf(agent, 3, Critic(judge), pick=TILTED)
    reply = made.act(VIEW)
    assert (reply.action, made.name) == ("inventory", "tilted-of-3(vanilla(m))")
    assert reply.choice is not None
    assert [candidate.p_correct for candidate in reply.choice.candidates] == pytest.approx([0.2, 0.6, 0.9])
    assert made.describe()["model.judge"] == "judge"


def test_a_random_pick_is_the_same_for_the_same_seed_and_not_always_the_first() -> None:
    def taken(seed: int) -> list[int | None]:
        agent = Vanilla(ScriptedModel([str(number) for number in range(48)]), temperature=1.0)
        player = BestOf(agent, 4, pick=RANDOM, seed=seed)
        replies = [player.with_sample(sample).act(VIEW) for sample in range(12)]
        return [one.choice.taken for one in replies if one.choice is not None]

    assert taken(1) == taken(1) != taken(2)
    assert len(set(taken(1))) > 1


@given(st.floats(-2000, 0), st.floats(-2000, 0), st.floats(0.1, 10))
def test_the_probability_of_a_verdict_is_its_share_in_both_at_the_temperature(one, other, temperature) -> None:
    found = logit(one, other)
    assert found is not None
    assert probability(found) + probability(-found) == pytest.approx(1)
    assert probability(found, temperature) == pytest.approx(probability(found / temperature))
    assert (probability(found, temperature) > 0.5) == (one > other) or abs(one - other) < 1e-9
    assert (logit(-math.inf, one), logit(one, -math.inf)) == (-math.inf, math.inf)
    assert (probability(-math.inf), probability(math.inf)) == (0.0, 1.0)
    assert logit(-math.inf, -math.inf) is None


def test_a_critics_calibration_lies_beside_its_weights(tmp_path) -> None:
    assert read_calibration(tmp_path).temperature == 1.0
    write_calibration(CriticCalibration(temperature=2.5, n=10), tmp_path)
    assert read_calibration(tmp_path) == CriticCalibration(temperature=2.5, n=10)
    (tmp_path / "calibration.json").write_text('{"temperature": -1}')
    with pytest.raises(UsageError, match="damaged"):
        read_calibration(tmp_path)


def test_a_judge_that_says_something_else_ends_the_run() -> None:
    def play(said: Verdict) -> int:
        judge = judge_of({"look": said, "inventory": said})
        agent = BestOf(Vanilla(ScriptedModel(["look", "inventory"] * 20), temperature=1.0), 2, Critic(judge))
        for sample in range(20):
            agent.with_sample(sample).act(VIEW)
        return len(judge.requests)

    with pytest.raises(UsageError, match=r"judge said neither correct nor wrong in 24 of 24 answers"):
        play("It depends.")
    assert play("wrong") == 40
