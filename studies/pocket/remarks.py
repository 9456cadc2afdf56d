"""What an interface may say after a refusal, in many words, with content: a reason, or a command; and rules likewise.

A reader must tell text with content from text without (`idle_words.py`), so each kind comes in more wordings than a
model can learn by heart. Left out: when which is said, and whether a command is right (`remark_demonstrations.py`).
"""

from __future__ import annotations

import itertools

from align_echo.dice import Dice
from align_echo.wrappers.alfworld.routes import APPLIANCES, entity_name
from studies.pocket.idle_words import QUOTES, idle_sentence, nothing

_AFAR = (
    "You are not standing at {place}.",
    "You are not at {place}.",
    "{place} is out of reach from where you are.",
    "{place} is too far away.",
    "That can only be done at {place}.",
    "You have to be at {place} for that.",
    "{place} is somewhere else in the room.",
    "From here {place} cannot be reached.",
    "You are in front of something else than {place}.",
    "Your position is wrong: this works next to {place} only.",
)
_SHUT = (
    "{place} is closed.",
    "{place} is still shut.",
    "The door of {place} is not open.",
    "It does not work while {place} is closed.",
    "You did not open {place}.",
    "{place} must be open for that.",
)
_PUT = (
    "The word put is not known here.",
    "There is no command put; things are moved.",
    "Here one moves a thing to a place.",
    "To put a thing down is called move.",
    "put is not understood, move is.",
    "The verb is move.",
)
_ABSENT = (
    "There is no {name} here.",
    "Nothing called {name} was seen so far.",
    "{name} does not exist in this room.",
    "You have not seen {name}.",
    "No such thing as {name} is known.",
    "{name} is not here.",
)
_ORDERS = (
    "You must first {step}.",
    "You need to {step} first.",
    "Before that, {step}.",
    "Try {step} first.",
    "The next step should be: {step}.",
    "This needs another step first: {step}.",
    "Use {step} before you try again.",
    "First {step}, then {action}.",
    "{action} does not work yet: you need to {step} first.",
    "{action} was refused. Do {step} and repeat it.",
    "It works after {step}.",
    "What is missing is {step}.",
    "Please {step}.",
    "Send {step}.",
    "Write {step} instead.",
    "{action} is not understood; write {step} instead.",
    "Instead of {action}, write {step}.",
    "Hint: {step}",
    "Suggested action: {step}",
    "Next action: {step}",
    "Action: {step}",
    "You have to {step} before {action}.",
    "You should {step} now.",
    "The way to do this is to {step} and then go on.",
    "Did you mean {step}?",
    "Required beforehand: {step}",
    "Now {step}.",
    "{step} comes first.",
    "{step} is the step that is needed.",
    "{step} first!",
    "I suggest that you {step}.",
    "An agent in your position would {step}.",
    "Do this: {step}",
    "The environment expects {step} here.",
)
_LEADS = (
    "you can", "perhaps", "maybe", "next", "begin with", "start with", "better", "what about", "how about", "think of",
    "remember to", "do not forget to", "it is time to", "go on with", "the answer is", "the key is to",
    "a good idea:", "the trick is", "first of all", "consider", "my advice is to", "all that is left is to",
    "you have yet to", "you did not", "nobody has done", "still open:", "to do:", "plan:", "make sure to",
    "be sure to", "it helps to", "why not", "in your place I would", "everything begins with", "", "expected:",
    "correct form:", "the right words are", "here one says", "you may want to", "ask for", "what works is",
    "this calls for", "prepare it with", "that needs", "the precondition is", "one has to", "it is necessary to",
)  # fmt: skip
_ENDS = (
    ".", ".", ".", ".", "!", "", " first.", " now.", " next.", " before that.", " and then {action}.",
    " and only then {action}.", " in place of {action}.", ", not {action}.", ", {action} comes later.",
    " to begin with.", ", then it will work.", ". After that, {action}.", " beforehand.",
    " (it is needed for {action}).", " instead.", " would help.", " is missing.", " is what works.",
    " has to be done.", ", please.", " at once.", "; {action} can wait.",
)  # fmt: skip

_RULES = (
    (
        "Stand at a place before you take a thing from it: `go to Y`, then `take X from Y`.",
        "You can only take what is at the place that you went to last.",
        "Before take X from Y you may need to go to Y.",
        "A thing is out of reach until you go to where it is.",
    ),
    (
        "Write `move X to Y` instead of `put X in/on Y`.",
        "The command put is unknown; things are moved: move X to Y.",
        "To put a thing down, say move X to Y.",
        "There is no put. Use move.",
    ),
    (
        "`heat X with Y`, `cool X with Y` and `clean X with Y` work only when you stand at Y: first `go to Y`.",
        "Go to the microwave before you heat, to the fridge before you cool, to the sinkbasin before you clean.",
        "Before heat, cool or clean you may need to go to the appliance with the thing in your hands.",
        "An appliance has to be within reach: go to it, then use it.",
    ),
    (
        "Closed furniture must be opened before a thing is taken from it or moved into it: `open Y`.",
        "Before move X to Y you may need to open Y.",
        "What is closed shows nothing. Open it first.",
        "If a place is closed, say open and its name, then go on.",
    ),
    (
        "Names are written in full, with their number.",
        "Every name has a number: mug 1, not mug.",
    ),
    (
        '"Nothing happens." means that the action was refused; it does not say why.',
        "Do not repeat what was refused. It will be refused again.",
        "If nothing happens, something is missing: think of where you stand and what is closed.",
    ),
    (
        "Only what is listed in the room exists; look for things at places that can hold them.",
        "Examine a place only where you stand.",
    ),
)


def order(dice: Dice, command: str, action: str) -> str:
    """Words that tell a player to send a command, quoted in some way or not at all.

    Most wordings are put together from parts, and many stand among idle words, so that what tells is the command.
    """
    quotes = dice.pick(QUOTES)
    wording = dice.pick(_ORDERS) if dice.chance(0.4) else _put_together(dice)
    text = wording.format(step=quotes.format(command), action=quotes.format(action))
    if dice.chance(0.25):
        text = f"{nothing(dice, action)} {text}"
    if dice.chance(0.2):
        text = f"{text} {nothing(dice, action)}"
    return f"{text[0].upper()}{text[1:]}" if dice.chance(0.9) else text


def _put_together(dice: Dice) -> str:
    lead, tail = dice.pick(_LEADS), dice.pick(_ENDS)
    if dice.chance(0.25):
        lead = f"{idle_sentence(dice).rstrip('.! ')}{dice.pick((':', ',', ' and', ' -', ' so'))}"
    if dice.chance(0.15):
        tail = f"{dice.pick((',', ' and', ' because', ' -'))} {_uncapitalised(idle_sentence(dice))}"
    return f"{lead} {{step}}{tail}".strip()


def _uncapitalised(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"


def reason(dice: Dice, right: str, action: str, known: frozenset[str]) -> str:
    """Why an action was refused, without the command that helps; "" where the right next action does not tell.

    `known` are the names that were read in the episode so far.
    """
    names = [name for name in _names(action) if name not in known]
    if names:
        return dice.pick(_ABSENT).format(name=_spelled(dice, names[0]))
    if right.startswith("open "):
        return _sentence(dice, _SHUT, right.removeprefix("open "))
    if right.startswith("go to ") and not action.startswith("go to "):
        return _sentence(dice, _AFAR, right.removeprefix("go to "))
    return dice.pick(_PUT) if action.startswith("put ") else ""


def _sentence(dice: Dice, wordings: tuple[str, ...], place: str) -> str:
    text = dice.pick(wordings).format(place=_spelled(dice, place))
    return f"{text[0].upper()}{text[1:]}"


def _spelled(dice: Dice, name: str) -> str:
    return dice.pick(("{}", "{}", "the {}", "`{}`", '"{}"')).format(name)


def _names(action: str) -> list[str]:
    """The names in an action: a word and a number each."""
    words = action.split()
    return [f"{word} {number}" for word, number in itertools.pairwise(words) if number.isdigit()]


def misleading(dice: Dice, places: list[str], wanted: str) -> str:
    """A command that does not help: refused, or without use. `wanted` is the kind of thing that is looked for."""
    place = dice.pick(places)
    kind = entity_name(place)
    numbers = [int(name.rsplit(" ", 1)[1]) for name in places if entity_name(name) == kind]
    beyond = f"{kind} {max(numbers) + 1 + dice.below(2)}"
    return dice.pick(
        (
            f"go to {beyond}",
            f"go to {beyond}",
            f"go to {place}",
            f"go to {place}",
            f"open {place}",
            f"examine {place}",
            f"take {wanted} {1 + dice.below(3)} from {place}",
            f"use {dice.pick(('desklamp', 'floorlamp'))} 1",
            f"{dice.pick(sorted(APPLIANCES))} {wanted} 1 with {place}",
            "inventory",
            "look",
        )
    )


def other_rules(dice: Dice) -> str:
    """A sheet of rules in words of its own: some wording of most of the rules that hold, in any order."""
    lines = [dice.pick(wordings) for wordings in dice.shuffled(_RULES) if dice.chance(0.85)]
    bullet = dice.pick(("- ", "- ", "* ", ""))
    heading = dice.pick(("Learned by experiment in this environment:", "Rules:", "What you should know:", ""))
    return "\n".join([*([heading] if heading else []), *(bullet + line for line in lines)])


def shuffled_rules(dice: Dice, rules: str) -> str:
    """Rules with their lines in another order, some left out, sometimes with idle lines among them."""
    heading, *lines = rules.split("\n")
    lines += [f"- {idle_sentence(dice)}" for _ in range(dice.below(4) * dice.below(2))]
    return "\n".join([heading, *(line for line in dice.shuffled(lines) if dice.chance(0.85))])
