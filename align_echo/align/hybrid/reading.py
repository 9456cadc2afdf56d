"""Parse hypotheses from a model's reply, object by object, and find states to test them in.

Unambiguous variations are accepted: tags, fences, a single object or a list, trailing commas, common key names,
{object} for {0}. Each unreadable object is reported and does not affect the others.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from align_echo.agents.parsing import spans, unquoted, visible_code
from align_echo.align.experiments import clip
from align_echo.align.hybrid.hypotheses import (
    HYPOTHESIS,
    KINDS,
    ActionJudge,
    Hypothesis,
    WrongWording,
    bound_names,
    filled_form,
    slots_of,
)
from align_echo.align.probe.lab import LabState
from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import ReplyFormatError
from align_echo.types import Frozen, Trajectory

MOST_HYPOTHESES = 40
"""Maximum hypotheses tested per reply; further ones are only counted."""

MOST_UNREADABLE = 1000
"""Maximum unreadable brackets per reply before parsing stops."""

LONGEST_NOTHING = 200
"""Maximum length of a reply without hypotheses."""

LONGEST_PROBLEM = 200
"""Maximum length of an error about a hypothesis."""

_KINDS = {
    "needs": ("need", "requires", "precondition", "first"),
    "instead": ("wording", "reworded", "form", "write_instead"),
    "no_effect": ("noeffect", "already", "no_op", "changes_nothing"),
    "claim": ("statement", "free", "other", "fact"),
}
_KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "needs": {
        "action": ("form", "command", "wanted"),
        "step": ("first", "needs", "requires", "before", "precondition", "prerequisite"),
    },
    "instead": {
        "wrong": ("form", "action", "not", "misworded", "said"),
        "right": ("instead", "write", "use", "step", "correct"),
    },
    "no_effect": {
        "action": ("form", "command"),
        "after": ("once", "when", "step"),
        "until": ("unless", "ended_by"),
    },
    "claim": {
        "text": ("claim", "statement", "rule", "sentence"),
        "experiments": ("trials", "tests"),
        "action": ("form", "about"),
    },
}
_TRIAL_KEYS = {
    "task": ("task_id", "id"),
    "step": ("at_step", "from_step", "start"),
    "actions": ("play", "steps", "action"),
    "sees": ("must_see", "see", "contains", "seen"),
    "sees_not": ("must_not_see", "not_sees", "lacks", "not_seen", "sees_no"),
}
_FORMS = ("action", "step", "wrong", "right", "after", "until")


_OPENING = re.compile(r"[\[{]")
_NOTHING = re.compile(r"\W*(?:json)?\W*(none|\[\s*\]|\{\s*\W*hypotheses\W*\[\s*\]\s*\})\W*", re.IGNORECASE)
_BROKEN = re.compile(r"\{\s*[\"']?(kind|type)\b")


class ParsedHypotheses(Frozen):
    """Distinct hypotheses of a reply, and the error of each rejected object."""

    hypotheses: tuple[Hypothesis, ...] = ()
    unread: tuple[str, ...] = ()


PlayedActions = Mapping[str, Sequence[str | None]]
"""Actions of the failed episodes that were shown, by task; None for a reply without one."""


def parse_hypotheses(
    reply: str, task_ids: Collection[str], prompt: str = "", played: PlayedActions | None = None
) -> ParsedHypotheses:
    """Parse the hypotheses in a reply; empty for an empty list or the word none.

    Examples in `prompt` do not count as answers. An experiment may start at a step of an episode in `played`. Raises
    `ReplyFormatError` for an unreadable reply.
    """
    reply = visible_code(reply)
    tagged = [reply[start:end] for start, end in spans(reply, "hypotheses")]
    text = next((part for part in tagged[::-1] if part.strip()), reply)
    examples = [*_objects(prompt)]
    objects = [written for written in _objects(text) if written not in examples]
    if not objects:
        if len(text.strip()) <= LONGEST_NOTHING and _NOTHING.fullmatch(text.strip()):
            return ParsedHypotheses()
        raise ReplyFormatError("it holds no hypotheses: write a JSON list of them in <hypotheses>, or [] for none")
    hypotheses: list[Hypothesis] = []
    unread: list[str] = []
    for number, written in enumerate(objects[:MOST_HYPOTHESES], start=1):
        try:
            hypothesis = _hypothesis(written, task_ids, played or {})
            hypotheses += [hypothesis] if hypothesis not in hypotheses else []
        except ReplyFormatError as error:
            problem = str(error)
            short = problem if len(problem) <= LONGEST_PROBLEM else f"{problem[:LONGEST_PROBLEM]} ..."
            unread.append(f"hypothesis {number}: {short}")
    if len(objects) > MOST_HYPOTHESES:
        unread.append(f"{len(objects) - MOST_HYPOTHESES} more: at most {MOST_HYPOTHESES} are read at once")
    if not hypotheses:
        raise ReplyFormatError(". ".join(unread))
    return ParsedHypotheses(hypotheses=tuple(hypotheses), unread=tuple(unread))


def json_values(text: str) -> list[Any]:
    """Extract JSON objects from a text, also from lists; a broken hypothesis becomes a string."""
    values: list[Any] = []
    repaired = re.sub(r",(\s*[\]}])", r" \1", text)
    start = unreadable = 0
    while unreadable < MOST_UNREADABLE and (match := _OPENING.search(text, start)) is not None:
        start = match.start()
        value, end = _decoded((text, repaired), start)
        unreadable += value is None
        if value is not None:
            values += _flat(value)
        elif _BROKEN.match(text, start):
            following = _BROKEN.search(text, start + 1)
            end = following.start() if following else len(text)
            values.append(text[start:end])
        start = max(end, start + 1)
    return values


# ---------------------------------------------------------------- helpers


def _objects(text: str) -> list[Any]:
    """Extract objects meant as hypotheses, complete or broken."""
    values = json_values(text)
    return [value for value in values if isinstance(value, str) or {"kind", "type"} & {_key(key) for key in value}]


def _decoded(spellings: Sequence[str], start: int) -> tuple[Any, int]:
    """Decode the JSON value at `start` in the first spelling that parses; (None, 0) without one."""
    for written in spellings:
        try:
            return json.JSONDecoder().raw_decode(written, start)
        except (ValueError, RecursionError):
            continue
    return None, 0


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for part in value:
            if isinstance(part, dict | list):
                yield from _flat(part)
    elif isinstance(value, dict):
        inner = [part for key, part in value.items() if str(key).lower() in ("hypotheses", "rules")]
        if inner and isinstance(inner[0], list):
            yield from _flat(inner[0])
        else:
            yield value


def _hypothesis(written: Any, task_ids: Collection[str], played: PlayedActions) -> Hypothesis:
    if not isinstance(written, dict):
        raise ReplyFormatError(f"{clip(' '.join(str(written).split()), 80)} is no JSON object")
    record = {_key(key): value for key, value in written.items()}
    kind = _kind(str(record.get("kind", record.get("type", ""))))
    values: dict[str, Any] = {"kind": kind, **_named(record, _KEYS[kind])}
    for name in _FORMS:
        if isinstance(values.get(name), str):
            values[name] = unquoted(values[name].strip().strip("`"))
    values = _numbered(values)
    if isinstance(values.get("experiments"), list):
        values["experiments"] = [_trial(trial, task_ids, played) for trial in values["experiments"]]
    try:
        return HYPOTHESIS.validate_python(values)
    except ValidationError as error:
        raise ReplyFormatError(first_wrong(error, unnamed=KINDS)) from error


def _key(key: object) -> str:
    return re.sub(r"[\s-]+", "_", str(key).strip().lower())


def _kind(written: str) -> str:
    word = _key(written)
    for kind, aliases in _KINDS.items():
        if word == kind or word in aliases:
            return kind
    raise ReplyFormatError(f"kind must be one of {', '.join(KINDS)}, not {clip(written, 40)!r}")


def _named(record: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Normalise keys; unknown keys and nulls are dropped."""
    values: dict[str, Any] = {}
    for name, aliases in names.items():
        known = [record[key] for key in (name, *aliases) if record.get(key) is not None]
        if known:
            values[name] = known[0]
    return values


def _numbered(values: dict[str, Any]) -> dict[str, Any]:
    """Replace named slots like {object} with numbers, in order of first appearance."""
    forms = " ".join(str(values[name]) for name in _FORMS if name in values)
    used = set(re.findall(r"\{(\d)\}", forms))
    free = iter([str(number) for number in range(10) if str(number) not in used])
    numbers = {word: next(free, "?") for word in dict.fromkeys(re.findall(r"\{([A-Za-z_][\w ]*)\}", forms))}
    return {
        name: re.sub(r"\{([A-Za-z_][\w ]*)\}", lambda match: "{" + numbers.get(match[1], match[1]) + "}", value)
        if isinstance(value, str) and name in (*_FORMS, "text")
        else value
        for name, value in values.items()
    }


def _trial(written: Any, task_ids: Collection[str], played: PlayedActions) -> dict[str, Any]:
    if not isinstance(written, dict):
        raise ReplyFormatError("an experiment is a JSON object with task, actions, and sees or sees_not")
    values = _named({_key(key): value for key, value in written.items()}, _TRIAL_KEYS)
    actions = values.get("actions")
    values["actions"] = [actions] if isinstance(actions, str) else actions
    if values.get("task") not in task_ids:
        named = clip(str(values.get("task")), 60)
        raise ReplyFormatError(f"an experiment names the task {named!r}, which was not shown")
    step = values.pop("step", None)
    if step is not None and isinstance(values["actions"], list):
        before = played.get(values["task"], ())
        if not str(step).isdecimal() or not 1 <= int(step) <= len(before):
            shown = f"an episode with {len(before)} steps shown"
            raise ReplyFormatError(f"an experiment starts at step {step!r} of {shown}")
        values["actions"] = [*filter(None, before[: int(step) - 1]), *values["actions"]]
    return values


# ---------------------------------------------------------------- what agents mean by a wording that is not understood

Meaning = Literal["meant", "not meant", "cannot be told"]

MIN_SAID = 3
PER_EPISODE = 3
MOST_SAID = 12
"""States with the wrong wording: required, used per episode, and used in total."""

MARGIN, MUCH = 1.25, 2.0
"""By how much a form must be nearer than others (1 possible at once, 1 / (1 + n) after n actions), and what is much."""

COMMON = 0.3
"""Minimum nearness, in all states with the wrong wording, of a form agents say themselves."""

NEAR = 0.5
"""Nearness of a rival above which a distant form is not the intended one."""

LUCK = 4
"""Forms said less than a quarter as often as the wrong wording may be luck."""

DEPTH, NODES = 4, 120
"""Actions that may be missing, and states looked at to find them."""


class AgentStep(NamedTuple):
    """Agent's action with its state and whether the engine accepted it."""

    state: LabState
    action: str
    accepted: bool


def judge_meaning(
    judge: ActionJudge, instead: WrongWording, failed: Sequence[Trajectory]
) -> tuple[Meaning, tuple[str, str, str]]:
    """Judge if agents mean the right wording by the wrong one; if not, also return task, action and reason."""
    episodes = [
        [AgentStep(state, action, judge.taken(state, action)) for state, action, _ in judge.lab.replay(trajectory)]
        for trajectory in failed
    ]
    states = _said(episodes, instead.wrong)
    seen = [_near(judge, state, names, instead.right) for state, names in states]
    nearest = [near for near, _ in seen if near]
    if len(nearest) < MIN_SAID:
        return "cannot be told", ("", "", "")
    nearness: defaultdict[str, float] = defaultdict(float)
    for near in nearest:
        for form, value in near.items():
            nearness[form] += value
    own = nearness.pop(instead.right, 0.0)
    if not own and max(nearness.values()) >= NEAR * len(nearest):
        example = filled_form(instead.wrong, states[0][1])
        return "not meant", (states[0][0].task_id, example, f"`{instead.right}` is never near where agents say so")
    times = _times(episodes, instead.wrong)
    working = {form for form in nearness if _times(episodes, form, accepted=True)}
    habits = working | {form for form in nearness if 2 * _times(episodes, form) >= times}
    strange = {form: value for form, value in nearness.items() if form not in habits}
    # Agents who say what the right wording enables more often than the wrong one skip it and mean a later step.
    behind = Counter(form for _, forms in seen for form in forms & habits)
    stuck = any(2 * count >= len(seen) and _times(episodes, form) > times for form, count in behind.items())
    known = LUCK * _times(episodes, instead.right) >= times
    worked = bool(_times(episodes, instead.right, accepted=True))
    habitual = max((nearness[form] for form in habits), default=0.0)
    clear = own > 0 and own >= (MUCH if known else MARGIN) * max(strange.values(), default=0.0)
    clear = clear and (own >= MARGIN * habitual if worked else MARGIN * own >= habitual)
    clear = clear and (own >= COMMON * len(states) if known else not stuck)
    return ("meant" if clear and _may_be_meant(episodes, instead, known=known) else "cannot be told"), ("", "", "")


def _said(episodes: Sequence[Sequence[AgentStep]], form: str) -> list[tuple[LabState, dict[str, str]]]:
    """Find states with a refused action of a form, with its names."""
    states: list[tuple[LabState, dict[str, str]]] = []
    for episode in episodes:
        refused = [(turn.state, bound_names(form, turn.action)) for turn in episode if not turn.accepted]
        states += [(state, names) for state, names in refused if names is not None][:PER_EPISODE]
    return states[:MOST_SAID]


def _times(episodes: Sequence[Sequence[AgentStep]], form: str, *, accepted: bool = False) -> int:
    """Count uses of a form; with `accepted`, only accepted ones."""
    actions = [turn.action for episode in episodes for turn in episode if turn.accepted or not accepted]
    return sum(bound_names(form, action) is not None for action in actions)


def _may_be_meant(episodes: Sequence[Sequence[AgentStep]], instead: WrongWording, *, known: bool) -> bool:
    """Check if the agents' habits allow the right wording as the meaning.

    They never say it, or mostly with names also used in the wrong wording; and after it works, they rarely repeat the
    wrong wording.
    """
    pairs, again = list[bool](), list[bool]()
    for episode in episodes:
        wrong = [
            (number, filled_form(instead.right, names).lower())
            for number, turn in enumerate(episode)
            if (names := bound_names(instead.wrong, turn.action)) is not None
        ]
        for number, turn in enumerate(episode):
            if bound_names(instead.right, turn.action) is None:
                continue
            right = " ".join(turn.action.lower().split())
            pairs.append(any(meaning == right for _, meaning in wrong))
            if turn.accepted:
                again.append(any(meaning == right and later > number for later, meaning in wrong))
    return 2 * sum(pairs) >= len(pairs) and (not known or 2 * sum(again) <= len(again))


def _near(judge: ActionJudge, state: LabState, names: dict[str, str], right: str) -> tuple[dict[str, float], set[str]]:
    """Rate the nearness of each form with these names: 1 if possible, 1 / (1 + n) after n actions.

    Also return the forms enabled by the right wording.
    """
    wanted = filled_form(right, names)
    if not judge.lab.lists:
        return ({right: 1.0} if judge.possible(state, wanted) else {}), set()
    used = {slot: names[slot] for slot in slots_of(right)}
    near: dict[str, float] = {}
    behind: set[str] = set()
    reached, looked_at = [(state, False)], 0
    for depth in range(DEPTH + 1):
        following: list[tuple[LabState, bool]] = []
        for node, after in reached:
            looked_at += 1
            forms = {_replace_names(used, action) for action in node.admissible}
            for form in (form for form in forms if all("{" + slot + "}" in form for slot in used)):
                behind |= {form} if form not in near and after else set()
                near.setdefault(form, 1 / (1 + depth))
            related = [action for action in sorted(node.admissible) if _replace_names(used, action) != action]
            if depth < DEPTH and looked_at < NODES:
                following += [(judge.lab.after(node, action), after or action == wanted) for action in related]
        reached = [(child, after) for child, after in following if not child.over]
    own = near.pop(_replace_names(used, wanted), 0.0)
    return ({**near, right: own} if own else near), behind


def _replace_names(names: dict[str, str], action: str) -> str:
    """Replace the names in an action with their slots."""
    for slot, name in sorted(names.items(), key=lambda pair: -len(pair[1])):
        action = re.sub(r"(?<!\w)" + re.escape(name) + r"(?!\w)", "{" + slot + "}", action, flags=re.IGNORECASE)
    return action


# ---------------------------------------------------------------- what can be said where the engine lists nothing

LONGEST_NAME = 3
"""Maximum words of a name read from a text."""

NAMINGS = 400
"""Tries per task to find names among words."""

SAYINGS = 60
"""Tries per state to find possible actions."""

FEW = 6
"""Names combined with others."""


class UnlistedSpeech:
    """Finds accepted actions in states of a lab without lists. `names` holds names used by agents."""

    def __init__(self, judge: ActionJudge, names: Collection[str], rng: random.Random) -> None:
        self._judge = judge
        self._used = sorted(set(names))
        self._rng = rng
        self._taken: dict[LabState, list[str]] = {}
        self._names: dict[str, list[str]] = {}
        self._words: dict[str, set[str]] = {}
        self._namings: dict[str, int] = {}

    def taken(self, state: LabState) -> list[str]:
        """Return accepted actions among those tried in a state; each state is tried once."""
        if state not in self._taken:
            sayings = [] if state.over else self._sayings(state)
            self._taken[state] = [action for action in sayings if self._judge.taken(state, action)]
        return self._taken[state]

    def _sayings(self, state: LabState) -> list[str]:
        """Combine forms and names, names of the last text first, alternating between forms."""
        self._judge.lab.visit(state)
        offered = self._judge.lab.env.offered()
        forms = list(dict.fromkeys([*self._judge.forms, *(offered.templates if offered else ())]))
        words = word_runs(state.observation)
        self._learn_names(state, forms, words)
        low = state.observation.lower()
        names = [*self._names[state.task_id], *(offered.names if offered else ())]
        near = [name for name in dict.fromkeys(names) if name.lower() in low]
        self._rng.shuffle(names)
        ordered = list(dict.fromkeys([*near, *names]))
        queues = [self._filled(form, ordered, words) for form in forms]
        share = max(SAYINGS // max(len(queues), 1), 1)
        return list(dict.fromkeys(action for queue in queues for action in queue[: 2 * share]))

    def _filled(self, form: str, names: Sequence[str], words: Sequence[str]) -> list[str]:
        """Fill a form with names; with two slots, also with a name and words of the last text."""
        slots = list(dict.fromkeys(slots_of(form)))
        if len(slots) < 2:
            return [filled_form(form, dict.fromkeys(slots, name)) for name in (names if slots else [""])]
        first_names = list(names[:FEW])
        both = [(first, second) for first, second in product(first_names, [*first_names, *words]) if first != second]
        both += [(second, first) for first, second in both]
        self._rng.shuffle(both)
        both.sort(key=lambda pair: not {*pair} <= {*names})
        rest = dict.fromkeys(slots[2:], names[0] if names else "")
        return [filled_form(form, {slots[0]: first, slots[1]: second, **rest}) for first, second in both[: 2 * SAYINGS]]

    def _learn_names(self, state: LabState, forms: Sequence[str], words: Sequence[str]) -> None:
        """Add words accepted by a form with one name, and names used by agents."""
        task_id, low = state.task_id, state.observation.lower()
        names = self._names.setdefault(task_id, [])
        names += [name for name in self._used if name.lower() in low and name not in names]
        tried = self._words.setdefault(task_id, set())
        single = [form for form in forms if len(set(slots_of(form))) == 1]
        fresh = [text for text in words if text not in tried and text not in names]
        self._rng.shuffle(fresh)
        for text in fresh:
            if self._namings.get(task_id, 0) >= NAMINGS:
                return
            tried.add(text)
            for form in single:
                self._namings[task_id] = self._namings.get(task_id, 0) + 1
                if self._judge.taken(state, filled_form(form, dict.fromkeys(slots_of(form), text))):
                    names.append(text)
                    break


def word_runs(text: str) -> list[str]:
    """List all runs of one to three words in a text, without punctuation between them."""
    groups: list[str] = []
    for part in re.split(r"[^\w\s'-]+|\n", text):
        words = part.split()
        for size in range(1, LONGEST_NAME + 1):
            groups += [" ".join(words[start : start + size]) for start in range(len(words) - size + 1)]
    return list(dict.fromkeys(groups))


# ---------------------------------------------------------------- states to try hypotheses in

WALK = 60
"""Actions of a walk."""

ASIDE = 0.5
"""Share of a walk's actions with forms of the hypotheses, where possible."""


class WalkState(NamedTuple):
    """State of a walk with the accepted actions before it."""

    state: LabState
    accepted: tuple[str, ...]


class WalkGuide:
    """Leads walks. `names` holds agents' names for slots of the hypotheses' forms."""

    def __init__(self, judge: ActionJudge, names: Collection[str], rng: random.Random) -> None:
        self.judge = judge
        self.names = sorted(set(names))
        self.rng = rng
        self._speech = UnlistedSpeech(judge, names, rng)

    def options(self, state: LabState) -> list[str]:
        """List actions the engine accepts in a state, from its list or by trying."""
        return sorted(state.admissible) if self.judge.lab.lists else self._speech.taken(state)

    def walk(
        self,
        task_id: str,
        *,
        avoid: Callable[[str], bool] = lambda action: False,
        wanted: Callable[[str], bool] | None = None,
        length: int = WALK,
    ) -> list[WalkState]:
        """Walk through a task and return the states, the initial one first.

        The walk skips actions in `avoid`, and half of the time prefers `wanted` actions or forms of the hypotheses. It
        never ends the episode.
        """
        walked = WalkState(self.judge.lab.start(task_id), ())
        states = [walked]
        counts: Counter[str] = Counter()
        while len(states) <= length:
            options = [action for action in self.options(walked.state) if not avoid(action)]
            step = self._step(walked.state, options, wanted or self._is_of_a_form, counts)
            if step is None:
                break
            action, state = step
            counts.update([action, action.split()[0] + " "])
            walked = WalkState(state, (*walked.accepted, action))
            states.append(walked)
        return states

    def _step(
        self, state: LabState, options: Sequence[str], wanted: Callable[[str], bool], counts: Counter[str]
    ) -> tuple[str, LabState] | None:
        """Choose the next action and return it with its state; None if all others end the episode.

        `counts` holds the times of each action, and of each first word with a space behind it.
        """
        left = [action for action in options if action.split()]
        while left:
            liked = [action for action in left if wanted(action)]
            pool = liked if liked and self.rng.random() < ASIDE else left
            times = {action: (counts[action.split()[0] + " "], counts[action]) for action in pool}
            fewest = min(times.values())
            action = self.rng.choice([action for action in pool if times[action] == fewest])
            child = self.judge.went(state, action)
            if not child.over:
                return action, child
            left.remove(action)
        return None

    def _is_of_a_form(self, action: str) -> bool:
        """Check if an action is of a form of the hypotheses."""
        return any(bound_names(form, action) is not None for form in self.judge.forms)


def names_said(forms: Sequence[str], actions: Sequence[str]) -> set[str]:
    """Collect the names in actions of these forms."""
    names: set[str] = set()
    for action in actions:
        for form in forms:
            names |= set((bound_names(form, action) or {}).values())
    return names
