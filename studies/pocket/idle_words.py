"""Words after a refusal, and rules, that say nothing of use: no reason and no command, in very many wordings.

They are sentences made from parts, common words in any order, and what an agent itself sent. They never hold one of
`HELD_OUT`: those are kept for measuring, the placebo that the package ships among them. Left out: words that say
something (`remarks.py`).
"""

from __future__ import annotations

from align_echo.dice import Dice
from align_echo.wrappers.align_wrapper import SENTENCE

HELD_OUT = (SENTENCE, "That does not work here at this moment.", "Every day has its morning and its evening.")
"""Sentences without content that no demonstration holds."""

_PLAIN_NOTHING = (
    "It did not work.",
    "That had no effect.",
    "This was not possible.",
    "Nothing has changed.",
    "The answer is the same as before.",
    "So it goes.",
    "It is what it is.",
    "That is all there is to say.",
    "There is nothing to add.",
    "This is noted.",
    "Your message was received.",
    "The room is quiet.",
    "Time passes.",
    "The clock goes on.",
    "You may have expected another answer.",
    "This happens.",
    "That can be seen in many ways.",
    "No more is known.",
    "Please take note.",
    "Thank you.",
    "OK.",
    "Hm.",
    "Well then.",
    "Try to do your best.",
    "All of this is part of the task.",
    "The world has not moved.",
    "Not every attempt succeeds.",
    "An attempt was made.",
    "Everything has its time.",
    "Such is the state of the matter.",
)
_ABOUT_THE_ACTION = (
    "You sent {action}.",
    "{action} was read.",
    "The line was: {action}",
    "{action} did not work.",
    "That was {action}, and no more.",
    "Your reply {action} has been received.",
)
_SUBJECTS = (
    "the weather", "a river", "the moon", "some music", "every story", "the morning", "an old road", "the sea",
    "a long letter", "winter", "the summer", "a good answer", "the day", "the night", "the wind", "a song", "the past",
    "the future", "a town", "the north", "silence", "a number", "the world", "some advice", "every beginning", "an end",
    "the present", "the moment", "a question", "the state of things", "this part", "a small change", "the rest",
    "what has been", "what is to come", "one thing", "everything", "the way of the world", "a thought", "the whole",
)  # fmt: skip
_VERBS = (
    "has", "keeps", "brings", "knows", "likes", "follows", "shows", "carries", "holds", "wants", "needs", "gives",
    "loses", "remembers", "becomes", "meets", "makes", "finds", "leaves", "changes",
)  # fmt: skip
_COMPLEMENTS = (
    "its own pace", "another side", "many names", "a little time", "some rest", "what it can", "more of the same",
    "a quiet hour", "the usual course", "few words", "its place", "good and bad days", "an old habit", "no hurry",
    "the light of day", "what was there before", "one more turn", "a new day", "its reasons", "many forms",
    "a beginning and an end", "the same as ever", "something of everything", "a long way", "much to say",
)  # fmt: skip
_STATES = (
    "as it was", "neither long nor short", "old and new", "far and near", "much the same", "what it is",
    "here and there", "a matter of taste", "always so", "rarely otherwise", "in good order", "on its way",
    "one of many", "hard to say", "a part of life", "not without charm", "known to all", "still the same",
    "so and not otherwise", "good to know",
)  # fmt: skip
_WORDS = """
a about after again all already also always an and another answer any are as ask at attempt away back be because been
before begin behind best better between both bring but by call can cannot case come could day did different do does done
each early else end enough environment even ever every everything expect far few find first follow for form from full
further game give given good great had happen has have he help here hint how if in inside instead into is it its itself
just keep kind know last late least left less let like list little long look made make many may me mean might missing
more most much must name near need never new next no none not note nothing now number of off often old on once only open
or order other our out over own part perhaps place point possible present quite reach ready really reason refused repeat
rest right room rule said same say see seem seen send set shall should show side since so some soon sort stand start
state step still such sure take task tell than thank that the their them then there these they thing things think this
those though time to together told too try turn under understood unless until up us use used very wait want was way we
well were what when where whether which while who why will with without word words work world would write wrong yes yet
you your
""".split()  # noqa: SIM905
"""Common words, those of orders and reasons among them: none of them makes a text an order."""
_HOW_THINGS_ARE = (
    (
        "that is", "this is", "it is", "so it is", "here is", "that was", "this was", "it was", "that may be",
        "there is", "such is", "now you know", "that remains", "this stays", "it seems that", "you see",
        "one can say that", "that's", "it's", "well, that is", "and that is", "then this is", "as you see, it is",
        "that will be", "this has been",
    ),
    (
        "how", "what", "the way", "as", "just", "only", "simply", "how it happens that", "where", "when", "why", "all",
        "one of the ways", "not more than", "no other than", "like", "about", "exactly what", "perhaps how",
        "a case of",
    ),
    (
        "things", "matters", "it all", "everything", "the facts", "we", "they", "all of this", "the world", "affairs",
        "circumstances", "the days", "such cases", "many things", "some of it", "the rest", "life", "people",
        "answers",
    ),
    (
        "are", "were", "go", "stand", "have been", "happen", "do", "look", "work", "come and go", "remain", "stay",
        "seem", "end", "began", "turn out", "might be", "used to be", "have to be", "can be", "always are",
        "cannot be",
    ),
    (
        "", "", "", "at present", "today", "here", "this time", "at the moment", "right now", "for the present",
        "so far", "as before", "again", "in this world", "at this point", "then", "at last", "once more", "after all",
        "now and then", "on such a day", "in this room", "with us", ", it seems", ", for now", ", you know",
        ", as ever", ", and no more",
    ),
)  # fmt: skip
"""Parts of sentences that say how things are in general, in order."""
_OPENINGS = ("", "", "", "", "Now and then ", "As a rule, ", "In short, ", "Note: ", "Often ", "In the end ", 
             "By and large ", "Today ", "Once more, ", "Hint: ", "For now, ")  # fmt: skip
_TAILS = ("", "", "", " at all times", " in its way", " these days", ", as always", " for a while", ", so to speak",
          " at this time", " here", " now", " in this place")  # fmt: skip
QUOTES = ("{}", "{}", "{}", "`{}`", "`{}`", '"{}"', "'{}'", "**{}**", "<{}>", "[{}]", "«{}»", "<action>{}</action>")
"""How a command is quoted; often not at all."""


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
        return dice.pick(_ABOUT_THE_ACTION).format(action=dice.pick(QUOTES).format(action))
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
