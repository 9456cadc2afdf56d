"""Text shown to an agent, and comparison of answers: exact match and F1 over words, as in SQuAD.

Answers are compared in small letters, without punctuation, articles and accents, with single spaces. Accents are
dropped because observations are ASCII: an agent that repeats the text it read must not be wrong. So a right answer also
matches in its shown form, except if none of its letters can be shown ("??" for a name in Chinese). A right answer that
would be empty ("A", "The The") is compared as written, but for capitals and spaces.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

_SIGNS = str.maketrans(
    {"‘": "'", "’": "'", "ʻ": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-", "…": "..."}
    | {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th", "ø": "o", "Ø": "O"}
    | {"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ħ": "h", "Ħ": "H", "ŋ": "n", "Ŋ": "N", "ı": "i"}
)
"""Letters that Unicode does not decompose, in ASCII."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain(text: str) -> str:
    """Convert a text to printable ASCII on one line: letters without accents, "?" for signs without an equivalent."""
    letters = unicodedata.normalize("NFKD", text.translate(_SIGNS))
    bare = " ".join("".join(letter for letter in letters if not unicodedata.combining(letter)).split())
    return "".join(letter if " " <= letter <= "~" else "?" for letter in bare)


def normalise(answer: str) -> str:
    """Normalise an answer for comparison."""
    letters = unicodedata.normalize("NFKD", answer.translate(_SIGNS).lower())
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_ARTICLES.sub(" ", bare.translate(_PUNCTUATION)).split())


def exact(answer: str, right: Sequence[str]) -> bool:
    """Check if the answer matches a right one. An answer that normalises to nothing matches only as written."""
    reply, bare = normalise(answer), _bare(answer)
    as_compared = bool(reply) and any(reply in _forms(text) for text in right)
    return as_compared or (bool(bare) and any(bare == _bare(text) for text in right if not normalise(text)))


def f1(answer: str, right: Sequence[str]) -> float:
    """Compute the F1 over words, in [0, 1]; the best over the right answers."""
    reply, bare = normalise(answer).split(), _bare(answer).split()
    comparable = (text for text in right if normalise(text))
    scores = [_f1(reply, form.split()) for text in comparable for form in _forms(text)]
    return max([*scores, *(_f1(bare, _bare(text).split()) for text in right if not normalise(text))], default=0.0)


def _forms(text: str) -> tuple[str, str]:
    """Return a right answer in normal form, by itself and as it is shown."""
    return normalise(text), normalise(plain(text))


def _bare(text: str) -> str:
    """Lower-case a text and collapse spaces. Unlike `normalise`, it keeps articles, so "A" and "The The" are not
    empty."""
    return " ".join(text.lower().split())


def _f1(reply: Sequence[str], right: Sequence[str]) -> float:
    shared = sum((Counter(reply) & Counter(right)).values())
    return 2 * shared / (len(reply) + len(right)) if shared else 0.0
