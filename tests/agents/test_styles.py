"""How models write an action: every style x any action of a made-up world gives that action; junk gives a reason."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.parsing import as_offered, parse_action, parse_reasoned_action, plain_reply
from align_echo.agents.reasoning import Planning, ReAct, Vanilla
from align_echo.errors import ReplyFormatError
from align_echo.models import ScriptedModel
from align_echo.prompts import render
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentView, Turn
from tests.room_env import TASK_IDS, RoomEnv

Style = Callable[[str], str]

LABELLED: dict[str, Style] = {
    "label": lambda a: f"Action: {a}",
    "label in capitals": lambda a: f"ACTION: {a}",
    "bold label, colon inside": lambda a: f"**Action:** {a}",
    "bold label, colon outside": lambda a: f"**Action**: {a}",
    "heading with a colon": lambda a: f"### Action: {a}",
    "heading above": lambda a: f"### Action\n{a}",
    "bold heading above": lambda a: f"**Action**\n{a}",
    "label above": lambda a: f"Action:\n{a}",
    "label above a fence": lambda a: f"Action:\n```\n{a}\n```",
    "list item": lambda a: f"- **Action**: {a}",
    "starred item": lambda a: f"* Action: {a}",
    "numbered label": lambda a: f"Action 3: {a}",
    "numbered item": lambda a: f"2. **Action:** {a}",
    "next action": lambda a: f"Next action: {a}",
    "final action": lambda a: f"**Final Action:** {a}",
    "wide colon": lambda a: f"Action：{a}",
    "all bold": lambda a: f"**Action: {a}**",
    "bold action": lambda a: f"Action: **{a}**",
    "backticks": lambda a: f"Action: `{a}`",
    "tags": lambda a: f"<action>{a}</action>",
    "tags on lines of their own": lambda a: f"<action>\n{a}\n</action>",
    "tags in capitals": lambda a: f"<ACTION>{a}</ACTION>",
    "tags after a label": lambda a: f"Action: <action>{a}</action>",
    "tags after thoughts": lambda a: f"I should act.\nIt is time.\n<action>{a}</action>",
    "JSON": lambda a: json.dumps({"action": a}),
    "JSON with a thought": lambda a: json.dumps({"thought": "I should act.", "action": a}),
    "JSON in a fence": lambda a: f"```json\n{json.dumps({'action': a}, indent=2)}\n```",
    "JSON after a thought": lambda a: f"I should act.\n{json.dumps({'reasoning': 'so', 'action': a})}",
    "thought and label": lambda a: f"Thought: I should act.\nAction: {a}",
    "bold thought and label": lambda a: f"**Thought:** I should act.\n\n**Action:** {a}",
    "thinking block": lambda a: f"<think>Action: wait\nor not</think>\nAction: {a}",
    "thinking block without its beginning": lambda a: f"I might wait.\nAction: wait\n</think>\n\nAction: {a}",
    "thinking block within": lambda a: f"Thought: so.\n<thinking>Action: wait</thinking>\nAction: {a}",
    "made-up observation": lambda a: f"Thought: so.\nAction: {a}\nObservation: You win!",
    "made-up episode": lambda a: f"Action: {a}\nObservation: Done.\nThought: on.\nAction: wait\nObservation: No.",
    "bold made-up observation": lambda a: f"Action: {a}\n\n**Observation:** Done.\nAction: wait",
    "observation restated": lambda a: f"Observation: I am here.\nThought: so.\nAction: {a}",
    "the form repeated first": lambda a: (
        "Action: one action, written exactly as the environment expects it\nAction: " + a
    ),
}
"""For every agent: what marks the action is there."""

ALONE: dict[str, Style] = {
    "alone": lambda a: a,
    "in space": lambda a: f"\n\n  {a} \n",
    "fence": lambda a: f"```\n{a}\n```",
    "fence with a language": lambda a: f"```text\n{a}\n```",
    "fence on the line": lambda a: f"```{a}```",
    "bold": lambda a: f"**{a}**",
    "italics": lambda a: f"*{a}*",
    "bold backticks": lambda a: f"**`{a}`**",
    "prompt sign": lambda a: f"> {a}",
    "numbered": lambda a: f"1. {a}",
    "numbered with a bracket": lambda a: f"1) {a}",
    "item": lambda a: f"- {a}",
    "thinking block alone": lambda a: f"<think>hm\n</think>{a}",
    "observation after it": lambda a: f"{a}\nObservation: Done.",
}
"""For agents that answer an action alone."""

KNOWN: dict[str, Style] = {
    "full stop": lambda a: f"{a}.",
    "labelled full stop": lambda a: f"Action: {a}.",
    "bold full stop": lambda a: f"**{a}.**",
    "first letter large": lambda a: a[0].upper() + a[1:],
    "all capitals": lambda a: f"Action: {a.upper()}",
    "a sentence above": lambda a: f"I have to get on with it.\n{a}",
    "a sentence below": lambda a: f"{a}\nThis should bring me closer.",
    "a thought above": lambda a: f"Thought: I have to get on\n{a}",
    "two sentences, then with a stop": lambda a: f"I see. It is far.\nSo be it:\n{a[0].upper()}{a[1:]}.",
    "quotes": lambda a: f'"{a}"',
    "within its line": lambda a: f"Thought: I have to get on. Action: {a}",
    "an observation on its line": lambda a: f"Action: {a} Observation: Done.",
}
"""Where the environment lists its forms and the names were seen."""

verbs = st.sampled_from(["go to", "open", "grab", "look at", "switch on", "zorp"])
things = st.tuples(st.sampled_from(["mug", "red door", "flim", "desk"]), st.integers(1, 30)).map(
    lambda pair: f"{pair[0]} {pair[1]}"
)
FORMAT = (
    "One action a turn, in one of these forms:\nlook | wait | go to {place} | open {thing} | grab {thing}\n"
    "look at {thing} | switch on {thing} | zorp {thing} with {thing} | find[{words}]"
)
spoken = st.one_of(
    st.tuples(verbs.filter(lambda verb: verb != "zorp"), things).map(" ".join),
    st.tuples(things, things).map(lambda two: f"zorp {two[0]} with {two[1]}"),
    st.just("look"),
)
FREE = [
    *('say "Hello there."', "type Hello World.", "click[Buy Now]", "search[red shoes: size 7.5]", "f('a', \"b\")"),
    *("answer(1.5)", "put 'a' in 'b'", 'click("Sign in", 3)', "x = [1, 2]", "move 2*3*4", "It's the end."),
    *("select Option B", "NORTH", "press_back()", "(x) => x", "a | b", "1", "C:\\\\x", "{}", "<b>", "$5.00"),
]
"""What other environments' actions look like: quotes, capitals and full stops are theirs."""


def view_of(action: str, action_format: str = FORMAT) -> AgentView:
    """A view in which the names of the action were seen."""
    return AgentView(
        task_id="t",
        action_format=action_format,
        goal="tidy up",
        rules="",
        initial_observation="You see: a mug 1, a desk 2.",
        turns=(Turn(reply="look", action="look", observation=f"There: {action.partition(' ')[2]}. {action}."),),
    )


def check_marked(action: str) -> None:
    for style, dress in LABELLED.items():
        for view in (None, view_of(action), view_of(action, "Say what you want.")):
            assert parse_action(dress(action), view) == action, style
            assert parse_reasoned_action(dress(action), view) == action, style


def check_alone(action: str) -> None:
    for style, dress in ALONE.items():
        if "*" in action and style == "italics":
            continue
        for view in (None, view_of(action), view_of(action, "Say what you want.")):
            assert parse_action(dress(action), view) == action, style


@pytest.mark.parametrize("action", FREE)
def test_the_actions_of_any_environment_survive_every_dress(action: str) -> None:
    check_marked(action)
    check_alone(action)


@settings(deadline=None, max_examples=20)
@given(spoken)
def test_an_action_of_a_listed_form_is_read_in_every_dress(action: str) -> None:
    check_marked(action)
    check_alone(action)


@settings(deadline=None, max_examples=25)
@given(spoken)
def test_what_the_environment_says_of_its_forms_decides(action: str) -> None:
    for style, dress in KNOWN.items():
        assert parse_action(dress(action), view_of(action)) == action, style


@settings(deadline=None)
@given(st.sampled_from(["a sentence above", "a thought above", "within its line"]), spoken)
def test_an_unlabelled_action_after_a_thought_is_read_by_agents_that_think(style: str, action: str) -> None:
    assert parse_reasoned_action(KNOWN[style](action), view_of(action)) == action


def test_the_corpus_is_wide() -> None:
    assert len(LABELLED) + len(ALONE) + len(KNOWN) >= 60


@settings(deadline=None)
@given(
    spoken,
    spoken,
    st.sampled_from(["{}\n{}", "1. {}\n2. {}", "Action: {}\nAction: {}", "<action>{}</action><action>{}</action>"]),
)
def test_two_different_actions_are_never_chosen_between(first: str, second: str, together: str) -> None:
    if first == second:
        return
    for parse in (parse_action, parse_reasoned_action):
        with pytest.raises(ReplyFormatError):
            parse(together.format(first, second), view_of(first))


PIECES = [
    *("Action:", "action", "**", "*", "`", "```", '"', "'", "<action>", "</action>", "<think>", "</think>", "{", "}"),
    *(
        '{"action": "',
        '"}',
        "Observation:",
        "Thought:",
        "### ",
        "- ",
        "1. ",
        ".",
        "\n",
        " ",
        "look",
        "go to mug 1",
        "[",
        "]",
    ),
    *("Action Input: x", "zorp mug 1 with desk 2", "find[x]", "the", "\\", "\x00", "Plan:", "Sub-goal: 1"),
]
soup = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=25).map("".join)


@settings(deadline=None, max_examples=300)
@given(st.one_of(soup, st.text()))
def test_junk_gives_what_was_said_or_a_reason(reply: str) -> None:
    for parse in (parse_action, parse_reasoned_action):
        for view in (None, view_of("look")):
            try:
                action = parse(reply, view)
            except ReplyFormatError as error:
                assert str(error).strip()  # noqa: PT017 - either outcome is right
                continue
            assert action == action.strip() != ""
            assert len(action.splitlines()) == 1
            said = plain_reply(reply).text.replace("\\", "")
            assert "".join(action.casefold().split()) in "".join(said.casefold().split()) or "\\" in action


DEEP = ["{" * 50_000, '{"action":' * 20_000, "[" * 50_000 + '"action"', "<think>" * 20_000, "<action>" * 20_000]


@pytest.mark.parametrize("reply", [*DEEP, "to " * 30_000, "zorp " + "with " * 30_000, "Action: " * 10_000], ids=len)
def test_a_reply_made_to_hang_the_reader_is_refused_or_read_at_once(reply: str) -> None:
    for text in (reply, f"hm.\n{reply}\nhm."):
        try:
            assert parse_action(text, view_of("look"))
        except ReplyFormatError as error:
            assert str(error)  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize("kind", [Vanilla, ReAct, Planning])
def test_the_prompt_itself_is_no_answer(kind: type[ChatAgent]) -> None:
    view = view_of("look")
    system = render(kind.prompts[0], {"action_format": FORMAT, "rules": ""})
    for reply in (system, *system.splitlines()):
        if reply.strip():
            answer = kind(ScriptedModel([reply])).act(view)
            assert answer.action is None, reply
    again = f"{render(kind.prompts[0], {'action_format': FORMAT, 'rules': ''})}\n\nAction: look"
    assert parse_action(again, view) == "look"


def test_a_format_whose_action_is_json_keeps_it() -> None:
    view = view_of("look", 'Answer {"action": "click", "id": 3} and so on.')
    reply = '{"action": "look"}'
    assert parse_action(reply, view) == reply
    assert parse_action('{"action": "click", "id": 3}', None) == '{"action": "click", "id": 3}'


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Go to the study.", "go to study"),
        ("take a mug 1", "take mug 1"),
        ("GO TO STUDY", "go to study"),
        ("go to study", "go to study"),
        ("go to attic", "go to attic"),
        ("take mug 11", "take mug 11"),
        ("wait.", "wait."),
    ],
)
def test_the_engines_own_list_decides_where_there_is_one(said: str, meant: str) -> None:
    assert as_offered(said, ("go to study", "take mug 1", "take book 1")) == meant
    assert as_offered(said, None) == said


def test_an_action_that_two_possible_ones_are_like_stays_as_it_is() -> None:
    assert as_offered("Take mug", ("take mug", "take the mug")) == "Take mug"


def test_an_episode_is_won_by_an_agent_that_writes_sentences() -> None:
    plan = ["Take the mug 1.", "I have it now.\n\nGo to the study.", "**Drop mug 1**"]
    trajectory = run_episode(
        RoomEnv(),
        Vanilla(ScriptedModel(plan)),
        TASK_IDS[0],
        split="train",
        action_format="look | inventory | go to {room} | take {object} | drop {object}",
    )
    assert trajectory.won
    assert trajectory.actions == ("take mug 1", "go to study", "drop mug 1")
    assert [step.reply for step in trajectory.steps] == plan
