"""Check of an environment before it is used: does it repeat itself, what does it show, what does it cost.

Each check plays some tasks by actions drawn from what the environment lists, or else from its action format. Nothing
here changes the environment, and no figure of an agent comes from it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import median
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from align_echo.agents import options
from align_echo.agents.options import VerbConfig
from align_echo.errors import EngineError
from align_echo.evaluate.plan import pick_tasks
from align_echo.interface.contract import identity
from align_echo.registry import quantity
from align_echo.rollout.answers import NONSENSE
from align_echo.rollout.refusals import RefusalJudge
from align_echo.rollout.session import base_env
from align_echo.types import Frozen
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.copies import draw_action
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.plain import MOST_TRIALS
from align_echo.wrappers.text_env import MAX_TEXT, TextEnv

State = Literal["good", "note", "trouble"]
"""`trouble` makes figures wrong or stops a run; a `note` is worth knowing."""

PROBE_STEPS = 10_000
"""Engine steps of the probe whose time is reported."""

SHIPPED_STEPS = (13_891, 1_719_706)
"""Fewest and most engine steps that the probe took for an interface that ships, by their records."""

LONG_PROBE = 600.0
"""Seconds of `PROBE_STEPS` above which they are worth a note."""

RETURNS, TIMED_RETURNS = MOST_TRIALS + 4, 3
"""Returns to a state, and those at their end that are timed: every trial of copies is over by then."""

OFTEN = 0.9
"""Share of answers from which a property of all answers is concluded."""


class CheckConfig(VerbConfig):
    """Options of `align-echo envs check`."""

    env: options.Env
    split: options.TrainSplit = None
    tasks: Annotated[int, Field(ge=1, description="Tasks to play; at most the split's.")] = 5
    turns: Annotated[int, Field(ge=2, description="Most turns of a task.")] = 20
    seed: options.Seed = 0
    data_root: options.DataRoot = None


class CheckFinding(Frozen):
    """A checked property of an environment, with the finding in words."""

    name: str
    state: State
    message: str


class EnvironmentReport(Frozen):
    """All findings about an environment, from so many tasks and turns."""

    environment: str
    split: str
    tasks: int
    turns: int
    findings: tuple[CheckFinding, ...]

    @property
    def troubles(self) -> int:
        """Number of findings that make figures wrong or stop a run."""
        return sum(finding.state == "trouble" for finding in self.findings)


class PlayedTurn(NamedTuple):
    """A turn as everything that must come out again: the action, its text, reward and end."""

    action: str
    text: str
    reward: float
    is_over: bool


@dataclass(frozen=True)
class PlayedTask:
    """A task with its first text and turns. `seconds` are the times of the turns. `lists_actions`: the environment
    listed its possible actions.
    """

    task_id: str
    opening: str
    turns: tuple[PlayedTurn, ...]
    seconds: tuple[float, ...]
    lists_actions: bool

    @property
    def texts(self) -> list[str]:
        """All texts in order, the opening first."""
        return [self.opening, *(turn.text for turn in self.turns)]


def check_environment(config: CheckConfig) -> EnvironmentReport:
    """Play some tasks of an environment several times and report its properties.

    Raises `UsageError` for an unknown environment or split, and `EngineError` if the environment cannot be made or
    breaks in the first play.
    """
    spec = environment(config.env)
    split = spec.check_split(config.split or spec.train_split)
    task_ids = spec.tasks(split, config.data_root)
    count = min(config.tasks, len(task_ids))
    chosen = pick_tasks(task_ids, count, task_type=spec.task_type, seed=config.seed)
    site = _Site(spec, split, config)
    played = [site.play(task) for task in chosen]
    turns = sum(len(task.turns) for task in played)
    findings = (
        _about_tasks(spec, config, played),
        _about_repeats(site, played),
        _about_interleaving(site, played),
        _about_counters(played),
        _about_history(played),
        _about_text(site, played),
        *_about_forks(site, played),
        _about_refusals(spec, config, played),
        _about_score(spec, played),
        _about_ends(played),
    )
    return EnvironmentReport(
        environment=spec.name, split=split, tasks=count, turns=turns, findings=findings
    )


class _Site:
    """Makes the checked environment and plays its tasks."""

    def __init__(self, spec: EnvironmentSpec, split: str, config: CheckConfig) -> None:
        self._spec, self._split, self._config = spec, split, config

    def make(self) -> TextEnv:
        """Make the plain environment with a step limit that ends no check."""
        env = self._spec.make(self._split, data_root=self._config.data_root, step_limit=self._config.turns + 1)
        return base_env(env)

    def play(self, task: str) -> PlayedTask:
        """Play a task in an environment of its own."""
        env = self.make()
        try:
            return self._end(self._begin(env, task))
        finally:
            env.close()

    def changed_text(self, played: PlayedTask) -> str:
        """Play a task again under an interface that does nothing; return a text it changes, "" for none."""
        env = self._spec.make(
            self._split,
            interface=identity(self._spec.contract),
            data_root=self._config.data_root,
            step_limit=self._config.turns + 1,
        )
        raw = base_env(env)
        try:
            pairs = [(env.reset(seed=0, options={"task": played.task_id})[0], raw.state.observation)]
            for turn in played.turns:
                if not raw.over:  # an environment that does not repeat itself may end earlier
                    pairs.append((env.step(turn.action)[0], raw.state.observation))
        finally:
            env.close()
        return next((text[:80] for text, plain in pairs if text != plain), "")

    def play_interleaved(self, tasks: Sequence[str]) -> list[PlayedTask]:
        """Play several tasks turn by turn in turns, each in an environment of its own."""
        envs = [self.make() for _ in tasks]
        try:
            plays = [self._begin(env, task) for env, task in zip(envs, tasks, strict=True)]
            for _ in range(self._config.turns):
                for play in plays:
                    play.take_turn()
            return [play.played for play in plays]
        finally:
            for env in envs:
                env.close()

    def _begin(self, env: TextEnv, task: str) -> _Play:
        return _Play(env, task, self._spec.action_format, self._config.turns, self._config.seed)

    def _end(self, play: _Play) -> PlayedTask:
        for _ in range(self._config.turns):
            play.take_turn()
        return play.played


class _Play:
    """A task as it is played: the next action depends on the seed, the task and the texts alone."""

    def __init__(self, env: TextEnv, task: str, action_format: str, turns: int, seed: int) -> None:
        self._env, self._task, self._turns = env, task, turns
        self._rng = random.Random(f"{seed} {task}")
        self._format = action_format
        self._opening, _ = env.reset(seed=0, options={"task": task})
        self._lists = env.state.admissible_actions is not None
        self._played: list[PlayedTurn] = []
        self._seconds: list[float] = []

    @property
    def played(self) -> PlayedTask:
        """Return the task with its turns so far."""
        return PlayedTask(self._task, self._opening, tuple(self._played), tuple(self._seconds), self._lists)

    def take_turn(self) -> None:
        """Play the next turn, unless the episode is over."""
        if self._env.over or len(self._played) == self._turns:
            return
        action = self._choose()
        start = time.perf_counter()
        text, reward, terminated, truncated, _ = self._env.step(action)
        self._seconds.append(time.perf_counter() - start)
        self._played.append(PlayedTurn(action, text, float(reward), terminated or truncated))

    def _choose(self) -> str:
        state = self._env.state
        return draw_action(self._rng, state.admissible_actions, self._format, state.observation)


# ---------------------------------------------------------------- findings


def _about_tasks(spec: EnvironmentSpec, config: CheckConfig, played: Sequence[PlayedTask]) -> CheckFinding:
    sizes = ", ".join(f"{split} {len(spec.tasks(split, config.data_root))}" for split in spec.splits)
    lists = "possible actions are listed" if _lists(played) else "no actions are listed"
    return CheckFinding(name="tasks", state="good", message=f"{sizes}; step limit {spec.step_limit}; {lists}")


def _lists(played: Iterable[PlayedTask]) -> bool:
    return all(task.lists_actions for task in played)


def _about_repeats(site: _Site, played: Sequence[PlayedTask]) -> CheckFinding:
    again = [site.play(task.task_id) for task in played]
    difference = _first_difference(played, again)
    if not difference:
        return CheckFinding(name="repeats", state="good", message="the same task and actions give the same texts again")
    return CheckFinding(
        name="repeats",
        state="trouble",
        message=f"the same task and actions gave another text ({difference}): let reset(seed=...) seed all chance; "
        "until then it can be played, but no state can be returned to",
    )


def _about_interleaving(site: _Site, played: Sequence[PlayedTask]) -> CheckFinding:
    if len(played) < 2:
        return CheckFinding(name="interleaved", state="note", message="not tried: it takes two tasks")
    mixed = site.play_interleaved([task.task_id for task in played])
    difference = _first_difference(played, mixed)
    if not difference:
        return CheckFinding(name="interleaved", state="good", message="episodes in turns play as they do alone")
    return CheckFinding(
        name="interleaved",
        state="trouble",
        message=f"an episode plays otherwise beside another ({difference}): it shares chance or state in a process; "
        "declare global_random=True if it draws from `random` or numpy's, else play with --workers 1 or processes:N",
    )


def _first_difference(left: Sequence[PlayedTask], right: Sequence[PlayedTask]) -> str:
    """Return where two plays of the same tasks part; "" if they are equal."""
    for first, second in zip(left, right, strict=True):
        if first.opening != second.opening:
            return f"task {first.task_id}, first text"
        for number, (turn, peer) in enumerate(zip_longest(first.turns, second.turns), start=1):
            if turn != peer:
                return f"task {first.task_id}, turn {number}"
    return ""


def _about_counters(played: Sequence[PlayedTask]) -> CheckFinding:
    pairs = [(before, after) for task in played for before, after in pairwise(task.texts[1:])]
    rising = sum(_rises(before, after) for before, after in pairs)
    if pairs and rising >= OFTEN * len(pairs):
        return CheckFinding(
            name="counters",
            state="note",
            message=f"{rising} of {len(pairs)} answers hold a number that counts turns: equal answers differ",
        )
    return CheckFinding(name="counters", state="good", message="no number rises with every turn")


def _rises(before: str, after: str) -> bool:
    """Check if a number at the same place among the numbers is one higher, or counts down by one."""
    old, new = (re.findall(r"(?<![\w.])\d+(?![\w.])", text) for text in (before, after))
    near = [*zip(old, new, strict=False), *zip(old[::-1], new[::-1], strict=False)]
    return any(abs(int(new_number) - int(old_number)) == 1 for old_number, new_number in near)


def _about_history(played: Sequence[PlayedTask]) -> CheckFinding:
    pairs = [(before, after) for task in played for before, after in pairwise(task.texts) if before.strip()]
    repeating = sum(after != before and before.strip() in after for before, after in pairs)
    if pairs and repeating >= OFTEN * len(pairs):
        return CheckFinding(
            name="history",
            state="note",
            message=f"{repeating} of {len(pairs)} answers hold the text before: agents keep the history themselves, so "
            "give the new text alone",
        )
    return CheckFinding(name="history", state="good", message="answers hold new text alone")


def _about_text(site: _Site, played: Sequence[PlayedTask]) -> CheckFinding:
    """Check that every text passes the sandbox of an interface unchanged."""
    longest = max((len(text) for task in played for text in task.texts), default=0)
    if longest >= MAX_TEXT:
        return CheckFinding(
            name="text", state="trouble", message=f"a text has {MAX_TEXT:,} characters or more: the rest is cut off"
        )
    alphabets = any(not text.isascii() for task in played for text in task.texts)
    changed = site.changed_text(played[0])
    kind = f"texts of up to {longest:,} characters" + (", also non-ASCII ones," if alphabets else "")
    if changed:
        return CheckFinding(name="text", state="trouble", message=f"an interface changes a text by itself: {changed}")
    return CheckFinding(name="text", state="good", message=f"{kind} reach the agent unchanged under an interface")


def _about_forks(site: _Site, played: Sequence[PlayedTask]) -> tuple[CheckFinding, ...]:
    """Measure the return to a state in the middle of the longest episode, and the time of a probe from it."""
    task = max(played, key=lambda each: len(each.turns))
    step = median(task.seconds) if task.seconds else 0.0
    env = site.make()
    try:
        env.reset(seed=0, options={"task": task.task_id})
        middle = len(task.turns) // 2
        for turn in task.turns[:middle]:
            env.step(turn.action)
        saved, text = env.snapshot(), env.state.observation
        for turn in task.turns[middle:]:
            env.step(turn.action)
        returns = []
        for _ in range(RETURNS):  # the first ones may try out ways and keep a copy
            start = time.perf_counter()
            env.restore(saved)
            returns.append(time.perf_counter() - start)
            env.step(task.turns[middle].action)
        seconds = median(returns[-TIMED_RETURNS:])
        env.restore(saved)
        same = env.state.observation == text
        same &= all(env.step(turn.action)[0] == turn.text for turn in task.turns[middle:])
        way = env.fork_way
    except EngineError as error:
        return (CheckFinding(name="forks", state="trouble", message=f"no state can be returned to: {error}"),)
    finally:
        env.close()
    cost = f"a step takes {_duration(step)}, a return to turn {middle} {_duration(seconds)}"
    if not same:
        return (CheckFinding(name="forks", state="trouble", message=f"a state does not go on as it did; {cost}"),)
    forks = CheckFinding(name="forks", state="good", message=f"states can be returned to, {way}; {cost}")
    return forks, _about_probe(step, seconds)


def _about_refusals(spec: EnvironmentSpec, config: CheckConfig, played: Sequence[PlayedTask]) -> CheckFinding:
    """Check which answers to nonsense are recognised as refusals."""
    if spec.is_invalid is not None:
        return _recognised(spec, spec.is_invalid, "by the declared is_invalid", config)
    if spec.lists_all and _lists(played):
        return CheckFinding(name="refusals", state="good", message="known: an action that is not listed was refused")
    test = RefusalJudge(spec, (), config.data_root).text_test
    if test is None:
        return CheckFinding(
            name="refusals",
            state="note",
            message="not recognised: no test is declared, no actions are listed, and nonsense is answered in several "
            "ways or with the page as it was. Invalid rates are then not defined; declare is_invalid, or list "
            "admissible_actions in info",
        )
    return _recognised(spec, test, "inferred from the answer to nonsense", config)


def _recognised(
    spec: EnvironmentSpec, is_refusal: Callable[[str], bool], source: str, config: CheckConfig
) -> CheckFinding:
    env = spec.make(spec.train_split, data_root=config.data_root)
    try:
        answers = []
        for action in NONSENSE:
            env.reset(seed=0, options={"task": spec.tasks(spec.train_split, config.data_root)[0]})
            answers.append(env.step(action)[0])
    finally:
        env.close()
    known = sum(map(is_refusal, answers))
    state: State = "good" if known == len(answers) else "trouble"
    return CheckFinding(
        name="refusals", state=state, message=f"{known} of {len(answers)} refusals of nonsense are recognised, {source}"
    )


def _about_score(spec: EnvironmentSpec, played: Sequence[PlayedTask]) -> CheckFinding:
    gains = sum(turn.reward != 0 for task in played for turn in task.turns)
    turns = sum(len(task.turns) for task in played)
    seen = f"{gains} of {turns} turns of these plays changed the score"
    expert = "an expert is declared" if _has_expert(spec, played) else "no expert is declared"
    return CheckFinding(name="score", state="good" if gains else "note", message=f"{seen}; {expert}")


def _has_expert(spec: EnvironmentSpec, played: Iterable[PlayedTask]) -> bool:
    return any(spec.has_expert(task.task_id) for task in played)


def _about_ends(played: Sequence[PlayedTask]) -> CheckFinding:
    early = [len(task.turns) for task in played if task.turns and task.turns[-1].is_over]
    if len(early) == len(played) and max(early) <= 2:
        message = f"every episode ended within {quantity(max(early), 'turn')}: there is little to learn from"
        return CheckFinding(name="ends", state="note", message=message)
    return CheckFinding(
        name="ends", state="good", message=f"{len(early)} of {len(played)} episodes ended before the check did"
    )


def _about_probe(step: float, fork: float) -> CheckFinding:
    """Report the engine's time of the probe's steps, each of which follows a return to a state."""
    seconds = PROBE_STEPS * (step + fork)
    return CheckFinding(
        name="probe",
        state="note" if seconds > LONG_PROBE else "good",
        message=f"{PROBE_STEPS:,} engine steps of generate-interface --backend probe take about {_duration(seconds)}; "
        f"interfaces that ship took {SHIPPED_STEPS[0]:,} to {SHIPPED_STEPS[1]:,} steps",
    )


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds > 0.01 else f"{1000 * seconds:.2g} ms"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
