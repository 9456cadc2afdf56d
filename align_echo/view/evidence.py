"""The rules of the interfaces that episodes were played under, and which of them may stand behind a message.

An episode names its interface by the hash of its source. One that ships, or whose `interface.json` lies in a run's
folder, has its rules on record with the experiments for and against each. A message does not say which rule made it:
those that name the same commands may stand behind it. Left out: trying what a message claims (`align/audit`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from align_echo.errors import InterfaceError
from align_echo.interface import Provenance, RuleRecord, load_interface, shipped_interfaces
from align_echo.reading import json_object
from align_echo.types import source_in

_QUOTED = r"`([^`\n]{1,200})`"
_BRACKETS = re.compile(r"\([^()]*\)")
_CONDITION = re.compile(r",? when ")


def provenances(labels: Iterable[str], folders: Iterable[Path]) -> dict[str, Provenance]:
    """Where the interfaces of these labels came from, as far as that is on record here."""
    recorded = {provenance.content_hash: provenance for provenance in _in_folders(folders)}
    sources = {label: source for label in labels if (source := source_in(label))}
    if not recorded.keys() >= {*sources.values()}:
        recorded = {**_of_shipped(), **recorded}
    return {label: recorded[source] for label, source in sources.items() if source in recorded}


def rules_behind(message: str, rules: Sequence[RuleRecord]) -> list[int]:
    """The numbers of the rules that may stand behind a message, those with most experiments for them first.

    `message` is a rule as hints name it (`Step.hints`), with blanks for names. A rule may stand behind it that names
    all of its commands and shares a word with it, conditions and brackets apart. Where any name no other command, the
    rest is left out.
    """
    commands, words = _commands(message), _words(message)
    claims = [_BRACKETS.sub(" ", _CONDITION.split(rule.text)[0]) for rule in rules]
    alike = [
        number
        for number, claim in enumerate(claims)
        if commands and commands <= _commands(claim) and words & _words(claim)
    ]
    exact = [number for number in alike if _commands(claims[number]) == commands]
    return sorted(exact or alike, key=lambda number: -rules[number].evidence.support)


def _commands(text: str) -> frozenset[str]:
    """The commands that a text quotes, with blanks for the names in them; a blank alone is none."""
    quoted = re.findall(_QUOTED, re.sub(r"\b[A-Z]\b", "_", text))
    return frozenset(command.lower() for command in quoted if re.search(r"[^\W_]", command))


def _words(text: str) -> frozenset[str]:
    """The longer words of a text that stand outside of its quotations."""
    return frozenset(re.findall(r"[^\W\d_]{4,}", re.sub(_QUOTED, " ", text).lower()))


def _in_folders(folders: Iterable[Path]) -> Iterable[Provenance]:
    for folder in folders:
        for file in (folder / "interface.json", *sorted(folder.glob("iterations/*/interface.json"))):
            try:
                yield Provenance.model_validate((json_object(file) or {})["provenance"])
            except (KeyError, ValidationError):
                continue


def _of_shipped() -> dict[str, Provenance]:
    """Of the interfaces that ship now, by the hash of their source: a copy is the same under any name."""
    shipped = {}
    for name in shipped_interfaces():
        with contextlib.suppress(InterfaceError):
            interface = load_interface(name)
            shipped[interface.content_hash] = interface.provenance
    return shipped
