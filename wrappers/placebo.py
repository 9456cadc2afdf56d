"""Placebo text that replaces an interface's words.

A placebo runs the same code and speaks on the same turns, but without a command, a name or a reason. The gain of an
interface over its placebo is the value of its words; the gain of a placebo over no interface is the value of any words.
These are pure functions of text; `align_wrapper.py` decides when to apply them.
"""

from __future__ import annotations

SENTENCE = "That is how things are now."
"""Replacement for an interface's words: true, and of no use."""

_FILLER = (
    "Things are as they are.",
    "One moment follows another, and each has its own length.",
    "Some days are long and others are short.",
    "What has been is past, and what will be is still ahead.",
    "Much is old, much is new.",
    "Each whole has parts, and all parts belong together.",
)


def neutral_observation(text: str, raw: str | None) -> str:
    """Return the placebo of an interface's text: the engine's own words (`raw`), plus the sentence if the two differ.

    `raw` None: the engine was not asked, and the sentence stands alone.
    """
    if raw is not None and text.split() == raw.split():
        return raw  # white space is not speech
    return f"{raw} {SENTENCE}" if raw else SENTENCE


def neutral_rules(rules: str) -> str:
    """Return neutral sentences in lines as long as those of `rules`. Dots fill a line if no further word fits."""
    return "\n".join(_line(number, len(line)) for number, line in enumerate(rules.split("\n")))


def _line(number: int, length: int) -> str:
    first = number % len(_FILLER)
    sentences = " ".join((*_FILLER[first:], *_FILLER[:first])) + " "
    text = (sentences * (length // len(sentences) + 1))[: length + 1]
    words = text[: text.rfind(" ") + 1].rstrip()
    return words + "." * (length - len(words))
