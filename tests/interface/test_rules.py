"""Rules of an interface as data: actions are read as trees, edits and answers, and what is said when; then in play."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest

from align_echo.errors import InterfaceError
from align_echo.interface.rules.actions import (
    ActionGrammar,
    ActionTree,
    Form,
    Reading,
    Term,
    declared_forms,
    declared_values,
    drop_examples,
    parse_call,
    seen_forms,
)
from align_echo.interface.rules.answers import AnswerReader, fit_reader, lift
from align_echo.interface.rules.edits import Edit, apply_edit, propose_edits, undo_edit
from align_echo.interface.rules.model import Advice, RuleSet, dump, load_rules
from align_echo.interface.rules.runtime import RuleRuntime
from tests.play import FORWARD, SMALL, TASK, source, wrapped

TAKE, GO = Form(text="take {0} from {1}"), Form(text="go {0}")
CALL = Form(tool="buy", arguments=("items", "count"), types=("array", "integer"))
GRAMMAR = ActionGrammar([TAKE, GO, CALL])


def call(arguments: dict[str, Any], name: str = "buy") -> str:
    return json.dumps({"name": name, "arguments": arguments})


def read(action: str, grammar: ActionGrammar = GRAMMAR) -> Reading:
    reading = grammar.read(action)
    assert reading is not None
    return reading


# ---------------------------------------------------------------- actions


@pytest.mark.parametrize(
    "action", ["take red pen from box 1", "go north", call({"items": ["pen", "ink"], "count": 2}), call({"items": []})]
)
def test_an_exact_action_is_written_as_it_was_read(action: str):
    assert read(action).exact
    assert GRAMMAR.write(read(action).tree) == action


@pytest.mark.parametrize("action", ["Take the pen from a box.", "take  pen from box", '"take pen from box"'])
def test_loose_wording_is_the_same_tree(action: str):
    reading = read(action)
    assert reading.tree == read("take pen from box").tree
    assert not reading.exact


def test_a_value_keeps_its_letters_where_a_longer_word_holds_them_too():
    assert read("TAKE Cap from The Capstan").tree.arguments == ("Cap", "Capstan")
    assert read("GO the shALL ALL").tree.arguments == ("shALL ALL",)


@pytest.mark.parametrize("action", ["[A C]", "\\boxed{[A C]}", "I move [B A], no: [A C]"])
def test_the_last_bracket_counts_and_letters_are_no_articles(action: str):
    reading = read(action, ActionGrammar(declared_forms("[{from} {to}]")))
    assert reading.tree.arguments == ("A", "C")
    assert reading.exact == (action == "[A C]")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "buy", "arguments": {"count": 1}}',
        '{"tool": "buy", "args": {"count": 1}}',
        '{"function": "buy", "parameters": {"count": 1}}',
        '{"type": "function", "function": {"name": "buy", "arguments": "{\\"count\\": 1}"}}',
        '{"type": "tool_use", "name": "buy", "input": {"count": 1}}',
    ],
)
def test_the_usual_tool_calls_are_read(text: str):
    assert parse_call(text) == ("buy", {"count": 1})
    assert read(text).tree.arguments == (None, 1)


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '{"name": 5}', '{"name": "buy", "arguments": [1]}', "buy {x}"])
def test_other_json_is_no_tool_call(text: str):
    assert parse_call(text) is None


def test_surplus_arguments_stay_in_the_action():
    tree = read(call({"items": ["pen"], "colour": "red"})).tree
    assert tree.extra == (("colour", "red"),)
    assert json.loads(GRAMMAR.write(tree))["arguments"] == {"items": ["pen"], "colour": "red"}


def test_declared_forms_are_read_from_texts_and_schemas():
    text = 'go {place} | turn {left|right} | `look` | {"name": "open | shut", "arguments": {"door": "its name"}}'
    schema = {"type": "array", "items": {"type": "string"}}
    tool = {"type": "function", "function": {"name": "buy", "parameters": {"properties": {"items": schema}}}}
    forms = {form.name: form for form in declared_forms(text, [tool])}
    assert set(forms) == {"go {0}", "turn {0}", "look", "open", "shut", "buy"}
    assert forms["shut"].arguments == ("door",)
    assert forms["buy"].types == ("array",)


def test_prose_declares_nothing():
    assert declared_forms("Answer with a short command in plain text, as a person would say it.") == []


def test_forms_are_guessed_from_actions():
    actions = ["put pen in box", "put red ink in bag", "wave", call({"x": 1}, "sell"), "odd {7} one", "once said so"]
    assert [form.name for form in seen_forms(actions)] == ["sell", "put {0} in {1}", "wave"]


def test_examples_in_signs_are_forms_with_slots():
    assert [form.name for form in declared_forms("[5]")] == ["[{0}]"]
    assert [form.name for form in declared_forms("[row col] | [3 2]")] == ["[row col]", "[{0} {1}]"]
    assert [form.name for form in seen_forms(["[A C]", "[B C]"])] == ["[{0} {1}]"]
    assert [form.name for form in seen_forms(["A C", "B C", "look"], sign="<{}>")] == ["<{0} {1}>", "<look>"]
    known = [Form(text="[A C]"), Form(text="[{0} {1}]"), Form(text="[up]"), GO]
    assert [form.name for form in drop_examples(known)] == ["[{0} {1}]", "[up]", "go {0}"]


def test_bare_words_are_read_in_the_signs_that_actions_have():
    reading = read("A C", ActionGrammar([Form(text="[{0} {1}]")]))
    assert (reading.tree.arguments, reading.exact) == (("A", "C"), False)


@pytest.mark.parametrize(
    "action",
    [
        "x" * 100_000,
        '{"name": "buy", "arguments": {"items": ' + "[" * 900 + "]" * 900 + "}}",
        '{"name": "buy", "arguments": {"items": "\\ud800"}}',
        '{"name": "buy", "arguments": {"count": NaN}}',
        '{"name": "buy", "arguments": {"count": ' + "9" * 4_500 + "}}",
        "",
        "\x00",
    ],
)
def test_hostile_actions_are_of_no_form(action: str):
    assert GRAMMAR.read(action) is None
    assert RuleRuntime(RuleSet(forms=(CALL,)), "start").hear(action, "no").reading is None


@pytest.mark.parametrize("name", [".*(", "[^", "\\1", "{0}", "é 漢字 😀", "a" * 3_000])
def test_names_with_any_signs_are_read_and_lifted(name: str):
    assert read(f"go {name}").tree.arguments == (name,)
    assert name not in lift(f"No such place: '{name}'.", f"go {name}", (name,)) or name == "{0}"


def test_reading_takes_linear_time():
    form = Form(text=" ".join(f"a {{{slot}}}" for slot in range(12)))
    began = time.monotonic()
    ActionGrammar([form]).read("a " * 1_990 + "\nb")
    assert time.monotonic() - began < 1


# ---------------------------------------------------------------- edits


@pytest.mark.parametrize(
    ("edit", "action", "edited"),
    [
        (Edit(kind="wording"), "Go the north", "go north"),
        (Edit(kind="wording"), "go north", None),
        (Edit(kind="form", detail="go {0}"), "take a from b", None),
        (Edit(kind="article", slot=0), "go the pier", "go pier"),
        (Edit(kind="article", slot=0), "go pier", None),
        (Edit(kind="article", slot=0, detail="the"), "go a pier", "go the pier"),
        (Edit(kind="case", slot=0, detail="lower"), "go Pier", "go pier"),
        (Edit(kind="case", slot=0, detail="lower"), "go pier", None),
        (Edit(kind="case", slot=0, detail="read"), "go north pier", "go North Pier"),
        (Edit(kind="case", slot=0, detail="read"), "go unread", None),
        (Edit(kind="plural", slot=0), "go piers", "go pier"),
        (Edit(kind="sign", slot=0, detail="#{}"), "go 5", "go #5"),
        (Edit(kind="sign", slot=0, detail="#{}"), "go #5", None),
        (Edit(kind="value", slot=0, detail="home"), "go away", "go home"),
        (Edit(kind="value", slot=0, detail="home"), "go home", None),
        (Edit(kind="list", slot=0), call({"items": "pen, ink"}), call({"items": ["pen", "ink"]})),
        (Edit(kind="list", slot=0), call({"items": ["pen"]}), None),
        (Edit(kind="list"), call({"items": "pen", "count": 1}), call({"items": ["pen"], "count": 1})),
        (Edit(kind="list"), call({"items": ["pen"]}), None),
        (Edit(kind="text", slot=0), call({"items": ["pen"]}), call({"items": "pen"})),
        (Edit(kind="text", slot=0), call({"items": "pen"}), None),
        (Edit(kind="number", slot=1), call({"count": "2"}), call({"count": 2})),
        (Edit(kind="number", slot=1), call({"count": "two"}), None),
        (Edit(kind="argument", detail="count"), call({"number": 2}), call({"count": 2})),
        (Edit(kind="argument", detail="count"), call({"number": 2, "count": 2}), None),
        (Edit(kind="list", slot=0), call({"items": [83, 49]}), call({"items": ["83", "49"]})),
        (Edit(kind="argument"), call({"item": ["pen"], "counts": 2}), call({"items": ["pen"], "count": 2})),
        (Edit(kind="argument"), call({"item": ["pen"], "number": 2}), None),
        (Edit(kind="argument"), call({"item": "a", "items_wanted": "b"}), None),
        (Edit(kind="argument"), call({"items": ["pen"]}), None),
        (Edit(kind="plural", slot=7), "go pier", None),
    ],
)
def test_an_edit_changes_an_action_or_does_not_apply(edit: Edit, action: str, edited: str | None):
    tree = apply_edit(edit, read(action), GRAMMAR, "You see the North Pier.")
    assert (GRAMMAR.write(tree) if tree else None) == edited


@pytest.mark.parametrize(
    ("edit", "value", "before"),
    [
        (Edit(kind="sign", slot=0, detail="#{}"), "#5", "5"),
        (Edit(kind="sign", slot=0, detail="#{}"), "5", "5"),
        (Edit(kind="sign", slot=0, detail="#{}"), "#", "#"),
        (Edit(kind="list", slot=0), ["pen", "ink"], "pen, ink"),
        (Edit(kind="article", slot=0, detail="the"), "the pen", "the pen"),
    ],
)
def test_a_sign_or_a_list_is_undone(edit: Edit, value: Any, before: Any):
    assert undo_edit(edit, value) == before


def test_values_that_a_schema_names_are_proposed():
    count = {"type": "integer", "enum": [1, 2]}
    why = {"type": "string", "description": "Either 'too big' or 'too small'; don't say 'it's', such as 'no'."}
    size = {"type": "string", "enum": ["s", "m"], "description": "One of 'x'."}
    tool = {"function": {"name": "buy", "parameters": {"properties": {"count": count, "why": why, "size": size}}}}
    named = declared_values([tool])
    assert named == {"buy": {1: ("too big", "too small"), 2: ("s", "m")}}
    grammar = ActionGrammar(declared_forms("", [tool]))
    edits = propose_edits(read(call({"why": "ugly"}), grammar), grammar, "", {}, named["buy"])
    assert [edit.detail for edit in edits if edit.kind == "value"] == ["too big", "too small", "s", "m"]


@pytest.mark.parametrize(
    ("texts", "worked", "signs"),
    [
        ("Order W-417 waits.", [], ["W-{}"]),
        ("Order 417 waits.", ["R12", "R204"], ["R{}"]),
        ("Order 417 waits.", ["R12", "S204"], []),
        ("Order 417 waits.", ["R12"], []),
        ("Order 417 waits.", ["north", "south"], []),
    ],
)
def test_letters_before_a_number_are_a_sign_if_texts_or_all_that_worked_have_them(
    texts: str, worked: list[str], signs: list[str]
):
    edits = propose_edits(read("go 417"), GRAMMAR, texts, {0: worked})
    assert [edit.detail for edit in edits if edit.kind == "sign"] == signs


def test_another_form_takes_the_same_arguments():
    grammar = ActionGrammar([GO, Form(text="walk to {0}")])
    tree = apply_edit(Edit(kind="form", detail="walk to {0}"), read("go pier", grammar), grammar)
    assert tree == ActionTree("walk to {0}", ("pier",))


# ---------------------------------------------------------------- answers


def test_only_numbers_that_rise_by_themselves_are_masked():
    episode = [f"Turn {turn}. Gold: {gold}." for turn, gold in enumerate([5, 5, 7, 7, 9])]
    reader = fit_reader([episode, episode])
    assert reader.page("Turn 3. Gold: 7.") == "Turn #. Gold: 7."
    assert fit_reader([episode]).counters == ()


def test_repeated_history_is_cut():
    episode = ["Start.", "Start. One.", "Start. One. Two.", "Start. One. Two. Three."]
    reader = fit_reader([episode])
    assert reader.page(episode[2], episode[1]) == "Two."
    assert not fit_reader([["a", "ab", "c", "cd"]]).history


def test_an_echo_and_names_are_lifted_in_any_letters():
    assert lift("I cannot 'GO PIER'.", "go pier", ("pier",)) == "I cannot '{action}'."
    assert lift("Pier is shut; pierced.", "go pier", ("pier",)) == "{0} is shut; pierced."


def test_a_line_that_is_the_action_is_no_part_of_the_page():
    reader = fit_reader([["S..", "(Left)\nS..", "(Up)\nS..", "(Left)\n.S."]], [["left", "up", "left"]])
    assert reader.page("(Up)\nS..", "(Left)\nS..", "up") == reader.page("S..")
    assert not fit_reader([["S..", "(Left)\nS..", "S..", ".S."]], [["left", "up", "left"]]).echo


def test_only_what_is_new_on_a_board_is_an_answer():
    walls = ["a.\nb.", "a.\nb.\nA wall!", "a.\n.b", "a.\n.b\nA wall!"]
    reader = fit_reader([walls])
    news = "a.\nb."
    for before, after in pairwise(walls):
        news = reader.news(after, before, news)
    assert news == "A wall!"
    assert reader.news(walls[3], walls[3], news) == "A wall!"
    assert not fit_reader([["One.", "Two.", "Three.", "Four."]]).board


def test_words_that_a_line_has_by_chance_are_not_lifted():
    text = "Numbers go from 0 to 4."
    reader = fit_reader([["Begin.", text, "Six is no number.", text]], [["0 1", "6 6", "2 3"]])
    assert reader.lift(text, "0 1", ("0", "1")) == text
    assert reader.lift("No 0 here.", "0 1", ("0", "1")) == "No {0} here."


def test_the_parts_of_an_argument_that_an_answer_names_are_lifted():
    texts = [lift(f"Number of {text[0]} not found.", "", ("#1", text)) for text in ("83, 49", "49, 83")]
    assert texts == ["Number of {part} not found."] * 2
    assert lift("83 is not in 5 of 12.", "", (["83", "49"],)) == "{0} is not in 5 of 12."


def test_an_error_that_quotes_a_tool_and_its_arguments_is_the_same_for_all_tools():
    errors = [
        lift(f"Error: {tool}() got '{name}'", call, (), (tool, name))
        for tool, name in (("buy", "item"), ("sell", "goods"))
        for call in [json.dumps({"name": tool, "arguments": {name: 1}})]
    ]
    assert errors == ["Error: {name}() got '{name}'"] * 2
    assert lift("You buy it.", "buy item", (), ("buy",)) == "You buy it."


# ---------------------------------------------------------------- when rules speak

SHUT = "It is shut."
FORMS: list[Any] = [{"text": "open {0}"}, {"text": "take {0} from {1}"}, {"text": "unlock {0}"}, {"text": "rest"}]
TAKES: dict[str, Any] = {"form": "take {0} from {1}", "answers": [SHUT], "text": "T"}
DONE = {"kind": "done", "form": "open {0}", "terms": [{"slot": 1}]}
NEEDS = TAKES | {"kind": "needs_first", "step": "open {0}", "terms": [{"slot": 1}], "unless": [DONE]}
LOCKED: dict[str, Any] = {
    "form": "open {0}",
    "answers": [SHUT],
    "text": "U",
    "kind": "needs_first",
    "step": "unlock {0}",
}
LOCKED |= {"terms": [{"slot": 0}], "unless": [{"kind": "done", "form": "unlock {0}", "terms": [{"slot": 0}]}]}


def following(*rules: dict[str, Any], opening: str = "Box 1 and box 2 with a pen.") -> RuleRuntime:
    refusals = {form["text"]: [SHUT, "{same}"] for form in FORMS}
    return RuleRuntime(load_rules({"forms": FORMS, "refusals": refusals, "rules": [*rules]}), opening)


def heard(runtime: RuleRuntime, action: str, answer: str = SHUT) -> Advice:
    return runtime.advise(runtime.hear(action, answer))


def test_a_need_names_the_step_until_it_was_done():
    runtime = following(NEEDS)
    advice = heard(runtime, "take pen from box 1")
    assert (advice.text, advice.step) == ("You need to `open box 1` first.", "open box 1")
    assert heard(runtime, "open box 2", "Opened.").text == ""
    assert heard(runtime, "take pen from box 1").step == "open box 1"
    assert heard(runtime, "open box 1", "Opened.").text == ""
    assert heard(runtime, "take pen from box 1").text == ""


def test_a_refused_step_is_not_done():
    runtime = following(NEEDS)
    heard(runtime, "open box 1")
    assert heard(runtime, "take pen from box 1").step == "open box 1"


def test_what_was_undone_is_needed_again():
    shut = {**NEEDS, "unless": [{**DONE, "undone_by": [{"form": "unlock {0}", "terms": [{"slot": 1}]}]}]}
    runtime = following(shut)
    heard(runtime, "open box 1", "Opened.")
    heard(runtime, "unlock box 1", "Turned.")
    assert heard(runtime, "take pen from box 1").step == "open box 1"


def test_a_need_leads_back_to_the_first_step():
    assert heard(following(NEEDS, LOCKED), "take pen from box 1").step == "unlock box 1"


def test_a_need_is_silent_of_names_that_were_never_read_and_of_other_answers():
    assert heard(following(NEEDS), "take pen from box 9").text == ""
    assert heard(following(NEEDS), "take pen from box 1", "What?").text == ""
    assert heard(following(NEEDS), "dance").text == ""


def test_a_name_that_only_a_refusal_repeats_was_not_read():
    quotes = "{1} is shut."
    rules = {"forms": FORMS, "refusals": {TAKES["form"]: [quotes]}, "rules": [{**NEEDS, "answers": [quotes]}]}
    runtime = RuleRuntime(load_rules(rules), "Box 1 and box 2 with a pen.")
    assert heard(runtime, "take pen from box 9", "Box 9 is shut.").text == ""
    assert heard(runtime, "take pen from box 9", "Box 9 is shut.").text == ""
    assert heard(runtime, "take pen from box 2", "Box 2 is shut.").step == "open box 2"


def instead(**edit: Any) -> dict[str, Any]:
    return {"kind": "say_instead", "form": "open {0}", "answers": [SHUT], "edit": edit, "text": "Names are bare"}


def test_another_wording_is_given_in_full_where_its_names_were_read():
    runtime = following(instead(kind="article", slot=0))
    advice = heard(runtime, "open the box 1")
    assert (advice.text, advice.step) == ("Write `open box 1` instead.", "open box 1")
    assert heard(runtime, "open box 1").text == ""
    assert heard(runtime, "open the hat") == Advice("Names are bare.", (runtime.rules.rules[0],))


def test_values_that_are_as_good_are_all_named():
    runtime = following(instead(kind="value", slot=0, detail="box 1", others=["box 2"]))
    assert heard(runtime, "open pen") == Advice("Names are bare.", (runtime.rules.rules[0],))
    assert heard(runtime, "open box 2").text == ""


def test_the_step_before_another_wording_comes_first():
    advice = heard(following(instead(kind="article", slot=0), LOCKED), "open the box 1")
    assert advice.text == "You need to `unlock box 1` first. Then: Write `open box 1` instead."
    assert advice.step == "unlock box 1"


def test_a_wording_comes_after_the_step_that_it_needs():
    wording = {**instead(kind="article", slot=0, detail="the"), "form": TAKES["form"]}
    runtime = following(wording, NEEDS)
    assert heard(runtime, "take pen from box 1").step == "open box 1"
    heard(runtime, "open box 1", "Opened.")
    assert heard(runtime, "take pen from box 1").text == "Write `take the pen from box 1` instead."


def test_missing_arguments_of_a_tool_do_not_keep_a_wording_back():
    rule = {"kind": "say_instead", "form": "buy", "answers": ["No."], "edit": {"kind": "list"}, "text": "A list"}
    rules = {"forms": [CALL.model_dump()], "refusals": {"buy": ["No."]}, "rules": [rule]}
    advice = heard(RuleRuntime(load_rules(rules), "A pen is sold."), call({"items": "pen"}), "No.")
    assert json.loads(advice.step)["arguments"] == {"items": ["pen"]}


def test_what_is_known_as_another_argument_is_not_proposed():
    """A member's id is never written as a book's, whatever sign a book's id needs."""
    edit = {"kind": "sign", "slot": 0, "detail": "#{}"}
    rule = {"kind": "say_instead", "form": "lend", "answers": ["No."], "edit": edit, "text": "With a sign"}
    forms = [Form(tool="greet", arguments=("member",)), Form(tool="lend", arguments=("book", "member"))]
    rules = {"forms": [form.model_dump() for form in forms], "refusals": {"lend": ["No."]}, "rules": [rule]}
    runtime = RuleRuntime(load_rules(rules), "Here are k-1, k-2, #k-2 and k-3.")
    heard(runtime, call({"member": "k-1"}, "greet"), "Good day.")
    assert heard(runtime, call({"book": "k-1", "member": "k-3"}, "lend"), "No.").text == ""
    advice = heard(runtime, call({"book": "k-2", "member": "k-1"}, "lend"), "No.")
    assert json.loads(advice.step)["arguments"] == {"book": "#k-2", "member": "k-1"}


def test_silence_is_said_where_the_page_stays_and_no_exception_holds():
    rule = {"kind": "no_effect", "form": "rest", "answers": ["{same}"], "text": "N"}
    slept = {"kind": "done", "form": "open {0}", "terms": [None]}
    cases: list[tuple[list[dict[str, Any]], str, str]] = [
        ([], "Opened.", "Nothing changed: `rest` has no effect here."),
        ([slept], "Opened.", ""),
        ([slept | {"negated": True}], "Opened.", "Nothing changed: `rest` has no effect here."),
    ]
    for exceptions, before, text in cases:
        runtime = following({**rule, "unless": exceptions})
        heard(runtime, "open box 1", before)
        assert heard(runtime, "rest", "Rested.").text == ""
        assert heard(runtime, "rest", "Rested.").text == text


def test_actions_without_effect_are_named_on_every_new_page():
    where = {"kind": "works_where", "form": "rest", "phrases": [";a bed "], "text": "W"}
    runtime = following(where)
    assert heard(runtime, "open box 1", "A hall.").text == "No effect here: rest."
    assert heard(runtime, "open box 2", "A hall.").text == ""
    assert heard(runtime, "open box 2", "A stair.").text == "No effect here: rest."
    assert heard(runtime, "open box 2", "a bed here").text == ""
    assert heard(runtime, "open box 2", "A stair.").text == "No effect here: rest."


def test_a_lock_speaks_after_its_cause_alone():
    lock = {**TAKES, "kind": "locked_after", "cause": "unlock {0}", "terms": [{"slot": 1}]}
    runtime = following(lock)
    assert heard(runtime, "take pen from box 1").text == ""
    heard(runtime, "unlock box 2", "Clack.")
    assert heard(runtime, "take pen from box 1").text == ""
    heard(runtime, "unlock box 1", "Clack.")
    assert heard(runtime, "take pen from box 1").text == "This is no longer possible: it had to come before."


@pytest.mark.parametrize(("in_a_row", "warned"), [(True, [0, 0, 1]), (False, [0, 0, 0])])
def test_the_refusal_before_the_last_is_warned_of(in_a_row: bool, warned: list[int]):
    rule = {"kind": "ends_episode", "answers": [SHUT], "count": 3, "in_a_row": in_a_row, "text": "E"}
    runtime = following(rule)
    said = [heard(runtime, "open box 1", answer).text for answer in (SHUT, "Opened.", SHUT, SHUT)]
    assert [bool(text) for text in said[:3]] == [False, False, not in_a_row]
    assert bool(said[3]) is in_a_row


def test_the_limit_of_turns_is_said_once():
    runtime = following({"kind": "turn_limit", "turns": 4, "left": 2, "text": "L"})
    said = [heard(runtime, "rest", str(turn)).text for turn in range(4)]
    assert said == ["", "2 more actions are possible in this episode.", "", ""]


def test_signs_of_a_template_in_an_action_are_not_filled():
    rule = {"kind": "no_effect", "form": "open {0}", "answers": [SHUT], "text": "N", "say": "{action}: {0} {1}"}
    assert heard(following(rule), "open {step} {action}").text == "open {step} {action}: {step} {action} {1}"


# ---------------------------------------------------------------- data


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (None, "RULES"),
        ({"rules": [{"kind": "odd"}]}, "rules"),
        ({"rules": [TAKES | {"kind": "no_effect", "say": "x" * 5_000}]}, "say"),
        ({"rules": [{"kind": "ends_episode"}] * 100_000}, "more than"),
        ({"values": {"go": [["x" * 400_000]]}}, "more than"),
        ({"forms": [{"text": "go {1}"}]}, "in order"),
        ({"forms": FORMS, "rules": [NEEDS | {"step": "shut {0}"}]}, "shut {0}"),
        ({"forms": FORMS, "rules": [NEEDS | {"terms": []}]}, "0 arguments"),
        ({"forms": FORMS, "colour": "red"}, "colour"),
    ],
)
def test_bad_data_is_refused_in_one_line(data: Any, named: str):
    with pytest.raises(InterfaceError, match=named) as error:
        load_rules(data)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_data_without_end_is_refused():
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises(InterfaceError, match="nested"):
        load_rules({"values": {"go": [deep]}})


def test_a_rule_set_is_the_same_after_it_was_written():
    rules = load_rules({"forms": FORMS, "rules": [NEEDS, LOCKED, instead(kind="article", slot=0)]})
    assert load_rules(dump(rules)) == rules


def test_a_page_has_no_space_around_it():
    assert AnswerReader().page(" x ") == "x"


def test_a_call_is_written_with_the_keys_that_it_was_seen_with():
    (form,) = seen_forms(['{"tool": "buy", "args": {"item": "pen"}}'])
    assert ActionGrammar([form]).write(ActionTree("buy", ("ink",))) == '{"tool": "buy", "args": {"item": "ink"}}'
    (declared,) = declared_forms('{"function": "buy", "parameters": {"item": "its name"}}')
    assert declared.keys == ("function", "parameters")


def test_a_part_of_an_argument_is_put_into_another_text():
    part = Term(slot=0, reads="deck {0}", text="pod {0}")
    assert part.of(ActionTree("board {0}", ("Deck 3",))) == "pod 3"
    assert part.of(ActionTree("board {0}", ("hall",))) is None


def test_a_rule_may_be_about_arguments_that_read_in_a_way():
    box = {"kind": "reads", "form": "box {0}", "terms": [{"slot": 1}], "negated": True}
    runtime = following({**NEEDS, "unless": [box, DONE]}, opening="Box 1, crate 1 and a pen.")
    assert heard(runtime, "take pen from box 1").step == "open box 1"
    assert heard(runtime, "take pen from crate 1").text == ""


def test_a_step_with_any_name_is_told_and_no_command():
    some = {**DONE, "terms": [None]}
    told = "`{action}` waits for some `{step}`."
    runtime = following({**NEEDS, "terms": [None], "unless": [some], "say": told})
    assert heard(runtime, "take pen from box 1") == Advice(
        "`take pen from box 1` waits for some `open ...`.", runtime.rules.rules
    )
    heard(runtime, "open box 2", "Opened.")
    assert heard(runtime, "take pen from box 1").text == ""


def test_advice_that_was_followed_in_vain_is_not_given_again():
    runtime = following(NEEDS)
    assert heard(runtime, "take pen from box 1").step == "open box 1"
    heard(runtime, "open box 1")
    assert heard(runtime, "take pen from box 1").text == ""
    assert heard(runtime, "take pen from box 2").step == "open box 2"


def test_a_wrong_form_is_written_in_another_with_arguments_in_their_places():
    terms = [{"slot": 1}, {"slot": 0}]
    swapped = {**instead(kind="form", detail="take {0} from {1}", terms=terms), "form": "take {0} from {1}"}
    assert heard(following(swapped), "take box 1 from pen").text == "Write `take pen from box 1` instead."


CLAIM: dict[str, Any] = {"kind": "claim", "text": "Boxes stick.", "say": "Boxes stick."}


def test_a_claim_is_told_once_where_an_answer_comes_and_always_of_its_refusals():
    seen = [{"task": "t", "actions": ["rest", "open box 1"], "sees": "a  CREAK"}]
    runtime = following({**CLAIM, "experiments": seen})
    assert [heard(runtime, f"open box {number}", "There is a creak.").text for number in (1, 2)] == ["Boxes stick.", ""]
    refused = following({**CLAIM, "form": "open {0}", "answers": [SHUT]})
    assert [heard(refused, f"open box {number}").text for number in (1, 2)] == ["Boxes stick."] * 2
    assert heard(refused, "open box 1", "Opened.").text == ""


# ---------------------------------------------------------------- in play

EXPLAIN = """
obs, reward, done, info = env.step([agent_action])
return env.explain(RULES, agent_action, obs[0]), info["won"][0], done[0]
"""
NOTHING = "Nothing happens."
ROOM = {
    "forms": [{"text": "take {0}"}, {"text": "go to {0}"}, {"text": "drop {0}"}],
    "refusals": {"drop {0}": [NOTHING]},
    "rules": [
        {
            "kind": "needs_first",
            "form": "drop {0}",
            "answers": [NOTHING],
            "step": "take {0}",
            "terms": [{"slot": 0}],
            "unless": [{"kind": "done", "form": "take {0}", "terms": [{"slot": 0}]}],
            "text": "Take first",
        },
        {"kind": "turn_limit", "turns": 6, "left": 1, "text": "L"},
    ],
}


def told(rules: Any, *actions: str, body: str = EXPLAIN, top: str = "", placebo: bool = False) -> list[tuple[str, str]]:
    """Play the two rooms under rules: each turn's text and why the interface was bypassed."""
    env = wrapped(source(body, top=top or f"RULES = {rules!r}"))
    env.interface = env.interface.model_copy(update={"placebo": placebo})
    try:
        env.reset(options={"task": TASK})
        steps = [env.step(action) for action in actions]
    finally:
        env.close()
    return [(text, info["interface_error"]) for text, *_, info in steps]


SHOWN = EXPLAIN.replace("obs[0])", "obs[0], SHOWN)")


def test_code_that_shows_its_own_words_is_joined_by_rules_of_wordings_alone():
    wording = {
        "kind": "say_instead",
        "form": "drop {0}",
        "answers": [NOTHING],
        "edit": {"kind": "form", "detail": "go to {0}"},
        "text": "W",
    }
    for rules, own, joined in (
        (ROOM, "No.", "No."),
        (ROOM, NOTHING, "Nothing happens. You need to `take mug 1` first."),
        ({**ROOM, "rules": [wording]}, "No.", "No. Write `go to mug 1` instead."),
    ):
        assert told(rules, "drop mug 1", body=SHOWN, top=f"RULES = {rules!r}\nSHOWN = {own!r}") == [(joined, "")]


def test_a_rule_speaks_in_an_interface_and_its_placebo_does_not():
    first, second = told(ROOM, "drop mug 1", "take mug 1")
    assert first == (f"{NOTHING} You need to `take mug 1` first.", "")
    assert second == ("You take the mug 1.", "")
    [(text, error)] = told(ROOM, "drop mug 1", placebo=True)
    assert "take mug 1" not in text
    assert text.startswith(NOTHING)
    assert len(text) > len(NOTHING)
    assert error == ""


def test_nothing_is_said_after_the_end():
    limit = {"rules": [{"kind": "turn_limit", "turns": 4, "left": 1, "text": "L"}]}
    texts = [text for text, _ in told(limit, "take mug 1", "go to study", "drop mug 1")]
    assert not any("more actions" in text for text in texts)
    texts = [text for text, _ in told(limit, "take mug 1", "look", "look")]
    assert texts[2].endswith("1 more actions are possible in this episode.")


@pytest.mark.parametrize(
    ("rules", "named"), [({"rules": [{"kind": "odd"}]}, "RULES: rules.0"), (None, "RULES"), ([1], "RULES")]
)
def test_broken_rules_leave_the_environments_own_text(rules: Any, named: str):
    with pytest.raises(InterfaceError, match=named):
        told(rules, "drop mug 1")
    [(text, error)] = told(None, "drop mug 1", top=f"RULES = [{rules!r}][0]")
    assert text == NOTHING
    assert named in error
    assert "\n" not in error


@pytest.mark.parametrize("arguments", ["RULES, agent_action, 5", "RULES, None, obs[0]", "{}, agent_action"])
def test_wrong_arguments_of_explain_are_named(arguments: str):
    [(text, error)] = told(ROOM, "drop mug 1", body=EXPLAIN.replace("RULES, agent_action, obs[0]", arguments))
    assert text == NOTHING
    assert "TypeError" in error


@pytest.mark.parametrize("arguments", ["", "1", "1, 2", "agent_action, 5"])
def test_the_hosts_own_function_bears_wrong_arguments(arguments: str):
    body = FORWARD.replace("return", f"_align_explain({arguments})\nreturn")
    [(text, error), (_, again)] = told(ROOM, "drop mug 1", "look", body=body)
    assert text == NOTHING
    assert "TypeError" in error
    assert "TypeError" in again


HOSTILE = {
    "many rules": "RULES = {'rules': [{'kind': 'ends_episode'}] * 100_000}",
    "itself": "RULES = {'rules': []}\nRULES['rules'].append(RULES)",
    "deep": "RULES = []\nfor _ in range(3_000):\n    RULES = [RULES]\n",
    "long templates": "RULES = {'rules': [{'kind': 'turn_limit', 'turns': 2, 'left': 1, 'text': '', "
    "'say': '{left}' * 1_000_000}]}",
    "many forms": "RULES = {'forms': [{'text': ' '.join(['a {%d}' % at for at in range(20)]) + str(form)} "
    "for form in range(400)]}",
    "many conditions": "RULES = {'forms': [{'text': 'drop {0}'}], 'refusals': {'drop {0}': ['Nothing happens.']}, "
    "'rules': [{'kind': 'no_effect', 'form': 'drop {0}', 'answers': ['Nothing happens.'], 'text': '', "
    "'unless': [{'kind': 'done', 'form': 'drop {0}'}] * 10_000}]}",
}


@pytest.mark.parametrize("top", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_rules_cost_a_turn_at_most_its_seconds(top: str):
    began = time.monotonic()
    [(text, _)] = told(None, "drop mug " + "a " * 1_500, top=top)
    assert text.startswith(NOTHING)
    assert time.monotonic() - began < SMALL.seconds + 1


def test_declared_forms_end_with_their_line_and_capitals_stand_for_names():
    head = "One action a turn, in a form of these:\nlook | go to LOC | open OBJ"
    text = f"{head}\nmove OBJ to OBJ | find[{{words for it}}]\nBe brief."
    names = [form.name for form in declared_forms(text)]
    assert names == ["look", "go to {0}", "open {0}", "move {0} to {1}", "find[{0}]"]


# ---------------------------------------------------------------- names


def test_names_part_arguments_side_by_side():
    grammar = ActionGrammar([Form(text="stow {0} {1}")], ["red pen", "box 0"])
    assert read("stow red pen box 12", grammar).tree.arguments == ("red pen", "box 12")
    assert grammar.read("stow green cap box 2") is None


BELONGS: dict[str, Any] = {
    "forms": [{"text": "go {0}"}, {"text": "take {0}"}],
    "refusals": {"take {0}": ["No."]},
    "kinds": {"go {0}": [["hall", "attic 0"]], "take {0}": [["pen", "cap"]]},
}


def rule_of(by: str) -> dict[str, Any]:
    return {
        "kind": "needs_first",
        "form": "take {0}",
        "answers": ["No."],
        "step": "go {0}",
        "terms": [{"slot": 0, "by": by}],
        "unless": [{"kind": "latest", "form": "go {0}", "terms": [{"slot": 0, "by": by}]}],
        "text": "Before `take X` you need to `go P`",
    }


@pytest.mark.parametrize(
    ("by", "turns", "step"),
    [
        ("beside", [], "go attic 3"),
        ("beside", [("go hall", "Here is a cap.")], "go attic 3"),
        ("beside", [("go attic 3", "Dark.")], ""),
        ("seen", [], ""),
        ("seen", [("go hall", "There is a pen."), ("go attic 3", "Dark.")], "go hall"),
    ],
)
def test_a_step_names_what_belongs_to_the_argument(by: str, turns: list[tuple[str, str]], step: str):
    rules = load_rules({**BELONGS, "rules": [rule_of(by)]})
    runtime = RuleRuntime(rules, "You see a hall and an attic 3. The pen lies in the attic 3. The cap is lost.")
    for turn in turns:
        runtime.hear(*turn)
    assert runtime.advise(runtime.hear("take pen", "No.")).step == step


def test_letter_case_parts_no_names():
    rules = load_rules({**BELONGS, "rules": [rule_of("beside")]})
    runtime = RuleRuntime(rules, "The Pen lies in the Attic 3.")
    assert runtime.advise(runtime.hear("take pen", "No.")).step == "go Attic 3"


def test_a_condition_with_too_many_terms_is_no_error():
    rule = rule_of("beside")
    many = [{"slot": 0, "by": "seen"}] * 3
    rule["unless"] = [{"kind": "done", "form": "go {0}", "terms": many}]
    runtime = RuleRuntime(load_rules({**BELONGS, "rules": [rule]}), "The pen lies in the attic 3.")
    runtime.hear("go hall", "There is a pen.")
    assert runtime.advise(runtime.hear("take pen", "No.")) == Advice("")


def test_nothing_is_said_of_names_of_another_kind():
    runtime = RuleRuntime(load_rules({**BELONGS, "rules": [rule_of("beside")]}), "The hall is in the attic 3.")
    assert runtime.advise(runtime.hear("take hall", "No.")) == Advice("")


@pytest.mark.parametrize(("order", "said"), [("W12", "#W12"), ("w12", "")])
def test_a_command_names_only_what_was_read_in_these_letters(order: str, said: str):
    rule = {
        "kind": "say_instead",
        "form": "cancel",
        "answers": ["Not found."],
        "edit": {"kind": "sign", "slot": 0, "detail": "#{}"},
        "text": "In `cancel(order=X)`, order is written #...",
    }
    forms = [{"tool": "cancel", "arguments": ["order"], "types": ["string"]}]
    runtime = RuleRuntime(load_rules({"forms": forms, "rules": [rule], "refusals": {"cancel": ["Not found."]}}), "#W12")
    advice = runtime.advise(runtime.hear(call({"order": order}, "cancel"), "Not found."))
    assert advice.step == (call({"order": said}, "cancel") if said else "")
    assert "is written #..." in advice.text or said
