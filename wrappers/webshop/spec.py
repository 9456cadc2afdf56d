"""Static facts about WebShop, without its catalogue: splits, action format, interface contract.

There is no test of invalid actions: the engine answers them with the unchanged page.
"""

from __future__ import annotations

from align_echo.interface.contract import InterfaceContract

SPLITS = {
    "test": (0, 500),
    "eval": (500, 1500),
    "train": (1500, None),
    "align_test": (0, 50),
    "align_train": (50, 200),
}
"""Split -> first goal and the goal after the last. The first three are WebShop's own, the last two ALIGN's."""

MODES = ("text", "text_rich")

ACTION_FORMAT = """\
One action a turn, written exactly in one of these forms:
search[{words to look for}] | click[{a button, a product's code or an option that the page shows}]"""

CONTRACT = InterfaceContract(
    environment="webshop",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="triple",
)

STEP_LIMIT = 30


def task_type(task_id: str) -> str:
    """Read the kind of goal from `<kind>-<index>`: "goal" (written by a person) or "synthetic"."""
    return task_id.partition("-")[0]
