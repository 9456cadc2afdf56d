"""How models write operations, findings, verdicts, code: every style x any content means the same; junk is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.align.experiments import OPERATIONS, WITH_ARGUMENT
from align_echo.align.llm.replies import (
    KINDS,
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
from align_echo.prompts import render
from tests.align.llm.test_replies import OUTCOMES, TASKS, VALUES

Said = Callable[[str, str], str]


def tagged(name: str, argument: str) -> str:
    return f"<operation>{name}</operation>" + (f"\n<argument>{argument}</argument>" if argument else "")


def keyword(name: str) -> str:
    return {"init_simulator": "task_id", "change_last_action_observation": "obs"}.get(name, "agent_action")


def called(name: str, argument: str) -> str:
    """The paper's own form."""
    return f"{name}({keyword(name)}={json.dumps(argument)})" if argument else f"{name}()"


MOVES: dict[str, Said] = {
    "as asked": tagged,
    "thoughts before": lambda n, a: f"I expect it to fail.\n\n{tagged(n, a)}",
    "thinking block": lambda n, a: f"<think>{tagged('reset_simulator', '')}</think>{tagged(n, a)}",
    "thinking block without its beginning": lambda n, a: f"Maybe {tagged('reset_simulator', '')}</think>{tagged(n, a)}",
    "fence": lambda n, a: f"```xml\n{tagged(n, a)}\n```",
    "capitals": lambda n, a: tagged(n, a).replace("operation>", "OPERATION>").replace("argument>", "Argument>"),
    "spaces in tags": lambda n, a: tagged(n, a).replace("<operation>", "< operation >"),
    "quotes": lambda n, a: tagged(n, f'"{a}"' if a else ""),
    "single quotes": lambda n, a: tagged(n, f"'{a}'" if a else ""),
    "backticks": lambda n, a: tagged(f"`{n}`", f"`{a}`" if a else ""),
    "bold name": lambda n, a: tagged(f"**{n}**", a),
    "empty brackets": lambda n, a: tagged(f"{n}()", a),
    "a call": lambda n, a: f"<operation>{called(n, a)}</operation>",
    "a call without the argument's name": lambda n, a: f"<operation>{n}({json.dumps(a) if a else ''})</operation>",
    "a call in single quotes": lambda n, a: f"<operation>{n}({a and repr(a)})</operation>",
    "a call without quotes": lambda n, a: f"<operation>{n}({a})</operation>",
    "a call with a name and no quotes": lambda n, a: f"<operation>{n}({a and f'{keyword(n)}={a}'})</operation>",
    "a colon": lambda n, a: f"<operation>{n}: {a}</operation>" if a else tagged(n, a),
    "argument within": lambda n, a: f"<operation>{n}<argument>{a}</argument></operation>" if a else tagged(n, a),
    "argument first": lambda n, a: f"<argument>{a}</argument>{tagged(n, '')}" if a else tagged(n, a),
    "argument with its name": lambda n, a: tagged(n, f'{keyword(n)}="{a}"' if a else ""),
    "argument twice": lambda n, a: (
        f"<operation>{called(n, a)}</operation>" + (f"<argument>{a}</argument>" if a else "")
    ),
    "name with spaces": lambda n, a: tagged(n.replace("_", " "), a),
    "a tool call": lambda n, a: (
        f"<operation>{json.dumps({'name': n, 'arguments': {keyword(n): a} if a else {}})}</operation>"
    ),
    "the tag mentioned": lambda n, a: f"I write my <operation> now:\n{tagged(n, a)}",
    "the instructions repeated": lambda n, a: f"{render('shared/tools', {'most': 8})}\n\n{tagged(n, a)}",
    "on lines of their own": lambda n, a: f"<operation>\n  {n}\n</operation>\n<argument>\n{a}\n</argument>",
}
SEVERAL: dict[str, tuple[Said, tuple[str, str]]] = {
    "two at once": (
        lambda n, a: f"{tagged(n, a)}\nand then\n{tagged('execute_agent_action', 'drop it')}",
        ("execute_agent_action", "drop it"),
    ),
    "two calls at once": (
        lambda n, a: f"<operation>{called(n, a)}</operation><operation>run_task()</operation>",
        ("run_task", ""),
    ),
    "its outcome made up": (
        lambda n, a: f"{tagged(n, a)}\nExperiment 1: it works.\n{tagged('get_next_agent_action', '')}",
        ("get_next_agent_action", ""),
    ),
}

words = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=8)
arguments = st.lists(words, min_size=1, max_size=5).map(" ".join).filter(lambda text: text not in ("none", "nothing"))
moves = st.sampled_from(OPERATIONS).flatmap(
    lambda name: st.tuples(st.just(name), arguments if name in WITH_ARGUMENT else st.just(""))
)


def requests(*moves: tuple[str, str]) -> ExperimentRequests:
    return ExperimentRequests(requests=tuple(ExperimentRequest(operation=name, argument=said) for name, said in moves))


@given(moves)
def test_several_operations_of_a_message_are_read_in_order(move: tuple[str, str]) -> None:
    for style, (dress, second) in SEVERAL.items():
        for parsed in (
            parse_analyzer_move(dress(*move), TASKS, OUTCOMES, True),
            parse_checker_move(dress(*move), OUTCOMES, True),
        ):
            assert parsed == requests(move, second), style


def test_operations_beyond_the_limit_are_counted_and_unreadable_ones_named() -> None:
    parsed = parse_checker_move("\n".join([tagged("reset_simulator", "")] * 11), OUTCOMES, True)
    assert isinstance(parsed, ExperimentRequests)
    assert (len(parsed.requests), parsed.dropped) == (8, 3)
    with pytest.raises(ReplyFormatError, match=r"operation 2: 'jump' is no operation; .* operation 3: init_simulator"):
        parse_checker_move(
            tagged("run_task", "") + tagged("jump", "") + tagged("init_simulator", ""), OUTCOMES, True
        )


@settings(deadline=None, max_examples=50)
@given(moves)
def test_an_operation_means_the_same_in_every_style(move: tuple[str, str]) -> None:
    for style, dress in MOVES.items():
        expected = requests(move)
        assert parse_analyzer_move(dress(*move), TASKS, OUTCOMES, True) == expected, style
        assert parse_checker_move(dress(*move), OUTCOMES, True) == expected, style


@pytest.mark.parametrize(
    "action",
    [
        *("'a' in 'b'", '"red" or "blue"', "click[Buy Now]", "search[size 7.5]", "f('a', \"b\")", "x = 1", "Say: Hi."),
        *("if a < 3: b()", "print(1)", "2. go", "f(x=1)", "{}"),
    ],
)
def test_what_belongs_to_the_action_stays(action: str) -> None:
    move = parse_checker_move(tagged("execute_agent_action", action), OUTCOMES, True)
    assert move == requests(("execute_agent_action", action))


@pytest.mark.parametrize(
    ("reply", "reasons"),
    [
        ("<operation>init_simulator(task_id='a', interface='b')</operation>", ["takes one argument"]),
        ('<operation>execute_agent_action("look")</operation><argument>wait</argument>', ["two different arguments"]),
        ("<operation>take a look</operation>", ["is no operation"]),
        (render("shared/tools", {"most": 8}), ["neither <operation> nor"]),
    ],
)
def test_what_could_mean_two_things_is_refused(reply: str, reasons: list[str]) -> None:
    with pytest.raises(ReplyFormatError) as caught:
        parse_checker_move(reply, OUTCOMES, True)
    assert all(reason in str(caught.value) for reason in reasons)


# ---------------------------------------------------------------- findings

CITED = "<support>2, 5</support><refuted>none</refuted>"


def finding(values: dict[str, str], cites: str = CITED, kind: str = "new-logic") -> str:
    inner = "\n".join(f"<{name}>{value}</{name}>" for name, value in values.items())
    return f"<misalignment>\n{inner}\n<kind>{kind}</kind>\n{cites}\n</misalignment>"


FORM = render("shared/misalignment", {"kinds": KINDS, "cite": True})
FINDINGS: dict[str, Callable[[dict[str, str]], str]] = {
    "as asked": lambda v: f"<misalignments>\n{finding(v)}\n</misalignments>",
    "fence": lambda v: f"```xml\n<misalignments>{finding(v)}</misalignments>\n```",
    "no outer tags": lambda v: f"Here it is.\n{finding(v)}",
    "numbered": lambda v: f"<misalignments>\n1. {finding(v)}\n</misalignments>",
    "heading": lambda v: f"<misalignments>\n### Misalignment 1\n{finding(v)}\n</misalignments>",
    "escaped underscores": lambda v: f"<misalignments>{finding(v).replace('_id>', chr(92) + '_id>')}</misalignments>",
    "capitals": lambda v: f"<Misalignments>{finding(v).replace('rule>', 'Rule>')}</Misalignments>",
    "quoted action": lambda v: f"<misalignments>{finding({**v, 'action': repr(v['action'])})}</misalignments>",
    "task in backticks": lambda v: f"<misalignments>{finding({**v, 'task_id': '`t/1`'})}</misalignments>",
    "task with its word": lambda v: f"<misalignments>{finding({**v, 'task_id': 'Task t/1'})}</misalignments>",
    "kind in words": lambda v: f"<misalignments>{finding(v, kind='**New logic**')}</misalignments>",
    "kind with underscores": lambda v: f"<misalignments>{finding(v, kind='new_logic.')}</misalignments>",
    "the form repeated": lambda v: f"In the form\n{FORM}\nI conclude:\n<misalignments>{finding(v)}</misalignments>",
    "thinking block": lambda v: (
        f"<think><misalignments>none</misalignments></think><misalignments>{finding(v)}</misalignments>"
    ),
    "experiments in a sentence": lambda v: (
        f"<misalignments>{finding(v, CITED.replace('2, 5', 'Experiments 2 and 5'))}</misalignments>"
    ),
    "numbers with signs": lambda v: f"<misalignments>{finding(v, CITED.replace('2, 5', '#2, #5'))}</misalignments>",
    "numbers in brackets": lambda v: f"<misalignments>{finding(v, CITED.replace('2, 5', '[2], [5].'))}</misalignments>",
    "numbers in a list": lambda v: f"<misalignments>{finding(v, CITED.replace('2, 5', '[2, 5]'))}</misalignments>",
    "an ampersand": lambda v: f"<misalignments>{finding(v, CITED.replace('2, 5', 'Exp. 2 & Exp. 5'))}</misalignments>",
    "nothing against": lambda v: f"<misalignments>{finding(v, '<support>2 5</support>')}</misalignments>",
    "not applicable": lambda v: f"<misalignments>{finding(v, CITED.replace('none', 'N/A'))}</misalignments>",
}
texts = st.lists(words, min_size=2, max_size=6).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(st.fixed_dictionaries({name: texts for name in VALUES if name != "task_id"}))
def test_findings_mean_the_same_in_every_style(values: dict[str, str]) -> None:
    for style, dress in FINDINGS.items():
        move = parse_analyzer_move(dress({"task_id": "t/1", **values}), TASKS, OUTCOMES, True)
        assert isinstance(move, AnalyzerFindings), style
        (misalignment,) = move.misalignments
        assert {name: getattr(misalignment, name) for name in values} == values, style
        assert (misalignment.task_id, misalignment.kind) == ("t/1", "new-logic"), style
        assert (misalignment.evidence.support, misalignment.evidence.refuted) == (2, 0), style


@pytest.mark.parametrize("support", ["18-20", "2 to 5", "mug 1", "the second", "2, mug 1", "2.5", "-2", "2/5"])
def test_a_citation_that_could_mean_another_is_refused(support: str) -> None:
    with pytest.raises(ReplyFormatError, match="experiment numbers"):
        parse_analyzer_move(finding(VALUES, CITED.replace("2, 5", support)), TASKS, OUTCOMES, True)


def test_the_wrong_finding_is_told_and_the_others_are_kept_aside() -> None:
    wrong = finding({**VALUES, "rule": ""}, CITED.replace("2, 5", "1, 9"), kind="odd")
    findings = parse_analyzer_move(f"<misalignments>{finding(VALUES)}{wrong}</misalignments>", TASKS, OUTCOMES, True)
    assert isinstance(findings, AnalyzerFindings)
    (reasons,) = findings.dropped
    assert "misalignment 2: <rule> is empty; <kind> must be one of" in reasons
    assert "<support> cites experiment 1, 9" in reasons
    assert [misalignment.rule for misalignment in findings.misalignments] == ["x"]


@pytest.mark.parametrize("cite", [True, False])
def test_the_prompts_own_form_is_no_answer(cite: bool) -> None:
    form = render("shared/misalignment", {"kinds": KINDS, "cite": cite})
    system = render("optimizer/check", {"new": "1. x", "turns": 3, "most": 8})
    for reply in (form, *form.splitlines(), f"I use this form:\n{form}"):
        for parse in (lambda text: parse_findings(text, TASKS), lambda text: parse_choice(text, 3), parse_code):
            with pytest.raises(ReplyFormatError):
                parse(reply)
    for reply in (system, *system.splitlines(), render("analyzer/rerank", {"candidates": []})):
        with pytest.raises(ReplyFormatError):
            parse_checker_move(reply, OUTCOMES, True)
        with pytest.raises(ReplyFormatError):
            parse_choice(reply, 3)
    with pytest.raises(ReplyFormatError):
        parse_code(render("optimizer/write", {"covered": "", "new": "", "samples": ""}))


# ---------------------------------------------------------------- verdicts and choices

VERDICTS = {
    "<resolved>**Yes**.</resolved>": CheckVerdict(resolved=True),
    "```\n<Resolved>yes</Resolved>\n```": CheckVerdict(resolved=True),
    "<resolved>no</resolved><unresolved>2 and 3</unresolved><refinement>r</refinement>": (2, 3),
    "<resolved>No.</resolved><unresolved>Misalignments #2, #3</unresolved><refinement>r</refinement>": (2, 3),
    "<resolved>no</resolved><unresolved>all</unresolved><refinement>r</refinement>": (1, 2, 3),
}


@pytest.mark.parametrize("reply", VERDICTS)
def test_a_verdict_means_the_same_in_every_style(reply: str) -> None:
    expected = VERDICTS[reply]
    if isinstance(expected, tuple):
        expected = CheckVerdict(resolved=False, unresolved=expected, refinement="r")
    assert parse_checker_move(reply, OUTCOMES, True, 3) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "<resolved>no</resolved><unresolved>none</unresolved><refinement>nothing works yet</refinement>",
        "<resolved>no</resolved><unresolved>0</unresolved><refinement>nothing works yet</refinement>",
        "<resolved>yes</resolved><unresolved>1, 2</unresolved>",
    ],
)
def test_a_verdict_that_contradicts_itself_is_none(reply: str) -> None:
    with pytest.raises(ReplyFormatError, match="<unresolved>"):
        parse_checker_move(reply, OUTCOMES, True, 3)


def test_a_verdict_on_several_says_which_and_counts_nothing_without_an_experiment() -> None:
    with pytest.raises(ReplyFormatError, match=r"<unresolved> is missing; <refinement> is missing"):
        parse_checker_move("<resolved>no</resolved>", OUTCOMES, True, 3)
    with pytest.raises(ReplyFormatError, match="from 1 to 3"):
        parse_checker_move(
            "<resolved>no</resolved><unresolved>4</unresolved><refinement>r</refinement>", OUTCOMES, True, 3
        )
    untried = parse_checker_move(
        "<resolved>no</resolved><unresolved>1</unresolved><refinement>r</refinement>", (), True, 3
    )
    assert untried == CheckVerdict(resolved=False, unresolved=(1, 2, 3), refinement="r")


@pytest.mark.parametrize("said", ["2", "#2", "**2**", "2.", "Analysis 2", "interface 2", "'2'", "no. 2"])
def test_a_choice_in_every_style(said: str) -> None:
    assert parse_choice(f"<choice>{said}</choice>", 3) == 1


# ---------------------------------------------------------------- code

CODE = "def InferRules(a):\n    return '<Action>'\n\n\ndef WrapStep(b):\n    return b"
CODES: dict[str, str] = {
    "as asked": f"<code>\n{CODE}\n</code>",
    "fence in tags": f"<code>\n```python\n{CODE}\n```\n</code>",
    "tags in a fence": f"```python\n<code>\n{CODE}\n</code>\n```",
    "fence alone": f"Here:\n```python\n{CODE}\n```\nThat is all.",
    "fence without a language": f"```\n{CODE}\n```",
    "another fence": f"~~~python\n{CODE}\n~~~",
    "the old code quoted": f"Now:\n```python\nold def InferRules def WrapStep\n```\nBetter:\n```py\n{CODE}\n```",
    "a part quoted": f"The line\n```python\nreturn b\n```\nmoves:\n```python3\n{CODE}\n```",
    "capitals": f"<CODE>{CODE}</CODE>",
    "thinking block": f"<think><code>{CODE}1</code></think><code>{CODE}</code>",
    "the form repeated": (
        f"{render('optimizer/write', {'covered': '', 'new': '', 'samples': ''})}\n<code>{CODE}</code>"
    ),
}


@pytest.mark.parametrize("style", CODES)
def test_code_is_taken_as_it_stands(style: str) -> None:
    assert parse_code(CODES[style], current="old def InferRules def WrapStep") == CODE + "\n"


def test_of_two_codes_none_is_picked() -> None:
    for both in (f"```\n{CODE}\n```\n```\n{CODE}1\n```", f"<code>{CODE}</code><code>{CODE}1</code>"):
        with pytest.raises(ReplyFormatError):
            parse_code(both)


def test_the_corpus_is_wide() -> None:
    assert len(MOVES) + len(SEVERAL) + len(FINDINGS) + len(VERDICTS) + len(CODES) >= 60


HOSTILE = [
    *("<argument>" * 20_000, "<argument>" + "</argument>" * 20_000, "<operation>" * 20_000, "</operation>" * 20_000),
    *("<" + " " * 100_000, "{" * 50_000, "```\n" * 20_000),
]


@pytest.mark.parametrize("text", [*HOSTILE, "<operation>" + "{" * 50_000 + "</operation>", "a(" * 50_000], ids=len)
def test_a_reply_made_to_hang_the_reader_is_refused_at_once(text: str) -> None:
    for reply in (text, f"<operation>{text}</operation>", f"<support>{text}</support>", f"<misalignment>{text}"):
        for parse in (
            lambda said: parse_analyzer_move(said, TASKS, OUTCOMES, True),
            lambda said: parse_checker_move(said, OUTCOMES, True),
            parse_code,
        ):
            with pytest.raises(ReplyFormatError):
                parse(reply)
