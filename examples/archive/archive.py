"""An archive in text: a plain `gymnasium.Env` that knows nothing of align-echo."""

import gymnasium

REFUSED = "Not possible."


class Archive(gymnasium.Env):
    """Fetch the file that is asked for out of its drawer and hand it in at the desk."""

    observation_space = gymnasium.spaces.Text(500)
    action_space = gymnasium.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.drawers = {f"drawer {n}": [] for n in range(1, 5)}
        for n in range(1, 7):
            self.drawers[f"drawer {self.np_random.integers(1, 5)}"].append(f"file {n}")
        self.wanted = f"file {self.np_random.integers(1, 7)}"
        self.home = next(drawer for drawer, files in self.drawers.items() if self.wanted in files)
        self.at, self.held, self.unlocked, self.done = "", "", set(), False
        text = f"You stand in an archive with a desk 1, {', '.join(f'a {drawer}' for drawer in self.drawers)}."
        return f"{text}\nYour task: hand in {self.wanted}. It is kept in {self.home}.", self._info()

    def step(self, action):
        text = self._do(action) if action in self._allowed() else REFUSED
        return text, float(self.done), self.done, False, self._info()

    def _allowed(self):
        places = [*self.drawers, "desk 1"]
        allowed = [f"walk to {place}" for place in places if place != self.at]
        if self.at in self.drawers and self.at not in self.unlocked:
            allowed.append(f"unlock {self.at}")
        if self.at in self.unlocked and not self.held:
            allowed += [f"fetch {file} from {self.at}" for file in self.drawers[self.at]]
        if self.at == "desk 1" and self.held:
            allowed.append(f"hand in {self.held}")
        return allowed

    def _do(self, action):
        if action.startswith("walk to "):
            self.at = action.removeprefix("walk to ")
            seen = f" {self._inside()}" if self.at in self.unlocked else ""
            return f"You are at {self.at}.{seen}"
        if action.startswith("unlock "):
            self.unlocked.add(self.at)
            return f"You unlock {self.at}. {self._inside()}"
        if action.startswith("fetch "):
            self.held = action.removeprefix("fetch ").split(" from ")[0]
            self.drawers[self.at].remove(self.held)
            return f"You hold {self.held}."
        self.done = self.held == self.wanted
        held, self.held = self.held, ""
        return f"You hand in {held}."

    def _inside(self):
        return f"In {self.at} you see {', '.join(self.drawers[self.at]) or 'nothing'}."

    def _info(self):
        return {"admissible_actions": self._allowed()}
