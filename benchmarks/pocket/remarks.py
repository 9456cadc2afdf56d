"""What an interface may say after a refusal, in many words: nothing at all, a reason, or a command; and rules likewise.

A reader must tell text with content from text without, so each kind comes in more wordings than a model can learn by
heart. Text without content never holds one of `HELD_OUT`: those are kept for measuring, the placebo that the package
ships among them. Left out: when which is said, and whether a command is right (`remark_demonstrations.py`).
"""

from __future__ import annotations

import itertools

from align_echo.dice import Dice
from align_echo.wrappers.alfworld.household import APPLIANCES, name_of
from align_echo.wrappers.placebo import SENTENCE

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
_OPENINGS = ("", "", "", "", "Now and then ", "As a rule, ", "In short, ", "Note: ", "Often ", "In the end ", 
             "By and large ", "Today ", "Once more, ", "Hint: ", "For now, ")  # fmt: skip
_TAILS = ("", "", "", " at all times", " in its way", " these days", ", as always", " for a while", ", so to speak",
          " at this time", " here", " now", " in this place")  # fmt: skip

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
_QUOTES = ("{}", "{}", "{}", "`{}`", "`{}`", '"{}"', "'{}'", "**{}**", "<{}>", "[{}]", "«{}»", "<action>{}</action>")

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


def contentless(dice: Dice, action: str) -> str:
    """Words after a refusal that say nothing of use: no reason, no command. Never one of `HELD_OUT`."""
    while True:
        made = " ".join(_nothing(dice, action) for _ in range(dice.pick((1, 1, 1, 1, 2, 2, 3))))
        made = dice.pick(("{}", "{}", "{}", "{}", "{}", "({})", "[{}]", "`{}`", '"{}"', "** {} **")).format(made)
        if not any(sentence.rstrip(".").lower() in made.lower() for sentence in HELD_OUT):
            return made


def _nothing(dice: Dice, action: str) -> str:
    if dice.chance(0.1):
        return dice.pick(_ABOUT_THE_ACTION).format(action=dice.pick(_QUOTES).format(action))
    return dice.pick(_PLAIN_NOTHING) if dice.chance(0.2) else idle_sentence(dice)


def idle_sentence(dice: Dice) -> str:
    """A sentence about nothing in the room; half of them are common words in any order."""
    if dice.chance(0.5):
        words = " ".join(dice.pick(_WORDS) for _ in range(2 + dice.below(dice.pick((4, 8, 14)))))
        return f"{words[0].upper()}{words[1:]}{dice.pick(('.', '.', '.', '.', '!', '?', ' ...'))}"
    subject, tail = dice.pick(_SUBJECTS), dice.pick(_TAILS)
    if dice.chance(0.5):
        middle = f"{dice.pick(('is', 'was', 'remains', 'may be', 'seems'))} {dice.pick(_STATES)}"
    else:
        middle = f"{dice.pick(_VERBS)} {dice.pick(_COMPLEMENTS)}"
    text = f"{dice.pick(_OPENINGS)}{subject} {middle}{tail}{dice.pick(('.', '.', '.', '!', ' ...'))}"
    return f"{text[0].upper()}{text[1:]}"


def order(dice: Dice, command: str, action: str) -> str:
    """Words that tell a player to send a command, quoted in some way or not at all.

    Most wordings are put together from parts, and many stand among idle words, so that what tells is the command.
    """
    quotes = dice.pick(_QUOTES)
    wording = dice.pick(_ORDERS) if dice.chance(0.4) else _put_together(dice)
    text = wording.format(step=quotes.format(command), action=quotes.format(action))
    if dice.chance(0.25):
        text = f"{_nothing(dice, action)} {text}"
    if dice.chance(0.2):
        text = f"{text} {_nothing(dice, action)}"
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
    kind = name_of(place)
    numbers = [int(name.rsplit(" ", 1)[1]) for name in places if name_of(name) == kind]
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

