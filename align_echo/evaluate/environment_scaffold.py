"""Scaffold of a user's environment: a module that plays as it stands."""

from __future__ import annotations

import keyword
from importlib.util import find_spec
from pathlib import Path

from align_echo.base.files import write_atomically
from align_echo.errors import UsageError

SCAFFOLD = '''"""An environment over text. Try it: align-echo envs check --env {name}:ENV"""

import gymnasium

import align_echo

COLOURS = ("red", "blue", "green")


class World(gymnasium.Env):
    """Unlock the chest of the right colour and open it."""

    observation_space = gymnasium.spaces.Text(500)
    action_space = gymnasium.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        """Begin a task: its seed decides everything that is drawn."""
        super().reset(seed=seed)
        self.right = COLOURS[self.np_random.integers(len(COLOURS))]
        self.unlocked = set()
        chests = ", ".join(f"a {{colour}} chest" for colour in COLOURS)
        return f"You see {{chests}}. The map names the {{self.right}} chest.", {{}}

    def step(self, action):
        """Return the next text, the reward, terminated, truncated and info."""
        verb, _, colour = action.removesuffix(" chest").partition(" the ")
        if verb == "unlock" and colour in COLOURS:
            self.unlocked.add(colour)
            return f"The {{colour}} chest is unlocked.", 0.0, False, False, {{}}
        if verb == "open" and colour in self.unlocked:
            won = colour == self.right
            return "Gold!" if won else "Dust.", float(won), True, False, {{}}
        return "Nothing happens.", 0.0, False, False, {{}}


def expert(world):
    """Return the next action of a perfect agent, or None."""
    return f"{{'open' if world.right in world.unlocked else 'unlock'}} the {{world.right}} chest"


ENV = align_echo.TextEnvironment(
    World,
    goal="Find the gold.",
    action_format="unlock the {{colour}} chest | open the {{colour}} chest",
    step_limit=10,
    is_invalid=lambda text: text == "Nothing happens.",
    expert=expert,
)
'''


def write_scaffold(name: str, folder: Path) -> Path:
    """Write the module `name` into a folder and return its path.

    Raises `UsageError` for a name that Python cannot import, that another module has, or whose file exists.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is no name of a Python module: use letters, digits and _, such as my_world")
    path = folder / f"{name}.py"
    if path.exists():
        raise UsageError(f"{path} exists already: choose another name")
    if find_spec(name) is not None:
        raise UsageError(f"a module {name} is installed already: choose another name")
    write_atomically(path, SCAFFOLD.format(name=name))
    return path
