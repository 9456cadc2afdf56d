"""What an interface does at run time with rules that a model proposed and that stood their trials.

The trials import this file, and `findings.py` copies its code into the interface, so that a form means the same in
both. Plain functions over dicts and lists, and one class: it runs in the sandbox. No name in it is one of the probe's
`runtime.py`, since both may stand in one file.

A rule is a dict: "kind" ("needs", "instead", "no_effect", "claim"), "action" (the form that it speaks of), "step" (what
comes first, or the right form), "until" (for no_effect), "latest" (for needs: whether a later step of the same form
undoes it), "up_front" and "hint" (its words, with {0} for names), "untested", and for a claim "cases": pairs of an
action's head (`head_of`) and a text in its answer that the claim is about. Forms are texts with {0} to {9} for names of
any spelling, or JSON objects with them in their strings: then order and spaces do not count, and an action may have
more keys. `answers` are, by form, the texts that refuse an action of it, as `general_answer` writes them.
"""

import json
import re
from typing import Any

SAME = "{same}"
"""Among answers: the last answer once more."""

PATIENCE = 3
"""So often a step may be advised, said and refused for reasons that other rules know."""

DEPTH = 4
"""Steps before steps that are looked through for the one that comes first."""


class WatchedEnv:
    """The environment, with what it answered to each action of the present turn."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.replies: list[tuple[str, str]] = []

    def step(self, action: Any) -> Any:
        """What the environment gives, unaltered."""
        result = self.env.step(action)
        sent = action[0] if isinstance(action, list) else action
        text = result[0][0] if isinstance(result[0], list) else result[0]
        self.replies.append((str(sent), str(text)))
        return result

    def explain(self, rules: Any, action: str, observation: str) -> Any:
        """The observation with what rules say of it."""
        return self.env.explain(rules, action, observation)


def slots_of(form: str) -> list[str]:
    """The numbers of a form's places, in their order."""
    return [str(number) for number in re.findall(r"\{(\d)\}", form)]


def tree_of(text: str) -> Any:
    """The JSON object that an action or a form is; None for plain text."""
    if not re.match(r"\s*\{\s*[\"}]", text):
        return None
    try:
        tree = json.loads(text)
    except ValueError:
        return None
    return tree if isinstance(tree, dict) else None


def said_as(action: str) -> str:
    """An action for comparisons: without case, spaces, and a JSON object's order."""
    tree = tree_of(action)
    return " ".join((action if tree is None else json.dumps(tree, sort_keys=True, ensure_ascii=False)).lower().split())


def head_of(action: str) -> str:
    """An action's first word, or the first text of a JSON object: the tool's name."""
    tree = tree_of(action)
    words = [value for value in (tree or {}).values() if isinstance(value, str)] or action.split() or [""]
    return words[0].lower()


def bound_names(form: str, action: str) -> dict[str, str] | None:
    """The names in an action by the numbers of a form's places; None if the action is not of that form."""
    wanted, given = tree_of(form), tree_of(action)
    names: dict[str, str] = {}
    if wanted is None:
        return names if given is None and takes_text(form, action, names) else None
    return names if given is not None and takes_tree(wanted, given, names) else None


def takes_tree(form: Any, value: Any, names: dict[str, str]) -> bool:
    """Whether a part of a JSON object is of a form's part; adds its names."""
    if isinstance(form, dict):
        return isinstance(value, dict) and all(
            key in value and takes_tree(part, value[key], names) for key, part in form.items()
        )
    if isinstance(form, list):
        return (
            isinstance(value, list)
            and len(form) == len(value)
            and all(takes_tree(part, value[number], names) for number, part in enumerate(form))
        )
    if not isinstance(form, str):
        return form == value and isinstance(form, bool) == isinstance(value, bool)
    return takes_text(form, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), names)


def takes_text(form: str, text: str, names: dict[str, str]) -> bool:
    """Whether a text is of a form; adds its names."""
    pattern = "(.+?)".join(re.escape(part) for part in re.split(r"\{\d\}", form))
    match = re.fullmatch(pattern, " ".join(text.split()), re.IGNORECASE)
    if match is None:
        return False
    for number, name in zip(slots_of(form), match.groups(), strict=False):
        if names.get(number, name).lower() != name.lower():
            return False
        names[number] = name
    return True


def filled_form(form: str, names: dict[str, str]) -> str:
    """A form or a sentence with its places filled; places without a name stay."""
    tree = tree_of(form)
    if tree is not None:
        return json.dumps(filled_tree(tree, names), ensure_ascii=False)
    return re.sub(r"\{(\d)\}", lambda match: names.get(match.group(1), match.group(0)), form)


def filled_tree(form: Any, names: dict[str, str]) -> Any:
    """A part of a JSON form with its places filled."""
    if isinstance(form, dict):
        return {key: filled_tree(part, names) for key, part in form.items()}
    if isinstance(form, list):
        return [filled_tree(part, names) for part in form]
    return filled_form(form, names) if isinstance(form, str) else form


def is_step(form: str, names: dict[str, str], action: str) -> bool:
    """Whether an action is of a form with these names; places that have no name there take any."""
    others = bound_names(form, action)
    if others is None:
        return False
    return all(others[number].lower() == names[number].lower() for number in others if number in names)


def general_answer(form: str, action: str, text: str) -> str:
    """An answer with the action that it quotes, or its names in a form, left blank."""
    plain = " ".join(text.split())
    said = " ".join(action.split())
    plain = re.sub(re.escape(said), "{action}", plain, flags=re.IGNORECASE) if said else plain
    names = bound_names(form, action) or {}
    for name in sorted(names.values(), key=len, reverse=True):
        plain = re.sub(r"(?<!\w)" + re.escape(name) + r"(?!\w)", "{name}", plain, flags=re.IGNORECASE)
    return plain


def new_record(text: str) -> dict[str, Any]:
    """What is kept of an episode: accepted actions, the last answer, advice that was refused and is not given again,
    how often each was, the last advice, whether it stands beside other words, and the claims that were said."""
    return {"accepted": [], "last": text, "silenced": [], "in_vain": {}, "advice": "", "beside": False, "claims": []}


def is_refusal(answers: dict[str, list[str]], record: dict[str, Any], action: str, text: str) -> bool:
    """Whether an answer refuses an action, by the answers known for its forms."""
    same = " ".join(text.split()) == " ".join(record["last"].split())
    for form, known in answers.items():
        refuses = (same and SAME in known) or general_answer(form, action, text) in known
        if refuses and bound_names(form, action) is not None:
            return True
    return False


def is_held(rule: dict[str, Any], record: dict[str, Any], names: dict[str, str]) -> bool:
    """Whether the step of a rule was done and, for "latest", no other of its form since."""
    for action in record["accepted"][::-1]:
        if bound_names(rule["step"], action) is not None:
            if is_step(rule["step"], names, action):
                return True
            if rule["latest"]:
                return False
    return False


def is_in_effect(rule: dict[str, Any], record: dict[str, Any], names: dict[str, str]) -> bool:
    """Whether the step of a rule was done, and nothing after it that ends its effect."""
    for action in record["accepted"][::-1]:
        if is_step(rule["step"], names, action):
            return True
        if rule["until"] and is_step(rule["until"], names, action):
            return False
    return False


def first_missing(
    rules: list[dict[str, Any]], record: dict[str, Any], action: str, depth: int
) -> tuple[int, dict[str, str]] | None:
    """(number of the rule, names) of the step that comes first before an action; None if no rule knows one."""
    for number, rule in enumerate(rules):
        names = bound_names(rule["action"], action) if rule["kind"] == "needs" else None
        if names is None or is_held(rule, record, names):
            continue
        step = filled_form(rule["step"], names)
        if said_as(step) in record["silenced"]:
            continue
        before = first_missing(rules, record, step, depth - 1) if depth and said_as(step) != said_as(action) else None
        return before or (number, names)
    return None


def hint_for(rules: list[dict[str, Any]], record: dict[str, Any], action: str) -> tuple[int, str, str]:
    """(number of the rule, its words, the step it names) for a refused action; (-1, "", "") where no rule speaks."""
    for number, rule in enumerate(rules):
        names = bound_names(rule["action"], action)
        if names is None:
            continue
        if rule["kind"] == "no_effect" and is_in_effect(rule, record, names):
            return number, filled_form(rule["hint"], names), ""
        if rule["kind"] == "instead":
            right = filled_form(rule["step"], names)
            if said_as(right) not in record["silenced"]:
                return number, filled_form(rule["hint"], names), right
    missing = first_missing(rules, record, action, DEPTH)
    if missing is not None:
        rule = rules[missing[0]]
        return missing[0], spoken(rule["hint"], missing[1]), filled_form(rule["step"], missing[1])
    for number, rule in enumerate(rules):
        names = bound_names(rule["action"], action) if rule["kind"] == "claim" and rule["action"] else None
        if names is not None:
            return number, filled_form(rule["hint"], names), ""
    return -1, "", ""


def claim_about(rules: list[dict[str, Any]], record: dict[str, Any], action: str, text: str) -> str:
    """The words of a claim about this answer to an action of that head, said once an episode; "" where there is none.
    """
    answer = " ".join(text.lower().split())
    for number, rule in enumerate(rules):
        cases = rule.get("cases", []) if number not in record["claims"] else []
        if any(head == head_of(action) and told in answer for head, told in cases):
            record["claims"].append(number)
            return str(rule["hint"] or rule["up_front"])
    return ""


def spoken(sentence: str, names: dict[str, str]) -> str:
    """A sentence with its names, and "..." for places that take any name."""
    return re.sub(r"\{\d\}", "...", filled_form(sentence, names))


def answer_of(env: WatchedEnv, action: str, shown: str) -> str:
    """The environment's own answer to the agent's action in this turn; what was shown if it was not asked."""
    for sent, text in env.replies[::-1]:
        if sent == action:
            return text
    return shown


def noted_hint(
    rules: list[dict[str, Any]], answers: dict[str, list[str]], record: dict[str, Any], action: str, text: str
) -> str:
    """Take in an action with the environment's own answer; the words for one that was refused, or of a claim about the
    answer, "" where there are none.

    A step that was said as advised and refused is not advised again in this episode, at once where no other rule knows
    why it was refused, else after the third time. Words for a wrong wording may stand beside others.
    """
    refused = is_refusal(answers, record, action, text)
    record["last"] = text
    if not refused:
        record["accepted"].append(action)
        record["advice"] = ""
        return claim_about(rules, record, action, text)
    number, words, step = hint_for(rules, record, action)
    if number < 0 or rules[number]["kind"] == "claim":
        words = claim_about(rules, record, action, text) or words
    said = said_as(action)
    if record["advice"] and record["advice"] == said:
        record["in_vain"][said] = record["in_vain"].get(said, 0) + 1
        if not step or record["in_vain"][said] >= PATIENCE:
            record["silenced"].append(said)
    record["advice"] = said_as(step)
    record["beside"] = number >= 0 and rules[number]["kind"] == "instead"
    return words
