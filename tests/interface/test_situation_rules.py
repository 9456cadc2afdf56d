"""Rules on situations: what an episode has shown, recognising actions, and what is said about a refused one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import InterfaceError
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.model import dump, load_rules
from align_echo.interface.rules.situations import Situation
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.play import TASK, interface, source
from tests.room_env import RoomEnv

PAIR = ["grab {0} off {1}", "lay {0} on {1}"]
RULES: dict[str, Any] = {
    "vocabulary": {
        "forms": ["walk to {0}", "peer at {0}", *PAIR],
        "refusals": ["No."],
        "kinds": {"walk to {0}": ["rock | boulder"]},
        "pairs": [[*PAIR, [0, 1]]],
        "movers": ["walk to {0}"],
        "views": ["pockets", "peer at {}"],
        "case": True,
        "number": True,
    },
    "rules": [
        {"kind": "already_so", "form": "walk to {0}", "when": [["last", "walk to {0}", 0, 0]], "sure": False},
        {
            "kind": "needs_step",
            "form": "peer at {0}",
            "when": [["not", ["last", "walk to {0}", 0, 0]]],
            "step": ["walk to {0}", [["name", 0]]],
            "sure": False,
        },
        {
            "kind": "needs_step",
            "form": "grab {0} off {1}",
            "when": [["any", *PAIR, 0]],
            "step": ["lay {0} on {1}", [["active", *PAIR, 0], ["name", 1]]],
            "sure": False,
        },
        {
            "kind": "needs_step",
            "form": "grab {0} off {1}",
            "when": [["not", ["last", "walk to {0}", 0, 1]]],
            "step": ["walk to {0}", [["name", 1]]],
            "sure": False,
        },
        {"kind": "allowed_where", "form": "walk to {0}", "when": [["not", ["last", "walk to {0}", 0, 0]]]},
        {"kind": "allowed_where", "form": "lay {0} on {1}", "when": [["shows", "pockets", 0]]},
        {
            "kind": "say_instead",
            "form": "leave {0} on {1}",
            "answers": [],
            "edit": {"kind": "form", "detail": "lay {0} on {1}"},
            "text": "Write `lay X on Y` instead of `leave X on Y`",
            "say": "`{action}` is not understood: the form is `{step}`.",
        },
    ],
}
OPENING = "You see a rock 1, a rock 2, and a pole 7."


def lists_with(**vocabulary: Any) -> DecisionLists:
    rules = load_rules({**RULES, "vocabulary": {**RULES["vocabulary"], **vocabulary}})
    assert rules.vocabulary is not None
    return DecisionLists(rules.vocabulary, rules.rules)


LISTS = lists_with()


def history_after(*turns: tuple[str, str], opening: str = OPENING, lists: DecisionLists = LISTS) -> Situation:
    history = Situation.begin(lists.vocabulary, opening)
    for action, observation in turns:
        history.record(action, observation)
    return history


def advise(history: Situation, action: str, lists: DecisionLists = LISTS, **views: str) -> str:
    shown = {view.replace("_", " "): text for view, text in views.items()}
    return lists.advise(history.with_views(shown), action).text


def test_the_missing_step_is_named_and_goes_away_once_done():
    assert "you need to `walk to rock 1` first" in advise(history_after(), "peer at rock 1")
    history = history_after(("walk to rock 1", "You are at rock 1."))
    assert advise(history, "peer at rock 1") == ""


def test_a_step_is_not_named_for_a_thing_of_a_kind_that_its_form_never_took():
    assert "walk to" not in advise(history_after(), "peer at pole 7")


def test_a_refused_action_leaves_no_trace():
    assert "walk to rock 1" in advise(history_after(("walk to rock 1", "No.")), "peer at rock 1")


def test_what_is_in_hand_is_remembered_until_it_is_laid_down():
    held = ("grab pole 7 off rock 1", "Got it. There is a cup 3.")
    history = history_after(held)
    advice = advise(history, "grab cup 3 off rock 1", pockets="You have a pole 7.")
    assert "you need to `lay pole 7 on rock 1` first" in advice
    laid = history_after(held, ("lay pole 7 on rock 2", "Done."))
    assert "lay pole 7" not in advise(laid, "grab cup 3 off rock 1")


def test_an_action_without_effect_is_called_so():
    history = history_after(("walk to rock 1", "You are at rock 1."))
    assert "already so" in advise(history, "walk to rock 1")


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
    assert meant in advise(history, said, pockets="You have a pole 7.")
    form = f"`{said}` is not understood: the form is `lay pole 7 on rock 1`." if said.startswith("leave") else ""
    assert advise(history, said, pockets="You have nothing.") == form


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
    assert advise(history_after(), said) == f"Nothing called `{name}` was seen so far{like}."


def test_a_name_without_its_number_keeps_its_meaning_when_the_action_is_said_again():
    history = history_after()
    assert LISTS.read(history, "peer at rock") == ("peer at {0}", ["rock 2"])
    history.record("walk to rock 1", "You are at rock 1.")
    assert LISTS.read(history, "peer at rock") == ("peer at {0}", ["rock 2"])
    assert LISTS.read(history, "walk to rock") == ("walk to {0}", ["rock 1"])


def test_a_word_that_was_read_is_not_called_unseen():
    history = history_after(opening="You see a rock 1. Bring a shed to it.")
    assert advise(history, "grab rock 1 off shed") == ""


def test_a_step_that_no_rule_calls_allowed_is_not_said():
    history = history_after(("grab pole 7 off rock 1", "Got it. There is a cup 3."))
    assert "lay pole 7" not in advise(history, "grab cup 3 off rock 1", pockets="You have nothing.")


def test_nothing_is_said_of_kinds_that_never_stood_in_that_place():
    history = history_after(("walk to rock 1", "You are at rock 1."))
    assert advise(history, "walk to pole 7") == ""


def test_where_a_thing_was_seen_is_told_if_the_way_there_is_certain():
    turns = (("walk to rock 1", "You are at rock 1. A cup 3."), ("walk to rock 2", "You are at rock 2."))
    assert advise(history_after(*turns), "grab cup 3 off rock 2") == (
        "`cup 3` was last seen after `walk to rock 1`."
    )
    assert advise(history_after(*turns[:1]), "grab cup 3 off rock 1") == ""


def test_where_a_thing_was_seen_is_not_told_by_an_action_on_two_things():
    step = ["walk to {0}", [["name", 1]]]
    added = load_rules({"rules": [{"kind": "needs_step", "form": "lay {0} on {1}", "step": step}]}).rules
    lists = lists_with(pairs=[], movers=["lay {0} on {1}"]).with_rules(added)
    turns = [("lay cup 1 on rock 1", "Beside it lies a cup 3."), ("lay cup 2 on rock 2", "It lies there.")]
    assert advise(history_after(*turns, lists=lists), "peer at cup 3", lists) == ""


def test_nothing_is_said_once_the_views_do_not_answer():
    history = history_after(("walk to rock 1", "You are at rock 1."))
    assert advise(history, "walk to rock 1", pockets="No.", peer_at_rock_1="No.") == ""


def test_views_are_asked_of_names_that_were_seen_only():
    asked = LISTS.views(history_after(), "grab pole 7 off shed 1")
    assert asked == ["pockets", "peer at pole 7", "peer at rock 1"]


def test_an_unknown_form_gets_the_list_of_forms():
    assert "`grab X off Y`" in advise(history_after(), "sing a song")


@given(st.text(max_size=80))
def test_any_text_parses_and_is_advised_on_without_error(action: str):
    history = history_after()
    form, names, _ = LISTS.vocabulary.parse(action, history.completions)
    assert form.count("{") >= 0
    assert all(name in fill(form, names) for name in names)
    assert isinstance(advise(history, action), str)


@given(
    st.sampled_from(sorted(LISTS.vocabulary.forms)),
    st.lists(st.sampled_from(["rock 1", "pole 7", "cup 12"]), min_size=2),
)
def test_parsing_undoes_writing(form: str, names: list[str]):
    used = names[: form.count("{")]
    assert LISTS.vocabulary.parse(fill(form, used), history_after().completions) == (form, used, True)


def test_rules_are_told_in_words_and_survive_being_written():
    rules = load_rules(RULES)
    assert load_rules(dump(rules)) == rules
    assert [rule.text for rule in rules.rules][1:3] == [
        "Before `peer at X` you need to `walk to X`, when it is not so that your latest `walk to _` named X",
        "Before `grab X off Y` you need to `lay P on Y` (P is what you did `grab _ off _` with last and did not undo), "
        "when a `grab _ off _` of yours holds still",
    ]


def test_a_rule_that_is_known_keeps_its_place_and_is_no_surer_when_it_is_learned_again():
    again = LISTS.with_rules([LISTS.situation_rules[0].model_copy(update={"sure": True})])
    assert again.rules == LISTS.rules


def test_a_very_long_action_is_of_no_form():
    assert "only these forms" in advise(history_after(), f"peer at rock 1{'0' * 5000}")


def test_a_vocabulary_takes_what_another_one_knows_and_keeps_its_own():
    old, new = lists_with(pairs=[]).vocabulary, lists_with(forms=["sing", "walk to {0}"], case=False).vocabulary
    assert not old.fits("walk to {0}", ["shed 1"])
    joined = old.merge(new.model_copy(update={"kinds": {"walk to {0}": (("shed",),)}}))
    assert joined.forms == ("sing", *old.forms[:1], *old.forms[1:])
    assert [*joined.pairs] == [*new.pairs]
    assert all(joined.fits("walk to {0}", [name]) for name in ("shed 1", "rock 1"))
    assert not joined.case


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"when": [["last", "walk to {0}", 0, 2]]}, "'walk to {0}' has 1 names"),
        ({"when": [["smells", 0]]}, "when"),
        ({"when": [["known"]]}, "when"),
        ({"kind": "needs_step", "step": ["lay {0} on {1}", [["name", 0]]]}, "no 1 names"),
        ({"kind": "needs_step", "step": ["walk to {0}", [["name", 1]]]}, "'walk to {0}' has 1 names"),
        ({"kind": "needs_step", "step": ["walk to {0}", [["name", -1]]]}, "step"),
    ],
)
def test_rules_that_cannot_be_played_are_refused_in_one_line(changed: dict[str, Any], why: str):
    with pytest.raises(InterfaceError, match="RULES: ") as error:
        load_rules({**RULES, "rules": [{**RULES["rules"][0], **changed}]})
    assert why in str(error.value)
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------- played by the host

ROOM: dict[str, Any] = {
    "vocabulary": {
        "forms": ["go to {0}", "take {0}", "drop {0}"],
        "names": "kitchen | study | mug 0 | book 0",
        "refusals": ["Nothing happens."],
        "movers": ["go to {0}"],
        "views": ["inventory"],
    },
    "rules": [
        {"kind": "already_so", "form": "take {0}", "when": [["shows", "inventory", 0]]},
        {"kind": "needs_step", "form": "take {0}", "step": ["go to {0}", [["at", 0, "go to {0}"]]]},
    ],
}


def played(rules: dict[str, Any], *actions: str) -> list[tuple[str, dict[str, Any]]]:
    body = "obs, reward, done, info = env.step([agent_action])\n"
    body += 'return env.explain(RULES, agent_action, obs[0]), info["won"][0], done[0]'
    env = AlignWrapper(RoomEnv(), interface(source(body, top=f"RULES = {rules!r}")))
    env.reset(options={"task": TASK})
    turns = [env.step(action) for action in actions]
    return [(turn[0], turn[4]) for turn in turns]


def test_the_host_looks_by_itself_after_a_refused_action_alone():
    (taken, told), (again, looked) = played(ROOM, "take mug 1", "take mug 1")
    assert "already so" not in taken
    assert again == "Nothing happens. `take mug 1` would change nothing: that is already so."
    assert [told["engine_calls"], looked["engine_calls"]] == [1, 2]


def test_a_view_that_is_no_read_only_action_is_refused_and_the_agent_reads_the_answer_itself():
    rules = {**ROOM, "vocabulary": {**ROOM["vocabulary"], "views": ["drop mug 1"]}}
    _, (again, info) = played(rules, "take mug 1", "take mug 1")
    assert again == "Nothing happens."
    assert [violation.action for violation in info["violations"]] == ["drop mug 1"]
    assert "read-only" in info["interface_error"]
