"""At desks whose refusals have many causes in one sentence, the sign of ids and the order of steps are both found."""

from __future__ import annotations

import json
from functools import cache
from typing import NamedTuple

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.interface.contract import Interface, identity
from align_echo.rollout.batches import run_tasks
from align_echo.types import Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv
from studies.foreign.messages import count_messages
from tests import ticket_env
from tests.ticket_env import Clerk, Desk, environment

pytestmark = pytest.mark.long

TRAIN, FRESH, HELD = ([*map(str, range(*ends))] for ends in ((0, 16), (100, 116), (150, 180)))


class Learned(NamedTuple):
    """What a desk's interface says, and how to play under it."""

    interface: Interface
    wordings: dict[str, str]
    edits: set[tuple[str, str]]
    needs: set[tuple[str, str]]
    world: type[Desk]

    def play(self, interface: Interface) -> list[Trajectory]:
        def make() -> AlignWrapper:
            return AlignWrapper(make_env(self.world, self.world.limit), interface)

        return run_tasks(make, Clerk(self.world), HELD, split="train")


def make_env(world: type[Desk], limit: int) -> TextEnv:
    return environment(world).spec("desk").make_env(split="train", data_root=None, step_limit=limit)


@cache
def learned(name: str) -> Learned:
    world: type[Desk] = getattr(ticket_env, name)
    played = run_tasks(lambda: make_env(world, world.limit), Clerk(world), TRAIN, split="train")
    backend = ProbeBackend(lambda: make_env(world, 10**6), FRESH, action_format=world.format)
    none = identity(make_env(world, 1).contract)
    found = backend.analyze(played, [], none)
    rules = [rule for each in found for rule in json.loads(each.detail)["ruleset"]["rules"]]
    wordings = {rule["form"]: rule["edit"].get("detail", "") for rule in rules if rule["kind"] == "say_instead"}
    edits = {(rule["form"], rule["edit"]["kind"]) for rule in rules if rule["kind"] == "say_instead"}
    needs = {(rule["form"], rule["step"]) for rule in rules if rule["kind"] == "needs_first"}
    return Learned(backend.optimize(found, none), wordings, edits, needs, world)


WORDED = {
    "Desk": (("open {0}", "tag {0} {1}", "close {0}"), "#{}"),
    "Bracketed": (("read {0}", "mark {0} {1}", "finish {0}"), "[{}]"),
    "Called": (("open", "tag", "close"), "#{}"),
    "Lettered": (("open {0}", "tag {0} {1}", "close {0}"), "T{}"),
}
ORDERED = WORDED | {
    "Bay": (("", "pack {0}", "ship {0}"), ""),
    "Reshowing": (("open {0}", "tag {0} {1}", ""), ""),
}


@pytest.mark.parametrize("name", WORDED)
def test_the_sign_of_an_id_is_found_though_the_action_lacks_a_step_too(name: str):
    forms, sign = WORDED[name]
    assert learned(name).wordings == dict.fromkeys(forms, sign)


def test_a_sign_that_no_text_shows_a_list_and_a_step_are_found_together():
    assert {("open", "sign"), ("tag", "sign"), ("tag", "list")} <= learned("Listed").edits
    assert ("tag", "open") in learned("Listed").needs


@pytest.mark.parametrize("name", ORDERED)
def test_the_order_of_steps_is_found(name: str):
    (first, then, last), _ = ORDERED[name]
    assert learned(name).needs == {pair for pair in ((then, first), (last, then)) if "" not in pair}


@pytest.mark.parametrize("name", ORDERED)
def test_who_heeds_the_messages_wins_by_them(name: str):
    known = learned(name)
    placebo = known.interface.model_copy(update={"placebo": True})
    won, neutral = (sum(episode.won for episode in known.play(each)) for each in (known.interface, placebo))
    assert won > neutral, (won, neutral)


@pytest.mark.parametrize("name", [*ORDERED, "Listed"])
def test_no_message_is_false(name: str):
    known = learned(name)
    count = count_messages(environment(known.world).spec("desk"), "train", known.interface, known.play(known.interface))
    assert (count.counts["false"], count.examples) == (0, [])
    assert count.counts["true"] > 15
