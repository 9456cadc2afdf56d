r"""Signs of engines and templates in replies: what is taken off, what is named, and what stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.parsing import parse_action, parse_reasoned_action, plain_reply
from align_echo.agents.reasoning import Vanilla
from align_echo.errors import ReplyFormatError
from align_echo.models.drawing import ScriptedModel
from align_echo.types import AgentView
from tests.agents.views import VIEW as SEEN


def view_of(forms: str) -> AgentView:
    return SEEN.model_copy(update={"action_format": forms})


VIEW = view_of("look | walk to {room} | lift {thing} off {thing}")
DRESSES = {
    "Action: walk to hall 2</s>": ("</s>",),
    "Action: walk to hall 2<|im_end|>\n": ("<|im_end|>",),
    "Action: walk to hall 2<|eot_id|><|eot_id|>": ("<|eot_id|>",),
    "Action: walk to hall 2<end_of_turn>\n<start_of_turn>user\nAction: look": ("<end_of_turn>",),
    "Action: walk to hall 2<｜end▁of▁sentence｜>": ("<｜end▁of▁sentence｜>",),
    "<|im_start|>assistant\nAction: walk to hall 2<|im_end|>": ("<|im_start|>assistant", "<|im_end|>"),
    "<s> Action: walk to hall 2 </s>": ("<s>", "</s>"),
    "<|start_header_id|>assistant<|end_header_id|>\n\nAction: walk to hall 2": (
        "<|start_header_id|>assistant<|end_header_id|>",
    ),
    "</s>Action: walk to hall 2": ("</s>",),
    "\ufeffAction: walk to hall 2": ("U+FEFF",),
    "Action: walk to hall\u200b 2\u2060": ("U+200B", "U+2060"),
    "\u200eAction:\u00a0walk\u202fto hall\u20072": ("U+200E", "U+00A0", "U+202F", "U+2007"),
    "Action: wa\u00adlk to hall 2": ("U+00AD",),
    "<|channel|>analysis<|message|>Action: look?<|end|><|start|>assistant<|channel|>final<|message|>"
    "Action: walk to hall 2<|return|>": ("<|channel|>",),
    "<|channel|>commentary<|message|>Wait.<|end|><|channel|>final <|constrain|>text<|message|>Action: walk to hall 2": (
        "<|channel|>",
    ),
    "<|channel>thought\nAction: look\n<channel|>Action: walk to hall 2": (),
    "<think>Action: look</thinking>\nAction: walk to hall 2": (),
    "<thought>Action: look</thought>Action: walk to hall 2": (),
    "[THINK]Action: look[/THINK]Action: walk to hall 2": (),
    "<seed:think>Action: look</seed:think>Action: walk to hall 2": (),
    "<think>It ended.</s></think>Action: walk to hall 2": (),
    "Action: walk to hall 2\n\nAction: walk to hall 2": (),
    "Action: «walk to hall 2»": (),
    "Action: <walk to hall 2>": (),
    "Action: [walk to hall 2]": (),
    r"Action: $\text{walk to hall 2}$": (),
    r"\boxed{walk to hall 2}": (),
    "<answer>walk to hall 2</answer>": (),
    "动作：walk to hall 2": (),
    '<tool_call>\n{"name": "do", "arguments": {"action": "walk to hall 2"}}\n</tool_call>': (),
}


@pytest.mark.parametrize("reply", DRESSES)
def test_what_is_unambiguous_is_taken_and_what_was_taken_off_is_named(reply: str):
    assert parse_action(reply, VIEW) == parse_reasoned_action(reply, VIEW) == "walk to hall 2"
    read = Vanilla(ScriptedModel([reply])).act(VIEW)
    assert (read.thinking + read.text, read.action, read.residue) == (reply, "walk to hall 2", DRESSES[reply])


@pytest.mark.parametrize(
    "reply",
    [
        "Action: look\nAction: walk to hall 2",
        "<think>Action: look",
        "<|channel|>analysis<|message|>Action: look",
        "<answer>look</answer> or <answer>walk to hall 2</answer>",
        r"\boxed{look} or \boxed{walk to hall 2}",
        "</s>",
        "\u200b",
    ],
)
def test_what_holds_no_one_action_is_refused(reply: str):
    with pytest.raises(ReplyFormatError):
        parse_reasoned_action(reply, VIEW)


@pytest.mark.parametrize(
    ("action", "forms"),
    [
        ("search[tea <b>strong</b>]", "search[{words}] | click[{button}]"),
        ("click[< Prev]", "search[{words}] | click[{button}]"),
        ("<search>who was José</search>", "<search>{query}</search> | <answer>{answer}</answer>"),
        ("<answer>Paris</answer>", "<search>{query}</search> | <answer>{answer}</answer>"),
        ("say [yes] <no>", "say {text} | look"),
        ("[A C]", "[{letters}] | [pass]"),
        ("say 👩\u200d🚀", "say {text} | look"),
        ("say می\u200cخواهم", "say {text} | look"),
    ],
)
def test_signs_of_the_action_itself_stay(action: str, forms: str):
    read = Vanilla(ScriptedModel([f"Action: {action}"])).act(view_of(forms))
    assert (read.action, read.residue) == (action, ())


@given(st.text(max_size=80))
def test_taking_off_is_done_once(reply: str):
    text = plain_reply(reply).text
    assert plain_reply(text).text.strip() == text.strip() or "<" in text or "[" in text
    assert not {"\u200b", "\u00a0", "\ufeff"} & set(text)


@given(st.text(st.characters(codec="ascii", exclude_characters="<["), max_size=60))
def test_a_plain_reply_stays_as_it_is(reply: str):
    assert plain_reply(reply) == (reply, ())
