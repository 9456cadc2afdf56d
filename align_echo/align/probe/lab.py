"""Experiments on a forkable environment: the engine's answers and allowed actions after any actions from the start.

States form a tree per task; each is visited once, and engine steps are counted. The lab plays the raw environment,
without interface, rewards or oracle.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

from align_echo.align.budget import Budget, BudgetSpentError
from align_echo.align.probe.names import ActionForms
from align_echo.errors import EngineError
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.situations import Situation
from align_echo.interface.rules.vocabulary import find_refusal, name_pattern
from align_echo.registry import quantity
from align_echo.types import Trajectory
from align_echo.workers.remote import ForkPool, usable_cores
from align_echo.wrappers.text_env import ActionOptions, Snapshot, TextEnv

Answer = TypeVar("Answer")


@dataclass(eq=False)
class LabState:
    """State of a task: the actions leading to it, the engine's last answer and the allowed actions.

    `admissible` is computed on demand: the engine's list, or the accepted ones among all possible actions
    (`Lab.listed`). States at the same environment `position` share their knowledge. `tried` caches trials, `so` refused
    actions in effect, `looks` the texts of read-only actions, and `offers` the engine's offers. `opening` is an initial
    state's text for the interface.
    """

    task_id: str
    actions: tuple[str, ...]
    observation: str
    over: bool
    snapshot: Snapshot = field(repr=False)
    listed: Callable[[LabState], frozenset[str]] = field(repr=False)
    parent: LabState | None = field(default=None, repr=False)
    children: dict[str, LabState] = field(default_factory=dict, repr=False)
    position: Hashable | None = field(default=None, repr=False)
    history: Situation | None = field(default=None, repr=False)
    looks: dict[str, str] = field(default_factory=dict, repr=False)
    offers: ActionOptions | None = field(default=None, repr=False)
    opening: str = field(default="", repr=False)
    tried: dict[str, bool] | None = field(default=None, repr=False)
    names: frozenset[str] | None = field(default=None, repr=False)
    so: dict[str, bool] | None = field(default=None, repr=False)
    read: tuple[DecisionLists, dict[Hashable, Any]] | None = field(default=None, repr=False)

    def read_by(self, lists: DecisionLists) -> dict[Hashable, Any]:
        """Return the cache of some rules' results for this state; only the latest rules have one."""
        if self.read is None or self.read[0] is not lists:
            self.read = (lists, {})
        return self.read[1]

    @cached_property
    def admissible(self) -> frozenset[str]:
        """Return the actions the engine would accept."""
        return self.listed(self)


class Lab:
    """Laboratory with a forkable environment. It holds a task's tree at a time; `steps` counts engine steps.

    `traceless` holds answers that leave the engine unchanged unless they end the episode, so nothing is restored after
    them. `name` matches `names` in lists (`names.py`); `refusals` are shapes of refusals. `sayings` holds possible
    actions for an engine without lists; without it nothing is allowed there. `comparable` is True if saved states can
    be compared by value (`compare_saved`); `lists` if the engine lists admissible actions, known after the first
    start. `pace` is the share of the usual walks that the budget affords. `broken` holds actions at which the engine
    failed, with the first reason: such a trial says nothing, and its state is an end.
    """

    def __init__(self, env: TextEnv, processes: int = 1, budget: Budget | None = None) -> None:
        self.env = env
        self.budget = budget or Budget()
        self._processes = processes
        self.steps = 0
        self.pace = 1.0
        self.use_names(None)
        self.refusals: list[str] = []
        self.sayings: ActionForms | None = None
        self.comparable = False
        self.lists = False
        self.traceless: frozenset[str] = frozenset()
        self.broken: dict[str, str] = {}
        self._tried: dict[Hashable, dict[str, bool]] = {}
        self._at: dict[Hashable, LabState] = {}
        self._reached: dict[tuple[Hashable, str], LabState] = {}
        self._root: LabState | None = None
        self._current: LabState | None = None

    def use_names(self, names: tuple[str, ...] | None) -> None:
        """Set the names in lists; None for numbered words."""
        self.names, self.name = names, name_pattern(names)

    @property
    def copies(self) -> int:
        """Return the number of processes for testing rules; 1 for no copies.

        Without lists, trials in a task depend on earlier tasks, so there are no copies. A budget of engine steps is
        spent in one process, so that it ends at the same step for any number.
        """
        if self.budget.limits.engine_steps is not None:
            return 1
        return min(self._processes, usable_cores()) if self.lists and self.env.in_memory else 1

    def share_out(self, works: Iterable[Callable[[], Answer]], count: int) -> list[Answer]:
        """Run `count` pieces of work, each on its own tasks' trees, and return the results in order.

        Pieces are drawn here in order; all but the last run in copies of this process where possible. Lab state and
        step counts do not depend on copies. Where the budget ends, the results of the pieces that ended are returned,
        and the next engine step raises `BudgetSpentError`.
        """
        answers: list[Answer] = []
        with ForkPool[tuple[Answer | None, int]](self.copies) as pool:
            with suppress(BudgetSpentError):
                for number, work in enumerate(works, 1):
                    if self.copies > 1 and number < count:
                        pool.give(partial(self._with_steps, work))
                    else:
                        pool.keep(self._with_steps(work))
            for (answer, steps), in_copy in pool.answers():
                self.steps += steps if in_copy else 0
                self.budget.add_steps(steps if in_copy else 0)
                if answer is None:
                    self.budget.is_spent()
                else:
                    answers.append(answer)
        return answers

    def _with_steps(self, work: Callable[[], Answer]) -> tuple[Answer | None, int]:
        """Return the result, None where the budget ended it, and the engine steps taken."""
        before = self.steps
        try:
            return work(), self.steps - before
        except BudgetSpentError:
            return None, self.steps - before

    def start(self, task_id: str) -> LabState:
        """Return the initial state of a task."""
        if self._root is None or self._root.task_id != task_id:
            self.budget.check()
            self.env.reset(seed=0, options={"task": task_id})
            self.lists = self.env.state.admissible_actions is not None
            self._clear()
            self._root = self._current = self._state(task_id, (), None)
            self._root.opening = "\n".join(self.env.opening(self._root.observation))
        return self._root

    def refused(self, state: LabState, action: str, answer: str) -> bool:
        """Check if an answer refuses an action in a state; listed actions are never refused."""
        return bool(find_refusal(self.refusals, state.observation, action, answer)) and not (
            self.lists and action in state.admissible
        )

    def takes(self, state: LabState, action: str) -> bool:
        """Check if the engine accepts an action in a state, by its list or by trying."""
        if self.lists:
            return action in state.admissible
        if state.over:
            return False
        if state.tried is None:  # equal engine states share it; where refusals are silent, after the same text alone
            before = state.observation.strip() if SAME in self.refusals else ""
            state.tried = self._tried.setdefault((self.key(state), before), {}) if self.comparable else {}
        if action not in state.tried:
            child = state.children.get(action) or self._try(state, action)
            state.tried[action] = child is not None
        return state.tried[action]

    def possible(self, state: LabState, names: Collection[str]) -> list[str]:
        """List accepted actions in order; without lists, those on some names."""
        if self.lists or self.sayings is None or state.over:
            return sorted(state.admissible)
        sayings = self.sayings.fill(self.known_names(state), names)
        return sorted(action for action in sayings if self.takes(state, action))

    def key(self, state: LabState) -> Hashable:
        """Return a state's key: its allowed actions, or the saved engine state if these must be tried and it is
        comparable."""
        return saved_key(state.snapshot.engine) if not self.lists and self.comparable else state.admissible

    def same(self, state: LabState, second: LabState) -> bool:
        """Check if two states are equal: same allowed actions and, if comparable, same saved engine state."""
        if self.key(state) != self.key(second):
            return False
        return not self.comparable or saved_key(state.snapshot.engine) == saved_key(second.snapshot.engine)

    def known_names(self, state: LabState) -> frozenset[str]:
        """Return the names usable in a state: the offered ones, or all read so far."""
        if state.names is None:
            if self.env.offered() is not None:
                state.names = frozenset(self.offered(state).names)
            else:
                before = self.known_names(state.parent) if state.parent else frozenset[str]()
                read = f"{state.opening}\n{state.observation}"
                state.names = before | frozenset(re.findall(self.name, read))
        return state.names

    def forget(self) -> None:
        """Drop the tree, because its states may be read differently from now on."""
        self._root = self._current = None
        self._clear()

    def _clear(self) -> None:
        self._tried.clear()
        self._at.clear()
        self._reached.clear()

    def after(self, state: LabState, action: str) -> LabState:
        """Return the state after an action, computed once per state.

        An answer known from the same position is reused; the step still counts.
        """
        child = state.children.get(action)
        if child is None:
            self._count_step()
            known = None if state.position is None else self._reached.get((state.position, action))
            if known is None:
                child = self._step(state, action)
            else:
                child = self._shared(known, (*state.actions, action), state, known.observation)
            state.children[action] = child
        return child

    def _count_step(self) -> None:
        """Count an engine step before it is taken. Raises `BudgetSpentError` if the budget has none left."""
        self.budget.take_step()
        self.steps += 1

    def _step(self, state: LabState, action: str) -> LabState:
        if not self._act(state, action):
            return self._end(state, action)
        child = self._state(state.task_id, (*state.actions, action), state)
        same = child.observation.strip() in self.traceless and not child.over
        self._current = state if same else child
        if state.position is not None:
            self._reached[state.position, action] = child
        return child

    def visit(self, state: LabState) -> None:
        """Bring the environment to a state."""
        if self._current is not state:
            self.env.restore(state.snapshot)
            self._current = state

    def _act(self, state: LabState, action: str) -> bool:
        """Take an action in a state; return False if the engine failed at it.

        An environment's own time limit also counts the refused actions that `visit` need not undo: if it ends the
        episode here, the state is restored, and the action taken once more.
        """
        self.visit(state)
        if not self._send(action):
            return False
        if self.env.state.truncated:
            self.env.restore(state.snapshot)
            return self._send(action)
        return True

    def _send(self, action: str) -> bool:
        try:
            self.env.step(action)
        except EngineError as error:
            self.broken.setdefault(action, str(error))
            self._current = None
            return False
        return True

    def _end(self, state: LabState, action: str) -> LabState:
        """Return the end of an episode at an action at which the engine failed."""
        way = (*state.actions, action)
        return LabState(state.task_id, way, "", True, state.snapshot, lambda _: frozenset(), state)

    def look(self, state: LabState, view: str) -> str:
        """Return the text of a read-only action in a state; "" after the end of the episode."""
        if view not in state.looks:
            if state.over:
                return ""
            self.visit(state)
            state.looks[view] = self.env.probe(view)
        return state.looks[view]

    def offered(self, state: LabState) -> ActionOptions:
        """Return the templates and names offered in a state; empty without offers or after the end."""
        if state.offers is None:
            if not state.over:
                self.visit(state)
                state.offers = self.env.offered()
            state.offers = state.offers or ActionOptions((), ())
        return state.offers

    def replay(self, trajectory: Trajectory) -> Iterator[tuple[LabState, str, LabState]]:
        """Yield the actions of an episode that the engine answered, each with the states before and after it."""
        state = self.start(trajectory.task_id)
        for step in trajectory.steps:
            if step.action is not None and step.raw_observation is not None and not state.over:
                child = self.after(state, step.action)
                yield state, step.action, child
                state = child

    def follow(self, task_id: str, actions: list[str]) -> LabState:
        """Return the state after a list of actions, or at the end of the episode."""
        state = self.start(task_id)
        for action in actions:
            state = state if state.over else self.after(state, action)
        return state

    def _try(self, state: LabState, action: str) -> LabState | None:
        """Return the state after an action; None if refused. Refusals in words are assumed to leave no trace."""
        self._count_step()
        if not self._act(state, action):
            return None
        engine = self.env.state
        shape = find_refusal(self.refusals, state.observation, action, engine.observation)
        if shape and not (engine.done or engine.truncated):
            self._current = None if shape == SAME else state
            return None
        self._current = state.children[action] = self._state(state.task_id, (*state.actions, action), state)
        return self._current

    def _all_tried(self, state: LabState) -> frozenset[str]:
        """Find the accepted ones among all possible actions in a state."""
        if self.sayings is None or state.over:
            return frozenset()
        allowed = [action for action in self.sayings.fill(self.known_names(state)) if self.takes(state, action)]
        for action in allowed:
            self.sayings.learn(action)
        return frozenset(allowed)

    def compare_saved(self, state: LabState) -> None:
        """Check if saved engine states are comparable: a refused action must restore an equal state."""
        self.comparable = False
        if not self._act(state, "?"):
            return
        after = self.env.snapshot().engine
        self.env.restore(state.snapshot)
        with suppress(TypeError):
            self.comparable = hash(saved_key(after)) == hash(saved_key(state.snapshot.engine))

    def _state(self, task_id: str, actions: tuple[str, ...], parent: LabState | None) -> LabState:
        engine = self.env.state
        position = self.env.position() if self.lists and not self.comparable else None
        if position in self._at:
            return self._shared(self._at[position], actions, parent, engine.observation)
        over, actual = engine.done or engine.truncated, frozenset(engine.admissible_actions or ())
        listed = self._all_tried if engine.admissible_actions is None else lambda _: actual
        snapshot = self.env.snapshot()
        state = LabState(task_id, actions, engine.observation, over, snapshot, listed, parent, position=position)
        if position is not None:
            self._at[position] = state
        return state

    def _shared(self, known: LabState, actions: tuple[str, ...], parent: LabState | None, observation: str) -> LabState:
        """Create a state at the position of a known one."""
        state = LabState(known.task_id, actions, observation, known.over, known.snapshot, known.listed, parent)
        state.looks, state.position = known.looks, known.position
        return state


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Run the garbage collector a hundred times less often while trees grow.

    Nearly all of their many objects stay alive; collection took a quarter of the time. This costs memory.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def saved_key(saved: Any) -> Hashable:
    """Convert a saved engine state into a hashable key, taking builtin containers apart."""
    if isinstance(saved, dict):
        return frozenset((key, saved_key(value)) for key, value in saved.items())
    if isinstance(saved, list | tuple):
        return tuple(map(saved_key, saved))
    known: Hashable = frozenset(saved) if isinstance(saved, set) else saved
    return known


# ---------------------------------------------------------------- silence, and other answers that may be refusals

MIN_SILENT = 5
"""Minimum actions answered by silence before it is examined."""

MIN_AGAIN = 3
MOST_TEXTS = 3
"""Minimum repetitions of a text, and maximum number of frequent texts in a report."""

LONGEST_TEXT = 60
"""Maximum characters of a text or action in an example."""


def answers(trajectory: Trajectory) -> Iterator[tuple[str, str, str]]:
    """Yield (action, answer, answer before) for turns with the engine, except those that end an episode."""
    before = trajectory.initial_observation
    for step in trajectory.steps:
        if step.action is not None and step.raw_observation is not None and not step.terminated:
            yield step.action, step.raw_observation, before
            before = step.raw_observation


def find_silenced(trajectories: Iterable[Trajectory]) -> list[tuple[str, str]]:
    """List (task id, action) of turns with the same answer as before."""
    return [
        (trajectory.task_id, action)
        for trajectory in trajectories
        for action, answer, before in answers(trajectory)
        if answer.strip() == before.strip()
    ]


def is_often_silent(trajectories: Sequence[Trajectory]) -> bool:
    """Check if many different actions were answered by silence."""
    return len({action for _, action in find_silenced(trajectories)}) >= MIN_SILENT


# ---------------------------------------------------------------- in words


def answers_in_words(failed: Sequence[Trajectory]) -> str:
    """Summarise answers in failed episodes: number of actions, and shares of possible refusals with examples."""
    heard = [turn for trajectory in failed for turn in answers(trajectory)]
    different = {action for action, _, _ in heard}
    counted = f"{quantity(len(heard), 'answer')} to {quantity(len(different), 'different action')}"
    looked_at = f"{quantity(len(failed), 'failed episode')} ({counted})"
    parts = [*_texts_again(heard), *_quoting(heard), *_repeating(heard)]
    if not parts:
        return f"{looked_at}; no answer was frequent"
    return f"{looked_at}. Yet {'; '.join(parts)}"


def _texts_again(heard: Sequence[tuple[str, str, str]]) -> list[str]:
    """Describe the shares of the most frequent texts, with an example action."""
    counts = Counter(answer.strip() for _, answer, _ in heard)
    texts = [text for text, count in counts.most_common(MOST_TEXTS) if count >= MIN_AGAIN]
    if not texts:
        return []
    examples = []
    for text in texts:
        actions = list(dict.fromkeys(action for action, answer, _ in heard if answer.strip() == text))
        more = f" and {len(actions) - 1} others" if len(actions) > 1 else " alone"
        examples.append(f'"{_clipped(text)}" {counts[text]} times, to `{_clipped(actions[0])}`{more}')
    which = "one text" if len(texts) == 1 else f"one of {len(texts)} texts"
    return [f"{_share(sum(counts[text] for text in texts), heard)} were {which}: {', '.join(examples)}"]


def _quoting(heard: Sequence[tuple[str, str, str]]) -> list[str]:
    """Describe the share of answers equal except for the quoted action."""
    said = [(action.strip(), answer.strip()) for action, answer, _ in heard]
    quotes = [(action, answer.replace(action, "...")) for action, answer in said if action and action in answer]
    around = Counter(frame for _, frame in {*quotes})
    frames = [(action, frame) for action, frame in quotes if around[frame] > 1 and frame != "..."]
    if not frames:
        return []
    spoken, frame = frames[0]
    return [f'{_share(len(frames), heard)} quoted the action: "{_clipped(frame)}", to `{_clipped(spoken)}` and others']


def _repeating(heard: Sequence[tuple[str, str, str]]) -> list[str]:
    """Describe the share of answers equal to the answer before."""
    actions = [action for action, answer, before in heard if answer.strip() == before.strip()]
    if len(actions) < MIN_AGAIN:
        return []
    examples = ", ".join(f"`{_clipped(action)}`" for action in list(dict.fromkeys(actions))[:MOST_TEXTS])
    return [f"{_share(len(actions), heard)} were the answer before again, so to {examples}"]


def _share(count: int, heard: Sequence[object]) -> str:
    return f"{count} of {len(heard)} answers ({100 * count / len(heard):.0f}%)"


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 3] + "..."
