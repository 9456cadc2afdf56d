"""Interface source from what was learned on offered vocabulary, and its rules in words."""

from __future__ import annotations

from typing import Any

from align_echo.align.probe.emit import assembled
from align_echo.align.probe.offered import runtime
from align_echo.interface import InterfaceContract


def form_in_words(form: str, template: str) -> str:
    """One misworded form as a sentence."""
    return f"Write `{runtime.letters(template)}` instead of `{runtime.letters(form)}`"


def reach_in_words(travel: str) -> str:
    """The rule about things that are elsewhere."""
    way = runtime.fill(travel, ["the place where it was seen"])
    return f"An action is refused when a thing it names is not in sight here: `{way}` first"


BARE_IN_WORDS = "A thing is named by the words that the engine has for it, without any others around them"
"""The rule about names with further words."""


def sure_in_words(templates: list[str]) -> str:
    """The rule about forms that take any name at hand."""
    return "Whatever is in sight can be named in " + runtime.listed(templates)


def rules_text(spec: dict[str, Any]) -> str:
    """What `InferRules` tells an agent up front."""
    lines = ["Learned by experiment in this environment:"]
    lines.append("- These forms are understood: " + runtime.listed(spec["always"]))
    rare = [template for template in spec["templates"] if template not in spec["always"]]
    if rare:
        lines.append("- Some tasks understand these too: " + runtime.listed(rare))
    if spec["sure"]:
        lines.append(f"- {sure_in_words(spec['sure'])}")
    for text in spec["uninformative"]:
        lines.append(f'- "{text}" means that the action was refused; it does not say why')
    lines += [f"- {form_in_words(form, template)}" for form, template in sorted(spec["forms"].items())]
    if spec["travel"]:
        lines.append(f"- {reach_in_words(spec['travel'])}")
        lines.append("- Places: " + ", ".join(spec["places"]))
    if spec["bare"]:
        lines.append(f"- {BARE_IN_WORDS}")
    if spec["views"]:
        lines.append("- What is in sight: " + ", ".join(f"`{view}`" for view in spec["views"]))
    return "\n".join(lines)


def source(spec: dict[str, Any], contract: InterfaceContract) -> str:
    """The whole interface as Python source under a contract."""
    layout = contract.layout
    first, task = contract.wrap_step_args[1:3]
    functions = f"""\
def InferRules({", ".join(contract.infer_rules_args)}):
    return {rules_text(spec)!r}


def WrapStep({", ".join(contract.wrap_step_args)}):
    if not hasattr(env, 'history'):
        env.history = new_history({first} + '\\n' + {task})
        watch(SPEC, env.history, [{layout.view} for view in SPEC['views']])
    {layout.call}
    seen, *rest = {layout.returned}
    read_text(env.history, seen)
    if seen.strip() in SPEC['uninformative']:
        advice = advise(SPEC, env.history, agent_action)
        return (seen + ' ' + advice).strip(), *rest
    if not asks(seen):
        watch(SPEC, env.history, [{layout.view} for view in SPEC['views']])
    return seen, *rest"""
    return assembled(spec, contract, runtime, functions)
