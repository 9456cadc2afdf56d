"""Text that a model or another person wrote is read without a warning, also where warnings are errors (`-W error`)."""

from __future__ import annotations

import warnings

import pytest

from align_echo.evaluate.ablation import list_switches
from align_echo.interface.contract import parse_source
from align_echo.interface.sandbox.session import Sandbox
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.m3tooleval.env import is_right
from align_echo.wrappers.m3tooleval.tools import calculate
from tests.play import FORWARD, TASK, interface, source
from tests.room_env import RoomEnv


def _play_interface() -> None:
    code = interface(source("text = 'a' + '\\d' + str(1if agent_action else 2)\n" + FORWARD))
    assert list_switches(code) == {}
    env = AlignWrapper(RoomEnv(6), code, sandbox=Sandbox())
    env.reset(options={"task": TASK})
    observation = env.step("look")[0]
    env.close()
    plain = RoomEnv(6)
    plain.reset(options={"task": TASK})
    assert observation == plain.step("look")[0]


def _compute() -> None:
    with pytest.raises(ValueError, match="only numbers"):
        calculate("1if 1else 2")


def _compare() -> None:
    assert is_right("['\\d']", ["\\d"])


@pytest.mark.parametrize("read", [_play_interface, _compute, _compare])
@pytest.mark.parametrize("action", ["error", "always"])
def test_foreign_text_is_read_in_silence(read, action):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)
        read()
    of_text = [warning for warning in shown if issubclass(warning.category, SyntaxWarning | DeprecationWarning)]
    assert [str(warning.message) for warning in of_text] == []


def test_a_filter_that_another_sets_is_passed_again():
    with warnings.catch_warnings():
        for _ in range(3):
            warnings.simplefilter("error")
            parse_source("text = '\\d'")
        filters = len(warnings.filters)
        parse_source("text = '\\d'")
        assert len(warnings.filters) == filters
