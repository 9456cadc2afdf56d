"""Static facts about M3ToolEval, without its tasks: families, splits, forms of an action, interface contract, refusals.

Upstream's form of action, in which an agent writes Python code to run, is not supported.
"""

from __future__ import annotations

from align_echo.interface.contract import InterfaceContract

FAMILIES = {
    "message_decoder": 8,
    "cryptobotanists_plant_dna_sequencer": 8,
    "trade_calculator": 17,
    "travel_itinerary_planning": 15,
    "web_browsing": 34,
}
"""Family -> its number of tasks among the 82. Interface code receives a family's index as `task_type_idx`."""

SPLITS = ("train", "test", "align_train", "align_test")

ENGINES = ("text", "json", "text_strict", "json_strict")
"""Form of a call; with `_strict`, answers are checked as upstream checks them."""

STEP_LIMIT = 10
"""Turns of an episode, upstream's own limit."""

LONGEST_OUTPUT = 2_000
"""Visible characters of a tool's output."""

ACTION_FORMAT = """\
A turn calls one of the tools that the task's first message lists, or gives the final answer, which ends the task:
Action: {call} End Action | Answer: {answer}
A call is written as the first message shows. The answer stands alone, without explanation or unit."""

LOOK = "Action: view End Action"
"""Shows the present page of the web family again; the other families report that they have no such tool."""

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
    """Check if the engine refused the action: malformed turn, unknown tool, or arguments the tool could not take."""
    return observation.startswith((NO_TURN, NO_TOOL, FAILED))


def task_type(task_id: str) -> str:
    """Return the family, the first part of a task id."""
    return task_id.partition("/")[0]
