"""Which actions an environment refused, and how that is known: one judge for tables, summaries, Python and training.

The agent's own actions are replayed in the plain environment. Each of them took effect, was refused, or nothing tells
(`Outcome`). How that is known is the first of these that there is:

    declared    the environment has a test of its answers (`is_invalid`)
    listed      it lists what it would accept (`admissible_actions`): an action beside the list was refused
    inferred    from effect and repetition: an answer in the words that nonsense gets is a refusal; a gain, and words
                that are new in their episode, are effects

An end without a gain, the same page again, and words that come again in an episode tell nothing, but where the same
action was answered otherwise after such words; where no effect was seen at all, new words tell nothing either. Where an
action beside a list had an effect, the list is not all that is accepted, and tells nothing of other actions beside it.
A figure over actions is defined where those of which nothing tells make no difference to it; else `AnswerShares` has
what can be said.

Left out: how answers come in (`answers.py`), and what the probe learns of refusals (`align/probe`), which no metric may
look at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from align_echo.answers import Answer, Nonsense, ask_nonsense, replayed
from align_echo.errors import EngineError
from align_echo.invalid import met_refusal, steps_in_runs
from align_echo.types import Frozen, Trajectory
from align_echo.wrappers.environment import EnvironmentSpec

Known = Literal["declared", "listed", "inferred"]
Outcome = Literal["effect", "refused", "unknown"]
Flags = Sequence[Sequence[bool]]

SOURCES: dict[Known | Literal[""], str] = {
    "declared": "by the environment's own test",
    "listed": "what the environment does not list as possible",
    "inferred": "inferred from effect and repetition, the environment declares no test and lists nothing",
    "": "not defined, the environment declares no test, lists nothing, and nothing that it answers tells",
}
"""How it is known what a refused action is, in words."""


WHY_UNKNOWN = "nothing tells which actions were refused (declare `is_invalid`, or list `admissible_actions` in `info`)"


PercentNumber = Annotated[float, Field(ge=0, le=100)]


class AnswerShares(Frozen):
    """What can be said of answers where nothing tells which of them are refusals: `repeated` is the percent of them
    whose words come more than once in their episode, `unchanged` of those that show the page before again. The share of
    actions in runs of refused ones lies between `at_least` and `at_most` percent.
    """

    answers: NonNegativeInt
    repeated: PercentNumber
    unchanged: PercentNumber
    at_least: PercentNumber
    at_most: PercentNumber

    @property
    def in_words(self) -> str:
        """The same in one line."""
        return (
            f"of {self.answers:,} answers {self.repeated:.1f}% have words that come again in their episode and "
            f"{self.unchanged:.1f}% show the page before again; between {self.at_least:.1f} and {self.at_most:.1f}% of "
            "the actions are in runs of refused ones"
        )


@dataclass(frozen=True)
class ActionOutcomes:
    """Outcomes of the steps of some episodes, by what the environment answered and by what the agent was shown, in
    order; how they are known, "" where nothing tells.
    """

    known: Known | Literal[""]
    answers: Sequence[Sequence[Answer]]
    outcomes: Sequence[Sequence[Outcome]]
    shown: Sequence[Sequence[Outcome]]

    @property
    def is_asked(self) -> bool:
        """Whether the environment was asked anything."""
        return any(answer.text is not None for episode in self.answers for answer in episode)

    @property
    def refused(self) -> Flags | None:
        """Per step, whether it was refused; None where the steps in runs depend on what nothing tells."""
        return self._decided(self.outcomes)

    @property
    def shown_refused(self) -> Flags | None:
        """The same, of what the agent was shown."""
        return self._decided(self.shown)

    @property
    def is_certain(self) -> bool:
        """Whether the outcome of every step is known."""
        return bool(self.known) and not any("unknown" in episode for episode in self.outcomes)

    def _decided(self, outcomes: Sequence[Sequence[Outcome]]) -> Flags | None:
        told = {outcome for episode in outcomes for outcome in episode}
        if not self.known or told == {"unknown"}:
            return None
        if _in_runs(outcomes, ("refused",)) != _in_runs(outcomes, ("refused", "unknown")):
            return None
        return [[outcome == "refused" for outcome in episode] for episode in outcomes]

    @property
    def shares(self) -> AnswerShares | None:
        """What can be said where `refused` is None; None where that is not, and without an answer."""
        asked = [[answer for answer in episode if answer.text is not None] for episode in self.answers]
        count = sum(map(len, asked))
        if not count or self.refused is not None:
            return None
        often = [Counter(" ".join((answer.text or "").split()) for answer in episode) for episode in asked]
        steps = sum(map(len, self.outcomes))
        return AnswerShares(
            answers=count,
            repeated=100 * sum(number for texts in often for number in texts.values() if number > 1) / count,
            unchanged=100 * sum(answer.is_same_page for episode in asked for answer in episode) / count,
            at_least=100 * _in_runs(self.outcomes, ("refused",)) / steps,
            at_most=100 * _in_runs(self.outcomes, ("refused", "unknown")) / steps,
        )


class RefusalJudge:
    """Judges the actions of episodes in one environment. `measured` are the tasks that figures are made of."""

    def __init__(
        self, spec: EnvironmentSpec, measured: Iterable[str] = (), data_root: str | Path | None = None
    ) -> None:
        self._spec = spec
        self._measured = frozenset(measured)
        self._data_root = data_root

    def judge(self, trajectories: Sequence[Trajectory]) -> ActionOutcomes:
        """Replay the episodes and tell the outcome of every step. Raises as `replayed`."""
        answers = replayed(self._spec, trajectories, self._data_root)
        known, outcomes = self._outcomes(answers)
        is_invalid = self._spec.is_invalid
        shown: list[list[Outcome]] = []
        for trajectory, heard, judged in zip(trajectories, answers, outcomes, strict=True):
            shown.append([])
            for step, answer, outcome in zip(trajectory.steps, heard, judged, strict=True):
                if step.action is None:
                    shown[-1].append("refused")
                elif is_invalid is not None:
                    shown[-1].append("refused" if is_invalid(step.observation) else "effect")
                else:
                    is_plain = answer.text is not None and step.observation.strip() == answer.text.strip()
                    shown[-1].append(outcome if is_plain else "effect")
        return ActionOutcomes(known, answers, outcomes, shown)

    @cached_property
    def text_test(self) -> Callable[[str], bool] | None:
        """Whether an answer by itself is a refusal: as declared, or in the words that nonsense gets; None where neither
        tells, and where the environment lists what it would accept.
        """
        if self._spec.is_invalid is not None:
            return self._spec.is_invalid
        return None if self._nonsense.lists else self._nonsense.is_refusal

    def _outcomes(
        self, answers: Sequence[Sequence[Answer]]
    ) -> tuple[Known | Literal[""], Sequence[Sequence[Outcome]]]:
        asked = [answer for episode in answers for answer in episode if answer.text is not None]
        is_invalid = self._spec.is_invalid
        if is_invalid is not None:
            return "declared", _each(
                answers, lambda answer: "refused" if is_invalid(answer.text or "") else "effect"
            )
        if asked and self._spec.lists_all and all(answer.offered is not None for answer in asked):
            return "listed", self._by_list(answers, asked)
        is_refusal = self._nonsense.is_refusal
        inferred = None if is_refusal is None else _by_effect(answers, is_refusal)
        if inferred is None:
            return "", _each(answers, lambda answer: "effect" if answer.gained else "unknown")
        return "inferred", inferred

    def _by_list(
        self, answers: Sequence[Sequence[Answer]], asked: Sequence[Answer]
    ) -> Sequence[Sequence[Outcome]]:
        """A list that is the same in every state names forms, and not what is possible: of what it offers, the answers
        have to tell more.
        """
        beside = [answer for answer in asked if not answer.is_offered]
        has_effects = any(answer.gained or (answer.changed and not self._nonsense.ticks) for answer in beside)
        plain = {
            answer.words
            for answer in beside
            if not (answer.gained or answer.changed or answer.ended or answer.is_same_page)
        }
        is_fixed = len({answer.offered for answer in asked}) == 1 and not any(answer.changed for answer in asked)

        def outcome(answer: Answer) -> Outcome:
            if answer.gained:
                return "effect"
            if answer.is_offered:
                says_little = is_fixed and (answer.is_same_page or self._is_refusal(answer))
                tells_nothing = says_little or answer.words in plain
                return "unknown" if tells_nothing else "effect"
            if answer.ended and answer.words not in plain:
                return "unknown"
            if not has_effects:
                return "refused"
            is_new = answer.words not in plain and not self._is_refusal(answer)
            return "effect" if answer.changed and self._nonsense.ticks is False and is_new else "unknown"

        return _each(answers, outcome)

    def _is_refusal(self, answer: Answer) -> bool:
        """Whether an answer is in the words that nonsense gets."""
        is_refusal = self._nonsense.is_refusal
        return is_refusal is not None and is_refusal(answer.text or "")

    @cached_property
    def _nonsense(self) -> Nonsense:
        return ask_nonsense(self._spec, self._measured, self._data_root)


def _each(answers: Sequence[Sequence[Answer]], outcome: Callable[[Answer], Outcome]) -> list[list[Outcome]]:
    """Outcomes of steps, where a reply without an action counts as refused, and one after the end as an effect."""

    def of_step(answer: Answer) -> Outcome:
        if answer.text is not None:
            return outcome(answer)
        return "refused" if answer.action is None else "effect"

    return [[of_step(answer) for answer in episode] for episode in answers]


def _by_effect(
    answers: Sequence[Sequence[Answer]], is_refusal: Callable[[str], bool]
) -> list[list[Outcome]] | None:
    """The outcomes of steps; None where the words that nonsense gets turn out to be no refusal."""
    every = [answer for episode in answers for answer in episode if answer.text is not None]
    changes = [shapes for episode in answers for shapes in _changes(episode, is_refusal)]
    if not all(changes) or any(answer.gained and is_refusal(answer.text or "") for answer in every):
        return None
    effective = {shapes[0] for shapes in changes if len(shapes) == 1}
    tells_effects = bool(effective) or any(answer.gained for answer in every)
    by_episode = [Counter(answer.shape for answer in episode if answer.text is not None) for episode in answers]
    again = {shape for shapes in by_episode for shape, count in shapes.items() if count > 1}
    actions: dict[str, set[str | None]] = defaultdict(set)
    for answer in every:
        actions[answer.words].add(answer.action)

    def outcome(answer: Answer) -> Outcome:
        if answer.gained:
            return "effect"
        if is_refusal(answer.text or ""):
            return "refused"
        is_own = answer.shape in effective and len(actions[answer.words]) == 1
        is_new = tells_effects and (answer.shape in effective or answer.shape not in again)
        return "effect" if is_new and not answer.ended and (is_own or not answer.is_same_page) else "unknown"

    return _each(answers, outcome)


def _changes(episode: Sequence[Answer], is_refusal: Callable[[str], bool]) -> Iterator[list[str]]:
    """For each action that was answered otherwise the next time that it was said: the shapes of the answers from the
    first time on that are not in the words that nonsense gets. One of those actions changed something.
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


def _in_runs(outcomes: Sequence[Sequence[Outcome]], counted: Sequence[Outcome]) -> int:
    return sum(steps_in_runs([outcome in counted for outcome in episode]) for episode in outcomes)


# ---------------------------------------------------------------- while learning


@dataclass(frozen=True)
class Refused:
    """How many turns of some episodes were refused, and how many of those stand in rows of two or more; None where
    nothing tells.
    """

    turns: int | None = None
    in_runs: int | None = None


PlayJudge = Callable[[Sequence[Trajectory]], Refused]
"""Tells the refused turns of episodes that have just been played, in one environment."""


def play_judge(spec: EnvironmentSpec) -> PlayJudge:
    """Return what counts refused turns: by the answers as they were played where the environment has a test, and then a
    turn that an interface kept from it counts too; else as `RefusalJudge` does.
    """
    is_invalid = spec.is_invalid

    def count(played: Sequence[Trajectory]) -> Refused:
        if is_invalid is not None:
            flags: Flags = [met_refusal(trajectory, is_invalid) for trajectory in played]
            return Refused(sum(map(sum, flags)), sum(map(steps_in_runs, flags)))
        judge = RefusalJudge(spec, [trajectory.task_id for trajectory in played])
        try:
            judged = judge.judge(played)
        except EngineError:
            return Refused()
        certain = sum(episode.count("refused") for episode in judged.outcomes) if judged.is_certain else None
        in_rows = None if judged.refused is None else sum(map(steps_in_runs, judged.refused))
        return Refused(certain, in_rows)

    return count
