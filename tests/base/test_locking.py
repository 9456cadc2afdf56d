"""One process at a time works in a folder: tried with real processes, and whatever ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.base.locking import FolderLock, check_free
from align_echo.errors import UsageError
from tests.holder import holder

TAKEN = "another process is at work in"


def test_a_folder_that_another_process_holds_is_refused_until_it_ends(tmp_path):
    with holder(tmp_path):
        with pytest.raises(UsageError, match=TAKEN):
            FolderLock(tmp_path)
        with pytest.raises(UsageError, match=TAKEN):
            check_free(tmp_path)
        check_free(tmp_path / "not there")
    FolderLock(tmp_path).close()
    assert list(tmp_path.iterdir()) == [], "nothing is left in the folder"


def test_a_killed_process_leaves_no_lock(tmp_path):
    with holder(tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        FolderLock(tmp_path).close()


def test_a_process_shares_its_own_lock_and_gives_it_back_once(tmp_path):
    def is_free() -> bool:
        code = "import sys; from pathlib import Path; from align_echo.base.locking import check_free\n"
        code += f"check_free(Path({str(tmp_path)!r}))"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0

    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.close()
    first.close()
    assert not is_free()
    del second
    assert is_free()


def test_what_is_started_by_the_holder_does_not_keep_the_lock(tmp_path):
    """As a worker of the sandbox or a browser that outlives its killed parent."""
    code = (
        "import subprocess, sys, os, signal; from pathlib import Path; from align_echo.base.locking import FolderLock\n"
        f"lock = FolderLock(Path({str(tmp_path)!r}))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.wait()
        os.kill(child, 0)
        FolderLock(tmp_path).close()


def test_a_missing_folder_cannot_be_held(tmp_path):
    with pytest.raises(FileNotFoundError):
        FolderLock(Path(tmp_path / "not there"))
