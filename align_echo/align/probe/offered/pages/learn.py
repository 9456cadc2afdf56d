"""From pages that were tried out to rules: which parts each form takes, and what leads to a name that is not shown.

Left out: the tests of these rules on other tasks (`learner.py`).
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, permutations
from typing import Any, NamedTuple

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.offered.pages import runtime
from align_echo.align.probe.runtime import write
from align_echo.types import Trajectory

# ---------------------------------------------------------------- walks through pages

Spec = dict[str, Any]

LONGEST_BREAK = 40
MIN_BREAKS = 0.05
"""A text separates parts if it stands between two names this often, of all texts that do."""

MIN_SHOWN = 0.95
"""So many of the names that are offered are shown on the page, if the engine shows pages."""

MIN_NAMES = 10
MOST_FIRST = 200
"""So many actions are said at the start of a task at most."""

TOUR = 12
"""Steps of a walk through one task."""

LATER = 12
"""Actions after which it is looked for what an action without a visible effect changed."""

MOST_PARTS = 300
"""A page of more parts is not tried out: that would take too long."""

STRANGE = 10
MIN_FREE = 2
"""A form takes any words if it took so many of `STRANGE` made-up ones, each on another page."""


@dataclass(frozen=True, eq=False)
class PageSeen:
    """One page of a task. `taken` holds, by form, the indices of the parts that it takes here; `offered` are the names
    that the engine offers here, in small letters, and `moving` the texts with which some form leads to another page."""

    state: LabState
    parts: tuple[str, ...]
    taken: dict[str, frozenset[int]]
    offered: frozenset[str]
    moving: frozenset[str]

    @property
    def task_id(self) -> str:
        """The task that the page is of."""
        return self.state.task_id


@dataclass
class Walks:
    """What was met on all walks: how often each kind of action was taken, and the pages by task and text."""

    done: Counter[str] = field(default_factory=Counter)
    pages: list[PageSeen] = field(default_factory=list)
    texts: set[tuple[str, str]] = field(default_factory=set)


def replayed(lab: Lab, failed: Sequence[Trajectory]) -> Iterator[LabState]:
    """The states that the agents came to, ends left out. What changed no page is not done: nothing tells whether it
    was taken."""
    for trajectory in sorted(failed, key=lambda trajectory: trajectory.task_id):
        state = lab.start(trajectory.task_id)
        yield state
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or state.over:
                continue
            after = lab.after(state, step.action)
            if after.observation != state.observation:
                state = after
                if not state.over:
                    yield state


def one_step_on(lab: Lab, task_id: str) -> Iterator[LabState]:
    """The states that one action leads to from the start, if its answer is another: all offered forms are said of all
    offered names, `MOST_FIRST` actions at most."""
    start = lab.start(task_id)
    offered = lab.offered(start)
    spoken = (
        write(template, list(names))
        for template in offered.templates
        for names in permutations(offered.names, template.count("{"))
    )
    for action in islice(spoken, MOST_FIRST):
        state = lab.after(start, action)
        if state.observation != start.observation and not state.over:
            yield state


def shows_pages(lab: Lab, states: Iterable[LabState]) -> bool:
    """Whether what the engine offers can be read off its last answer, in nearly all cases."""
    shown = count = 0
    for state in states:
        text = state.observation.lower()
        names = lab.offered(state).names
        count += len(names)
        shown += sum(name.lower() in text for name in names)
    return count >= MIN_NAMES and shown >= MIN_SHOWN * count


def breaks_between(lab: Lab, states: Iterable[LabState]) -> list[str]:
    """The texts between the parts of pages, most frequent first; none holds another."""
    between: Counter[str] = Counter()
    for state in states:
        text = state.observation.lower()
        spans = _spans(text, lab.offered(state).names)
        for (_, end), (start, _) in pairwise(spans):
            if 0 < start - end <= LONGEST_BREAK and len(text) == len(state.observation):
                between[state.observation[end:start]] += 1
    breaks: list[str] = []
    for mark, count in between.most_common():
        if count >= MIN_BREAKS * between.total() and not any(known in mark or mark in known for known in breaks):
            breaks.append(mark)
    return breaks


def _spans(text: str, names: Sequence[str]) -> list[tuple[int, int]]:
    """Where names stand in a text, in order; the longest first, none over another."""
    longest = sorted({name.lower() for name in names if name}, key=lambda name: (-len(name), name))
    if not longest:
        return []
    pattern = r"(?<!\w)(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)"
    return [match.span() for match in re.finditer(pattern, text)]


def forms_by_kind(lab: Lab, states: Sequence[LabState], rng: random.Random) -> tuple[list[str], list[str]]:
    """(forms that take any words somewhere, forms that take what is shown), of those with one place."""
    forms = {form for state in states for form in lab.offered(state).templates if form.count("{") == 1}
    free: list[str] = []
    closed: list[str] = []
    for form in sorted(forms):
        chosen = rng.sample(list(states), min(STRANGE, len(states)))
        taken = sum(changes(lab, state, runtime.fill(form, strange(rng))) for state in chosen)
        (free if taken >= MIN_FREE else closed).append(form)
    return free, closed


def strange(rng: random.Random) -> str:
    """A word that nobody has."""
    return "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(9))


def changes(lab: Lab, state: LabState, action: str) -> bool:
    """Whether an action leads to another page."""
    return lab.after(state, action).observation != state.observation


# ---------------------------------------------------------------- walking


def tour(lab: Lab, spec: Spec, task_id: str, walks: Walks, rng: random.Random) -> None:
    """Walk through a task, doing what was done least; every page that is new joins the walks, tried out."""
    state = lab.start(task_id)
    for _ in range(TOUR):
        keep(lab, spec, state, walks)
        actions = sorted(_open_ways(lab, spec, state, rng), key=lambda way: walks.done[way[0]])
        for kind, action in actions:
            after = lab.after(state, action)
            walks.done[kind] += 1
            if not after.over and after.observation != state.observation:
                state = after
                break
        else:
            return


def _open_ways(lab: Lab, spec: Spec, state: LabState, rng: random.Random) -> list[tuple[str, str]]:
    """(kind, action) for what can be said, in random order: names that pages share are kinds of their own."""
    ways = []
    for name in lab.offered(state).names:
        kind = name if name in spec["frame"] else runtime.shape_of(name)
        ways += [(f"{form} {kind}", runtime.fill(form, name)) for form in spec["closed"]]
    words = re.findall(r"\w+", state.opening or lab.start(state.task_id).opening)
    for form in spec["free"]:
        start = rng.randrange(max(1, len(words) - 4))
        ways.append((form, runtime.fill(form, " ".join(words[start : start + rng.randint(2, 5)]))))
    rng.shuffle(ways)
    return ways


def keep(lab: Lab, spec: Spec, state: LabState, walks: Walks) -> None:
    """Try out the parts of a page that is new in its task."""
    if state.over or (state.task_id, state.observation) in walks.texts:
        return
    walks.texts.add((state.task_id, state.observation))
    parts = runtime.parts_of(spec, state.observation)
    if len(parts) > MOST_PARTS:
        return
    offered = frozenset(name.lower() for name in lab.offered(state).names)
    taken = {
        form: frozenset(
            index for index, part in enumerate(parts) if is_taken(lab, state, form, part, part.lower() in offered)
        )
        for form in spec["closed"]
    }
    moving = {
        parts[index].lower()
        for form, indices in taken.items()
        for index in indices
        if changes(lab, state, runtime.fill(form, parts[index]))
    }
    walks.pages.append(PageSeen(state, tuple(parts), taken, offered, frozenset(moving)))


def is_taken(lab: Lab, state: LabState, form: str, part: str, is_offered: bool) -> bool:
    """Whether a form takes a part of a page: at once to be seen or, if it is offered, by what comes later."""
    after = lab.after(state, runtime.fill(form, part))
    if after.over or after.observation != state.observation:
        return True
    if not is_offered:
        return False
    others = [runtime.fill(form, name) for name in lab.offered(state).names[:LATER]]
    return any(lab.after(after, other).observation != lab.after(state, other).observation for other in others)


def takes_any_case(lab: Lab, pages: Sequence[PageSeen]) -> bool:
    """Whether names are taken in other letters: in all of up to `STRANGE` pages where that shows."""
    verdicts: list[bool] = []
    for page in pages:
        for form, indices in page.taken.items():
            for index in sorted(indices):
                part = page.parts[index]
                shown = changes(lab, page.state, runtime.fill(form, part))
                if shown and part.swapcase() != part and len(verdicts) < STRANGE:
                    verdicts.append(changes(lab, page.state, runtime.fill(form, part.swapcase())))
                    break
    return bool(verdicts) and all(verdicts)


# ---------------------------------------------------------------- from pages that were tried out to rules

MIN_TASKS = 3
MIN_TIMES = 5
MIN_OPEN = 30
"""A region is called open, or closed, after so many parts of it were tried."""

MIN_TEXTS = 10
"""A shape is learned from so many different texts."""

COMMON = 0.5
"""The frame holds texts that were taken in this share of the tasks."""

MOST_EXCEPTIONS = 60
PAGES_FOR_WAYS = 12
"""Pages of each frame from which ways are tried."""

SHIFTS = (-3, -2, -1, 1, 2, 3)
MIN_WORDS = 3
"""Parts of fewer words are not looked for beside names: too many pages show them."""

MIN_RATE = 0.95


class Tried(NamedTuple):
    """One part of one page, tried with one form."""

    task_id: str
    text: str
    features: tuple[str, ...]
    shape: str
    taken: bool


def frame_texts(pages: Sequence[PageSeen]) -> list[str]:
    """The texts that led to other pages in many tasks, and wherever they stood alone."""
    tasks = len({page.task_id for page in pages})
    where: dict[str, set[str]] = defaultdict(set)
    idle: set[str] = set()
    for page in pages:
        idle.update(part.lower() for part in page.parts if part.lower() not in page.moving)
        for text in page.moving:
            where[text].add(page.task_id)
    return sorted(text for text, known in where.items() if len(known) >= COMMON * tasks and text not in idle)


def free_frames(lab: Lab, spec: Spec, form: str, pages: Sequence[PageSeen], rng: random.Random) -> list[str]:
    """The frames on whose pages a form takes any words, as far as the next page shows it."""
    frames = []
    for frame, known in sampled(spec, pages).items():
        tasks = {page.task_id for page in known}
        if len(known) < MIN_TIMES or len(tasks) < MIN_TASKS:
            continue
        if all(changes(lab, page.state, runtime.fill(form, strange(rng))) for page in known):
            frames.append(frame)
    return frames


def closed_rule(spec: Spec, form: str, pages: Sequence[PageSeen]) -> Spec:
    """What is known of one form: texts it always or never took, and its regions."""
    tried: dict[str, list[Tried]] = defaultdict(list)
    by_text: dict[str, list[Tried]] = defaultdict(list)
    lies: set[str] = set()
    for page in pages:
        lower = [part.lower() for part in page.parts]
        for index, part in enumerate(page.parts):
            taken = index in page.taken[form]
            features = tuple(runtime.features_of(lower, index))
            seen = Tried(page.task_id, lower[index], features, runtime.shape_of(part), taken)
            by_text[lower[index]].append(seen)
            tried[runtime.region_of(spec, lower, index)].append(seen)
            lies |= {lower[index]} if lower[index] in page.offered and not taken else set()
    sure = [text for text in spec["frame"] if by_text[text] and all(seen.taken for seen in by_text[text])]
    never = [text for text in sorted(lies) if _often(by_text[text]) and not any(seen.taken for seen in by_text[text])]
    regions = {}
    for key, rows in sorted(tried.items()):
        region = region_rule([seen for seen in rows if seen.text not in sure and seen.text not in never])
        if region is not None:
            regions[key] = region
    return {"sure": sure, "never": never, "regions": regions}


def _often(rows: Sequence[Tried]) -> bool:
    return len(rows) >= MIN_TIMES and len({seen.task_id for seen in rows}) >= MIN_TASKS


def region_rule(rows: Sequence[Tried]) -> Spec | None:
    """How the parts of a region that can be named are told from the others; None where that cannot be told.

    Either all but those with certain features ("open" is "all", and "not" holds the features), or those of certain
    shapes ("shapes"), and then none else ("open" is "none") or who knows ("").
    """
    if len(rows) < MIN_OPEN or len({seen.task_id for seen in rows}) < MIN_TASKS:
        return None
    exceptions = _exceptions(rows)
    if exceptions is not None:
        return {"open": "all", "not": exceptions, "shapes": []}
    shapes = _shapes(rows)
    rest = [seen for seen in rows if seen.shape not in shapes]
    if any(seen.taken for seen in rest):
        return {"open": "", "not": [], "shapes": shapes} if shapes else None
    return {"open": "none", "not": [], "shapes": shapes}


def _exceptions(rows: Sequence[Tried]) -> list[str] | None:
    """Features that no part with them was taken, and all parts without them were; None if there are none such."""
    known: dict[str, list[Tried]] = defaultdict(list)
    for seen in rows:
        for feature in seen.features:
            known[feature].append(seen)
    usable = {feature for feature, rows in known.items() if _often(rows) and not any(seen.taken for seen in rows)}
    left = [seen for seen in rows if not seen.taken]
    chosen: list[str] = []
    while left and len(chosen) < MOST_EXCEPTIONS:
        counts = Counter(feature for seen in left for feature in seen.features if feature in usable)
        if not counts:
            return None
        best = min(counts, key=lambda feature: (-counts[feature], feature))
        chosen.append(best)
        left = [seen for seen in left if best not in seen.features]
    taken = [seen for seen in rows if seen.taken]
    enough = len(taken) >= MIN_OPEN and len({seen.task_id for seen in taken}) >= MIN_TASKS
    return sorted(chosen) if enough and not left else None


def _shapes(rows: Iterable[Tried]) -> list[str]:
    """Shapes of which many different texts were met, all of them taken."""
    by_shape: dict[str, list[Tried]] = defaultdict(list)
    for seen in rows:
        by_shape[seen.shape].append(seen)
    return sorted(
        shape
        for shape, having in by_shape.items()
        if all(seen.taken for seen in having) and len({seen.text for seen in having}) >= MIN_TEXTS and _often(having)
    )


# ---------------------------------------------------------------- ways


def sampled(spec: Spec, pages: Iterable[PageSeen]) -> dict[str, list[PageSeen]]:
    """Some pages of each frame, spread over tasks."""
    by_frame: dict[str, list[PageSeen]] = defaultdict(list)
    for page in pages:
        by_frame[runtime.frame_of(spec, [part.lower() for part in page.parts])].append(page)
    return {frame: known[:: -(-len(known) // PAGES_FOR_WAYS)] for frame, known in sorted(by_frame.items())}


def learn_steps(lab: Lab, spec: Spec, pages: Iterable[PageSeen]) -> dict[str, dict[str, dict[str, str]]]:
    """By frame and form, for names that its pages do not show: the name that leads to a page where they are taken."""
    steps: dict[str, dict[str, dict[str, str]]] = {}
    for frame, known in sampled(spec, pages).items():
        for form in spec["closed"]:
            led, tries = _steps_from(lab, spec, form, known)
            ways = {
                (wanted, step): count
                for (wanted, step), count in sorted(led.items())
                if count == tries[step] and count >= MIN_TIMES
            }
            if len({page.task_id for page in known}) >= MIN_TASKS:
                for wanted, step in sorted(ways, key=lambda way: (ways[way], way)):
                    steps.setdefault(frame, {}).setdefault(form, {})[wanted] = step
    return steps


def _steps_from(
    lab: Lab, spec: Spec, form: str, pages: Sequence[PageSeen]
) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """(how often a step led to a name, how often a step was tried): names of the frame, as the pages write them. A name
    that only takes the step back is none."""
    led: Counter[tuple[str, str]] = Counter()
    tries: Counter[str] = Counter()
    for page in pages:
        lower = [part.lower() for part in page.parts]
        for step in runtime.possible(spec, form, list(page.parts)):
            if step.lower() not in spec["frame"]:
                continue
            tries[step] += 1
            after = lab.after(page.state, runtime.fill(form, step))
            names = [] if after.over else runtime.possible(spec, form, runtime.parts_of(spec, after.observation))
            new = [name for name in names if name.lower() in spec["frame"] and name.lower() not in lower]
            led.update(
                (name, step)
                for name in new
                if lab.after(after, runtime.fill(form, name)).observation != page.state.observation
            )
    return led, tries


def learn_beside(lab: Lab, spec: Spec, pages: Iterable[PageSeen]) -> dict[str, dict[str, Any]]:
    """By form, where the name stands that leads to a page with a part on it that cannot be named itself."""
    beside = {}
    for form in spec["closed"]:
        hits: Counter[tuple[int, str]] = Counter()
        tries: Counter[tuple[int, str]] = Counter()
        for known in sampled(spec, pages).values():
            for page in known:
                for shift, region, led in leads(lab, spec, form, page):
                    tries[shift, region] += 1
                    hits[shift, region] += led
        good = [way for way in sorted(tries) if hits[way] >= MIN_TEXTS and hits[way] >= MIN_RATE * tries[way]]
        if good:
            shift = max(good, key=lambda way: hits[way])[0]
            beside[form] = {"shift": shift, "regions": [region for other, region in good if other == shift]}
    return beside


def leads(lab: Lab, spec: Spec, form: str, page: PageSeen) -> list[tuple[int, str, bool]]:
    """(shift, region, whether the name there, and no other of its region, leads to a page that shows the part) for the
    parts of a page that cannot be named, and the names near them."""
    parts = list(page.parts)
    lower = [part.lower() for part in parts]
    regions = [runtime.region_of(spec, lower, index) for index in range(len(parts))]
    names = [index for index in range(len(parts)) if runtime.named(spec, form, parts, index) == "yes"]
    shown: dict[int, list[str]] = {}
    verdicts = []
    for index, part in enumerate(parts):
        near = [shift for shift in SHIFTS if index + shift in names]
        if len(part.split()) < MIN_WORDS or not near or runtime.named(spec, form, parts, index) != "no":
            continue
        for number in names:
            if number not in shown:
                after = lab.after(page.state, runtime.fill(form, parts[number]))
                shown[number] = runtime.parts_of(spec, after.observation)
        for shift in near:
            like = [number for number in names if regions[number] == regions[index + shift]]
            others = [number for number in like if parts[number] != parts[index + shift]]
            if others:
                led = part in shown[index + shift] and not any(part in shown[number] for number in others)
                verdicts.append((shift, regions[index], led))
    return verdicts
