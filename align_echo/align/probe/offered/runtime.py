"""What an interface learned on offered vocabulary does at run time: keep what was seen where, say why a refusal came.

`learner.py` copies this code into the interface it writes, and the trials run it too. Plain functions over dicts, lists
and strings only: it runs in the sandbox.

`spec` holds what was learned: "uninformative" (observations), "templates" (offered forms, "grab {0} off {1}"),
"always" (those that every task offered), "sure" (those that took every name at hand), "forms" (misused form ->
template), "views" (read-only actions whose texts show what is at hand, the one that names the place first), "places"
(their names), "travel" (the template that leads to any place, or ""), "movers" (all templates that lead somewhere),
"names" (names that the engine took), "bare" (whether names with further words around are refused), "before" and
"after" (the words that stand before and after names in the views; "" where none does).
"""

import re
from typing import Any


def new_history(text: str = "") -> dict[str, Any]:
    """A history that has seen only the opening text: place -> its view, latest last; the other views; the present
    place; all that was read so far."""
    return {"place": "", "seen": {}, "carried": "", "text": text.lower()}


def read_text(history: dict[str, Any], text: str) -> None:
    """Take in an answer of the engine, whatever it says."""
    if text.lower() not in history["text"]:
        history["text"] += "\n" + text.lower()


def watch(spec: dict[str, Any], history: dict[str, Any], texts: list[str]) -> None:
    """Take in the texts of the views as they are now."""
    if not texts:
        return
    history["place"] = place_in(spec, texts[0]) or history["place"]
    history["seen"].pop(history["place"], None)
    history["seen"][history["place"]] = texts[0].lower()
    history["carried"] = "\n".join(texts[1:]).lower()
    for text in texts:
        read_text(history, text)


def asks(text: str) -> bool:
    """Whether a text numbers choices, one a line: an answer is waited for, and a look might be taken for one."""
    return re.search(r"\n *\d+[:.)]\s", "\n" + text) is not None


def place_in(spec: dict[str, Any], text: str) -> str:
    """The place that a view names first; "" if it names none."""
    found = ""
    first = len(text)
    for place in spec["places"]:
        match = re.search(rf"\b{re.escape(place)}\b", text.lower())
        if match is not None and (match.start() < first or (match.start() == first and len(place) > len(found))):
            found, first = place, match.start()
    return found


def mentions(text: str, name: str) -> bool:
    """Whether a lower-case text has a name in it as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def surroundings(text: str, name: str) -> list[tuple[str, str]]:
    """The words before and after each occurrence of a name in a lower-case text; "" where none stands."""
    found = re.finditer(rf"(?:(\w+) )?(?<!\w){re.escape(name)}(?!\w)(?: (\w+))?", text)
    return [(match.group(1) or "", match.group(2) or "") for match in found]


def stands(spec: dict[str, Any], text: str, name: str) -> bool:
    """Whether a name stands in a lower-case text by itself, not as a part of a longer one: between words that names
    were met between."""
    around = surroundings(text, name)
    return any(before in spec["before"] and after in spec["after"] for before, after in around)


def at_hand(spec: dict[str, Any], history: dict[str, Any], name: str) -> bool:
    """Whether a name is in the present views."""
    return stands(spec, history["seen"].get(history["place"], ""), name) or stands(spec, history["carried"], name)


def last_seen(spec: dict[str, Any], history: dict[str, Any], name: str) -> str:
    """The place where a name was seen last; "" if nowhere."""
    places = [place for place, text in history["seen"].items() if place and stands(spec, text, name)]
    return str(places[-1]) if places else ""


def known(spec: dict[str, Any], history: dict[str, Any], name: str) -> bool:
    """Whether a name was seen anywhere, or is a place."""
    return name in spec["places"] or at_hand(spec, history, name) or last_seen(spec, history, name) != ""


def fill(template: str, names: list[str]) -> str:
    """A template with its places filled."""
    text = template
    for number, name in enumerate(names):
        text = text.replace("{" + str(number) + "}", name)
    return text


def slots(template: str, action: str) -> list[str] | None:
    """What stands in the places of a template in an action; None if it is not of this form."""
    pattern = "(.+?)".join(re.escape(part) for part in re.split(r"\{\d\}", template))
    match = re.fullmatch(pattern, action)
    return None if match is None else [text.strip() for text in match.groups()]


def understood(spec: dict[str, Any], history: dict[str, Any], action: str) -> tuple[str, list[str]] | None:
    """(form or template, names) that fits an action best: fewest names never seen, then most words of its own."""
    best: tuple[str, list[str]] | None = None
    rank = (9, 0)
    for form in [*spec["forms"], *spec["templates"]]:
        names = slots(form, action)
        if names is None:
            continue
        unseen = len([name for name in names if not known(spec, history, name)])
        here = (unseen, -len(form.split()))
        if best is None or here < rank:
            best, rank = (form, names), here
    return best


def bare(spec: dict[str, Any], history: dict[str, Any], text: str) -> str:
    """The first name within a text that the engine takes and that was seen, as long as it goes; "" if there is none."""
    words = text.split(" ")
    parts = [" ".join(words[a:b]) for a in range(len(words)) for b in range(len(words), a, -1)]
    return next((part for part in parts if part != text and part in spec["names"] and known(spec, history, part)), "")


def advise(spec: dict[str, Any], history: dict[str, Any], action: str) -> str:
    """What to tell an agent whose action was refused; "" where nothing was learned."""
    said = " ".join(action.lower().split())
    found = understood(spec, history, said)
    if found is None:
        return suggest(spec, said)
    form, names = found
    if spec["bare"]:
        names = [name if known(spec, history, name) else bare(spec, history, name) or name for name in names]
    advice = advise_on(spec, history, said, form, names)
    if advice or not spec["bare"]:
        return advice
    shorter = [bare(spec, history, name) or name for name in names]
    return advise_on(spec, history, said, form, shorter)


def advise_on(spec: dict[str, Any], history: dict[str, Any], said: str, form: str, names: list[str]) -> str:
    """What to tell of one form with these names, of which its template may use some only.

    Of a name that no text has held nothing is said but that; of one that was read and is at hand nowhere, nothing. A
    place is only somewhere to go: what else can be done with one, and where else one can go, was not learned. Of most
    templates it was not learned either which things they take: an action of the template's own form with bare names is
    promised to be understood only if the template took every name at hand. A template that some tasks lack is promised
    nowhere.
    """
    template = spec["forms"].get(form, form)
    used = [name for number, name in enumerate(names) if "{" + str(number) + "}" in template]
    for name in used:
        if not known(spec, history, name):
            return "" if mentions(history["text"], name) else f"Nothing called `{name}` was seen so far."
    if template in spec["templates"] and template not in spec["always"]:
        return some_tasks([template])
    if any((name in spec["places"]) != (template in spec["movers"]) for name in used):
        return ""
    if template in spec["movers"] and template != spec["travel"] and spec["travel"]:
        return f"`{said}` is not possible from here; write `{fill(spec['travel'], used[:1])}` instead."
    wanted = fill(template, names)
    rewrite = f"`{said}` is not understood; write `{wanted}` instead." if wanted != said else ""
    taken = template in spec["sure"] and all(at_hand(spec, history, name) for name in used)
    if wanted != said and form == template and not taken:
        alone = " and ".join(f'"{name}"' for name in used)
        rewrite = f"Words around a name are not understood: here {alone} must stand alone."
    step = missing_step(spec, history, template, used)
    if step:
        return f"`{wanted}` does not work yet: you need to `{step}` first. {rewrite}".strip()
    away = [name for name in used if template not in spec["movers"] and not at_hand(spec, history, name)]
    if away:
        return f"`{away[0]}` is not here; it was last seen at {last_seen(spec, history, away[0])}. {rewrite}".strip()
    return rewrite


def missing_step(spec: dict[str, Any], history: dict[str, Any], template: str, names: list[str]) -> str:
    """The way to the first name that is not at hand; "" if there is none to take.

    What lies here is left behind on a way: all names must be carried along or have been seen there.
    """
    away = [name for name in names if not at_hand(spec, history, name)]
    if template in spec["movers"] or not spec["travel"] or not away:
        return ""
    place = last_seen(spec, history, away[0])
    seen = history["seen"].get(place, "")
    together = all(stands(spec, history["carried"], name) or stands(spec, seen, name) for name in names)
    return fill(spec["travel"], [place]) if place and together else ""


def suggest(spec: dict[str, Any], action: str) -> str:
    """The forms that begin with the same word; all that every task offers if none does."""
    first = action.split(" ")[0]
    same = [form for form in spec["templates"] if form.split(" ")[0] == first]
    always = [form for form in same if form in spec["always"]]
    if always == [first]:
        return f"`{action}` is not understood; write `{first}` instead."
    if always:
        return "Write " + " or ".join(f"`{letters(form)}`" for form in always) + "."
    return some_tasks(same) if same else "The environment knows these forms: " + listed(spec["always"]) + "."


def some_tasks(templates: list[str]) -> str:
    """What is said of templates that some tasks offer."""
    return "Some tasks understand " + " or ".join(f"`{letters(one)}`" for one in templates) + ", not all."


def listed(templates: list[str]) -> str:
    """Templates in a row."""
    return ", ".join(f"`{letters(template)}`" for template in templates)


def letters(template: str) -> str:
    """A template with letters for its places."""
    return fill(template, ["X", "Y", "Z"])
