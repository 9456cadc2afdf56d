"""The run-time half of the probe: histories, recognising actions, and what is said about a refused one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.align.probe import emit, runtime
from align_echo.align.probe.vocabulary import NAME
from align_echo.interface import check_source
from tests.room_env import CONTRACT

SPEC: dict[str, Any] = {
    "name": NAME,
    "templates": {
        "walk to {0}": [{"if": [["last", "walk to {0}", 0, 0]], "then": "already"}],
        "peer at {0}": [{"if": [["not", ["last", "walk to {0}", 0, 0]]], "then": ["walk to {0}", [["name", 0]]]}],
        "grab {0} off {1}": [
            {"if": [["any", 0, 0]], "then": ["lay {0} on {1}", [["active", 0, 0], ["name", 1]]]},
            {"if": [["not", ["last", "walk to {0}", 0, 1]]], "then": ["walk to {0}", [["name", 1]]]},
        ],
        "lay {0} on {1}": [],
    },
    "pairs": [["grab {0} off {1}", "lay {0} on {1}"]],
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


def test_a_refused_action_leaves_no_trace():
    assert "walk to rock 1" in runtime.advise(SPEC, history_after(("walk to rock 1", "No.")), "peer at rock 1")


def test_what_is_in_hand_is_remembered_until_it_is_laid_down():
    held = ("grab pole 7 off rock 1", "Got it.")
    advice = runtime.advise(SPEC, history_after(held), "grab cup 3 off rock 1")
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
    ],
)
def test_near_misses_are_rewritten(said: str, meant: str):
    assert meant in runtime.advise(SPEC, history_after(), said)


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
