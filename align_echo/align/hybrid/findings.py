"""Results of trials: misalignments for the loop, a line per hypothesis, wording, and the interface's source."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from align_echo.agents.parsing import visible_text
from align_echo.align.hybrid.forms import said_as, slots_of, with_letters
from align_echo.align.hybrid.hypotheses import (
    Hypothesis,
    NeededStep,
    StatedClaim,
    WrongWording,
    in_words,
    list_forms,
    spoken_forms,
)
from align_echo.align.hybrid.reading import json_values
from align_echo.align.hybrid.rules import UNTESTED, as_hypothesis, is_own
from align_echo.align.hybrid.trials import HypothesisCounts, Verdict, verdict_on
from align_echo.align.llm.analyzer import ModelDialogue
from align_echo.align.llm.replies import LlmSettings
from align_echo.align.probe import rule_file
from align_echo.align.refutation import MIN_TASKS
from align_echo.errors import NoAnswerError, ReplyFormatError
from align_echo.interface.contract import InterfaceContract, RuleRecord, identity_source, parse_source
from align_echo.interface.rules.actions import ActionGrammar
from align_echo.interface.rules.decisions import HEADING
from align_echo.interface.rules.model import Rule, RuleSet, dump
from align_echo.prompts import render
from align_echo.registry import quantity
from align_echo.types import ChatModel, Misalignment

WRONG = "Not so: "


def about(hypothesis: Hypothesis, tally: HypothesisCounts, rules: RuleSet, failed_task: str) -> Misalignment:
    """Convert a confirmed, untested or merely played hypothesis into a misalignment.

    `rules` holds it as a rule. A hypothesis without trials is reported for `failed_task`.
    """
    task_id, action = tally.example
    (rule,) = rules.rules
    return Misalignment(
        task_id=task_id or failed_task,
        action_type=list_forms(hypothesis)[0],
        action=action or list_forms(hypothesis)[0],
        intent=_intent(hypothesis),
        rule=rule.text.removeprefix(UNTESTED).removesuffix("."),
        sufficient_feedback=_told(rule.say, hypothesis),
        evidence=tally.evidence,
        detail=json.dumps({"ruleset": dump(rules), "confirmed": verdict_on(hypothesis, tally) == "kept"}),
    )


def about_wrong(rule: Rule, hypothesis: Hypothesis, tally: HypothesisCounts) -> Misalignment:
    """Report an existing rule refuted by a trial."""
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
        detail=json.dumps({"withdrawn": rule.model_dump(mode="json")}),
    )


def _told(say: str, hypothesis: Hypothesis) -> str:
    """Return a message with the hypothesis's forms in it."""
    action, step, *_ = (*spoken_forms(hypothesis), "", "")
    return say.replace("{action}", action).replace("{step}", step)


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
        RuleRecord(text=each.rule, evidence=each.evidence, untested=not json.loads(each.detail)["confirmed"])
        for each in new
        if each.kind == "new-logic"
    ]
    added_texts = {record.text for record in added}
    return (*(record for record in old if record.text not in gone | added_texts), *added)


def unresolved(old: Sequence[str], new: Sequence[Misalignment]) -> tuple[str, ...]:
    """List misalignments without confirmed rules, untested ones included, refuted ones excluded."""
    gone = {misalignment.text.replace(WRONG, "", 1) for misalignment in new if misalignment.kind == "bug-of-current"}
    untested = [each.text for each in new if not json.loads(each.detail).get("confirmed", True)]
    return tuple(dict.fromkeys((*(text for text in old if text not in gone), *untested)))


def _intent(hypothesis: Hypothesis) -> str:
    if isinstance(hypothesis, WrongWording):
        return f"do `{hypothesis.right}`"
    return "get on with the task"


# ---------------------------------------------------------------- the words in which agents are told what holds

PROMPTS = ("optimizer/wording_system", "optimizer/wording")
LONGEST_WORDS = 400


def reword_rules(
    rules: RuleSet,
    model: ChatModel,
    settings: LlmSettings,
    *,
    environment: str,
    action_format: str,
    note: Callable[[str], None],
) -> RuleSet:
    """Reword rules with the model where its words are usable; note each rejection.

    Raises `ModelError` only if the endpoint is unreachable: rules do not depend on the model's words.
    """
    dialogue = ModelDialogue(
        model,
        render("optimizer/wording_system", {"environment": environment, "action_format": action_format}),
        temperature=settings.optimizer_temperature,
        max_tokens=settings.max_tokens,
    )
    grammar = ActionGrammar(rules.forms)
    pairs = [(rule, hypothesis) for rule in rules.rules if (hypothesis := as_hypothesis(rule, grammar)) is not None]
    plain_rules = [
        {"rule": rule.text, "hint": _told(rule.say, hypothesis), "forms": list_forms(hypothesis)}
        for rule, hypothesis in pairs
    ]
    try:
        written = dialogue.ask(render("optimizer/wording", {"rules": plain_rules}), _parse, tries=settings.format_tries)
    except NoAnswerError as error:
        note(f"the rules are told in plain words, since the model's could not be read: {error}")
        return rules
    worded = [_with_words(*pair, written.get(number, {}), note) for number, pair in enumerate(pairs, start=1)]
    return rules.model_copy(update={"rules": tuple(worded)})


def problem_with(words: str, hypothesis: Hypothesis, *, hint: bool) -> str:
    """Return the problem of a model's words for a rule; "" if usable."""
    forms = [_plain(form) for form in list_forms(hypothesis)]
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
    wanted = [_plain(_order(hypothesis))] if hint and _order(hypothesis) else []
    if not commands or any(form not in commands for form in wanted):
        return "they do not name the command that helps"
    return ""


def _order(hypothesis: Hypothesis) -> str:
    """Return the form of the command that helps, "" without one."""
    if isinstance(hypothesis, NeededStep):
        return hypothesis.step
    return hypothesis.right if isinstance(hypothesis, WrongWording) else ""


def _plain(text: str) -> str:
    """Normalise a command for comparison; letters may stand for slot numbers."""
    return said_as(with_letters(text))


def _with_words(rule: Rule, hypothesis: Hypothesis, words: dict[str, Any], note: Callable[[str], None]) -> Rule:
    if isinstance(hypothesis, StatedClaim):
        return rule
    changed: dict[str, str] = {}
    is_order = set(slots_of(_order(hypothesis))) <= set(slots_of(spoken_forms(hypothesis)[0]))
    for part, name in (("up_front", "text"), ("hint", "say")):
        text = words.get(part)
        if not isinstance(text, str) or (part == "hint" and not is_order):
            continue
        told = _as_template(text, hypothesis) if part == "hint" else with_letters(text)
        problem = problem_with(text, hypothesis, hint=part == "hint")
        if not problem and slots_of(told):
            problem = "they speak of names outside a command that is known then"
        if problem:
            note(f"the model's words for {rule.text!r} are not used, since {problem}")
        else:
            prefix = UNTESTED if name == "text" and rule.text.startswith(UNTESTED) else ""
            changed[name] = prefix + " ".join(told.split())
    return rule.model_copy(update=changed)


def _as_template(words: str, hypothesis: Hypothesis) -> str:
    """Return a model's message with {action} and {step} for the forms of the action and of the command that helps."""
    known = {_plain(spoken_forms(hypothesis)[0]): "`{action}`", _plain(_order(hypothesis)): "`{step}`"}
    return re.sub(r"`([^`]*)`", lambda command: known.get(_plain(command[1]), command[0]), words)


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


def write_source(before: str, contract: InterfaceContract, rules: RuleSet, known: Sequence[RuleRecord]) -> str:
    """Build source from rules and an interface: code of the probe, or one with rules only.

    In code, existing words for a refused action take precedence.
    """
    if rule_file.read_rule_set(before) is not None or before == identity_source(contract):
        code = _without_docstring(rule_file.source(rules, contract))
    else:
        code = _beside(before, contract, rules)
    return f"{_head(contract, rules, known)}\n\n{code.strip()}\n"


def _head(contract: InterfaceContract, rules: RuleSet, known: Sequence[RuleRecord]) -> str:
    confirmed = {record.text for record in known if not record.untested}
    unsure = {record.text for record in known if record.untested}
    texts = [rule.text.removesuffix(".") for rule in rules.rules if is_own(rule)]
    lines = [
        f"Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence.",
        "",
        f"{len([text for text in texts if text not in unsure and not text.startswith(UNTESTED)])} rules were proposed "
        "by a model and stood every trial.",
    ]
    played = [text for text in texts if text in unsure - confirmed]
    if played:
        lines += ["", "No rules, but what was played:", *(f"- {text}." for text in played)]
    untested = [text.removeprefix(UNTESTED) for text in texts if text.startswith(UNTESTED)]
    if untested:
        lines += ["", "Not tested, since no state was found that could decide them (--allow-untested):"]
        lines += [f"- {text}." for text in untested]
    return _as_docstring("\n".join(lines))


def _as_docstring(text: str) -> str:
    """Quote any text as a docstring."""
    return '"""' + text.replace("\\", "\\\\").replace('"""', "'''").rstrip('"') + '\n"""'


def _without_docstring(source: str) -> str:
    body = parse_source(source).body
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return "\n".join(source.splitlines()[first.end_lineno or 0 :])
    return source


WATCHED = """\
class WatchedEnv:
    def __init__(self, env):
        self.env = env
        self.replies = []

    def step(self, action):
        result = self.env.step(action)
        sent = action[0] if isinstance(action, list) else action
        text = result[0][0] if isinstance(result[0], list) else result[0]
        self.replies.append((sent, text))
        return result

    def answer(self, action, shown):
        texts = [text for sent, text in self.replies if sent == action]
        return texts[-1] if texts else shown"""
"""The environment, with its own answers in a turn, in an interface's source."""


def _beside(before: str, contract: InterfaceContract, rules: RuleSet) -> str:
    """Return code with rules beside it: they explain the environment's own answer."""
    code = re.sub(r"(?m)^def InferRules\(", "def rules_before(", _without_docstring(before))
    code = re.sub(r"(?m)^def WrapStep\(", "def step_before(", code)
    infer, wrap = ", ".join(contract.infer_rules_args), ", ".join(contract.wrap_step_args)
    functions = f"""\
def InferRules({infer}):
    texts = dict.fromkeys(rule['text'] for rule in RULES['rules'])
    return (rules_before({infer}) or {HEADING!r}) + '\\n- ' + '\\n- '.join(texts)


def WrapStep({wrap}):
    if not hasattr(env, 'watched'):
        env.watched = WatchedEnv(env)
    env.watched.replies = []
    seen, *rest = step_before({wrap.replace("env", "env.watched", 1)})
    return env.explain(RULES, agent_action, env.watched.answer(agent_action, seen), seen), *rest"""
    data = f"RULES = {rule_file.write_data(dump(rules))}"
    return "\n\n".join([code.strip(), data, WATCHED, functions])
