"""A page that comes back is no proof that an action took effect: neither to the learner nor to the audit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.evaluate.audit.audit import Auditor
from align_echo.evaluate.audit.speakers import Said, SpeakerState
from align_echo.interface.contract import Interface, Provenance, identity
from align_echo.interface.rules.model import load_rules
from align_echo.interface.rules.rule_file import source
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.text_env import TextEnv
from tests.quay_env import UNKNOWN, Reshown, environment

TRAIN, FRESH = ([*map(str, range(*ends))] for ends in ((0, 20), (20, 45)))
PLAIN = ("post {0}", "stamp {0}", "post #{0}", "stamp #{0}", "weigh {0}")
RIGHT = ("weigh #{0}", "stamp #{0}", "post #{0}")


class Clerk:
    """Works by the book in some tasks; in others it leaves out signs, and forgets the order."""

    name = "clerk"

    def act(self, view: AgentView) -> AgentReply:
        parcel = view.initial_observation.rpartition("#")[2].strip(".")
        plan = RIGHT if int(view.task_id) % 3 == 0 else PLAIN
        action = plan[len(view.turns) % len(plan)].format(parcel)
        return AgentReply(text=action, action=action)


def stamps_at_once(scene: SpeakerState, count: int) -> Iterator[Said]:
    for parcel in ["#amber", "#beryl", "#coral"][:count]:
        yield "stamp", f"stamp {parcel}"


def make(limit: int) -> TextEnv:
    return environment(Reshown, limit).spec("quay").make_env(split="train", data_root=None, step_limit=limit)


@pytest.mark.long
def test_the_order_of_steps_is_found_beside_pages_that_come_back():
    played = run_tasks(lambda: make(Reshown.limit), Clerk(), TRAIN, split="train")
    backend = ProbeBackend(lambda: make(10**6), FRESH, action_format=Reshown.format)
    found = backend.analyze(played, [], identity(make(1).contract))
    rules = [rule for each in found for rule in json.loads(each.detail)["ruleset"]["rules"]]
    assert {rule["edit"]["kind"] for rule in rules if rule["kind"] == "say_instead"} <= {"sign"}
    needs = [(rule["form"], rule["step"]) for rule in rules if rule["kind"] == "needs_first"]
    assert {("stamp {0}", "weigh {0}"), ("post {0}", "stamp {0}")} <= {*needs}


def test_an_order_that_only_shows_an_earlier_page_again_is_found_false():
    forms = [{"text": text} for text in ("weigh {0}", "stamp {0}", "post {0}", "book")]
    wrong = {
        "kind": "say_instead",
        "form": "stamp {0}",
        "answers": [UNKNOWN],
        "edit": {"kind": "article", "slot": 0, "detail": "the"},
        "text": 'In `stamp X`, X is written with "the"',
    }
    rules = load_rules({"forms": forms, "names": ["#amber"], "refusals": {"stamp {0}": [UNKNOWN]}, "rules": [wrong]})
    env = make(10**6)
    written = Interface(
        name="said",
        source=source(rules, env.contract),
        contract=env.contract,
        provenance=Provenance(environment="quay", backend="probe"),
    )
    auditor = Auditor(env, written, lambda text: text == UNKNOWN)
    for task_id in TRAIN[:6]:
        auditor.play(task_id, turns=4, speaker=stamps_at_once)
    assert auditor.findings.told[str(wrong["text"])][0] == 0
    assert auditor.findings.wrong > 0
