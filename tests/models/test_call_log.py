"""The log of calls: a conversation is written once, every call is read back whole, and old files are read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import REDACTED, UsageError, conceal
from align_echo.models import Call, CallLog
from align_echo.models.cache import request_key
from align_echo.types import Message, Usage

WRITER = """
import sys
from pathlib import Path
from align_echo.models import Call, CallLog
from align_echo.types import Message

log, name, turns = CallLog(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
messages = [Message(role="system", content="You play.")]
for turn in range(turns):
    messages += [Message(role="user", content=f"{name} sees {turn} " + "x" * 9000)]
    log.append(Call(role="agent", model="m", request=f"{name}-{turn}", temperature=0, max_tokens=8,
                    messages=tuple(messages), reply="look"))
    print(turn, flush=True)
"""
"""A process that plays an episode into a log from the moment when it is told to."""


def call_of(*contents: str, reply: str = "look") -> Call:
    messages = tuple(
        Message(role="assistant" if index % 2 else "user", content=content) for index, content in enumerate(contents)
    )
    key = request_key("m", messages, temperature=0, max_tokens=8)
    spent = Usage(prompt_tokens=len(contents))
    return Call(
        role="agent", model="m", request=key, temperature=0, max_tokens=8, messages=messages, reply=reply, usage=spent
    )


def episode(turns: int, name: str = "game") -> list[Call]:
    said = [f"{name}: you are in a room", *(f"line {number} of {name}" for number in range(2 * turns))]
    return [call_of(*said[: 2 * turn + 1]) for turn in range(turns)]


def writer(file: Path, name: str, turns: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(file), name, str(turns)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def logged(file: Path, *calls: Call) -> list[Call]:
    log = CallLog(file)
    for call in calls:
        log.append(call)
    return CallLog(file).read()


def test_the_log_of_an_episode_grows_with_its_turns_and_not_with_their_square(tmp_path: Path) -> None:
    sizes = []
    for turns in (20, 40, 80):
        calls = episode(turns)
        assert logged(tmp_path / str(turns), *calls) == calls
        sizes.append((tmp_path / str(turns)).stat().st_size)
    assert sizes[2] < 2.1 * sizes[1] < 2.1 * 2.1 * sizes[0]


texts = st.lists(st.sampled_from("abc"), max_size=4)


@given(st.lists(texts, max_size=12))
def test_every_call_is_read_back_as_it_was_made(
    tmp_path_factory: pytest.TempPathFactory, made: list[list[str]]
) -> None:
    file = tmp_path_factory.mktemp("log") / "calls.jsonl"
    calls = [call_of(*contents) for contents in made]
    assert logged(file, *calls) == calls


def test_a_file_of_an_earlier_version_is_read_and_gone_on_with(tmp_path: Path) -> None:
    file, calls = tmp_path / "calls.jsonl", episode(6)
    for call in calls[:3]:
        JsonlFile(file).append(call)  # whole messages in each line, as they were written before
    assert CallLog(file).read() == calls[:3]
    assert logged(file, *calls[3:]) == calls


def test_a_log_that_a_kill_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    file, calls = tmp_path / "calls.jsonl", episode(6)
    logged(file, *calls[:4])
    file.write_bytes(file.read_bytes()[:-9])
    assert CallLog(file).read() == calls[:3]
    assert logged(file, *calls[3:]) == calls


def test_a_process_that_is_killed_while_it_writes_leaves_whole_calls_and_others_go_on(tmp_path: Path) -> None:
    file, calls = tmp_path / "calls.jsonl", episode(3)
    process = writer(file, "killed", 10_000)
    go(process)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(20)]
    process.kill()
    told += process.communicate()[0].splitlines()
    kept = logged(file, *calls)
    assert kept[-3:] == calls
    assert [call.request for call in kept[:-3]][: len(told)] == [f"killed-{turn}" for turn in range(len(told))]
    assert [len(call.messages) for call in kept[:-3]] == [turn + 2 for turn in range(len(kept) - 3)]


def test_two_processes_write_one_log_at_once(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    processes = {name: writer(file, name, 60) for name in ("left", "right")}
    for process in processes.values():
        go(process)
    for process in processes.values():
        process.communicate()
    calls = CallLog(file).read()
    for name in processes:
        own = [call for call in calls if call.request.startswith(name)]
        assert [len(call.messages) for call in own] == list(range(2, 62))
        assert {message.content.split()[0] for call in own for message in call.messages[1:]} == {name}


def test_a_line_whose_beginning_is_gone_is_refused_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    logged(file, *episode(4))
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join((lines[0], *lines[2:])))
    with pytest.raises(UsageError, match=r"calls\.jsonl line 2 is damaged: the call that it goes on from"):
        CallLog(file).read()


def test_a_key_that_an_observation_shows_is_in_no_line_and_the_log_is_read(tmp_path: Path) -> None:
    secret = "planted-4c1d9a02b7"
    conceal(secret)
    file = tmp_path / "calls.jsonl"
    calls = logged(file, call_of(f"the key is {secret}"), call_of(f"the key is {secret}", "look", "nothing"))
    assert secret not in file.read_text()
    assert [message.content for message in calls[1].messages] == [f"the key is {REDACTED}", "look", "nothing"]


def test_a_line_names_the_call_that_it_goes_on_from(tmp_path: Path) -> None:
    """As the documentation says, for those who read the file themselves."""
    file = tmp_path / "calls.jsonl"
    first, second = call_of("a"), call_of("a", "b", "c")
    logged(file, first, second)
    line = json.loads(file.read_text().splitlines()[1])
    assert line["after"] == {"request": first.request, "messages": 1}
    assert [message["content"] for message in line["messages"]] == ["b", "c"]
