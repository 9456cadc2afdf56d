"""An interface as one file to hand on: source, contract, provenance and record of hints, with a hash over all of it.

The file is JSON: `format`, `format_version`, `sha256`, and `content`, of which `sha256` is the hash (its canonical
form: keys sorted, no blanks, ASCII). The hash shows that a file is whole, not who made it. Nothing is executed here, on
the way out or in: source is parsed only, and no environment is looked up, since that may import somebody's module. It
runs once it is played, in the sandbox (`align_echo/sandbox`).
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from align_echo.errors import InterfaceError, UsageError, first_line
from align_echo.files import read_bytes, write_atomically
from align_echo.hints import HintCount
from align_echo.interface import (
    MAX_SOURCE,
    Interface,
    InterfaceContract,
    Provenance,
    check_source,
    has_record,
    hash_source,
    load_interface,
    misfit,
    save_interface,
)
from align_echo.plain_yaml import first_wrong, parse_json
from align_echo.redaction import redacted
from align_echo.run_dir import versions
from align_echo.sandbox.session import printable
from align_echo.types import Frozen

FORMAT, FORMAT_VERSION = "align-echo interface", 1
LARGEST_FILE = 40 * MAX_SOURCE
"""Bytes of a file that is read: 8 MB."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")
"""Names of interfaces that are taken from a file: they become names of files."""


class SharedContent(Frozen):
    """What is hashed. `name` has no folder; `versions` are those of the packages that exported it."""

    name: str
    environment: str
    games: str
    source: str
    contract: InterfaceContract
    provenance: Provenance
    hints: tuple[HintCount, ...]
    versions: dict[str, str]


class SharedFile(Frozen):
    """The whole file."""

    format: Literal["align-echo interface"]
    format_version: Literal[1]
    sha256: str
    content: SharedContent


def export_interface(interface: Interface, file: Path, *, games: str = "") -> bool:
    """Write an interface into one file. `games` says which collection of tasks the environment plays.

    Keys and passwords are taken out first. Returns whether the source held any, and has another hash now. Raises
    `UsageError` for a file that is there already or a name that cannot be one, `InterfaceError` for source that does
    not parse any more.
    """
    if file.exists() or file.is_symlink():
        raise UsageError(f"{file} is there already: name another file with --out")
    name = interface.name.rpartition("/")[2]
    if not NAME.fullmatch(name):
        raise UsageError(f"an interface is handed on under a name of letters, digits, _ and -, not {name!r}: rename it")
    source = redacted(interface.source)
    check_source(source, interface.contract)
    content = SharedContent(
        name=name,
        environment=interface.contract.environment,
        games=games,
        source=source,
        contract=interface.contract,
        provenance=interface.provenance.model_copy(update={"content_hash": hash_source(source)}),
        hints=interface.record,
        versions=versions(),
    )
    plain = _without_keys(content.model_dump(mode="json"))
    file.parent.mkdir(parents=True, exist_ok=True)
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, "sha256": canonical_hash(plain), "content": plain}
    write_atomically(file, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return source != interface.source


def read_shared(file: Path) -> Interface:
    """The interface in a file, its hash checked, nothing executed. Raises `UsageError` or `InterfaceError`."""
    try:
        if not file.is_file():
            raise UsageError(f"there is no file {file}")
        if file.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{file} has more than {LARGEST_FILE // 1_000_000} MB: it is no interface")
        parsed = parse_json(read_bytes(file).decode())
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{file} is no interface that was exported: {first_line(error)}") from error
    shared = _checked(file, parsed)
    content = shared.content
    interface = Interface(
        name=content.name, source=content.source, contract=content.contract, provenance=content.provenance,
        record=content.hints,
    )  # fmt: skip
    try:
        check_source(interface.source, interface.contract)
    except InterfaceError as error:
        raise InterfaceError(f"{file}: {error}") from error
    return interface


def import_interface(interface: Interface, folder: Path) -> Path:
    """Write an interface that was read into a folder, as `evaluate --interface` takes it: its `.py` file, with the
    `.json` beside it. Raises `UsageError` for files that are there already."""
    file = folder / f"{interface.name}.py"
    for there in (file, file.with_suffix(".json")):
        if there.exists() or there.is_symlink():
            raise UsageError(f"{there} is there already: name another folder with --out")
    return save_interface(interface, folder, interface.name)


def read_bindable(name: str, env: str, contract: InterfaceContract) -> Interface:
    """Read an interface that is to be bound to an environment and its contract.

    Raises `UsageError` for a file without a record, which nothing ties to another environment: it needs no copy.
    """
    if has_record(name):
        return load_interface(name)
    load_interface(name, contract)
    raise UsageError(
        f"{name} has no .json beside it that ties it to another environment, so it needs no copy: "
        f"try it as it is with {command_for(env, Path(name))}"
    )


def bind_interface(interface: Interface, contract: InterfaceContract, action_format: str, folder: Path) -> Path:
    """Write a copy of an interface that is played by another contract and action format, as `import_interface` does.

    Where it was made stays on its record. Raises `InterfaceError` for code that the contract cannot call.
    """
    found = misfit(interface, contract)
    if found is not None and found.in_code:
        raise InterfaceError(f"{interface.name} cannot be played in {contract.environment}: {found.reason}")
    provenance = interface.provenance.model_copy(update={"action_format": action_format})
    name = interface.name.rpartition("/")[2]
    copy = interface.model_copy(update={"name": name, "contract": contract, "provenance": provenance})
    return import_interface(copy, folder)


def command_for(env: str, file: Path) -> str:
    """The command that measures an interface in a file, as a shell takes it."""
    return f"align-echo evaluate --env {shlex.quote(env)} --interface {shlex.quote(str(file))} --compare"


def canonical_hash(content: Any) -> str:
    """SHA-256 over JSON in its canonical form, in hex digits. Raises `ValueError` for numbers that JSON has not."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _checked(file: Path, parsed: Any) -> SharedFile:
    """A parsed file with all that it says of itself checked. Raises `UsageError`."""
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        raise UsageError(f"{file} is no interface that was exported: it does not say format {FORMAT!r}")
    if parsed.get("format_version") != FORMAT_VERSION:
        version = printable(str(parsed.get("format_version"))[:20])
        raise UsageError(
            f"{file} has format version {version}, and {FORMAT_VERSION} is read here: another align-echo wrote it"
        )
    try:
        if parsed.get("sha256") != canonical_hash(parsed.get("content")):
            raise UsageError(f"{file} is not as it was exported: its content has another SHA-256 than it says")
        json.dumps(parsed, ensure_ascii=False).encode()
        shared = SharedFile.model_validate_json(json.dumps(parsed))
    except UsageError:
        raise
    except ValidationError as error:
        raise UsageError(f"{file} is no interface that was exported: {printable(first_wrong(error)[:300])}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no interface that was exported: {first_line(error)}") from error
    content = shared.content
    if not NAME.fullmatch(content.name):
        raise UsageError(f"{file} has an interface of the name {content.name[:80]!r}, which cannot be a file's")
    if content.contract.environment != content.environment:
        raise UsageError(f"{file} names several environments: it was put together by hand")
    if content.provenance.content_hash != hash_source(content.source):
        raise UsageError(f"{file} has a record of another source: it was put together by hand")
    return shared


def _without_keys(value: Any) -> Any:
    """JSON without keys and passwords in any of its texts."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [_without_keys(part) for part in value]
    if isinstance(value, dict):
        return {redacted(name): _without_keys(part) for name, part in value.items()}
    return value
