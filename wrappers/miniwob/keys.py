"""Text as typed on a keyboard: DevTools key events with key codes that pages read (a US keyboard).

Shortcuts are not supported. Characters without a key, such as letters of other scripts, are inserted as from an input
method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

CONTROL = {"\n": ("Enter", 13, "\r"), "\t": ("Tab", 9, ""), "\b": ("Backspace", 8, "")}
"""Character -> name of the key, its code, the text it writes."""

SHIFTED = dict(zip(')!@#$%^&*(:+<_>?~{|}"', "0123456789;=,-./`[\\]'", strict=True))
MARKS = dict(zip(";=,-./`[\\]'", (186, 187, 188, 189, 190, 191, 192, 219, 220, 221, 222), strict=True))
SHIFT = 8
"""Bit of the shift key among an event's modifiers."""


def key_events(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the commands of the DevTools protocol that type a text: (name, parameters)."""
    for character in text:
        if character in CONTROL:
            name, code, written = CONTROL[character]
            yield from _stroke(name, code, written, 0)
        elif " " <= character <= "~":
            plain = SHIFTED.get(character, character.lower())
            yield from _stroke(character, MARKS.get(plain, ord(plain.upper())), character, SHIFT * (plain != character))
        else:
            yield "Input.insertText", {"text": character}


def _stroke(key: str, code: int, text: str, modifiers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
    down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
    yield "Input.dispatchKeyEvent", {**event, **down}
    yield "Input.dispatchKeyEvent", {**event, "type": "keyUp"}
