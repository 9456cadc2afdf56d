"""Rules are learned by effect in worlds without lists: the right ones, no false ones, and who obeys wins by them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.interface.contract import Interface, identity
from align_echo.rollout.batches import run_tasks
from align_echo.types import Misalignment, Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv
from tests import quay_env
from tests.quay_env import Porter, Quay, environment

pytestmark = pytest.mark.long

TRAIN, FRESH, HELD, MORE = ([*map(str, range(*ends))] for ends in ((0, 14), (14, 24), (30, 60), (100, 200)))


class Learned(NamedTuple):
    """The rules of a world by kind, what was learned, and how to play under it."""

    rules: list[dict[str, Any]]
    misalignments: list[Misalignment]
    interface: Interface
    make: Callable[[int], TextEnv]
    agent: Porter
    limit: int

    def play(self, interface: Interface) -> list[Trajectory]:
        return run_tasks(lambda: AlignWrapper(self.make(self.limit), interface), self.agent, HELD, split="train")

    def kinds(self) -> list[str]:
        return [rule["kind"] for rule in self.rules if rule["kind"] != "turn_limit"]

    def rule(self, kind: str, form: str) -> dict[str, Any]:
        return next(rule for rule in self.rules if rule["kind"] == kind and rule.get("form", "") == form)


def learned(world: type[Quay], odd: float = 0.0) -> Learned:
    return learned_of(world.__name__, odd)


@cache
def learned_of(name: str, odd: float) -> Learned:
    world: type[Quay] = getattr(quay_env, name)
    spec = environment(world, world.limit).spec("quay")

    def make(limit: int) -> TextEnv:
        return spec.make_env(split="train", data_root=None, step_limit=limit)

    agent = Porter(world, odd=odd)
    played = run_tasks(lambda: make(world.limit), agent, [*TRAIN, *MORE[: world.more]], split="train")
    backend = ProbeBackend(lambda: make(10**6), FRESH, action_format=world.format)
    none = identity(make(world.limit).contract)
    found = backend.analyze(played, [], none)
    rules = [rule for each in found for rule in json.loads(each.detail)["ruleset"]["rules"]]
    return Learned(rules, found, backend.optimize(found, none), make, agent, world.limit)


def at(world: type[Quay], episode: Trajectory, turns: int) -> Quay:
    """The world after the first actions of an episode."""
    quay = world()
    quay.reset(seed=int(episode.task_id))
    for step in episode.steps[:turns]:
        quay.step(step.action or "")
    return quay


def works(quay: Quay, action: str) -> bool:
    quay.step(action)
    verb, name = quay.parts(action)
    return (verb, name.removeprefix("#")) in quay.done


def is_next(quay: Quay, step: str, action: str) -> bool:
    """Whether the action works after one more step, and after that one only because of `step`, which it also needs."""
    name = quay.parts(action)[1]
    for verb in ("weigh", "stamp"):
        more = f"{verb} {name}"
        after = deepcopy(quay)
        without = deepcopy(quay)
        without.done = without.done - {without.parts(step)}
        if works(after, more) and works(after, action):
            return not (works(without, more) and works(without, action))
    return False


def lie(world: type[Quay], episode: Trajectory, turn: int) -> str:
    """What is false in the message of a turn, tried in copies of the world; "" if all is true."""
    step = episode.steps[turn]
    said, raw = step.observation or "", step.raw_observation or ""
    message, action = said.removeprefix(raw).strip(), step.action or ""
    if not message:
        return ""
    ticked = re.findall(r"`([^`]+)`", message)
    now = at(world, episode, turn + 1)
    true = False
    if "first." in message:
        true = works(now, ticked[0]) and (works(deepcopy(now), action) or is_next(deepcopy(now), ticked[0], action))
    elif "instead." in message:
        true = works(now, ticked[0])
    elif "signs around it" in message or "is written `" in message:
        true = now.answer(*now.parts(ticked[0].replace("X Y", action))) != quay_env.UNKNOWN
    elif "Nothing changed" in message:
        true = now.done == at(world, episode, turn).done
    elif "no longer possible" in message:
        others = [(verb, name) for verb, name in product(("weigh", "stamp", "post"), now.parcels)]
        true = True
        for verb, name in others:
            tried = at(world, episode, turn + 1)
            tried.step(f"{verb} {name}")
            true &= not works(tried, action)
    elif "ends the episode" in message:
        now.step(action)
        true = now.over
    if left := re.search(r"(\d+) more actions", message):
        true = (true or not ticked) and int(left[1]) == world.limit - turn - 1
    return "" if true else f"{episode.task_id}/{turn}: {action} -> {said}"


WORLDS: list[tuple[type[Quay], float, list[tuple[str, str]]]] = [
    (quay_env.Quay, 0.0, [("needs_first", "post {0}")]),
    (quay_env.Counting, 0.0, [("needs_first", "post {0}")]),
    (quay_env.Blaming, 0.0, [("needs_first", "post {0}")]),
    (quay_env.Repeating, 0.0, [("needs_first", "post {0}"), ("no_effect", "post {0}")]),
    (quay_env.Twice, 0.0, [("needs_first", "post {0}"), ("ends_episode", "")]),
    (quay_env.Called, 0.0, [("needs_first", "post")]),
    (quay_env.Bare, 0.8, [("say_instead", "post {0}")]),
    (quay_env.Signed, 0.8, [("say_instead", "post {0}")]),
    (quay_env.Listed, 0.8, [("say_instead", "post")]),
    (quay_env.Framed, 0.0, [("say_instead", "[{0} {1}]")]),
    (quay_env.Angled, 0.0, [("say_instead", "<{0} {1}>")]),
]
each_world = pytest.mark.parametrize(("world", "odd", "wanted"), WORLDS, ids=[world.__name__ for world, *_ in WORLDS])


@each_world
def test_the_right_rule_is_found(world: type[Quay], odd: float, wanted: list[tuple[str, str]]):
    known = learned(world, odd)
    for kind, form in wanted:
        rule = known.rule(kind, form)
        if kind == "needs_first":
            assert rule["step"].split()[0] == "weigh"
            assert rule["terms"] == [{"slot": 0}]
        if kind == "say_instead":
            sorts = {quay_env.Bare: "article", quay_env.Signed: "sign", quay_env.Listed: "list"}
            sort = sorts.get(world, "wording")
            assert (rule["edit"]["kind"], rule["edit"].get("detail", "")) == (sort, "#{}" if sort == "sign" else "")
        if kind == "ends_episode":
            assert (rule["count"], rule["in_a_row"]) == (2, True)


@each_world
def test_who_obeys_wins_by_it_and_not_by_its_placebo(world: type[Quay], odd: float, wanted: list[tuple[str, str]]):
    known = learned(world, odd)
    placebo = known.interface.model_copy(update={"placebo": True})
    won, neutral = (sum(episode.won for episode in known.play(each)) for each in (known.interface, placebo))
    assert won >= neutral + 3, (won, neutral)


@each_world
def test_no_message_in_play_is_false(world: type[Quay], odd: float, wanted: list[tuple[str, str]]):
    known = learned(world, odd)
    episodes = known.play(known.interface)
    lies = [lie(world, episode, turn) for episode in episodes for turn in range(len(episode.steps))]
    assert [each for each in lies if each] == []
    assert sum(step.observation != step.raw_observation for episode in episodes for step in episode.steps) > 20


def test_what_is_said_of_the_wording_is_true_of_actions_that_are_impossible():
    known = learned(quay_env.Strict)
    assert known.rule("say_instead", "[{0} {1}]")
    episodes = known.play(known.interface)
    lies = [lie(quay_env.Strict, episode, turn) for episode in episodes for turn in range(len(episode.steps))]
    assert [each for each in lies if each] == []
    assert any("is written `" in (step.observation or "") for episode in episodes for step in episode.steps)


def test_what_has_to_come_before_is_known_and_said_truly():
    known = learned(quay_env.Ordered)
    assert known.rule("locked_after", "weigh {0}")["cause"] == "stamp {0}"
    episodes = known.play(known.interface)
    lies = [lie(quay_env.Ordered, episode, turn) for episode in episodes for turn in range(len(episode.steps))]
    assert [each for each in lies if each] == []


def test_of_chance_no_rule_is_written():
    """What is posted twice does stay as it was."""
    assert set(learned(quay_env.Lucky).kinds()) <= {"no_effect"}


def test_where_actions_fail_by_chance_the_rule_is_found_and_said_where_it_is_missing():
    known = learned(quay_env.Slipping)
    assert [rule["form"] for rule in known.rules if rule["kind"] == "needs_first"] == ["post {0}"]
    assert known.rule("needs_first", "post {0}")["step"] == "weigh {0}"
    said = 0
    for episode in known.play(known.interface):
        for turn, step in enumerate(episode.steps):
            if "You need to" in (step.observation or ""):
                assert ("weigh", (step.action or "").split()[1]) not in at(quay_env.Slipping, episode, turn).done
                said += 1
    assert said > 15


def test_an_untold_limit_of_turns_is_found_with_its_episodes_as_evidence():
    known = learned(quay_env.Lucky)
    rule = known.rule("turn_limit", "")
    assert rule["turns"] == quay_env.Lucky.limit
    assert all(each.evidence.support >= 8 and each.evidence.tasks >= 3 for each in known.misalignments)
    said = [step.observation or "" for episode in known.play(known.interface) for step in episode.steps]
    assert any("1 more actions are possible" in text for text in said)


@each_world
def test_rules_stand_on_enough_fresh_tasks(world: type[Quay], odd: float, wanted: list[tuple[str, str]]):
    for each in learned(world, odd).misalignments:
        assert (each.evidence.support >= 8, each.evidence.tasks >= 3, each.evidence.refuted) == (True, True, 0)


def test_words_alone_are_learned_by_effects_though_the_engine_lists_them():
    """Signs on the page show where a word acts, and the line that names the last action is no part of the page."""
    spec = environment(quay_env.Grid, quay_env.Grid.limit).spec("grid")

    def make(limit: int) -> TextEnv:
        return spec.make_env(split="train", data_root=None, step_limit=limit)

    played = run_tasks(lambda: make(quay_env.Grid.limit), quay_env.Carter(), TRAIN, split="train")
    backend = ProbeBackend(lambda: make(10**6), FRESH, action_format=quay_env.Grid.format)
    none = identity(make(1).contract)
    learned = backend.optimize(backend.analyze(played, [], none), none)
    assert "[load " in learned.source
    assert "({action})" not in learned.source
    placebo = learned.model_copy(update={"placebo": True})

    def play(interface: Interface) -> int:
        env = partial(AlignWrapper, make(quay_env.Grid.limit), interface)
        return sum(episode.won for episode in run_tasks(env, quay_env.Carter(), HELD, split="train"))

    won, neutral = play(learned), play(placebo)
    assert won >= neutral + 5, (won, neutral)


def test_tool_calls_without_a_rule_to_learn_are_no_failure():
    assert learned(quay_env.Mute).kinds() == []
