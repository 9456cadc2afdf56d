"""Silence, and other answers that may be refusals: what agents heard, counted from their episodes.

An engine is silent that answers a refused action with what it had shown before, and with no word about it. An answer
that repeats the one before need not be a refusal, though: a second look shows the same, and so does an action whose
effect is not shown. Nothing here tells which of them it was: for that, actions have to be tried.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from align_echo.types import Trajectory

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
