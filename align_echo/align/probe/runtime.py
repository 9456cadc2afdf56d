"""What a learned interface does at run time: keep a history, recognise an action, find the rule that applies.

The learner imports this file to score rules, and `emit.py` copies its code into the interface it writes, so a rule is
judged by the very code that will apply it. Plain functions over dicts and lists only: it runs in the sandbox.

`spec` holds what was learned: "name" (regex of an object's name), "templates" ({"grab {0} off {1}": [rows]} with the
rows of a decision list), "pairs" (templates that undo each other), "movers" (other templates that change what is
allowed), "kinds" ({"grab {0} off {1}": [[words seen in each place]]}), "uninformative" (observations), "forms" (misused
skeleton -> template). A row is {"if": [literals], "then": [template, [terms]] | "already", "sure": bool}.
"""

import re
from typing import Any


def new_history(spec: dict[str, Any], text: str) -> dict[str, Any]:
    """A history that has seen only the opening text."""
    history: dict[str, Any] = {"last": {}, "active": {}, "shape": {}, "near": {}, "at": {}, "stems": {}}
    observe(spec, history, text)
    return history


def record(spec: dict[str, Any], history: dict[str, Any], action: str, observation: str) -> None:
    """Take in one action and the engine's own answer to it; actions that the engine refused leave no trace."""
    if observation.strip() in spec["uninformative"]:
        return
    template, arguments, exact = parse(spec, history, action)
    if exact and template in spec["templates"]:
        if template in spec["movers"]:
            history["last"][template] = arguments
        for number, pair in enumerate(spec["pairs"]):
            if template in pair:
                for position, name in enumerate(arguments):
                    place = f"{number}/{position}"
                    others = [other for other in history["active"].get(place, []) if other != name]
                    history["active"][place] = [*others, name] if template == pair[0] else others
    observe(spec, history, observation)


def observe(spec: dict[str, Any], history: dict[str, Any], text: str) -> None:
    """Remember for every name in a text how it was last spoken of, next to what, and what had been done last."""
    here = {template: arguments[0] for template, arguments in history["last"].items()}
    for sentence in text.replace("\n", ". ").split(". "):
        names = re.findall(spec["name"], sentence)
        for name in names:
            others = [other for other in names if other != name]
            history["shape"][name] = shape(spec, sentence, name)
            history["near"][name] = others[0] if others else ""
            history["at"][name] = here
            history["stems"][stem(name)] = name


def shape(spec: dict[str, Any], sentence: str, name: str) -> str:
    """How a sentence speaks of a name: three words before it and two after, other names blank, lists as one name."""
    marked = re.sub(spec["name"], lambda found: "X" if found.group(0) == name else "_", sentence)
    single = re.sub(r"[X_](?:,? (?:and )?(?:an? )?[X_])+", lambda found: "X" if "X" in found.group(0) else "_", marked)
    before, _, after = single.partition("X")
    return " ".join([*before.split()[-3:], "X", *after.strip(" .").split()[:2]])


def stem(name: str) -> str:
    """A name without its number."""
    return re.sub(r" \d+$", "", name)


def parse(spec: dict[str, Any], history: dict[str, Any], action: str) -> tuple[str, list[str], bool]:
    """(skeleton, names, exact): names become {0}, {1} ...; a known name without its number is completed, not exact."""
    skeleton = ""
    names: list[str] = []
    exact = True
    rest = action
    while rest:
        found = re.match(spec["name"], rest)
        word = re.match(r"\w+", rest)
        if found is not None:
            name = found.group(0)
            size = len(name)
        elif word is not None and word.group(0) in history["stems"]:
            name = history["stems"][word.group(0)]
            size = len(word.group(0))
            exact = False
        else:
            size = len(word.group(0)) if word is not None else 1
            skeleton += rest[:size]
            rest = rest[size:]
            continue
        skeleton += "{" + str(len(names)) + "}"
        names.append(name)
        rest = rest[size:]
    return skeleton, names, exact


def write(template: str, names: list[str]) -> str:
    """A template with its places filled."""
    text = template
    for number, name in enumerate(names):
        text = text.replace("{" + str(number) + "}", name)
    return text


def holds(spec: dict[str, Any], history: dict[str, Any], literal: list[Any], names: list[str]) -> bool:
    """Whether one condition holds for an action with these names."""
    kind = literal[0]
    if kind == "not":
        return not holds(spec, history, literal[1], names)
    if kind == "last":  # [last, template, place, i]: names[i] took that place the last time that template worked
        arguments = history["last"].get(literal[1], [])
        return bool(literal[2] < len(arguments) and arguments[literal[2]] == names[literal[3]])
    if kind == "active":  # [active, pair, place, i]: done to names[i] and not undone since
        return names[literal[3]] in history["active"].get(f"{literal[1]}/{literal[2]}", [])
    if kind == "any":  # [any, pair, place]: done to something and not undone since
        return len(history["active"].get(f"{literal[1]}/{literal[2]}", [])) > 0
    if kind == "shape":  # [shape, i, text]: the last sentence naming names[i] speaks of it so
        return bool(history["shape"].get(names[literal[1]], "") == literal[2])
    if kind == "kind":  # [kind, i, template, place]: names[i] is of a kind that was seen in that place
        return stem(names[literal[1]]) in spec["kinds"][literal[2]][literal[3]]
    if kind == "near":  # [near, i, j]: that sentence named names[j] first
        return bool(history["near"].get(names[literal[1]], "") == names[literal[2]])
    if kind == "here":  # [here, i, template]: names[i] was last named under that template's present value
        current = history["last"].get(literal[2], [""])[0]
        return bool(history["at"].get(names[literal[1]], {}).get(literal[2], "") == current != "")
    return names[literal[1]] in history["shape"]  # [known, i]


def value(history: dict[str, Any], term: list[Any], names: list[str]) -> str:
    """The name that a term stands for; "" if there is none."""
    kind = term[0]
    if kind == "name":  # [name, i]
        return str(names[term[1]])
    if kind == "active":  # [active, pair, place]: the latest thing done and not undone
        active = history["active"].get(f"{term[1]}/{term[2]}", [])
        return str(active[-1]) if active else ""
    if kind == "last":  # [last, template, place]
        arguments = history["last"].get(term[1], [])
        return str(arguments[term[2]]) if term[2] < len(arguments) else ""
    if kind == "near":  # [near, i]
        return str(history["near"].get(names[term[1]], ""))
    return str(history["at"].get(names[term[1]], {}).get(term[2], ""))  # [at, i, template]


def decide(
    spec: dict[str, Any], history: dict[str, Any], template: str, names: list[str], sure: bool = False
) -> tuple[int, str] | None:
    """(row number, missing step or "already") of the first rule that applies to a refused action; None if none does.

    `sure`: only rules that do not apply to actions that would have worked, for an action that was not tried.
    """
    for number, row in enumerate(spec["templates"].get(template, [])):
        if sure and not row.get("sure", False):
            continue
        if all(holds(spec, history, literal, names) for literal in row["if"]):
            step = conclude(history, row["then"], names)
            if step and step != write(template, names):
                return number, step
    return None


def conclude(history: dict[str, Any], then: Any, names: list[str]) -> str:
    """The step that a rule's right-hand side stands for; "" if one of its names is not known."""
    if then == "already":
        return "already"
    found = [value(history, term, names) for term in then[1]]
    return write(then[0], found) if all(found) else ""


def advise(spec: dict[str, Any], history: dict[str, Any], action: str) -> str:
    """What to tell an agent whose action was refused; "" where nothing was learned."""
    skeleton, names, exact = parse(spec, history, action)
    skeleton = " ".join(skeleton.split())
    known = skeleton if skeleton in spec["templates"] else spec["forms"].get(skeleton, "")
    if not known and skeleton.lower() in spec["templates"]:
        known = skeleton.lower()
    if not known:
        return "The environment knows only these forms: " + ", ".join(f"`{form}`" for form in forms(spec)) + "."
    wanted = write(known, names)
    rewritten = wanted != action or not exact
    decision = decide(spec, history, known, names, rewritten)
    if decision is not None and decision[1] == "already":
        return f"`{wanted}` would change nothing: that is already so."
    rewrite = f"`{action}` is not understood; write `{wanted}` instead." if rewritten else ""
    if decision is None:
        return rewrite
    needed = f"`{wanted}` does not work yet: you need to `{decision[1]}` first."
    return f"{needed} {rewrite}".strip()


def forms(spec: dict[str, Any]) -> list[str]:
    """The action forms, with letters for the places."""
    return [write(template, ["X", "Y", "Z"]) for template in spec["templates"]]
