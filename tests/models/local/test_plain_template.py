"""Templates that are rendered in this process: they write what the process writes, and none of them can cost much."""

from __future__ import annotations

import pytest

from align_echo.errors import UsageError
from align_echo.models.local.chat_template import ChatTemplate, TemplateProcess, marked_chat
from align_echo.models.local.plain_template import LONGEST, MOST_GROWTH, plain_template
from tests.models.local.families import TEMPLATES

LOOP = "{% for m in messages %}{BODY}{% endfor %}"
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}
CALLS = [{"function": {"name": "go", "arguments": {"to": "\x01 desk"}}}]
TOOL = {"type": "function", "function": {"name": "go", "parameters": {}}}


def plain_families() -> list[str]:
    return [name for name, source in TEMPLATES.items() if plain_template(source)]


def test_most_families_need_no_process():
    assert len(plain_families()) >= len(TEMPLATES) - 1
    assert {"llama-3", "qwen2.5", "qwen3", "mistral-v3"} <= set(plain_families())


@pytest.mark.parametrize("name", plain_families())
def test_a_plain_template_writes_what_a_process_writes(name):
    chat = marked_chat(("user", "assistant", "user"))
    chat[0]["content"] += " \n{{ 7 * 7 }} <think>a</think> ä\u2028"
    process = TemplateProcess(TEMPLATES[name], VARIABLES)
    for tools in ((), [TOOL]):
        assert ChatTemplate(TEMPLATES[name], VARIABLES).text(chat, tools) == process.write(chat, True, tools)


@pytest.mark.parametrize("name", plain_families())
def test_a_plain_template_writes_a_small_multiple_of_a_long_conversation(name):
    chat = [{"role": ("user", "assistant")[turn % 2], "content": "\x01" * 1_000} for turn in range(41)]
    assert len(ChatTemplate(TEMPLATES[name], VARIABLES).text(chat)) < MOST_GROWTH * 41_000


HOSTILE = {
    "a range": "{% for i in range(10 ** 9) %}{% endfor %}",
    "a text times a number": "{{ 'x' * 999999999 }}",
    "a power": "{{ 9 ** 9 ** 9 }}",
    "a width": "{{ '%999999999d' % 7 }}",
    "a width in a message": LOOP.replace("{BODY}", "{{ m.content % 7 }}"),
    "a width in a name": "{% set w = '%999999999d' %}{{ w % 7 }}",
    "an indent": LOOP.replace("{BODY}", "{{ m | tojson(indent=999999999) }}"),
    "messages in messages": LOOP.replace("{BODY}", LOOP.replace("{BODY}", "x")),
    "messages by another name": "{% set a = messages %}{% set b = a[1:] %}" + LOOP.replace(
        "{BODY}", "{% for n in b %}x{% endfor %}"),
    "letters": LOOP.replace("{BODY}", "{% for c in m.content %}{{ m.content }}{% endfor %}"),
    "all at each": LOOP.replace("{BODY}", "{{ messages | tojson }}"),
    "all by another name at each": "{% set a = messages or tools %}" + LOOP.replace("{BODY}", "{{ a }}"),
    "doubled at each": "{% set n = namespace(t='x') %}" + LOOP.replace("{BODY}", "{% set n.t = n.t + n.t %}"),
    "doubled in turn": "{% set n = namespace(t='x') %}" + LOOP.replace(
        "{BODY}", "{% set d = n.t ~ n.t %}{% set n.t = d %}"),
    "doubled by choice": "{% set n = namespace(t='x') %}" + LOOP.replace(
        "{BODY}", "{% set d = n.t + n.t if m else 1 %}{% set n.t = d %}"),
    "doubled often": "{% set x = 'x' + messages[0].content %}" + "{% set x = x + x %}" * 30,
    "much in one": "{{ " + " + ".join(["messages[0].content"] * 500) + " }}",
    "much in all": "{% set x = messages[0].content %}" + "{% set x = x + x %}" * 6 + LOOP.replace(
        "{BODY}", "{{ x }}" * 200),
    "much asked": LOOP.replace("{BODY}", "{% if not (" + " + ".join(["m.content"] * 500) + ") %}x{% endif %}"),
    "much compared": LOOP.replace("{BODY}", "{% if m.content == m.content + m.content %}x{% endif %}" * 200),
    "quoted often": "{{ messages[0].content" + " | tojson" * 20 + " }}",
    "a macro": "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "itself": "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
    "what is inside": LOOP.replace("{BODY}", "{{ m.content.__class__.__mro__ }}{{ m.content.join(messages) }}"),
    "a name put together": LOOP.replace("{BODY}", "{{ m['__cla' ~ 'ss__'] }}"),
    "a name in a message": LOOP.replace("{BODY}", "{{ m[m.content] }}"),
    "an inner name": LOOP.replace("{BODY}", "{{ m.__class__ }}"),
    "an inner name as a key": LOOP.replace("{BODY}", "{{ m['__class__'] }}"),
    "a change": LOOP.replace("{BODY}", "{{ m.pop('content') }}"),
    "a form": LOOP.replace("{BODY}", "{{ '{0.__class__}'.format(m) }}"),
    "replaced": LOOP.replace("{BODY}", "{{ m.content | replace('', m.content) }}"),
    "a clock": "{{ strftime_now('%999999999d') }}",
    "deep": "{{ " + "(" * 500 + "1" + ")" * 500 + " + 1" * 500 + " }}",
    "long": "x" * (LONGEST + 1),
    "torn": "{% for m in messages %}",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_what_may_cost_more_stays_in_the_process(name):
    assert plain_template(HOSTILE[name]) is None


def test_a_plain_template_refuses_as_a_process_does():
    source = LOOP.replace("{BODY}", "{{ raise_exception('no ' + m.role) if m.role == 'system' else m.content }}")
    assert plain_template(source)
    chat = [{"role": "system", "content": "x"}]
    for writer in (ChatTemplate(source, {})._write, TemplateProcess(source, {}).write):
        with pytest.raises(UsageError, match="refuses messages of system: no system"):
            writer(chat, True)


def test_a_call_and_what_it_says_are_written_as_by_a_process():
    source = LOOP.replace(
        "{BODY}", "{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}{{ m.content }}"
    ) + "{{ tools[0].function.name if tools }}"
    assert plain_template(source)
    chat = [*marked_chat(("user", "assistant", "user"))]
    chat[1]["tool_calls"] = CALLS
    text = ChatTemplate(source, {}).text(chat, [TOOL])
    assert text == TemplateProcess(source, {}).write(chat, True, [TOOL])
    assert "\\u0001 desk" in text
