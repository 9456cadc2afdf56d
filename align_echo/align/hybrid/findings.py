"""Results of trials: misalignments for the loop, a line per hypothesis, and rules as data."""

from __future__ import annotations

import ast
import json
import pprint
import re
from collections.abc import Callable, Sequence
from typing import Any

from align_echo.agents.parsing import visible_text
from align_echo.align.hybrid import runtime
from align_echo.align.hybrid.hypotheses import (
    HYPOTHESIS,
    Hypothesis,
    NeededStep,
    NoEffect,
    StatedClaim,
    WrongWording,
    hint_words,
    in_words,
    list_forms,
    with_letters,
)
from align_echo.align.hybrid.reading import json_values
from align_echo.align.hybrid.runtime import slots_of
from align_echo.align.hybrid.trials import HypothesisCounts, Verdict, verdict_on
from align_echo.align.llm.analyzer import ModelDialogue
from align_echo.align.llm.replies import LlmSettings
from align_echo.align.probe.emit import extract_code
from align_echo.align.refutation import MIN_TASKS
from align_echo.errors import NoAnswerError, ReplyFormatError
from align_echo.interface.contract import InterfaceContract, RuleRecord, parse_source
from align_echo.prompts import render
from align_echo.registry import quantity
from align_echo.types import ChatModel, Misalignment

WRONG = "Not so: "
Rule = dict[str, Any]
"""Hypothesis as stored in an interface (`runtime.py`), with its own data under "hypothesis"."""


def about(
    hypothesis: Hypothesis, tally: HypothesisCounts, answers: dict[str, list[str]], failed_task: str
) -> Misalignment:
    """Convert a confirmed, untested or merely played hypothesis into a misalignment.

    `answers` holds the refusals of its forms. A hypothesis without trials is reported for `failed_task`.
    """
    verdict = verdict_on(hypothesis, tally)
    task_id, action = tally.example
    refusals = {form: answers[form] for form in list_forms(hypothesis) if form in answers}
    played = tally.attack.as_played() if verdict == "played" else ""
    rule = build_rule(hypothesis, latest=tally.undoes, untested=verdict == "untested", played=played)
    return Misalignment(
        task_id=task_id or failed_task,
        action_type=list_forms(hypothesis)[0],
        action=action or list_forms(hypothesis)[0],
        intent=_intent(hypothesis),
        rule=played or in_words(hypothesis),
        sufficient_feedback=rule["hint"] or in_words(hypothesis),
        evidence=tally.evidence,
        detail=json.dumps({"hypothesis": rule, "answers": refusals}),
    )


def about_wrong(rule: Rule, tally: HypothesisCounts) -> Misalignment:
    """Report an existing rule refuted by a trial."""
    hypothesis = HYPOTHESIS.validate_python(rule["hypothesis"])
    task_id, action, *_ = (*tally.counterexample.split(": "), "", "")
    return Misalignment(
        task_id=task_id,
        action_type=list_forms(hypothesis)[0],
        action=action or list_forms(hypothesis)[0],
        intent="follow the interface's hint",
        rule=f"{WRONG}{in_words(hypothesis)}",
        sufficient_feedback="leave the hint out",
        kind="bug-of-current",
        evidence=tally.evidence,
        detail=json.dumps({"withdrawn": rule["hypothesis"]}),
    )


def build_rule(hypothesis: Hypothesis, *, latest: bool, untested: bool, played: str = "") -> Rule:
    """Convert a hypothesis into rule data in plain words, or in those of what was `played`.

    A step with a name missing from the action is no order in the hint.
    """
    action = list_forms(hypothesis)[0]
    hint = hint_words(hypothesis)
    until, step = "", ""
    if isinstance(hypothesis, NeededStep):
        step = hypothesis.step
        hint = hint if _is_named(step, action) else f"`{action}` is refused until some `{step}` was done."
    elif isinstance(hypothesis, WrongWording):
        step = hypothesis.right
    elif isinstance(hypothesis, NoEffect):
        step, until = hypothesis.after, hypothesis.until
    elif isinstance(hypothesis, StatedClaim):
        action = hypothesis.action
    return {
        "kind": hypothesis.kind,
        "action": action,
        "step": step,
        "until": until,
        "latest": latest,
        "up_front": (played or in_words(hypothesis)) + ".",
        "hint": played + "." if played and hint else hint,
        "untested": untested,
        "played": bool(played),
        "cases": _cases(hypothesis),
        "hypothesis": hypothesis.model_dump(mode="json"),
    }


def _is_named(step: str, action: str) -> bool:
    """Whether an action has all names of a step."""
    return set(slots_of(step)) <= set(slots_of(action))


def _cases(hypothesis: Hypothesis) -> list[tuple[str, str]]:
    """List heads of actions with the texts in their answers that a claim is about."""
    trials = hypothesis.experiments if isinstance(hypothesis, StatedClaim) else ()
    pairs = [(runtime.head_of(trial.actions[-1]), " ".join(trial.sees.lower().split())) for trial in trials]
    return list(dict.fromkeys(pair for pair in pairs if pair[1]))


def outcome_line(hypothesis: Hypothesis, tally: HypothesisCounts, *, allow_untested: bool) -> str:
    """Describe a hypothesis's result in a line with its counts."""
    verdict: Verdict = verdict_on(hypothesis, tally)
    tasks = quantity(len(tally.tasks), "task")
    counts = f"{quantity(tally.support, 'trial')} for it and {tally.refuted} against, in {tasks}"
    claim = in_words(hypothesis)
    if verdict == "kept":
        confirmed = "confirmed" if tally.withstood >= MIN_TASKS else "stood its trials"
        return f"{confirmed}: {claim} ({counts}; counter-experiments in {quantity(tally.withstood, 'task')})"
    if verdict == "played":
        attack = f"counter-experiments in {quantity(tally.withstood, 'task')}, so it is told as what was played"
        return f"not confirmed: {claim} ({counts}; {attack})"
    if verdict == "refuted":
        return f"refuted: {claim} ({counts}; {tally.counterexample})"
    why = "too few" if tally.support else "no state was found in which it says anything"
    if isinstance(hypothesis, WrongWording) and tally.support and tally.meaning != "meant":
        why = "what agents mean by it cannot be told from where they say it"
    fate = "it is kept all the same and marked" if allow_untested else "it is left out; --allow-untested keeps such"
    return f"untested: {claim} ({counts}: {why}; {fate})"


def records(old: Sequence[RuleRecord], new: Sequence[Misalignment]) -> tuple[RuleRecord, ...]:
    """Merge rule records with new evidence and drop refuted rules."""
    gone = {misalignment.rule.removeprefix(WRONG) for misalignment in new if misalignment.kind == "bug-of-current"}
    added = [
        RuleRecord(
            text=misalignment.rule,
            evidence=misalignment.evidence,
            untested=not _is_rule(json.loads(misalignment.detail)["hypothesis"]),
        )
        for misalignment in new
        if misalignment.kind == "new-logic"
    ]
    added_texts = {record.text for record in added}
    return (*(record for record in old if record.text not in gone | added_texts), *added)


def unresolved(old: Sequence[str], new: Sequence[Misalignment]) -> tuple[str, ...]:
    """List misalignments without confirmed rules, untested ones included, refuted ones excluded."""
    gone = {misalignment.text.replace(WRONG, "", 1) for misalignment in new if misalignment.kind == "bug-of-current"}
    details = [(misalignment.text, json.loads(misalignment.detail)) for misalignment in new]
    untested = [text for text, detail in details if "hypothesis" in detail and not _is_rule(detail["hypothesis"])]
    return tuple(dict.fromkeys((*(text for text in old if text not in gone), *untested)))


def _is_rule(rule: Rule) -> bool:
    return not (rule["untested"] or rule.get("played"))


def _intent(hypothesis: Hypothesis) -> str:
    if isinstance(hypothesis, WrongWording):
        return f"do `{hypothesis.right}`"
    return "get on with the task"


# ---------------------------------------------------------------- the words in which agents are told what holds

PROMPTS = ("optimizer/wording_system", "optimizer/wording")
LONGEST_WORDS = 400


def reword_rules(
    rules: Sequence[Rule],
    model: ChatModel,
    settings: LlmSettings,
    *,
    environment: str,
    action_format: str,
    note: Callable[[str], None],
) -> list[Rule]:
    """Reword rules with the model where its words are usable; note each rejection.

    Raises `ModelError` only if the endpoint is unreachable: rules do not depend on the model's words.
    """
    dialogue = ModelDialogue(
        model,
        render("optimizer/wording_system", {"environment": environment, "action_format": action_format}),
        temperature=settings.optimizer_temperature,
        max_tokens=settings.max_tokens,
    )
    plain_rules = [{"rule": rule["up_front"], "hint": rule["hint"], "forms": _forms(rule)} for rule in rules]
    try:
        written = dialogue.ask(render("optimizer/wording", {"rules": plain_rules}), _parse, tries=settings.format_tries)
    except NoAnswerError as error:
        note(f"the rules are told in plain words, since the model's could not be read: {error}")
        return list(rules)
    return [_with_words(rule, written.get(number, {}), note) for number, rule in enumerate(rules, start=1)]


def problem_with(words: str, rule: Rule, *, hint: bool) -> str:
    """Return the problem of a model's words for a rule; "" if usable."""
    forms = [_plain(form) for form in _forms(rule)]
    named = re.findall(r"`([^`]*)`", words)
    commands = [_plain(command) for command in named]
    if not words.strip() or len(words) > LONGEST_WORDS or "\n" in words:
        return f"they are empty, have several lines or more than {LONGEST_WORDS} characters"
    if words.count("`") % 2:
        return "a backtick is not closed"
    rest = re.sub(r"`[^`]*`", "", words)
    quoted = re.findall(r'"([^"]*)"', rest)
    wrong = [command for command in (*named, *quoted) if _plain(command) not in forms]
    if wrong:
        return f"they name `{wrong[0]}`, which is no form of the rule"
    if re.search(r"[{}]", re.sub(r"\{\d\}", "", rest)):
        return "they hold braces that are no {0} to {9}"
    wanted = [_plain(rule["step"])] if hint and rule["step"] and rule["kind"] in ("needs", "instead") else []
    if not commands or any(form not in commands for form in wanted):
        return "they do not name the command that helps"
    return ""


# ---------------------------------------------------------------- helpers


def _forms(rule: Rule) -> list[str]:
    return list(list_forms(HYPOTHESIS.validate_python(rule["hypothesis"])))


def _plain(text: str) -> str:
    """Normalise a command for comparison; letters may stand for slot numbers."""
    return runtime.said_as(with_letters(text))


def _with_words(rule: Rule, words: dict[str, Any], note: Callable[[str], None]) -> Rule:
    if rule["kind"] == "claim":
        return rule
    changed = dict(rule)
    for part in ("up_front", "hint"):
        text = words.get(part)
        is_order = rule["kind"] != "needs" or _is_named(rule["step"], rule["action"])
        if not isinstance(text, str) or (part == "hint" and not (rule["hint"] and is_order)):
            continue
        problem = problem_with(text, rule, hint=part == "hint")
        if problem:
            note(f"the model's words for {rule['up_front']!r} are not used, since {problem}")
        else:
            changed[part] = " ".join(text.split())
    return changed


def _parse(reply: str) -> dict[int, dict[str, Any]]:
    """Map rule numbers, from 1, to their words."""
    written: dict[int, dict[str, Any]] = {}
    for value in json_values(visible_text(reply)):
        if isinstance(value, dict) and str(value.get("number", "")).strip().isdigit():
            written[int(str(value["number"]))] = value
    if not written:
        raise ReplyFormatError('it holds no words: write a JSON list of {"number", "up_front", "hint"}')
    return written


# ---------------------------------------------------------------- write the interface's source

HEADING = "Learned by experiment in this environment:"
UNTESTED = "(not tested) "
"""Prefix of untested rules in every text for agents."""

Answers = dict[str, list[str]]


def read_rules(source: str) -> tuple[list[Rule], Answers]:
    """Read the hypothesis rules and refusals of an interface by this backend; empty for any other."""
    values: dict[str, Any] = {}
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("HYPOTHESES", "REFUSALS"):
            try:
                values[ast.unparse(node.targets[0])] = ast.literal_eval(node.value)
            except ValueError:
                return [], {}
    rules, answers = values.get("HYPOTHESES", []), values.get("REFUSALS", {})
    return (rules, answers) if isinstance(rules, list) and isinstance(answers, dict) else ([], {})


def extend_source(before: str, contract: InterfaceContract, rules: Sequence[Rule], answers: Answers) -> str:
    """Build source from an interface (the probe's or the identity) and hypothesis rules.

    Existing words for a refused action take precedence.
    """
    plain = _without_docstring(before)
    plain = re.sub(r"(?m)^def InferRules\(", "def rules_before(", plain)
    plain = re.sub(r"(?m)^def WrapStep\(", "def step_before(", plain)
    for module in ("re", "json"):
        plain = plain if re.search(rf"(?m)^import {module}$", plain) else f"import {module}\n" + plain
    tables = [
        "HYPOTHESES = " + pprint.pformat(list(rules), width=116, compact=True, sort_dicts=False),
        "REFUSALS = " + pprint.pformat(answers, width=116, compact=True),
        f"SAME = {runtime.SAME!r}",
        f"DEPTH = {runtime.DEPTH}\nPATIENCE = {runtime.PATIENCE}",
    ]
    head = _head(contract, rules)
    return "\n\n".join([head, plain.strip(), *tables, extract_code(runtime), _functions(contract, rules)]) + "\n"


def _head(contract: InterfaceContract, rules: Sequence[Rule]) -> str:
    lines = [
        f"Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence.",
        "",
        f"{sum(map(_is_rule, rules))} rules were proposed by a model and stood every trial.",
    ]
    played = [rule for rule in rules if rule.get("played")]
    if played:
        lines += ["", "No rules, but what was played:", *(f"- {rule['up_front']}" for rule in played)]
    untested = [rule for rule in rules if rule["untested"]]
    if untested:
        lines += ["", "Not tested, since no state was found that could decide them (--allow-untested):"]
        lines += [f"- {rule['up_front']}" for rule in untested]
    return _as_docstring("\n".join(lines))


def _as_docstring(text: str) -> str:
    """Quote any text as a docstring."""
    return '"""' + with_letters(text).replace("\\", "\\\\").replace('"""', "'''").rstrip('"') + '\n"""'


def _without_docstring(source: str) -> str:
    body = parse_source(source).body
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return "\n".join(source.splitlines()[first.end_lineno or 0 :])
    return source


def up_front(rules: Sequence[Rule]) -> str:
    """Format the rules text, a line per rule."""
    return "\n".join(f"- {UNTESTED if rule['untested'] else ''}{with_letters(rule['up_front'])}" for rule in rules)


def _functions(contract: InterfaceContract, rules: Sequence[Rule]) -> str:
    infer, wrap = ", ".join(contract.infer_rules_args), ", ".join(contract.wrap_step_args)
    first = contract.wrap_step_args[1]
    watched = wrap.replace("env", "env.watched", 1)
    return f"""\
def InferRules({infer}):
    before = rules_before({infer})
    return (before or {HEADING!r}) + '\\n' + {up_front(rules)!r}


def WrapStep({wrap}):
    if not hasattr(env, 'watched'):
        env.watched = WatchedEnv(env)
        env.noted = new_record({first})
    env.watched.replies = []
    seen, *rest = step_before({watched})
    answer = answer_of(env.watched, agent_action, seen)
    words = noted_hint(HYPOTHESES, REFUSALS, env.noted, agent_action, answer)
    if words and (seen.strip() == answer.strip() or (env.noted['beside'] and words not in seen)):
        seen = (seen + ' ' + words).strip()
    return seen, *rest"""
