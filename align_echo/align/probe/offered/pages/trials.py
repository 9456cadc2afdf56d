"""What was learned of pages, on trial: on tasks that it was not learned from.

Each rule says which parts of a page a form takes, or what leads to a name. A rule stands after so many tests that it
passed; a region that failed too many is not spoken of.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from align_echo.align.probe.lab import Lab
from align_echo.align.probe.offered.pages import runtime
from align_echo.align.probe.offered.pages.learn import leads, sampled
from align_echo.align.probe.offered.pages.survey import PageSeen, Spec, changes, strange
from align_echo.align.probe.trials import Trials
from align_echo.types import Evidence

NAMES, STEPS, BESIDE, FREE = "names", "steps", "beside ", "free "
MIN_TESTS = 10
MIN_PRECISION = 0.99


def stands(evidence: Evidence) -> bool:
    """Whether a rule held often enough."""
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_PRECISION


def proved(lab: Lab, spec: Spec, pages: Sequence[PageSeen], rng: random.Random) -> tuple[Spec, Trials]:
    """The spec without what the pages of fresh tasks refute, and the trials of the rest."""
    trials = Trials()
    kept = {form: {**rule, "regions": {}} for form, rule in spec["closed"].items()}
    for form, rule in spec["closed"].items():
        by_region = _region_trials(spec, form, pages)
        for key, region in rule["regions"].items():
            if stands(by_region.of(key)):
                kept[form]["regions"][key] = region
    spec = {**spec, "closed": kept}
    _try_names(spec, pages, trials)
    free = {form: _proved_free(lab, spec, form, pages, rng, trials) for form in spec["free"]}
    steps = _proved_steps(lab, spec, pages, trials)
    return {**spec, "free": free, "steps": steps, "beside": _proved_beside(lab, spec, pages, trials)}, trials


def _region_trials(spec: Spec, form: str, pages: Sequence[PageSeen]) -> Trials:
    """What each region's rule said of the parts in it, texts that are known by themselves left out."""
    trials = Trials()
    rule = spec["closed"][form]
    for page in pages:
        lower = [part.lower() for part in page.parts]
        for index, part in enumerate(page.parts):
            if part.lower() not in rule["sure"] and part.lower() not in rule["never"]:
                key = runtime.region_of(spec, lower, index)
                _hold(trials, key, page, form, index, runtime.named(spec, form, list(page.parts), index))
    return trials


def _hold(trials: Trials, claim: str, page: PageSeen, form: str, index: int, verdict: str) -> None:
    """Count what a rule said of one part; a rule that said nothing is not tried."""
    if verdict:
        held = (verdict == "yes") == (index in page.taken[form])
        example = runtime.fill(form, page.parts[index])
        trials.count(claim, page.task_id, "" if held else f"{page.task_id}: {example}")


def _try_names(spec: Spec, pages: Sequence[PageSeen], trials: Trials) -> None:
    """All that the proved rules say of the parts of pages, together."""
    for page in pages:
        for form in spec["closed"]:
            for index in range(len(page.parts)):
                _hold(trials, NAMES, page, form, index, runtime.named(spec, form, list(page.parts), index))


def _proved_free(
    lab: Lab, spec: Spec, form: str, pages: Sequence[PageSeen], rng: random.Random, trials: Trials
) -> list[str]:
    """The frames on whose pages a form took made-up words on fresh tasks too."""
    frames = []
    for frame, known in sampled(spec, pages).items():
        if frame in spec["free"][form]:
            actions = [(page, runtime.fill(form, strange(rng))) for page in known]
            refused = [f"{page.task_id}: {action}" for page, action in actions if not changes(lab, page.state, action)]
            if not refused:
                frames.append(frame)
            for number, (page, _) in enumerate(actions):
                trials.count(FREE + form, page.task_id, refused[number] if number < len(refused) else "")
    return frames


def _proved_steps(lab: Lab, spec: Spec, pages: Sequence[PageSeen], trials: Trials) -> Spec:
    proved_ways: Spec = {}
    for frame, known in sampled(spec, pages).items():
        for form, ways in spec["steps"].get(frame, {}).items():
            for wanted, step in sorted(ways.items()):
                claim = step_claim(frame, form, wanted)
                for page in known:
                    after = lab.after(page.state, runtime.fill(form, step))
                    names = runtime.possible(spec, form, runtime.parts_of(spec, after.observation))
                    held = not after.over and wanted in names
                    trials.count(claim, page.task_id, "" if held else f"{page.task_id}: {runtime.fill(form, wanted)}")
                if trials.of(claim).support >= MIN_TESTS // 2 and not trials.of(claim).refuted:
                    proved_ways.setdefault(frame, {}).setdefault(form, {})[wanted] = step
    return proved_ways


def step_claim(frame: str, form: str, wanted: str) -> str:
    """What the trials of a step are counted under."""
    return f"{STEPS} {frame} / {form} / {wanted}"


def _proved_beside(lab: Lab, spec: Spec, pages: Sequence[PageSeen], trials: Trials) -> dict[str, Any]:
    proved_ways = {}
    for form, rule in spec["beside"].items():
        claim = BESIDE + form
        for known in sampled(spec, pages).values():
            for page in known:
                for shift, region, led in leads(lab, spec, form, page):
                    if shift == rule["shift"] and region in rule["regions"]:
                        trials.count(claim, page.task_id, "" if led else f"{page.task_id}: {page.parts[0]}")
        evidence = trials.of(claim)
        if evidence.support >= MIN_TESTS and evidence.precision >= 0.9:
            proved_ways[form] = rule
    return proved_ways
