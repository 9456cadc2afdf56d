"""Findings of the probe as misalignments, with their rules as data."""

from __future__ import annotations

import json

from align_echo.interface.rules.model import RuleSet, dump, load_rules
from align_echo.types import Evidence, Misalignment


def rules_in(detail: str) -> RuleSet | None:
    """Return the rules in a misalignment's detail; None if it has none."""
    data = json.loads(detail).get("ruleset")
    return None if data is None else load_rules(data)


WRONG = "Not so: "
"""Beginning of a finding that a rule is wrong."""


def report(
    rule: str,
    example: tuple[str, str],
    evidence: Evidence,
    learned: RuleSet | None,
    *,
    kind: str,
    intent: str = "",
    feedback: str,
    dropped: str = "",
) -> Misalignment:
    """Report what was learned; `dropped` is the text of a rule that is left out from now on."""
    task_id, action = example
    return Misalignment(
        task_id=task_id,
        action_type=kind,
        action=action,
        intent=intent or f"`{action}`",
        rule=rule,
        sufficient_feedback=feedback,
        kind="bug-of-current" if learned is None else "new-logic",
        evidence=evidence,
        detail=json.dumps({"dropped": dropped} if learned is None else {"ruleset": dump(learned)}),
    )
