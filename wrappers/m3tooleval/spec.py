"""What M3ToolEval is, without its tasks: families, splits, the forms of an action, the interface contract, refusals.

Left out: upstream's form in which an agent writes Python that is run.
"""

from __future__ import annotations

from align_echo.interface import InterfaceContract

FAMILIES = {
    "message_decoder": 8,
    "cryptobotanists_plant_dna_sequencer": 8,
    "trade_calculator": 17,
    "travel_itinerary_planning": 15,
    "web_browsing": 34,
}
"""Family -> how many of the 82 tasks are of it. A family's index is what interface code is told as `task_type_idx`."""

SPLITS = ("train", "test", "align_train", "align_test")

ENGINES = ("text", "json", "text_strict", "json_strict")
"""How a call is written; with `_strict`, answers are checked as upstream checks them."""

STEP_LIMIT = 10
"""Turns of an episode, upstream's own limit."""

LONGEST_OUTPUT = 2_000
"""Characters of a tool's output that are shown."""

ACTION_FORMAT = """\
A turn calls one of the tools that the task's first message lists, or gives the final answer, which ends the task:
Action: {call} End Action | Answer: {answer}
A call is written as the first message shows. The answer stands alone, without explanation or unit."""

LOOK = "Action: view End Action"
"""Shows the present page of the web family once more; the other families have no such tool and say so."""

CONTRACT = InterfaceContract(
    environment="m3tooleval",
    infer_rules_args=("task_name", "task_type_idx"),
    wrap_step_args=("env", "task_name", "instruction", "agent_action", "logger"),
    step_layout="triple",
    read_only_actions=(LOOK,),
)

NO_TURN = "This turn is not valid: "
NO_TOOL = "There is no tool named "
FAILED = "The call failed: "


def is_invalid(observation: str) -> bool:
    """The engine refused the action: it was no turn, named no tool that there is, or the tool could not take it."""
    return observation.startswith((NO_TURN, NO_TOOL, FAILED))


def task_type(task_id: str) -> str:
    """The family, which a task id begins with."""
    return task_id.partition("/")[0]
