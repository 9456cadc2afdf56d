"""Where an engine lists what is possible, with names, its lists tell the learner by effects what took effect."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import gymnasium as gym
import pytest

import align_echo
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.rule_file import read_rule_set
from align_echo.interface.contract import Interface, identity
from align_echo.interface.rules.model import NeedsFirst, RuleSet
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView, Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
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


SPEC = align_echo.TextEnvironment(
    Pantry, step_limit=12, action_format="take {food} | eat {food} | smell {food} | open {thing}"
).spec("pantry")


def make(limit: int = 12) -> TextEnv:
    return SPEC.make_env(split="train", data_root=None, step_limit=limit)


@cache
def learned() -> Interface:
    played = run_tasks(make, Guest(), TRAIN, split="train")
    backend = ProbeBackend(lambda: make(10**6), FRESH, action_format=SPEC.action_format)
    none = identity(SPEC.contract)
    return backend.optimize(backend.analyze(played, [], none), none)


def rules() -> RuleSet:
    found = read_rule_set(learned().source)
    assert found is not None
    return found


def play(interface: Interface) -> list[Trajectory]:
    return run_tasks(lambda: AlignWrapper(make(), interface), Guest(), HELD, split="train")


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
