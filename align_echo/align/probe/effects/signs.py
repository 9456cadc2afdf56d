"""Signs around every action: `10` is refused and `[10]` is not, which agents are not told. Shown by pairs of actions.

An action with and without the signs is played in the same states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from align_echo.align.probe.effects.outcomes import Observer
from align_echo.align.probe.lab import Lab, LabState
from align_echo.types import Trajectory

SIGNS = ("[{}]", "({})", "<{}>", '"{}"')
"""Signs that are tried."""

MOST_EPISODES, MOST_PAIRS = 12, 3
"""Maximum episodes that are compared, and actions of each."""

MIN_PAIRS, MIN_TASKS = 4, 2
"""Actions, and tasks, in which the signs must help."""

MIN_HELPED = 0.5
"""Share of the actions that must work with the signs; the others may be impossible."""


def find_sign(observer: Observer, played: Sequence[Trajectory]) -> str:
    """Return the signs that all actions need; "" if none help. Raises `BudgetSpentError`."""
    lab = observer.lab
    helped = {sign: [0, 0] for sign in SIGNS}
    tasks: dict[str, set[str]] = {sign: set() for sign in SIGNS}
    texts: dict[str, set[str]] = {sign: set() for sign in ("{}", *SIGNS)}
    for trajectory in played[:MOST_EPISODES]:
        bare = [*_bare(lab, trajectory)]
        others = {sign: [sign.replace("{}", action) for _, action in bare] for sign in texts}
        for state, action in bare:
            said = {sign: sign.replace("{}", action) for sign in texts}
            if _changed(observer, state, action, others["{}"]):
                return ""
            answers = {sign: _answer(observer, state, each) for sign, each in said.items()}
            for sign, answer in answers.items():
                texts[sign] |= set[str]() if lab.after(state, said[sign]).over else {answer}
            for sign in SIGNS:
                differs = answers[sign] != answers["{}"]
                tasks[sign] |= {trajectory.task_id} if differs else set()
                helped[sign][0] += differs and _changed(observer, state, said[sign], others[sign])
                helped[sign][1] += 1
    for sign, (count, pairs) in helped.items():
        tells_more = len(texts[sign]) > 1 and len(texts["{}"]) == 1 and not texts[sign] & texts["{}"]
        enough = pairs >= MIN_PAIRS and len(tasks[sign]) >= MIN_TASKS
        if enough and (tells_more or count >= MIN_HELPED * pairs):
            return sign
    return ""


def _bare(lab: Lab, trajectory: Trajectory) -> Iterator[tuple[LabState, str]]:
    """Yield an episode's first different actions without signs, each in its state."""
    state, known = lab.start(trajectory.task_id), set[str]()
    for step in trajectory.steps:
        action = (step.action or "").strip()
        if state.over or len(known) == MOST_PAIRS:
            return
        if action and action not in known and action[0].isalnum() and action[-1].isalnum():
            known.add(action)
            yield state, action
        state = lab.after(state, step.action or "")


def _answer(observer: Observer, state: LabState, action: str) -> str:
    return observer.reader.lift(observer.read(observer.lab.after(state, action))[1], action)


def _changed(observer: Observer, state: LabState, action: str, others: Sequence[str]) -> bool:
    """Whether actions are answered in another way after this one. An end says nothing."""
    lab = observer.lab
    child = lab.after(state, action)
    if child.over:
        return False
    for other in others:
        ends = lab.after(state, other).over or lab.after(child, other).over
        if not ends and _answer(observer, state, other) != _answer(observer, child, other):
            return True
    return False
