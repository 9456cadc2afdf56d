"""What a launcher tells a process: how many there are, and where they meet."""

from __future__ import annotations

import os
import sys

import pytest

from align_echo.errors import UsageError
from align_echo.train.needs import how_many, keep_to_this_machine

TOLD = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture(autouse=True)
def nobody_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TOLD, "LOCAL_WORLD_SIZE", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_without_a_launcher_there_is_one_process(monkeypatch):
    assert how_many() == 1
    monkeypatch.setenv("WORLD_SIZE", "1")  # a scheduler's job of one task
    assert how_many() == 1


def test_a_launcher_says_how_many_there_are(monkeypatch):
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    assert how_many() == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": "", "MASTER_PORT": ""}, "WORLD_SIZE is '2' without RANK, MASTER_PORT: start with torchrun"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two': start with torchrun"),
    ],
)
def test_what_is_told_in_half_is_refused(monkeypatch, changed, message):
    for name, value in {**TOLD, **changed}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        how_many()


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback has another name")
@pytest.mark.parametrize(("here", "interface"), [("2", "lo"), ("1", None)])
def test_processes_of_one_machine_meet_on_its_loopback(monkeypatch, here, interface):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", here)
    keep_to_this_machine()
    assert os.environ.get("GLOO_SOCKET_IFNAME") == interface
