"""A greenhouse in text: a plain `gymnasium.Env`, as somebody would write it who never saw align-echo.

The gardener stands in a garden of three places and has to water one plant. The can must be found and filled first, and
the greenhouse door sticks: it has to be pushed open. Refused actions all get the same two words, so an agent that
does not know the rules cannot learn them from what it is told.
"""

from __future__ import annotations

import gymnasium

PLACES = ("shed", "pond", "greenhouse")
PLANTS = ("fern", "orchid", "ivy")
REFUSED = "That fails."


class Greenhouse(gymnasium.Env):
    """Water the right plant."""

    observation_space = gymnasium.spaces.Text(500)
    action_space = gymnasium.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wanted = PLANTS[self.np_random.integers(len(PLANTS))]
        self.can = ("shed", "pond")[self.np_random.integers(2)]
        self.place, self.full, self.open = "shed", False, False
        text = f"You are in the shed. Paths lead to the pond and to the greenhouse. {self._look()}"
        return f"{text}\nYour job: water the {self.wanted}.", self._info()

    def step(self, action):
        text = self._do(" ".join(action.lower().split()))
        done = text == f"You water the {self.wanted}."
        return text or REFUSED, float(done), done, False, self._info()

    def _do(self, action):
        verb, _, rest = action.partition(" the ")
        if verb == "walk to" and rest in PLACES and rest != self.place:
            if rest == "greenhouse" and not self.open:
                return ""
            self.place = rest
            return f"You walk to the {rest}. {self._look()}"
        if action == "push the door" and self.place == "pond" and not self.open:
            self.open = True
            return "The door of the greenhouse swings open."
        if action == "pick up the can" and self.place == self.can:
            self.can = "hand"
            return "You pick up the can."
        if action == "fill the can" and self.can == "hand" and self.place == "pond" and not self.full:
            self.full = True
            return "You fill the can."
        if verb == "water" and rest in PLANTS and self.place == "greenhouse" and self.can == "hand" and self.full:
            self.full = False
            return f"You water the {rest}."
        if action == "look around":
            return f"You are at the {self.place}. {self._look()}"
        return ""

    def _look(self):
        things = {"shed": [], "pond": ["a door"], "greenhouse": [f"the {plant}" for plant in PLANTS]}[self.place]
        things = things + (["a can"] if self.can == self.place else [])
        return f"Here you see {' and '.join(things) or 'nothing of use'}."

    def _info(self):
        tried = ["look around", "push the door", "pick up the can", "fill the can"]
        tried += [f"walk to the {place}" for place in PLACES] + [f"water the {plant}" for plant in PLANTS]
        before = self.__dict__.copy()
        admissible = []
        for action in tried:
            if self._do(action):
                admissible.append(action)
            self.__dict__.update(before)
        return {"admissible_actions": admissible}
