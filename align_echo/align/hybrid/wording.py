"""The words in which agents are told what holds: a model's where they keep to the rule's commands, else plain ones.

The model is asked once for all rules of an iteration. Every command in its words must be a form of the rule itself, as
it stands; otherwise the plain sentence is taken, which the audit of interfaces can read too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from align_echo.agents.parsing import visible_text
from align_echo.align.hybrid.findings import Rule
from align_echo.align.hybrid.hypotheses import HYPOTHESIS, LETTERS, forms_of
from align_echo.align.hybrid.reading import json_values
from align_echo.align.llm.dialogue import Dialogue
from align_echo.align.llm.settings import LlmSettings
from align_echo.errors import NoAnswerError, ReplyFormatError
from align_echo.prompts import render
from align_echo.types import ChatModel

PROMPTS = ("optimizer/wording_system", "optimizer/wording")
LONGEST_WORDS = 400


def worded(
    rules: Sequence[Rule],
    model: ChatModel,
    settings: LlmSettings,
    *,
    environment: str,
    action_format: str,
    note: Callable[[str], None],
) -> list[Rule]:
    """The rules in the model's words where these can be used, each that cannot noted. Raises `ModelError` only for an
    endpoint that is down: rules hold without a model's words."""
    dialogue = Dialogue(
        model,
        render("optimizer/wording_system", {"environment": environment, "action_format": action_format}),
        temperature=settings.optimizer_temperature,
        max_tokens=settings.max_tokens,
    )
    shown = [{"rule": rule["up_front"], "hint": rule["hint"], "forms": _forms(rule)} for rule in rules]
    try:
        written = dialogue.ask(render("optimizer/wording", {"rules": shown}), _parse, tries=settings.format_tries)
    except NoAnswerError as error:
        note(f"the rules are told in plain words, since the model's could not be read: {error}")
        return list(rules)
    return [_with_words(rule, written.get(number, {}), note) for number, rule in enumerate(rules, start=1)]


def problem_with(words: str, rule: Rule, *, hint: bool) -> str:
    """What is wrong with a model's words for a rule; "" if they can be used."""
    forms = [_plain(form) for form in _forms(rule)]
    named = re.findall(r"`([^`]*)`", words)
    commands = [_plain(command) for command in named]
    if not words.strip() or len(words) > LONGEST_WORDS or "\n" in words:
        return f"they are empty, have several lines or more than {LONGEST_WORDS} characters"
    if words.count("`") % 2:
        return "a backtick is not closed"
    quoted = re.findall(r'"([^"]*)"', words)
    wrong = [command for command in (*named, *quoted) if _plain(command) not in forms]
    if wrong:
        return f"they name `{wrong[0]}`, which is no form of the rule"
    if re.search(r"[{}]", re.sub(r"\{\d\}", "", words)):
        return "they hold braces that are no {0} to {9}"
    wanted = [_plain(rule["step"])] if hint and rule["step"] and rule["kind"] in ("needs", "instead") else []
    if not commands or any(form not in commands for form in wanted):
        return "they do not name the command that helps"
    return ""


# ---------------------------------------------------------------- inside


def _forms(rule: Rule) -> list[str]:
    return list(forms_of(HYPOTHESIS.validate_python(rule["hypothesis"])))


def _plain(text: str) -> str:
    """A command as it is compared: letters for places may stand for their numbers."""
    text = " ".join(text.split())
    return re.sub(r"\{(\d)\}", lambda match: LETTERS[int(match[1])], text).lower()


def _with_words(rule: Rule, words: dict[str, Any], note: Callable[[str], None]) -> Rule:
    if rule["kind"] == "claim":
        return rule
    changed = dict(rule)
    for part in ("up_front", "hint"):
        text = words.get(part)
        if not isinstance(text, str) or (part == "hint" and not rule["hint"]):
            continue
        problem = problem_with(text, rule, hint=part == "hint")
        if problem:
            note(f"the model's words for {rule['up_front']!r} are not used, since {problem}")
        else:
            changed[part] = " ".join(text.split())
    return changed


def _parse(reply: str) -> dict[int, dict[str, Any]]:
    """By number of the rule, from 1: the words for it."""
    written: dict[int, dict[str, Any]] = {}
    for value in json_values(visible_text(reply)):
        if isinstance(value, dict) and str(value.get("number", "")).strip().isdigit():
            written[int(str(value["number"]))] = value
    if not written:
        raise ReplyFormatError('it holds no words: write a JSON list of {"number", "up_front", "hint"}')
    return written
