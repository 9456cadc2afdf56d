"""align-echo: agents that act in environments, the interfaces between them, and learning from both."""

from align_echo.critic.language import Critique, CritiqueForm
from align_echo.interface.contract import Interface, load_interface
from align_echo.rollout.refusals import consecutive_invalid_share
from align_echo.rollout.session import Session
from align_echo.types import Misalignment, Step, Trajectory
from align_echo.version import __version__ as __version__
from align_echo.wrappers.catalogue import make, make_vec, register, register_with_gymnasium, tasks
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.plain import TextEnvironment

register_with_gymnasium()

__all__ = [
    "Critique",
    "CritiqueForm",
    "EnvironmentSpec",
    "Interface",
    "Misalignment",
    "Session",
    "Step",
    "TextEnvironment",
    "Trajectory",
    "consecutive_invalid_share",
    "load_interface",
    "make",
    "make_vec",
    "register",
    "tasks",
]
