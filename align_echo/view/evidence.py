"""Recorded rules of the interfaces under which episodes were played, and which of them fit a message.

An episode names its interface by the hash of its source. A shipped interface, or one with an `interface.json` in a
run's folder, has its rules on record with the experiments for and against each. A message does not say which rule made
it: candidates are the rules that name the same commands. Not here: testing a message's claims (`align/audit`).
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
    """Look up the provenance of the interfaces with these labels, if it is on record here."""
    recorded = {provenance.content_hash: provenance for provenance in _find_in_folders(folders)}
    sources = {label: source for label in labels if (source := source_in(label))}
    if not recorded.keys() >= {*sources.values()}:
        recorded = {**_shipped_provenances(), **recorded}
    return {label: recorded[source] for label, source in sources.items() if source in recorded}


def rules_behind(message: str, rules: Sequence[RuleRecord]) -> list[int]:
    """Return the indices of the rules that fit a message, those with most experiments for them first.

    `message` is a rule as hints name it (`Step.hints`), with blanks for names. A rule fits if it names all of the
    message's commands and shares a word with it, ignoring conditions and brackets. If some rules name exactly these
    commands, only those are returned.
    """
    commands, words = _commands(message), _words(message)
    claims = [_BRACKETS.sub(" ", _CONDITION.split(rule.text)[0]) for rule in rules]
    fitting = [
        number
        for number, claim in enumerate(claims)
        if commands and commands <= _commands(claim) and words & _words(claim)
    ]
    exact = [number for number in fitting if _commands(claims[number]) == commands]
    return sorted(exact or fitting, key=lambda number: -rules[number].evidence.support)


def _commands(text: str) -> frozenset[str]:
    """Extract the commands quoted in a text, with blanks for names; a blank alone does not count."""
    quoted = re.findall(_QUOTED, re.sub(r"\b[A-Z]\b", "_", text))
    return frozenset(command.lower() for command in quoted if re.search(r"[^\W_]", command))


def _words(text: str) -> frozenset[str]:
    """Extract the longer words of a text outside its quotations."""
    return frozenset(re.findall(r"[^\W\d_]{4,}", re.sub(_QUOTED, " ", text).lower()))


def _find_in_folders(folders: Iterable[Path]) -> Iterable[Provenance]:
    for folder in folders:
        for file in (folder / "interface.json", *sorted(folder.glob("iterations/*/interface.json"))):
            try:
                yield Provenance.model_validate((json_object(file) or {})["provenance"])
            except (KeyError, ValidationError):
                continue


def _shipped_provenances() -> dict[str, Provenance]:
    """Return the provenance of the shipped interfaces, by the hash of their source."""
    shipped = {}
    for name in shipped_interfaces():
        with contextlib.suppress(InterfaceError):
            interface = load_interface(name)
            shipped[interface.content_hash] = interface.provenance
    return shipped
