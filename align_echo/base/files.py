"""Write files and folders atomically, clear folders, and find the cache.

Not here: JSON (`plain_yaml.py`), lines of records (`jsonl.py`), and run folders (`align_echo/run_dir.py`).
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from align_echo.base.locking import FolderLock, check_free
from align_echo.errors import UsageError, without_secrets

_BESIDE = re.compile(r"\..+\.[0-9a-f]{16}")
"""Name of an unfinished file of `write_atomically`."""


def write_atomically(path: Path, text: str | Iterable[str]) -> Path:
    """Write a text, or lines one after another, so that readers see either the old content or the new one, never a
    part.

    Keys and passwords are removed, and invalid Unicode (from a name that is not UTF-8) becomes question marks.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        # Not `tempfile`: only the owner could read its files.
        with temporary.open("x", encoding="utf-8", errors="replace", newline="") as stream:
            stream.writelines(map(without_secrets, [text] if isinstance(text, str) else text))
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)  # the user knows no other name
        raise
    return path


def write_folder_atomically(folder: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a folder beside this path, then give it this name: readers see a complete folder or none.

    A folder that another process wrote meanwhile stays. What killed processes left beside it is removed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        with suppress(UsageError):  # another process is at work in it
            check_free(leftover)
            shutil.rmtree(leftover, ignore_errors=True)
    temporary = folder.parent / f".{folder.name}.{secrets.token_hex(8)}"
    temporary.mkdir()
    try:
        with FolderLock(temporary):
            write(temporary)
            try:
                temporary.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def check_cache_room(folder: Path, needed: int) -> None:
    """Raise `UsageError` if the disk of a folder of the cache has less than `needed` bytes free."""
    parent = next(each for each in folder.absolute().parents if each.exists())
    free = shutil.disk_usage(parent).free
    if free < needed:
        room = f"{free / 1e6:,.0f} MB are free where {folder} would be, and {needed / 1e6:,.0f} MB are needed"
        raise UsageError(f"{room}: make room, or set ALIGN_ECHO_CACHE to another folder")


def cache_folder() -> Path:
    """Return `$ALIGN_ECHO_CACHE`, or else align-echo's folder in the user's cache directory."""
    configured = os.environ.get("ALIGN_ECHO_CACHE")
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "align-echo"


def entries(path: Path) -> list[Path]:
    """List a folder, without unfinished files of a killed process."""
    return [entry for entry in path.iterdir() if not _BESIDE.fullmatch(entry.name)]


def drop_half_written(path: Path) -> None:
    """Remove unfinished files of a killed process anywhere in a folder."""
    for file in path.rglob(".*"):
        if _BESIDE.fullmatch(file.name) and file.is_file():
            file.unlink()


def clear(path: Path, names: Collection[str]) -> None:
    """Remove the files and folders of these names from a folder."""
    for name in names:
        entry = path / name
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)


# ---------------------------------------------------------------- read files in third-party folders safely

LONGEST_LINE = 64 * 2**20
"""Maximum bytes of a line of records: an episode of hundreds of turns with all tokens has a tenth of that."""

LARGEST_FILE = 256 * 2**20
"""Maximum bytes of a file read at once."""


def open_file(path: Path, *, folder: Path | None = None) -> BufferedReader:
    """Open a file for reading. With `folder`, a link out of it is refused.

    Raises `UsageError` for anything but a regular file, and `OSError` as `open`.
    """
    if folder is not None and not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path} leads out of {folder}: put the file itself there")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path} is not a regular file: take it out of the folder")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, *, folder: Path | None = None) -> bytes:
    """Read a whole file. Raises as `open_file`, and `UsageError` for a file of more than `LARGEST_FILE` bytes."""
    with open_file(path, folder=folder) as stream:
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{path} is larger than {LARGEST_FILE // 2**20} MiB: it is no such file")
    return content


def read_text(path: Path) -> str:
    """Read a whole file of UTF-8. Raises as `read_bytes`, and `UnicodeDecodeError`."""
    return read_bytes(path).decode()


def read_lines(path: Path, *, folder: Path | None = None) -> Iterator[bytes]:
    """Read a file line by line. Raises as `open_file`, and `UsageError` for a line beyond `LONGEST_LINE` bytes."""
    with open_file(path, folder=folder) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise UsageError(f"{path} line {number} is longer than {LONGEST_LINE // 2**20} MiB: it is no record")
            yield line
