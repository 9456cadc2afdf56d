"""A reasoning critic as a judge: its verdict, or a vote of several, and no verdict where nothing can be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.reasoning import Vanilla
from align_echo.critic.ask import ActionQuestion, Critic, Label, Verdict, ask, count_verdicts
from align_echo.critic.best_of import BestOf
from align_echo.errors import ModelError, UsageError
from align_echo.models import ScriptedModel
from align_echo.types import Completion, Message, Usage
from tests.agents.views import VIEW

ASKED = [Message(role="user", content="You are in the hall.")]


class Judge:
    """Answers by the action and the sample number, and keeps at which temperatures it was asked."""

    name = "judge"

    def __init__(self, replies: dict[str, Sequence[str]], sample: int = 0, heard: list[float] | None = None) -> None:
        self._replies, self._sample, self.heard = replies, sample, [] if heard is None else heard

    def with_sample(self, sample: int) -> Judge:
        return Judge(self._replies, sample, self.heard)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 1) -> Completion:
        self.heard.append(temperature)
        action = messages[-1].content.partition("<action>")[2].partition("</action>")[0]
        reply = self._replies[action][self._sample]
        if reply == "broken":
            raise ModelError("gone")
        return Completion(text=reply, usage=Usage(completion_tokens=3))


def asked(judge: Judge, votes: int, *actions: str) -> list[Verdict]:
    return ask(Critic(judge, votes=votes), [ActionQuestion(ASKED, action) for action in actions])


def reply(verdict: str) -> str:
    return f"Reason: so\nVerdict: {verdict}"


def test_it_is_asked_once_greedily_about_every_action_in_order_and_gives_no_probability() -> None:
    judge = Judge({"look": [reply("wrong")], "go": [reply("correct")], "sing": ["correct"], "dance": ["broken"]})
    opinions = asked(judge, 1, "look", "go", "sing", "dance")
    assert [opinion.action for opinion in opinions] == ["look", "go", "sing", "dance"]
    assert [(opinion.label, opinion.p_correct, opinion.logit) for opinion in opinions] == [
        ("wrong", None, None),
        ("correct", None, None),
        (None, None, None),
        (None, None, None),
    ]
    assert [opinion.fault is not None for opinion in opinions] == [False, False, False, True]
    assert (judge.heard, opinions[0].usage.completion_tokens) == ([0.0] * 4, 3)
    assert asked(judge, 1) == []


def test_several_verdicts_are_a_vote_and_their_share_a_probability() -> None:
    judge = Judge({"look": [reply("correct"), reply("wrong"), reply("correct")], "go": [reply("wrong")] * 3})
    look, go = asked(judge, 3, "look", "go")
    assert (look.label, go.label) == ("correct", "wrong")
    assert look.p_correct == pytest.approx(2.5 / 4)
    assert go.p_correct == pytest.approx(0.5 / 4)
    assert (set(judge.heard), look.usage.completion_tokens) == ({1.0}, 9)
    torn = Judge({"look": [reply("correct"), "broken"], "go": [reply("correct"), "hm"]})
    opinions = asked(torn, 2, "look", "go")
    assert [opinion.label for opinion in opinions] == ["correct"] * 2
    assert [opinion.fault is not None for opinion in opinions] == [True, False]
    with pytest.raises(UsageError, match="once or more"):
        Critic(judge, votes=0)


@given(st.lists(st.sampled_from(["correct", "wrong", None]), min_size=2, max_size=9))
def test_only_what_can_be_read_votes_and_a_tie_is_wrong(verdicts: list[Label | None]) -> None:
    opinion = count_verdicts("look", [Verdict(label=verdict) for verdict in verdicts])
    correct, wrong = verdicts.count("correct"), verdicts.count("wrong")
    if not correct + wrong:
        assert (opinion.label, opinion.p_correct) == (None, None)
        return
    assert opinion.label == ("correct" if correct > wrong else "wrong")
    assert opinion.p_correct is not None
    assert 0 < opinion.p_correct < 1
    assert (opinion.p_correct > 0.5) == (correct > wrong)


def test_best_of_sends_the_first_that_it_holds_correct_and_says_who_judged() -> None:
    judge = Judge({"look": [reply("wrong")], "go": [reply("correct")], "sing": [reply("correct")]})
    agent = Vanilla(ScriptedModel(["look", "go", "sing"]), temperature=1.0)
    best = BestOf(agent, 3, Critic(judge, votes=1))
    sent = best.act(VIEW)
    assert sent.action == "go"
    assert sent.choice is not None
    assert [candidate.verdict for candidate in sent.choice.candidates] == ["wrong", "correct", "correct"]
    about = best.describe()
    assert (about["model.judge"], about["votes.judge"]) == ("judge", "1")
    assert "prompt.critic/reasoned_verdict" in about
    assert "prompt.critic/verdict" not in about
