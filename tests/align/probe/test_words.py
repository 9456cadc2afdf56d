"""Rules are told in letters, never in the slots of a form."""

from __future__ import annotations

import pytest

from align_echo.interface.rules.actions import Term
from align_echo.interface.rules.edits import Edit, edit_in_words


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (Edit(kind="form", detail="open {0}"), "Write `open X` instead of `close X`"),
        (Edit(kind="form", detail="put {0} in {1}"), "Write `put X in Y` instead of `close X`"),
        (Edit(kind="form", detail="open {0}", terms=(Term(slot=1),)), "Write `open Y` instead of `close X`"),
        (Edit(kind="form", detail="open {0}", terms=(Term(value="it"),)), "Write `open it` instead of `close X`"),
        (
            Edit(kind="form", detail="open {0}", terms=(Term(slot=0, by="seen"),)),
            "Write `open P` instead of `close X` (P is where you last read of X)",
        ),
        (Edit(kind="form", detail="get_user"), "Write `get_user` instead of `close X`"),
    ],
)
def test_another_form_is_told_in_letters(edit, text):
    assert edit_in_words(edit, "close X", ()) == text
