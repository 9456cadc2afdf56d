"""The strict reading of tagged replies: what follows the form is read whole, anything else is refused with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from align_echo.align.experiments import OPERATIONS, WITH_ARGUMENT, ExperimentResult
from align_echo.align.llm.replies import (
    FIELDS,
    AnalyzerFindings,
    CheckVerdict,
    ExperimentRequest,
    ExperimentRequests,
    parse_analyzer_move,
    parse_checker_move,
    parse_choice,
    parse_code,
    parse_findings,
)
from align_echo.errors import ReplyFormatError

TASKS = ("t/1", "t/2")


def outcome(
    number: int, operation: str = "execute_agent_action", ok: bool = True, task: str = "t/1"
) -> ExperimentResult:
    return ExperimentResult(
        number=number, operation=operation, argument="look", task_id=task, ok=ok, text="You see a pen."
    )


OUTCOMES = (
    outcome(1, "init_simulator"),
    outcome(2),
    outcome(3, ok=False),
    outcome(4, "get_next_agent_action"),
    outcome(5, task="t/2"),
)


def block(values: dict[str, str], extra: str = "") -> str:
    inner = "".join(f"<{name}>{value}</{name}>\n" for name, value in values.items())
    return f"<misalignments>\n<misalignment>\n{inner}<kind>new-logic</kind>{extra}</misalignment>\n</misalignments>"


VALUES = dict.fromkeys(FIELDS, "x") | {"task_id": "t/1"}
content = st.text(st.characters(exclude_characters="<>"), min_size=1, max_size=50).filter(lambda text: text.strip())
tag_soup = st.lists(
    st.one_of(
        st.text(max_size=10),
        st.sampled_from(
            [
                f"<{end}{tag}>"
                for end in ("", "/")
                for tag in (
                    *("misalignments", "misalignment", "operation", "argument", "resolved", "refinement"),
                    *("code", "choice", "kind", "support", "refuted", "think", *FIELDS),
                )
            ]
        ),
        st.sampled_from(["none", "yes", "no", "1", "2", "t/1", "new-logic", "init_simulator", "```python\n", "```"]),
    ),
    max_size=25,
).map("".join)

PARSERS: list[Callable[[str], object]] = [
    lambda reply: parse_findings(reply, TASKS),
    lambda reply: parse_choice(reply, 3),
    parse_code,
    lambda reply: parse_analyzer_move(reply, TASKS, OUTCOMES, True),
    lambda reply: parse_checker_move(reply, OUTCOMES, True),
]


@given(st.one_of(tag_soup, st.text()))
def test_any_reply_is_read_or_refused_with_a_reason(reply: str) -> None:
    for parse in PARSERS:
        try:
            parse(reply)
        except ReplyFormatError as error:
            assert str(error).strip()  # noqa: PT017 - either outcome is right


@given(st.dictionaries(st.sampled_from(FIELDS[1:]), content), content)
def test_what_stands_in_the_tags_comes_out(values: dict[str, str], thoughts: str) -> None:
    given_values = VALUES | values
    (misalignment,) = parse_findings(f"{thoughts}\n{block(given_values)}", TASKS).misalignments
    assert {name: getattr(misalignment, name) for name in FIELDS} == {
        name: text.strip() for name, text in given_values.items()
    }


def test_several_findings_keep_their_order() -> None:
    two = block(VALUES).replace("</misalignments>", "") + block(VALUES | {"rule": "y"}).replace("<misalignments>", "")
    assert [misalignment.rule for misalignment in parse_findings(two, TASKS).misalignments] == ["x", "y"]


@pytest.mark.parametrize("none", ["none", " None ", "none."])
def test_none_is_an_answer(none: str) -> None:
    assert parse_findings(f"<misalignments>{none}</misalignments>", TASKS) == AnalyzerFindings(misalignments=())


@pytest.mark.parametrize(
    "body",
    [
        "",
        block(VALUES)[15:-16] + "and <b>more</b>",
        "nothing",
        "1. the rule",
        "none <misalignment>",
        block(VALUES)[len("<misalignments>") : -40],
    ],
)
def test_findings_outside_the_form_are_refused(body: str) -> None:
    with pytest.raises(ReplyFormatError):
        parse_findings(f"<misalignments>{body}</misalignments>", TASKS)


def test_evidence_counts_only_what_was_carried_out() -> None:
    reply = block(VALUES, "<support>2, 5</support><refuted>4</refuted>")
    move = parse_analyzer_move(reply, TASKS, OUTCOMES, True)
    assert isinstance(move, AnalyzerFindings)
    evidence = move.misalignments[0].evidence
    assert (evidence.support, evidence.refuted, evidence.tasks) == (2, 1, 2)
    assert evidence.counterexample == "t/1: look: You see a pen."


@pytest.mark.parametrize("refuted", ["", "none", "nothing", " "])
def test_nothing_may_speak_against_it(refuted: str) -> None:
    reply = block(VALUES, f"<support>2,2 2</support><refuted>{refuted}</refuted>")
    move = parse_analyzer_move(reply, TASKS, OUTCOMES, True)
    assert isinstance(move, AnalyzerFindings)
    assert move.misalignments[0].evidence.support == 1


@pytest.mark.parametrize(
    ("cites", "reason"),
    [
        ("<support>1</support><refuted></refuted>", "cites experiment 1"),
        ("<support>3</support><refuted></refuted>", "cites experiment 3"),
        ("<support>2</support><refuted>9</refuted>", "cites experiment 9"),
        ("<support></support><refuted>2</refuted>", "cites no experiment"),
        ("<support>2</support><refuted>2</refuted>", "in <support> and in <refuted>"),
        ("<support>-2</support><refuted></refuted>", "experiment numbers"),
        ("<support>1</support><refuted>9</refuted>", "cites experiment 9"),
    ],
)
def test_evidence_that_does_not_exist_is_refused(cites: str, reason: str) -> None:
    with pytest.raises(ReplyFormatError, match=reason):
        parse_analyzer_move(block(VALUES, cites), TASKS, OUTCOMES, True)


QUOTES = ('""', "''", "``", "“”", "‘’", "«»")
bare = content.filter(lambda text: text.strip()[0] not in "".join(QUOTES) and not re.search("= *[\"']", text))
unquoted = st.text(st.characters(exclude_characters="<>\\" + "".join(QUOTES)), min_size=1, max_size=50)


def asked(operation: str, argument: str) -> str:
    return f"Let me see.\n<operation> {operation} </operation>\n<argument>{argument}</argument>"


def none_if_said(operation: str, argument: str) -> str:
    return "" if operation == "run_task" and argument.strip().lower() == "none" else argument.strip()


@given(st.sampled_from(OPERATIONS), bare)
@example("run_task", "NONE")
@example("execute_agent_action", "text = 1")
@example("execute_agent_action", "say `hello`")
def test_an_operation_is_read_with_its_argument(operation: str, argument: str) -> None:
    request = ExperimentRequest(operation=operation, argument=none_if_said(operation, argument))
    meant = ExperimentRequests(requests=(request,))
    for parse in PARSERS[3:]:
        assert parse(asked(operation, argument)) == meant


@given(st.sampled_from(OPERATIONS), st.sampled_from(QUOTES), unquoted.filter(lambda text: text.strip()))
@example("run_task", "``", "0")
def test_quotes_around_the_whole_argument_are_no_part_of_it(operation: str, quotes: str, argument: str) -> None:
    request = ExperimentRequest(operation=operation, argument=none_if_said(operation, argument))
    meant = ExperimentRequests(requests=(request,))
    for parse in PARSERS[3:]:
        assert parse(asked(operation, f"{quotes[0]}{argument}{quotes[1]}")) == meant


@pytest.mark.parametrize("quotes", QUOTES)
def test_quotes_around_nothing_are_no_argument(quotes: str) -> None:
    for operation in WITH_ARGUMENT:
        with pytest.raises(ReplyFormatError, match="needs an <argument>"):
            parse_checker_move(asked(operation, f"{quotes[0]} {quotes[1]}"), OUTCOMES, True)


@pytest.mark.parametrize("operation", WITH_ARGUMENT)
def test_an_operation_without_its_argument_is_refused(operation: str) -> None:
    with pytest.raises(ReplyFormatError, match="needs an <argument>"):
        parse_checker_move(f"<operation>{operation}</operation>", OUTCOMES, True)


def test_no_operation_when_none_are_left() -> None:
    with pytest.raises(ReplyFormatError, match="no operations are left"):
        parse_checker_move("<operation>reset_simulator</operation>", OUTCOMES, False)


def test_verdicts() -> None:
    assert parse_checker_move("<resolved> Yes </resolved>", OUTCOMES, True) == CheckVerdict(resolved=True)
    no = parse_checker_move("<resolved>no</resolved><refinement>say where</refinement>", (), False)
    assert no == CheckVerdict(resolved=False, unresolved=(1,), refinement="say where")
    for bad in ("<resolved>maybe</resolved>", "<resolved>no</resolved>", "<resolved>no</resolved><refinement/>"):
        with pytest.raises(ReplyFormatError):
            parse_checker_move(bad, OUTCOMES, True)


def test_a_yes_needs_an_experiment() -> None:
    with pytest.raises(ReplyFormatError, match="no experiment"):
        parse_checker_move("<resolved>yes</resolved>", OUTCOMES[:1], True)


@given(st.integers(-5, 50), st.integers(1, 20))
def test_a_choice_is_a_number_in_range(choice: int, candidates: int) -> None:
    reply = f"I weigh them.\n<choice> {choice} </choice>".replace("> ", ">").replace(" <", "<")
    if 1 <= choice <= candidates:
        assert parse_choice(reply, candidates) == choice - 1
    else:
        with pytest.raises(ReplyFormatError):
            parse_choice(reply, candidates)


source_text = st.text(st.characters(exclude_characters="<`\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1)


@given(
    source_text.filter(lambda text: text.strip()),
    st.sampled_from(["{}", "\n{}\n", "```python\n{}\n```", "\n```\n{}\n```\n"]),
)
def test_code_comes_out_as_it_stands(source: str, dress: str) -> None:
    assert parse_code(f"So:\n<code>{dress.format(source)}</code>") == source.strip("\n").rstrip() + "\n"
