"""A shelf of jars behind plain `gymnasium.Env`s, which differ in how a refused action is told: for tests of refusals.

A jar is opened once the lid is loosened, and what is inside is taken: `loosen red`, `open red`, `take red`. The task is
to take out of the jar that the first text names. Whatever else is said, is refused.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

JARS = ("red", "blue", "green")
REFUSED = "No."

Answer = tuple[str, float, bool, bool, dict[str, Any]]


class Shelf(gym.Env[str, str]):
    """One text refuses whatever is refused."""

    observation_space = gym.spaces.Text(500)
    action_space = gym.spaces.Text(100)
    said: list[tuple[int, str]]
    """Every (seed, action) that was said to any shelf of a class, where the class has such a list."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.seed = seed or 0
        self.wanted = JARS[self.seed % 3]
        self.loose: set[str] = set()
        self.opened: set[str] = set()
        self.page = f"Three jars: {', '.join(JARS)}. Take out of the {self.wanted} one."
        return self.page, self.info()

    def step(self, action: str) -> Answer:
        if hasattr(type(self), "said"):
            type(self).said.append((self.seed, action))
        if action not in self.possible():
            return self.refuse(action)
        verb, jar = action.split()
        won = verb == "take" and jar == self.wanted
        texts = {"loosen": f"The lid of {jar} turns.", "open": f"You open {jar}.", "take": f"You empty {jar}."}
        self.page = texts[verb]
        if verb == "loosen":
            self.loose.add(jar)
        elif verb == "open":
            self.opened.add(jar)
        return self.page, float(won), verb == "take", False, self.info()

    def refuse(self, action: str) -> Answer:
        return REFUSED, 0.0, False, False, self.info()

    def possible(self) -> list[str]:
        can_loosen = [f"loosen {jar}" for jar in JARS if jar not in self.loose]
        can_open = [f"open {jar}" for jar in JARS if jar in self.loose - self.opened]
        return [*can_loosen, *can_open, *(f"take {jar}" for jar in self.opened)]

    def info(self) -> dict[str, Any]:
        return {}


class OtherWords(Shelf):
    """What is a command, and not possible now, is refused in other words than what is none."""

    def refuse(self, action: str) -> Answer:
        known = action.split()[0] in ("loosen", "open", "take")
        text = f"There is no jar {action.split()[-1]} at hand." if known else "Unknown command."
        return text, 0.0, False, False, self.info()


class Quiet(Shelf):
    """A refused action is answered with the page before; what is no command is told so."""

    def refuse(self, action: str) -> Answer:
        known = action.split()[0] in ("loosen", "open", "take")
        return (self.page if known else "Unknown command."), 0.0, False, False, self.info()


class Counting(Shelf):
    """Answers begin with the number of the turn."""

    turns = 0

    def reset(self, **given: Any) -> tuple[str, dict[str, Any]]:
        self.turns = 0
        return super().reset(**given)

    def step(self, action: str) -> Answer:
        self.turns += 1
        text, *rest = super().step(action)
        return (f"Turn {self.turns}. {text}", *rest)  # type: ignore[return-value]


class Listing(OtherWords):
    """Lists what is possible."""

    def info(self) -> dict[str, Any]:
        return {"admissible_actions": self.possible()}


class ListingSome(Listing):
    """Lists what is possible but for the taking."""

    def info(self) -> dict[str, Any]:
        return {"admissible_actions": [action for action in self.possible() if not action.startswith("take")]}


class ListingSomeLids(Listing):
    """Lists what is possible but for the lids."""

    def info(self) -> dict[str, Any]:
        return {"admissible_actions": [action for action in self.possible() if not action.startswith("loosen")]}


class Ticking(Listing):
    """Lists what is possible and what time it is, which goes on."""

    time = 0

    def step(self, action: str) -> Answer:
        self.time += 1
        return super().step(action)

    def info(self) -> dict[str, Any]:
        return {"admissible_actions": [*self.possible(), f"wait until {self.time + 1}"]}


class ListingForms(Shelf):
    """Lists every command there is, possible or not."""

    def info(self) -> dict[str, Any]:
        return {"admissible_actions": [f"{verb} {jar}" for verb in ("loosen", "open", "take") for jar in JARS]}
