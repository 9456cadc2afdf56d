"""What a learned interface does at run time: keep a history, recognise an action, find the rule that applies.

The learner imports this file to score rules, and `emit.py` copies its code into the interface it writes, so a rule is
judged by the very code that will apply it. Plain functions over dicts and lists only: it runs in the sandbox. `spec`
holds what was learned (`spec.py` says how). About a name that no text of the engine has held, nothing is said but that.
What the views show (`look_at`) is taken at the moment of the refusal.
"""

import re
from typing import Any

from align_echo.align.probe.spec import by_name, by_text, by_unknown_words

ACTION, SAME = "{action}", "{same}"
"""In a shape of refusal (`refusal`): the action's own words; the answer before again. Functions here, which alone are
copied into an interface (without decorators), write them out."""


def new_history(spec: dict[str, Any], text: str, answer: str = "") -> dict[str, Any]:
    """A history that has seen only the opening text; `answer` is what of it the engine said."""
    history: dict[str, Any] = {"last": {}, "active": {}, "shape": {}, "near": {}, "at": {}, "stems": {}}
    history.update({"with": {}, "views": {}, "meant": {}, "did": {}, "text": "", "answer": answer.strip()})
    observe(spec, history, text)
    return history


def refusal(known: list[str], before: str, action: str, answer: str) -> str:
    """The shape of refusal that an answer has, of those that are `known`; "" if it has none. A shape is a text, a text
    with "{action}" for the action's own words, or "{same}": the answer is the one before again."""
    text = answer.strip()
    for shape in [text, without_action(action, text)]:
        if shape in known:
            return shape
    return "{same}" if "{same}" in known and text == before.strip() else ""


def without_action(action: str, text: str) -> str:
    """A text with "{action}" where it repeats an action, in whatever letters."""
    words = action.strip()
    return re.sub(re.escape(words), "{action}", text, flags=re.IGNORECASE) if words else text


def views_for(spec: dict[str, Any], history: dict[str, Any], action: str) -> list[str]:
    """The read-only actions that tell what there is to know about an action: those without a name, then on its names,
    on what those were shown with, and on what the steps name that rules might ask for."""
    template, names = read(spec, history, action)
    wanted = about(history, names)
    for row in spec["templates"].get(template, []):
        if not isinstance(row["then"], str):
            wanted += [value(history, term, names) for term in row["then"][1]]
    plain = [view for view in spec["views"] if "{}" not in view]
    known = [name for name in dict.fromkeys(wanted) if name in history["shape"]][:12]
    return plain + [view.replace("{}", name) for view in spec["views"] if "{}" in view for name in known]


def look_at(history: dict[str, Any], texts: dict[str, str]) -> None:
    """Take in what the views show now, by view; what they showed before is forgotten."""
    history["views"] = dict(texts)


def record(spec: dict[str, Any], history: dict[str, Any], action: str, observation: str) -> str:
    """Take in one action and the engine's own answer to it. Returns the shape of a refusal, which leaves no trace else,
    and "" for an action that was taken."""
    refused = refusal(spec["uninformative"], history["answer"], action, observation)
    history["answer"] = observation.strip()
    if refused:
        return refused
    template, arguments, exact = parse(spec, history, action if spec["spelling"]["case"] else action.lower())
    if exact and template in spec["templates"]:
        if template in spec["movers"]:
            history["last"][template] = arguments
            for position, name in enumerate(arguments):
                before = [other for other in history["did"].get(f"{template}/{position}", []) if other != name]
                history["did"][f"{template}/{position}"] = [*before, name]
        for number, (do, undo, order) in enumerate(spec["pairs"]):
            if template in (do, undo):
                for position, where in enumerate(order):
                    name = arguments[position] if template == do else arguments[where] if where >= 0 else ""
                    others = [other for other in history["active"].get(f"{number}/{position}", []) if other != name]
                    history["active"][f"{number}/{position}"] = [*others, name] if template == do else others
    observe(spec, history, observation)
    return ""


def observe(spec: dict[str, Any], history: dict[str, Any], text: str) -> None:
    """Remember for every name in a text how it was last spoken of, next to what, and what had been done last."""
    history["text"] += text.lower() + "\n"
    here = {template: arguments[0] for template, arguments in history["last"].items()}
    named = names_in(spec, text)
    for name in named:
        others = [other for other in named if other != name]
        history["with"][name] = others[0] if others else history["with"].get(name, "")
    for sentence in text.replace("\n", ". ").split(". "):
        names = re.findall(spec["name"], sentence)
        for name in names:
            others = [other for other in names if other != name]
            history["shape"][name] = shape(spec, sentence, name)
            history["near"][name] = others[0] if others else ""
            history["at"][name] = here
            history["stems"][stem(name)] = name


@by_name
def shape(spec: dict[str, Any], sentence: str, name: str) -> str:
    """How a sentence speaks of a name: three words before it and two after, other names blank, lists as one name."""
    marked = re.sub(spec["name"], lambda found: "X" if found.group(0) == name else "_", sentence)
    single = re.sub(r"[X_](?:,? (?:and )?(?:an? )?[X_])+", lambda found: "X" if "X" in found.group(0) else "_", marked)
    before, _, after = single.partition("X")
    return " ".join([*before.split()[-3:], "X", *after.strip(" .").split()[:2]])


@by_text
def stem(name: str) -> str:
    """A name without its number."""
    word, _, number = name.rpartition(" ")
    return word if number.isdigit() else name


@by_unknown_words
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
    """Whether one condition holds for an action about these names (`about`)."""
    kind = literal[0]
    if kind == "not":
        return not holds(spec, history, literal[1], names)
    if kind == "combined":  # [combined, template]: these words were seen together in it
        return combined(spec, literal[1], names[: literal[1].count("{")])
    if kind == "last":  # [last, template, place, i]: names[i] took that place the last time that template worked
        arguments = history["last"].get(literal[1], [])
        return bool(literal[2] < len(arguments) and arguments[literal[2]] == names[literal[3]])
    if kind == "did":  # [did, template, place, i]: names[i] took that place some time when that template worked
        return names[literal[3]] in history["did"].get(f"{literal[1]}/{literal[2]}", [])
    if kind == "active":  # [active, pair, place, i]: done to names[i] and not undone since
        return names[literal[3]] in history["active"].get(f"{literal[1]}/{literal[2]}", [])
    if kind == "any":  # [any, pair, place]: done to something and not undone since
        return len(history["active"].get(f"{literal[1]}/{literal[2]}", [])) > 0
    if kind == "shape":  # [shape, i, text]: the last sentence naming names[i] speaks of it so
        return bool(history["shape"].get(names[literal[1]], "") == literal[2])
    if kind == "kind":  # [kind, i, template, place]: names[i] is of a kind that was seen in that place
        return stem(names[literal[1]]) in spec["kinds"][literal[2]][literal[3]]
    if kind == "with":  # [with, i, j]: the text that named names[i] last named names[j] first
        return bool(history["with"].get(names[literal[1]], "") == names[literal[2]])
    if kind == "near":  # [near, i, j]: that sentence named names[j] first
        return bool(history["near"].get(names[literal[1]], "") == names[literal[2]])
    if kind == "at":  # [at, i, template, j]: names[i] was last named after that template with names[j]
        return bool(history["at"].get(names[literal[1]], {}).get(literal[2], "") == names[literal[3]])
    if kind == "here":  # [here, i, template]: names[i] was last named under that template's present value
        current = history["last"].get(literal[2], [""])[0]
        return bool(history["at"].get(names[literal[1]], {}).get(literal[2], "") == current != "")
    if kind == "shows":  # [shows, view, i]: that view has names[i] now
        return names[literal[2]] in names_in(spec, history["views"].get(literal[1], ""))
    if kind == "blank":  # [blank, view]: that view has no name now
        return names_in(spec, history["views"].get(literal[1], "")) == []
    if kind == "holds":  # [holds, view, i, j]: that view of names[i] has names[j] now
        return names[literal[3]] in names_in(spec, view_of(history, literal[1], names[literal[2]]))
    if kind == "told":  # [told, view, i, text]: that view of names[i] speaks of it so now
        return bool(told(spec, view_of(history, literal[1], names[literal[2]]), names[literal[2]]) == literal[3])
    return names[literal[1]] in history["shape"]  # [known, i]


def about(history: dict[str, Any], names: list[str]) -> list[str]:
    """The names of an action, and for each the first other name of the text that named it last."""
    return [*names, *(str(history["with"].get(name, "")) for name in names)]


def combined(spec: dict[str, Any], template: str, names: list[str]) -> bool:
    """Whether things of these kinds were seen together in a template."""
    return " ".join(stem(name) for name in names) in spec["combined"].get(template, [])


def view_of(history: dict[str, Any], view: str, name: str) -> str:
    """What a view of a name shows now."""
    return str(history["views"].get(view.replace("{}", name), ""))


@by_name
def names_in(spec: dict[str, Any], text: str) -> list[str]:
    """The names in a text."""
    return [str(name) for name in re.findall(spec["name"], text)]


@by_name
def told(spec: dict[str, Any], text: str, name: str) -> str:
    """How the first sentence of a text that has a name speaks of it; "" if there is none."""
    for sentence in text.replace("\n", ". ").split(". "):
        if name in names_in(spec, sentence):
            return shape(spec, sentence, name)
    return ""


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
    if kind == "with":  # [with, i]
        return str(history["with"].get(names[term[1]], ""))
    if kind == "near":  # [near, i]
        return str(history["near"].get(names[term[1]], ""))
    return str(history["at"].get(names[term[1]], {}).get(term[2], ""))  # [at, i, template]


def decide(
    spec: dict[str, Any], history: dict[str, Any], template: str, names: list[str], sure: bool = False, deep: int = 3
) -> tuple[int, str] | None:
    """(row number, missing step, "already" or "now") of the first rule that applies to an action; None if none does.
    Rules of what an action always needs ("must") come last; if what it needs is itself not possible yet, what that
    needs is meant (`deep` steps back at most).

    Without `sure` the action was refused in just these words. With it, it was not tried: then the rules that call an
    action allowed ("now", numbered from -1 downwards) come first, and of the others only those count that apply to no
    allowed action. A step counts only if a rule calls it allowed now, where there are such rules for its form.
    """
    if not fitting(spec, template, names):
        return None
    everything = about(history, names)
    if sure:
        for number, row in enumerate(spec["now"].get(template, [])):
            if all(holds(spec, history, literal, everything) for literal in row["if"]):
                return -1 - number, "now"
    for must in [False, True]:
        for number, row in enumerate(spec["templates"].get(template, [])):
            if row.get("must", False) != must or (sure and not row.get("sure", False)):
                continue
            if all(holds(spec, history, literal, everything) for literal in row["if"]):
                step = conclude(spec, history, row["then"], names)
                if step and doubtful(spec, history, step):
                    step = needed(spec, history, step, deep) if must else ""
                if step and step != write(template, names):
                    return number, step
    return None


def needed(spec: dict[str, Any], history: dict[str, Any], step: str, deep: int) -> str:
    """What a step needs that is not possible yet; "" if no rule tells."""
    template, names, _ = parse(spec, history, step)
    decision = decide(spec, history, template, names, True, deep - 1) if deep else None
    return decision[1] if decision is not None and decision[1] not in ("already", "now") else ""


def doubtful(spec: dict[str, Any], history: dict[str, Any], step: str) -> bool:
    """Whether a step is of a form that has rules for when it is allowed, and none of them applies now."""
    template, names, _ = parse(spec, history, step)
    rows = spec["now"].get(template, [])
    everything = about(history, names)
    return len(rows) > 0 and not any(all(holds(spec, history, one, everything) for one in row["if"]) for row in rows)


def fitting(spec: dict[str, Any], template: str, names: list[str]) -> bool:
    """Whether each name is of a kind that was seen in its place."""
    kinds = spec["kinds"].get(template)
    return kinds is None or all(stem(name) in kinds[place] for place, name in enumerate(names))


def conclude(spec: dict[str, Any], history: dict[str, Any], then: Any, names: list[str]) -> str:
    """The step that a rule's right-hand side stands for; "" if one of its names is not known or does not fit."""
    if isinstance(then, str):
        return then
    found = [value(history, term, names) for term in then[1]]
    if not all(found) or not fitting(spec, then[0], found) or (then[2] and not combined(spec, then[0], found)):
        return ""
    return write(then[0], found)


def read(spec: dict[str, Any], history: dict[str, Any], action: str) -> tuple[str, list[str]]:
    """(template, names) that an action stands for; ("", []) if it is of no form that is known.

    Tried in turn: as it stands, in lower case, and by the words of a form around names of any shape. What a name
    without its number stood for when an action was said first, it stands for when the action is said again.
    """
    said = " ".join(action.split())
    if said in history["meant"]:
        meant: tuple[str, list[str]] = history["meant"][said]
        return meant
    template, names = read_afresh(spec, history, said)
    if template and all(name in history["shape"] for name in names):
        history["meant"][said] = (template, names)
    return template, names


def read_afresh(spec: dict[str, Any], history: dict[str, Any], said: str) -> tuple[str, list[str]]:
    """The same for words said for the first time."""
    for text in [said, said.lower()]:
        skeleton, names, _ = parse(spec, history, text)
        if skeleton in spec["templates"]:
            return skeleton, names
        if skeleton in spec["forms"]:
            return spec["forms"][skeleton], names
    for form in [*spec["templates"], *spec["forms"]]:
        pattern = "(.+?)".join(re.escape(part) for part in re.split(r"\{\d\}", form))
        match = re.fullmatch(pattern, said.lower())
        if match is not None and "{" in form:
            return spec["forms"].get(form, form), [named(spec, history, text.strip()) for text in match.groups()]
    return "", []


def named(spec: dict[str, Any], history: dict[str, Any], text: str) -> str:
    """The one name in a text, also where its number is left out; the text itself if there is none or more."""
    found = [name for name in names_in(spec, text) if name in history["shape"]]
    if not found:
        found = [history["stems"][word] for word in text.split() if word in history["stems"]]
    return str(found[0]) if len(found) == 1 else text


def advise(spec: dict[str, Any], history: dict[str, Any], action: str, refused: str = "") -> str:
    """What to tell an agent whose action was refused; "" where nothing was learned or nothing is certain. Silence
    (`refused` is "{same}") may also answer an action that was taken: then only rules speak that never speak of one."""
    plain = [history["views"].get(view, "") for view in spec["views"] if "{}" not in view]
    if any(text.strip() in spec["uninformative"] for text in plain):
        return ""  # the views do not answer any more: the episode is over
    template, names = read(spec, history, action)
    if not template:
        return "The environment knows only these forms: " + ", ".join(f"`{form}`" for form in forms(spec)) + "."
    for name in names:
        if name not in history["shape"]:
            return unseen(history, name)
    wanted = write(template, names)
    rewritten = wanted != action.strip()
    if rewritten and not spec["spelling"]["case"] and wanted == " ".join(action.lower().split()):
        rewritten = False
    decision = decide(spec, history, template, names, rewritten or refused == "{same}")
    if decision is None and " ".join(parse(spec, history, action)[0].split()) in spec["forms"]:
        return f"`{action}` is not understood: the form is `{wanted}`."
    if decision is None:
        shown = [name for text in plain for name in names_in(spec, text)]
        return last_seen(spec, history, [name for name in names if name not in shown])
    if decision[1] == "already":
        return f"`{wanted}` would change nothing: that is already so."
    if decision[1] == "now":
        return f"`{action}` is not understood; write `{wanted}` instead." if rewritten else ""
    before = f"`{wanted}` does not work yet: you need to `{decision[1]}` first."
    if spec["templates"][template][decision[0]].get("must", False):
        before = f"`{wanted}` is possible only after `{decision[1]}`."
    return before + (f" Then write `{wanted}`: `{action}` is not understood." if rewritten else "")


def unseen(history: dict[str, Any], name: str) -> str:
    """That a name was not seen so far, and which like it were; "" if its words were read somewhere."""
    if re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", history["text"]) is not None:
        return ""
    like = sorted(other for other in history["shape"] if stem(other) == stem(name))
    return f"Nothing called `{name}` was seen so far" + (f", only {', '.join(like)}." if like else ".")


def last_seen(spec: dict[str, Any], history: dict[str, Any], names: list[str]) -> str:
    """Where the first name that is not here was seen last, if the way there is certain; "" otherwise."""
    for name in names:
        for mover, place in history["at"].get(name, {}).items():
            if "{1}" in mover:
                continue
            away = place != history["last"].get(mover, [""])[0] and place != name
            decision = decide(spec, history, mover, [place], True) if away and place else None
            if decision is not None and decision[1] == "now":
                return f"`{name}` was last seen after `{write(mover, [place])}`."
    return ""


def forms(spec: dict[str, Any]) -> list[str]:
    """The action forms, with letters for the places."""
    return [write(template, ["X", "Y", "Z"]) for template in spec["templates"]]
