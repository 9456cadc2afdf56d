"""Numbers and articles, as one says them aloud."""

from __future__ import annotations

import pytest

from align_echo.agents.catalogue import agent_spec
from align_echo.agents.players import AgentChoice, about
from align_echo.errors import UsageError
from align_echo.registry import Registry, quantity, with_article
from align_echo.wrappers.catalogue import environment


def test_a_number_stands_with_its_noun():
    assert [quantity(number, "task") for number in (0, 1, 2, 1200)] == ["0 tasks", "1 task", "2 tasks", "1,200 tasks"]


@pytest.mark.parametrize("name", ["an int", "an ndarray", "an Env", "a list", "a str", "a uint8", "a method"])
def test_a_name_stands_with_its_article(name):
    assert with_article(name.partition(" ")[2]) == name


def test_a_thing_is_called_by_the_right_article():
    rules: Registry[object] = Registry("rule", "none.of.ours", lambda name, thing: thing)
    rules.register("mine", object())
    with pytest.raises(UsageError, match="there is already a rule 'mine'"):
        rules.register("mine", object())
    with pytest.raises(UsageError, match="a rule is given by its name, not as an int"):
        rules.get(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="an environment"):
        environment("tests.test_grammar:PLAIN")


PLAIN = 3


class Silent:
    name = "silent"

    def act(self, view: object) -> object:
        raise NotImplementedError


def test_an_agent_without_a_description_has_no_empty_brackets():
    player = AgentChoice(agent_spec("tests.test_grammar:Silent"), None)
    assert about(player, {}) == "agent: tests.test_grammar:Silent"
