"""Small worlds for tests, without lists of actions: each has at most one rule that its answers do not tell.

A task is to post the parcel that its first text names. A world is a class with `answer`; the agent `Porter` plays all
of them, at random and as messages tell it.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, ClassVar

import gymnasium as gym

import align_echo
from align_echo.types import AgentReply, AgentView

NAMES = ("amber", "beryl", "coral", "drake", "ebony", "fjord")
TICKED = re.compile(r"`([^`]+)`")
DONE, REFUSED, UNKNOWN = "Done: {} {}.", "No way.", "Eh?"


class Quay(gym.Env[str, str]):
    """Weigh, then post; the answer says what is missing: nothing is left to learn."""

    observation_space = gym.spaces.Text(400)
    action_space = gym.spaces.Text(400)
    format: ClassVar[str] = "weigh {parcel} | stamp {parcel} | post {parcel} | book"
    limit: ClassVar[int] = 6
    more: ClassVar[int] = 0
    refusal: ClassVar[str] = "Not before it was weighed."

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        dice = random.Random(f"quay/{seed}")
        self.parcels = dice.sample(NAMES, 3)
        self.wanted = dice.choice(self.parcels)
        self.done: set[tuple[str, str]] = set()
        self.turn, self.over, self.refused = 0, False, 0
        return f"Parcels: {', '.join(map(self.shown, self.parcels))}. Post {self.shown(self.wanted)}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        answer = self.answer(*self.parts(action))
        won = ("post", self.wanted) in self.done
        return self.page(answer), float(won), won or self.over, False, {}

    def shown(self, parcel: str) -> str:
        return parcel

    def page(self, answer: str) -> str:
        return answer

    def parts(self, action: str) -> tuple[str, str]:
        verb, _, name = action.partition(" ")
        return verb, name

    def answer(self, verb: str, name: str) -> str:
        if (verb, name) == ("book", ""):
            return f"Booked: {', '.join(sorted(f'{parcel} {deed}' for deed, parcel in self.done))}."
        if name not in self.parcels or verb not in ("weigh", "stamp", "post"):
            return UNKNOWN
        if not self.allowed(verb, name):
            return self.refusal
        self.done.add((verb, name))
        return DONE.format(verb, name)

    def allowed(self, verb: str, name: str) -> bool:
        return verb != "post" or ("weigh", name) in self.done


class Counting(Quay):
    """The same with a counter in each answer, and a refusal that tells nothing."""

    refusal = REFUSED

    def page(self, answer: str) -> str:
        return f"Entry {self.turn}: {answer}"


class Blaming(Quay):
    """The refusal blames the stamp; it is the weight that is missing."""

    refusal = "The stamp is wrong."


class Repeating(Quay):
    """A refused action shows the page as it was."""

    def page(self, answer: str) -> str:
        if answer not in (self.refusal, UNKNOWN):
            done = sorted(f"{name} {verb}ed" for verb, name in self.done)
            self.seen = f"Parcels: {', '.join(self.parcels)}. Book: {', '.join(done)}."
        return getattr(self, "seen", f"Parcels: {', '.join(self.parcels)}. Book: .")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.__dict__.pop("seen", None)
        return super().reset(seed=seed, options=options)


class Twice(Quay):
    """The second refused action in a row ends the episode."""

    limit = 8
    more = 20
    refusal = REFUSED

    def answer(self, verb: str, name: str) -> str:
        answer = super().answer(verb, name)
        self.refused = self.refused + 1 if answer in (REFUSED, UNKNOWN) else 0
        self.over = self.refused == 2
        return answer


class Bare(Quay):
    """Names without an article; the refusal tells nothing."""

    refusal = REFUSED

    def answer(self, verb: str, name: str) -> str:
        return REFUSED if name.startswith("the ") else super().answer(verb, name)

    def allowed(self, verb: str, name: str) -> bool:
        return True


class Signed(Bare):
    """Numbers of parcels have a sign before them."""

    def shown(self, parcel: str) -> str:
        return f"#{parcel}"

    def answer(self, verb: str, name: str) -> str:
        return super().answer(verb, name[1:]) if name[:1] in ("#", "") else REFUSED


class Reshown(Quay):
    """Weigh, stamp, post. A parcel without its sign only shows the last page again; else a refusal tells nothing."""

    limit = 12
    refusal = REFUSED

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.seen, _ = super().reset(seed=seed)
        return self.seen, {}

    def shown(self, parcel: str) -> str:
        return f"#{parcel}"

    def answer(self, verb: str, name: str) -> str:
        if verb in ("weigh", "stamp", "post") and name[:1] != "#":
            return self.seen
        answer = super().answer(verb, name[1:])
        if (verb, answer) == ("weigh", DONE.format(verb, name[1:])):
            self.seen = f"Label of {name}: {len(name)} stone."
            return self.seen
        return UNKNOWN if name and answer == REFUSED else answer

    def allowed(self, verb: str, name: str) -> bool:
        return {"stamp": ("weigh", name), "post": ("stamp", name)}.get(verb, ("", "")) in {*self.done, ("", "")}


class Called(Quay):
    """JSON tool calls; a refusal tells nothing."""

    format = '{"name": "weigh | stamp | post", "arguments": {"parcel": "its name"}} | {"name": "book", "arguments": {}}'
    refusal = REFUSED

    def parts(self, action: str) -> tuple[str, str]:
        try:
            call = json.loads(action)
            return call["name"], "" if call["name"] == "book" else call["arguments"]["parcel"]
        except (ValueError, KeyError, TypeError):
            return "", ""


class Mute(Called):
    """Nothing works."""

    def answer(self, verb: str, name: str) -> str:
        return UNKNOWN


class Listed(Called):
    """A list of names, where a text is refused without a word on it."""

    format = '{"name": "weigh | stamp | post", "arguments": {"parcels": ["names"]}} | {"name": "book", "arguments": {}}'

    def parts(self, action: str) -> tuple[str, str]:
        try:
            call = json.loads(action)
            named = [""] if call["name"] == "book" else call["arguments"]["parcels"]
        except (ValueError, KeyError, TypeError):
            return "", ""
        return (call["name"], named[0]) if isinstance(named, list) and named else (call["name"], "?")

    def answer(self, verb: str, name: str) -> str:
        return REFUSED if name == "?" else super().answer(verb, name)

    def allowed(self, verb: str, name: str) -> bool:
        return True


class Framed(Bare):
    """Actions have brackets, which nothing tells."""

    format = "One short command a turn."
    frame: ClassVar[str] = "[{}]"

    def parts(self, action: str) -> tuple[str, str]:
        bare = action[1:-1]
        return super().parts(bare) if action == self.frame.format(bare) else ("", "")


class Angled(Framed):
    """The same with other signs, and a list of the parcels below every answer."""

    frame = "<{}>"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        opening, info = super().reset(seed=seed, options=options)
        return self.page(opening), info

    def page(self, answer: str) -> str:
        return "\n".join([answer, "On the quay:", *self.parcels])


class Grid(gym.Env[str, str]):
    """Three squares in words, below the last action's name: lift three loads. The engine lists what acts on a page."""

    observation_space = gym.spaces.Text(100)
    action_space = gym.spaces.Text(20)
    format: ClassVar[str] = "left | right | lift"
    limit: ClassVar[int] = 14

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        dice = random.Random(f"grid/{seed}")
        self.at, self.load, self.lifted = dice.randrange(3), dice.randrange(3), 0
        return self.shown(), self.info()

    def shown(self, action: str = "") -> str:
        cart = "[load [cart]]" if self.at == self.load else "[cart]"
        return f"{action}\n|{':'.join(cart if place == self.at else 'x' for place in range(3))}|".strip()

    def info(self) -> dict[str, Any]:
        acts = [word for word, to in (("left", self.at - 1), ("right", self.at + 1)) if 0 <= to < 3]
        return {"admissible_actions": acts + (["lift"] if self.at == self.load else [])}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "lift" and self.at == self.load:
            self.lifted += 1
            self.load = (self.load + 1 + self.lifted % 2) % 3
        self.at = max(0, min(2, self.at + {"left": -1, "right": 1}.get(action, 0)))
        won = self.lifted == 3
        return self.shown(f"({action.title()})"), float(won), won, False, self.info()


class Strict(Framed):
    """The same where a parcel has to be weighed first, and the second refused action in a row ends the episode."""

    limit = 12
    more = 20
    refusal = REFUSED

    def allowed(self, verb: str, name: str) -> bool:
        return verb != "post" or ("weigh", name) in self.done

    def answer(self, verb: str, name: str) -> str:
        answer = super().answer(verb, name)
        self.refused = self.refused + 1 if answer in (REFUSED, UNKNOWN) else 0
        self.over = self.refused == 2
        return answer


class Ordered(Quay):
    """A parcel is weighed before it is stamped, never after; it is posted with both."""

    refusal = REFUSED

    def allowed(self, verb: str, name: str) -> bool:
        if verb == "weigh":
            return ("stamp", name) not in self.done
        return verb != "post" or {("weigh", name), ("stamp", name)} <= self.done


class Lucky(Quay):
    """Posting works in 1 of 3 tries, whatever was done before."""

    refusal = REFUSED

    def allowed(self, verb: str, name: str) -> bool:
        drawn = random.Random(f"{self.parcels}/{self.turn}/{sorted(self.done)}").random()
        return verb != "post" or drawn < 1 / 3


class Slipping(Quay):
    """The refusal tells nothing, and one of five actions is refused by chance."""

    limit = 8
    more = 20
    refusal = REFUSED

    def answer(self, verb: str, name: str) -> str:
        slips = random.Random(f"slip/{self.parcels}/{self.turn}/{sorted(self.done)}").random() < 0.2
        known = name in self.parcels and verb in ("weigh", "stamp", "post")
        return REFUSED if slips and known else super().answer(verb, name)


class Porter:
    """Does a plausible thing to a parcel; a step in a message is done next, then the action again."""

    name = "porter"

    def __init__(
        self, world: type[Quay], *, odd: float = 0.0, verbs: tuple[str, ...] = ("weigh", "stamp", "post", "book")
    ):
        self._world, self._odd, self._verbs = world, odd, verbs

    def act(self, view: AgentView) -> AgentReply:
        heard = view.turns[-1].observation if view.turns else ""
        ticked = TICKED.search(heard)
        before = TICKED.search(view.turns[-2].observation) if len(view.turns) > 1 else None
        if ticked and ("first." in heard or "instead." in heard or "is written `" in heard):
            return AgentReply(text=ticked[1], action=ticked[1])
        if before and "first." in view.turns[-2].observation and view.turns[-1].action == before[1]:
            return AgentReply(text=view.turns[-2].reply, action=view.turns[-2].action)
        dice = random.Random(f"{view.task_id}/{len(view.turns)}")
        parcels = [name for name in NAMES if name in view.initial_observation]
        wanted = view.initial_observation.rpartition("Post ")[2].strip("#. ").split(".")[0]
        name = wanted if dice.random() < 0.7 else dice.choice(parcels)
        action = self.word(dice.choice(self._verbs), name, odd=dice.random() < self._odd)
        return AgentReply(text=action, action=action)

    def word(self, verb: str, name: str, *, odd: bool) -> str:
        if verb == "book":
            return json.dumps({"name": verb, "arguments": {}}) if issubclass(self._world, Called) else verb
        if issubclass(self._world, Listed):
            return json.dumps({"name": verb, "arguments": {"parcels": name if odd else [name]}})
        if issubclass(self._world, Called):
            return json.dumps({"name": verb, "arguments": {"parcel": name}})
        if issubclass(self._world, Framed):
            return f"{verb} {name}"
        if issubclass(self._world, Signed):
            return f"{verb} {name}" if odd else f"{verb} #{name}"
        return f"{verb} the {name}" if odd else f"{verb} {name}"


class Carter:
    """Says a word at random, but none that a message says has no effect."""

    name = "carter"

    def act(self, view: AgentView) -> AgentReply:
        heard = view.turns[-1].observation if view.turns else ""
        idle = re.findall(r"\w+", heard.partition("No effect here: ")[2].partition(".")[0])
        words = [word for word in Grid.format.split(" | ") if word not in idle]
        action = random.Random(f"{view.task_id}/{len(view.turns)}").choice(words)
        return AgentReply(text=action, action=action)


def environment(world: type[Quay] | type[Grid], step_limit: int) -> align_echo.TextEnvironment:
    """The declaration of a world."""
    return align_echo.TextEnvironment(world, step_limit=step_limit, action_format=world.format)
