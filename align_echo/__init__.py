"""align-echo: agents that act in environments, the interfaces between them, and learning from both."""

from align_echo.evaluate.metrics import consecutive_invalid_share
from align_echo.interface import Interface, load_interface
from align_echo.types import Misalignment, Step, Trajectory
from align_echo.wrappers.catalogue import make, make_vec, register, tasks

__version__ = "0.1.0"

register()

__all__ = [
    "Interface",
    "Misalignment",
    "Step",
    "Trajectory",
    "consecutive_invalid_share",
    "load_interface",
    "make",
    "make_vec",
    "tasks",
]
