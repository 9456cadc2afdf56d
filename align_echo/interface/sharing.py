"""Export an interface as a single JSON file: source, contract, provenance and hint record, with a hash.

Fields: `format`, `format_version`, `sha256` and `content`. `sha256` hashes `content` in canonical form (sorted keys, no
whitespace, ASCII); it detects damage and does not identify the author. Import only parses the source and looks up no
environment, because that may import foreign code. The sandbox (`align_echo/interface/sandbox`) runs the interface
later.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from align_echo.base.files import read_bytes, write_atomically
from align_echo.base.plain_yaml import first_wrong, parse_json
from align_echo.errors import InterfaceError, UsageError, first_line, printable, redacted, unreadable
from align_echo.interface.contract import (
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
from align_echo.interface.hints import HintCount
from align_echo.types import Frozen
from align_echo.version import versions

FORMAT, FORMAT_VERSION = "align-echo interface", 1
LARGEST_FILE = 40 * MAX_SOURCE
"""Maximum size of an imported file, in bytes (8 MB)."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")
"""Allowed interface names in a file; they become file names."""


class SharedContent(Frozen):
    """Hashed content. `name` has no folder; `versions` lists package versions at export."""

    name: str
    environment: str
    games: str
    source: str
    contract: InterfaceContract
    provenance: Provenance
    hints: tuple[HintCount, ...]
    versions: dict[str, str]


class SharedFile(Frozen):
    """Exported interface file."""

    format: Literal["align-echo interface"]
    format_version: Literal[1]
    sha256: str
    content: SharedContent


def export_interface(interface: Interface, file: Path, *, games: str = "") -> bool:
    """Write an interface to a single file; `games` names the environment's task collection.

    Keys and passwords are removed first. Returns True if the source held any, which changes its hash. Raises
    `UsageError` if the file exists or a name is unfit, and `InterfaceError` if the source does not parse any more.
    """
    if file.exists() or file.is_symlink():
        raise UsageError(f"{file} is there already: name another file with --out")
    refuse_record_name(file)
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
    plain = _redact(content.model_dump(mode="json"))
    file.parent.mkdir(parents=True, exist_ok=True)
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, "sha256": canonical_hash(plain), "content": plain}
    write_atomically(file, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return source != interface.source


def refuse_record_name(file: Path) -> None:
    """Raise `UsageError` for a file that would be read as the record of the interface beside it."""
    beside = file.with_suffix(".py")
    if file.suffix == ".json" and beside.exists():
        raise UsageError(f"{file} would be read as the record of the interface {beside}: name another file with --out")


def read_shared(file: Path) -> Interface:
    """Read an interface from a file and check its hash, without executing it. Raises `UsageError` or `InterfaceError`.
    """
    try:
        if not file.is_file():
            raise UsageError(f"there is no file {file}")
        if file.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{file} has more than {LARGEST_FILE // 1_000_000} MB: it is no interface")
        parsed = parse_json(read_bytes(file).decode())
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(unreadable(file, error)) from error
    except ValueError as error:
        raise UsageError(f"{file} is no interface that was exported: {first_line(error)}") from error
    shared = _validate(file, parsed)
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
    """Write an interface to a folder as `.py` and `.json`, ready for `evaluate --interface`.

    Raises `UsageError` if a file exists already.
    """
    file = folder / f"{interface.name}.py"
    for target in (file, file.with_suffix(".json")):
        if target.exists() or target.is_symlink():
            raise UsageError(f"{target} is there already: name another folder with --out")
    return save_interface(interface, folder, interface.name)


def read_bindable(name: str, env: str, contract: InterfaceContract) -> Interface:
    """Read an interface to bind to an environment and its contract.

    Raises `UsageError` for a file without a record: it is not tied to an environment and needs no copy.
    """
    if has_record(name):
        return load_interface(name)
    load_interface(name, contract)
    raise UsageError(
        f"{name} has no .json beside it that ties it to another environment, so it needs no copy: "
        f"try it as it is with {command_for(env, Path(name))}"
    )


def bind_interface(interface: Interface, contract: InterfaceContract, action_format: str, folder: Path) -> Path:
    """Write a copy of an interface with another contract and action format, like `import_interface`.

    The record still names its origin. Raises `InterfaceError` if the contract cannot call its code.
    """
    mismatch = misfit(interface, contract)
    if mismatch is not None and mismatch.in_code:
        raise InterfaceError(f"{interface.name} cannot be played in {contract.environment}: {mismatch.reason}")
    provenance = interface.provenance.model_copy(update={"action_format": action_format})
    name = interface.name.rpartition("/")[2]
    copy = interface.model_copy(update={"name": name, "contract": contract, "provenance": provenance})
    return import_interface(copy, folder)


def command_for(env: str, file: Path) -> str:
    """Return the shell command to evaluate an interface file."""
    return f"align-echo evaluate --env {shlex.quote(env)} --interface {shlex.quote(str(file))} --compare"


def canonical_hash(content: Any) -> str:
    """Return the SHA-256 hex digest of canonical JSON. Raises `ValueError` for numbers outside JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _validate(file: Path, parsed: Any) -> SharedFile:
    """Validate a parsed file. Raises `UsageError`."""
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


def _redact(value: Any) -> Any:
    """Remove keys and passwords from all strings of a JSON value."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [_redact(part) for part in value]
    if isinstance(value, dict):
        return {redacted(name): _redact(part) for name, part in value.items()}
    return value
