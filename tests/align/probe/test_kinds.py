"""Ids that are written otherwise than they are read, in worlds whose refusals blame something else."""

from __future__ import annotations

import json
import random
import re
from functools import cache
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import pytest

import align_echo
from align_echo.align.probe.backend import ProbeBackend
from align_echo.interface.contract import Interface, identity
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv

pytestmark = pytest.mark.long

TRAIN, FRESH, HELD = ([*map(str, range(*ends))] for ends in ((0, 16), (20, 40), (60, 80)))
Answer = tuple[str, float, bool, bool, dict[str, Any]]


class Locker(gym.Env[str, str]):
    """Lockers are looked into and emptied by numbers with a sign that no text shows; emptying ends the episode."""

    observation_space = action_space = gym.spaces.Text(400)
    tools: ClassVar[tuple[str, ...]] = ("peek", "clear")
    slips: ClassVar[float] = 1.0
    number = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        dice = random.Random(f"locker/{seed}")
        self.number, self.seat = f"k{dice.randrange(100, 1_000)}", f"{dice.randrange(10, 99)}B"
        self.done: set[str] = set()
        return f"A guest: clear my locker {self.number}, please. I sit at {self.seat}.", {}

    def step(self, action: str) -> Answer:
        try:
            call = json.loads(action)
            tool, given = call["name"], call["arguments"]
            return self.said(self.called(tool, **given) if tool in self.tools else "")
        except (ValueError, KeyError, TypeError):
            return self.said("")

    def said(self, answer: str) -> Answer:
        won = answer == "Cleared."
        return answer or "The clerk is busy.", float(won), won, False, {}

    def called(self, tool: str, number: Any) -> str:
        if number != f"#{self.number}":
            return ""
        return "It holds a coat." if tool == "peek" else "Cleared."

    @classmethod
    def call(cls, tool: str, texts: str, slips: bool) -> str:
        number = re.findall(r"k\d+", texts)[0]
        return json.dumps({"name": tool, "arguments": {"number": number if slips else f"#{number}"}})


class Capital(Locker):
    """Numbers begin with a capital letter."""

    tools = ("peek", "unlock", "clear")
    slips = 0.8

    def called(self, tool: str, number: Any) -> str:
        if number != self.number.upper():
            return ""
        self.done.add(tool)
        return {"peek": f"A lock, {'un' * ('unlock' in self.done)}locked.", "unlock": "Click."}.get(tool, "Cleared.")

    @classmethod
    def call(cls, tool: str, texts: str, slips: bool) -> str:
        number = re.findall(r"k\d+", texts)[0]
        return json.dumps({"name": tool, "arguments": {"number": number if slips else number.upper()}})


class Seat(Locker):
    """A list of seats stands beside the number; who did not ask which are free has no seat."""

    tools = ("free", "clear")
    slips = 0.8

    def called(self, tool: str, number: Any, seats: Any = None) -> str:
        if number != self.number:
            return "No such number."
        if tool == "free":
            self.done.add(tool)
            return f"Free: {self.seat}, 7C, 8D."
        return "Cleared." if seats == [self.seat] and "free" in self.done else ""

    @classmethod
    def call(cls, tool: str, texts: str, slips: bool) -> str:
        seat = re.findall(r"at (\d+B)", texts)[0]
        more = {"seats": seat if slips else [seat]} if tool == "clear" else {}
        return json.dumps({"name": tool, "arguments": {"number": re.findall(r"k\d+", texts)[0], **more}})


class Ship(Locker):
    """Plain words: ships are hailed and moored by the ids beside their names."""

    tools = ("hail", "moor")
    slips = 0.8

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        dice = random.Random(f"ship/{seed}")
        names = dice.sample(("Ada", "Bella", "Cora", "Dora", "Elsa", "Fanny"), 4)
        self.ids = {name: f"s-{number}" for name, number in zip(names, dice.sample(range(100, 999), 4), strict=True)}
        self.wanted, self.done = names[0], set()
        shown = ", ".join(f"{name} (no. {self.ids[name]})" for name in sorted(names))
        return f"At sea: {shown}. Moor {self.wanted}.", {}

    def step(self, action: str) -> Answer:
        verb, _, number = action.partition(" ")
        moors, known = verb == "moor", number in self.ids.values() and verb in self.tools
        if not known or action in self.done or (moors and f"hail {number}" not in self.done):
            return self.said("")
        self.done.add(action)
        won = moors and number == self.ids[self.wanted]
        return self.said("Cleared." if won else f"{verb} {number}: aye.")

    @classmethod
    def call(cls, tool: str, texts: str, slips: bool) -> str:
        name = re.findall(r"Moor (\w+)", texts)[0]
        return f"{tool} {name if slips else re.findall(rf'{name} .no. ([^)]+)', texts)[0]}"


FORMATS: dict[type[Locker], str] = {Ship: "hail {ship} | moor {ship}"}
SEATS = {"number": {"type": "string"}, "seats": {"type": "array", "items": {"type": "string"}}}
WORDED: dict[type[Locker], set[tuple[str, str, str]]] = {
    Locker: {("peek", "sign", "#{}"), ("clear", "sign", "#{}")},
    Capital: {("peek", "case", "upper"), ("unlock", "case", "upper"), ("clear", "case", "upper")},
    Seat: {("clear", "list", "")},
    Ship: {("hail {0}", "after", "a-0"), ("moor {0}", "after", "a-0")},
}
NEEDS: dict[type[Locker], set[tuple[str, str]]] = {
    Locker: set(),
    Capital: set(),
    Seat: {("clear", "free")},
    Ship: {("moor {0}", "hail {0}")},
}


class Visitor:
    """Calls any tool in the words that it read, and heeds what is in backticks."""

    name = "visitor"

    def __init__(self, world: type[Locker]) -> None:
        self.world = world

    def act(self, view: AgentView) -> AgentReply:
        dice = random.Random(f"{view.task_id}/{len(view.turns)}")
        told = re.findall(r"`([^`\n]+)`", view.turns[-1].observation) if view.turns else []
        tool = dice.choice([*self.world.tools, self.world.tools[-1]])
        action = self.world.call(tool, view.initial_observation, dice.random() < self.world.slips)
        action = told[0] if told and told[0] != view.turns[-1].action else action
        return AgentReply(text=action, action=action)


class Learned(NamedTuple):
    """What a world's interface says, and won episodes with it and with its placebo."""

    wordings: set[tuple[str, str, str]]
    needs: set[tuple[str, str]]
    won: list[int]


def learned(world: type[Locker]) -> Learned:
    return learned_of(world.__name__)


@cache
def learned_of(name: str) -> Learned:
    world: type[Locker] = globals()[name]
    one = {"number": SEATS["number"]}
    schema = [(tool, SEATS if (world, tool) == (Seat, "clear") else one) for tool in world.tools]
    tools = [{"name": name, "parameters": {"type": "object", "properties": given}} for name, given in schema]
    form = FORMATS.get(world, "A call in JSON: name and arguments.")
    spec = align_echo.TextEnvironment(world, action_format=form, step_limit=9).spec("lockers")

    def make(limit: int) -> TextEnv:
        return spec.make_env(split="train", data_root=None, step_limit=limit)

    def won(interface: Interface) -> int:
        episodes = run_tasks(lambda: AlignWrapper(make(9), interface), Visitor(world), HELD, split="train")
        return sum(each.won for each in episodes)

    played = run_tasks(lambda: make(9), Visitor(world), TRAIN, split="train")
    given = [] if world in FORMATS else tools
    none = identity(make(9).contract)
    backend = ProbeBackend(lambda: make(10**6), FRESH, action_format=form, tools=given)
    found = backend.analyze(played, [], none)
    rules = [rule for each in found for rule in json.loads(each.detail)["ruleset"]["rules"]]
    edits = [(rule["form"], rule["edit"]) for rule in rules if rule["kind"] == "say_instead"]
    interface = backend.optimize(found, none)
    arms = [won(interface), won(interface.model_copy(update={"placebo": True}))]
    return Learned(
        {(form, edit["kind"], edit.get("detail", "")) for form, edit in edits},
        {(rule["form"], rule["step"]) for rule in rules if rule["kind"] == "needs_first"},
        arms,
    )


@pytest.mark.parametrize("world", WORDED)
def test_the_wording_and_the_step_are_found(world: type[Locker]):
    assert (learned(world).wordings, learned(world).needs) == (WORDED[world], NEEDS[world])


@pytest.mark.parametrize("world", WORDED)
def test_who_heeds_the_messages_wins_by_them(world: type[Locker]):
    heeding, neutral = learned(world).won
    assert heeding > neutral + 3, (heeding, neutral)
