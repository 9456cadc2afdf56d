"""The run-time half of the probe: histories, recognising actions, and what is said about a refused one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.align.probe import emit, runtime
from align_echo.align.probe.names import NUMBERED
from align_echo.interface.contract import check_source
from tests.room_env import CONTRACT

SPEC: dict[str, Any] = {
    "name": NUMBERED,
    "templates": {
        "walk to {0}": [{"if": [["last", "walk to {0}", 0, 0]], "then": "already"}],
        "peer at {0}": [
            {"if": [["not", ["last", "walk to {0}", 0, 0]]], "then": ["walk to {0}", [["name", 0]], False]}
        ],
        "grab {0} off {1}": [
            {"if": [["any", 0, 0]], "then": ["lay {0} on {1}", [["active", 0, 0], ["name", 1]], False]},
            {"if": [["not", ["last", "walk to {0}", 0, 1]]], "then": ["walk to {0}", [["name", 1]], False]},
        ],
        "lay {0} on {1}": [],
    },
    "now": {
        "walk to {0}": [{"if": [["not", ["last", "walk to {0}", 0, 0]]], "then": "now"}],
        "lay {0} on {1}": [{"if": [["shows", "pockets", 0]], "then": "now"}],
    },
    "kinds": {"walk to {0}": [["rock", "boulder"]]},
    "combined": {},
    "views": ["pockets", "peer at {}"],
    "spelling": {"case": True, "number": True},
    "pairs": [["grab {0} off {1}", "lay {0} on {1}", [0, 1]]],
    "needs": {},
    "movers": ["walk to {0}"],
    "uninformative": ["No."],
    "forms": {"leave {0} on {1}": "lay {0} on {1}"},
}


def history_after(*turns: tuple[str, str]):
    history = runtime.new_history(SPEC, "You see a rock 1, a rock 2, and a pole 7.")
    for action, observation in turns:
        runtime.record(SPEC, history, action, observation)
    return history


def test_the_missing_step_is_named_and_goes_away_once_done():
    assert "you need to `walk to rock 1` first" in runtime.advise(SPEC, history_after(), "peer at rock 1")
    history = history_after(("walk to rock 1", "You are at rock 1."))
    assert runtime.advise(SPEC, history, "peer at rock 1") == ""


def test_a_step_is_not_named_for_a_thing_of_a_kind_that_its_form_never_took():
    assert "walk to" not in runtime.advise(SPEC, history_after(), "peer at pole 7")


def test_a_refused_action_leaves_no_trace():
    assert "walk to rock 1" in runtime.advise(SPEC, history_after(("walk to rock 1", "No.")), "peer at rock 1")


def test_what_is_in_hand_is_remembered_until_it_is_laid_down():
    held = ("grab pole 7 off rock 1", "Got it. There is a cup 3.")
    history = history_after(held)
    runtime.look_at(history, {"pockets": "You have a pole 7."})
    advice = runtime.advise(SPEC, history, "grab cup 3 off rock 1")
    assert "you need to `lay pole 7 on rock 1` first" in advice
    laid = history_after(held, ("lay pole 7 on rock 2", "Done."))
    assert "lay pole 7" not in runtime.advise(SPEC, laid, "grab cup 3 off rock 1")


def test_an_action_without_effect_is_called_so():
    history = history_after(("walk to rock 1", "You are at rock 1."))
    assert "already so" in runtime.advise(SPEC, history, "walk to rock 1")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("leave pole 7 on rock 1", "write `lay pole 7 on rock 1`"),
        ("leave pole on rock 1", "write `lay pole 7 on rock 1`"),
        ("lay pole on rock 1", "write `lay pole 7 on rock 1`"),
        ("Lay pole 7 on rock 1", "write `lay pole 7 on rock 1`"),
        ("lay  pole 7 on rock 1", "write `lay pole 7 on rock 1`"),
        ("lay the pole 7 on the rock 1", "write `lay pole 7 on rock 1`"),
    ],
)
def test_near_misses_are_rewritten_where_the_rewriting_is_allowed(said: str, meant: str):
    history = history_after()
    runtime.look_at(history, {"pockets": "You have a pole 7."})
    assert meant in runtime.advise(SPEC, history, said)
    runtime.look_at(history, {"pockets": "You have nothing."})
    form = f"`{said}` is not understood: the form is `lay pole 7 on rock 1`." if said.startswith("leave") else ""
    assert runtime.advise(SPEC, history, said) == form


@pytest.mark.parametrize(
    ("said", "name", "like"),
    [
        ("walk to rock 99", "rock 99", ", only rock 1, rock 2"),
        ("walk to unicorn 1", "unicorn 1", ""),
        ("grab cup 3 off rock 1", "cup 3", ""),
        ("grab pole 7 off shed 1", "shed 1", ""),
        ("grab pole 7 off shed", "shed", ""),
        ("Walk To Rock 99", "rock 99", ", only rock 1, rock 2"),
        ("leave pole 7 on shed 1", "shed 1", ""),
    ],
)
def test_of_what_was_never_named_nothing_is_said_but_that(said: str, name: str, like: str):
    assert runtime.advise(SPEC, history_after(), said) == f"Nothing called `{name}` was seen so far{like}."


def test_a_name_without_its_number_keeps_its_meaning_when_the_action_is_said_again():
    history = history_after()
    assert runtime.read(SPEC, history, "peer at rock") == ("peer at {0}", ["rock 2"])
    runtime.record(SPEC, history, "walk to rock 1", "You are at rock 1.")
    assert runtime.read(SPEC, history, "peer at rock") == ("peer at {0}", ["rock 2"])
    assert runtime.read(SPEC, history, "walk to rock") == ("walk to {0}", ["rock 1"])


def test_a_word_that_was_read_is_not_called_unseen():
    history = runtime.new_history(SPEC, "You see a rock 1. Bring a shed to it.")
    assert runtime.advise(SPEC, history, "grab rock 1 off shed") == ""


def test_a_step_that_no_rule_calls_allowed_is_not_said():
    history = history_after(("grab pole 7 off rock 1", "Got it. There is a cup 3."))
    runtime.look_at(history, {"pockets": "You have nothing."})
    assert "lay pole 7" not in runtime.advise(SPEC, history, "grab cup 3 off rock 1")


def test_nothing_is_said_of_kinds_that_never_stood_in_that_place():
    history = history_after(("walk to rock 1", "You are at rock 1."))
    assert runtime.advise(SPEC, history, "walk to pole 7") == ""


def test_where_a_thing_was_seen_is_told_if_the_way_there_is_certain():
    turns = (("walk to rock 1", "You are at rock 1. A cup 3."), ("walk to rock 2", "You are at rock 2."))
    assert runtime.advise(SPEC, history_after(*turns), "grab cup 3 off rock 2") == (
        "`cup 3` was last seen after `walk to rock 1`."
    )
    assert runtime.advise(SPEC, history_after(*turns[:1]), "grab cup 3 off rock 1") == ""


def test_where_a_thing_was_seen_is_not_told_by_an_action_on_two_things():
    lay = "lay {0} on {1}"
    row = {"if": [], "sure": True, "then": ["walk to {0}", [["name", 1]], False]}
    spec = {**SPEC, "pairs": [], "movers": [lay], "templates": {**SPEC["templates"], lay: [row]}}
    history = runtime.new_history(spec, "You see a rock 1, a rock 2, and a pole 7.")
    runtime.record(spec, history, "lay cup 1 on rock 1", "Beside it lies a cup 3.")
    runtime.record(spec, history, "lay cup 2 on rock 2", "It lies there.")
    assert runtime.advise(spec, history, "peer at cup 3") == ""


def test_nothing_is_said_once_the_views_do_not_answer():
    history = history_after(("walk to rock 1", "You are at rock 1."))
    runtime.look_at(history, {"pockets": "No.", "peer at rock 1": "No."})
    assert runtime.advise(SPEC, history, "walk to rock 1") == ""


def test_views_are_asked_of_names_that_were_seen_only():
    asked = runtime.views_for(SPEC, history_after(), "grab pole 7 off shed 1")
    assert asked == ["pockets", "peer at pole 7", "peer at rock 1"]


def test_an_unknown_form_gets_the_list_of_forms():
    assert "`grab X off Y`" in runtime.advise(SPEC, history_after(), "sing a song")


@given(st.text(max_size=80))
def test_any_text_parses_and_is_advised_on_without_error(action: str):
    history = history_after()
    skeleton, names, _ = runtime.parse(SPEC, history, action)
    assert skeleton.count("{") >= 0
    assert all(name in runtime.write(skeleton, names) for name in names)
    assert isinstance(runtime.advise(SPEC, history, action), str)


@given(
    st.sampled_from(sorted(SPEC["templates"])), st.lists(st.sampled_from(["rock 1", "pole 7", "cup 12"]), min_size=2)
)
def test_parsing_undoes_writing(template: str, names: list[str]):
    used = names[: template.count("{")]
    assert runtime.parse(SPEC, history_after(), runtime.write(template, used)) == (template, used, True)


def test_the_emitted_source_holds_the_rules_and_meets_the_contract():
    source = emit.source(SPEC, CONTRACT)
    check_source(source, CONTRACT)
    assert emit.read_spec(source) == SPEC


def test_an_interface_by_another_author_has_no_spec():
    assert emit.read_spec("SPEC = open('x')\n\ndef InferRules(a):\n    return ''\n") is None
    assert emit.read_spec("x = 1") is None
