"""The rules of the interfaces that episodes were played under, and which of them may stand behind a message.

An episode names its interface by name and hash. One that ships, or whose `interface.json` lies in a run's folder, has
its rules on record with the experiments for and against each. A message does not say which rule made it: those that
name the same commands may stand behind it. Left out: trying what a message claims (`align/audit`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from align_echo.errors import InterfaceError
from align_echo.interface import Provenance, RuleRecord, load_interface, shipped_interfaces
from align_echo.reading import json_object

_LABEL = re.compile(r"(?P<name>.+)@(?P<hash>[0-9a-f]{16})(?:-[\w-]+)?")
_QUOTED = r"`([^`\n]{1,200})`"
_BRACKETS = re.compile(r"\([^()]*\)")
_CONDITION = re.compile(r",? when ")


def provenances(labels: Iterable[str], folders: Iterable[Path]) -> dict[str, Provenance]:
    """Where the interfaces of these labels came from, as far as that is on record here."""
    recorded = {provenance.content_hash: provenance for provenance in _in_folders(folders)}
    shipped = shipped_interfaces()
    known = {}
    for label in labels:
        named = _LABEL.fullmatch(label)
        if named is None:
            continue
        provenance = recorded.get(named["hash"])
        if provenance is None and named["name"] in shipped:
            provenance = _of_shipped(named["name"], named["hash"])
        if provenance is not None:
            known[label] = provenance
    return known


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


def _of_shipped(name: str, content_hash: str) -> Provenance | None:
    """Of the interface that ships under a name now, if its source is the one that was played."""
    try:
        interface = load_interface(name)
    except InterfaceError:
        return None
    return interface.provenance if interface.content_hash == content_hash else None
