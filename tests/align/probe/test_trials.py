"""A rule on trial is refuted by a step that is of no use, however well what it says afterwards works."""

from __future__ import annotations

import copy

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.emit import read_spec
from align_echo.align.probe.examinations import obey
from align_echo.align.probe.lab import Lab
from align_echo.interface.contract import identity
from align_echo.rollout.batches import run_tasks
from tests.align.probe.test_probe import Fumbler
from tests.station_env import CONTRACT, REFUSED, TASK_IDS, StationEnv

FETCH = "fetch {0} out {1}"
SEAL_FIRST = {"if": [["not", ["here", 1, "board {0}"]]], "sure": True, "then": ["seal {0}", [["active", 1, 0]], False]}
"""Before something is fetched elsewhere, what was unsealed last is to be sealed: it does no harm and is of no use."""


@pytest.fixture(scope="module")
def spec():
    played = run_tasks(StationEnv, Fumbler(), TASK_IDS[:6], split="train")
    backend = ProbeBackend(lambda: StationEnv(step_limit=10**6), TASK_IDS[6:], seed=3)
    misalignments = backend.analyze([episode for episode in played if not episode.won], [], identity(CONTRACT))
    return read_spec(backend.optimize(misalignments, identity(CONTRACT)).source)


@pytest.fixture
def lab() -> Lab:
    lab = Lab(StationEnv(step_limit=10**6))
    lab.refusals = [REFUSED]
    return lab


@pytest.fixture
def away(lab):
    """Before another pod than that of gem 1, which was seen and left behind sealed; with how it is fetched."""
    home = next(pod for pod in (2, 3, 4, 5) if f"fetch gem 1 out pod {pod}" in opened(lab, pod).admissible)
    seen = [f"board deck {home}", f"unseal pod {home}", f"seal pod {home}", "board deck 1", "unseal pod 1"]
    return lab.follow(TASK_IDS[7], seen), f"fetch gem 1 out pod {home}"


def opened(lab, pod: int):
    return lab.follow(TASK_IDS[7], [f"board deck {pod}", f"unseal pod {pod}"])


@pytest.mark.long
def test_steps_that_are_needed_pass(lab, away, spec):
    state, action = away
    verdict = obey(lab, spec, state, action)
    assert verdict is not None
    assert verdict.wrong == ""


@pytest.mark.long
def test_a_step_that_the_others_do_without_is_refuted_though_the_action_works_in_the_end(lab, away, spec):
    state, action = away
    misled = copy.deepcopy(spec)
    misled["templates"][FETCH].insert(0, SEAL_FIRST)
    verdict = obey(lab, misled, state, action)
    assert verdict is not None
    assert verdict.wrong == "said seal pod 1, which was not needed"


@pytest.mark.long
def test_a_step_after_which_nothing_is_said_has_to_bring_the_action_nearer(lab, away, spec):
    state, action = away
    misled = copy.deepcopy(spec)
    misled["templates"][FETCH] = [SEAL_FIRST]
    verdict = obey(lab, misled, state, action)
    assert verdict is not None
    assert verdict.wrong == "said seal pod 1, which leads nowhere"
