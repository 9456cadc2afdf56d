"""Parts of the learner by effects: what effect tests cost, and what a trial says."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from align_echo.align.probe.effects.fixes import FixSearch
from align_echo.align.probe.effects.outcomes import Observer
from align_echo.align.probe.effects.trials import TrialBook, _misnamed, _with_own_names
from align_echo.align.probe.lab import Lab
from align_echo.interface.rules.actions import ActionGrammar, Form, declared_forms
from align_echo.interface.rules.answers import AnswerReader
from align_echo.interface.rules.edits import Edit
from align_echo.interface.rules.model import RuleSet, SayInstead
from align_echo.interface.rules.runtime import HeardAnswer, RuleRuntime
from tests import quay_env
from tests.quay_env import Quay, environment


def observer(world: type[Quay], *forms: Form) -> Observer:
    env = environment(world, world.limit).spec("quay").make_env(split="train", data_root=None, step_limit=10**6)
    return Observer(Lab(env), ActionGrammar([*declared_forms(world.format), *forms]), AnswerReader())


def call(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def test_an_effect_is_looked_for_by_tools_with_arguments_of_the_same_names():
    seen = observer(quay_env.Called, Form(tool="lift", arguments=("crane",)))
    seen.going_on |= {"weigh", "lift", "book"}
    instance = seen.play(seen.lab.start("0"), call("post", parcel="amber"))
    assert instance is not None
    wanted = [call("post", parcel="amber"), call("weigh", parcel="amber"), call("book")]
    assert seen.witness_actions(instance) == wanted


def test_a_form_that_only_looks_is_tested_no_further():
    seen = observer(quay_env.Quay)
    counts = []
    for task in map(str, range(20)):
        state = seen.lab.start(task)
        parcels = [name for name in quay_env.NAMES if name in state.observation]
        state = seen.lab.follow(task, [f"weigh {name}" for name in parcels[: 1 + int(task) % 2]])
        for action in ("book", "weigh amber", "weigh beryl"):
            instance = seen.play(state, action)
            assert instance is not None
            before = seen.lab.steps
            seen.note(instance)
            counts.append((action, seen.lab.steps - before))
    looks = [count for action, count in counts if action == "book"]
    assert (min(looks[:3]) > 0, sum(looks[-5:])) == (True, 0)
    assert not seen.acts("book")
    assert seen.acts("weigh {0}")


def test_a_value_that_the_texts_name_is_no_constant():
    seen = observer(quay_env.Quay)
    for task in map(str, range(30)):
        state = seen.lab.start(task)
        instance = seen.play(state, "weigh amber")
        assert instance is not None
        seen.note(instance)
    search = FixSearch(seen)
    search.learn_values()
    refused = seen.play(seen.lab.start("0"), "weigh zinc")
    assert refused is not None
    assert not search._is_plausible(Edit(kind="value", slot=0, detail="amber"), refused)
    named = FixSearch(seen, (), {"weigh {0}": {0: ("amber",)}})
    assert named._is_plausible(Edit(kind="value", slot=0, detail="amber"), refused)


@pytest.mark.parametrize(("unknown", "stands"), [(8, True), (9, False)])
def test_a_rule_helps_in_most_of_its_trials(unknown: int, stands: bool):
    seen, book = observer(quay_env.Quay), TrialBook()
    rule = SayInstead(form="weigh {0}", answers=("Eh?",), edit=Edit(kind="article", slot=0), text="T")
    for task in map(str, range(8)):
        instance = seen.play(seen.lab.start(task), "weigh the amber")
        assert instance is not None
        book.count([rule], instance, passed=True)
    for _ in range(unknown):
        book.count_unknown(rule)
    assert book.stands(rule) == stands


def test_a_way_is_followed_once_and_a_runtime_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch):
    seen = observer(quay_env.Quay)
    search, state, heard = FixSearch(seen), seen.lab.start("0"), list[str]()
    hear = RuleRuntime.hear

    def count(runtime: RuleRuntime, action: str, raw: str) -> HeardAnswer:
        heard.append(action)
        return hear(runtime, action, raw)

    monkeypatch.setattr(RuleRuntime, "hear", count)
    said = [f"weigh {name}" for name in quay_env.NAMES]
    for action in said:
        state = seen.lab.after(state, action)
        search.runtime_at(state).hear("book", "Nothing.")
    assert [action for action in heard if action != "book"] == said
    assert "Nothing." not in search.runtime_at(state).texts
    assert len(search.runtime_at(state).answers) == len(said)


def test_actions_that_end_the_episode_are_not_drawn_and_tools_are():
    seen = observer(quay_env.Called, Form(text="done"))
    start = seen.lab.start("0")
    seen.going_on |= {"weigh", "stamp", "post", "book"}
    parcels = [name for name in quay_env.NAMES if name in start.observation]
    for name in parcels:
        weighed = seen.play(start, call("weigh", parcel=name))
        assert weighed is not None
        seen.note(weighed)
    seen._noted["done"]  # played before, and the episode never went on
    search = FixSearch(seen)
    search.learn_values()
    drawn = {tree.key for _ in range(60) if (tree := search.draw(start.observation, random.Random(_)))}
    assert {json.loads(key)[1][0] for key in drawn if json.loads(key)[0] == "weigh"} == set(parcels)
    assert not any(json.loads(key)[0] == "done" for key in drawn)


class Library(Quay):
    """Cards are greeted and books lent by their signed numbers, once; any call with other ids is refused."""

    format = " | ".join(
        json.dumps({"name": tool, "arguments": dict.fromkeys(names, "id")})
        for tool, names in (("greet", ("card",)), ("shelve", ("book",)), ("lend", ("book", "card")))
    )

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        signs = {"book": "#", "card": "c"}
        known = all(value[0] == signs[name] for name, value in json.loads(action)["arguments"].items())
        again = ("said", action) in self.done
        self.done |= {("said", action)} if known else set()
        return "Done before." if again else "Done." if known else "No.", 0.0, False, False, {}


def test_arguments_of_one_name_are_of_the_same_kinds_in_all_tools():
    seen = observer(Library)
    for task in map(str, range(12)):
        said = [call("shelve", book=f"#{task}1"), call("greet", card=f"c{'abcdefghijkl'[int(task)]}")]
        for action in (*said, call("shelve", book=f"{task}1"), call("lend", book=f"c{task}", card="#1")):
            instance = seen.play(seen.lab.start(task), action)
            assert instance is not None
            seen.note(instance)
    search = FixSearch(seen)
    search.learn_values()
    assert search.kinds["lend"][0] == search.kinds["shelve"][0] == ("#0",)
    assert search.kinds["lend"][1] == search.kinds["greet"][0] == ()  # each name came once


def test_surplus_arguments_are_drawn_anew_under_their_own_names():
    tool = Form(tool="post", arguments=("parcel_id", "crane_id"))
    grammar = ActionGrammar([tool])
    reading = grammar.read(call("post", parcel="amber", crane="left"))
    assert reading is not None
    rule = SayInstead(form="post", answers=("Eh?",), edit=Edit(kind="argument"), text="T")
    named = _with_own_names(reading, RuleSet(forms=(tool,), rules=(rule,)), grammar)
    assert named.arguments == ("amber", "left")
    drawn = _misnamed(named._replace(arguments=("beryl", "right")), named, reading.tree)
    assert json.loads(grammar.write(drawn)) == json.loads(call("post", parcel="beryl", crane="right"))
