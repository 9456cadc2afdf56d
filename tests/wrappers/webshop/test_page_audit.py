"""The audit of what an interface says of silent pages sees each kind of false claim."""

from __future__ import annotations

import pytest

from align_echo.interface.contract import Interface, Provenance
from tests.menu_env import CONTRACT, TASK_IDS, MenuEnv
from tests.wrappers.webshop.page_audit import PageAudit

SOURCE = """
def InferRules(init_obs, task):
    return ''


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, reward, done, info = env.step(agent_action)
    return obs + {says!r}, reward, done
"""


def counted(says: str, *actions: str) -> tuple[dict[str, int], dict[str, int]]:
    """(right, wrong) claims of an interface that always says the same."""
    provenance = Provenance(environment="menu", backend="test")
    source = SOURCE.format(says=says)
    interface = Interface(name="x", source=source, contract=CONTRACT, provenance=provenance)
    audit = PageAudit(MenuEnv(10**6), interface)
    audit.begin(TASK_IDS[0])
    for action in actions:
        audit.say(action)
    return dict(audit.right), dict(audit.wrong)


@pytest.mark.parametrize(
    ("says", "right", "wrong"),
    [
        ("`zebra` is not understood; write `seek: stew` instead.", {"did nothing": 1, "instead": 1}, {}),
        ("`zebra` is not understood; write `tap <Order>` instead.", {"did nothing": 1}, {"instead": 1}),
        ("`tap <Home>` does not work yet: you need to `seek: a` first.", {"did nothing": 1, "first": 1}, {}),
        ("`tap <Order>` does not work yet: you need to `seek: a` first.", {"did nothing": 1}, {"first": 1}),
        ("`tap <X>` takes here: Home | Seek.", {"did nothing": 1}, {"name in a row": 2}),
    ],
)
def test_what_is_false_is_counted_as_false(says: str, right: dict[str, int], wrong: dict[str, int]):
    assert counted(says, "zebra") == (right, wrong)


def test_a_message_after_an_action_that_was_taken_is_false():
    assert counted("`seek: a` is not understood; write `seek: b` instead.", "seek: a")[1]["did nothing"] == 1
