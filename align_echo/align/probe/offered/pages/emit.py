"""Interface source from what was learned of pages, and its rules in words."""

from __future__ import annotations

from typing import Any

from align_echo.align.probe.emit import assembled
from align_echo.align.probe.offered.pages import runtime
from align_echo.interface import InterfaceContract

SILENCE_IN_WORDS = "An action that is not understood is answered with the page as it was, and with no word"
"""The first rule."""


def form_in_words(form: str) -> str:
    """A form with a letter for its place."""
    return f"`{runtime.fill(form, 'X')}`"


def closed_in_words(form: str) -> str:
    """The rule about a form that takes what the page shows."""
    return f"{form_in_words(form)} takes only what stands alone on the page, as it is written there"


def free_in_words(form: str) -> str:
    """The rule about a form that takes any words."""
    return f"{form_in_words(form)} takes any words, in this form"


def step_in_words(form: str, wanted: str, step: str, shown: str) -> str:
    """The rule about a name that other pages show; `shown` are the usual parts of the page, in a row."""
    usual = shown.replace(" | ", ", ")
    where = f"where of the usual parts only {usual} are shown" if shown else "where no usual part is shown"
    return f"`{runtime.fill(form, wanted)}` needs `{runtime.fill(form, step)}` first {where}"


def beside_in_words(form: str, shift: int) -> str:
    """The rule about a part that is named by another one."""
    side = "before" if shift < 0 else "after"
    parts = "the part" if abs(shift) == 1 else f"{abs(shift)} parts"
    return f"What {form_in_words(form)} does not take is named by {parts} {side} it, where it takes that"


def source(spec: dict[str, Any], contract: InterfaceContract) -> str:
    """The whole interface as Python source under a contract.

    Up front it tells nothing: every rule is told on the page where it matters, and what is written there in letters
    (`press X`) is copied as it stands by small models.
    """
    layout = contract.layout
    functions = f"""\
def InferRules({", ".join(contract.infer_rules_args)}):
    return ''


def WrapStep({", ".join(contract.wrap_step_args)}):
    if not hasattr(env, 'page'):
        env.page = {contract.wrap_step_args[1]}
    {layout.call}
    seen, *rest = {layout.returned}
    advice = advise(SPEC, seen, agent_action) if seen.strip() == env.page.strip() else ''
    env.page = seen
    return (seen + '\\n' + advice if advice else seen), *rest"""
    return assembled(spec, contract, runtime, functions)
