"""Reading the hypotheses in a model's reply: JSON, however it is dressed, each object by itself.

What can mean only one thing is taken: tags or fences around it or none, one object or a list, trailing commas, usual
other names for the keys, {object} for {0}. An object that cannot be read is reported and costs no other.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from align_echo.agents.parsing import spans, unquoted, visible_code
from align_echo.align.experiments import clip
from align_echo.align.hybrid.hypotheses import HYPOTHESIS, KINDS, Hypothesis, Instead, Judge, StatedClaim
from align_echo.align.hybrid.runtime import bound_names, filled_form, slots_of
from align_echo.align.probe.lab import LabState
from align_echo.errors import ReplyFormatError
from align_echo.types import Frozen, Trajectory

MOST_HYPOTHESES = 40
"""So many of one reply are tried; of the others it is only reported how many there are."""

MOST_UNREADABLE = 1000
"""After so many brackets of a reply that begin nothing, no more are looked at."""

LONGEST_NOTHING = 200
"""Characters in which a reply says that there are none."""

LONGEST_PROBLEM = 200
"""Characters of what is wrong with one hypothesis."""

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
    "actions": ("play", "steps", "action"),
    "sees": ("must_see", "see", "contains", "seen"),
    "sees_not": ("must_not_see", "not_sees", "lacks", "not_seen", "sees_no"),
}
_FORMS = ("action", "step", "wrong", "right", "after", "until")


_OPENING = re.compile(r"[\[{]")
_NOTHING = re.compile(r"\W*(?:json)?\W*(none|\[\s*\]|\{\s*\W*hypotheses\W*\[\s*\]\s*\})\W*", re.IGNORECASE)
_BROKEN = re.compile(r"\{\s*[\"']?(kind|type)\b")


class Proposals(Frozen):
    """The hypotheses of a reply, without repetition, and of each object that was none what is wrong with it."""

    hypotheses: tuple[Hypothesis, ...] = ()
    unread: tuple[str, ...] = ()


def parse_hypotheses(reply: str, task_ids: Collection[str], shown: str = "") -> Proposals:
    """The hypotheses in a reply; none for an empty list or the word none. `shown` is the prompt, whose own examples are
    no answer. Raises `ReplyFormatError` if nothing can be read.
    """
    text = _body(visible_code(reply))
    examples = [*_objects(shown)]
    objects = [written for written in _objects(text) if written not in examples]
    if not objects:
        if len(text.strip()) <= LONGEST_NOTHING and _NOTHING.fullmatch(text.strip()):
            return Proposals()
        raise ReplyFormatError("it holds no hypotheses: write a JSON list of them in <hypotheses>, or [] for none")
    hypotheses: list[Hypothesis] = []
    unread: list[str] = []
    for number, written in enumerate(objects[:MOST_HYPOTHESES], start=1):
        try:
            hypothesis = _hypothesis(written, task_ids)
            hypotheses += [hypothesis] if hypothesis not in hypotheses else []
        except ReplyFormatError as error:
            unread.append(f"hypothesis {number}: {_short(str(error))}")
    if len(objects) > MOST_HYPOTHESES:
        unread.append(f"{len(objects) - MOST_HYPOTHESES} more: at most {MOST_HYPOTHESES} are read at once")
    if not hypotheses:
        raise ReplyFormatError(". ".join(unread))
    return Proposals(hypotheses=tuple(hypotheses), unread=tuple(unread))


def json_values(text: str) -> list[Any]:
    """The JSON objects of a text, those of lists too; what begins like a hypothesis and breaks is a string."""
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
            end = _end_of(text, start)
            values.append(text[start:end])
        start = max(end, start + 1)
    return values


# ---------------------------------------------------------------- inside


def _short(problem: str) -> str:
    return problem if len(problem) <= LONGEST_PROBLEM else f"{problem[:LONGEST_PROBLEM]} ..."


def _body(text: str) -> str:
    """What stands in the last tags of the reply, or all of it."""
    tagged = [text[start:end] for start, end in spans(text, "hypotheses")]
    return next((part for part in tagged[::-1] if part.strip()), text)


def _objects(text: str) -> list[Any]:
    """The values of a text that are meant as hypotheses, whole or broken."""
    values = json_values(text)
    return [value for value in values if isinstance(value, str) or {"kind", "type"} & {_key(key) for key in value}]


def _decoded(spellings: Sequence[str], start: int) -> tuple[Any, int]:
    """A JSON value and where it ends, in the first spelling of a text that has one there; (None, 0) without one."""
    for written in spellings:
        try:
            return json.JSONDecoder().raw_decode(written, start)
        except (ValueError, RecursionError):
            continue
    return None, 0


def _end_of(text: str, start: int) -> int:
    """Where an object that cannot be read ends: before the next one."""
    following = _BROKEN.search(text, start + 1)
    return following.start() if following else len(text)


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


def _hypothesis(written: Any, task_ids: Collection[str]) -> Hypothesis:
    if not isinstance(written, dict):
        raise ReplyFormatError(f"{clip(' '.join(str(written).split()), 80)} is no JSON object")
    given = {_key(key): value for key, value in written.items()}
    kind = _kind(str(given.get("kind", given.get("type", ""))))
    values: dict[str, Any] = {"kind": kind, **_named(given, _KEYS[kind])}
    for name in _FORMS:
        if isinstance(values.get(name), str):
            values[name] = unquoted(values[name].strip().strip("`"))
    values = _numbered(values)
    if isinstance(values.get("experiments"), list):
        values["experiments"] = [_trial(trial, task_ids) for trial in values["experiments"]]
    try:
        return HYPOTHESIS.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in KINDS)
        reason = str(first["msg"]).removeprefix("Value error, ")
        raise ReplyFormatError(f"{where}: {reason}" if where else reason) from error


def _key(key: object) -> str:
    return re.sub(r"[\s-]+", "_", str(key).strip().lower())


def _kind(written: str) -> str:
    word = _key(written)
    for kind, others in _KINDS.items():
        if word == kind or word in others:
            return kind
    raise ReplyFormatError(f"kind must be one of {', '.join(KINDS)}, not {clip(written, 40)!r}")


def _named(given: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The values by their own names; what has another name, and what is null, is left out."""
    values: dict[str, Any] = {}
    for name, others in names.items():
        known = [given[key] for key in (name, *others) if given.get(key) is not None]
        if known:
            values[name] = known[0]
    return values


def _numbered(values: dict[str, Any]) -> dict[str, Any]:
    """Forms whose places have words, {object}, with numbers in the order in which the words first appear."""
    forms = " ".join(str(values[name]) for name in _FORMS if name in values)
    taken = set(re.findall(r"\{(\d)\}", forms))
    free = iter([str(number) for number in range(10) if str(number) not in taken])
    numbers = {word: next(free, "?") for word in dict.fromkeys(re.findall(r"\{([A-Za-z_][\w ]*)\}", forms))}
    return {
        name: re.sub(r"\{([A-Za-z_][\w ]*)\}", lambda match: "{" + numbers.get(match[1], match[1]) + "}", value)
        if isinstance(value, str) and name in (*_FORMS, "text")
        else value
        for name, value in values.items()
    }


def _trial(written: Any, task_ids: Collection[str]) -> dict[str, Any]:
    if not isinstance(written, dict):
        raise ReplyFormatError("an experiment is a JSON object with task, actions, and sees or sees_not")
    values = _named({_key(key): value for key, value in written.items()}, _TRIAL_KEYS)
    actions = values.get("actions")
    values["actions"] = [actions] if isinstance(actions, str) else actions
    if values.get("task") not in task_ids:
        named = clip(str(values.get("task")), 60)
        raise ReplyFormatError(f"an experiment names the task {named!r}, which was not shown")
    return values


def tasks_of(claim: StatedClaim) -> set[str]:
    """The tasks that a claim's experiments play."""
    return {trial.task for trial in claim.experiments}


# ---------------------------------------------------------------- what agents mean by a wording that is not understood

Meaning = Literal["meant", "not meant", "cannot be told"]

MIN_SAID = 3
PER_EPISODE = 3
MOST_SAID = 12
"""States in which the wording was said: so many are needed, taken from an episode, and taken at all."""

MARGIN, MUCH = 1.25, 2.0
"""By how much a form must be nearer than others (1 possible at once, 1 / (1 + n) after n actions), and what is much."""

COMMON = 0.3
"""How near a form that agents say themselves must be in all states where they say the wrong wording."""

NEAR = 0.5
"""A form that is never near is not meant where another one is as near as this."""

LUCK = 4
"""What agents say less than a quarter as often as the wrong wording may be luck."""

DEPTH, NODES = 4, 120
"""Actions that may be missing, and states looked at to find them."""


class Followed(NamedTuple):
    """One action of an agent, the state in which it was said, and whether the engine took it."""

    state: LabState
    action: str
    accepted: bool


def meant(judge: Judge, instead: Instead, failed: Sequence[Trajectory]) -> tuple[Meaning, tuple[str, str, str]]:
    """Whether agents mean the right wording by the wrong one; with a task, an action and why if they do not."""
    episodes = [_followed(judge, trajectory) for trajectory in failed]
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
    habits = _habits(episodes, instead.wrong, list(nearness))
    strange = {form: value for form, value in nearness.items() if form not in habits}
    stuck = _stuck_behind(episodes, instead.wrong, [forms & habits for _, forms in seen])
    known = LUCK * _times(episodes, instead.right) >= _times(episodes, instead.wrong)
    worked = bool(_times(episodes, instead.right, accepted=True))
    habitual = max((nearness[form] for form in habits), default=0.0)
    clear = own > 0 and own >= (MUCH if known else MARGIN) * max(strange.values(), default=0.0)
    clear = clear and (own >= MARGIN * habitual if worked else MARGIN * own >= habitual)
    clear = clear and (own >= COMMON * len(states) if known else not stuck)
    return ("meant" if clear and _may_be_meant(episodes, instead, known=known) else "cannot be told"), ("", "", "")


def _followed(judge: Judge, trajectory: Trajectory) -> list[Followed]:
    """An episode as the laboratory plays it again."""
    state, actions = judge.lab.start(trajectory.task_id), list[Followed]()
    for step in trajectory.steps:
        if step.action is not None and step.raw_observation is not None and not state.over:
            actions.append(Followed(state, step.action, judge.taken(state, step.action)))
            state = judge.lab.after(state, step.action)
    return actions


def _said(episodes: Sequence[Sequence[Followed]], form: str) -> list[tuple[LabState, dict[str, str]]]:
    """The states in which agents said an action of a form and the engine did not take it, with its names."""
    states: list[tuple[LabState, dict[str, str]]] = []
    for episode in episodes:
        refused = [(said.state, bound_names(form, said.action)) for said in episode if not said.accepted]
        states += [(state, names) for state, names in refused if names is not None][:PER_EPISODE]
    return states[:MOST_SAID]


def _times(episodes: Sequence[Sequence[Followed]], form: str, *, accepted: bool = False) -> int:
    """How often agents say a form; with `accepted`, how often the engine took it."""
    actions = [said.action for episode in episodes for said in episode if said.accepted or not accepted]
    return sum(bound_names(form, action) is not None for action in actions)


def _habits(episodes: Sequence[Sequence[Followed]], wrong: str, forms: Sequence[str]) -> set[str]:
    """The forms that worked for agents, or that they say at least half as often as the wrong wording."""
    times = _times(episodes, wrong)
    return {form for form in forms if _times(episodes, form, accepted=True) or 2 * _times(episodes, form) >= times}


def _stuck_behind(episodes: Sequence[Sequence[Followed]], wrong: str, behind: Sequence[set[str]]) -> bool:
    """Whether agents say a form that comes into reach by the right one more often than the wrong wording: then they
    leave the right one out as a habit, and mean something later by the wrong wording."""
    counts = Counter(form for forms in behind for form in forms)
    times = _times(episodes, wrong)
    return any(2 * count >= len(behind) and _times(episodes, form) > times for form, count in counts.items())


def _may_be_meant(episodes: Sequence[Sequence[Followed]], instead: Instead, *, known: bool) -> bool:
    """Whether agents do not say the right wording, or mostly of names of which they say the wrong one too in the
    episode; and, where they say it often, mostly not the wrong one once more after the right one worked."""
    pairs, again = list[bool](), list[bool]()
    for episode in episodes:
        wrong = [
            (number, filled_form(instead.right, names).lower())
            for number, said in enumerate(episode)
            if (names := bound_names(instead.wrong, said.action)) is not None
        ]
        for number, said in enumerate(episode):
            if bound_names(instead.right, said.action) is None:
                continue
            right = " ".join(said.action.lower().split())
            pairs.append(any(meaning == right for _, meaning in wrong))
            if said.accepted:
                again.append(any(meaning == right and later > number for later, meaning in wrong))
    return 2 * sum(pairs) >= len(pairs) and (not known or 2 * sum(again) <= len(again))


def _near(judge: Judge, state: LabState, names: dict[str, str], right: str) -> tuple[dict[str, float], set[str]]:
    """How near each form with these names is: 1 if it is possible now, 1 / (1 + n) if it is after n actions. With the
    forms that come into reach by the right one."""
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
            for form in _forms_with(used, node.admissible):
                behind |= {form} if form not in near and after else set()
                near.setdefault(form, 1 / (1 + depth))
            related = [action for action in sorted(node.admissible) if _form_of(used, action) != action]
            if depth < DEPTH and looked_at < NODES:
                following += [(judge.lab.after(node, action), after or action == wanted) for action in related]
        reached = [(child, after) for child, after in following if not child.over]
    own = near.pop(_form_of(used, wanted), 0.0)
    return ({**near, right: own} if own else near), behind


def _forms_with(names: dict[str, str], actions: Iterable[str]) -> set[str]:
    """The forms of the actions that hold all names."""
    forms = {_form_of(names, action) for action in actions}
    return {form for form in forms if all("{" + slot + "}" in form for slot in names)}


def _form_of(names: dict[str, str], action: str) -> str:
    for slot, name in sorted(names.items(), key=lambda pair: -len(pair[1])):
        action = re.sub(r"(?<!\w)" + re.escape(name) + r"(?!\w)", "{" + slot + "}", action, flags=re.IGNORECASE)
    return action


# ---------------------------------------------------------------- what can be said where the engine lists nothing

LONGEST_NAME = 3
"""Words of a name that is read off a text."""

NAMINGS = 400
"""Tries in a task of which words are names."""

SAYINGS = 60
"""Tries in a state of what can be said there."""

FEW = 6
"""Names that are put together with others."""


class UnlistedSpeech:
    """Tries what can be said in the states of a laboratory. `names` are those that agents used."""

    def __init__(self, judge: Judge, names: Collection[str], rng: random.Random) -> None:
        self._judge = judge
        self._used = sorted(set(names))
        self._rng = rng
        self._taken: dict[LabState, list[str]] = {}
        self._names: dict[str, list[str]] = {}
        self._words: dict[str, set[str]] = {}
        self._namings: dict[str, int] = {}

    def taken(self, state: LabState) -> list[str]:
        """Actions that the engine takes in a state, of those that were tried there; each state is tried once."""
        if state not in self._taken:
            sayings = [] if state.over else self._sayings(state)
            self._taken[state] = [action for action in sayings if self._judge.taken(state, action)]
        return self._taken[state]

    def _sayings(self, state: LabState) -> list[str]:
        """Forms with names, those of the last text first, each form in its turn."""
        self._judge.lab.visit(state)
        offered = self._judge.lab.env.offered()
        forms = list(dict.fromkeys([*self._judge.forms, *(offered.templates if offered else ())]))
        words = words_of(state.observation)
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
        """A form with names; where it has two, also a name and words of the last text that may be one."""
        slots = list(dict.fromkeys(slots_of(form)))
        if len(slots) < 2:
            return [filled_form(form, dict.fromkeys(slots, name)) for name in (names if slots else [""])]
        few = list(names[:FEW])
        both = [(first, second) for first, second in product(few, [*few, *words]) if first != second]
        both += [(second, first) for first, second in both]
        self._rng.shuffle(both)
        both.sort(key=lambda pair: not {*pair} <= {*names})
        rest = dict.fromkeys(slots[2:], names[0] if names else "")
        return [filled_form(form, {slots[0]: first, slots[1]: second, **rest}) for first, second in both[: 2 * SAYINGS]]

    def _learn_names(self, state: LabState, forms: Sequence[str], words: Sequence[str]) -> None:
        """Add the words of a text that a form with one name takes, and the names that agents used."""
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


def words_of(text: str) -> list[str]:
    """Every one to three words that stand together in a text, without marks between them."""
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
"""Share of a walk's actions that are of the hypotheses' forms, where any is possible."""


class Walked(NamedTuple):
    """A state of a walk with the actions that led to it, all of which the engine took."""

    state: LabState
    accepted: tuple[str, ...]


class Guide:
    """Leads walks. `names` are names that agents used, in the places of the hypotheses' forms."""

    def __init__(self, judge: Judge, names: Collection[str], rng: random.Random) -> None:
        self.judge = judge
        self.names = sorted(set(names))
        self.rng = rng
        self._speech = UnlistedSpeech(judge, names, rng)

    def options(self, state: LabState) -> list[str]:
        """Actions that the engine takes in a state: all that it lists, else those that were tried and taken."""
        return sorted(state.admissible) if self.judge.lab.lists else self._speech.taken(state)

    def walk(
        self,
        task_id: str,
        *,
        avoid: Callable[[str], bool] = lambda action: False,
        wanted: Callable[[str], bool] | None = None,
        length: int = WALK,
    ) -> list[Walked]:
        """The states of a walk, the first one first. It says nothing that `avoid` names, and half of the time what is
        `wanted`, or of the hypotheses' forms; it does not end the episode.
        """
        walked = Walked(self.judge.lab.start(task_id), ())
        states = [walked]
        said: Counter[str] = Counter()
        openers: Counter[str] = Counter()
        while len(states) <= length:
            options = [action for action in self.options(walked.state) if not avoid(action)]
            step = self._step(walked.state, options, wanted or self._spoken_of, said, openers)
            if step is None:
                break
            action, state = step
            said[action] += 1
            openers[action.split()[0]] += 1
            walked = Walked(state, (*walked.accepted, action))
            states.append(walked)
        return states

    def _step(
        self,
        state: LabState,
        options: Sequence[str],
        wanted: Callable[[str], bool],
        said: Counter[str],
        openers: Counter[str],
    ) -> tuple[str, LabState] | None:
        """The next action of a walk and the state that it leads to; None where nothing is left that does not end it."""
        left = [action for action in options if action.split()]
        while left:
            liked = [action for action in left if wanted(action)]
            pool = liked if liked and self.rng.random() < ASIDE else left
            rare = min(openers[action.split()[0]] for action in pool)
            rarest = [action for action in pool if openers[action.split()[0]] == rare]
            fewest = min(said[action] for action in rarest)
            action = self.rng.choice([action for action in rarest if said[action] == fewest])
            child = self.judge.went(state, action)
            if not child.over:
                return action, child
            left.remove(action)
        return None

    def _spoken_of(self, action: str) -> bool:
        return any(bound_names(form, action) is not None for form in self.judge.forms)


def names_said(forms: Sequence[str], actions: Sequence[str]) -> set[str]:
    """The names that actions have in the places of forms."""
    names: set[str] = set()
    for action in actions:
        for form in forms:
            names |= set((bound_names(form, action) or {}).values())
    return names
