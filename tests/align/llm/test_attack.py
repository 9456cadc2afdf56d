"""Findings of the llm backend are attacked: what withstands in three tasks is a rule, what does not is narrowed."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from align_echo.align.experiments import Simulator
from align_echo.align.llm.backend import Analyzer
from align_echo.align.llm.replies import LlmSettings
from align_echo.interface.contract import Interface, identity
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import run_tasks
from align_echo.types import Message, Misalignment
from align_echo.wrappers.catalogue import environment
from tests.align.hybrid.test_refutation import Sealer
from tests.align.room_world import operation

HALF = "after sealing nothing else can be done"
NARROW = "after sealing the parcel cannot be weighed"


def found(rule: str, cites: str = "") -> str:
    """A finding about the desk."""
    return (
        "<misalignments><misalignment><task_id>0</task_id><action_type>weigh</action_type><action>weigh</action>"
        f"<intent>weigh it</intent><rule>{rule}</rule><sufficient_feedback>Too late.</sufficient_feedback>"
        f"<kind>new-logic</kind>{cites}</misalignment></misalignments>"
    )


def trials(*tools: str, sees: str, tasks: Sequence[str] = ("0", "1", "2")) -> list[dict[str, object]]:
    return [{"claim": 1, "task": task, "actions": tools, "sees": sees} for task in tasks]


def analysed(
    attacks: Sequence[object], narrower: str = "<misalignments>none</misalignments>"
) -> tuple[list[Misalignment], str]:
    """What is left of a half-true finding, and the notes."""
    spec = environment("tests.desk_env:PLAIN")
    moves = [operation("init_simulator", "0"), operation("execute_agent_action", "seal")]
    moves += [operation("execute_agent_action", "weigh"), found(HALF, "<support>3</support><refuted></refuted>")]
    own, left = [found(HALF), *moves, narrower], [json.dumps(attack) for attack in attacks]

    def answer(messages: Sequence[Message]) -> str:
        return (left if messages[0].content.startswith("Somebody makes claims") else own).pop(0)

    def new_simulator(interface: Interface, failures: object) -> Simulator:
        return Simulator(
            lambda chosen: spec.make("train", interface=chosen),
            Sealer(str),
            interface,
            split="train",
            action_format=spec.action_format,
        )

    notes: list[str] = []
    analyzer = Analyzer(
        ScriptedModel(answer),
        LlmSettings(),
        action_format=spec.action_format,
        new_simulator=new_simulator,
        gold=lambda task_id: (),
        other_tasks=lambda: ["1", "2", "3"],
        note=notes.append,
    )
    failed = run_tasks(lambda: spec.make("train"), Sealer(str), ["0"], split="train")
    return analyzer.analyze(failed, (), identity(spec.contract)), "\n".join(notes)


def test_a_half_true_finding_is_narrowed_and_then_confirmed() -> None:
    second = [*trials("label", "seal", "weigh", sees="too late"), *trials("label", "weigh", sees="pounds")]
    (finding,), notes = analysed([trials("seal", "label", sees="refused"), second], found(NARROW))
    assert finding.rule == NARROW
    assert (finding.evidence.attacked, finding.evidence.support) == (3, 6)
    assert f"refuted by a counter-experiment: weigh: {HALF} (0: seal | label: 'refused' is not seen in" in notes
    assert "after 3 experiments in 1 task of its own" in notes


def test_a_half_true_finding_that_is_not_narrowed_is_dropped() -> None:
    findings, _ = analysed([trials("seal", "label", sees="refused")])
    assert findings == []


@pytest.mark.parametrize("tasks", [(), ("0",), ("0", "1")])
def test_a_finding_that_withstood_in_fewer_tasks_is_worded_as_seen(tasks: Sequence[str]) -> None:
    attack = [*trials("seal", "weigh", sees="too late", tasks=tasks), *trials("weigh", sees="pounds", tasks=tasks)]
    (finding,), _ = analysed([attack])
    count = "2 tasks" if len(tasks) == 2 else "1 task"
    assert finding.rule == f"Seen in {count}, not shown to be a rule: {HALF}"
    assert finding.evidence.attacked == 0
