"""Words after a refusal, and rules, that say nothing of use: no reason and no command, in very many wordings.

They are sentences made from parts, common words in any order, and what an agent itself sent. They never hold one of
`HELD_OUT`: those are kept for measuring, the placebo that the package ships among them. Left out: words that say
something (`remarks.py`).
"""

from __future__ import annotations

from align_echo.base.dice import Dice
from align_echo.wrappers.align_wrapper import SENTENCE
from studies.pocket.wordings import wordings

HELD_OUT = (SENTENCE, "That does not work here at this moment.", "Every day has its morning and its evening.")
"""Sentences without content that no demonstration holds."""

(
    _PLAIN_NOTHING, _ABOUT_THE_ACTION, _SUBJECTS, _VERBS, _COMPLEMENTS, _STATES, _WORDS, _HOW_THINGS_ARE,
    _OPENINGS, _TAILS, QUOTES,
) = wordings("idle_words")


def contentless(dice: Dice, action: str) -> str:
    """Words after a refusal that say nothing of use: no reason, no command. Never one of `HELD_OUT`."""
    while True:
        made = " ".join(nothing(dice, action) for _ in range(dice.pick((1, 1, 1, 1, 2, 2, 3))))
        made = dice.pick(("{}", "{}", "{}", "{}", "{}", "({})", "[{}]", "`{}`", '"{}"', "** {} **")).format(made)
        if not any(sentence.rstrip(".").lower() in made.lower() for sentence in HELD_OUT):
            return made


def nothing(dice: Dice, action: str) -> str:
    """One sentence of these, or a remark that the agent sent what it sent."""
    if dice.chance(0.1):
        return str(dice.pick(_ABOUT_THE_ACTION).format(action=dice.pick(QUOTES).format(action)))
    return dice.pick(_PLAIN_NOTHING) if dice.chance(0.2) else idle_sentence(dice)


def idle_sentence(dice: Dice) -> str:
    """A sentence about nothing in the room; some say how things are in general, some are common words in any order."""
    if dice.chance(0.35):
        words = " ".join(dice.pick(part) for part in _HOW_THINGS_ARE)
        return f"{words[0].upper()}{words[1:]}".replace(" ,", ",").strip() + dice.pick((".", ".", ".", "!"))
    if dice.chance(0.45):
        words = " ".join(dice.pick(_WORDS) for _ in range(2 + dice.below(dice.pick((4, 8, 14)))))
        return f"{words[0].upper()}{words[1:]}{dice.pick(('.', '.', '.', '.', '!', '?', ' ...'))}"
    subject, tail = dice.pick(_SUBJECTS), dice.pick(_TAILS)
    if dice.chance(0.5):
        middle = f"{dice.pick(('is', 'was', 'remains', 'may be', 'seems'))} {dice.pick(_STATES)}"
    else:
        middle = f"{dice.pick(_VERBS)} {dice.pick(_COMPLEMENTS)}"
    text = f"{dice.pick(_OPENINGS)}{subject} {middle}{tail}{dice.pick(('.', '.', '.', '!', ' ...'))}"
    return f"{text[0].upper()}{text[1:]}"


def idle_rules(dice: Dice, rules: str) -> str:
    """Lines about nothing where rules would stand: about as many and as long as those of `rules`, or few, or one."""
    lines = rules.split("\n")
    if dice.chance(0.4):
        lines = lines[: 1 + dice.below(len(lines))]
    return "\n".join(_idle_line(dice, len(line)) for line in lines)


def _idle_line(dice: Dice, length: int) -> str:
    text = idle_sentence(dice)
    while len(text) < length:
        text = f"{text} {dice.pick(_PLAIN_NOTHING) if dice.chance(0.2) else idle_sentence(dice)}"
    text = text[: text.rfind(" ", 0, length + 1)] if len(text) > length > 30 else text
    return text + "." * min(dice.below(4) * dice.below(3), max(length - len(text), 0))
