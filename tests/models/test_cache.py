"""The reply cache: one file, that outlives kills and is shared by processes; folders of earlier versions are read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.models import ReplyCache
from align_echo.models.cache import REPLIES
from align_echo.types import Completion, WordChoice

WRITER = """
import sys
from pathlib import Path
from align_echo.models import ReplyCache
from align_echo.types import Completion

cache, name, count = ReplyCache(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
for number in range(count):
    cache.put(f"{name}-{number}", Completion(text=f"{name} {number} " + "x" * 9000))
    print(number, flush=True)
"""
"""A process that stores replies from the moment when it is told to."""


def writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), name, str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def text_of(cache: ReplyCache, key: str) -> str | None:
    reply = cache.get(key, Completion)
    return None if reply is None else reply.text.strip("x ")


def test_many_replies_are_one_file(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    for number in range(50):
        cache.put(str(number), Completion(text=f"reply\n{number} é \u2028"))
    assert [file.name for file in tmp_path.rglob("*")] == [REPLIES]
    again = ReplyCache(tmp_path)
    assert [text_of(again, str(number)) for number in range(50)] == [
        f"reply\n{number} é \u2028" for number in range(50)
    ]
    assert text_of(again, "50") is None


def test_a_folder_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    old = tmp_path / "ab" / "abc.json"
    old.parent.mkdir()
    old.write_text(Completion(text="paid for").model_dump_json())
    cache = ReplyCache(tmp_path)
    assert text_of(cache, "abc") == "paid for"
    cache.put("abd", Completion(text="new"))
    assert (text_of(cache, "abc"), text_of(cache, "abd")) == ("paid for", "new")


def test_a_reply_is_no_choice_of_words(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("a", WordChoice(said="yes", logprobs=(-0.5, -1.0)))
    assert cache.get("a", Completion) is None
    assert cache.get("a", WordChoice) == WordChoice(said="yes", logprobs=(-0.5, -1.0), cached=True)


def test_what_another_process_stores_meanwhile_is_found(tmp_path: Path) -> None:
    here = ReplyCache(tmp_path)
    assert text_of(here, "there-0") is None
    process = writer(tmp_path, "there", 2)
    process.communicate("go\n")
    here.put("here", Completion(text="here"))
    assert [text_of(here, key) for key in ("there-0", "there-1", "here")] == ["there 0", "there 1", "here"]


@pytest.mark.long
def test_two_processes_store_at_once_and_no_reply_is_lost(tmp_path: Path) -> None:
    processes = {name: writer(tmp_path, name, 200) for name in ("left", "right")}
    for process in processes.values():
        go(process)
    for process in processes.values():
        process.communicate()
    cache = ReplyCache(tmp_path)
    for name in processes:
        assert [text_of(cache, f"{name}-{number}") for number in range(200)] == [f"{name} {n}" for n in range(200)]


def test_a_process_that_is_killed_while_it_writes_loses_no_reply_that_it_had_stored(tmp_path: Path) -> None:
    process = writer(tmp_path, "killed", 10**6)
    go(process)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(20)]
    process.kill()
    told += process.communicate()[0].splitlines()
    with (tmp_path / REPLIES).open("ab") as file:
        file.write(b'{"request":"torn","reply":{"text":"ha')  # as a kill within the write would leave it
    cache = ReplyCache(tmp_path)
    assert [text_of(cache, f"killed-{n}") for n in range(len(told))] == [f"killed {n}" for n in range(len(told))]
    assert text_of(cache, "torn") is None
    cache.put("next", Completion(text="next"))
    assert [text_of(each, "next") for each in (cache, ReplyCache(tmp_path))] == ["next", "next"]


def test_a_folder_that_was_cleared_is_begun_anew(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    for key in "ab":
        cache.put(key, Completion(text=key))
    (tmp_path / REPLIES).unlink()
    assert text_of(cache, "c") is None
    cache.put("c", Completion(text="c"))
    assert [text_of(cache, key) for key in "abc"] == [None, None, "c"]
