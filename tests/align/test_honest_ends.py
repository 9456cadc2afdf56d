"""How a run of the llm backend ends where a model fails: never as a success, and a resumed run asks again there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from align_echo.align.llm.replies import LlmSettings
from align_echo.align.run_folder import Event
from align_echo.errors import ModelError
from align_echo.interface.contract import load_interface
from tests.align.endpoint import Answer, Endpoint, Status, serve
from tests.align.room_world import ANALYZER, BOOK, CHECKS, EXPERIMENTS, GOOD_CODE, HINT, MUG, code, findings, operation
from tests.align.test_loop import BAD_SYNTAX, CUT, FAILS_AT_RUN, notes, run, scripts

TRIES = LlmSettings().format_tries
BROKEN: dict[str, list[Answer]] = {
    "HTTP 400": [Status(400)],
    "empty": [""] * TRIES,
    "blank": [" \n "] * TRIES,
    "prose": ["I saw nothing special."] * TRIES,
    "the instructions": ["If there is none, the outer tags hold the one word none."] * TRIES,
    "none outside the tags": ["None."] * TRIES,
}


def paid_twice(endpoint: Endpoint) -> list[str]:
    """Requests of the same words at the same temperature, but for those that the endpoint refused."""
    counts = Counter(json.dumps(request, sort_keys=True) for request in endpoint.requests)
    return [request for request, count in counts.items() if count > 1]


@pytest.mark.parametrize("case", BROKEN)
def test_an_analysis_that_breaks_ends_the_run_and_is_taken_up_again(tmp_path: Path, case: str) -> None:
    with serve(scripts(analyzer=[*BROKEN[case], *ANALYZER])) as endpoint:
        with pytest.raises(ModelError, match="the analysis of room/book-to-kitchen broke") as caught:
            run(endpoint, tmp_path)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "summary.json").exists()
        assert not (tmp_path / "iterations/1/iteration.json").exists()
        made = run(endpoint, tmp_path, resume=True)
        assert made.summary.stopped == "no-failures"
        assert (made.summary.misalignments, made.summary.addressed) == (1, 1)
        if case != "HTTP 400":  # a refused request was not answered, so it is sent again as it was
            assert paid_twice(endpoint) == []


def test_a_run_that_broke_twice_goes_on_after_the_second_time(tmp_path: Path) -> None:
    prose: list[Answer] = ["hm"] * (2 * TRIES)
    with serve(scripts(analyzer=[*prose, *ANALYZER])) as endpoint:
        for resume in (False, True):
            with pytest.raises(ModelError, match="no usable answer in 3 tries"):
                run(endpoint, tmp_path, resume=resume)
        assert run(endpoint, tmp_path, resume=True).summary.stopped == "no-failures"
        assert len(endpoint.asked("analyzer")) == len(prose) + len(ANALYZER) + 1
        again = endpoint.asked("analyzer")[TRIES]
        assert again["messages"] == endpoint.asked("analyzer")[0]["messages"], "the question itself, without the prose"
        assert again["temperature"] > 0, "a greedy model would only say the same again"


def test_a_verification_that_never_concludes_is_bounded_and_taken_up_there(tmp_path: Path) -> None:
    restless = [findings(), *[operation("init_simulator", BOOK)] * 4, *[operation("reset_simulator")] * 2]
    settings = LlmSettings(operations=4, format_tries=2)
    with serve(scripts(analyzer=[*restless, "<misalignments>none</misalignments>"])) as endpoint:
        with pytest.raises(ModelError, match="no operations are left"):
            run(endpoint, tmp_path, settings=settings)
        made = run(endpoint, tmp_path, settings=settings, resume=True)
        assert made.summary.stopped == "no-misalignments"
        assert len(endpoint.asked("analyzer")) == len(restless) + 1
        assert "No operations are left" in endpoint.asked("analyzer")[-1]["messages"][-1]["content"]


def test_code_that_never_becomes_usable_ends_the_run_and_is_asked_for_again(tmp_path: Path) -> None:
    settings = LlmSettings(code_tries=3)
    with serve(scripts(optimizer=[BAD_SYNTAX, CUT, FAILS_AT_RUN, code(GOOD_CODE)])) as endpoint:
        with pytest.raises(ModelError, match="writing the interface broke: no usable answer in 3 tries"):
            run(endpoint, tmp_path, settings=settings)
        assert len(endpoint.asked("analyzer")) == 1 + len(EXPERIMENTS) + 2
        made = run(endpoint, tmp_path, settings=settings, resume=True)
        assert made.summary.stopped == "no-failures"
        assert paid_twice(endpoint) == []


def test_an_interface_that_resolves_nothing_is_not_taken_and_what_was_found_is_kept(tmp_path: Path) -> None:
    objection = "<resolved>no</resolved><refinement>still wrong</refinement>"
    analyzer = [*ANALYZER[: -len(CHECKS)], *CHECKS[:-1], objection, *CHECKS[:-1], objection]
    settings = LlmSettings(refinements=1)
    with serve(scripts(analyzer=analyzer, optimizer=[code(GOOD_CODE)] * 2)) as endpoint:
        made = run(endpoint, tmp_path, settings=settings, iterations=1)
    (record,) = made.summary.iterations
    assert (record.outcome, record.misalignments, record.addressed) == ("unchanged", 1, 0)
    assert (made.summary.misalignments, made.summary.addressed, made.summary.written) == (1, 0, False)
    assert made.interface.name == "identity"
    assert "none of 2 versions stood its check on any of 1" in notes(tmp_path)


def test_what_was_not_resolved_may_be_found_again_and_counts_once(tmp_path: Path) -> None:
    objection = "<resolved>no</resolved><refinement>still wrong</refinement>"
    first = [*ANALYZER[: -len(CHECKS)], *CHECKS[:-1], objection]
    settings = LlmSettings(refinements=0)
    with serve(scripts(analyzer=[*first, *CHECKS], optimizer=[other_code("bad"), code(GOOD_CODE)])) as endpoint:
        made = run(endpoint, tmp_path, settings=settings)
    assert [iteration.outcome for iteration in made.summary.iterations] == ["unchanged", "written", "no-failures"]
    assert (made.summary.misalignments, made.summary.addressed) == (1, 1)
    assert len(endpoint.asked("optimizer")) == 2, "the second draw is a new one"


OTHER = findings("4", rule="the book is glued").split("<misalignments>")[1].removesuffix("</misalignments>")


def two(reply: str) -> str:
    """The findings of a reply and one more, which is not true."""
    return reply.replace("</misalignments>", f"{OTHER}</misalignments>")


HALF = [*CHECKS[:-1], "<resolved>no</resolved><unresolved>2</unresolved><refinement>say of the glue</refinement>"]
NOTHING = [*CHECKS[:-1], "<resolved>no</resolved><unresolved>1, 2</unresolved><refinement>worse</refinement>"]
TWO_FOUND = [two(findings()), *EXPERIMENTS, two(findings(support="2, 3")).replace("<support>4", "<support>5")]


def other_code(mark: str) -> str:
    """Code that does the same under another hash."""
    return code(GOOD_CODE + f"# {mark}\n")


def test_the_best_version_is_kept_with_what_it_leaves_open(tmp_path: Path) -> None:
    analyzer = [*TWO_FOUND, *NOTHING, *HALF, *NOTHING, "<misalignments>none</misalignments>"]
    optimizer = [other_code("first"), other_code("best"), other_code("last")]
    settings = LlmSettings(refinements=2)
    stays = {**scripts(analyzer=analyzer, optimizer=optimizer), "agent": lambda request: "take book 1"}
    with serve(stays) as endpoint:
        made = run(endpoint, tmp_path, settings=settings)
    assert "# best" in made.interface.source
    assert (made.summary.misalignments, made.summary.addressed, made.summary.rules) == (2, 1, 1)
    assert made.summary.stopped == "no-misalignments"
    assert [(record.outcome, record.addressed) for record in made.summary.iterations] == [
        ("written", 1),
        ("no-misalignments", 0),
    ]
    record = load_interface(tmp_path / "interface.py").provenance
    seen = "take object: Seen in 1 task, not shown to be a rule"
    assert record.unresolved == (f"{seen}: the book is glued",)
    assert [rule.text for rule in record.rules] == [f"{seen}: an object can be taken only in its own room"]
    told = endpoint.asked("analyzer")[-1]["messages"][1]["content"]
    assert f"does not\n- {seen}: the book is glued" in told
    assert "a version is kept that stood its check on 1 of 2" in notes(tmp_path)


def test_a_killed_run_knows_what_was_left_open(tmp_path: Path) -> None:
    analyzer = [*TWO_FOUND, *HALF, "hm", "hm", "hm", "<misalignments>none</misalignments>"]
    settings = LlmSettings(refinements=0)
    stays = {**scripts(analyzer=analyzer), "agent": lambda request: "take book 1"}
    with serve(stays) as endpoint:
        with pytest.raises(ModelError, match="analysis"):
            run(endpoint, tmp_path, settings=settings)
        made = run(endpoint, tmp_path, settings=settings, resume=True)
    assert (made.summary.misalignments, made.summary.addressed) == (2, 1)


def test_code_that_fails_after_a_good_version_leaves_that_one(tmp_path: Path) -> None:
    settings = LlmSettings(refinements=1, code_tries=1)
    with serve(scripts(analyzer=[*TWO_FOUND, *HALF], optimizer=[code(GOOD_CODE), BAD_SYNTAX])) as endpoint:
        made = run(endpoint, tmp_path, settings=settings, iterations=1)
    assert (made.interface.source, made.summary.addressed) == (GOOD_CODE, 1)
    assert "version 2 of the interface came to nothing" in notes(tmp_path)


def test_a_finding_with_a_wrong_citation_goes_back_and_costs_no_other(tmp_path: Path) -> None:
    wrong = two(findings(support="Experiments 2, 3 and 5")).replace("<support>4", "<support>1")
    with serve(scripts(analyzer=[two(findings()), *EXPERIMENTS, *[wrong] * TRIES, *CHECKS])) as endpoint:
        made = run(endpoint, tmp_path)
    assert [rule.evidence.support for rule in made.interface.provenance.rules] == [3]
    last = [request["messages"][-1]["content"] for request in endpoint.asked("analyzer")]
    assert sum("misalignment 2: <support> cites experiment 1" in text for text in last) == TRIES - 1
    assert "a finding was left out" in notes(tmp_path)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    bad = findings().replace(BOOK, "room/none").replace("new-logic", "novel").replace("<intent>", "<goal>")
    with serve(scripts(analyzer=[bad, *ANALYZER])) as endpoint:
        run(endpoint, tmp_path)
    told = endpoint.asked("analyzer")[1]["messages"][-1]["content"]
    assert all(
        reason in told for reason in ("<intent> is missing", "<task_id> must be one of", "<kind> must be one of")
    )


def quoted(name: str, argument: str = "") -> str:
    """An operation as the paper writes it, in quotes."""
    return f"<operation>{name}({f'task_id={argument!r}' if name == 'init_simulator' else repr(argument)})</operation>"


DRESSES: dict[str, Callable[[str, str], str]] = {
    "a call": lambda name, given: quoted(name, given) if given else f"<operation>{name}()</operation>",
    "quotes": lambda name, given: (
        f"<operation>{name}</operation>" + (f'<argument>"{given}"</argument>' if given else "")
    ),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_experiments_in_another_dress_are_the_same_experiments(tmp_path: Path, dress: str) -> None:
    moves = [("init_simulator", BOOK), ("execute_agent_action", "take book 1"), ("get_next_agent_action", "")]
    with serve(scripts(analyzer=[findings(), *(DRESSES[dress](*move) for move in moves), *ANALYZER[4:]])) as endpoint:
        made = run(endpoint, tmp_path)
    assert made.summary.stopped == "no-failures"
    answer = endpoint.asked("analyzer")[3]["messages"][-1]["content"]
    assert "The argument was read as: take book 1\nObservation: Nothing happens." in answer


def test_the_author_sees_what_the_environment_answers_and_the_analyst_the_goal(tmp_path: Path) -> None:
    events: list[Event] = []
    with serve(scripts()) as endpoint:
        run(endpoint, tmp_path, on_event=events.append)
    writing = endpoint.asked("optimizer")[0]["messages"][1]["content"]
    assert "> take book 1\nObservation: Nothing happens." in writing
    assert "Goal: bring the book 1 to the kitchen" in endpoint.asked("analyzer")[0]["messages"][1]["content"]
    assert "analysing failed episodes 1 of 1; 0 found so far" in [event.message for event in events]
    assert any(HINT in str(request) for request in endpoint.asked("agent"))
    assert MUG != BOOK
