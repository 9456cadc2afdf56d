"""What an interface for silent pages does at run time: notice that a page stayed as it was, say what is possible there.

`learner.py` copies this code into the interface it writes, and the trials run it too. Plain functions over dicts, lists
and strings only: it runs in the sandbox.

`spec` holds what was learned: "breaks" (the separators of a page's parts), "frame" (texts of parts by which pages are
told apart), "free" (by form that takes any words, the frames of the pages where it does), "closed" (by form that takes
only what a page shows: "sure", texts that it took wherever they stood; "never", texts that it took nowhere; "regions",
by `region_of`, with "open", "not" and "shapes"), "any_case" (whether a name may be written in other letters), "steps"
(by frame and form, name -> the name that leads to it), "beside" (by form, how far from a part that cannot be named
stands the name that leads to it, and in which regions). Forms are written with {0}: "press {0}".
"""

import re
from typing import Any


def fill(form: str, name: str) -> str:
    """A form with its place filled."""
    return form.replace("{0}", name)


def parts_of(spec: dict[str, Any], page: str) -> list[str]:
    """The parts of a page, in order, without the spaces around them."""
    parts = [page]
    for mark in spec["breaks"]:
        parts = [piece for part in parts for piece in part.split(mark)]
    return [part.strip() for part in parts if part.strip()]


def plain(text: str) -> str:
    """The words of a text in small letters, without punctuation."""
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def shape_of(text: str) -> str:
    """What a text looks like: the kinds of its characters, how many words it has, and its length."""
    known = [("A", "[A-Z]"), ("a", "[a-z]"), ("9", "[0-9]"), ("-", r"[^\w\s]")]
    kinds = [kind for kind, pattern in known if re.search(pattern, text)]
    return "".join(kinds) + " " + str(len(text.split())) + " " + str(len(text))


def frame_of(spec: dict[str, Any], lower: list[str]) -> str:
    """The texts of the frame that a page shows, in a row."""
    return " | ".join([text for text in spec["frame"] if text in lower])


def region_of(spec: dict[str, Any], lower: list[str], index: int) -> str:
    """Where a part stands: the frame of its page, and the texts of the frame before and after it."""
    before = [text for text in lower[:index] if text in spec["frame"]]
    after = [text for text in lower[index + 1 :] if text in spec["frame"]]
    return frame_of(spec, lower) + " || " + (before[-1] if before else "") + " || " + (after[0] if after else "")


def features_of(lower: list[str], index: int) -> list[str]:
    """What may set a part apart from others of its region: its text, its first word, the part before, and the first
    word of the part after."""
    before = lower[index - 1] if index else ""
    after = lower[index + 1] if index + 1 < len(lower) else ""
    first = lower[index].split(" ")[0]
    return ["is " + lower[index], "begins " + first, "after " + before, "before " + after.split(" ")[0]]


def named(spec: dict[str, Any], form: str, parts: list[str], index: int) -> str:
    """Whether a form takes a part of a page: "yes", "no", or "" where that was not learned."""
    lower = [part.lower() for part in parts]
    rule = spec["closed"][form]
    if lower[index] in rule["sure"]:
        return "yes"
    if lower[index] in rule["never"]:
        return "no"
    region = rule["regions"].get(region_of(spec, lower, index))
    if region is None:
        return ""
    if shape_of(parts[index]) in region["shapes"]:
        return "yes"
    if region["open"] == "none":
        return "no"
    excluded = any(feature in region["not"] for feature in features_of(lower, index))
    if region["open"] == "all":
        return "no" if excluded else "yes"
    return ""


def possible(spec: dict[str, Any], form: str, parts: list[str]) -> list[str]:
    """The parts of a page that a form takes, each once."""
    names: list[str] = []
    for index, part in enumerate(parts):
        if part not in names and named(spec, form, parts, index) == "yes":
            names.append(part)
    return names


def slot(form: str, action: str) -> str:
    """What stands in the place of a form in an action; "" if the action is not of this form."""
    head, _, tail = form.partition("{0}")
    inner = action[len(head) : len(action) - len(tail)].strip()
    return inner if action.startswith(head) and action.endswith(tail) and len(action) > len(head) + len(tail) else ""


def read(spec: dict[str, Any], action: str) -> tuple[str, str, bool]:
    """(form, what is named, whether the action is of the form). Where it is of none, the form that begins with the same
    word and all that follows; ("", the action) if there is none."""
    forms = [*spec["closed"], *spec["free"]]
    said = action.strip()
    for form in forms:
        name = slot(form, said)
        if name:
            return form, name, True
    words = plain(said).split(" ")
    for form in forms:
        if plain(form.partition("{0}")[0]).split(" ")[0] == words[0]:
            rest = re.sub(r"^\W*\w+", "", said).strip(" \t\n[](){}<>\"'`=:,.")
            return form, rest, False
    return "", said, False


def likeness(name: str, words: str) -> float:
    """How near a name is to what was said, both as `plain` words: 4 the same, 3 and more if it is in it and at least a
    third of it, 2 and more if it holds all that was said, 1 and more if half of their words are the same, less if most
    of their letters are; else 0."""
    if not name or not words:
        return 0.0
    if name == words:
        return 4.0
    own, said = name.split(" "), words.split(" ")
    if " " + name + " " in " " + words + " " and 3 * len(own) >= len(said):
        return 3.0 + len(own) / len(said) / 2
    if " " + words + " " in " " + name + " ":
        return 2.0 + len(said) / len(own) / 2
    shared = len([word for word in own if word in said])
    every = len(own) + len(said) - shared
    return 1.0 + shared / every / 2 if 2 * shared >= every else spelt_alike(name, words)


def spelt_alike(name: str, words: str) -> float:
    """The share of two texts' pairs of letters that both have, if that is most of them; else 0."""
    own = [name[index : index + 2] for index in range(len(name) - 1)]
    said = [words[index : index + 2] for index in range(len(words) - 1)]
    shared = len([pair for pair in own if pair in said]) + len([pair for pair in said if pair in own])
    return shared / (len(own) + len(said)) if 10 * shared >= 7 * (len(own) + len(said)) > 0 else 0.0


def nearest(names: list[str], said: str) -> tuple[float, list[str]]:
    """The names that are nearest to what was said, and how near: more than one if they are equally near."""
    words = plain(said)
    best = max([likeness(plain(name), words) for name in names], default=0.0)
    return best, [name for name in names if best > 0 and likeness(plain(name), words) == best]


def leading_to(spec: dict[str, Any], form: str, parts: list[str], said: str) -> str:
    """The name that leads to a part which was said and cannot be named; "" if there is none, or more than one."""
    beside = spec["beside"].get(form)
    if beside is None:
        return ""
    lower = [part.lower() for part in parts]
    names: list[str] = []
    for index, part in enumerate(parts):
        other = index + beside["shift"]
        if not 0 <= other < len(parts) or likeness(plain(part), plain(said)) < 1.6:
            continue
        if region_of(spec, lower, index) not in beside["regions"] or named(spec, form, parts, index) != "no":
            continue
        if named(spec, form, parts, other) == "yes":
            names.append(parts[other])
    return names[0] if len(names) == 1 else ""


def quoted(action: str) -> str:
    """An action as a message quotes it: on one line and not too long."""
    text = " ".join(action.replace("`", "'").split())
    return text if len(text) <= 120 else text[:117] + "..."


def advise(spec: dict[str, Any], page: str, action: str) -> str:
    """What to tell an agent whose action left a page as it was; "" where it may have been taken all the same."""
    parts = parts_of(spec, page)
    form, said, exact = read(spec, action)
    if form in spec["free"]:
        if exact:
            return ""
        if said and is_free(spec, form, parts):
            return instead(action, fill(form, " ".join(said.split())))
        return everything(spec, parts)
    for known in [form] if form else spec["closed"]:
        if exact and may_be_taken(spec, known, parts, said):
            return ""
    for known in [form] if form else spec["closed"]:
        advice = advise_on(spec, known, parts, action, said)
        if advice:
            return advice
    return otherwise(spec, form, parts, action, said) or everything(spec, parts)


def otherwise(spec: dict[str, Any], form: str, parts: list[str], action: str, said: str) -> str:
    """That another form takes what was said; "" if none takes just that."""
    for other in spec["closed"]:
        near, names = nearest(possible(spec, other, parts), said)
        if other != form and near == 4 and len(names) == 1:
            return instead(action, fill(other, names[0]))
    return ""


def is_free(spec: dict[str, Any], form: str, parts: list[str]) -> bool:
    """Whether a form takes any words on a page."""
    return frame_of(spec, [part.lower() for part in parts]) in spec["free"][form]


def may_be_taken(spec: dict[str, Any], form: str, parts: list[str], said: str) -> bool:
    """Whether a part is said of which it was not learned that the form does not take it."""
    for index, part in enumerate(parts):
        same = said == part or (spec["any_case"] and said.lower() == part.lower())
        if same and named(spec, form, parts, index) != "no":
            return True
    return False


def advise_on(spec: dict[str, Any], form: str, parts: list[str], action: str, said: str) -> str:
    """What to tell of one form: the name that was meant, here or a step away; "" if nothing is near."""
    near, names = nearest(possible(spec, form, parts), said)
    steps = spec["steps"].get(frame_of(spec, [part.lower() for part in parts]), {}).get(form, {})
    far, wanted = nearest(sorted(steps), said)
    beside = leading_to(spec, form, parts, said)
    if beside and near < 4 and far < 4:
        return instead(action, fill(form, beside))
    if wanted and far > near and len(wanted) == 1:
        return first(fill(form, wanted[0]), fill(form, steps[wanted[0]]))
    if len(names) == 1:
        return instead(action, fill(form, names[0]))
    return "The page is as it was. " + listed(form, names, False) + "." if 0 < len(names) <= 3 else ""


def instead(action: str, command: str) -> str:
    """That a command is possible, and the action is not."""
    return "`" + quoted(action) + "` is not understood; write `" + command + "` instead."


def first(action: str, step: str) -> str:
    """That a step comes first."""
    return "`" + action + "` does not work yet: you need to `" + step + "` first."


def listed(form: str, names: list[str], every: bool) -> str:
    """That a form takes some names here; `every`: and no others are known."""
    return "`" + fill(form, "X") + "` takes here" + ("" if every else ", among others") + ": " + " | ".join(names)


def everything(spec: dict[str, Any], parts: list[str]) -> str:
    """All that can be said on a page, as far as that was learned."""
    lines = []
    for form in spec["closed"]:
        names = possible(spec, form, parts)
        lines += [listed(form, names[:20], len(names) <= 20)] if names else []
    lines += ["`" + fill(form, "X") + "` takes any words" for form in spec["free"] if is_free(spec, form, parts)]
    return "The page is as it was. " + ". ".join(lines) + "." if lines else ""
