"""Static facts about MiniWoB, without a browser: splits, action forms, interface contract, invalid actions."""

from __future__ import annotations

from align_echo.errors import install_line
from align_echo.interface import InterfaceContract
from align_echo.wrappers.gui.actions import ACTION_FORMAT as ACTIONS

ACTION_FORMAT = f"""\
One action a turn, written exactly in one of these forms (the screen is 160 pixels wide and 210 high):
{ACTIONS}
In a text, \\n presses Enter, \\t Tab and \\b Backspace."""

CONTRACT = InterfaceContract(
    environment="miniwob",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="single",
)

STEP_LIMIT = 30

REFUSAL = "Refused: "

INSTALL_CHROMIUM = "apt-get install --no-install-recommends chromium chromium-driver fonts-liberation"
INSTALL = f"{install_line('miniwob')}, and {INSTALL_CHROMIUM}"


def is_invalid(observation: str) -> bool:
    """Check if the action was refused: malformed, off the screen, or without meaning here."""
    return observation.startswith(REFUSAL)


def task_type(task_id: str) -> str:
    """Return the page's name, the first part of a task id."""
    return task_id.partition("/")[0]


def has_expert(task_id: str) -> bool:
    """Check if there is an expert for the task's page."""
    from align_echo.wrappers.miniwob.tasks import WITH_EXPERT

    return task_type(task_id) in WITH_EXPERT
