"""One file to hand on: a round trip keeps the hash, nothing runs, and what is not whole or not honest is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align_echo.errors import InterfaceError, UsageError
from align_echo.interface.contract import Interface, identity, load_interface
from align_echo.interface.hints import HintCount
from align_echo.interface.sharing import FORMAT, canonical_hash, export_interface, import_interface, read_shared
from tests.room_env import CONTRACT

KEY = "sk-prodsecret-0123456789abcdef"


def named(**changes: object) -> Interface:
    return identity(CONTRACT).model_copy(update={"name": "mine", **changes})


@pytest.fixture
def shared(tmp_path):
    file = tmp_path / "shared.json"
    export_interface(named(), file)
    return file


def altered(file: Path, change: Callable[[dict[str, Any]], object], *, hashed: bool = True) -> Path:
    record = json.loads(file.read_text())
    change(record["content"])
    if hashed:
        record["sha256"] = canonical_hash(record["content"])
    file.write_text(json.dumps(record))
    return file


def test_a_round_trip_keeps_source_record_and_hash(tmp_path):
    shipped = load_interface("webshop/probe")
    count = HintCount(rule="you need to `go to _` first.", fired=9, followed=9, failed=9)
    made = shipped.model_copy(update={"record": (count,), "source": shipped.source + "# \u00e4\r\n"})
    file = tmp_path / "new" / "probe.json"
    assert export_interface(made, file, games="embedded") is False
    written = import_interface(read_shared(file), tmp_path / "there")
    again = load_interface(written)
    assert (again.source, again.content_hash, again.record) == (made.source, made.content_hash, made.record)
    assert again.provenance.rules == made.provenance.rules
    assert json.loads(file.read_text())["content"]["versions"]["align-echo"]


def test_nothing_runs_on_the_way_out_or_in(tmp_path):
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w').write('ran')\n" + identity(CONTRACT).source
    file = tmp_path / "hostile.json"
    export_interface(named(source=source), file)
    import_interface(read_shared(file), tmp_path / "there")
    assert (tmp_path / "there" / "mine.py").read_text() == source
    assert not mark.exists()


def test_an_environment_that_is_named_is_not_imported(shared, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    def elsewhere(content):
        content["environment"] = content["contract"]["environment"] = "evil:World"
        content["provenance"]["environment"] = "evil:World"

    assert read_shared(altered(shared, elsewhere)).contract.environment == "evil:World"


def test_keys_are_taken_out_of_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    base = named()
    made = base.model_copy(
        update={
            "source": f"KEY = '{KEY}'\n{base.source}",
            "provenance": base.provenance.model_copy(update={"models": {"agent": f"http://u:{KEY}@host/v1"}}),
        }
    )
    file = tmp_path / "shared.json"
    assert export_interface(made, file) is True
    assert KEY not in file.read_text()
    assert read_shared(file).content_hash != made.content_hash


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda content: content.update(name="../../evil"), "name '../../evil', which cannot be a file's"),
        (lambda content: content.update(name=".hidden"), "cannot be a file's"),
        (lambda content: content.update(environment="other"), "names several environments"),
        (lambda content: content.update(source=content["source"] + "\n"), "a record of another source"),
        (lambda content: content.update(more=1), "more: there is no such setting"),
        (lambda content: content.pop("contract"), "content.contract"),
        (lambda content: content.update(source="\ud800"), "is no interface that was exported"),
        (lambda content: content.update(hints=[{"rule": "x", "fired": "many"}]), "hints"),
    ],
)
def test_a_file_that_was_put_together_is_refused_though_its_hash_is_right(shared, change, line):
    with pytest.raises(UsageError) as caught:
        read_shared(altered(shared, change))
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is no interface that was exported"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "does not say format"),
        (json.dumps({"format": FORMAT, "format_version": "\x1b[31m9"}), "format version [31m9"),
        (json.dumps({"format": FORMAT, "format_version": 1, "sha256": "0", "content": float("nan")}), "no interface"),
        ("\x00" * 8_000_001, "more than 8 MB"),
    ],
)
def test_what_is_no_such_file_is_one_line(tmp_path, text, line):
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_shared(file)
    assert line in str(caught.value)


def test_content_that_was_changed_has_another_hash(shared):
    altered(shared, lambda content: content.update(games="others"), hashed=False)
    with pytest.raises(UsageError, match="not as it was exported"):
        read_shared(shared)


def test_source_without_the_two_functions_is_refused(shared):
    def other(content):
        content["source"] = "x = 1"
        content["provenance"]["content_hash"] = named(source="x = 1").content_hash

    with pytest.raises(InterfaceError, match="no function InferRules"):
        read_shared(altered(shared, other))


def test_nothing_is_written_over(shared, tmp_path):
    with pytest.raises(UsageError, match="there already"):
        export_interface(named(), shared)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.json").write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        import_interface(read_shared(shared), tmp_path / "there")
    assert [file.name for file in (tmp_path / "there").iterdir()] == ["mine.json"]
    with pytest.raises(UsageError, match="rename it"):
        export_interface(named(name="a b"), tmp_path / "other.json")
