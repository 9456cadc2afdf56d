"""Probe for silent pages: misalignments from failures, and an interface from misalignments.

It keeps no state between iterations; earlier results are read from the interface.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.emit import assemble_source
from align_echo.align.probe.examinations import TrialCounts
from align_echo.align.probe.lab import Lab, find_silenced, is_often_silent
from align_echo.align.probe.offered.pages import runtime
from align_echo.align.probe.offered.pages.learn import (
    PageSeen,
    Spec,
    WalkRecord,
    breaks_between,
    changes,
    closed_rule,
    forms_by_kind,
    frame_texts,
    free_frames,
    keep,
    leads,
    learn_beside,
    learn_steps,
    one_step_on,
    replay_states,
    sampled,
    shows_pages,
    strange,
    takes_any_case,
    tour,
)
from align_echo.interface.contract import InterfaceContract
from align_echo.types import Evidence, Misalignment, Trajectory

# ---------------------------------------------------------------- what was learned of pages, on trial

NAMES, STEPS, BESIDE, FREE = "names", "steps", "beside ", "free "
MIN_TESTS = 10
MIN_PRECISION = 0.99


def stands(evidence: Evidence) -> bool:
    """Check if a rule held often enough."""
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_PRECISION


def verify_rules(lab: Lab, spec: Spec, pages: Sequence[PageSeen], rng: random.Random) -> tuple[Spec, TrialCounts]:
    """Remove rules refuted by pages of fresh tasks and return the remaining spec with its trials."""
    trials = TrialCounts()
    retained = {form: {**rule, "regions": {}} for form, rule in spec["closed"].items()}
    for form, rule in spec["closed"].items():
        by_region = _region_trials(spec, form, pages)
        for key, region in rule["regions"].items():
            if stands(by_region.of(key)):
                retained[form]["regions"][key] = region
    spec = {**spec, "closed": retained}
    _try_names(spec, pages, trials)
    free = {form: _proved_free(lab, spec, form, pages, rng, trials) for form in spec["free"]}
    steps = _proved_steps(lab, spec, pages, trials)
    return {**spec, "free": free, "steps": steps, "beside": _proved_beside(lab, spec, pages, trials)}, trials


def _region_trials(spec: Spec, form: str, pages: Sequence[PageSeen]) -> TrialCounts:
    """Test each region's rule on its parts, except texts known individually."""
    trials = TrialCounts()
    rule = spec["closed"][form]
    for page in pages:
        lower = [part.lower() for part in page.parts]
        for index, part in enumerate(page.parts):
            if part.lower() not in rule["sure"] and part.lower() not in rule["never"]:
                key = runtime.region_of(spec, lower, index)
                _hold(trials, key, page, form, index, runtime.named(spec, form, list(page.parts), index))
    return trials


def _hold(trials: TrialCounts, claim: str, page: PageSeen, form: str, index: int, verdict: str) -> None:
    """Count a rule's verdict on a part; a rule without a verdict is not tested."""
    if verdict:
        passed = (verdict == "yes") == (index in page.accepted[form])
        example = runtime.fill(form, page.parts[index])
        trials.count(claim, page.task_id, "" if passed else f"{page.task_id}: {example}")


def _try_names(spec: Spec, pages: Sequence[PageSeen], trials: TrialCounts) -> None:
    """Test the combined verdict of all proved rules on the parts of pages."""
    for page in pages:
        for form in spec["closed"]:
            for index in range(len(page.parts)):
                _hold(trials, NAMES, page, form, index, runtime.named(spec, form, list(page.parts), index))


def _proved_free(
    lab: Lab, spec: Spec, form: str, pages: Sequence[PageSeen], rng: random.Random, trials: TrialCounts
) -> list[str]:
    """List frames with pages on which a form accepts made-up words on fresh tasks too."""
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


def _proved_steps(lab: Lab, spec: Spec, pages: Sequence[PageSeen], trials: TrialCounts) -> Spec:
    proved_ways: Spec = {}
    for frame, known in sampled(spec, pages).items():
        for form, ways in spec["steps"].get(frame, {}).items():
            for wanted, step in sorted(ways.items()):
                claim = step_claim(frame, form, wanted)
                for page in known:
                    after = lab.after(page.state, runtime.fill(form, step))
                    names = runtime.possible(spec, form, runtime.parts_of(spec, after.observation))
                    passed = not after.over and wanted in names
                    trials.count(claim, page.task_id, "" if passed else f"{page.task_id}: {runtime.fill(form, wanted)}")
                if trials.of(claim).support >= MIN_TESTS // 2 and not trials.of(claim).refuted:
                    proved_ways.setdefault(frame, {}).setdefault(form, {})[wanted] = step
    return proved_ways


def step_claim(frame: str, form: str, wanted: str) -> str:
    """Return the claim name for trials of a step."""
    return f"{STEPS} {frame} / {form} / {wanted}"


def _proved_beside(lab: Lab, spec: Spec, pages: Sequence[PageSeen], trials: TrialCounts) -> dict[str, Any]:
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


# ---------------------------------------------------------------- write the interface's source

SILENCE_IN_WORDS = "An action that is not understood is answered with the page as it was, and with no word"
"""First rule."""


def form_in_words(form: str) -> str:
    """Write a form with a letter for its slot."""
    return f"`{runtime.fill(form, 'X')}`"


def closed_in_words(form: str) -> str:
    """Write the rule about a form accepting names on the page."""
    return f"{form_in_words(form)} takes only what stands alone on the page, as it is written there"


def free_in_words(form: str) -> str:
    """Write the rule about a form accepting any words."""
    return f"{form_in_words(form)} takes any words, in this form"


def step_in_words(form: str, wanted: str, step: str, parts: str) -> str:
    """Write the rule about a name on other pages; `parts` joins the usual parts of the page."""
    usual = parts.replace(" | ", ", ")
    where = f"where of the usual parts only {usual} are shown" if parts else "where no usual part is shown"
    return f"`{runtime.fill(form, wanted)}` needs `{runtime.fill(form, step)}` first {where}"


def beside_in_words(form: str, shift: int) -> str:
    """Write the rule about a part named by another part."""
    side = "before" if shift < 0 else "after"
    parts = "the part" if abs(shift) == 1 else f"{abs(shift)} parts"
    return f"What {form_in_words(form)} does not take is named by {parts} {side} it, where it takes that"


def source(spec: dict[str, Any], contract: InterfaceContract) -> str:
    """Build the interface source under a contract.

    The rules text is empty: each rule is given on the page where it matters, because small models copy placeholders
    like `press X` literally.
    """
    layout = contract.layout
    functions = f"""\
def InferRules({", ".join(contract.infer_rules_args)}):
    return ''


def WrapStep({", ".join(contract.wrap_step_args)}):
    if not hasattr(env, 'page'):
        env.page = {contract.wrap_step_args[1]}
    {layout.call}
    seen, *rest = {layout.returned}
    advice = advise(SPEC, seen, agent_action) if seen.strip() == env.page.strip() else ''
    env.page = seen
    return (seen + '\\n' + advice if advice else seen), *rest"""
    return assemble_source(spec, contract, runtime, functions)


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


def is_page_spec(spec: Spec | None) -> bool:
    """Check if a spec was learned from pages."""
    return spec is not None and "breaks" in spec


def analyze(
    lab: Lab,
    failed: Sequence[Trajectory],
    before: Spec | None,
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
    spec, walks = _surveyed(lab, failed, learned_from, rng, say)
    spec = {**spec, "frame": frame_texts(walks.pages)}
    spec["free"] = {form: free_frames(lab, spec, form, walks.pages, rng) for form in spec["free"]}
    spec["closed"] = {form: closed_rule(spec, form, walks.pages) for form in spec["closed"]}
    spec["any_case"] = takes_any_case(lab, walks.pages)
    spec["steps"] = learn_steps(lab, spec, walks.pages)
    spec["beside"] = learn_beside(lab, spec, walks.pages)
    say(f"{len(walks.pages)} pages tried out ({lab.steps} engine steps so far)")
    tests = WalkRecord()
    with suppress(BudgetSpentError):
        for number, task_id in enumerate(kept_back, 1):
            tour(lab, spec, task_id, tests, rng)
            say(f"testing on fresh tasks: {number} of {len(kept_back)}")
    spec, trials = verify_rules(lab, spec, tests.pages, rng)
    say(f"{len(tests.pages)} pages of fresh tasks tried out ({lab.steps} engine steps so far)")
    if before is None and not (spec["closed"] and stands(trials.of(NAMES))):
        return []
    return [
        *_about_names(before, spec, failed, trials),
        *_about_beside(before, spec, failed, trials),
        *_about_steps(before, spec, failed, trials),
    ]


def _surveyed(
    lab: Lab, failed: Sequence[Trajectory], tasks: Sequence[str], rng: random.Random, say: Callable[[str], None]
) -> tuple[Spec, WalkRecord]:
    """Learn separators and forms, and try the pages of walks through the tasks."""
    states = list(replay_states(lab, failed))
    states = rng.sample(states, min(REPLAYED, len(states)))
    free, closed = forms_by_kind(lab, states, rng)
    offered = [name.lower() for state in states for name in {*lab.offered(state).names}]
    spec: Spec = {
        "uninformative": [],
        "breaks": breaks_between(lab, states),
        "free": free,
        "closed": dict.fromkeys(closed),
        "frame": sorted(name for name in {*offered} if offered.count(name) >= len(tasks) / 2),
    }
    walks = WalkRecord()
    for state in states:
        keep(lab, spec, state, walks)
    for number, task_id in enumerate(tasks, 1):
        tour(lab, spec, task_id, walks, rng)
        say(f"walking through pages: task {number} of {len(tasks)}")
    return spec, walks


def apply_detail(spec: Spec | None, detail: dict[str, Any]) -> Spec:
    """Apply a misalignment's detail to a spec."""
    if "pages" in detail:
        old = spec or {"steps": {}, "beside": {}}
        return {**detail["pages"], "steps": old["steps"], "beside": old["beside"]}
    assert spec is not None, "the pages come first"
    if "beside" in detail:
        return {**spec, "beside": {**spec["beside"], **detail["beside"]}}
    steps = {frame: {form: dict(ways) for form, ways in forms.items()} for frame, forms in spec["steps"].items()}
    for frame, form, wanted, step in detail["steps"]:
        steps.setdefault(frame, {}).setdefault(form, {})[wanted] = step
    return {**spec, "steps": steps}


# ---------------------------------------------------------------- what is reported


def _about_names(
    before: Spec | None, spec: Spec, failed: Sequence[Trajectory], trials: TrialCounts
) -> Iterable[Misalignment]:
    """Report the first finding: silent refusals, and nameable parts by page."""
    if before is not None:
        return
    turns = find_silenced(failed)
    task_id, action = turns[0]
    forms = [*map(free_in_words, spec["free"]), *map(closed_in_words, spec["closed"])]
    yield Misalignment(
        task_id=task_id,
        action_type="any action that is not understood",
        action=action,
        intent="learn what came of the action",
        rule=f"{SILENCE_IN_WORDS}; {'; '.join(forms)}",
        sufficient_feedback="say that the action did nothing, and what is near it that is possible on this page",
        evidence=trials.of(NAMES),
        detail=json.dumps({"pages": {**spec, "steps": {}, "beside": {}}}),
    )


def _about_beside(
    before: Spec | None, spec: Spec, failed: Sequence[Trajectory], trials: TrialCounts
) -> Iterable[Misalignment]:
    """Report parts named by another part."""
    for form, rule in spec["beside"].items():
        if before is None or form not in before["beside"]:
            yield Misalignment(
                task_id=failed[0].task_id,
                action_type=f"{form_in_words(form)} with a part that cannot be named",
                action=form,
                intent="come to what the part tells of",
                rule=beside_in_words(form, rule["shift"]),
                sufficient_feedback="name the part that leads there",
                evidence=trials.of(BESIDE + form),
                detail=json.dumps({"beside": {form: rule}}),
            )


def _about_steps(
    before: Spec | None, spec: Spec, failed: Sequence[Trajectory], trials: TrialCounts
) -> Iterable[Misalignment]:
    """Report names a step away on another page."""
    for frame, forms in spec["steps"].items():
        for form, ways in forms.items():
            for wanted, step in ways.items():
                known = before["steps"].get(frame, {}).get(form, {}) if before is not None else {}
                evidence = trials.of(step_claim(frame, form, wanted))
                if wanted not in known:
                    yield _about_step(failed[0].task_id, frame, form, wanted, step, evidence)


def _about_step(task_id: str, frame: str, form: str, wanted: str, step: str, evidence: Evidence) -> Misalignment:
    return Misalignment(
        task_id=task_id,
        action_type=form_in_words(form),
        action=form.replace("{0}", wanted),
        intent=f"`{form.replace('{0}', wanted)}` at once",
        rule=step_in_words(form, wanted, step, frame),
        sufficient_feedback=f"you need to `{form.replace('{0}', step)}` first",
        evidence=evidence,
        detail=json.dumps({"steps": [(frame, form, wanted, step)]}),
    )
