"""Score predicted actions on a step dataset: Type, grounding and step success, and best-of-N selection.

Predictions are a file beside the dataset, one line per step with an agent's proposed texts. A text that is no action
counts as wrong. A critic on screens learns from the same file: each distinct action, right if it succeeds by GAIA's
matching rules (`wrappers/gui/steps.py`; paper 3, sections 3.2 and 4.1). Not here: the critic itself
(`gui/vision.py`), and sampling candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from align_echo.base.dice import Dice
from align_echo.base.files import write_atomically
from align_echo.critic.ask import ActionQuestion, Label, Verdict
from align_echo.critic.best_of import RULES
from align_echo.critic.calibration import CriticReport, LabelledVerdict, report
from align_echo.critic.language import clipped, one_line
from align_echo.errors import ReplyFormatError, UsageError
from align_echo.gaia.trial import CEILING, compared_rules, pick_candidate
from align_echo.intervals import Estimate, Floats, bootstrap, clustered_rate
from align_echo.prompts import render
from align_echo.types import Frozen, Message
from align_echo.wrappers.gui.actions import GuiAction, Point, action_type, parse, target_point, write
from align_echo.wrappers.gui.steps import GuiStep, hits, is_grounded, records, right_type, succeeds, type_matches

if TYPE_CHECKING:
    from PIL.Image import Image

PREDICTIONS = "predictions.jsonl"
"""File name in the folder of a dataset."""


class StepPrediction(Frozen):
    """An agent's proposals in a step, in the order drawn: texts of any form."""

    step: str
    candidates: tuple[str, ...]
    agent: str = ""


class ProposedStep:
    """A step and its candidates. `actions` are the parsed candidates, None for a text that is no action."""

    def __init__(self, step: GuiStep, prediction: StepPrediction) -> None:
        self.step, self.agent = step, prediction.agent
        self.actions = tuple(_parsed(text) for text in prediction.candidates)

    @cached_property
    def texts(self) -> tuple[str | None, ...]:
        """Canonical texts of the actions, equal for equal actions."""
        return tuple(None if action is None else write(action) for action in self.actions)

    @cached_property
    def labels(self) -> dict[str, Label]:
        """Verdict for each distinct action."""
        by_action: dict[str, Label] = {}
        for text, action in zip(self.texts, self.actions, strict=True):
            if text is not None and action is not None:
                by_action[text] = "correct" if succeeds(action, self.step) else "wrong"
        return by_action


class ActionAccuracy(Frozen):
    """Percent of steps in which the selected action has the right type, hits, and succeeds; intervals are over
    episodes.

    As in OS-Atlas, `grounding` is over steps whose right action is a click or long press and whose selected action has
    that type; None if there are none.
    """

    type: Estimate
    grounding: Estimate | None
    success: Estimate


class RuleAccuracy(ActionAccuracy):
    """Accuracy of a `rule` that selects among the first `candidates`. `gain` is in success over the first candidate,
    in points.
    """

    rule: str
    candidates: int
    gain: Estimate


class ScreenTrialResult(Frozen):
    """Result of predictions on a step dataset.

    `unparsed` of all `candidates` are no actions. `first` is the agent with one draw. `critic` is the report on all
    distinct actions, None without a critic. `curve` has every rule at every number of candidates available in all
    steps.
    """

    steps: int
    episodes: int
    candidates: int
    unparsed: int
    right_types: dict[str, int]
    first: ActionAccuracy
    critic: CriticReport | None
    curve: tuple[RuleAccuracy, ...]


# ---------------------------------------------------------------- predictions


def read_predictions(file: Path, steps: Sequence[GuiStep], *, every: bool = True) -> list[ProposedStep]:
    """Read a file of predictions with their steps, in the order of `steps`.

    Raises `MissingDataError` if there is none; `UsageError` with file and line for an invalid line, an unknown step or
    a repeated step; and, with `every`, `UsageError` if a step has no prediction.
    """
    known = {step.id: step for step in steps}
    proposed: dict[str, ProposedStep] = {}
    for number, prediction in records(file, StepPrediction):
        if prediction.step not in known:
            raise UsageError(f"{file} line {number}: the dataset has no step {prediction.step!r}")
        if prediction.step in proposed:
            raise UsageError(
                f"{file} line {number}: the step {prediction.step!r} came before: put all candidates in one line"
            )
        if not prediction.candidates:
            raise UsageError(f"{file} line {number}: the step {prediction.step!r} has no candidate")
        proposed[prediction.step] = ProposedStep(known[prediction.step], prediction)
    missing = [name for name in known if name not in proposed]
    if every and missing:
        raise UsageError(f"{file} lacks {len(missing)} of {len(known)} steps, such as {missing[0]!r}")
    return [proposed[name] for name in known if name in proposed]


def write_predictions(predictions: Sequence[StepPrediction], file: Path) -> Path:
    """Write the file read by `read_predictions`, atomically."""
    return write_atomically(file, "".join(prediction.model_dump_json() + "\n" for prediction in predictions))


def _parsed(text: str) -> GuiAction | None:
    try:
        return parse(text)
    except ReplyFormatError:
        return None


# ---------------------------------------------------------------- the trial


def screen_trial(
    proposed: Sequence[ProposedStep],
    verdicts: Sequence[Mapping[str, Verdict]] | None = None,
    *,
    picks: Sequence[str] = (),
    temperature: float = 1.0,
    most: int | None = None,
    seed: int = 0,
) -> ScreenTrialResult:
    """Compute all figures, with at most `most` candidates per step; `verdicts` are a critic's, by step and action.
    `picks` are rules of selection to compare beside those of the registry.

    Raises `UsageError` if there is no step, or `most` is below 1.
    """
    if not proposed or (most is not None and most < 1):
        raise UsageError("a trial needs at least one step and one candidate")
    return ScreenTrialResult(
        steps=len(proposed),
        episodes=len({proposal.step.episode for proposal in proposed}),
        candidates=sum(len(proposal.actions) for proposal in proposed),
        unparsed=sum(proposal.actions.count(None) for proposal in proposed),
        right_types=dict(sorted(Counter(right_type(proposal.step) for proposal in proposed).items())),
        first=matched(proposed, [proposal.actions[0] for proposal in proposed]),
        critic=None if verdicts is None else report(label_verdicts(proposed, verdicts), temperature, seed=seed),
        curve=tuple(curve(proposed, verdicts, picks=picks, temperature=temperature, most=most, seed=seed)),
    )


def curve(
    proposed: Sequence[ProposedStep],
    verdicts: Sequence[Mapping[str, Verdict]] | None = None,
    *,
    picks: Sequence[str] = (),
    temperature: float = 1.0,
    most: int | None = None,
    seed: int = 0,
) -> list[RuleAccuracy]:
    """Score every rule at every number of candidates available in all steps, up to `most`.

    Predictions have no log-probabilities: rules that need some take no part. `CEILING` takes the first that succeeds.
    """
    first = [proposal.actions[0] for proposal in proposed]
    fewest = min(len(proposal.actions) for proposal in proposed)
    rules = [
        name
        for name in compared_rules(picks)
        if not (rule := RULES.get(name)).needs_logprobs and (verdicts is not None or not rule.needs_judge)
    ]
    verdicts = verdicts or [{}] * len(proposed)
    successes = []
    for n in range(1, min(fewest, most or fewest) + 1):
        for name in (*rules, CEILING):
            indices = [
                _index(name, proposal, n, about, temperature, seed)
                for proposal, about in zip(proposed, verdicts, strict=True)
            ]
            selected = [proposal.actions[index] for proposal, index in zip(proposed, indices, strict=True)]
            gain = _gain(proposed, selected, first, seed)
            successes.append(RuleAccuracy(rule=name, candidates=n, gain=gain, **dict(matched(proposed, selected))))
    return successes


def label_verdicts(
    proposed: Sequence[ProposedStep], verdicts: Sequence[Mapping[str, Verdict]]
) -> list[LabelledVerdict]:
    """Pair a critic's verdicts on the distinct actions of all steps with the labels."""
    return [
        LabelledVerdict(proposal.step.episode, action_type(parse(text)), label, verdict.label, verdict.logit)
        for proposal, by_action in zip(proposed, verdicts, strict=True)
        for text, label in proposal.labels.items()
        if (verdict := by_action.get(text)) is not None
    ]


def matched(proposed: Sequence[ProposedStep], selected: Sequence[GuiAction | None]) -> ActionAccuracy:
    """Compute type, grounding and success of one action per step; None is an unreadable action and counts as wrong."""
    pairs = [(proposal.step, action) for proposal, action in zip(proposed, selected, strict=True)]
    typed = [action is not None and type_matches(action, step) for step, action in pairs]
    pointed = [index for index, (step, _) in enumerate(pairs) if typed[index] and is_grounded(step)]
    episodes = [step.episode for step, _ in pairs]
    hit = [action is not None and hits(action, step) for step, action in pairs]
    return ActionAccuracy(
        type=_rate(typed, episodes),
        grounding=_rate([hit[index] for index in pointed], [episodes[index] for index in pointed]) if pointed else None,
        success=_rate([_succeeds(action, step) for step, action in pairs], episodes),
    )


def _index(
    rule: str, proposed: ProposedStep, n: int, verdicts: Mapping[str, Verdict], temperature: float, seed: int
) -> int:
    """Return the index of the candidate selected by a rule among the first n."""
    if rule == CEILING:
        right = [index for index, action in enumerate(proposed.actions[:n]) if _succeeds(action, proposed.step)]
        return right[0] if right else 0
    dice = Dice(f"{seed} {proposed.step.id} {n}")
    return pick_candidate(RULES.get(rule), proposed.texts[:n], verdicts, temperature=temperature, dice=dice)


def _succeeds(action: GuiAction | None, step: GuiStep) -> bool:
    return action is not None and succeeds(action, step)


def _by_episode(values: Sequence[bool], episodes: Sequence[str]) -> tuple[list[int], list[int]]:
    """Count (true values, all values) in each episode."""
    true, sizes = Counter[str](), Counter(episodes)
    for value, episode in zip(values, episodes, strict=True):
        true[episode] += value
    return [true[episode] for episode in sizes], list(sizes.values())


def _rate(values: Sequence[bool], episodes: Sequence[str]) -> Estimate:
    return clustered_rate(*_by_episode(values, episodes))


def _gain(
    proposed: Sequence[ProposedStep], selected: Sequence[GuiAction | None], first: Sequence[GuiAction | None], seed: int
) -> Estimate:
    """Compute the gain in success over the first candidates, in points."""
    episodes = [proposal.step.episode for proposal in proposed]
    sums = {}
    for name, actions in (("selected", selected), ("first", first)):
        right = [_succeeds(action, proposal.step) for proposal, action in zip(proposed, actions, strict=True)]
        true, sizes = _by_episode(right, episodes)
        sums[name], sums["steps"] = np.asarray(true, dtype=float), np.asarray(sizes, dtype=float)

    def points(totals: Mapping[str, Floats]) -> Floats:
        return 100 * (totals["selected"] - totals["first"]) / totals["steps"]

    return bootstrap(sums, points, seed=seed, bounds=(-100, 100))


# ---------------------------------------------------------------- screen verdict

RED = (255, 0, 0)
SIDES_PER_RADIUS = 40
LEAST_RADIUS = 9
"""Minimum radius of the circle in pixels; otherwise a fortieth of the screen's longer side."""

LONGEST_LINE = 400
"""Maximum characters of each earlier action and of the proposed one."""

LONGEST_TASK = 4000

MOST_EARLIER = 30
"""Maximum number of earlier actions, the last ones; of those before, only the count is given."""


@dataclass(frozen=True)
class ScreenState:
    """A moment of an episode: the screenshot, the instruction, and the earlier actions, one line each."""

    screenshot: Image
    instruction: str
    history: Sequence[str] = ()


@dataclass(frozen=True)
class ScreenQuestion(ActionQuestion):
    """Whether an action is correct on a screen; there is no conversation."""

    screen: ScreenState = field(kw_only=True)

    def in_one_word(self) -> list[Message]:
        """Return the screen with the action, which the model's encoder makes into a prompt."""
        return [ScreenMessage(role="user", content=self.action, screen=self.screen)]


class ScreenMessage(Message):
    """A proposed action, as text, and the screen that it is for."""

    screen: Any


def marked(screenshot: Image, action: GuiAction) -> Image:
    """Copy the screenshot in RGB, with the circle if the action has a grounding point on the screen."""
    from PIL import ImageDraw

    image = screenshot.convert("RGB")
    point = _circled(screenshot, action)
    if point is not None:
        radius = max(LEAST_RADIUS, round(max(image.size) / SIDES_PER_RADIUS))
        corners = (point.x - radius, point.y - radius, point.x + radius, point.y + radius)
        image = image.copy()
        ImageDraw.Draw(image).ellipse(corners, outline=RED, width=max(2, radius // 4 + 1))
    return image


def question(screen: ScreenState, action: GuiAction) -> Message:
    """Write the question about the action, to go with the picture: at most about 18,000 characters."""
    values = {
        "instruction": clipped(one_line(screen.instruction), LONGEST_TASK),
        "history": [clipped(one_line(earlier), LONGEST_LINE) for earlier in screen.history[-MOST_EARLIER:]],
        "before": max(len(screen.history) - MOST_EARLIER, 0),
        "action": clipped(one_line(write(action)), LONGEST_LINE),
        "marked": _circled(screen.screenshot, action) is not None,
    }
    return Message(role="user", content=render("critic/screen_verdict", values))


def _circled(screenshot: Image, action: GuiAction) -> Point | None:
    point = target_point(action)
    width, height = screenshot.size
    return point if point and 0 <= point.x < width and 0 <= point.y < height else None
