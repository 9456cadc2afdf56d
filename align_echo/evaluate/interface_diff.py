r"""Compare two interfaces of one environment: their rules text, their rules and evidence, their source.

The rules text of both is generated in the sandbox for the first task of the test split. Text of an interface is
untrusted: control characters are escaped (`\\x1b`). Not here: the effect of the difference, which needs episodes
(`align-echo evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

import gymnasium as gym

from align_echo.errors import AlignEchoError, InterfaceError
from align_echo.interface.contract import Interface, RuleRecord
from align_echo.types import Frozen
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.environment import EnvironmentSpec

FACTS = ("backend", "agent", "models", "seed", "iterations", "engine_steps", "unresolved")
"""Compared facts of the generation of two interfaces, besides their rules."""


class InterfaceDiff(Frozen):
    """Differences of two interfaces; empty if there are none. `told` (the rules text) and `source` are unified diffs,
    `facts` are lines about the generation and the record of hints, `changed` has pairs (before, after) of rules with
    the same text; `one_sided`: only one of the two has rules on record (a file edited or written by hand has none).
    `not_told` says why the rules text was not compared, "" if it was.
    """

    before: str
    after: str
    told: tuple[str, ...] = ()
    not_told: str = ""
    facts: tuple[str, ...] = ()
    only_before: tuple[RuleRecord, ...] = ()
    only_after: tuple[RuleRecord, ...] = ()
    changed: tuple[tuple[RuleRecord, RuleRecord], ...] = ()
    one_sided: bool = False
    source: tuple[str, ...] = ()

    @property
    def without_record(self) -> str:
        """Return the interface without rules on record if the other has some; "" otherwise."""
        return "" if not self.one_sided else self.before if self.only_after else self.after

    @property
    def is_empty(self) -> bool:
        """Return whether the two are the same, as far as they were compared."""
        return not (self.told or self.facts or self.only_before or self.only_after or self.changed or self.source)


def diff_interfaces(
    spec: EnvironmentSpec, before: Interface, after: Interface, data_root: str | Path | None = None
) -> InterfaceDiff:
    """Compare `after` with `before`."""
    names = before.label, after.label
    old = {rule.text: rule for rule in before.provenance.rules}
    new = {rule.text: rule for rule in after.provenance.rules}
    rules_diff: tuple[str, ...] = ()
    problem = ""
    try:
        first, second = _rules_texts(spec, (before, after), data_root)
        rules_diff = _unified(first, second, *names)
    except AlignEchoError as error:
        problem = str(error)
    return InterfaceDiff(
        before=names[0],
        after=names[1],
        told=rules_diff,
        not_told=problem,
        facts=tuple(_facts(_provenance_facts(before), _provenance_facts(after))),
        only_before=tuple(rule for text, rule in old.items() if text not in new),
        only_after=tuple(rule for text, rule in new.items() if text not in old),
        changed=tuple((rule, new[text]) for text, rule in old.items() if text in new and rule != new[text]),
        one_sided=bool(old) != bool(new),
        source=_unified(before.source, after.source, *names),
    )


def diff_lines(diff: InterfaceDiff) -> Iterator[str]:
    """Write a difference as lines for a terminal."""
    if diff.not_told:
        yield f"told up front: not compared, {visible(diff.not_told)}"
    if diff.is_empty:
        yield f"identical: {visible(diff.before)} and {visible(diff.after)}"
        return
    yield from _section("told up front", diff.told)
    rules = [f"- {counted(rule)}" for rule in diff.only_before] + [f"+ {counted(rule)}" for rule in diff.only_after]
    rules += [f"~ {counted(old)} -> {evidence(new)}" for old, new in diff.changed]
    if diff.without_record:
        rules = [f"{diff.without_record} has no rules on record, the other {len(rules)}: nothing to compare one by one"]
    yield from _section("rules on record: -, + in one only, ~ other evidence", [visible(line) for line in rules])
    yield from _section("making and record of hints", diff.facts)
    yield from _section("source", diff.source)


def counted(rule: RuleRecord) -> str:
    """Format a rule with the experiments behind it."""
    return f"{rule.text} ({evidence(rule)})"


def evidence(rule: RuleRecord) -> str:
    """Describe the experiments behind a rule."""
    counts = rule.evidence
    description = f"{counts.support} for, {counts.refuted} against, {counts.tasks} tasks"
    return f"{description}, not confirmed" if rule.untested else description


def visible(text: str) -> str:
    """Put a text on one line, with control characters escaped."""
    return "".join(
        letter if letter.isprintable() or letter == "\t" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"== {title}"
        yield from lines


def _unified(before: str, after: str, old_name: str, new_name: str) -> tuple[str, ...]:
    old, new = ([visible(line) for line in text.split("\n")] for text in (before, after))
    return tuple(unified_diff(old, new, visible(old_name), visible(new_name), lineterm=""))


def _rules_texts(
    spec: EnvironmentSpec, interfaces: Sequence[Interface], data_root: str | Path | None
) -> list[str]:
    """Generate the interfaces' rules texts for the first task of the test split; a failure gives its reason instead."""
    task = spec.tasks(spec.test_split, data_root)[0]
    env = spec.make(spec.test_split, data_root=data_root)
    try:
        return [_rules_text(env, interface, task) for interface in interfaces]
    finally:
        env.close()


def _rules_text(env: gym.Env[str, str], interface: Interface, task: str) -> str:
    try:
        wrapped = AlignWrapper(env, interface.model_copy(update={"use_feedback": False}))
    except InterfaceError as error:
        return f"(it does not load: {error})"
    _, info = wrapped.reset(seed=0, options={"task": task})
    failure = str(info["interface_error"])
    return f"(InferRules failed: {failure})" if failure else str(info["rules"])


def _provenance_facts(interface: Interface) -> dict[str, Any]:
    facts = {name: getattr(interface.provenance, name) for name in FACTS}
    facts |= {"made for": interface.provenance.environment, "action format": interface.provenance.action_format}
    facts["training tasks"] = len(interface.provenance.training_tasks)
    facts |= {f"version of {name}": number for name, number in interface.provenance.versions.items()}
    facts |= {f"hints of {count.rule!r}": _hints(count.model_dump(exclude={"rule"})) for count in interface.record}
    return facts


def _hints(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in counts.items())


def _facts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield visible(f"{name.replace('_', ' ')}: {_describe(old)} -> {_describe(new)}")


def _describe(value: object) -> str:
    if value is None or value in ("", (), {}):
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)
