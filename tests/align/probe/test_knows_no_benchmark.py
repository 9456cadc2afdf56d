"""The probe must find its rules: nothing of what it found in a benchmark may stand in its source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import align_echo
import align_echo.align.probe
import align_echo.interface.rules
from align_echo.interface.rules.model import SayInstead
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.wrappers.catalogue import environments

RULES = Path(align_echo.interface.rules.__file__).parent
FILES = sorted(
    [
        *Path(align_echo.align.probe.__file__).parent.rglob("*.py"),
        *(RULES / f"{name}.py" for name in ("decisions", "situations", "vocabulary")),
    ]
)

PLAIN_ENGLISH = {
    *("box", "book", "look", "help", "open", "close", "use", "take", "move", "with", "from", "go", "to", "watch"),
}
"""Words of the benchmark that prose cannot do without; as parts of templates they are looked for below."""

OTHERS = ["known action", "ambiguous", "search[", "webshop", "alfworld", "scienceworld", "receptacle", "household"]


PYTHONS_MATH = re.compile(r"\bimport math\b|\bmath\.\w")
"""Python's own module has the name of an environment."""


def learned() -> tuple[set[str], set[str]]:
    """Single words and whole phrases of the shipped interface."""
    rules = read_rule_set(align_echo.load_interface("alfworld/probe").source)
    assert rules is not None
    assert rules.vocabulary is not None
    kinds = {word for slots in rules.vocabulary.kinds.values() for words in slots for word in words}
    forms = rules.vocabulary.forms
    verbs = {word for form in forms for word in re.findall(r"[a-z]+", form)}
    wrong = {rule.form for rule in rules.rules if isinstance(rule, SayInstead)}
    phrases = {form.lower() for form in forms if "{" in form} | wrong
    refusals = {text.lower() for text in rules.vocabulary.refusals}
    return (kinds | verbs) - PLAIN_ENGLISH, phrases | refusals


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_nothing_learned_stands_in_the_source(file: Path):
    code = file.read_text().lower()
    words, phrases = learned()
    assert len(words) > 50
    assert [word for word in sorted(words) if re.search(rf"\b{re.escape(word)}\b", code)] == []
    assert [phrase for phrase in sorted({*phrases, *OTHERS}) if phrase in code] == []


def test_no_environment_is_named():
    names = [spec.name for spec in environments().values()]
    codes = [PYTHONS_MATH.sub("", file.read_text().lower()) for file in FILES]
    assert [name for code in codes for name in names if name in code] == []


def test_the_probe_never_asks_for_rewards_or_the_truth():
    forbidden = re.compile(r"oracle\(|is_invalid|expert_action|\.distance\(|\.score|\.reward|\.won\b")
    assert [file.name for file in FILES if forbidden.search(file.read_text())] == []
