"""Text as an agent is shown it, and answers as they are compared: exact match and F1 over words, as SQuAD counts them.

An answer is compared in small letters, without punctuation, articles and accents, with single spaces. Accents are left
out because observations are ASCII: an agent that repeats what it read must not be wrong for that. So a right answer is
also right as it is shown, but for one of which no letter can be shown ("??" for a name in Chinese). A right answer of
which nothing would be left ("A", "The The") is compared as it is written, but for capitals and spaces.
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
"""Signs that are letters of their own to Unicode, in ASCII."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain(text: str) -> str:
    """The text in printable ASCII on one line: letters without accents, "?" for what has no such letter."""
    letters = unicodedata.normalize("NFKD", text.translate(_SIGNS))
    bare = " ".join("".join(letter for letter in letters if not unicodedata.combining(letter)).split())
    return "".join(letter if " " <= letter <= "~" else "?" for letter in bare)


def normalised(answer: str) -> str:
    """The answer as it is compared."""
    letters = unicodedata.normalize("NFKD", answer.translate(_SIGNS).lower())
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_ARTICLES.sub(" ", bare.translate(_PUNCTUATION)).split())


def exact(answer: str, right: Sequence[str]) -> bool:
    """Whether the answer is one of the right ones. What has no word or number left is right as it is written alone."""
    given, bare = normalised(answer), _bare(answer)
    as_compared = bool(given) and any(given in _forms(text) for text in right)
    return as_compared or (bool(bare) and any(bare == _bare(text) for text in right if not normalised(text)))


def f1(answer: str, right: Sequence[str]) -> float:
    """The harmonic mean of precision and recall over words, in [0, 1]; the best over the right answers."""
    given, bare = normalised(answer).split(), _bare(answer).split()
    whole = (text for text in right if normalised(text))
    scores = [_f1(given, form.split()) for text in whole for form in _forms(text)]
    return max([*scores, *(_f1(bare, _bare(text).split()) for text in right if not normalised(text))], default=0.0)


def _forms(text: str) -> tuple[str, str]:
    """A right answer as it is compared, by itself and as it is shown."""
    return normalised(text), normalised(plain(text))


def _bare(text: str) -> str:
    """A text in small letters with single spaces: without its articles nothing would be left of "A" or "The The"."""
    return " ".join(text.lower().split())


def _f1(given: Sequence[str], right: Sequence[str]) -> float:
    shared = sum((Counter(given) & Counter(right)).values())
    return 2 * shared / (len(given) + len(right)) if shared else 0.0
