"""Probe for engines that show a page after each action and repeat it after a refusal.

A page is a text with each nameable item as a part, between fixed separators. Walks through pages find nameable parts by
trying; rules are derived from them and tested on fresh tasks. Not supported: forms with two names or none, and names on
no page.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise, permutations
from typing import NamedTuple

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.findings import TrialCounts, report
from align_echo.align.probe.lab import Lab, LabState, find_silenced, is_often_silent
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.model import NamedBeside, NeedsPage, RuleSet
from align_echo.interface.rules.pages import (
    MOST_FRAME,
    MOST_PARTS,
    NamedParts,
    PageOffers,
    Region,
    features,
    shape,
)
from align_echo.types import Evidence, Misalignment, Trajectory

# ---------------------------------------------------------------- walks through pages

LONGEST_BREAK = 40
MIN_BREAKS = 0.05
"""Share of the texts between two names required for a separator."""

MIN_SHOWN = 0.95
"""Share of offered names shown on the page if the engine shows pages."""

MIN_NAMES = 10
MOST_FIRST = 200
"""Maximum actions tried at the start of a task."""

TOUR = 12
"""Steps of a walk through a task."""

LATER = 12
"""Further actions tried to detect a hidden effect."""

STRANGE = 10
MIN_FREE = 2
"""Accepted made-up words out of `STRANGE`, each on another page, for a form accepting any words."""


@dataclass(frozen=True, eq=False)
class PageSeen:
    """Page of a task. `accepted` holds the accepted parts' indices by form, `offered` the offered names in lower case;
    `moving` texts leading to another page."""

    state: LabState
    parts: tuple[str, ...]
    accepted: dict[str, frozenset[int]]
    offered: frozenset[str]
    moving: frozenset[str]

    @property
    def task_id(self) -> str:
        """Task of the page."""
        return self.state.task_id


@dataclass
class WalkRecord:
    """Results of all walks: counts by kind of action, and pages by task and text."""

    done: Counter[str] = field(default_factory=Counter)
    pages: list[PageSeen] = field(default_factory=list)
    texts: set[tuple[str, str]] = field(default_factory=set)


def replay_states(lab: Lab, failed: Sequence[Trajectory]) -> Iterator[LabState]:
    """Replay the agents' actions and yield the states, except endings.

    Actions without a page change are skipped: nothing shows if they were accepted.
    """
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
    """Yield states one action from the start with a new answer, for all offered forms and names (at most `MOST_FIRST`).
    """
    start = lab.start(task_id)
    offered = lab.offered(start)
    spoken = (
        fill(template, names)
        for template in offered.templates
        for names in permutations(offered.names, template.count("{"))
    )
    for action in islice(spoken, MOST_FIRST):
        state = lab.after(start, action)
        if state.observation != start.observation and not state.over:
            yield state


def shows_pages(lab: Lab, states: Iterable[LabState]) -> bool:
    """Check if offered names can nearly always be read from the last answer."""
    shown = [name.lower() in state.observation.lower() for state in states for name in lab.offered(state).names]
    return len(shown) >= MIN_NAMES and sum(shown) >= MIN_SHOWN * len(shown)


def breaks_between(lab: Lab, states: Iterable[LabState]) -> list[str]:
    """List the separators between parts, most frequent first; none contains another."""
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
    """Find the positions of names in a text, in order, longest first, without overlap."""
    longest = sorted({name.lower() for name in names if name}, key=lambda name: (-len(name), name))
    if not longest:
        return []
    pattern = r"(?<!\w)(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)"
    return [match.span() for match in re.finditer(pattern, text)]


def forms_by_kind(lab: Lab, states: Sequence[LabState], rng: random.Random) -> tuple[list[str], list[str]]:
    """Split single-slot forms into (accepting any words somewhere, accepting shown names)."""
    forms = {form for state in states for form in lab.offered(state).templates if form.count("{") == 1}
    free: list[str] = []
    closed: list[str] = []
    for form in sorted(forms):
        chosen = rng.sample(list(states), min(STRANGE, len(states)))
        accepted = sum(changes(lab, state, fill(form, [strange(rng)])) for state in chosen)
        (free if accepted >= MIN_FREE else closed).append(form)
    return free, closed


def strange(rng: random.Random) -> str:
    """Make up a word."""
    return "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(9))


def changes(lab: Lab, state: LabState, action: str) -> bool:
    """Check if an action leads to another page."""
    return lab.after(state, action).observation != state.observation


# ---------------------------------------------------------------- walk through pages


def tour(lab: Lab, offers: PageOffers, task_id: str, walks: WalkRecord, rng: random.Random) -> None:
    """Walk through a task, preferring rare actions, and try each new page."""
    state = lab.start(task_id)
    for _ in range(TOUR):
        keep(lab, offers, state, walks)
        actions = sorted(_open_ways(lab, offers, state, rng), key=lambda way: walks.done[way[0]])
        for kind, action in actions:
            after = lab.after(state, action)
            walks.done[kind] += 1
            if not after.over and after.observation != state.observation:
                state = after
                break
        else:
            return


def _open_ways(lab: Lab, offers: PageOffers, state: LabState, rng: random.Random) -> list[tuple[str, str]]:
    """List possible (kind, action) in random order; names shared by pages are kinds of their own."""
    ways = []
    for name in lab.offered(state).names:
        kind = name if name in offers.frame else shape(name)
        ways += [(f"{form} {kind}", fill(form, [name])) for form in offers.closed]
    words = re.findall(r"\w+", state.opening or lab.start(state.task_id).opening)
    for form in offers.free:
        start = rng.randrange(max(1, len(words) - 4))
        ways.append((form, fill(form, [" ".join(words[start : start + rng.randint(2, 5)])])))
    rng.shuffle(ways)
    return ways


def keep(lab: Lab, offers: PageOffers, state: LabState, walks: WalkRecord) -> None:
    """Try the parts of a page new in its task."""
    if state.over or (state.task_id, state.observation) in walks.texts:
        return
    walks.texts.add((state.task_id, state.observation))
    parts = offers.read(state.observation).parts
    if len(parts) >= MOST_PARTS:
        return
    offered = frozenset(name.lower() for name in lab.offered(state).names)
    accepted = {
        form: frozenset(
            index for index, part in enumerate(parts) if is_taken(lab, state, form, part, part.lower() in offered)
        )
        for form in offers.closed
    }
    moving = {
        parts[index].lower()
        for form, indices in accepted.items()
        for index in indices
        if changes(lab, state, fill(form, [parts[index]]))
    }
    walks.pages.append(PageSeen(state, parts, accepted, offered, frozenset(moving)))


def is_taken(lab: Lab, state: LabState, form: str, part: str, is_offered: bool) -> bool:
    """Check if a form accepts a part of a page, by its visible effect or, if offered, by a later effect."""
    after = lab.after(state, fill(form, [part]))
    if after.over or after.observation != state.observation:
        return True
    if not is_offered:
        return False
    later_actions = [fill(form, [name]) for name in lab.offered(state).names[:LATER]]
    return any(lab.after(after, later).observation != lab.after(state, later).observation for later in later_actions)


def takes_any_case(lab: Lab, pages: Sequence[PageSeen]) -> bool:
    """Check if names are accepted in other letter case, on all of up to `STRANGE` testable pages."""
    verdicts: list[bool] = []
    for page in pages:
        for form, indices in page.accepted.items():
            for index in sorted(indices):
                part = page.parts[index]
                has_effect = changes(lab, page.state, fill(form, [part]))
                if has_effect and part.swapcase() != part and len(verdicts) < STRANGE:
                    verdicts.append(changes(lab, page.state, fill(form, [part.swapcase()])))
                    break
    return bool(verdicts) and all(verdicts)


# ---------------------------------------------------------------- from pages that were tried out to rules

MIN_TASKS = 3
MIN_TIMES = 5
MIN_OPEN = 30
"""Tried parts before a region is called open or closed."""

MIN_TEXTS = 10
"""Different texts before a shape is learned."""

COMMON = 0.5
"""Share of tasks in which a text must be accepted to join the frame."""

MOST_EXCEPTIONS = 60
PAGES_FOR_WAYS = 12
"""Pages per frame from which steps are tried."""

SHIFTS = (-3, -2, -1, 1, 2, 3)
MIN_WORDS = 3
"""Minimum words of a part searched beside names; shorter ones occur on too many pages."""

MIN_RATE = 0.95


class PartTrial(NamedTuple):
    """Part of a page tried with a form."""

    task_id: str
    text: str
    features: tuple[str, ...]
    shape: str
    accepted: bool


def frame_texts(pages: Sequence[PageSeen]) -> list[str]:
    """List texts leading to other pages in many tasks, and wherever they stood alone."""
    tasks = len({page.task_id for page in pages})
    where: dict[str, set[str]] = defaultdict(set)
    idle: set[str] = set()
    for page in pages:
        idle.update(part.lower() for part in page.parts if part.lower() not in page.moving)
        for text in page.moving:
            where[text].add(page.task_id)
    common = (text for text, known in where.items() if len(known) >= COMMON * tasks and text not in idle)
    return sorted(common)[:MOST_FRAME]


def free_frames(lab: Lab, offers: PageOffers, form: str, pages: Sequence[PageSeen], rng: random.Random) -> list[str]:
    """List frames with pages on which a form accepts any words, as far as the next page shows."""
    known = {frame: pages for frame, pages in sampled(offers, pages).items() if len(pages) >= MIN_TIMES}
    return [
        frame
        for frame, pages in known.items()
        if len({page.task_id for page in pages}) >= MIN_TASKS
        and all(changes(lab, page.state, fill(form, [strange(rng)])) for page in pages)
    ]


def learn_named(offers: PageOffers, form: str, pages: Sequence[PageSeen]) -> NamedParts:
    """Learn what a form takes: texts always or never accepted, and its regions."""
    tried: dict[str, list[PartTrial]] = defaultdict(list)
    by_text: dict[str, list[PartTrial]] = defaultdict(list)
    lies: set[str] = set()
    for page in pages:
        read = offers.read(page.state.observation)
        for index, (text, region) in enumerate(zip(read.lower, read.regions, strict=True)):
            accepted = index in page.accepted[form]
            seen = PartTrial(
                page.task_id, text, tuple(features(read.lower, index)), shape(page.parts[index]), accepted
            )
            by_text[text].append(seen)
            tried[region].append(seen)
            lies |= {text} if text in page.offered and not accepted else set()
    sure = [text for text in offers.frame if by_text[text] and all(seen.accepted for seen in by_text[text])]
    often = [text for text in sorted(lies) if _often(by_text[text])]
    never = [text for text in often if not any(seen.accepted for seen in by_text[text])]
    regions = {
        key: learn_region([seen for seen in rows if seen.text not in sure and seen.text not in never])
        for key, rows in sorted(tried.items())
    }
    known = {key: region for key, region in regions.items() if region is not None}
    return NamedParts(sure=tuple(sure), never=tuple(never), regions=known)


def _often(rows: Sequence[PartTrial]) -> bool:
    """Check if there are enough rows and tasks."""
    return len(rows) >= MIN_TIMES and len({seen.task_id for seen in rows}) >= MIN_TASKS


def learn_region(rows: Sequence[PartTrial]) -> Region | None:
    """Learn which parts of a region can be named; None if nothing separates them from others."""
    if len(rows) < MIN_OPEN or len({seen.task_id for seen in rows}) < MIN_TASKS:
        return None
    exceptions = _exceptions(rows)
    if exceptions is not None:
        return Region(open="all", but=tuple(exceptions))
    shapes = tuple(_shapes(rows))
    if any(seen.accepted for seen in rows if seen.shape not in shapes):
        return Region(open="", shapes=shapes) if shapes else None
    return Region(shapes=shapes)


def _exceptions(rows: Sequence[PartTrial]) -> list[str] | None:
    """Find features of refused parts only, such that all others were accepted; None without any."""
    known: dict[str, list[PartTrial]] = defaultdict(list)
    for seen in rows:
        for feature in seen.features:
            known[feature].append(seen)
    usable = {feature for feature, rows in known.items() if _often(rows) and not any(seen.accepted for seen in rows)}
    left = [seen for seen in rows if not seen.accepted]
    chosen: list[str] = []
    while left and len(chosen) < MOST_EXCEPTIONS:
        counts = Counter(feature for seen in left for feature in seen.features if feature in usable)
        if not counts:
            return None
        best = min(counts, key=lambda feature: (-counts[feature], feature))
        chosen.append(best)
        left = [seen for seen in left if best not in seen.features]
    accepted = [seen for seen in rows if seen.accepted]
    enough = len(accepted) >= MIN_OPEN and len({seen.task_id for seen in accepted}) >= MIN_TASKS
    return sorted(chosen) if enough and not left else None


def _shapes(rows: Iterable[PartTrial]) -> list[str]:
    """List shapes of many different texts, all accepted."""
    by_shape: dict[str, list[PartTrial]] = defaultdict(list)
    for seen in rows:
        by_shape[seen.shape].append(seen)
    return sorted(
        shape
        for shape, having in by_shape.items()
        if all(seen.accepted for seen in having) and len({seen.text for seen in having}) >= MIN_TEXTS and _often(having)
    )


# ---------------------------------------------------------------- ways from page to page


def sampled(offers: PageOffers, pages: Iterable[PageSeen]) -> dict[str, list[PageSeen]]:
    """Sample pages of each frame, spread over tasks."""
    by_frame: dict[str, list[PageSeen]] = defaultdict(list)
    for page in pages:
        by_frame[offers.read(page.state.observation).frame].append(page)
    return {frame: known[:: -(-len(known) // PAGES_FOR_WAYS)] for frame, known in sorted(by_frame.items())}


def learn_steps(lab: Lab, offers: PageOffers, pages: Iterable[PageSeen]) -> list[NeedsPage]:
    """Learn names that a page does not show, and the name that leads to a page that accepts them."""
    rules: dict[tuple[str, str, str], NeedsPage] = {}
    for frame, known in sampled(offers, pages).items():
        for form in offers.closed if len({page.task_id for page in known}) >= MIN_TASKS else ():
            led, tries = _steps_from(lab, offers, form, known)
            ways = {way: count for way, count in sorted(led.items()) if count == tries[way[1]] and count >= MIN_TIMES}
            for wanted, step in sorted(ways, key=lambda way: (ways[way], way)):
                shown = f"of the usual parts only {frame.replace(' | ', ', ')} are" if frame else "no usual part is"
                text = f"`{fill(form, [wanted])}` needs `{fill(form, [step])}` first where {shown} shown"
                rules[frame, form, wanted] = NeedsPage(form=form, page=frame, name=wanted, step=step, text=text)
    return list(rules.values())


def _steps_from(
    lab: Lab, offers: PageOffers, form: str, pages: Sequence[PageSeen]
) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Count successful steps to a name, and tries of each step, for names of the frame as written on pages.

    Names that only revert the step do not count.
    """
    led: Counter[tuple[str, str]] = Counter()
    tries: Counter[str] = Counter()
    for page in pages:
        read = offers.read(page.state.observation)
        for step in offers.names(form, read):
            if step.lower() not in offers.frame:
                continue
            tries[step] += 1
            after = lab.after(page.state, fill(form, [step]))
            names = [] if after.over else offers.names(form, offers.read(after.observation))
            new = [name for name in names if name.lower() in offers.frame and name.lower() not in read.lower]
            led.update(
                (name, step)
                for name in new
                if lab.after(after, fill(form, [name])).observation != page.state.observation
            )
    return led, tries


def learn_beside(lab: Lab, offers: PageOffers, pages: Iterable[PageSeen]) -> list[NamedBeside]:
    """Learn, by form, the relative position of the name leading to a page with a part not nameable itself."""
    rules = []
    for form in offers.closed:
        hits: Counter[tuple[int, str]] = Counter()
        tries: Counter[tuple[int, str]] = Counter()
        for known in sampled(offers, pages).values():
            for page in known:
                for shift, region, led in leads(lab, offers, form, page):
                    tries[shift, region] += 1
                    hits[shift, region] += led
        good = [way for way in sorted(tries) if hits[way] >= MIN_TEXTS and hits[way] >= MIN_RATE * tries[way]]
        if good:
            shift = max(good, key=lambda way: hits[way])[0]
            regions = tuple(region for candidate, region in good if candidate == shift)
            parts = "the part" if abs(shift) == 1 else f"{abs(shift)} parts"
            where = f"is named by {parts} {'before' if shift < 0 else 'after'} it, where it takes that"
            text = f"What {form_in_words(form)} does not take {where}"
            rules.append(NamedBeside(form=form, shift=shift, regions=regions, text=text))
    return rules


def leads(lab: Lab, offers: PageOffers, form: str, page: PageSeen) -> list[tuple[int, str, bool]]:
    """List (shift, region, success) for unnameable parts and nearby names.

    Success: this name, and no other of its region, leads to a page with the part.
    """
    read = offers.read(page.state.observation)
    taken = [offers.takes(form, read, index) for index in range(len(read.parts))]
    names = [index for index, verdict in enumerate(taken) if verdict]
    page_parts: dict[int, tuple[str, ...]] = {}
    verdicts = []
    for index, part in enumerate(read.parts):
        near = [shift for shift in SHIFTS if index + shift in names]
        if len(part.split()) < MIN_WORDS or not near or taken[index] is not False:
            continue
        for number in names:
            if number not in page_parts:
                after = lab.after(page.state, fill(form, [read.parts[number]]))
                page_parts[number] = offers.read(after.observation).parts
        for shift in near:
            like = [number for number in names if read.regions[number] == read.regions[index + shift]]
            peers = [number for number in like if read.parts[number] != read.parts[index + shift]]
            if peers:
                led = part in page_parts[index + shift] and not any(part in page_parts[number] for number in peers)
                verdicts.append((shift, read.regions[index], led))
    return verdicts


# ---------------------------------------------------------------- rules in words


def form_in_words(form: str) -> str:
    """Write a form with a letter for its slot."""
    return f"`{fill(form, ['X'])}`"


# ---------------------------------------------------------------- what was learned of pages, on trial

NAMES = "names"
MIN_TESTS = 10
MIN_PRECISION = 0.99
MIN_BESIDE = 0.9


def stands(evidence: Evidence) -> bool:
    """Check if a rule held often enough."""
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_PRECISION


def verify_offers(
    lab: Lab, offers: PageOffers, pages: Sequence[PageSeen], trials: TrialCounts, rng: random.Random
) -> PageOffers:
    """Return offers without what pages of fresh tasks refute."""
    closed = {}
    for form, rule in offers.closed.items():
        by_region = TrialCounts()
        _try_names(offers, form, pages, by_region, by_region=True)
        regions = {key: region for key, region in rule.regions.items() if stands(by_region.of(key))}
        closed[form] = rule.model_copy(update={"regions": regions})
    offers = offers.model_copy(update={"closed": closed})
    for form in closed:
        _try_names(offers, form, pages, trials)
    free = {form: _proved_free(lab, offers, form, pages, rng) for form in offers.free}
    return offers.model_copy(update={"free": free})


def _try_names(
    offers: PageOffers, form: str, pages: Sequence[PageSeen], trials: TrialCounts, *, by_region: bool = False
) -> None:
    """Test what a form takes on the parts of pages; `by_region`: each region, except texts known individually."""
    alone = {*offers.closed[form].sure, *offers.closed[form].never}
    for page in pages:
        read = offers.read(page.state.observation)
        for index, part in enumerate(read.parts):
            verdict = offers.takes(form, read, index)
            if verdict is None or (by_region and read.lower[index] in alone):
                continue
            passed = verdict == (index in page.accepted[form])
            claim = read.regions[index] if by_region else NAMES
            trials.count(claim, page.task_id, "" if passed else f"{page.task_id}: {fill(form, [part])}")


def _proved_free(
    lab: Lab, offers: PageOffers, form: str, pages: Sequence[PageSeen], rng: random.Random
) -> tuple[str, ...]:
    """List frames with pages on which a form accepts made-up words on fresh tasks too."""
    frames = {frame: known for frame, known in sampled(offers, pages).items() if frame in offers.free[form]}
    actions = {frame: [(page, fill(form, [strange(rng)])) for page in known] for frame, known in frames.items()}
    return tuple(
        frame for frame, tries in actions.items() if all(changes(lab, page.state, action) for page, action in tries)
    )


def _step_stands(
    lab: Lab, offers: PageOffers, rule: NeedsPage, pages: Iterable[PageSeen], trials: TrialCounts
) -> bool:
    """Try a step on the pages of its frame."""
    for page in pages:
        after = lab.after(page.state, fill(rule.form, [rule.step]))
        passed = not after.over and rule.name in offers.names(rule.form, offers.read(after.observation))
        trials.count(rule.text, page.task_id, "" if passed else f"{page.task_id}: {fill(rule.form, [rule.name])}")
    evidence = trials.of(rule.text)
    return evidence.support >= MIN_TESTS // 2 and not evidence.refuted


def _beside_stands(
    lab: Lab, offers: PageOffers, rule: NamedBeside, pages: Iterable[PageSeen], trials: TrialCounts
) -> bool:
    """Try on pages whether names beside parts lead to what these tell of."""
    for page in pages:
        for shift, region, led in leads(lab, offers, rule.form, page):
            if shift == rule.shift and region in rule.regions:
                trials.count(rule.text, page.task_id, "" if led else f"{page.task_id}: {page.parts[0]}")
    evidence = trials.of(rule.text)
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_BESIDE


# ---------------------------------------------------------------- the probe's analysis of silent pages

LOOKED_AT = 5
"""Episodes examined to detect pages."""

REPLAYED = 80
"""States examined from the agents' episodes."""


def is_silent(lab: Lab, failed: Sequence[Trajectory]) -> bool:
    """Check if the engine shows pages with all offers and answered many actions with the same page.

    The states after other first actions are examined too, since an agent may never leave the first text.
    """
    if not is_often_silent(failed) or not lab.offered(lab.start(failed[0].task_id)).templates:
        return False
    if not shows_pages(lab, replay_states(lab, failed[:LOOKED_AT])):
        return False
    tasks = dict.fromkeys(trajectory.task_id for trajectory in failed[:LOOKED_AT])
    second = [state for task_id in tasks for state in one_step_on(lab, task_id)]
    return not second or shows_pages(lab, second)


def analyze(
    lab: Lab,
    failed: Sequence[Trajectory],
    before: RuleSet | None,
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> list[Misalignment]:
    """Learn from walks through failed tasks beyond `before`, and verify on fresh tasks.

    Earlier results are not tested again. Empty if the nameable parts could not be verified.
    """
    tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
    untouched = [task_id for task_id in fresh if task_id not in tasks]
    learned_from, kept_back = [*tasks, *untouched[::2]], untouched[1::2]
    offers, walks = _surveyed(lab, failed, learned_from, rng, say)
    offers = offers.model_copy(update={"frame": tuple(frame_texts(walks.pages))})
    free = {form: tuple(free_frames(lab, offers, form, walks.pages, rng)) for form in offers.free}
    closed = {form: learn_named(offers, form, walks.pages) for form in offers.closed}
    any_case = takes_any_case(lab, walks.pages)
    offers = offers.model_copy(update={"free": free, "closed": closed, "any_case": any_case})
    steps, beside = learn_steps(lab, offers, walks.pages), learn_beside(lab, offers, walks.pages)
    say(f"{len(walks.pages)} pages tried out ({lab.steps} engine steps so far)")
    tests, trials = WalkRecord(), TrialCounts()
    with suppress(BudgetSpentError):
        for number, task_id in enumerate(kept_back, 1):
            tour(lab, offers, task_id, tests, rng)
            say(f"testing on fresh tasks: {number} of {len(kept_back)}")
    offers = verify_offers(lab, offers, tests.pages, trials, rng)
    frames = sampled(offers, tests.pages)
    every = [page for pages in frames.values() for page in pages]
    steps = [rule for rule in steps if _step_stands(lab, offers, rule, frames.get(rule.page, ()), trials)]
    beside = [rule for rule in beside if _beside_stands(lab, offers, rule, every, trials)]
    say(f"{len(tests.pages)} pages of fresh tasks tried out ({lab.steps} engine steps so far)")
    if before is None and not (offers.closed and stands(trials.of(NAMES))):
        return []
    known = {rule.text for rule in before.rules} if before is not None else set()
    learned: list[NamedBeside | NeedsPage] = [*beside, *steps]
    new = [rule for rule in learned if rule.text not in known]
    first = [_about_names(offers, failed, trials)] if before is None else []
    return [*first, *(_about_rule(rule, failed[0].task_id, trials) for rule in new)]


def _surveyed(
    lab: Lab, failed: Sequence[Trajectory], tasks: Sequence[str], rng: random.Random, say: Callable[[str], None]
) -> tuple[PageOffers, WalkRecord]:
    """Learn separators and forms, and try the pages of walks through the tasks."""
    states = list(replay_states(lab, failed))
    states = rng.sample(states, min(REPLAYED, len(states)))
    free, closed = forms_by_kind(lab, states, rng)
    offered = [name.lower() for state in states for name in {*lab.offered(state).names}]
    offers = PageOffers(
        breaks=tuple(breaks_between(lab, states)),
        free=dict.fromkeys(free, ()),
        closed=dict.fromkeys(closed, NamedParts()),
        frame=tuple(sorted(name for name in {*offered} if offered.count(name) >= len(tasks) / 2)[:MOST_FRAME]),
    )
    walks = WalkRecord()
    for state in states:
        keep(lab, offers, state, walks)
    for number, task_id in enumerate(tasks, 1):
        tour(lab, offers, task_id, walks, rng)
        say(f"walking through pages: task {number} of {len(tasks)}")
    return offers, walks


# ---------------------------------------------------------------- what is reported

SILENCE_IN_WORDS = "An action that is not understood is answered with the page as it was, and with no word"
"""First rule."""


def _about_names(offers: PageOffers, failed: Sequence[Trajectory], trials: TrialCounts) -> Misalignment:
    """Report the first finding: silent refusals, and nameable parts by page."""
    task_id, action = find_silenced(failed)[0]
    free = [f"{form_in_words(form)} takes any words, in this form" for form in offers.free]
    alone = "takes only what stands alone on the page, as it is written there"
    closed = [f"{form_in_words(form)} {alone}" for form in offers.closed]
    return report(
        f"{SILENCE_IN_WORDS}; {'; '.join([*free, *closed])}",
        (task_id, action),
        trials.of(NAMES),
        RuleSet(pages=offers),
        kind="any action that is not understood",
        intent="learn what came of the action",
        feedback="say that the action did nothing, and what is near it that is possible on this page",
    )


def _about_rule(rule: NamedBeside | NeedsPage, task_id: str, trials: TrialCounts) -> Misalignment:
    """Report a part named by another part, or a name a step away on another page."""
    action, intent, feedback = rule.form, "come to what the part tells of", "name the part that leads there"
    kind = f"{form_in_words(rule.form)} with a part that cannot be named"
    if isinstance(rule, NeedsPage):
        kind, action = form_in_words(rule.form), fill(rule.form, [rule.name])
        intent, feedback = f"`{action}` at once", f"you need to `{fill(rule.form, [rule.step])}` first"
    return report(
        rule.text,
        (task_id, action),
        trials.of(rule.text),
        RuleSet(rules=(rule,)),
        kind=kind,
        intent=intent,
        feedback=feedback,
    )
