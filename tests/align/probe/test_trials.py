"""A rule on trial is refuted by a step that is of no use, however well what it says afterwards works."""

from __future__ import annotations

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.findings import obey
from align_echo.align.probe.lab import Lab
from align_echo.interface.contract import identity
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.model import SituationRule, load_rules
from align_echo.rollout.batches import run_tasks
from tests.align.probe.test_probe import Fumbler
from tests.station_env import CONTRACT, REFUSED, TASK_IDS, StationEnv
from tests.worlds.measure import lists_of

FETCH = "fetch {0} out {1}"
SEAL_FIRST = load_rules(
    {
        "rules": [
            {
                "kind": "needs_step",
                "form": FETCH,
                "when": [["not", ["here", 1, "board {0}"]]],
                "step": ["seal {0}", [["active", "unseal {0}", "seal {0}", 0]]],
            }
        ]
    }
).rules[0]
"""Before something is fetched elsewhere, what was unsealed last is to be sealed: it does no harm and is of no use."""


@pytest.fixture(scope="module")
def lists() -> DecisionLists:
    played = run_tasks(StationEnv, Fumbler(), TASK_IDS[:6], split="train")
    backend = ProbeBackend(lambda: StationEnv(step_limit=10**6), TASK_IDS[6:], seed=3)
    misalignments = backend.analyze([episode for episode in played if not episode.won], [], identity(CONTRACT))
    lists = lists_of(backend.optimize(misalignments, identity(CONTRACT)).source)
    assert lists is not None
    return lists


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
def test_steps_that_are_needed_pass(lab, away, lists):
    state, action = away
    verdict = obey(lab, lists, state, action)
    assert verdict is not None
    assert verdict.wrong == ""


@pytest.mark.long
def test_a_step_that_the_others_do_without_is_refuted_though_the_action_works_in_the_end(lab, away, lists):
    state, action = away
    misled = DecisionLists(lists.vocabulary, [SEAL_FIRST, *lists.rules])
    verdict = obey(lab, misled, state, action)
    assert verdict is not None
    assert verdict.wrong == "said seal pod 1, which was not needed"


@pytest.mark.long
def test_a_step_after_which_nothing_is_said_has_to_bring_the_action_nearer(lab, away, lists):
    state, action = away
    others = [rule for rule in lists.rules if not isinstance(rule, SituationRule) or rule.form != FETCH]
    misled = DecisionLists(lists.vocabulary, [SEAL_FIRST, *others])
    verdict = obey(lab, misled, state, action)
    assert verdict is not None
    assert verdict.wrong == "said seal pod 1, which leads nowhere"
