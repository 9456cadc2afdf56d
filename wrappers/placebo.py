"""What is shown in place of an interface's words where the interface is played as its own placebo.

A placebo runs the same code and speaks on the same turns, but says nothing: no command, no name, no reason. What an
interface adds to its placebo is what its words are worth; what the placebo adds to no interface is what any words are
worth. Pure functions of text: whose words are replaced on which turn is decided in `align_wrapper.py`.
"""

from __future__ import annotations

SENTENCE = "That is how things are now."
"""Stands where an interface speaks: true, and of no use to anyone."""

_FILLER = (
    "Things are as they are.",
    "One moment follows another, and each has its own length.",
    "Some days are long and others are short.",
    "What has been is past, and what will be is still ahead.",
    "Much is old, much is new.",
    "Each whole has parts, and all parts belong together.",
)


def neutral_observation(shown: str, raw: str | None) -> str:
    """The placebo of what an interface shows: the engine's own words (`raw`), and the sentence if the two differ.

    `raw` None: the engine was not asked, and the sentence stands alone.
    """
    if raw is not None and shown.split() == raw.split():
        return raw  # white space is not speech
    return f"{raw} {SENTENCE}" if raw else SENTENCE


def neutral_rules(rules: str) -> str:
    """Neutral sentences, in lines as long as those of `rules`; a line ends in dots where no other word fits."""
    return "\n".join(_line(number, len(line)) for number, line in enumerate(rules.split("\n")))


def _line(number: int, length: int) -> str:
    first = number % len(_FILLER)
    sentences = " ".join((*_FILLER[first:], *_FILLER[:first])) + " "
    text = (sentences * (length // len(sentences) + 1))[: length + 1]
    words = text[: text.rfind(" ") + 1].rstrip()
    return words + "." * (length - len(words))
