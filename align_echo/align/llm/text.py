"""How misalignments, rules and expert plays are put into words for the prompts."""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.align.experiments import clip
from align_echo.interface import Interface
from align_echo.types import Misalignment


def interface_values(interface: Interface, action_format: str) -> dict[str, object]:
    """The values of `shared/interface`."""
    return {
        "environment": interface.contract.environment,
        "action_format": action_format,
        "signature": interface.contract.signature,
        "step_usage": step_usage(interface),
        "source": interface.source.strip(),
    }


def step_usage(interface: Interface) -> str:
    """How interface code calls the environment under its contract, and what `WrapStep` returns."""
    layout = interface.contract.layout
    note = ", with lists of one" if interface.contract.step_layout == "batched" else ""
    return (
        f"The environment is called as `{layout.call}`{note}; "
        f"WrapStep returns `{layout.returned}`, the first of which is the text that the agent will read."
    )


def looks_usage(interface: Interface) -> str:
    """What interface code may send to the environment besides the agent's own action."""
    looks = interface.contract.read_only_actions
    if not looks:
        return "There is no action that only looks: whatever is not the agent's own action is refused."
    return f"It may send these at any time to look without acting: {', '.join(looks)}. Every other action is refused."


def misalignments_text(misalignments: Sequence[Misalignment]) -> str:
    """A list for a prompt; "none" if it is empty."""
    return "\n".join(f"- {_misalignment_text(misalignment)}" for misalignment in misalignments) or "none"


def numbered_text(misalignments: Sequence[Misalignment]) -> str:
    """The same with numbers from 1 to name them by."""
    return "\n".join(
        f"{number}. {_misalignment_text(misalignment)}" for number, misalignment in enumerate(misalignments, start=1)
    )


def rules_text(interface: Interface) -> str:
    """What earlier iterations built into an interface; "nothing yet" if it is the identity."""
    return "\n".join(f"- {rule.text}" for rule in interface.provenance.rules) or "nothing yet"


def gold_text(played: Sequence[tuple[str, str]], limit: int) -> str:
    """An expert's way through a task; empty if there is none."""
    return clip("\n".join(f"Action: {action}\nObservation: {seen}" for action, seen in played), limit)


def _misalignment_text(misalignment: Misalignment) -> str:
    return (
        f"{misalignment.action_type} (task {misalignment.task_id}, e.g. {misalignment.action!r}; {misalignment.kind})\n"
        f"  intent: {misalignment.intent}\n  rule: {misalignment.rule}\n"
        f"  sufficient feedback: {misalignment.sufficient_feedback}"
    )
