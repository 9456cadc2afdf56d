"""What an interface may say after a refusal, in many words, with content: a reason, or a command; and rules likewise.

A reader must tell text with content from text without (`idle_words.py`), so each kind comes in more wordings than a
model can learn by heart. Left out: when which is said, and whether a command is right (`remark_demonstrations.py`).
"""

from __future__ import annotations

import itertools

from align_echo.dice import Dice
from align_echo.wrappers.alfworld.household import APPLIANCES, entity_name
from studies.pocket.idle_words import QUOTES, idle_sentence, nothing
from studies.pocket.wordings import wordings

_AFAR, _SHUT, _PUT, _ABSENT, _ORDERS, _LEADS, _ENDS, _RULES = wordings("remarks")


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
