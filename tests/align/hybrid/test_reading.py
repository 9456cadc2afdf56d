"""A model's hypotheses are taken however they are dressed; what cannot be read is reported and costs no other."""

from __future__ import annotations

import json

import pytest

from align_echo.align.hybrid.hypotheses import NeededStep, NoEffect, StatedClaim, WrongWording, in_words
from align_echo.align.hybrid.reading import parse_hypotheses
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render

TASKS = ("t/1", "t/2")
NEED = '{"kind": "needs", "action": "take {0} from {1}", "step": "open {1}"}'
NEEDS = NeededStep(action="take {0} from {1}", step="open {1}")


def claim(**changes: object) -> dict[str, object]:
    experiments = [
        {"task": "t/1", "actions": ["open box"], "sees": "ring"},
        {"task": "t/1", "actions": ["look"], "sees_not": "ring"},
    ]
    return {"kind": "claim", "text": "`open box` shows what is in it", "experiments": experiments, **changes}


@pytest.mark.parametrize(
    "reply",
    [
        f"<hypotheses>[{NEED}]</hypotheses>",
        f"Well.\n```json\n[{NEED},\n]\n```\nThat is all.",
        NEED,
        f'{{"hypotheses": [{NEED}]}}',
        f"1. {NEED}\n2. {NEED}",
        f"<think>[1, 2]</think><Hypotheses>\n{NEED.replace('kind', 'type')}\n</Hypotheses>",
        NEED.replace("{0}", "{object}").replace("{1}", "{the box}"),
        NEED.replace("take {0} from {1}", "`take {0}  from {1}`").replace("step", "first"),
        NEED[:-1] + ', "why": "the agent said so 3 times", "confidence": 0.9}',
        NEED.replace('"needs"', '"Requires"'),
    ],
)
def test_one_hypothesis_is_read_however_it_is_written(reply: str) -> None:
    assert parse_hypotheses(reply, TASKS).hypotheses == (NEEDS,)


def test_all_kinds_are_read() -> None:
    written = [
        json.loads(NEED),
        {"kind": "instead", "form": "grab {x}", "use": "take {x}"},
        {"kind": "no-effect", "action": "open {0}", "after": "open {0}", "until": None},
        claim(),
    ]
    kinds = [type(hypothesis) for hypothesis in parse_hypotheses(json.dumps(written), TASKS).hypotheses]
    assert kinds == [NeededStep, WrongWording, NoEffect, StatedClaim]


def test_an_experiment_starts_at_a_step_of_a_failed_episode() -> None:
    played = {"t/1": ("go north", None, "take key", "open box")}
    there = [{"task": "t/1", "step": step, "actions": ["open box"], "sees": "ring"} for step in (4, "2")]
    at_step = claim(experiments=[*there, {"task": "t/1", "actions": ["look"], "sees_not": "ring"}])
    (hypothesis,) = parse_hypotheses(json.dumps([at_step]), TASKS, played=played).hypotheses
    assert isinstance(hypothesis, StatedClaim)
    assert hypothesis.experiments[0].actions == ("go north", "take key", "open box")
    assert hypothesis.experiments[1].actions == ("go north", "open box")
    for step, count in ((5, 4), (0, 4), ("last", 4)):
        wrong = claim(experiments=[{"task": "t/1", "step": step, "actions": ["look"], "sees": "ring"}])
        with pytest.raises(ReplyFormatError, match=f"starts at step {step!r} of an episode with {count} steps shown"):
            parse_hypotheses(json.dumps([wrong]), TASKS, played=played)
    with pytest.raises(ReplyFormatError, match="with 0 steps shown"):
        parse_hypotheses(json.dumps([at_step]), TASKS)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"kind": "magic", "action": "a {0}"}, "kind must be one of needs, instead, no_effect, claim"),
        ({"kind": "needs", "action": "a {0}"}, "step: it is missing"),
        ({"kind": "needs", "action": "{0}", "step": "open {0}"}, "has no word of its own"),
        ({"kind": "needs", "action": "put {0} {1}", "step": "open {0}"}, "stand side by side"),
        ({"kind": "needs", "action": "a", "step": "a"}, "cannot need itself"),
        ({"kind": "instead", "wrong": "grab {0}", "right": "take {0} from {1}"}, "does not have"),
        (claim(experiments=[{"task": "t/9", "actions": ["a"], "sees": "b"}] * 2), "the task 't/9', which was not"),
        (claim(experiments=[{"task": "t/1", "actions": ["a"], "sees": "b"}] * 2), "would come out otherwise"),
        (claim(text="first `rm -rf it`"), "`rm -rf it`, which no experiment plays"),
    ],
)
def test_what_cannot_be_read_is_told_and_the_others_are_kept(written: dict[str, object], told: str) -> None:
    proposals = parse_hypotheses(json.dumps([written, json.loads(NEED)]), TASKS)
    assert proposals.hypotheses == (NEEDS,)
    assert [reason.partition(":")[0] for reason in proposals.unread] == ["hypothesis 1"]
    assert told in proposals.unread[0]


def test_a_broken_object_is_reported_and_costs_no_other() -> None:
    proposals = parse_hypotheses(f'[{{"kind": "needs", "action": "take {{0}}", "step": }}, {NEED}]', TASKS)
    assert proposals.hypotheses == (NEEDS,)
    assert "no JSON object" in proposals.unread[0]


@pytest.mark.parametrize("reply", ["", "I see nothing special.", "[", "{}", "[1, 2]", "<hypotheses>"])
def test_a_reply_without_hypotheses_is_refused_and_never_read_as_none(reply: str) -> None:
    with pytest.raises(ReplyFormatError):
        parse_hypotheses(reply, TASKS)


@pytest.mark.parametrize("reply", ["[]", "<hypotheses>\n[]\n</hypotheses>", "```json\n[]\n```", "none", "None."])
def test_nothing_to_propose_is_an_answer(reply: str) -> None:
    assert parse_hypotheses(reply, TASKS).hypotheses == ()


def test_the_prompt_s_own_examples_are_no_answer() -> None:
    prompt = render("analyzer/hypotheses", {"episodes": [], "again": "", "openings": [], "known": "nothing yet"})
    with pytest.raises(ReplyFormatError):
        parse_hypotheses(prompt, TASKS, prompt)


def test_a_hypothesis_reads_as_a_sentence() -> None:
    assert in_words(NEEDS) == "Before `take X from Y` you need to `open Y`"
