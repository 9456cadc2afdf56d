"""All scripted novices read: a command counts however it is quoted, and text without content moves none of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from align_echo.agents.novices import make_novice
from align_echo.types import Agent, AgentView, Turn
from align_echo.wrappers.align_wrapper import SENTENCE

ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a countertop 1, a sinkbasin 1, "
    "and a fridge 1.\nYour task is to: put a clean mug in fridge."
)
OUTSIDE = "This outside location is called the outside. Here you see: \n\tthe agent\n\tan axe\n\ta baby wolf"
SHOP = "WebShop [SEP] Instruction: [SEP] i need a wrap dress, and price lower than 40.00 dollars [SEP] Search"
SCREEN = 'Screen 160x210, 2 elements:\nlabel "a1" (20, 60) 30x13\nbutton "Submit" (50, 120) 95x31'
HALL = "You are in the hall. In one part of the room you see a coin. \nTo the South you see the kitchen. "
QUESTION = "In which year was the author of The Old Mill born?"

Case = tuple[str, str, str, str, str]
CASES: dict[str, Case] = {
    "alfworld": (ROOM, "put a clean mug in fridge.", "examine fridge 1", "Nothing happens.", "go to fridge 1"),
    "scienceworld": (
        *(OUTSIDE, "Your task is to find a(n) animal. First, focus on the thing."),
        *("pick up axe from shed", "No known action matches that input.", "pick up axe"),
    ),
    "webshop": (SHOP, "i need a wrap dress", "search dress", SHOP, "search[red dress]"),
    "miniwob": (SCREEN, "Click on the button.", "click 9 9", f"Not an action.\n{SCREEN}", "click(70, 80)"),
    "textworldexpress": (
        *(HALL, "Your task is to search the environment and find the coin.  Once you find the coin, take it."),
        *("go south", "Unknown action: I'm not sure what you mean.", "move south"),
    ),
    "searchqa": (f"Question: {QUESTION}", QUESTION, "Search[a mill]", "Not an action.", "<search>Upper Lom</search>"),
}
"""Environment -> first observation, goal, the novice's action, what that is answered with, a command that helps."""

WORDINGS = (
    "You need to `{}` first.",
    'You need to "{}" first.',
    "You need to '{}' first.",
    "You need to “{}” first.",
    "You need to **{}** first.",
    "You need to {} first.",
    "Try `{}` instead.",
    "Try {} instead.",
    "You must {} first.",
)
IDLE = (
    SENTENCE,
    "That is so.",
    "Some days are long and others are short.",
    "You need to be patient.",
    "One must try things first, as they say.",
    "This `thing` is what it is; so they said first.",
)
SEEDS = range(25)


def replies(environment: str, words: str) -> list[str | None]:
    """What the novice does next, by seed, where a refusal comes with these words."""
    start, goal, action, answer, _ = CASES[environment]
    told = f"{words}\n{answer}" if environment in ("webshop", "miniwob") else f"{answer} {words}".strip()
    view = AgentView(
        task_id="t",
        action_format="",
        goal=goal,
        rules="",
        initial_observation=start,
        turns=(Turn(reply=action, action=action, observation=told),),
    )
    novices: list[Agent] = [make_novice(environment, seed=seed) for seed in SEEDS]
    return [novice.act(view).action for novice in novices]


@pytest.mark.parametrize("environment", CASES)
@pytest.mark.parametrize("wording", WORDINGS)
def test_a_command_is_sent_however_it_is_quoted(environment, wording):
    command = CASES[environment][-1]
    if command[0] + command[-1] == "<>" and "**" in wording:
        pytest.skip("tags in bold are not what anyone writes")
    assert set(replies(environment, wording.format(command))) == {command}


@pytest.mark.parametrize("environment", CASES)
def test_text_without_content_moves_no_novice(environment):
    alone = replies(environment, "")
    assert CASES[environment][-1] not in alone or environment == "textworldexpress"
    for words in IDLE:
        assert replies(environment, words) == alone, words


@pytest.mark.parametrize("environment", CASES)
def test_what_is_said_not_to_work_is_not_sent(environment):
    command = CASES[environment][-1]
    for words in ("`{}` does not work.", "Do not {}.", 'Never write "{}" here.'):
        sent = replies(environment, words.format(command))
        if environment == "searchqa":  # the form is shown all the same
            assert command not in sent, words
        else:
            assert sent == replies(environment, ""), words


def test_the_stubborn_read_nothing():
    view_of: Callable[[str], AgentView] = lambda words: AgentView(  # noqa: E731
        task_id="t",
        action_format="",
        goal=CASES["alfworld"][1],
        rules="",
        initial_observation=ROOM,
        turns=(Turn(reply="look", action="look", observation=f"Nothing happens. {words}".strip()),),
    )
    novice = make_novice("alfworld", "novice-stubborn")
    assert novice.act(view_of("You need to `go to fridge 1` first.")) == novice.act(view_of(""))
