"""Where an engine lists what is possible, with names, its lists tell the learner by effects what took effect."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import gymnasium as gym
import pytest

import align_echo
from align_echo.align.hybrid.backend import HybridBackend
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.effects.fixes import FixSearch
from align_echo.align.probe.effects.outcomes import Observer
from align_echo.align.probe.lab import Lab
from align_echo.interface.contract import Interface, identity
from align_echo.interface.rules.actions import ActionGrammar, declared_forms
from align_echo.interface.rules.answers import AnswerReader
from align_echo.interface.rules.model import NeedsFirst, RuleSet
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView, Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from studies.foreign.agents import find_command
from studies.foreign.messages import count_messages

pytestmark = pytest.mark.long

FOODS = ("bean", "plum", "fig", "leek", "rice")
TRAIN, FRESH, HELD = ([*map(str, range(*ends))] for ends in ((0, 14), (20, 50), (60, 80)))


class Pantry(gym.Env[str, str]):
    """A pantry: each food stands on the shelf or in a closed box; what is held is eaten. One refusal for all."""

    observation_space = gym.spaces.Text(400)
    action_space = gym.spaces.Text(80)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        rng = random.Random(seed)
        self.boxed = {food for food in FOODS if rng.random() < 0.5}
        self.shelved, self.held, self.open = {*FOODS} - self.boxed, set[str](), False
        self.wanted = rng.choice(FOODS)
        shown = ", ".join(sorted(self.shelved)) or "nothing"
        return f"You see a box. On the shelf: {shown}. You want the {self.wanted}.", self.info(False)

    def info(self, won: bool) -> dict[str, Any]:
        seen = self.shelved | (self.boxed if self.open else set())
        possible = {f"take {food}" for food in seen} | {f"eat {food}" for food in self.held}
        possible |= {f"smell {food}" for food in seen | self.held} | (set() if self.open else {"open box"})
        return {"goal": f"eat the {self.wanted}", "won": won, "admissible_actions": sorted(possible)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        verb, _, name = action.partition(" ")
        if action not in self.info(False)["admissible_actions"]:
            return "No.", 0.0, False, False, self.info(False)
        if verb == "open":
            self.open = True
            return f"In the box: {', '.join(sorted(self.boxed)) or 'nothing'}.", 0.0, False, False, self.info(False)
        if verb == "take":
            self.held.add(name)
            self.shelved.discard(name)
            self.boxed.discard(name)
        if verb == "eat":
            self.held.discard(name)
        won = action == f"eat {self.wanted}"
        return {"take": "Taken.", "eat": "Gone.", "smell": "Fine."}[verb], float(won), won, False, self.info(won)


class Guest:
    """It asks for what it wants to eat, and does what it is told."""

    name = "guest"

    def act(self, view: AgentView) -> AgentReply:
        food = view.goal.removeprefix("eat the ")
        said = ("take", "eat", "smell")[len(view.turns) % 3]
        action = find_command(view) or f"{said} {food}"
        return AgentReply(text=action, action=action)


class Larder(Pantry):
    """A pantry whose box closes again."""

    def info(self, won: bool) -> dict[str, Any]:
        info = super().info(won)
        return info | {"admissible_actions": sorted([*info["admissible_actions"], *["close box"] * self.open])}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        closes = action == "close box" and self.open
        self.open &= not closes
        return ("Shut.", 0.0, False, False, self.info(False)) if closes else super().step(action)


class Closer(Guest):
    """A guest that closes the box whenever it is told to open it, the first time."""

    def act(self, view: AgentView) -> AgentReply:
        said = [turn.action for turn in view.turns]
        action = "close box" if said[-1:] == ["open box"] and "close box" not in said else super().act(view).action
        return AgentReply(text=action or "", action=action)


class Grill(Pantry):
    """Foods are cut when they and the knife are held, each missed in its own words; whoever smells a cut one wins."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.boxed, self.shelved, self.cut = set[str](), {*FOODS, "knife"}, set[str]()
        return f"On the shelf: {', '.join(sorted(self.shelved))}. You want the {self.wanted}.", self.info(False)

    def info(self, won: bool) -> dict[str, Any]:
        info = super().info(won)
        cut = {f"cut {food} with knife" for food in self.held - {"knife"} if "knife" in self.held}
        return info | {"admissible_actions": sorted({*info["admissible_actions"], *cut})}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not action.startswith("cut "):
            text, _, _, _, _ = super().step(action)
            won = action == f"smell {self.wanted}" and self.wanted in self.cut
            return text.replace("Taken", f"You {action}"), float(won), won, False, self.info(won)
        names = action.removeprefix("cut ").split(" with ")
        lacks = [name for name in names if name not in self.held]
        self.cut |= set() if lacks else {names[0]}
        return f"You lack the {lacks[0]}." if lacks else "Cut.", 0.0, False, False, self.info(False)


class Cutter(Guest):
    """It cuts what it wants to eat, and seldom takes anything by itself."""

    def act(self, view: AgentView) -> AgentReply:
        food = view.goal.removeprefix("eat the ")
        said = f"take {food}" if len(view.turns) == 7 and len(food) == 3 else f"cut {food} with knife"
        action = find_command(view) or (said if len(view.turns) % 3 else f"smell {food}")
        return AgentReply(text=action, action=action)


AGENTS = {Pantry: Guest(), Larder: Closer(), Grill: Cutter()}


def spec_of(world: type[Pantry]) -> EnvironmentSpec:
    more = {Larder: " | close {thing}", Grill: " | cut {food} with {thing}"}.get(world, "")
    form = f"take {{food}} | eat {{food}} | smell {{food}} | open {{thing}}{more}"
    return align_echo.TextEnvironment(world, step_limit=12, action_format=form).spec("pantry")


SPEC = spec_of(Pantry)


def make(limit: int = 12, spec: EnvironmentSpec = SPEC) -> TextEnv:
    return spec.make_env(split="train", data_root=None, step_limit=limit)


@cache
def learned(world: type[Pantry] = Pantry) -> Interface:
    spec = spec_of(world)
    played = run_tasks(lambda: make(spec=spec), AGENTS[world], TRAIN, split="train")
    probe = ProbeBackend(lambda: make(10**6, spec), FRESH, action_format=spec.action_format)
    none = identity(spec.contract)
    return probe.optimize(probe.analyze(played, [], none), none)


def rules(interface: Interface | None = None) -> RuleSet:
    found = read_rule_set((interface or learned()).source)
    assert found is not None
    return found


def play(interface: Interface, world: type[Pantry] = Pantry) -> list[Trajectory]:
    return run_tasks(lambda: AlignWrapper(make(spec=spec_of(world)), interface), AGENTS[world], HELD, split="train")


def test_a_step_that_only_some_states_need_is_said_to_help_at_times():
    opens = [rule for rule in rules().rules if isinstance(rule, NeedsFirst) and rule.form == "take {0}"]
    assert [(rule.step, rule.at_times, rule.say) for rule in opens] == [
        ("open {0}", True, "It may help to `{step}`.")
    ]


def test_whoever_heeds_what_lists_taught_wins_and_no_message_is_false():
    played = play(learned())
    placebo = play(learned().model_copy(update={"placebo": True}))
    assert sum(each.won for each in played) == len(HELD)
    assert sum(each.won for each in placebo) < len(HELD)
    counts = count_messages(SPEC, "train", learned(), played).counts
    assert counts["true"] > 5
    assert counts["false"] == 0


def test_a_step_is_said_again_after_what_undid_it():
    known = [rule for rule in rules(learned(Larder)).rules if isinstance(rule, NeedsFirst)]
    opens = next(rule for rule in known if rule.form == "take {0}")
    assert [effect.form for condition in opens.unless for effect in condition.undone_by] == ["close {0}"]
    assert "`open box`, again after `close box`" in opens.text
    played = play(learned(Larder), Larder)
    assert all(each.won for each in played)
    counts = count_messages(spec_of(Larder), "train", learned(Larder), played).counts
    assert counts["true"] > 5
    assert counts["false"] == 0


def test_of_two_steps_each_is_said_where_its_own_refusal_comes():
    cuts = [rule for rule in rules(learned(Grill)).rules if isinstance(rule, NeedsFirst) and rule.form[:3] == "cut"]
    assert {(rule.terms[0].slot, rule.answers) for rule in cuts if rule.terms[0]} == {
        (0, ("You lack the {0}.",)),
        (1, ("You lack the {1}.",)),
    }
    assert all(condition.kind == "done" for rule in cuts for condition in rule.unless)
    played = play(learned(Grill), Grill)
    assert all(each.won for each in played)
    assert count_messages(spec_of(Grill), "train", learned(Grill), played).counts["false"] == 0


def test_of_two_steps_the_second_is_known_by_the_refusal_after_the_first():
    spec = spec_of(Grill)
    seen = Observer(Lab(make(10**6, spec)), ActionGrammar(declared_forms(spec.action_format)), AnswerReader())
    for task in map(str, range(6)):
        state = seen.lab.start(task)
        for action in ("cut fig with knife", "cut leek with knife", "take fig", "cut fig with knife", "take knife"):
            instance = seen.play(state, action)
            assert instance is not None
            seen.note(instance)
            seen.said_forms.add(instance.tree.form)
            state = instance.child
        seen.said_names[task] = {"fig", "leek", "knife"}
    search = FixSearch(seen)
    search.learn_values()
    search.study(10_000)
    steps = search.by_form["cut {0} with {1}"].steps
    assert {terms[0].slot: {seen.answer(each) for each in fixed} for (_, terms), fixed in steps.items()} == {
        0: {"You lack the {0}."},
        1: {"You lack the {1}."},
    }


def test_what_may_help_at_times_is_no_guess_of_a_model_and_stays():
    probe = ProbeBackend(lambda: make(10**6), FRESH, action_format=SPEC.action_format)
    model, none = ScriptedModel(lambda messages: "[]"), identity(SPEC.contract)
    form = SPEC.action_format
    hybrid = HybridBackend(probe, FRESH, analyzer_model=model, optimizer_model=model, action_format=form)
    both = hybrid.optimize(hybrid.analyze(run_tasks(make, Guest(), TRAIN, split="train"), [], none), none)
    assert rules(both).rules == rules().rules
