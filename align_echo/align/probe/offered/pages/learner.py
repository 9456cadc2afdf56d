"""The probe's analysis of silent pages: from failures to misalignments, and from misalignments to an interface.

It keeps no state between iterations: what was learned before is read back from the interface.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from align_echo.align.probe.lab import Lab
from align_echo.align.probe.offered.pages import emit
from align_echo.align.probe.offered.pages.learn import (
    closed_rule,
    frame_texts,
    free_frames,
    learn_beside,
    learn_steps,
)
from align_echo.align.probe.offered.pages.survey import (
    Spec,
    Walks,
    breaks_between,
    forms_by_kind,
    keep,
    one_step_on,
    replayed,
    shows_pages,
    takes_any_case,
    tour,
)
from align_echo.align.probe.offered.pages.trials import BESIDE, NAMES, proved, stands, step_claim
from align_echo.align.probe.silence import is_often_silent, silenced
from align_echo.align.probe.trials import Trials
from align_echo.types import Evidence, Misalignment, Trajectory

LOOKED_AT = 5
"""Episodes that tell whether an engine shows pages."""

REPLAYED = 80
"""States of the agents' own episodes that are looked at."""


def is_silent(lab: Lab, failed: Sequence[Trajectory]) -> bool:
    """Whether the engine shows pages with all that it offers, and answered many actions with the page as it was. Since
    an agent may have got no further than the first text, what other actions lead to from there is looked at too."""
    if not is_often_silent(failed) or not lab.offered(lab.start(failed[0].task_id)).templates:
        return False
    if not shows_pages(lab, replayed(lab, failed[:LOOKED_AT])):
        return False
    tasks = dict.fromkeys(trajectory.task_id for trajectory in failed[:LOOKED_AT])
    second = [state for task_id in tasks for state in one_step_on(lab, task_id)]
    return not second or shows_pages(lab, second)


def is_of_pages(spec: Spec | None) -> bool:
    """Whether an interface's spec was learned from pages."""
    return spec is not None and "breaks" in spec


def analyze(
    lab: Lab,
    failed: Sequence[Trajectory],
    before: Spec | None,
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> list[Misalignment]:
    """What walks through the failed tasks teach beyond `before`, proved on fresh tasks; what was learned before is not
    tried again. Empty if it could not be proved what can be named on a page."""
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
    tests = Walks()
    for number, task_id in enumerate(kept_back, 1):
        tour(lab, spec, task_id, tests, rng)
        say(f"testing on fresh tasks: {number} of {len(kept_back)}")
    spec, trials = proved(lab, spec, tests.pages, rng)
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
) -> tuple[Spec, Walks]:
    """The separators and forms, and the pages of walks through the tasks, tried out."""
    states = list(replayed(lab, failed))
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
    walks = Walks()
    for state in states:
        keep(lab, spec, state, walks)
    for number, task_id in enumerate(tasks, 1):
        tour(lab, spec, task_id, walks, rng)
        say(f"walking through pages: task {number} of {len(tasks)}")
    return spec, walks


def resolved(spec: Spec | None, detail: dict[str, Any]) -> Spec:
    """A spec with one misalignment's detail worked in."""
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


# ---------------------------------------------------------------- findings


def _about_names(
    before: Spec | None, spec: Spec, failed: Sequence[Trajectory], trials: Trials
) -> Iterable[Misalignment]:
    """The first finding: refused actions are answered by silence, and what can be named on which page."""
    if before is not None:
        return
    turns = silenced(failed)
    task_id, action = turns[0]
    forms = [*map(emit.free_in_words, spec["free"]), *map(emit.closed_in_words, spec["closed"])]
    yield Misalignment(
        task_id=task_id,
        action_type="any action that is not understood",
        action=action,
        intent="learn what came of the action",
        rule=f"{emit.SILENCE_IN_WORDS}; {'; '.join(forms)}",
        sufficient_feedback="say that the action did nothing, and what is near it that is possible on this page",
        evidence=trials.of(NAMES),
        detail=json.dumps({"pages": {**spec, "steps": {}, "beside": {}}}),
    )


def _about_beside(
    before: Spec | None, spec: Spec, failed: Sequence[Trajectory], trials: Trials
) -> Iterable[Misalignment]:
    """Parts of a page that are named by another part."""
    for form, rule in spec["beside"].items():
        if before is None or form not in before["beside"]:
            yield Misalignment(
                task_id=failed[0].task_id,
                action_type=f"{emit.form_in_words(form)} with a part that cannot be named",
                action=form,
                intent="come to what the part tells of",
                rule=emit.beside_in_words(form, rule["shift"]),
                sufficient_feedback="name the part that leads there",
                evidence=trials.of(BESIDE + form),
                detail=json.dumps({"beside": {form: rule}}),
            )


def _about_steps(
    before: Spec | None, spec: Spec, failed: Sequence[Trajectory], trials: Trials
) -> Iterable[Misalignment]:
    """Names that another page shows, a step away."""
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
        action_type=emit.form_in_words(form),
        action=form.replace("{0}", wanted),
        intent=f"`{form.replace('{0}', wanted)}` at once",
        rule=emit.step_in_words(form, wanted, step, frame),
        sufficient_feedback=f"you need to `{form.replace('{0}', step)}` first",
        evidence=evidence,
        detail=json.dumps({"steps": [(frame, form, wanted, step)]}),
    )
