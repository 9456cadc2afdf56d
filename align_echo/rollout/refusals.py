"""Decide which actions an environment refused: one judge for tables, summaries, Python and training.

The agent's actions are replayed in the plain environment. Each took effect, was refused, or is undecided (`Outcome`).
The first available source decides:

    declared    the environment has a test of its answers (`is_invalid`)
    listed      it lists acceptable actions (`admissible_actions`): an unlisted action was refused
    inferred    from effect and repetition: an answer worded like the answer to nonsense is a refusal; a gain, and words
                new in their episode, are effects

An end without a gain, an unchanged page, and repeated words decide nothing, unless the same action was answered
differently after them; if no effect was seen at all, new words decide nothing either. If an unlisted action had an
effect, the list is incomplete and decides nothing about other unlisted actions. If every answer was worded like the
answer to nonsense, nothing is decided: an environment may answer so whatever was done. The answers to all variants
judged together count for each variant.

A figure over actions is defined if the undecided ones do not change it; otherwise `AnswerShares` has bounds.

The invalid-action metric (the ALIGN paper, section 4.3): steps refused inside maximal runs of two or more, divided by
all steps, pooled over tasks. A step without an action counts as refused, a step after the end of the replayed episode
does not.

Not here: collecting answers (`answers.py`), and the probe's knowledge of refusals (`align/probe`), which metrics must
not use.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from align_echo.errors import EngineError, UsageError
from align_echo.interface.hints import met_refusal, steps_in_runs
from align_echo.intervals import Estimate, TaskKey, scored, share, task_key
from align_echo.rollout.answers import EnvReply, NonsenseRule, ask_nonsense, replayed
from align_echo.types import Frozen, Trajectory
from align_echo.wrappers.catalogue import recorded_environment
from align_echo.wrappers.environment import EnvironmentSpec

Known = Literal["declared", "listed", "inferred"]
Outcome = Literal["effect", "refused", "unknown"]

SOURCES: dict[Known | Literal[""], str] = {
    "declared": "by the environment's own test",
    "listed": "what the environment does not list as possible",
    "inferred": "inferred from effect and repetition, the environment declares no test and lists nothing",
    "": "not defined, no action came to the environment, or it declares no test, lists nothing, and no answer tells",
}
"""Sources of outcomes, in words."""


IN_MEMORY = 2**22
"""Maximum bytes of replayed episodes in memory; more go to a temporary file."""

WHY_UNKNOWN = "nothing tells which actions were refused (declare `is_invalid`, or list `admissible_actions` in `info`)"


PercentNumber = Annotated[float, Field(ge=0, le=100)]


class AnswerShares(Frozen):
    """Facts about answers whose refusals are undecided.

    `repeated` is the percent of answers with words repeated in their episode, `unchanged` of those that show the
    previous page again. The share of actions in runs of refused ones lies between `at_least` and `at_most` percent.
    """

    answers: NonNegativeInt
    repeated: PercentNumber
    unchanged: PercentNumber
    at_least: PercentNumber
    at_most: PercentNumber

    @property
    def in_words(self) -> str:
        """Description in one line."""
        return (
            f"of {self.answers:,} answers {self.repeated:.1f}% have words that come again in their episode and "
            f"{self.unchanged:.1f}% show the page before again; between {self.at_least:.1f} and {self.at_most:.1f}% of "
            "the actions are in runs of refused ones"
        )


@dataclass(frozen=True)
class EpisodeOutcomes:
    """Outcomes of an episode's steps, by the environment's answers and by the text shown to the agent.

    `known` is their source, "" if undecided.
    """

    task: TaskKey
    known: Known | Literal[""]
    answers: Sequence[EnvReply]
    outcomes: Sequence[Outcome]
    shown: Sequence[Outcome]


@dataclass
class _Runs:
    """Steps of each task in runs of refused steps: lower and upper bound."""

    at_least: Counter[TaskKey] = field(default_factory=Counter)
    at_most: Counter[TaskKey] = field(default_factory=Counter)
    unknown: int = 0

    def add(self, task: TaskKey, outcomes: Sequence[Outcome]) -> None:
        self.at_least[task] += steps_in_runs([outcome == "refused" for outcome in outcomes])
        self.at_most[task] += steps_in_runs([outcome != "effect" for outcome in outcomes])
        self.unknown += outcomes.count("unknown")

    def decided(self, known: str, turns: int) -> list[int] | None:
        """Return the steps in runs, task by task; None if they depend on undecided outcomes."""
        if not known or (turns and self.unknown == turns) or self.at_least.total() != self.at_most.total():
            return None
        return list(self.at_least.values())


class RefusalCounts:
    """Sums of the outcomes of some episodes, task by task in order of first appearance."""

    def __init__(self) -> None:
        self.known: Known | Literal[""] = ""
        self.turns = 0
        self.refused = 0
        self._answers = self._repeated = self._unchanged = 0
        self._runs, self._shown = _Runs(), _Runs()

    def add(self, episode: EpisodeOutcomes) -> None:
        """Count an episode."""
        self.known = episode.known
        self.turns += len(episode.outcomes)
        self.refused += episode.outcomes.count("refused")
        self._runs.add(episode.task, episode.outcomes)
        self._shown.add(episode.task, episode.shown)
        asked = [answer for answer in episode.answers if answer.text is not None]
        often = Counter(" ".join((answer.text or "").split()) for answer in asked)
        self._answers += len(asked)
        self._repeated += sum(number for number in often.values() if number > 1)
        self._unchanged += sum(answer.is_same_page for answer in asked)

    @property
    def is_asked(self) -> bool:
        """True if the environment was asked anything."""
        return self._answers > 0

    @property
    def in_runs(self) -> Sequence[int] | None:
        """Steps of each task in runs of refused steps; None if they depend on undecided outcomes."""
        return self._runs.decided(self.known, self.turns)

    @property
    def shown_in_runs(self) -> Sequence[int] | None:
        """Steps in such runs by the text shown to the agent."""
        return self._shown.decided(self.known, self.turns)

    @property
    def is_certain(self) -> bool:
        """True if the outcome of every step is known."""
        return bool(self.known) and not self._runs.unknown

    @property
    def shares(self) -> AnswerShares | None:
        """Facts about the answers if `in_runs` is None; None otherwise, and without an answer."""
        if not self._answers or self.in_runs is not None:
            return None
        return AnswerShares(
            answers=self._answers,
            repeated=100 * self._repeated / self._answers,
            unchanged=100 * self._unchanged / self._answers,
            at_least=100 * self._runs.at_least.total() / self.turns,
            at_most=100 * self._runs.at_most.total() / self.turns,
        )


class RefusalJudge:
    """Judges the actions of episodes in one environment.

    `measured` are tasks used in figures, besides the judged ones: no nonsense is sent in them.
    """

    def __init__(
        self, spec: EnvironmentSpec, measured: Iterable[str] = (), data_root: str | Path | None = None
    ) -> None:
        self._spec = spec
        self._measured = set(measured)
        self._data_root = data_root

    def judge(self, parts: Mapping[str, Iterable[Trajectory]]) -> dict[str, RefusalCounts]:
        """Replay the fault-free episodes of each part, and count their refused steps. Raises as `episodes`."""
        counts = {name: RefusalCounts() for name in parts}
        for name, episode in self.episodes(parts):
            counts[name].add(episode)
        return counts

    def episodes(self, parts: Mapping[str, Iterable[Trajectory]]) -> Iterator[tuple[str, EpisodeOutcomes]]:
        """Replay the fault-free episodes of each part, and yield the outcomes of their steps.

        Answers of one part count as evidence in all parts. Episodes are read once, one at a time. Raises as
        `replayed`.
        """
        heard = self._heard(parts)
        is_invalid = self._spec.is_invalid
        if is_invalid is not None:
            for name, replay in heard:
                yield (
                    name,
                    replay.judged(
                        "declared", lambda answer: "refused" if is_invalid(answer.text or "") else "effect", is_invalid
                    ),
                )
            return
        with _Spool(heard) as spool:
            known, outcome = self._inferred(spool)
            for name, replay in spool:
                yield name, replay.judged(known, outcome)

    def _heard(self, parts: Mapping[str, Iterable[Trajectory]]) -> Iterator[tuple[str, _Replay]]:
        """Yield every fault-free episode, replayed, with its part."""
        for name, played in parts.items():
            fault_free = (trajectory for trajectory in played if trajectory.fault is None)
            for trajectory, answers in replayed(self._spec, fault_free, self._data_root):
                self._measured.add(trajectory.task_id)
                yield (
                    name,
                    _Replay(
                        task_key(trajectory), answers, [(step.action, step.observation) for step in trajectory.steps]
                    ),
                )

    @cached_property
    def text_test(self) -> Callable[[str], bool] | None:
        """Test of a single answer for a refusal: as declared, or worded like the answer to nonsense.

        None if neither exists, or if the environment lists acceptable actions.
        """
        if self._spec.is_invalid is not None:
            return self._spec.is_invalid
        return None if self._nonsense.lists else self._nonsense.is_refusal

    def _inferred(self, spool: _Spool) -> tuple[Known | Literal[""], Callable[[EnvReply], Outcome]]:
        """Choose the source of outcomes for an environment without a test. Return it with a function from answer to
        outcome.
        """
        if self._spec.lists_all and (lists := _Lists.collect(spool)).are_there:
            return "listed", lambda answer: self._by_list(answer, lists)
        is_refusal = self._nonsense.is_refusal
        words = None if is_refusal is None else _Words.collect(spool, is_refusal)
        if words is None or not words.tell:
            return "", lambda answer: "effect" if answer.gained else "unknown"
        return "inferred", words.outcome

    def _by_list(self, answer: EnvReply, lists: _Lists) -> Outcome:
        """Decide by the list. A list that never changes names forms rather than possible actions: answers must confirm
        more.
        """
        if answer.gained:
            return "effect"
        if answer.is_offered:
            says_little = lists.are_fixed and (answer.is_same_page or self._is_refusal(answer))
            tells_nothing = says_little or answer.words in lists.plain
            return "unknown" if tells_nothing else "effect"
        if answer.ended and answer.words not in lists.plain:
            return "unknown"
        if not lists.gained and not (lists.changed_beside and not self._nonsense.ticks):
            return "refused"
        is_new = answer.words not in lists.plain and not self._is_refusal(answer)
        return "effect" if answer.changed and self._nonsense.ticks is False and is_new else "unknown"

    def _is_refusal(self, answer: EnvReply) -> bool:
        """Return True if an answer is worded like the answer to nonsense."""
        is_refusal = self._nonsense.is_refusal
        return is_refusal is not None and is_refusal(answer.text or "")

    @cached_property
    def _nonsense(self) -> NonsenseRule:
        return ask_nonsense(self._spec, self._measured, self._data_root)


@dataclass(frozen=True)
class _Replay:
    """An episode with the plain environment's answers. `steps` has each step's action and the text shown to the agent.
    """

    task: TaskKey
    answers: Sequence[EnvReply]
    steps: Sequence[tuple[str | None, str]]

    @property
    def asked(self) -> list[EnvReply]:
        """Answers of the environment, without steps that were not asked."""
        return [answer for answer in self.answers if answer.text is not None]

    def judged(
        self,
        known: Known | Literal[""],
        outcome: Callable[[EnvReply], Outcome],
        is_invalid: Callable[[str], bool] | None = None,
    ) -> EpisodeOutcomes:
        """Compute the outcomes. A reply without an action is refused; a step after the end is an effect."""

        def step_outcome(answer: EnvReply) -> Outcome:
            if answer.text is not None:
                return outcome(answer)
            return "refused" if answer.action is None else "effect"

        def shown_outcome(step: tuple[str | None, str], answer: EnvReply, outcome: Outcome) -> Outcome:
            action, observation = step
            if action is None:
                return "refused"
            if is_invalid is not None:
                return "refused" if is_invalid(observation) else "effect"
            is_plain = answer.text is not None and observation.strip() == answer.text.strip()
            return outcome if is_plain or outcome == "unknown" else "effect"

        outcomes = [step_outcome(answer) for answer in self.answers]
        shown_outcomes = [shown_outcome(*each) for each in zip(self.steps, self.answers, outcomes, strict=True)]
        return EpisodeOutcomes(self.task, known, self.answers, outcomes, shown_outcomes)


class _Spool:
    """Episodes stored for repeated reading, on disk if they are large."""

    def __init__(self, heard: Iterable[tuple[str, _Replay]]) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed at the end of the block
        try:
            for item in heard:
                pickle.dump(item, self._file)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[tuple[str, _Replay]]:
        end = self._file.seek(0, os.SEEK_END)
        position = 0
        while position < end:
            self._file.seek(position)
            item = pickle.load(self._file)
            position = self._file.tell()
            yield item


@dataclass
class _Lists:
    """Evidence about the lists of possible actions. `gained` and `changed_beside` concern unlisted actions.

    `plain` are the words of answers to unlisted actions that did nothing.
    """

    are_there: bool = False
    gained: bool = False
    changed_beside: bool = False
    plain: set[str] = field(default_factory=set)
    are_fixed: bool = True

    @classmethod
    def collect(cls, spool: _Spool) -> _Lists:
        """Read every answer, until one without a list."""
        lists = cls()
        first: frozenset[str] | None = None
        for _, episode in spool:
            for answer in episode.asked:
                if answer.offered is None:
                    return cls()
                first = answer.offered if first is None else first
                lists.are_there = True
                lists.are_fixed &= answer.offered == first and not answer.changed
                if not answer.is_offered:
                    lists._beside(answer)
        return lists

    def _beside(self, answer: EnvReply) -> None:
        self.gained |= answer.gained
        self.changed_beside |= answer.changed
        if not (answer.gained or answer.changed or answer.ended or answer.is_same_page):
            self.plain.add(answer.words)


@dataclass
class _Words:
    """Evidence about the wording of the answer to nonsense.

    `effective` are the shapes of answers to actions that changed something, `again` shapes repeated in an episode,
    `actions` the action behind each wording, None if there are more.
    """

    is_refusal: Callable[[str], bool]
    tell: bool = True
    vary: bool = False
    gained: bool = False
    effective: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    actions: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def collect(cls, spool: _Spool, is_refusal: Callable[[str], bool]) -> _Words:
        """Read every answer.

        `tell` is False if the answer to nonsense turns out to be no refusal, or if every answer was worded like it: an
        environment may answer so whatever an action did.
        """
        words = cls(is_refusal)
        are_heard = False
        for _, episode in spool:
            are_heard |= bool(episode.asked)
            words._add(episode)
        words.tell &= words.vary or not are_heard
        return words

    def _add(self, episode: _Replay) -> None:
        for shapes in _changes(episode.answers, self.is_refusal):
            self.tell &= bool(shapes)
            self.effective.update(shapes if len(shapes) == 1 else ())
        for answer in episode.asked:
            is_refusal = self.is_refusal(answer.text or "")
            self.vary |= not is_refusal
            self.tell &= not (answer.gained and is_refusal)
            self.gained |= answer.gained
            first = self.actions.setdefault(answer.words, answer.action)
            self.actions[answer.words] = first if first == answer.action else None
        often = Counter(answer.shape for answer in episode.asked)
        self.again.update(shape for shape, count in often.items() if count > 1)

    def outcome(self, answer: EnvReply) -> Outcome:
        """Decide the outcome of an answer."""
        if answer.gained:
            return "effect"
        if self.is_refusal(answer.text or ""):
            return "refused"
        is_own = answer.shape in self.effective and self.actions[answer.words] is not None
        tells_effects = bool(self.effective) or self.gained
        is_new = tells_effects and (answer.shape in self.effective or answer.shape not in self.again)
        return "effect" if is_new and not answer.ended and (is_own or not answer.is_same_page) else "unknown"


def _changes(episode: Sequence[EnvReply], is_refusal: Callable[[str], bool]) -> Iterator[list[str]]:
    """Yield answer shapes for each action that got a different answer the next time.

    They are the shapes since the first time, except answers to nonsense. One of those actions changed something.
    """
    last: dict[str, int] = {}
    for index, answer in enumerate(episode):
        if answer.text is None or answer.action is None:
            continue
        first = last.get(answer.action)
        last[answer.action] = index
        if first is not None and episode[first].words != answer.words:
            between = [each for each in episode[first:index] if each.text is not None]
            yield [each.shape for each in between if not is_refusal(each.text or "")]


# ---------------------------------------------------------------- while learning


@dataclass(frozen=True)
class RefusedTurns:
    """Number of refused turns in some episodes, and of those in runs of two or more; None if undecided."""

    turns: int | None = None
    in_runs: int | None = None


PlayJudge = Callable[[Sequence[Trajectory]], RefusedTurns]
"""Counts the refused turns of episodes just played in one environment."""


def play_judge(spec: EnvironmentSpec) -> PlayJudge:
    """Return a counter of refused turns.

    If the environment has a test, it uses the answers as played, and also counts turns kept from the environment by an
    interface; otherwise it works like `RefusalJudge`.
    """
    is_invalid = spec.is_invalid

    def count(played: Sequence[Trajectory]) -> RefusedTurns:
        if is_invalid is not None:
            flags = [met_refusal(trajectory, is_invalid) for trajectory in played]
            return RefusedTurns(sum(map(sum, flags)), sum(map(steps_in_runs, flags)))
        judge = RefusalJudge(spec, [trajectory.task_id for trajectory in played])
        try:
            refusals = judge.judge({"": played})[""]
        except EngineError:
            return RefusedTurns()
        in_runs = refusals.in_runs
        return RefusedTurns(
            refusals.refused if refusals.is_certain else None, None if in_runs is None else sum(in_runs)
        )

    return count


# ---------------------------------------------------------------- ALIGN's metric


def pooled_percent(counts: Sequence[float], sizes: Sequence[float], *, seed: int = 0) -> Estimate | None:
    """Pool counts over sizes of all tasks, in percent, with an interval over tasks; None without a turn."""
    pooled = share(counts, sizes, seed=seed)
    return None if pooled is None else pooled.scaled(100)


def consecutive_invalid_share(trajectories: Sequence[Trajectory], *, data_root: str | Path | None = None) -> float:
    """Compute ALIGN's metric: percent (0 to 100) of the agent's actions inside runs of two or more consecutive invalid
    ones.

    The actions are replayed in the plain environment named by the trajectories, without their interface (see the
    module's docstring). `data_root` is their data folder, if not the default. Trajectories with a fault are left out.
    Raises `UsageError` for an unknown environment, split or task, for a `module:Name` not yet registered, and if the
    metric is undefined: without a turn, or if refused actions are unknown.
    """
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in scored(trajectories):
        if trajectory.steps:
            groups.setdefault(trajectory.environment, []).append(trajectory)
    in_runs = turns = 0
    for name, played in groups.items():
        spec = recorded_environment(name, "a trajectory", "name it first: align_echo.make(NAME)")
        judge = RefusalJudge(spec, [trajectory_of_name.task_id for trajectory_of_name in played], data_root)
        refusals = judge.judge({name: played})[name]
        if refusals.in_runs is None:
            known = f"; {refusals.shares.in_words}" if refusals.shares else ""
            raise UsageError(f"the metric is not defined in {name}: {WHY_UNKNOWN}{known}")
        in_runs, turns = in_runs + sum(refusals.in_runs), turns + refusals.turns
    if not turns:
        raise UsageError("the metric is not defined: no turn was played in an episode that ended without a fault")
    return 100 * in_runs / turns
