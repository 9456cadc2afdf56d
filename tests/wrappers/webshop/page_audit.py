"""Try every claim of an interface for silent pages in a fork of the engine, while an adversary plays.

The adversary says parts of pages that cannot be named, names of other pages, names with words added or left out, in
other letters, other forms and nonsense, on a walk through pages. A claim "is not understood" holds if the engine's
state is the same after the action; a command holds if the state is another one then, or if the same command was taken
before; a step "first" if the step holds, and the action after it and not before it; a row of names if each does.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator

from align_echo.interface.contract import Interface
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv

WRITE = re.compile(r"`([^`]*)` is not understood; write `([^`]*)` instead\.")
FIRST = re.compile(r"`([^`]*)` does not work yet: you need to `([^`]*)` first\.")
ROW = re.compile(r"`([^`]*)X([^`]*)` takes here(?:, among others)?: (.*?)(?=\.$|\. `)")
VERBS = ("choose", "press", "select", "go to", "please", "open")


class PageAudit:
    """Plays episodes under an interface and counts the claims of its messages, right and wrong, by kind."""

    def __init__(self, env: TextEnv, interface: Interface) -> None:
        self.env = env
        self.wrapped = AlignWrapper(env, interface)
        self.right: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.refused = self.answered = 0
        self.examples: list[str] = []
        self.taken: set[str] = set()
        """What the engine took in this episode, as it reads it: to say it again may change nothing."""

    def begin(self, task_id: str) -> str:
        """Start an episode; the engine's first page."""
        self.wrapped.reset(seed=0, options={"task": task_id})
        self.taken = set()
        return self.env.state.observation

    def say(self, action: str) -> None:
        """Say something, and try all that the interface answers."""
        before = self.env.snapshot()
        shown, _, _, _, info = self.wrapped.step(action)
        raw = self.env.state.observation
        message = shown.removeprefix(raw).strip()
        idle = raw == before.state.observation and not self.env.over
        same = idle and self.env.snapshot().engine == before.engine
        self.taken |= set() if same else {self.env.as_read(action)}
        self.refused += same
        self.answered += bool(message)
        if info["interface_error"]:
            self._count("broken", False, action)
        if message:
            self._judge(action, message, unchanged=same)

    def possible(self, action: str) -> bool:
        """Whether the engine takes an action here, or took it before."""
        return self.changes(action) or self.env.as_read(action) in self.taken

    def changes(self, action: str) -> bool:
        """Whether the engine is in another state after an action, whatever it shows."""
        before = self.env.snapshot()
        self.env.step(action)
        after = self.env.snapshot()
        self.env.restore(before)
        return after.engine != before.engine or after.state.observation != before.state.observation

    def _judge(self, action: str, message: str, *, unchanged: bool) -> None:
        self._count("did nothing", unchanged, f"{action} -> {message}")
        for _, command in WRITE.findall(message):
            self._count("instead", self.possible(command), f"{action} -> {message}")
        for wanted, step in FIRST.findall(message):
            held = self.possible(step) and not self.changes(wanted)
            before = self.env.snapshot()
            self.env.step(step)
            held = held and not self.env.over and self.possible(wanted)
            self.env.restore(before)
            self._count("first", held, f"{action} -> {message}")
        for head, tail, names in ROW.findall(message):
            for name in names.split(" | "):
                self._count("name in a row", self.possible(f"{head}{name}{tail}"), f"{action} -> {name} in {message}")

    def _count(self, kind: str, held: bool, example: str) -> None:
        (self.right if held else self.wrong)[kind] += 1
        if not held and len(self.examples) < 20:
            self.examples.append(f"{kind}: {self.env.info(None)['task_id']}: {example}")


def sayings(env: TextEnv, rng: random.Random, elsewhere: list[str]) -> Iterator[str]:
    """Things that an adversary says on a page."""
    offered = env.offered()
    if offered is None:
        return
    parts = [part.strip() for part in re.split(r" \[SEP\] |[/|;\n]", env.state.observation) if part.strip()]
    for _ in range(8):
        form = rng.choice(offered.templates)
        name = rng.choice([*offered.names, *parts, rng.choice(parts)])
        words = name.split()
        yield rng.choice(
            [
                form.replace("{0}", rng.choice(parts)),
                form.replace("{0}", rng.choice(elsewhere or parts)),
                form.replace("{0}", f"{rng.choice(VERBS)} {name}"),
                form.replace("{0}", f"{name} {rng.choice(VERBS)}"),
                form.replace("{0}", rng.choice(words)),
                form.replace("{0}", " ".join(words[: max(1, len(words) // 2)])),
                form.replace("{0}", name.title()),
                re.sub(r"\W*\{0\}\W*", f" {name}", form),
                f"{rng.choice(VERBS)} {name}",
                form.replace("{0}", "zxq vub"),
                name,
            ]
        )
    elsewhere.extend(part for part in parts if len(part) < 60)


def adversary(audit: PageAudit, tasks: list[str], turns: int, seed: int) -> None:
    """A walk through each task's pages, and on each of them what an adversary says."""
    elsewhere: list[str] = []
    for task_id in tasks:
        rng = random.Random(f"{seed}/{task_id}")
        audit.begin(task_id)
        for _ in range(turns):
            for action in sayings(audit.env, rng, elsewhere):
                if not audit.env.over and not ends(audit.env, action):
                    audit.say(action)
            ways = [action for action in audit.env.state.admissible_actions or () if not ends(audit.env, action)]
            expert = audit.env.oracle().expert_action()
            step = expert if expert and rng.random() < 0.3 and not ends(audit.env, expert) else rng.choice(ways)
            audit.say(step)


def ends(env: TextEnv, action: str) -> bool:
    """Whether an action ends the episode."""
    before = env.snapshot()
    env.step(action)
    over = env.over
    env.restore(before)
    return over
