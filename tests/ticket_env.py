"""Desks of tickets for tests: open a ticket, tag it by what it is about, close it. No refusal says why.

`Clerk` plays all of them: it leaves out the signs of ids, forgets the order of steps, and heeds commands in messages.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, ClassVar

import gymnasium as gym

import align_echo
from align_echo.types import AgentReply, AgentView

PEOPLE = ("ana", "bo", "cleo", "dmitri", "eve", "farid")
TICKED = re.compile(r"`([^`\n]+)`")


class Desk(gym.Env[str, str]):
    """A ticket is opened before it is tagged, and tagged before it is closed. One sentence refuses everything else."""

    observation_space = gym.spaces.Text(1_000)
    action_space = gym.spaces.Text(200)
    format: ClassVar[str] = "open {id} | tag {id} {topic} | close {id} | queue"
    limit: ClassVar[int] = 9
    verbs: ClassVar[tuple[str, str, str]] = ("open", "tag", "close")
    topics: ClassVar[tuple[str, ...]] = ("refund", "login", "shipping")
    sign: ClassVar[str] = "#{}"
    refusal: ClassVar[str] = "That did not work."
    early: ClassVar[str] = refusal

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        dice = random.Random(f"desk/{seed}")
        self.ids = [self.sign.format(bare) for bare in self.bare_ids(dice)]
        self.people = dice.sample(PEOPLE, 4)
        self.about = {each: dice.choice(self.topics) for each in self.ids}
        self.target = dice.choice(self.ids)
        self.opened: set[str] = set()
        self.tagged: dict[str, str] = {}
        self.closed: set[str] = set()
        self.screen = self.queue()
        return self.screen, {"goal": f"{self.verbs[2]} the ticket of {self.people[self.ids.index(self.target)]}"}

    def bare_ids(self, dice: random.Random) -> list[str]:
        return [str(number) for number in dice.sample(range(100, 1_000), 4)]

    @classmethod
    def whole(cls, number: str) -> str:
        """Return an id of the queue as actions want it."""
        return number

    def queue(self) -> str:
        rows = [
            f"{each} from {name}{' (done)' * (each in self.closed)}"
            for each, name in zip(self.ids, self.people, strict=True)
        ]
        return "\n".join(["Queue:", *rows])

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        answer = self.answer(*self.parts(action))
        over = self.target in self.closed
        return answer, float(over and self.tagged[self.target] == self.about[self.target]), over, False, {}

    def parts(self, action: str) -> tuple[str, ...]:
        verb, *rest = action.split() or [""]
        return verb, *rest

    def answer(self, verb: str, *rest: str) -> str:
        _, tags, closes = self.verbs
        if (verb, rest) == ("queue", ()):
            self.screen = self.queue()
            return self.screen
        if verb not in self.verbs or len(rest) != 1 + (verb == tags):
            return self.refused()
        if rest[0] not in self.ids or rest[0] in self.closed or (verb == tags and rest[1] not in self.topics):
            return self.refused()
        if (verb == tags and rest[0] not in self.opened) or (verb == closes and rest[0] not in self.tagged):
            return self.early
        return self.does(verb, *rest)

    def does(self, verb: str, number: str, topic: str = "") -> str:
        """Do what is possible."""
        if verb == self.verbs[0]:
            self.opened.add(number)
            name = self.people[self.ids.index(number)]
            self.screen = f"Ticket {number} of {name}: a question about {self.about[number]}."
            return self.screen
        if verb == self.verbs[1]:
            self.tagged[number] = topic
            return f"Tagged {number} as {topic}."
        self.closed.add(number)
        return f"Closed {number}."

    def refused(self) -> str:
        return self.refusal


class Reshowing(Desk):
    """What is refused shows the last screen again; a ticket that has no tag is not closed, in a sentence."""

    early = "You wait at the desk."

    def refused(self) -> str:
        return self.screen


class Bracketed(Desk):
    """Other words and signs: ids of letters in brackets."""

    format = "read {id} | mark {id} {kind} | finish {id} | queue"
    verbs = ("read", "mark", "finish")
    topics = ("noise", "water", "heat", "light")
    sign = "[{}]"
    refusal = early = "Error."

    def bare_ids(self, dice: random.Random) -> list[str]:
        return ["".join(dice.sample("bcdfgklm", 2)).upper() + str(dice.randrange(10, 99)) for _ in range(4)]


class Lettered(Desk):
    """Ids have a letter that the queue leaves out, and a refusal repeats the id."""

    sign = "T{}"
    early = "Not permitted."

    def answer(self, verb: str, *rest: str) -> str:
        known = verb not in self.verbs or not rest or rest[0] in self.ids
        return super().answer(verb, *rest) if known else f"There is no ticket {rest[0]}."

    def queue(self) -> str:
        return super().queue().replace("T", "")

    @classmethod
    def whole(cls, number: str) -> str:
        return cls.sign.format(number)


class Paged(Desk):
    """Whatever is refused shows the last screen again."""

    def answer(self, verb: str, *rest: str) -> str:
        answer = super().answer(verb, *rest)
        return self.screen if answer == self.refusal else answer


class Called(Desk):
    """The same by tool calls in JSON."""

    format = (
        '{"name": "open | close", "arguments": {"id": "its id"}} | '
        '{"name": "tag", "arguments": {"id": "its id", "topic": "refund, login or shipping"}} | '
        '{"name": "queue", "arguments": {}}'
    )

    def parts(self, action: str) -> tuple[str, ...]:
        try:
            call = json.loads(action)
            return call["name"], *map(str, call["arguments"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return ("",)


class Listed(Called):
    """Ids are shown without their sign, refusals repeat what was said; topics are a list; a list for id breaks."""

    def parts(self, action: str) -> tuple[Any, ...]:
        try:
            call = json.loads(action)
            return call["name"], *call["arguments"].values()
        except (ValueError, KeyError, TypeError, AttributeError):
            return ("",)

    def answer(self, verb: str, *rest: Any) -> str:
        if verb == "queue" or verb not in self.verbs or len(rest) != 1 + (verb == "tag"):
            return super().answer(verb, *rest)
        known = {each: each in self.opened or verb == "open" for each in self.ids}
        if not known.get(rest[0]):
            return f"Ticket {rest[0]} not found."
        if verb == "tag" and not (isinstance(rest[1], list) and {*rest[1]} <= {*self.topics}):
            return "Error: bad request."
        return super().answer(verb, rest[0], *(rest[1][:1] if verb == "tag" else ()))

    def queue(self) -> str:
        return super().queue().replace("#", "")


class Bay(Desk):
    """Parcels are packed before they are shipped. Too early is answered as labels are, which take effect."""

    limit = 5
    format = "label {id} | pack {id} | ship {id} | queue"
    verbs = ("label", "pack", "ship")
    sign = "P{}"
    refusal = "There is no such thing."
    early = "Nothing happens."

    def answer(self, verb: str, *rest: str) -> str:
        if (verb, rest) == ("queue", ()):
            return self.queue()
        if verb not in self.verbs or len(rest) != 1 or rest[0] not in self.ids or rest[0] in self.closed:
            return self.refusal
        if verb == "ship" and rest[0] not in self.tagged:
            return self.early
        return self.does(verb, *rest)

    def does(self, verb: str, number: str, topic: str = "") -> str:
        if verb == "label":
            self.opened.add(number)
            return self.early
        if verb == "pack":
            self.tagged[number] = self.about[number]
            return f"Packed {number}."
        self.closed.add(number)
        return f"Shipped {number}."

    def queue(self) -> str:
        head, *rows = super().queue().splitlines()
        marks = (", labelled" * (each in self.opened) for each in self.ids)
        return "\n".join([head, *(row + mark for row, mark in zip(rows, marks, strict=True))])


class Clerk:
    """Serves two customers by the book and forgets signs and steps for the others; a command in a message is sent."""

    name = "clerk"

    def __init__(self, world: type[Desk], careful: tuple[str, ...] = ("ana", "bo")) -> None:
        self._world, self._careful = world, careful

    def act(self, view: AgentView) -> AgentReply:
        action = self._action(view)
        return AgentReply(text=action, action=action)

    def _action(self, view: AgentView) -> str:
        opens, tags, closes = self._world.verbs
        name = view.goal.rpartition(" ")[2]
        shown = re.findall(rf"(\S+) from {name}", view.initial_observation)[0]
        number, bare = self._world.whole(shown), re.findall(r"\w+", shown)[0]
        heard = "\n".join(turn.observation for turn in view.turns)
        about = re.findall(rf"{re.escape(number)} of {name}: a question about (\w+)", heard)
        topic = about[0] if about else self._world.topics[len(view.turns) % len(self._world.topics)]
        if name in self._careful:
            plan = [(opens, number), (tags, number, topic), (closes, number)]
            return self.write(*plan[min(len(view.turns), 2)])
        ticked = TICKED.findall(view.turns[-1].observation) if view.turns else []
        if orders := [each for each in ticked if each != view.turns[-1].action]:
            return str(orders[-1])
        plan = [(verb, each) for verb in (closes, opens) for each in (bare, number)]
        plan += [(tags, bare, topic), (tags, number, topic)]
        return self.write(*random.Random(f"{view.task_id}/{len(view.turns)}").choice(plan))

    def write(self, verb: str, number: str, topic: str = "") -> str:
        """Write an action as the desk wants it."""
        if issubclass(self._world, Bay):
            return f"{verb} {number}"
        arguments = {"id": number} | ({"topic": topic} if verb == self._world.verbs[1] else {})
        if issubclass(self._world, Called):
            return json.dumps({"name": verb, "arguments": arguments})
        return " ".join([verb, *arguments.values()])


def environment(world: type[Desk]) -> align_echo.TextEnvironment:
    """Return the declaration of a desk."""
    return align_echo.TextEnvironment(world, step_limit=world.limit, action_format=world.format)
