"""What a message tells an agent to do, in many wordings."""

from __future__ import annotations

import pytest

from align_echo.base.commands import build_skeleton, commands_in, guess_names, same_action
from tests.limits import cpu_seconds

GO = [("go to desk 1", "first")]
WORDS = [("go to desk 1", "instead")]

ORDERS = {
    "`take mug 1 from desk 1` does not work yet: you need to `go to desk 1` first.": GO,
    "You need to go to desk 1 first.": GO,
    "You have to go to desk 1 before you can take the mug.": GO,
    "Nothing happens. You are not there. Go to desk 1 first.": GO,
    "  Go to desk 1 first.": GO,
    "Nothing happens. Try 'go to desk 1' first.": GO,
    "You must **go to desk 1** first.": GO,
    "You **must** go to desk 1 **first**.": GO,
    "**Hint:** go to desk 1 first": GO,
    "Hint: the agent must go to desk 1, then take the mug.": GO,
    "First, go to desk 1.": GO,
    "You should do this first: go to desk 1": GO,
    "Next, do the following:\n`go to desk 1`": GO,
    "To `take mug 1` you need to `go to desk 1`.": GO,
    "Before you `take mug 1`, `go to desk 1`.": GO,
    "`go to desk 1` is required here": GO,
    "It is necessary to go to desk 1 first.": GO,
    "You can't take it from here. Perhaps you should go to desk 1?": GO,
    'You need to go to "desk 1" first.': GO,
    '"Nothing happens" means that you need to go to desk 1 first.': [("Nothing happens", "named"), *GO],
    "Use “go to desk 1” instead.": WORDS,
    "Use the words ‘go to desk 1’ instead.": WORDS,
    "Use go to desk 1 instead of walk to desk 1.": WORDS,
    "Instead of `walk to desk 1` say `go to desk 1`.": WORDS,
    "Say `go to desk 1`, not `walk to desk 1`.": WORDS,
    "`walk to desk 1` is not understood; write `go to desk 1` instead.": WORDS,
    "Do not `walk to desk 1`; you should `go to desk 1` instead.": WORDS,
    "Action: go to desk 1": WORDS,
    "Suggested action: go to desk 1.": WORDS,
    "Do this instead: go to desk 1.": WORDS,
    "The command is:\n```\ngo to desk 1\n```": WORDS,
    "You need to say <action>go to desk 1</action>": WORDS,
    "Did you mean go to desk 1?": WORDS,
    "Please go to desk 1.": WORDS,
    "`mug 1` was last seen after `go to desk 1`.": [("mug 1", "named"), ("go to desk 1", "named")],
    "First `go to desk 1`, then `take mug 1 from desk 1`.": [*GO, ("take mug 1 from desk 1", "first")],
    "zint quarp 3 is refused: you need to vlem dor 2 first": [("vlem dor 2", "first")],
    "Try `click[Buy Now]`.": [("click[Buy Now]", "instead")],
    "You need to write search[red shoes] instead.": [("search[red shoes]", "instead")],
}

SILENT = [
    "Nothing happens.",
    "That is how things are now.",
    "You arrive at desk 1. On the desk 1, you see a mug 2, and a pen 1.",
    "`go to desk 1` would change nothing: that is already so.",
    "Nothing called `unicorn 1` was seen so far, only mug 1, mug 2.",
    "The environment knows only these forms: `take X from Y`, `put {0} in {1}`, `use OBJ`, `go <place>`.",
    "Do not `go to desk 1`.",
    "Don't go to desk 1.",
    "You do not need to go to desk 1.",
    "You should not open the drawer.",
    "`go to desk 1` isn't possible here.",
    "You need to find it first.",
    "Try another action.",
    "Use full names with numbers.",
    "You should do something else first.",
    "The drawer must be open.",
    "You must be at desk 1.",
    "Unknown action: go to desk 1",
    "",
]


@pytest.mark.parametrize("message", ORDERS)
def test_a_command_is_read_however_it_is_worded(message):
    assert commands_in(message) == ORDERS[message]


@pytest.mark.parametrize("message", SILENT)
def test_nothing_is_read_where_nothing_is_ordered(message):
    assert commands_in(message) == []


def test_what_was_just_said_is_no_command():
    message = "`grab mug` is unknown: you need to `open box` first. Then write `take mug 1`: `grab mug` is refused."
    assert commands_in(message, "Open  box.") == [("take mug 1", "instead")]
    assert commands_in("Try to open box.", "open box") == []


def test_the_same_action_in_other_letters_blanks_and_with_a_full_stop():
    assert same_action("Go  to desk 1.", " go to desk 1")
    assert not same_action("go to desk 1", "go to desk 11")


def test_two_messages_of_one_rule_have_one_skeleton():
    def skeleton(action: str, step: str) -> str:
        text = f"`{action}` does not work yet: you need to `{step}` first."
        return build_skeleton(text, [*guess_names(action), *guess_names(step)])

    assert skeleton("take mug 1 from desk 1", "go to desk 1") == skeleton("take pen 12 from shelf 3", "go to shelf 3")
    assert skeleton("take mug 1 from desk 1", "go to desk 1") != skeleton("take mug 1 from desk 1", "open desk 1")
    assert build_skeleton("Only box 1, box 2.", ["box 2", "box 1"]) == build_skeleton("only pen 3.", ["pen 3"])


@pytest.mark.parametrize(
    "text",
    ["'a ", "so ", '"a', "you need to ", "`", "first, ", "**", "not ", "a: ", "[ ", "<action>", "`a` ", "to `x`, "],
)
def test_hostile_text_is_read_in_no_time(text):
    with cpu_seconds(60):  # some thousand times what it takes
        commands_in(text * 200_000)
        build_skeleton(text * 50_000, guess_names(text * 1_000)[:3])
