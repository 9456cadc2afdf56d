"""Experiments on a forkable environment: what does the engine say and allow after these actions from the start?

States form a tree per task, each visited once; the engine's steps are counted. The lab plays the raw environment: it
never sees an interface and never looks at rewards or at the oracle.
"""

from __future__ import annotations

import gc
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

from align_echo.align.probe import runtime
from align_echo.align.probe.names import NUMBERED, Sayings
from align_echo.types import Trajectory
from align_echo.workers.remote import ForkPool, usable_cores
from align_echo.wrappers.text_env import ActionOptions, Snapshot, TextEnv

Answer = TypeVar("Answer")


@dataclass(eq=False)
class LabState:
    """One state of one task: the actions that lead to it, what the engine said last, and what it allows next.

    `admissible` is what the engine lists, or what it takes of all that can be said (`Lab.listed`), found out when it is
    asked for. `position` is the environment's, where states at one position share what is known of them. `tried` keeps
    what was tried, `so` which refused actions are in effect. `looks` keeps what read-only actions showed, `offers` what
    the engine offered; `opening` is, for an initial state, the text that an interface is given of it.
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
    history: dict[str, Any] | None = field(default=None, repr=False)
    looks: dict[str, str] = field(default_factory=dict, repr=False)
    offers: ActionOptions | None = field(default=None, repr=False)
    opening: str = field(default="", repr=False)
    tried: dict[str, bool] | None = field(default=None, repr=False)
    names: frozenset[str] | None = field(default=None, repr=False)
    so: dict[str, bool] | None = field(default=None, repr=False)
    read: tuple[dict[str, Any], dict[Hashable, Any]] | None = field(default=None, repr=False)

    def read_by(self, spec: dict[str, Any]) -> dict[Hashable, Any]:
        """What was found out here by a spec, to be added to; of the latest spec only."""
        if self.read is None or self.read[0] is not spec:
            self.read = (spec, {})
        return self.read[1]

    @cached_property
    def admissible(self) -> frozenset[str]:
        """The actions that the engine would take here."""
        return self.listed(self)


class Lab:
    """Forks an environment. One task's tree is kept at a time; `steps` counts the engine's work.

    `traceless` holds answers after which the engine is as it was before, unless they end the episode: nothing has to be
    restored then. `name` finds names in what the engine lists (`names.py`), `refusals` are the shapes of refusals.
    `sayings` is what can be said where the engine lists nothing; without it nothing is allowed there. `comparable` is
    whether the engine's saved states can be compared by value (`compare_saved`), `lists` whether the engine lists its
    admissible actions, known once a task was started.
    """

    def __init__(self, env: TextEnv, processes: int = 1) -> None:
        self.env = env
        self._processes = processes
        self.steps = 0
        self.name = NUMBERED
        self.refusals: list[str] = []
        self.sayings: Sayings | None = None
        self.comparable = False
        self.lists = False
        self.traceless: frozenset[str] = frozenset()
        self._tried: dict[Hashable, dict[str, bool]] = {}
        self._at: dict[Hashable, LabState] = {}
        self._reached: dict[tuple[Hashable, str], LabState] = {}
        self._root: LabState | None = None
        self._current: LabState | None = None

    @property
    def copies(self) -> int:
        """So many copies of this process may test rules at once; 1 for none. Where actions have to be tried, what was
        taken in one task tells what is tried in the next."""
        return min(self._processes, usable_cores()) if self.lists and self.env.in_memory else 1

    def share_out(self, works: Iterable[Callable[[], Answer]], count: int) -> list[Answer]:
        """What `count` pieces of work come to, in order, each in the trees of other tasks. They are drawn here one
        after another, and all but the last are done meanwhile in copies of this process, where there may be any.

        What the laboratory holds afterwards and the steps that it counts are the same with and without copies.
        """
        answers: list[Answer] = []
        with ForkPool[tuple[Answer, int]](self.copies) as elsewhere:
            for number, work in enumerate(works, 1):
                if self.copies > 1 and number < count:
                    elsewhere.give(partial(self._with_steps, work))
                else:
                    elsewhere.keep(self._with_steps(work))
            for (answer, steps), in_copy in elsewhere.answers():
                self.steps += steps if in_copy else 0
                answers.append(answer)
        return answers

    def _with_steps(self, work: Callable[[], Answer]) -> tuple[Answer, int]:
        before = self.steps
        return work(), self.steps - before

    def start(self, task_id: str) -> LabState:
        """The initial state of a task."""
        if self._root is None or self._root.task_id != task_id:
            self.env.reset(seed=0, options={"task": task_id})
            self.lists = self.env.state.admissible_actions is not None
            self._clear()
            self._root = self._current = self._state(task_id, (), None)
            self._root.opening = "\n".join(self.env.opening(self._root.observation))
        return self._root

    def refused(self, state: LabState, action: str, answer: str) -> bool:
        """Whether an answer to an action in a state says that it was refused: what is listed is not."""
        return bool(runtime.refusal(self.refusals, state.observation, action, answer)) and not (
            self.lists and action in state.admissible
        )

    def takes(self, state: LabState, action: str) -> bool:
        """Whether the engine takes an action in a state: it lists it, or does not refuse it when it is tried."""
        if self.lists:
            return action in state.admissible
        if state.over:
            return False
        tried = state.tried = self._tried_in(state) if state.tried is None else state.tried
        if action not in tried:
            child = state.children.get(action) or self._try(state, action)
            tried[action] = child is not None
        return tried[action]

    def possible(self, state: LabState, names: Collection[str]) -> list[str]:
        """The actions that the engine would take here, in order; where they have to be tried, those on some names."""
        if self.lists or self.sayings is None or state.over:
            return sorted(state.admissible)
        sayings = self.sayings.fill(self.known_names(state), names)
        return sorted(action for action in sayings if self.takes(state, action))

    def key(self, state: LabState) -> Hashable:
        """What tells states apart: what they allow. Where that has to be tried and the engine's saved states can be
        compared by value, these."""
        return saved_key(state.snapshot.engine) if not self.lists and self.comparable else state.admissible

    def same(self, state: LabState, other: LabState) -> bool:
        """Whether two states are one to the engine: they allow the same, and what it saves of them is equal where that
        can be compared."""
        if self.key(state) != self.key(other):
            return False
        return not self.comparable or saved_key(state.snapshot.engine) == saved_key(other.snapshot.engine)

    def known_names(self, state: LabState) -> frozenset[str]:
        """The names that can be spoken of in a state: those that are offered, or all that were read so far."""
        if state.names is None:
            if self.env.offered() is not None:
                state.names = frozenset(self.offered(state).names)
            else:
                before = self.known_names(state.parent) if state.parent else frozenset[str]()
                read = f"{state.opening}\n{state.observation}"
                state.names = before | frozenset(re.findall(self.name, read))
        return state.names

    def forget(self) -> None:
        """Drop the tree: what is known of its states may be read in another way from now on."""
        self._root = self._current = None
        self._clear()

    def _clear(self) -> None:
        self._tried.clear()
        self._at.clear()
        self._reached.clear()

    def after(self, state: LabState, action: str) -> LabState:
        """The state that an action leads to; the same state's child is computed once. What the engine answered at this
        position before, it is not asked again; the step is counted."""
        child = state.children.get(action)
        if child is None:
            self.steps += 1
            known = None if state.position is None else self._reached.get((state.position, action))
            if known is None:
                child = self._step(state, action)
            else:
                child = self._shared(known, (*state.actions, action), state, known.observation)
            state.children[action] = child
        return child

    def _step(self, state: LabState, action: str) -> LabState:
        self.visit(state)
        self.env.step(action)
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

    def look(self, state: LabState, view: str) -> str:
        """What a read-only action shows in a state. Once an episode is over nothing is asked any more: ""."""
        if view not in state.looks:
            if state.over:
                return ""
            self.visit(state)
            state.looks[view] = self.env.probe(view)
        return state.looks[view]

    def offered(self, state: LabState) -> ActionOptions:
        """The templates and names that the engine offers in a state; none where it offers nothing or all is over."""
        if state.offers is None:
            if not state.over:
                self.visit(state)
                state.offers = self.env.offered()
            state.offers = state.offers or ActionOptions((), ())
        return state.offers

    def follow(self, task_id: str, actions: list[str]) -> LabState:
        """The state after a list of actions, or where the episode ended on the way."""
        state = self.start(task_id)
        for action in actions:
            if state.over:
                break
            state = self.after(state, action)
        return state

    def _tried_in(self, state: LabState) -> dict[str, bool]:
        """What was tried in a state. States that are equal to the engine share it, unless refusals are silent: silence
        is told by the text before it, which may differ."""
        shared = self.comparable and runtime.SAME not in self.refusals
        return self._tried.setdefault(self.key(state), {}) if shared else {}

    def _try(self, state: LabState, action: str) -> LabState | None:
        """The state after an action; None if it was refused. A refusal in words is taken to leave no trace."""
        self.visit(state)
        self.env.step(action)
        self.steps += 1
        engine = self.env.state
        shape = runtime.refusal(self.refusals, state.observation, action, engine.observation)
        if shape and not engine.done:
            self._current = None if shape == runtime.SAME else state
            return None
        self._current = state.children[action] = self._state(state.task_id, (*state.actions, action), state)
        return self._current

    def _all_tried(self, state: LabState) -> frozenset[str]:
        """What the engine takes of all that can be said in a state."""
        if self.sayings is None or state.over:
            return frozenset()
        allowed = [action for action in self.sayings.fill(self.known_names(state)) if self.takes(state, action)]
        for action in allowed:
            self.sayings.learn(action)
        return frozenset(allowed)

    def compare_saved(self, state: LabState) -> None:
        """Find out whether saved states of the engine can be compared: one is as before after a refused action."""
        self.visit(state)
        self.env.step("?")
        after = self.env.snapshot().engine
        self.env.restore(state.snapshot)
        try:
            self.comparable = hash(saved_key(after)) == hash(saved_key(state.snapshot.engine))
        except TypeError:
            self.comparable = False

    def _state(self, task_id: str, actions: tuple[str, ...], parent: LabState | None) -> LabState:
        engine = self.env.state
        position = self.env.position() if self.lists and not self.comparable else None
        if position in self._at:
            return self._shared(self._at[position], actions, parent, engine.observation)
        listed = frozenset(engine.admissible_actions or ())
        state = LabState(
            task_id=task_id,
            actions=actions,
            observation=engine.observation,
            over=engine.done,
            listed=self._all_tried if engine.admissible_actions is None else lambda _: listed,
            snapshot=self.env.snapshot(),
            parent=parent,
            position=position,
        )
        if position is not None:
            self._at[position] = state
        return state

    def _shared(self, known: LabState, actions: tuple[str, ...], parent: LabState | None, observation: str) -> LabState:
        """A state at the position of one that is known."""
        return LabState(
            task_id=known.task_id,
            actions=actions,
            observation=observation,
            over=known.over,
            listed=known.listed,
            snapshot=known.snapshot,
            parent=parent,
            looks=known.looks,
            position=known.position,
        )


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Let Python look for cycles a hundred times less often while trees are grown: there are very many objects, nearly
    all are alive, and going through them took a quarter of the time. More memory is held in between."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def saved_key(saved: Any) -> Hashable:
    """A saved state of an engine as something that can be looked up; builtin containers are taken apart."""
    if isinstance(saved, dict):
        return frozenset((key, saved_key(value)) for key, value in saved.items())
    if isinstance(saved, set):
        return frozenset(saved)
    if isinstance(saved, list | tuple):
        return tuple(saved_key(value) for value in saved)
    known: Hashable = saved
    return known


# ---------------------------------------------------------------- silence, and other answers that may be refusals

MIN_SILENT = 5
"""So many different actions must have been answered by silence before it is looked into."""

MIN_AGAIN = 3
MOST_TEXTS = 3
"""A text came again and again if it came so often; the most frequent few are told."""

LONGEST_TEXT = 60
"""Characters of a text or an action that is shown as an example."""


def answers(trajectory: Trajectory) -> Iterator[tuple[str, str, str]]:
    """(action, the engine's answer, its answer before) of each turn on which the engine was asked. What ends an episode
    refuses nothing and is left out."""
    before = trajectory.initial_observation
    for step in trajectory.steps:
        if step.action is not None and step.raw_observation is not None and not step.terminated:
            yield step.action, step.raw_observation, before
            before = step.raw_observation


def silenced(trajectories: Iterable[Trajectory]) -> list[tuple[str, str]]:
    """(task id, action) of the turns after which the engine showed what it had shown before."""
    return [
        (trajectory.task_id, action)
        for trajectory in trajectories
        for action, answer, before in answers(trajectory)
        if answer.strip() == before.strip()
    ]


def is_often_silent(trajectories: Sequence[Trajectory]) -> bool:
    """Whether many different actions were answered by silence."""
    return len({action for _, action in silenced(trajectories)}) >= MIN_SILENT


# ---------------------------------------------------------------- in words


def answers_in_words(failed: Sequence[Trajectory]) -> str:
    """What was heard in failed episodes: how much was said, and the shares of answers that may have been refusals, with
    examples of each."""
    heard = [turn for trajectory in failed for turn in answers(trajectory)]
    different = {action for action, _, _ in heard}
    looked_at = f"{len(failed)} failed episodes ({len(heard)} answers to {len(different)} different actions)"
    parts = [*_texts_again(heard), *_quoting(heard), *_repeating(heard)]
    if not parts:
        return f"{looked_at}, of which no answer came again and again"
    return f"{looked_at}. Yet {'; '.join(parts)}"


def _texts_again(heard: Sequence[tuple[str, str, str]]) -> list[str]:
    """The share of the most frequent texts, with the first action that each answered."""
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
    """The share of answers that are alike but for the action that they quote."""
    around: dict[str, set[str]] = defaultdict(set)
    quotes = []
    for action, answer, _ in heard:
        said = action.strip()
        if said and said in answer:
            frame = answer.strip().replace(said, "...")
            around[frame].add(said)
            quotes.append((said, frame))
    alike = [(said, frame) for said, frame in quotes if len(around[frame]) > 1 and frame != "..."]
    if not alike:
        return []
    said, frame = alike[0]
    return [f'{_share(len(alike), heard)} quoted the action: "{_clipped(frame)}", to `{_clipped(said)}` and others']


def _repeating(heard: Sequence[tuple[str, str, str]]) -> list[str]:
    """The share of answers that were the answer before again."""
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
